"""What the tests of data sets share."""

import warnings

import pytest


@pytest.fixture
def torch_that_warns():
    """PyTorch, with warnings as errors: it would tell only the first time in a process that an array is read-only."""
    torch = pytest.importorskip("torch")
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield torch
    torch.set_warn_always(before)
