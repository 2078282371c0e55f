"""Settings of all tests."""

from hypothesis import HealthCheck, settings

# Machines are shared: an example may be slow without anything being wrong.
settings.register_profile(
    "default", deadline=None, max_examples=30, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")
