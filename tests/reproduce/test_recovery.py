"""A reduced form of the recovery experiment with noise; the whole one is `decouple reproduce recovery`."""

from decoupling.reproduce import recovery_markdown, run_recovery
from decoupling.reproduce._recovery import NOISE, NoiseRun, Recovery, RecoveryTask, work


def test_noisy_data_cost_no_more_than_a_fit_from_the_truth(tmp_path):
    runs = tuple(NoiseRun(**work(RecoveryTask("f1", level, 0, 5, 5.0))) for level in NOISE)
    assert all(run.error <= 3 * run.error_from_truth for run in runs[:2])  # the largest noise is fitted too well
    assert [run.error for run in runs] == sorted(run.error for run in runs)
    options = {"n_runs": 1, "seed": 1, "max_seconds": 0.5, "noise": False, "store": tmp_path / "runs.jsonl"}
    found = run_recovery(n_jobs=1, **options)
    assert repr(run_recovery(n_jobs=1, **options)) == repr(found)  # the times of the runs are those of the first time
    text = recovery_markdown(Recovery(found.runs, runs, 1))
    assert "| f1 | 1e-02 |" in text and "1 of 1" in text
