"""Damaged and malicious files: clear errors, soon, in bounded memory."""

import numpy as np
import pytest

import decouply as dc
from decouply._support._machine import LIMIT_VARIABLE
from decouply.samples.readers._table_files import ParquetTable
from tests.robustness.corpus import SPECIAL, WHOLE, damaged, read
from tests.robustness.outcome import FINE
from tests.robustness.run import fuzz


@pytest.mark.parametrize("name", SPECIAL)
def test_files_that_are_made_to_do_harm(name, tmp_path):
    ending, content = SPECIAL[name]
    assert read(tmp_path / f"file.{ending}", content, name).verdict == FINE


@pytest.mark.parametrize("ending", [ending for ending in WHOLE if ending != "mat"])
def test_damaged_files(ending, tmp_path):
    rng, whole = np.random.default_rng(1), WHOLE[ending]()
    for i in range(40):
        outcome = read(tmp_path / f"file.{ending}", damaged(whole, rng), str(i))
        assert outcome.verdict == FINE, outcome


def test_model_files_with_one_part_changed():
    fuzz("models", count=400, seed=3)


@pytest.mark.parametrize("ending", WHOLE)
def test_whole_files_are_read(ending, tmp_path):
    path = tmp_path / f"file.{ending}"
    path.write_bytes(WHOLE[ending]())
    if ending == "safetensors":
        assert dc.Decoupling.load(path).ranks == (2, 2)
    else:
        columns = {} if ending in ("npz", "mat") else {"inputs": ["a", "b"], "outputs": ["c", "d"]}
        assert dc.Samples.load(path, **columns).n_samples == 12


def test_what_a_file_may_declare_has_a_limit_that_can_be_changed(tmp_path, monkeypatch):
    path = tmp_path / "s.npz"
    path.write_bytes(WHOLE["npz"]())
    monkeypatch.setenv(LIMIT_VARIABLE, "100")
    with pytest.raises(dc.SampleFileError, match=rf"at most 1e-07 GB.*allow more bytes with {LIMIT_VARIABLE}"):
        dc.Samples.load(path)
    monkeypatch.setenv(LIMIT_VARIABLE, "many")
    with pytest.raises(dc.InputError, match="must be a number of bytes"):
        dc.Samples.load(path)
    monkeypatch.setenv(LIMIT_VARIABLE, "1e6")
    assert dc.Samples.load(path).n_samples == 12


def test_very_many_columns_are_looked_up_and_not_searched(tmp_path):
    """Searching twenty thousand names for each of twenty thousand took half a minute."""
    n = 20_000
    names, numbers = ",".join(f"x{i}" for i in range(n)), ",".join(["1.5"] * n)
    path = tmp_path / "wide.csv"
    path.write_text(f"{names},y,dy/dx0\n" + "".join(f"{numbers},{row},1\n" for row in range(3)))
    found = dc.Samples.load(path, outputs="y", jacobians=False)
    assert found.n_inputs == n and found.inputs[:2] == ("x0", "x1")  # and not the derivative
    assert dc.Samples.load(path, inputs=[f"x{i}" for i in range(n)], jacobians=False).outputs == ("y",)


def test_remarks_may_be_long_and_columns_many_but_not_too_many(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(SPECIAL["csv, a long remark"][1])
    assert dc.Samples.load(path, outputs="d").n_samples == 3
    path.write_bytes(SPECIAL["csv, 10^6 columns"][1])
    with pytest.raises(dc.SampleFileError, match="at most 100000 columns"):
        dc.Samples.load(path)
    path = tmp_path / "s.mat"
    path.write_bytes(SPECIAL["mat, a sparse matrix"][1])
    with pytest.raises(dc.SampleFileError, match=r"sparse matrix X of shape \(20000, 20000\) takes 3.2 GB"):
        dc.Samples.load(path)


def test_names_of_a_parquet_file_are_listed_once(tmp_path):
    """The list is made anew at every look: half a minute for twenty thousand columns."""
    path, looks = tmp_path / "t.parquet", []
    path.write_bytes(WHOLE["parquet"]())
    table = ParquetTable(path)

    class Schema:
        field = table._schema.field

        @property
        def names(self, names=tuple(table._schema.names)):
            looks.append(1)
            return names

    table._schema = Schema()
    assert table.read([0, 1, 2, 3])[0].shape == (12, 4) and len(looks) == 1
