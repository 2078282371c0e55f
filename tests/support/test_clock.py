"""Limits of time by the clock or by the processor."""

import time

from decouply._support._time_limit import by_processor_time, now


def test_limits_count_the_time_of_the_processor_only_where_that_is_asked_for(monkeypatch):
    monkeypatch.setattr(time, "process_time", lambda: 7.0)
    with by_processor_time():
        assert now() == 7.0
    began = time.perf_counter()
    assert began <= now() <= time.perf_counter()
