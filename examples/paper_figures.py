"""The drawings of the paper in their own form, for docs/benchmarks/paper.md: decouplings, ParaTuck-L, the two networks.

python examples/paper_figures.py docs/benchmarks/paper
"""

import sys
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.patches import Ellipse, FancyArrow, FancyBboxPatch, Polygon, Rectangle

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"


def canvas(width, height):
    """A figure without axes, in units of a tenth of an inch."""
    figure = Figure((width / 10, height / 10), dpi=150)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, width), ylim=(0, height), aspect="equal")
    ax.axis("off")
    return figure, ax


def block(ax, x, y, width, height, text, size="", colour=BLUE):
    """A matrix: a box with its name, and its size below it."""
    ax.add_patch(Rectangle((x, y - height / 2), width, height, facecolor=colour, alpha=0.25, edgecolor=colour))
    ax.text(x + width / 2, y, text, ha="center", va="center", fontsize=11)
    ax.text(x + width / 2, y - height / 2 - 1.3, size, ha="center", va="top", fontsize=8)


def arrow(ax, x, y, length):
    style = {"width": 0.12, "head_width": 0.9, "head_length": 1.0, "length_includes_head": True, "color": "black"}
    ax.add_patch(FancyArrow(x, y, length, 0, **style))


def functions(ax, x, y, height, layer, rank):
    """A layer of univariate functions: circles one below the other."""
    for dy, text in ((height / 3, rf"$g_{{{layer}}}^{{(1)}}$"), (-height / 3, rf"$g_{{{layer}}}^{{({rank})}}$")):
        ax.add_patch(Ellipse((x, y + dy), 5.2, 5.2, facecolor=ORANGE, alpha=0.25, edgecolor=ORANGE))
        ax.text(x, y + dy, text, ha="center", va="center", fontsize=9)
    ax.text(x, y, r"$\vdots$", ha="center", va="center", fontsize=12)


def decoupling(layers):
    """x -> W_0 -> g_1 -> W_1 -> ... -> f(x). A layer is the name of its index, None a gap."""
    figure, ax = canvas(24 + 18 * len(layers), 24)
    y, x = 12.5, 1.0
    ax.text(x, y, r"$\mathbf{x}$", fontsize=13, va="center")
    x += 2.5
    arrow(ax, x, y, 3)
    block(ax, x + 3.3, y, 5, 14, r"$\mathbf{W}_0$", r"$r_1 \times m$")
    x += 8.5
    for i, layer in enumerate(layers):
        arrow(ax, x, y, 3)
        if layer is None:
            ax.text(x + 6, y, r"$\cdots$", fontsize=16, ha="center", va="center")
            x += 9
            continue
        functions(ax, x + 6, y, 17, layer, f"r_{{{layer}}}" if len(layers) > 1 else "r")
        arrow(ax, x + 9, y, 3)
        following = "n" if i == len(layers) - 1 else rf"r_{{{layer}+1}}" if layer != "1" else "r_2"
        block(ax, x + 12.3, y, 5, 14, rf"$\mathbf{{W}}_{{{layer}}}$", rf"${following} \times r_{{{layer}}}$")
        x += 17.5
    arrow(ax, x, y, 3)
    ax.text(x + 3.5, y, r"$\mathbf{f}(\mathbf{x})$", fontsize=13, va="center")
    return figure


def paratuck(diagonals, sizes):
    """A tensor as a product of matrices and of tensors whose slices are diagonal."""
    figure, ax = canvas(84, 22)
    y = 11
    cube(ax, 1, y, 9, 9, r"$\mathcal{J}$", r"$n \times m \times S$")
    ax.text(15, y, "=", fontsize=14, ha="center", va="center")
    x = 17.0
    names = [r"$\mathbf{W}_L$", None, r"$\mathbf{W}_{L-1}$", "dots", None, r"$\mathbf{W}_0$"]
    for name in names:
        if name == "dots":
            ax.text(x + 2, y, r"$\cdots$", fontsize=16, ha="center", va="center")
            x += 5
        elif name is None:
            cube(ax, x, y, 7, 7, diagonals.pop(0), sizes.pop(0), diagonal=True)
            x += 12.5
        else:
            size = {"$\\mathbf{W}_L$": r"$n \times r_L$", "$\\mathbf{W}_0$": r"$r_1 \times m$"}.get(name, "")
            block(ax, x, y, 7, 8, name, size or r"$r_L \times r_{L-1}$")
            x += 9.5
    return figure


def cube(ax, x, y, width, height, text, size, *, diagonal=False):
    """A tensor as a box with depth, with a diagonal line for diagonal slices."""
    colour, depth, low = ORANGE if diagonal else BLUE, 2.6, y - height / 2
    top = [(x, low + height), (x + depth, low + height + depth), (x + width + depth, low + height + depth)]
    side = [(x + width, low), (x + width + depth, low + depth), (x + width + depth, low + height + depth)]
    ax.add_patch(Polygon([*top, (x + width, low + height)], facecolor=colour, alpha=0.15, edgecolor=colour))
    ax.add_patch(Polygon([*side, (x + width, low + height)], facecolor=colour, alpha=0.15, edgecolor=colour))
    ax.add_patch(Rectangle((x, low), width, height, facecolor=colour, alpha=0.25, edgecolor=colour))
    if diagonal:
        ax.plot([x, x + width], [low + height, low], color=colour, linewidth=2)
    where = (x + width * 0.68, y + height * 0.22) if diagonal else (x + width / 2, y)
    ax.text(*where, text, ha="center", va="center", fontsize=10)
    ax.text(x + width / 2, low - 1.3, size, ha="center", va="top", fontsize=8)


def network(widths, output):
    """A fully connected network from top to bottom; the green box is the part that is replaced."""
    figure, ax = canvas(34, 5 + 6.5 * len(widths))
    top = 6.5 * len(widths)
    for i, width in enumerate(widths):
        y = top - 6.5 * i
        kind = "input" if i == 0 else output if i == len(widths) - 1 else "ReLU"
        half = 4 + 11 * (width / max(widths)) ** 0.5
        ax.add_patch(
            FancyBboxPatch(
                (17 - half, y - 1.3), 2 * half, 2.6, "round,pad=0.2", facecolor=BLUE, alpha=0.25, edgecolor=BLUE
            )
        )
        ax.text(17, y, f"{width}, {kind}", ha="center", va="center", fontsize=9)
        if i:
            ax.add_patch(FancyArrow(17, y + 4.9, 0, -3, width=0.1, head_width=0.8, head_length=0.9, color="black"))
    low, high = top - 6.5 * (len(widths) - 1) - 2.6, top - 6.5 - 2.1
    ax.add_patch(Rectangle((1, low), 32, high - low, fill=False, edgecolor=GREEN, linewidth=2.5))
    return figure


def main(directory):
    directory.mkdir(parents=True, exist_ok=True)
    drawings = {
        "single-layer": decoupling(["1"]),
        "multi-layer": decoupling(["1", None, r"\ell", None, "L"]),
        "paratuck": paratuck(
            [r"$\mathbf{G}^{(L)}$", r"$\mathbf{G}^{(1)}$"], [r"$r_L$, $S$ slices", r"$r_1$, $S$ slices"]
        ),
        "constr": paratuck(
            [r"$\mathbf{X}_L\mathbf{C}_L$", r"$\mathbf{X}_1\mathbf{C}_1$"],
            [
                r"$\mathbf{C}_L$ for all $S$",
                r"$\mathbf{C}_1$ for all $S$",
            ],
        ),
        "mnist": network((784, 80, 60, 40, 10), "sigmoid"),
        "fashion": network((784, 512, 256, 128, 64, 10), "log-softmax"),
    }
    for name, figure in drawings.items():
        figure.savefig(directory / f"{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/benchmarks/paper"))
