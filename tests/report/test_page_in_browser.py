"""The page as a person meets it, in a headless Chromium."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from .browser import browser, what_is_missing
from .results import MAKERS

pytestmark = pytest.mark.skipif(bool(what_is_missing()), reason=what_is_missing())

NAMES = {
    "inputs": ["<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", '"x" onfocus="alert(3)'],
    "outputs": ["'&amp;'", "<b>bold</b>", "{{ 7 * 7 }}"],
}
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−", "0123456789--")


@pytest.fixture(scope="module")
def driver():
    with browser() as found:
        yield found


@pytest.fixture
def open_page(driver, tmp_path):
    """Writes the page of a result and opens it; whatever the console says is an error."""

    def open_page(result, width=1000, **options):
        result.report(tmp_path / "page.html", **options)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get((tmp_path / "page.html").as_uri())
        return driver

    yield open_page
    assert driver.get_log("browser") == []


def texts(driver, selector):
    return driver.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector
    )


def find(driver, selector):
    return driver.find_element("css selector", selector)


def find_all(driver, selector):
    return driver.find_elements("css selector", selector)


def number(text):
    """What the page means by 1.5·10⁻³."""
    return float(re.sub(r"·10([-\d]+)", r"e\1", text.translate(SUPERSCRIPTS)))


def move(driver, k, place):
    """Put slider k at a place from 0 to 1000, as a hand would."""
    driver.execute_script(
        "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))",
        find(driver, f"#slider-{k}"),
        place,
    )


def outputs(driver):
    return [number(text) for text in texts(driver, ".readout output")]


@pytest.mark.slow
@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_sliders_show_what_the_model_computes(maker, open_page):
    result = maker()
    driver = open_page(result)
    X, model = result.samples.shown.X, result.decoupling
    low, high, x = X.min(axis=0), X.max(axis=0), X.mean(axis=0)
    scale = np.ptp(model(X), axis=0).max() + np.abs(model(X)).max()
    assert_allclose(outputs(driver), model(x[None])[0], rtol=1e-3, atol=1e-3 * scale)
    n_sliders = len(find_all(driver, ".slider"))
    assert n_sliders == (model.n_inputs if model.n_inputs <= 8 else 1)
    for k, place in zip(range(n_sliders), (1000, 130, 777), strict=False):
        picked = k
        if n_sliders < model.n_inputs:
            picked = int(find(driver, "#which").get_property("value"))
        if not find(driver, f"#slider-{k}").is_enabled():
            assert low[picked] == high[picked]
            continue
        before = picture(driver)
        move(driver, k, place)
        x[picked] = low[picked] + place / 1000 * (high[picked] - low[picked])
        assert_allclose(outputs(driver), model(x[None])[0], rtol=1e-3, atol=1e-3 * scale)
        assert number(find(driver, f"#number-{k}").text) == pytest.approx(x[picked], rel=1e-3, abs=1e-12)
        assert picture(driver) != before
    u = model.inner_inputs(x[None])[0][0]
    entering = [number(text) for text in texts(driver, ".node.function .enters")[: len(u)]]
    assert_allclose(entering, u, rtol=0.01, atol=1e-6 * np.abs(u).max())
    driver.execute_script("arguments[0].click()", find(driver, "#reset"))
    assert_allclose(outputs(driver), model(X.mean(axis=0)[None])[0], atol=1e-3 * scale)


def picture(driver):
    """Everything in the diagram that moves."""
    return driver.execute_script("""
        const of = (names) => (element) => names.map((name) => element.getAttribute(name));
        return [...[...document.querySelectorAll("#diagram .dot")].map(of(["cx", "cy"])),
                ...[...document.querySelectorAll("#diagram .edge")].map(of(["style", "class"]))];
    """)


@pytest.mark.slow
def test_an_input_is_moved_by_keys_and_any_of_many_can_be_picked(open_page):
    result = MAKERS["many_inputs"]()
    driver = open_page(result)
    X = result.samples.shown.X
    which = find(driver, "#which")
    assert len(texts(driver, "#which option")) == 512
    driver.execute_script("arguments[0].value = 400; arguments[0].dispatchEvent(new Event('change'))", which)
    assert find(driver, ".slider label").text == "x401"
    find(driver, "#slider-0").send_keys("\ue010")  # the End key
    x = X.mean(axis=0)
    x[400] = X[:, 400].max()
    values = result.decoupling(x[None])[0]
    assert_allclose(outputs(driver), values, rtol=2e-3, atol=1e-3 * np.abs(values).max())


def test_signals_outside_the_samples_are_marked(open_page):
    driver = open_page(MAKERS["inputs_on_a_line"]())
    assert find(driver, "#outside").text == "" and find_all(driver, ".node.off") == []
    move(driver, 0, 1000)
    assert find_all(driver, ".node.off")
    assert find(driver, "#outside").text.startswith("Outside what the samples visit")


def test_pointing_at_a_function_or_moving_by_keys_reads_its_values(open_page):
    from selenium.webdriver import ActionChains

    result = MAKERS["values_only"]()
    driver = open_page(result)
    card = find(driver, ".card")
    at_rest = find(driver, ".card .reading").text
    chart = find(driver, ".card svg")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    ActionChains(driver).move_to_element_with_offset(chart, 40, 0).perform()
    text = find(driver, ".card .reading").text
    u, value, band = re.fullmatch(r"u = (\S+), g\(u\) = (\S+) ± (\S+)", text).groups()
    function = result.decoupling.g[0]
    at = np.full((1, function.rank), number(u))
    assert number(value) == pytest.approx(function(at)[0, 0], abs=2e-3)
    assert number(band) == pytest.approx(result.uncertainty(at[0], level=0.95)[0][0, 0], rel=0.02)
    assert find(driver, ".card .cross").is_displayed()
    ActionChains(driver).move_to_element(find(driver, "h1")).perform()
    assert card.find_element("css selector", ".reading").text == at_rest
    driver.execute_script("arguments[0].focus()", chart)
    chart.send_keys("\ue011")  # the Home key
    lowest = result.decoupling.inner_inputs(result.samples.shown.X)[0][:, 0].min()
    assert number(re.match(r"u = (\S+),", find(driver, ".card .reading").text).group(1)) == pytest.approx(
        lowest, rel=1e-3
    )
    assert "u = " in chart.get_attribute("aria-valuetext")


def test_names_of_the_user_are_texts_and_run_nothing(open_page):
    from selenium.common.exceptions import NoAlertPresentException

    title = "</title><script>alert(4)</script><h1 onclick=alert(5)>"
    driver = open_page(MAKERS["two_layers"](), title=title, **NAMES)
    move(driver, 1, 900)
    with pytest.raises(NoAlertPresentException):
        driver.switch_to.alert.text  # noqa: B018 (reading it asks the browser)
    assert driver.title == title and find(driver, "h1").text == title
    assert find_all(driver, "img") == [] and len(find_all(driver, "script")) == 2
    assert texts(driver, ".slider label") == NAMES["inputs"]
    assert texts(driver, "#good tbody th") == NAMES["outputs"]
    attributes = driver.execute_script(
        "return [...document.querySelectorAll('*')].flatMap(e => [...e.attributes].map(a => a.name))"
    )
    assert not any(name.startswith("on") for name in attributes)


@pytest.mark.parametrize("clipboard", [True, False])
def test_buttons_copy_the_sources(clipboard, open_page):
    result = MAKERS["one_layer"]()
    driver = open_page(result)
    if clipboard:
        driver.execute_script("navigator.clipboard.writeText = async (text) => { window.taken = text; }")
    else:
        refuse = "navigator.clipboard.writeText = () => Promise.reject(new Error('refused'));"
        driver.execute_script(refuse + "document.execCommand = () => false;")
    expected = {"latex": result.decoupling.formula("latex"), "python": result.decoupling.formula("python")}
    driver.execute_script("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    for kind, source in expected.items():
        button = find(driver, f"button[data-copy=source-{kind}]")
        driver.execute_script("arguments[0].click()", button)
        taken = driver.execute_script("return window.taken || String(window.getSelection())")
        assert taken.strip() == source.strip()
        assert button.text.startswith("Copied" if clipboard else "Selected: press Ctrl+C")


def test_nothing_is_loaded_and_nothing_is_wider_than_a_phone(open_page):
    for name in ("two_layers", "many_inputs"):
        driver = open_page(MAKERS[name](), width=360)
        assert driver.execute_script("return performance.getEntriesByType('resource').length") == 0
        driver.execute_script("document.querySelector('.slider output').textContent = '−7.221·10⁻¹³'")
        assert driver.execute_script("return document.documentElement.scrollWidth") <= 360


def test_long_names_leave_room_for_the_sliders_on_a_phone(open_page):
    names = [f"temperature of the water in inlet {i}" for i in range(3)]
    driver = open_page(MAKERS["two_layers"](), width=400, inputs=names)
    assert min(element.size["width"] for element in find_all(driver, ".slider input")) > 100


def test_captions_are_read_along_and_not_word_by_word(open_page):
    driver = open_page(MAKERS["one_layer"]())
    find(driver, "#formula details:last-of-type summary").click()
    heights = driver.execute_script("return [...document.querySelectorAll('caption')].map(e => e.offsetHeight)")
    assert len(heights) == 3 and all(0 < height < 70 for height in heights)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_what_is_behind_them(scheme, open_page, driver):
    try:
        preferred = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", preferred)
        open_page(MAKERS["values_only"]())
        for grade in ("exact", "poor"):
            driver.execute_script("document.querySelector('.verdict').className = 'verdict ' + arguments[0]", grade)
            assert contrast(colour_of(driver, ".grade", "color"), colour_of(driver, ".grade", "background-color")) > 4.5
        panel = colour_of(driver, ".controls", "background-color")
        for selector in (".outside", ".aside", ".readout .name", ".verdict p"):
            assert contrast(colour_of(driver, selector, "color"), panel) > 4.5, selector
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def colour_of(driver, selector, name):
    return [int(c) for c in re.findall(r"\d+", find(driver, selector).value_of_css_property(name))[:3]]


def contrast(a, b):
    """The ratio of luminances that the guidelines for accessible pages ask to be 4.5 or more for small texts."""
    linear = [np.where((v := np.array(c) / 255) <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4) for c in (a, b)]
    low, high = sorted(float(c @ [0.2126, 0.7152, 0.0722]) for c in linear)
    return (high + 0.05) / (low + 0.05)


def test_the_page_follows_the_dark_scheme(open_page, driver):
    try:
        scheme = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
        open_page(MAKERS["one_layer"]())
        colour = find(driver, "body").value_of_css_property("background-color")
        assert max(int(c) for c in re.findall(r"\d+", colour)[:3]) < 60
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", **scheme})  # on white paper
        ink = find(driver, "body").value_of_css_property("color")
        assert max(int(c) for c in re.findall(r"\d+", ink)[:3]) < 60
        assert not any(element.is_displayed() for element in find_all(driver, ".needs-script"))
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
