"""What docs/compression.md and the README say of networks trained to the end, and of starts from Jacobians."""

import pytest

from tests.words.quotes import Page, median, read

PAGE = "docs/compression.md"
RELU, GELU = "ReLU, one hidden layer", "GELU, one hidden layer"


def told(case, method, n_inputs, what="median_drop", rank=None):
    cells = read(f"compression/{case}.json")["cells"]
    wanted = {"method": method, "n_inputs": n_inputs} | ({} if rank is None else {"rank": rank})
    return median(cells, what, **wanted)


def both(method, n_inputs, rank=10):
    """Divergence and drop on MNIST."""
    return [told("mnist-students", method, n_inputs, what, rank) for what in ("median_distance", "median_drop")]


def test_many_inputs_are_a_tie_on_mnist():
    page = Page(PAGE)
    assert page.says("ours ends at a divergence of {} and loses {} points; a ReLU", *both("ours", 20_000))
    assert page.says("one hidden layer {} and {}, a GELU student {} and {}.", *both(RELU, 20_000), *both(GELU, 20_000))
    divergences = [both(method, 20_000)[0] for method in ("ours", RELU, GELU)]
    assert max(divergences) < 1.15 * min(divergences)


def test_four_functions():
    page = Page(PAGE)
    for text, method in (("ours loses {} points (worst {}),", "ours"), ("ReLU student {} (worst {}),", RELU)):
        values = [told("mnist-students", method, 20_000, what, 4) for what in ("median_drop", "worst_drop")]
        assert page.says(text, *values)


def test_few_inputs_are_ours_on_mnist():
    page = Page(PAGE)
    few = [both(method, 200) for method in ("ours", GELU, RELU, "pruned")]
    assert page.says("{} and {} points, against {} and {} for GELU,", *few[0], *few[1])
    assert page.says("for GELU, {} and {} for ReLU, {} and {} for the pruned part", *few[2], *few[3])
    cells = {c["method"]: c["runs"] for c in read("compression/mnist-students.json")["cells"] if c["n_inputs"] == 200}
    for method in (RELU, GELU, "ReLU, two", "GELU, two", "pruned"):
        assert all(a["distance"] < b["distance"] for a, b in zip(cells["ours"], cells[method], strict=True)), method


def test_few_bytes():
    cells = read("compression/mnist-students.json")["cells"]
    ours = next(cell for cell in cells if cell["method"] == "ours, fewer bits")
    rounded = next(cell for cell in cells if cell["method"] == "original, 4 bits")
    assert Page(PAGE).says(
        "r = {} trained in {} bits loses {} points in {} bytes; four bits of the original lose {} in {}.",
        *(ours["runs"][0][name] for name in ("rank", "n_bits")),
        ours["median_drop"],
        ours["runs"][0]["bytes"],
        rounded["median_drop"],
        rounded["runs"][0]["bytes"],
    )


def test_students_in_few_bits_do_as_well():
    cell = next(c for c in read("compression/mnist-students.json")["cells"] if c["method"] == "ReLU, fewer bits")
    first = cell["runs"][0]
    assert Page(PAGE).says(
        "{} ReLU units lose {} points in {} bytes", first["rank"], cell["median_drop"], first["bytes"]
    )


def head(method):
    """Divergence and drop on the head of LeNet-5 with many inputs."""
    return [told("cnn", method, 20_000, what) for what in ("median_distance", "median_drop")]


def test_ours_is_ahead_on_the_head_of_a_convolutional_network():
    page = Page(PAGE)
    one, relu, gelu, pruned = (head(method) for method in ("ours", RELU, GELU, "pruned"))
    assert page.says("one layer of ours ends at a divergence of {} and loses {} points; ReLU {} and {},", *one, *relu)
    assert page.says("GELU {} and {}, the pruned head {} and {}.", *gelu, *pruned)
    two, others = head("ours, two layers"), head("GELU, two")
    assert page.says("Two layers of ours end at {} and lose {}; GELU with two {} and {}.", *two, *others)
    few = [*head("ours, fewer bits"), *head("GELU, fewer bits")]
    assert page.says("in 5 bits end at {} and lose {} points; a GELU student as wide {} and {}.", *few)
    assert page.says("from a random start one layer ends at {}", head("ours, random start")[0])
    few_inputs = [
        told("cnn", method, 200, what)
        for method in ("ours", RELU, "ours, two layers", "GELU, two")
        for what in ("median_distance", "median_drop")
    ]
    assert page.says(
        "one layer of ours ends at {} and loses {} points, ReLU {} and {}; "
        "two layers of ours {} and {}, GELU with two {} and {}.",
        *few_inputs,
    )
    assert one < min(relu, gelu, pruned) and two < min(others, head("ReLU, two")) and few[:2] < few[2:]


def test_the_transformer_is_a_tie_by_accuracy():
    cells = {(c["method"], c["training"]): c for c in read("compression/vit.json")["cells"]}
    keys = [(method, "joint") for method in ("ours", "narrow GELU", "pruned")]
    assert Page(PAGE).says(
        "{} points after joint training, {} for narrow GELU networks, {} for pruned ones",
        *(cells[key]["median_drop"] for key in keys),
    )
    distances = [cells[key]["median_distance"] for key in keys]
    assert Page(PAGE).says("divergences {}, {} and {}. From", *distances)
    random = cells["ours, random start", "joint"]
    assert Page(PAGE).says(
        "ends at the same place, {} points and {}.", random["median_drop"], random["median_distance"]
    )
    assert distances[0] < 0.9 * min(distances[1:])


def far(method, n_inputs=20_000):
    return told("fashion-students", method, n_inputs, "median_distance")


def test_ours_loses_on_fashion_mnist():
    page = Page(PAGE)
    divergences = [far(method) for method in ("ours", RELU, GELU)]
    assert page.says("a divergence of {} against {} for ReLU and {} for GELU with one hidden", *divergences)
    assert divergences[0] > max(divergences[1:])
    assert page.says("takes students to {} and {}; our two", far("ReLU, two"), far("GELU, two"))
    assert page.says("go astray ({})", far("ours, two layers"))
    few = [told("fashion-students", f"{name}, fewer bits", 20_000) for name in ("ours", "ReLU")]
    assert page.says("functions in 5 bits lose {} points, as many ReLU units {}.", *few)
    rows = [far(method, 200) for method in ("ours", "ours, splines", "GELU, two")]
    assert page.says("With 200 inputs ours has {}, splines {}, GELU with two layers {}.", *rows)


def start(kind, n_inputs, steps, what="median_distance", part="mnist"):
    cells = read("compression/starts.json")["cells"]
    return median(cells, what, part=part, start=kind, n_inputs=n_inputs, steps=steps)


def test_the_jacobians_pay():
    page = Page(PAGE)
    numbers = (20, 50, 100, 200, 20_000)
    for steps in (100, 1000):
        assert all(start("Jacobians", n, steps) < start("random", n, steps) for n in numbers)
    assert page.says(
        "hundred steps from Jacobians end at {} after {} s, a thousand from a random start at {} after {} s.",
        start("Jacobians", 20_000, 100),
        start("Jacobians", 20_000, 100, "median_seconds"),
        start("random", 20_000, 1000),
        start("random", 20_000, 1000, "median_seconds"),
    )
    assert page.says(
        "with 20 inputs and 1000 steps, {} against {}, in the worst draw {} against {}.",
        start("Jacobians", 20, 1000),
        start("random", 20, 1000),
        start("Jacobians", 20, 1000, "worst_distance"),
        start("random", 20, 1000, "worst_distance"),
    )
    assert sum(start("Jacobians", n, steps, "failed") for n in numbers for steps in (100, 1000)) == 0
    assert start("Jacobians", 200, 1000, part="exact part") < 1e-12 < start("random", 200, 1000, part="exact part")


def test_the_readme_claims_what_the_table_shows():
    page = Page("README.md")
    assert page.says(
        "12 % of the part's parameters lose {} points of accuracy with 200 inputs and {} with 20 000, without labels",
        told("mnist-students", "ours", 200, rank=10),
        told("mnist-students", "ours", 20_000, rank=10),
    )
    assert page.says(
        "GELU network of that size loses {} and {}",
        told("mnist-students", GELU, 200, rank=10),
        told("mnist-students", GELU, 20_000, rank=10),
    )
    assert "gains" not in page.text.lower().split("networks:")[1][:800]
    parameters = next(c for c in read("compression/mnist-students.json")["cells"] if c["method"] == "ours")["runs"][0]
    whole = read("compression/mnist-students.json")["part_parameters"]
    assert 100.0 * parameters["parameters"] / whole == pytest.approx(12, abs=0.5)


def test_the_regression():
    score = read("compression/tabular.json")["score"]
    ours, gelu, two = (told("tabular", method, 20_000) for method in ("ours", GELU, "ours, two layers"))
    page = Page(PAGE)
    assert page.says(
        "100 R² of {} for ours, {} for a GELU student, {} for our two layers, {} for the original.",
        *(score - drop for drop in (ours, gelu, two)),
        score,
    )
    far = [told("tabular", m, 20_000, "median_distance") for m in (GELU, "ours", "ours, two layers", "ours, splines")]
    assert page.says("GELU is ahead ({} against {}), and our two layers and splines draw level ({} and {})", *far)
    assert far[0] < far[1]
