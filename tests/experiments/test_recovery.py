"""A reduced form of the recovery experiment with noise; the whole one is `python -m experiments recovery`."""

from experiments import recovery_markdown, run_recovery
from experiments.solver.recovery import CASES, NOISE, NoiseRun, Recovery, RecoveryRun, RecoveryTask, work


def test_noisy_data_cost_little_more_than_a_fit_from_the_truth():
    run = NoiseRun(**work(RecoveryTask("f1", NOISE[0], 0, 5, 5.0)))
    assert run.error <= 3 * run.error_from_truth and run.ridge > 0.0


def test_a_small_system_is_recovered_by_algebra_and_the_table_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr("experiments.solver.recovery.CASES", CASES[:2])
    options = {"n_runs": 1, "seed": 1, "max_seconds": 5.0, "noise": False, "store": tmp_path / "runs.jsonl"}
    found = run_recovery(n_jobs=1, **options)
    assert repr(run_recovery(n_jobs=1, **options)) == repr(found)  # the times of the runs are those of the first time
    noise = NoiseRun("f1", 1e-2, 0, 2.0, 1.0, 1e-3, 0.5)
    text = recovery_markdown(Recovery(found.runs, (noise,), 1))
    assert "| f1 | 30 | **1 of 1** |" in text and "algebraic ParaTuck-2 1 |" in text and "| f1 | 1e-02 |" in text
    assert all(isinstance(run, RecoveryRun) and run.worst_error <= 1e-6 for run in found.runs)
