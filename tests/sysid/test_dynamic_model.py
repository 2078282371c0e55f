"""A dynamic model of somebody else: what is written is the contract, and all the rest is there."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.sysid.free_run._dynamic_model import PageContent
from decouply.write._record_file import Record


@pytest.fixture
def leaky_tank():
    """x+ = a x + u, y = x^2, as a class that is known only during one test."""

    @dataclass(frozen=True, eq=False)
    class LeakyTank(dc.sysid.AbstractDynamicModel):
        decoupling: dc.Decoupling
        level: float
        kind: ClassVar = "a tank"
        page_title: ClassVar = "Tank"
        in_file: ClassVar = "tank"
        n_states: ClassVar = 1
        is_causal: ClassVar = True
        training_records: ClassVar = None
        channel_names: ClassVar = None

        @property
        def step(self):
            return self.decoupling

        def simulate(self, u, y_init):
            x, y = self.level, []
            for v in np.ravel(u):
                after = self.step([[x, v]])[0]
                x, y = after[0], [*y, after[1]]
            return np.array(y)

        def page_content(self, signals):
            points = np.concatenate([np.linspace(0.0, 1.0, len(signals.u[0]))[:, None], signals.u[0]], axis=1)
            return PageContent(
                self.step, points, self.simulate, self.simulate, [], "itself", [], "{first} count.", "By hand."
            )

        def file_record(self):
            return Record.of({}, level=self.level)

        @classmethod
        def of_record(cls, decoupling, record, bases):  # noqa: ARG003
            return cls(decoupling, record["level"])

    square = dc.Functions(dc.Monomial(2), np.array([[0.0, 0.0, 1.0]]))
    step = dc.Decoupling([[[1.0, 0.0]], [[0.0], [1.0]]], [square], linear=[[0.8, 1.0], [0.0, 0.0]], offset=[0.0, 0.0])
    yield LeakyTank(step, 0.5)
    dc.sysid.AbstractDynamicModel.kinds.remove(LeakyTank)


def test_it_has_files_formulas_code_and_a_page(leaky_tank, tmp_path):
    leaky_tank.save(tmp_path / "tank.safetensors")
    again = dc.sysid.load_dynamic_model(tmp_path / "tank.safetensors")
    u = np.random.default_rng(0).uniform(0.0, 1.0, 120)
    assert type(again) is type(leaky_tank) and again.level == leaky_tank.level
    assert_allclose(again.simulate(u, None), leaky_tank.simulate(u, None))
    assert leaky_tank.formula() == again.formula()
    assert "void step(" in leaky_tank.step_source("c")
    y = leaky_tank.simulate(u, None)
    leaky_tank.report(tmp_path / "tank.html", u, y + 0.01 * np.sin(u))
    text = (tmp_path / "tank.html").read_text(encoding="utf-8")
    assert "Tank" in text and 'id="poles"' in text and "Step responses" in text
    assert "cycles per sample" in text and "time constant, samples" in text


def test_a_page_tells_of_seconds_if_the_model_knows_them(leaky_tank, tmp_path, monkeypatch):
    u = np.random.default_rng(0).uniform(0.0, 1.0, 120)
    y = leaky_tank.simulate(u, None) + 0.01 * np.sin(u)
    in_samples = leaky_tank.dynamics(u, y)
    assert in_samples.time_of_step == 1.0
    monkeypatch.setattr(type(leaky_tank), "sampling_time", 0.5)
    monkeypatch.setattr(type(leaky_tank), "steps_per_sample", 2)
    assert leaky_tank.dynamics(u, y).time_of_step == 0.25
    leaky_tank.report(tmp_path / "tank.html", u, y)
    text = (tmp_path / "tank.html").read_text(encoding="utf-8")
    assert "frequency, Hz" in text and "time constant, s<" in text and "cycles per sample" not in text


def test_files_of_other_models_are_refused_by_name(leaky_tank, tmp_path):
    leaky_tank.decoupling.save(tmp_path / "step.safetensors")
    with pytest.raises(dc.ModelFileError, match=r"must hold a tank, written by LeakyTank\.save"):
        type(leaky_tank).load(tmp_path / "step.safetensors")
    leaky_tank.save(tmp_path / "tank.safetensors")
    with pytest.raises(dc.ModelFileError, match="must hold a state-space model"):
        dc.sysid.DecoupledStateSpace.load(tmp_path / "tank.safetensors")
