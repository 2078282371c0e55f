"""Settings of all tests."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Processes that tests start use the package and the experiments of this checkout, wherever they run.
_ROOT = Path(__file__).parents[1]
_FOLDERS = [str(_ROOT / "src"), str(_ROOT), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(folder for folder in _FOLDERS if folder)

# Machines are shared: an example may be slow without anything being wrong.
settings.register_profile(
    "default", deadline=None, max_examples=30, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")

# Shells that run this in their background let it, and every process it starts, ignore Ctrl-C, which tests press.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def real_data():
    """The folder of the public data sets."""
    folder = os.environ.get("DECOUPLY_DATA", "").strip()
    if not folder:
        pytest.skip("needs the public data sets: set DECOUPLY_DATA to a folder that holds them, or may be filled")
    return Path(folder).expanduser()
