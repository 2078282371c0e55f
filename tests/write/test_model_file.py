from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from safetensors.numpy import save_file

import decoupling as dc
from tests.strategies import points


@dataclass(frozen=True)
class Saturation(dc.AbstractBasis):
    """tanh(slope u): a basis that is not part of the package."""

    slope: float

    @property
    def size(self):
        return 1

    @property
    def scale_invariant(self):
        return False

    def evaluate(self, u):
        return np.tanh(self.slope * u)[..., None]

    def derivative(self, u):
        return self.slope * (1 - np.tanh(self.slope * u) ** 2)[..., None]

    def second_derivative(self, u):
        t = np.tanh(self.slope * u)
        return -2 * self.slope**2 * (t * (1 - t**2))[..., None]


BASES = [
    dc.Monomial(3),
    dc.ScaledMonomial(2, 0.5),
    dc.Bernstein(3),
    dc.Chebyshev(2, radius=2.0),
    dc.Trigonometric(3),
    (dc.Monomial(3), dc.Trigonometric(2)),
]


@pytest.mark.parametrize("basis", BASES, ids=repr)
def test_a_saved_model_comes_back_as_it_was(basis, tmp_path):
    size = 3 if isinstance(basis, tuple) else basis.size
    C = np.zeros((2, 1 + size))
    C[:, :3] = 0.5
    model = dc.Decoupling([np.eye(2), np.ones((3, 2))], [dc.Functions(basis, C)])
    model.save(tmp_path / "m.safetensors")
    again = dc.Decoupling.load(tmp_path / "m.safetensors")
    assert_array_equal(again(points(2)), model(points(2)))
    assert again.g[0].basis == basis
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]


def test_a_users_own_basis_must_be_named_when_its_model_is_loaded(tmp_path):
    model = dc.Decoupling([np.eye(1), np.eye(1)], [dc.Functions(Saturation(2.0), [[0.0, 1.0]])])
    model.save(tmp_path / "m.safetensors")
    with pytest.raises(dc.ModelFileError, match=r"bases=\[Saturation\]"):
        dc.Decoupling.load(tmp_path / "m.safetensors")
    assert dc.Decoupling.load(tmp_path / "m.safetensors", bases=[Saturation]).g[0].basis == Saturation(2.0)


@pytest.mark.parametrize("keep", [0, 4, 20, 200, -8])
def test_a_truncated_file_gives_a_clear_error(keep, tmp_path):
    path = tmp_path / "m.safetensors"
    dc.systems.f1().save(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(dc.ModelFileError, match="damaged or of another kind"):
        dc.Decoupling.load(path)


def test_foreign_newer_and_inconsistent_files_give_clear_errors(tmp_path):
    path = tmp_path / "m.safetensors"
    save_file({"a": np.ones(2)}, path)
    with pytest.raises(dc.ModelFileError, match="holds other tensors"):
        dc.Decoupling.load(path)
    save_file({"a": np.ones(2)}, path, metadata={"format": "decoupling", "version": "99", "bases": "[]"})
    with pytest.raises(dc.ModelFileError, match="must have format version 1"):
        dc.Decoupling.load(path)
    for bases in ("[[]]", "nonsense", '[[{"name": "Monomial", "fields": {"power": 2}}]]', "{}"):
        save_file({"W0": np.ones((1, 1))}, path, metadata={"format": "decoupling", "version": "1", "bases": bases})
        with pytest.raises(dc.ModelFileError, match="do not fit together"):
            dc.Decoupling.load(path)
    with pytest.raises(dc.ModelFileError, match="no such file"):
        dc.Decoupling.load(tmp_path / "missing.safetensors")


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "m.safetensors"
    dc.systems.f1().save(path)
    old = path.read_bytes()
    model = dc.Decoupling([np.eye(1), np.eye(1)], [dc.Functions(Saturation(np.float32(2)), [[0.0, 1.0]])])
    with pytest.raises(dc.InputError, match="to be saved"):
        model.save(path)
    assert path.read_bytes() == old
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(dc.InputError, match="does not exist"):
        dc.systems.f1().save(tmp_path / "no" / "m.safetensors")
