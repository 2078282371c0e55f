"""MATLAB files that would end the process that reads them."""

import io

import numpy as np
import pytest
from scipy.io import savemat

import decouply as dc

X = np.arange(12.0).reshape(6, 2)


@pytest.mark.parametrize(("place", "value"), [(176, 174), (328, 147), (177, 130)])
def test_a_changed_byte_that_kills_the_reader_is_told(tmp_path, place, value):
    stream = io.BytesIO()
    savemat(stream, {"X": X, "F": X**2})
    content = bytearray(stream.getvalue())
    content[place] = value
    (tmp_path / "s.mat").write_bytes(content)
    with pytest.raises(dc.SampleFileError, match=r"`.*s\.mat` must be a MATLAB file.*(damaged|cannot be read)"):
        dc.Samples.load(tmp_path / "s.mat")


def test_cells_and_structures_are_named_but_hold_nothing(tmp_path):
    savemat(tmp_path / "s.mat", {"X": X, "F": X**2, "cell": np.array([[1, "a"]], dtype=object), "name": "text"})
    assert np.array_equal(dc.Samples.load(tmp_path / "s.mat").F, X**2)
