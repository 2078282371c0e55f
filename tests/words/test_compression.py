"""What docs/compression.md says of the paper's experiments."""

from tests.words.quotes import Page, median, read

FASHION = read("compression/fashion.json")["cells"]
MNIST = read("compression/mnist.json")["cells"]


def drop(method, size, cells=FASHION):
    return median(cells, "median_drop", method=method, size=size)


def drops(method, cells=FASHION):
    return [drop(method, size, cells) for size in range(3)]


def savings(method, *sizes):
    return [median(FASHION, "savings_percent", method=method, size=size) for size in sizes]


def test_the_two_layer_shapes_fit_the_caption():
    assert Page("docs/compression.md").says(
        "do ({}, {} and {} %; r = 10 and 12 save {} and {} %)",
        *savings("TS-PROJ-2", 0, 1, 2),
        *savings("TS-PROJ-1", 0, 1),
    )


def test_as_printed_the_picture_of_the_paper_comes_back():
    page = Page("docs/compression.md")
    assert page.says("loses much and is erratic (medians {}, {}, {} points;", *drops("Zniyed"))
    assert page.says("TS-PROJ-1 loses less at every size ({}, {}, {}).", *drops("TS-PROJ-1"))
    assert drop("TS-PROJ-1", 0) < drop("TS-Zniyed", 0) < drop("Zniyed", 0)
    assert drop("TS-PROJ-1", 1) < drop("TS-Zniyed", 1) < drop("Zniyed", 1)
    assert drop("TS-PROJ-1", 2) < drop("TS-Zniyed", 2)
    assert page.says("At r = 12 it is within the paper's claim of 2.5 points.")
    assert drop("TS-PROJ-1", 1) < 2.5


def test_two_layers():
    page = Page("docs/compression.md")
    assert page.says("(10, 12) loses {} where r = 10 loses {} with", drop("TS-PROJ-2", 0), drop("TS-PROJ-1", 0))
    assert page.says(
        "(10, 15) loses {} where r = 12, with half a percent less savings, loses {}:",
        drop("TS-PROJ-2", 1),
        drop("TS-PROJ-1", 1),
    )
    assert drop("TS-PROJ-2", 0) < drop("TS-PROJ-1", 0)
    assert drop("TS-PROJ-2", 1) < drop("TS-PROJ-1", 1)


def test_which_iterate_is_kept():
    assert Page("docs/compression.md").says(
        "with the best one Zniyed's loses {}, {} and {}, TS-PROJ-1 {}, {} and {}.",
        *drops("Zniyed, best iterate"),
        *drops("TS-PROJ-1, best iterate"),
    )
    assert drop("Zniyed, best iterate", 0) < drop("TS-PROJ-1, best iterate", 0)


def test_with_the_output_inside():
    assert Page("docs/compression.md").says(
        "TS-PROJ-1 loses {}, {} and {} points, TS-PROJ-2 {}, {} and {}.",
        *drops("TS-PROJ-1, output inside"),
        *drops("TS-PROJ-2, output inside"),
    )


def test_ours_on_fashion_mnist():
    page = Page("docs/compression.md")
    assert page.says("Ours: {} points at r = 12 from the 200 inputs", drop("refined, S = 200", 1))
    assert page.says("for that only), {} from 20 000. With labels it ends above", drop("refined, 20 000 inputs", 1))
    assert page.says("is as good on the 200 inputs ({});", drop("ReLU distilled, recombined", 1))
    assert drop("fine-tuned", 1) < 0


def test_mnist_as_printed_and_ours():
    page = Page("docs/compression.md")
    assert page.says("is erratic**: medians of {}, {} and {} points", *drops("Zniyed", MNIST))
    assert page.says("Two stages help it ({}, {}, {})", *drops("TS-Zniyed", MNIST))
    assert page.says("TS-PROJ-1 loses less at every size ({}, {}, {}): the paper's", *drops("TS-PROJ-1", MNIST))
    assert all(
        a < b < c for a, b, c in zip(*(drops(m, MNIST) for m in ("TS-PROJ-1", "TS-Zniyed", "Zniyed")), strict=True)
    )
    assert page.says("with the best one it loses {}, {} and {}.", *drops("Zniyed, best iterate", MNIST))
    assert page.says("part, TS-PROJ-1 loses {}, {} and {} points: it", *drops("TS-PROJ-1, output inside", MNIST))
    few, many = (drop(name, 0, MNIST) for name in ("refined, S = 200", "refined, 20 000 inputs"))
    assert page.says("{} points at 87.7 % savings from 200 inputs", few)
    assert page.says("for that only), {} with 20 000 inputs.", many)
    recombined = drop("ReLU distilled, recombined", 0, MNIST)
    assert page.says("network as well ({} to {}): asking", drop("ReLU distilled", 0, MNIST), recombined)
