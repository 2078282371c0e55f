"""What the README and docs/benchmarks-dynamic.md say of dynamic systems."""

from tests.words.quotes import Page, read


def case_of(name):
    return next(case for case in read("dynamic/benchmarks.json")["cases"] if case["name"] == name)


def held_back(pool, candidate):
    return next(row for row in read("dynamic/choice.json")["pools"][pool] if row["candidate"] == candidate)


def test_the_readme_has_the_medians_of_the_table():
    case = case_of("Silverbox, at most 33")
    counts = case["runs"][0]["n_parameters"], case["runs"][0]["n_free"]
    assert Page("README.md").says(
        "{} parameters ({} free in the fit) have errors of {}, {} and {} mV on the three tests",
        *counts,
        *case["median"],
    )


def test_the_page_quotes_the_tables_and_the_choice():
    page = Page("docs/benchmarks-dynamic.md")
    silverbox = {
        words: held_back("Silverbox, causal", words)["median"]
        for words in (
            "4 states: quintic, state-tanh",
            "4 states: cubic, state-tanh",
            "2 states: cubic, tanh",
            "2 states: cubic, state-tanh",
        )
    }
    four, cubic, seeing, blind = silverbox.values()
    assert page.says("choose a quintic there ({} mV) before a cubic ({})", four, cubic)
    assert page.says("a cubic with such a tanh ({} mV) rather than one of the state alone ({})", seeing, blind)
    assert page.says("became the {} / {} / {} of the table", *case_of("Silverbox, oversampled")["median"])
    assert page.says("the {} V of the table owe something to luck", *case_of("Cascaded tanks")["median"])
    tanks = [
        held_back("Cascaded tanks", f"{words}; no feedthrough")["median"]
        for words in ("2 states: tanh, tanh", "3 states: tanh")
    ]
    assert page.says("by {} V to {} for three states and a single tanh", *tanks)
    assert page.says("the causal model has {} mV and misses", *case_of("Wiener-Hammerstein")["median"])
    assert page.says("it has {} mV, and looks ahead", *case_of("Wiener-Hammerstein, oversampled")["median"])
    emps = held_back("EMPS", "3 states: state-tanh, state-tanh; no feedthrough; integrating")
    lowest, middle, highest = sorted(run["error"] for run in emps["runs"] if run["fold"] == 0)
    assert page.says("with {} mm for two seeds of three and {} for the other", lowest, highest)
    assert abs(middle - lowest) < 0.01
    assert page.says("are chosen, and have {} mm", *case_of("EMPS")["median"])
