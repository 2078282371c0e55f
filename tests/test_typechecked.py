"""Annotated shapes are checked in the tests."""

import jaxtyping
import numpy as np
import pytest
from jaxtyping import Float
from numpy import ndarray

import tests
from decouply.solvers.problem._batched_linalg import gram_of_columns


def test_annotations_of_functions_are_checked_at_their_first_calls(monkeypatch):
    monkeypatch.setattr(tests, "_CHECKED_CALLS", 3)

    @jaxtyping.jaxtyped(typechecker=tests.typechecked)
    def total(x: Float[ndarray, " k"], y: Float[ndarray, " k"]) -> float:
        return float(x.sum() + y.sum())

    with pytest.raises(jaxtyping.TypeCheckError):
        total(np.ones(2), np.ones(3))
    assert [total(np.ones(2), np.ones(2)) for _ in range(2)] == [4.0, 4.0]
    assert total(np.ones(2), np.ones(3)) == 5.0  # the fourth call


def test_the_functions_of_the_package_are_checked(request):
    if not request.config.getoption("--jaxtyping-packages", None):
        pytest.skip("shapes are checked at run time by `make test`, not by `make check`")
    assert gram_of_columns.__wrapped__.__name__ == "gram_of_columns"
