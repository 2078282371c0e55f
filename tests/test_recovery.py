"""A reduced form of the recovery experiment with noise; the whole one is `decouple reproduce recovery`."""

from decoupling.reproduce import recovery_markdown, run_recovery
from decoupling.reproduce._recovery import NOISE, Recovery, run_noise


def test_noisy_data_cost_no_more_than_a_fit_from_the_truth():
    runs = tuple(run_noise(0, level, 0, seed=5) for level in NOISE)
    assert all(run.error <= 3 * run.error_from_truth for run in runs)
    assert [run.error for run in runs] == sorted(run.error for run in runs)
    text = recovery_markdown(
        Recovery(run_recovery(n_runs=1, seed=1, n_jobs=1, max_seconds=0.5, noise=False).runs, runs, 1)
    )
    assert "| f1 | 1e-02 |" in text and "1 of 1" in text
