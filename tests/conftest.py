"""Settings of all tests."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Machines are shared: an example may be slow without anything being wrong.
settings.register_profile(
    "default", deadline=None, max_examples=30, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")


@pytest.fixture
def real_data(monkeypatch):
    """The folder of real benchmark data, where it lies beside the project."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the real data sets in ../shared/data, which are not there")
    monkeypatch.setenv("DECOUPLING_DATA", str(folder))
    return folder
