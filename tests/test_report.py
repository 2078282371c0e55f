import pytest
from matplotlib.figure import Figure

import decoupling as dc
from decoupling.report import plot_functions, plot_history, plot_starts

from .strategies import sampled


@pytest.fixture(scope="module")
def result():
    return dc.decouple(
        sampled(dc.systems.f2()), (2, 2), (3, 3), solver=dc.TwoStage(dc.Constr(max_iterations=20)), progress=False
    )


def test_figures_are_returned_and_show_every_function(result):
    figure = result.plot()
    assert isinstance(figure, Figure)
    assert [ax.get_title() for ax in figure.axes] == [f"layer {l}, function {j}" for l in (1, 2) for j in (1, 2)]
    assert len(plot_history(result).axes[0].lines) >= 2
    assert len(plot_starts(result).axes[0].lines) == len(result.path)
    wide = plot_functions(dc.systems.f3(), sampled(dc.systems.f3()))
    assert sum(ax.axison for ax in wide.axes) == 5
