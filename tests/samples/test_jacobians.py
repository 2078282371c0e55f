import gc
import pickle
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import decouply as dc
from benchmarks.problems import noise_samples, problem_of
from decouply.samples._jacobians import StoredJacobians
from decouply.solvers import Problem
from decouply.solvers.problem._problem import small_row_space
from decouply.solvers.problem._start_distributions import draw_factors
from tests.strategies import points, random_model, sampled

RNG = np.random.default_rng(0)
J = RNG.normal(size=(50, 3, 4))


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Seven samples of J at a time, so that 50 of them come in eight portions."""
    monkeypatch.setattr("decouply.samples._jacobians._CHUNK_ENTRIES", 7 * J[0].size)


def store(array, **options):
    return dc.StoredJacobians(np.array_split(array, 4), shape=array.shape, **options)


def in_file(samples, **options):
    return dc.Samples(samples.X, F=samples.F, J=store(samples.J, **options), weights=samples.weights)


def noisy(system, S=60, noise=0.02):
    samples = sampled(system, S)
    return dc.Samples(samples.X, F=samples.F, J=samples.J + noise * RNG.normal(size=samples.J.shape))


# The file


def test_what_is_written_is_read_in_portions_of_bounded_size():
    stored = store(J)
    assert (stored.shape, stored.size, len(stored), stored.dtype) == (J.shape, J.size, 50, np.float64)
    parts = list(stored.portions())
    assert [rows.stop - rows.start for rows, _ in parts] == [7] * 7 + [1]
    assert_array_equal(np.concatenate([part for _, part in parts]), J)
    assert stored.largest == np.abs(J).max()
    assert repr(stored) == "StoredJacobians(shape=(50, 3, 4), float64)"


def test_single_precision_takes_half_the_room_and_comes_back_in_double():
    stored = store(J, dtype=np.float32)
    assert Path(stored._path).stat().st_size == 4 * J.size
    read = np.concatenate([part for _, part in stored.portions()])
    assert read.dtype == np.float64
    assert_array_equal(read, J.astype(np.float32))


def test_some_rows_are_taken_in_any_order():
    stored = store(J)
    for rows in (np.array([3, 0, 0, 49]), np.array([-1]), np.arange(50) % 7 == 0, np.array([], dtype=int)):
        assert_array_equal(stored.take(rows), J[rows])


def test_the_file_goes_with_the_last_one_who_uses_it(tmp_path):
    stored = store(J, path=tmp_path)
    samples = dc.Samples(points(4, 50), J=stored)
    assert len(list(tmp_path.iterdir())) == 1
    del stored
    gc.collect()
    assert len(list(tmp_path.iterdir())) == 1 and samples.take([1]).n_samples == 1
    del samples
    gc.collect()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("chunks", "options", "message"),
    [
        ([J], {"shape": (51, 3, 4)}, "`chunks` must hold 51 samples in all.*Got 50"),
        ([J, J], {"shape": (60, 3, 4)}, "must hold 60 samples in all.*Got 100 or more"),
        ([J, J[:, :2]], {"shape": (100, 3, 4)}, r"arrays of shape \(s, 3, 4\). Got float64 \(50, 2, 4\)"),
        ([J[0]], {"shape": (50, 3, 4)}, r"Got float64 \(3, 4\)"),
        ([J, np.where(J[4, 0, 0] == J, np.nan, J)], {"shape": (100, 3, 4)}, "finite numbers only. Got.*in sample 54"),
        ([1e300 * J], {"shape": (50, 3, 4), "dtype": np.float32}, "also as float32"),
        ([J], {"shape": (50, 0, 4)}, r"`shape\[1\]` must be a whole number of at least 1"),
        ([J], {"shape": (50, 3, 4), "dtype": int}, "`dtype` must be np.float32 or np.float64"),
        ([J], {"shape": (50, 3, 4), "dtype": "shorter"}, "`dtype` must be"),
        ([J], {"shape": (50, 3, 4), "path": "/nowhere/at/all"}, "`path` must be a writable directory"),
        ([[[1.0, 2.0], [3.0]]], {"shape": (50, 3, 4)}, "One cannot be read: setting an array element"),
    ],
)
def test_wrong_portions_are_refused_with_the_rule_and_leave_no_file(chunks, options, message, tmp_path):
    with pytest.raises(dc.InputError, match=message):
        dc.StoredJacobians(chunks, **{"path": tmp_path, **options})
    assert not list(tmp_path.iterdir())


def test_a_generator_that_fails_leaves_no_file(tmp_path):
    def chunks():
        yield J
        raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="out of luck"):
        dc.StoredJacobians(chunks(), shape=(100, 3, 4), path=tmp_path)
    assert not list(tmp_path.iterdir())


def test_trouble_with_the_file_is_told_apart_from_trouble_of_whoever_makes_the_portions(tmp_path):
    resource = pytest.importorskip("resource")

    def unreadable():
        yield J
        raise FileNotFoundError(2, "No such file or directory", "mine.npy")

    with pytest.raises(FileNotFoundError, match="mine"):
        dc.StoredJacobians(unreadable(), shape=(100, 3, 4), path=tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (J.nbytes + 100, hard))
    try:
        with pytest.raises(
            dc.DataError, match=r"must hold 9.6e-06 GB of Jacobians, but cannot be written: File too large"
        ):
            dc.StoredJacobians([J, J], shape=(100, 3, 4), path=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not list(tmp_path.iterdir())


def test_empty_portions_do_no_harm():
    assert_array_equal(dc.StoredJacobians([J[:0], J, J[:0]], shape=J.shape).take(np.arange(50)), J)


def test_a_file_that_was_cut_or_removed_is_noticed():
    stored = store(J)
    stored._path.write_bytes(stored._path.read_bytes()[:-100])
    with pytest.raises(dc.DataError, match="has been cut off"):
        list(stored.portions())
    stored._path.unlink()
    with pytest.raises(dc.DataError, match="cannot be read"):
        stored.take(np.array([0]))


def test_they_are_not_copied():
    with pytest.raises(dc.InputError, match="cannot be copied or sent"):
        pickle.dumps(store(J))


# In samples


def test_samples_take_them_as_they_are(tmp_path):
    X = points(4, 50)
    stored = store(J)
    samples = dc.Samples(X, F=J[:, :, 0], J=stored)
    assert samples.J is stored and samples.n_outputs == 3
    assert repr(samples) == "Samples(S=50, m=4, n=3: values and stored Jacobians)"
    assert_array_equal(samples.take([5, 2]).J, J[[5, 2]])
    first, second = samples.split(0.2)
    assert isinstance(first.J, np.ndarray) and len(first) + len(second) == 50
    with pytest.raises(dc.InputError, match=r"`J` must have shape \(50, n, 3\).*Got \(50, 3, 4\)"):
        dc.Samples(X[:, :3], J=stored)
    with pytest.raises(dc.InputError, match="`samples` must be in memory to be saved"):
        samples.save(tmp_path / "s.npz")


# In solvers

WEIGHTS = {
    "none": None,
    "factors": RNG.uniform(0.5, 2.0, 60),
    "by output": RNG.uniform(0.0, 2.0, (60, 3)),
    "matrices": (lambda T: T @ T.mT)(RNG.normal(size=(60, 3, 3))),
}


@pytest.mark.parametrize("method", [dc.Proj, dc.Constr])
@pytest.mark.parametrize("ranks", [(2,), (2, 2)], ids=str)
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=list(WEIGHTS))
def test_the_result_is_that_of_the_array(method, ranks, weights):
    # Noise, so that no update is nearly singular: on a smooth system one rounding of J changes W by 1e-6 in ten sweeps.
    data = noise_samples(3, 4, 60)
    data = dc.Samples(data.X, F=data.F, J=data.J, weights=weights)
    solver = method(max_steps=5, start=dc.Normal())
    a, b = (
        dc.decouple(samples, ranks, (3,) * len(ranks), solver=solver, n_starts=2, rng=3, progress=False)
        for samples in (data, in_file(data))
    )
    for ours, theirs in zip(b.decoupling.W, a.decoupling.W, strict=True):
        assert_allclose(ours, theirs, rtol=0, atol=1e-10 * np.abs(theirs).max())
    assert_allclose(b.history.objective, a.history.objective, rtol=1e-10)
    assert b.error_jacobian == pytest.approx(a.error_jacobian, rel=1e-10)
    assert b.error_values == pytest.approx(a.error_values, rel=1e-10)
    assert_allclose(b.relative_rmse(), a.relative_rmse(), rtol=1e-10)


@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_inputs_are_compressed_in_memory_or_in_another_file(fits, dtype, monkeypatch):
    if not fits:
        monkeypatch.setattr("decouply.samples._jacobians._IN_MEMORY", 10)
    data = sampled(dc.systems.random_system((40, 3, 4), (3,), rng=0), 60)
    stored = in_file(data, dtype=dtype)
    layers = dc.decouple(data, 3, 3, n_starts=1, progress=False).decoupling.g[0].layer
    problem = Problem.build(stored, (layers,))
    assert problem.X.shape == (60, 3) and isinstance(problem.J, StoredJacobians) is not fits
    plain = Problem.build(data, (layers,))
    assert problem.size_J == pytest.approx(plain.size_J, rel=1e-5 if dtype == np.float32 else 1e-12)
    if dtype == np.float64:
        assert_allclose(problem.units.T, plain.units.T, rtol=0, atol=1e-8)
        a, b = (dc.decouple(s, 3, 3, solver=dc.Constr(max_steps=8), progress=False) for s in (data, stored))
        assert b.error_jacobian == pytest.approx(a.error_jacobian, rel=1e-6)


@pytest.mark.parametrize(("n_rows", "rank", "found"), [(100, 30, None), (100, 12, 12), (9, 9, 9), (200, 1, 1)])
def test_row_spaces_are_found_portion_by_portion(n_rows, rank, found):
    tall = (RNG.normal(size=(n_rows, rank)) @ RNG.normal(size=(rank, 30)))[:, None, :]
    U = small_row_space(store(tall))
    assert (None if U is None else U.shape[1]) == found


def test_exact_systems_end_exact_and_every_alternating_solver_reads_files():
    system = dc.systems.random_system((5, 4, 5), (3,), rng=11)
    data = in_file(sampled(system, 60))
    for solver in (dc.Proj(), dc.Constr(), dc.TwoStage(dc.Proj()), dc.Zniyed(), dc.Hollander(), dc.Dreesen()):
        result = dc.decouple(data, 4, 3, solver=solver, rng=1, progress=False)
        assert result.error_jacobian < 1e-20
        assert dc.factor_match(result.decoupling, system) > 1 - 1e-8


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=list(WEIGHTS))
def test_a_warm_start_is_rated_portion_by_portion(weights):
    data = noisy(dc.systems.f2())
    data = dc.Samples(data.X, F=data.F, J=data.J, weights=weights)
    start = random_model([3, 2, 2, 3], 1)
    a, b = (
        draw_factors(problem_of(samples, (2, 2), (3, 3)), start, 2, np.random.default_rng(0))
        for samples in (data, in_file(data))
    )
    assert b.residual_J[0] == pytest.approx(a.residual_J[0], rel=1e-10)


def test_stored_jacobians_are_enough_for_everything(tmp_path):
    data = in_file(noisy(dc.systems.f2()))
    searched = dc.decouple(data, (2, 2), (3, 3), n_starts=4, progress=False)
    assert any("A pilot of" in note for note in searched.notes)
    result = dc.decouple(data, (2, 2), (3, 3), solver=dc.Proj(max_steps=10), progress=False)
    assert result.identifiability.n_parameters > 0 and len(result.uncertainty([0.0, 0.1])) == 2
    assert not result.plot_functions().axes[0].collections
    result.report(tmp_path / "report.html")
    assert "Error(J)" in repr(result)
