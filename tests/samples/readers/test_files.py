"""Files as people have them: every kind, well made and badly made."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.io import savemat
from scipy.sparse import csr_matrix

import decouply as dc
from decouply.samples.readers._by_extension import read_samples
from tests.strategies import points, sampled

X = points(2, 12)
Y = np.stack([X[:, 0] * X[:, 1], X[:, 0] ** 2], axis=1)
J = np.stack([np.stack([X[:, 1], X[:, 0]], axis=1), np.stack([2 * X[:, 0], 0 * X[:, 0]], axis=1)], axis=1)
NAMES = ["x1", "x2", "y", "z"]
ENTRIES = ["dy/dx1", "dy/dx2", "dz/dx1", "dz/dx2"]
TABLE = np.column_stack([X, Y, J.reshape(12, 4)])


def text(names, table, delimiter=","):
    lines = [delimiter.join(names)] if names else []
    return "\n".join(lines + [delimiter.join(repr(float(v)) for v in row) for row in table]) + "\n"


def write(path, names, table):
    """A table in the format that the ending asks for."""
    ending = path.suffix
    if ending in (".csv", ".tsv", ".txt"):
        path.write_text(text(names, table, "\t" if ending == ".tsv" else ","))
    elif ending == ".parquet":
        pq.write_table(pa.table({n: table[:, i] for i, n in enumerate(names)}), path)
    elif ending == ".npz":
        np.savez(path, **{n.replace("/", "_"): table[:, i] for i, n in enumerate(names)})
    elif ending == ".mat":
        savemat(path, {n.replace("/", "_"): table[:, i] for i, n in enumerate(names)})
    else:
        np.save(path, np.array([tuple(row) for row in table], dtype=[(n, float) for n in names]))
    return path


ENDINGS = [".csv", ".tsv", ".txt", ".parquet", ".npz", ".mat", ".npy"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_kind_of_file_gives_the_same_samples(ending, tmp_path):
    path = write(tmp_path / f"data{ending}", NAMES + ENTRIES, TABLE)
    s = dc.Samples.load(path, inputs=["x1", "x2"], outputs=["y", "z"])
    assert_allclose(s.X, X, rtol=0)
    assert_allclose(s.F, Y, rtol=0)
    assert_allclose(s.J, J, rtol=0)
    turned = dc.Samples.load(path, inputs=["x2", "x1"], outputs="z")
    assert_allclose(turned.J, J[:, 1:, ::-1], rtol=0)
    assert dc.Samples.load(path, inputs=["x1", "x2"], outputs=["y", "z"], jacobians=False).J is None


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_columns_that_are_not_named_take_the_other_role(ending, tmp_path):
    path = write(tmp_path / f"data{ending}", NAMES + ENTRIES, TABLE)
    first, second = read_samples(path, outputs=["y", "z"]), read_samples(path, inputs=["x1", "x2"])
    assert first.samples.inputs == second.samples.inputs == ("x1", "x2")
    assert first.samples.outputs == second.samples.outputs == ("y", "z")
    assert_allclose(first.samples.J, J)
    assert_allclose(second.samples.J, J)
    assert "Inputs: x1, x2 (all columns but the outputs)." in first.notes


@pytest.mark.parametrize("ending", [".csv", ".npy"])
def test_columns_without_names_are_numbered_from_1(ending, tmp_path):
    path = tmp_path / f"data{ending}"
    if ending == ".csv":
        path.write_text(text([], TABLE[:, :4]))
    else:
        np.save(path, TABLE[:, :4])
    found = read_samples(path, inputs=["1", "2"], outputs=[3, 4])
    assert_allclose(found.samples.F, Y)
    assert (found.samples.inputs, found.samples.outputs) == (("c1", "c2"), ("c3", "c4"))
    assert any("numbered from 1" in note for note in found.notes)
    with pytest.raises(dc.InputError, match=r"Got `x1`.*columns `1`, `2`, `3`, `4`\..*numbered from 1"):
        dc.Samples.load(path, inputs="x1", outputs="y")


@pytest.mark.parametrize("ending", [".npz", ".mat"])
def test_arrays_of_samples_are_taken_as_they_are(ending, tmp_path):
    path, arrays = tmp_path / f"s{ending}", {"X": X, "F": Y, "J": J, "weights": np.arange(1.0, 13.0)}
    (np.savez if ending == ".npz" else lambda p, **a: savemat(p, a))(path, **arrays, other=np.ones(3))
    s = dc.Samples.load(path)
    for name, array in arrays.items():
        assert_allclose(getattr(s, name), array)
    assert dc.Samples.load(path, jacobians=False).J is None
    columns = dc.Samples.load(path, inputs=["X1", "X2"], outputs=["F2"])
    assert_allclose(columns.F[:, 0], Y[:, 1])
    with pytest.raises(dc.SampleFileError, match=r"equally many numbers.*`other`: 3"):
        dc.Samples.load(path, inputs=["X1", "other"], outputs=["F2"])


def test_matlab_drops_axes_and_knows_sparse_matrices(tmp_path):
    savemat(tmp_path / "s.mat", {"X": csr_matrix(X[:, :1]), "F": Y, "J": J[:, :, 0]})
    s = dc.Samples.load(tmp_path / "s.mat")
    assert_allclose(s.J, J[:, :, :1])
    assert_allclose(s.X, X[:, :1])


def test_objects_beside_the_samples_do_not_matter(tmp_path):
    np.savez(tmp_path / "s.npz", X=X, F=Y, comment=np.array([{"a": 1}], dtype=object))
    assert len(dc.Samples.load(tmp_path / "s.npz")) == 12


def test_samples_saved_without_an_ending_are_read_again(tmp_path):
    dc.Samples(X, F=Y).save(tmp_path / "samples")
    assert len(dc.Samples.load(tmp_path / "samples")) == 12
    for ending in ("zarr", "csv"):
        with pytest.raises(dc.InputError, match="path"):
            dc.Samples(X, F=Y).save(tmp_path / f"samples.{ending}")


@pytest.mark.parametrize(
    "content",
    [
        text(NAMES, TABLE[:, :4], ";"),
        text(NAMES, TABLE[:, :4], "\t"),
        text(NAMES, TABLE[:, :4], ", "),
        "\ufeff" + text(NAMES, TABLE[:, :4]),
        text(NAMES, TABLE[:, :4]).replace("\n", "\r\n"),
        "# made by a program\n# x1,x2,y,z\n" + text([], TABLE[:, :4]),
        "# made, by, a, program\n" + text(NAMES, TABLE[:, :4]),
        text(NAMES, TABLE[:, :4]).replace("x1", '"x1"').replace("\n", "\n\n"),
        text(NAMES, TABLE[:, :4]) + "# the end\n  \n",
        text(["", *NAMES], np.column_stack([np.arange(12), TABLE[:, :4]])),
        text([*NAMES, ""], np.column_stack([TABLE[:, :4], np.zeros(12)])).replace(",0.0\n", ",\n"),
        text(NAMES, TABLE[:, :4]).replace("\n", ",\n").replace(",\n", "\n", 1),
    ],
)
def test_text_files_are_read_as_programs_write_them(content, tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(content.encode())
    found = read_samples(path, outputs=["y", "z"])
    assert found.samples.inputs == ("x1", "x2")
    assert_allclose(found.samples.X, X, rtol=0)
    assert_allclose(found.samples.F, Y, rtol=0)


def test_lines_may_be_long(tmp_path):
    names = [f"{i}_is_not_short{'_at_all' * 40}" for i in range(500)]
    (tmp_path / "data.csv").write_text(text([*names, "y"], np.ones((2, 501))))
    assert dc.Samples.load(tmp_path / "data.csv", outputs="y").n_inputs == 500


def test_numbers_of_columns_are_told_from_names(tmp_path):
    (tmp_path / "data.csv").write_text("1,c1,y\n2,3,4\n")
    found = read_samples(tmp_path / "data.csv", outputs="y")
    assert (found.samples.inputs, found.samples.outputs) == (("column1", "c1"), ("y",))


def test_text_of_savetxt_is_read_with_its_names(tmp_path):
    np.savetxt(tmp_path / "data.csv", TABLE[:, :4], delimiter=",", header="x1,x2,y,z")
    assert_allclose(dc.Samples.load(tmp_path / "data.csv", outputs=["y", "z"]).X, X, rtol=1e-15)


def test_columns_of_words_do_not_disturb_where_they_are_not_chosen(tmp_path):
    rows = "".join(f'"a, b {i}",{x!r},{y!r}\n' for i, (x, y) in enumerate(TABLE[:, :2].tolist()))
    (tmp_path / "data.csv").write_text("name,x1,y\n" + rows)
    assert_allclose(dc.Samples.load(tmp_path / "data.csv", inputs="x1", outputs="y").X[:, 0], X[:, 0])
    with pytest.raises(dc.SampleFileError, match=r"Column `name`.*Line 2 has 'a, b 0'"):
        dc.Samples.load(tmp_path / "data.csv", outputs="y")


def test_many_rows_are_read_in_portions(tmp_path, monkeypatch):
    from decouply.samples.readers import _table_files

    monkeypatch.setattr(_table_files, "_CHUNK", 5)
    content = text(NAMES, TABLE[:, :4]).splitlines()
    content[9] = "NA" + content[9][content[9].index(",") :]
    (tmp_path / "data.csv").write_text("\n".join(content))
    with pytest.raises(dc.SampleFileError, match=r"1 of 12 rows .*\(line 10\)"):
        dc.Samples.load(tmp_path / "data.csv", outputs=["y", "z"])
    s = dc.Samples.load(tmp_path / "data.csv", outputs=["y", "z"], drop_missing=True)
    assert_allclose(s.X, np.delete(X, 8, axis=0))


@pytest.mark.parametrize("ending", ENDINGS)
def test_missing_values_are_counted_and_named_or_left_out(ending, tmp_path):
    holes = TABLE[:, :4].copy()
    holes[[2, 5], [0, 3]] = np.nan
    holes[7, 1] = np.inf
    path = write(tmp_path / f"data{ending}", NAMES, holes)
    line = "lines 4, 7, 9" if ending in (".csv", ".tsv", ".txt") else "rows 3, 6, 8"
    with pytest.raises(
        dc.SampleFileError, match=rf"3 of 12 rows with missing or infinite values \({line}\).*--drop-missing"
    ):
        dc.Samples.load(path, outputs=["y", "z"])
    found = read_samples(path, outputs=["y", "z"], drop_missing=True)
    assert_allclose(found.samples.X, np.delete(X, [2, 5, 7], axis=0))
    assert any(note.startswith("Left out: 3 of 12 rows") for note in found.notes)
    with pytest.raises(dc.SampleFileError, match="at least one complete row"):
        dc.Samples.load(write(path, NAMES, holes * np.nan), outputs=["y", "z"], drop_missing=True)


def test_nulls_and_whole_numbers_of_parquet_are_numbers_too(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a.b": [1, 2, None], "c": [True, False, True], "y": [1.5, 2.5, 3.5]}), path)
    assert_allclose(dc.Samples.load(path, outputs="y", drop_missing=True).X, [[1, 1], [2, 0]])


def test_samples_of_arrays_without_some_rows(tmp_path):
    bad = X.copy()
    bad[3, 1] = np.nan
    np.savez(tmp_path / "s.npz", X=bad, F=Y, J=J)
    with pytest.raises(dc.SampleFileError, match=r"1 of 12 rows with .*\(row 4\): .* --drop-missing"):
        dc.Samples.load(tmp_path / "s.npz")
    assert len(dc.Samples.load(tmp_path / "s.npz", inputs=[1])) == 12  # a column that nobody asks for may have gaps
    with pytest.raises(dc.SampleFileError, match="fill the gap, or cut the record there"):
        read_samples(tmp_path / "s.npz", inputs=[1, 2], outputs=[1, 2], in_time=True)
    found = read_samples(tmp_path / "s.npz", drop_missing=True)
    assert_allclose(found.samples.J, np.delete(J, 3, axis=0))
    assert found.notes == ("Left out: 1 of 12 rows with missing or infinite values (row 4).",)


def test_inputs_far_from_0_need_no_note(tmp_path):
    path = write(tmp_path / "data.csv", NAMES, TABLE[:, :4] + [3e6, 3.0, 0.0, 0.0])
    assert read_samples(path, inputs=["x1", "x2"], outputs=["y", "z"]).notes == ()


# Names


@pytest.mark.parametrize("ending", ENDINGS)
def test_samples_are_called_what_their_columns_are(ending, tmp_path):
    path = write(tmp_path / f"data{ending}", NAMES, TABLE[:, :4])
    s = dc.Samples.load(path, outputs=["z", "y"])
    assert (s.inputs, s.outputs) == (("x1", "x2"), ("z", "y"))


@pytest.mark.parametrize("ending", [".npz", ".mat"])
def test_matrices_have_numbered_columns_and_samples_without_names_have_none(ending, tmp_path):
    path = tmp_path / f"s{ending}"
    (np.savez if ending == ".npz" else lambda p, **a: savemat(p, a))(path, X=X, F=Y, other=X)
    s = dc.Samples.load(path)
    assert s.inputs is None and s.outputs is None
    s = dc.Samples.load(path, inputs=["other2", "X1"], outputs=["F2"])
    assert (s.inputs, s.outputs) == (("other2", "X1"), ("F2",))
    with pytest.raises(dc.InputError, match="`inputs` must choose among the 2 columns of X"):
        dc.Samples.load(path, inputs=["flow", "heat"])


def test_names_are_saved_as_texts_and_come_back(tmp_path):
    names = {"inputs": ["flow in l/s", "Wärme"], "outputs": ["<b>", "y\nimport os"]}
    dc.Samples(X, F=Y, J=J, **names).save(tmp_path / "s.npz")
    with np.load(tmp_path / "s.npz", allow_pickle=False) as archive:
        assert all(array.dtype.kind in "fU" for array in archive.values())
    s = dc.Samples.load(tmp_path / "s.npz")
    assert (s.inputs, s.outputs) == (tuple(names["inputs"]), tuple(names["outputs"]))
    dc.Samples(X, F=Y).save(tmp_path / "s.npz")
    assert dc.Samples.load(tmp_path / "s.npz").inputs is None


@pytest.mark.parametrize("ending", [".npz", ".mat"])
def test_columns_of_X_and_F_are_chosen_with_their_jacobians_and_weights(ending, tmp_path):
    path, weights = tmp_path / f"s{ending}", np.arange(1.0, 25.0).reshape(12, 2)
    X3, J3 = np.column_stack([X, X[:, 0] ** 2]), np.concatenate([J, J[:, :, :1]], axis=2)
    arrays = {"X": X3, "F": Y, "J": J3, "weights": weights}
    (np.savez if ending == ".npz" else lambda p, **a: savemat(p, a))(path, **arrays)
    for inputs, outputs, called in (
        (["3", "1"], "2", (("x3", "x1"), ("y2",))),
        ([3, 1], [2], (("x3", "x1"), ("y2",))),
        (["X3", "X1"], "F2", (("X3", "X1"), ("F2",))),
    ):
        s = dc.Samples.load(path, inputs=inputs, outputs=outputs)
        assert np.array_equal(s.X, X3[:, [2, 0]]) and np.array_equal(s.F, Y[:, [1]])
        assert np.array_equal(s.J, J3[:, [1]][:, :, [2, 0]]) and np.array_equal(s.weights, weights[:, [1]])
        assert (s.inputs, s.outputs) == called
    dc.Samples(X3, F=Y, J=J3, weights=weights, inputs=["a", "b", "c"], outputs=["p", "q"]).save(tmp_path / "n.npz")
    s = dc.Samples.load(tmp_path / "n.npz", inputs=["c", "a"], outputs=["q", "p"])
    assert np.array_equal(s.X, X3[:, [2, 0]]) and np.array_equal(s.F, Y[:, ::-1])
    assert np.array_equal(s.weights, weights[:, ::-1]) and (s.inputs, s.outputs) == (("c", "a"), ("q", "p"))
    for wrong, message in (
        (["a", "d"], r"among the 3 columns of X in .*, by name \(a, b, c\) or by number \(1 to 3\).*Got a, d"),
        (["a", "b", "d"], "Got a, b, d"),
        (["4"], "Got 4"),
        (["a", "a"], "every column once"),
    ):
        with pytest.raises(dc.InputError, match=message):
            dc.Samples.load(tmp_path / "n.npz", inputs=wrong)
    with pytest.raises(dc.InputError, match=r"`outputs` must choose among the 2 columns of F .* by number \(1 to 2\)"):
        dc.Samples.load(path, outputs="power")


def test_numbers_that_are_called_names_are_left_alone(tmp_path):
    np.savez(tmp_path / "s.npz", X=X, F=Y, input_names=np.arange(5.0), output_names=np.array([["a", "b"]]))
    s = dc.Samples.load(tmp_path / "s.npz")
    assert s.inputs is None and s.outputs is None


def test_names_travel_with_frames_unless_others_are_given():
    pd = pytest.importorskip("pandas")
    frame, series = pd.DataFrame(X, columns=["flow", "heat"]), pd.Series(Y[:, 0], name="power")
    s = dc.Samples(frame, F=series)
    assert (s.inputs, s.outputs) == (("flow", "heat"), ("power",))
    assert dc.Samples(frame, F=series, inputs=["a", "b"]).inputs == ("a", "b")
    plain = dc.Samples(pd.DataFrame(X), F=pd.DataFrame(Y, columns=["twin", "twin"]))
    assert plain.inputs is None and plain.outputs is None
    assert dc.Samples(X, F=pd.Series(Y[:, 0])).outputs is None
    assert s.take([1, 2]).outputs == ("power",)


GOOD = {"inputs": ["x1", "x2"], "outputs": "y"}


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("", GOOD, "It is empty"),
        ("\n \n# only words\n", GOOD, "It is empty"),
        ("x1,x2,y\n", GOOD, "at least one row of numbers"),
        ("x1,x2,y\n1,2\n", GOOD, "3 cells in every line.*Line 2 has 2: the file may have been cut off"),
        ("x1,x2,y\n1,2,3\n1,2,3,4\n", GOOD, "Line 3 has 4"),
        ("x1,x2,y\n1,5,2,5,3,5\n", GOOD, "decimal commas, they are cut in two"),
        ("x1;x2;y\n1,5;2;3\n", GOOD, "Column `x1`.*Line 2 has '1,5', with a decimal comma"),
        ("1,5;2;3\n1,5;2;3\n", {"inputs": "1", "outputs": "3"}, "with a decimal comma"),
        ("x1,x2,y\n1,2,3\n1,two,3\n", GOOD, "Column `x2`.*Line 3 has 'two'"),
        ("x1,x2,y\n1,2024_05,3\n", GOOD, "Line 2 has '2024_05'"),
        ('x1,x2,y\n1,"2,3\n', GOOD, "closed quotes and short cells. Line 2"),
        ("x1,x2,y\n1,2,3\n", {"inputs": "X2", "outputs": "y"}, "Got `X2`. Did you mean `x2`.*`x1`, `x2`, `y`"),
        ("x1,x2,y\n1,2,3\n", {"inputs": "Y1", "outputs": "y"}, "Got `Y1`. Did you mean"),
        ("x1,x2,y\n1,2,3\n", {"inputs": ["x1", "x1"], "outputs": "y"}, "every column once. Got `x1` twice"),
        ("x1,x2,y\n1,2,3\n", {"inputs": ["x1", "y"], "outputs": "y"}, "every column once. Got `y` twice"),
        ("x1,x1,y\n1,2,3\n", {"inputs": "x1", "outputs": "y"}, "2 columns `x1`, at 1, 2"),
        ("x1,x1,y\n1,2,3\n", {"outputs": "y"}, "2 columns `x1`, at 1, 2"),
        ("x1,x2,y\n1,2,3\n", {"outputs": "z"}, "Got `z`"),
        ("x" * 200_000 + "\n1\n", GOOD, "Its first line: field larger"),
        ("x1,x2,y\n1,2,3\n", {"inputs": ["x1", "x2", "y"]}, "None is left"),
        ("x1,x2,y\n1,2,3\n", {}, "at least one of them. It has the columns `x1`, `x2`, `y`"),
        ("x1,x2,y\n1,2,3\n", {"inputs": [], "outputs": "y"}, "a list of names"),
        ("x1,x2,y\n1,2,3\n", {**GOOD, "jacobians": True}, "Missing: `dy/dx1`, `dy/dx2`"),
        ("x1,x2,y,dy/dx2\n1,2,3,4\n", GOOD, "Missing: `dy/dx1`"),
        ("x1 x2 y\n1 2 3\n", GOOD, "separated by commas, semicolons or tabs"),
        ("x1,x2,y\n1,2,3\0\n", GOOD, "binary data"),
        (b"x1,x\xb0,y\n1,2,3\n", GOOD, "UTF-8"),
        (b"x1,x2,y\n" + b"1,2,3\n" * 50 + b"\xff,2,3\n", GOOD, "UTF-8"),
    ],
)
def test_bad_text_files_are_refused_with_the_place_of_the_mistake(content, arguments, message, tmp_path):
    path = tmp_path / "data.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises((dc.SampleFileError, dc.InputError), match=message):
        dc.Samples.load(path, **arguments)


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".parquet", ".npz", ".mat", ".npy"])
def test_damaged_files_are_refused_without_a_traceback_of_others(ending, tmp_path):
    path = write(tmp_path / f"data{ending}", NAMES, TABLE[:, :4])
    content = path.read_bytes()
    for keep in (0, 10, len(content) // 2, len(content) - 3):
        path.write_bytes(content[:keep])
        with pytest.raises(dc.SampleFileError, match=r"cannot be read|empty|equally many|cut off or damaged"):
            dc.Samples.load(path, outputs=["y", "z"])
    path.write_text("these are words")
    with pytest.raises(dc.SampleFileError, match="cannot be read"):
        dc.Samples.load(path, outputs=["y", "z"])


def test_a_file_of_matlab_7_3_is_refused_with_the_way_to_save_it(tmp_path):
    header = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM" + b"\x89HDF\r\n\x1a\n" + bytes(400)
    (tmp_path / "new.mat").write_bytes(header)
    with pytest.raises(dc.SampleFileError, match=r"7\.3, which is HDF5.*save\('new\.mat', '-v7'"):
        dc.Samples.load(tmp_path / "new.mat")


def test_other_kinds_of_content_are_refused_with_what_was_found(tmp_path):
    savemat(tmp_path / "s.mat", {"x1": X[:, 0], "y": "words", "z": {"a": 1}})
    for wrong in ("y", "z"):
        with pytest.raises(dc.SampleFileError, match=f"Array `{wrong}`.*one real number per sample"):
            dc.Samples.load(tmp_path / "s.mat", inputs="x1", outputs=wrong)
    with pytest.raises(dc.SampleFileError, match="has the arrays x1, y, z: name the columns"):
        dc.Samples.load(tmp_path / "s.mat")
    np.save(tmp_path / "cube.npy", J)
    with pytest.raises(dc.SampleFileError, match=r"a matrix, one row per sample.*Its shape is \(12, 2, 2\)"):
        dc.Samples.load(tmp_path / "cube.npy", outputs="1")
    pq.write_table(pa.table({"x": ["a"], "y": [1.0]}), tmp_path / "t.parquet")
    with pytest.raises(dc.SampleFileError, match=r"Column `x`.*It holds string"):
        dc.Samples.load(tmp_path / "t.parquet", outputs="y")
    (tmp_path / "data.xlsx").write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(dc.SampleFileError, match=r"named \.zarr, .*Its ending is '\.xlsx'"):
        dc.Samples.load(tmp_path / "data.xlsx", outputs="y")
    with pytest.raises(dc.SampleFileError, match="is a directory"):
        dc.Samples.load(tmp_path)


def test_without_pyarrow_the_way_out_is_named(tmp_path):
    pq.write_table(pa.table({"x": [1.0], "y": [1.0]}), tmp_path / "t.parquet")
    code = f"""
import sys
sys.modules["pyarrow"] = None
import decouply as dc
try:
    dc.Samples.load({str(tmp_path / "t.parquet")!r}, outputs="y")
except dc.MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "pyarrow>=' in done.stdout


# The order of axes


def test_files_with_more_samples_than_inputs_need_no_order(tmp_path):
    samples = sampled(dc.systems.f2(), 7)
    savemat(tmp_path / "s.mat", {"X": samples.X, "J": samples.J})
    assert dc.Samples.load(tmp_path / "s.mat").n_inputs == 3


def in_matlab_order(path, system, S=7, **other):
    X = np.random.default_rng(3).uniform(-1, 1, (S, system.n_inputs))
    samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
    arrays = {"X": X.T, "F": samples.F.T, "J": np.moveaxis(samples.J, 0, -1)}
    savemat(path, {other.get(name, name): array for name, array in arrays.items()})
    return samples


def test_arrays_in_the_order_of_matlab_have_samples_last(tmp_path):
    given = in_matlab_order(tmp_path / "s.mat", dc.systems.f3())
    read = dc.Samples.load(tmp_path / "s.mat", order="matlab")
    for name in ("X", "F", "J"):
        assert_array_equal(getattr(read, name), getattr(given, name))
    with pytest.raises(dc.SampleFileError, match=r"with samples in the last one, as in MATLAB: say order=\"matlab\""):
        dc.Samples.load(tmp_path / "s.mat")


@pytest.mark.slow
@pytest.mark.parametrize("names", [("X", "J"), ("X", "F")], ids=str)
def test_square_jacobians_of_matlab_are_refused_rather_than_misread(tmp_path, names):
    """With n = m, X (m, S) and J (n, m, S) look like m samples of S inputs, and so do X and F."""
    samples = sampled(dc.systems.f2(), 7)
    arrays = {"X": samples.X.T, "F": samples.F.T, "J": np.moveaxis(samples.J, 0, -1)}
    savemat(tmp_path / "s.mat", {name: arrays[name] for name in names})
    with pytest.raises(dc.SampleFileError, match='must be read with order="samples" or order="matlab"'):
        dc.Samples.load(tmp_path / "s.mat")
    assert dc.Samples.load(tmp_path / "s.mat", order="matlab").n_inputs == 3
    assert dc.Samples.load(tmp_path / "s.mat", order="samples").n_inputs == 7


def test_weights_move_with_the_samples(tmp_path):
    X, F = np.arange(10.0).reshape(2, 5), np.ones((3, 5))
    for weights, shape in ((np.ones((1, 5)), (5,)), (np.ones((3, 5)), (5, 3))):
        savemat(tmp_path / "w.mat", {"X": X, "F": F, "weights": weights})
        assert dc.Samples.load(tmp_path / "w.mat", order="matlab").weights.shape == shape


def test_arrays_may_have_names_of_their_own(tmp_path):
    given = in_matlab_order(tmp_path / "t.mat", dc.systems.f3(), X="points", F="y", J="T")
    read = dc.Samples.load(tmp_path / "t.mat", order="matlab", arrays={"X": "points", "J": "T"})
    assert_array_equal(read.J, given.J)
    assert read.F is None
    with pytest.raises(dc.SampleFileError, match=r"It lacks Q; it has .*points"):
        dc.Samples.load(tmp_path / "t.mat", arrays={"X": "Q"})
    with pytest.raises(dc.InputError, match="`arrays` must name arrays for X, F, J or weights"):
        dc.Samples.load(tmp_path / "t.mat", arrays={"Y": "y"})
    with pytest.raises(dc.SampleFileError, match=r"say which arrays they are with arrays=dict"):
        dc.Samples.load(tmp_path / "t.mat")


def test_an_order_is_for_arrays_only(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,4\n")
    with pytest.raises(dc.InputError, match="`order` must be left out for"):
        dc.Samples.load(tmp_path / "a.csv", inputs="x", outputs="y", order="matlab")
