"""Lists of functions among which held-back data choose."""

import pytest

import decouply as dc
from decouply.sysid.state_space._order_selection import fit_with_best_functions

from .systems import duffing

QUADRATIC, CUBIC = {"quadratic": [dc.Monomial(2)]}, {"cubic": [dc.Monomial(3)]}
FIT = {"options": {}, "n_starts": 1, "progress": False}


def test_a_list_that_is_clearly_better_is_chosen_though_it_is_larger():
    model, reason = fit_with_best_functions(*duffing(300), 2, QUADRATIC | CUBIC, **FIT)
    assert model.step.g[0].layer.bases == (dc.Monomial(3),)
    assert reason.startswith("Functions: cubic; ") and "% with quadratic" in reason


def test_of_lists_that_are_about_as_good_the_smaller_is_chosen():
    lists = {"both": [dc.Monomial(3), dc.Monomial(3)]} | CUBIC
    u, y = duffing(300)
    noise = 0.05 * u[::-1]  # unlike anything that the model can do
    model, _ = fit_with_best_functions(u, y + noise, 2, lists, **FIT)
    assert len(model.step.g[0].layer.bases) == 1


def test_the_reason_of_a_failure_is_that_of_a_fit():
    u, y = duffing(300)
    with pytest.raises(dc.InputError, match="`n_starts`"):
        fit_with_best_functions(u, y, 2, CUBIC, options={}, n_starts=0, progress=False)
