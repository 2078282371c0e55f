"""Limits of time by the clock or by the processor."""

import time

from decouply._support._time_limit import by_processor_time, now


def test_limits_count_the_time_of_the_processor_only_where_that_is_asked_for():
    with by_processor_time():
        began = now()
        time.sleep(0.05)
        assert now() - began < 0.04
    began = now()
    time.sleep(0.05)
    assert now() - began >= 0.05
