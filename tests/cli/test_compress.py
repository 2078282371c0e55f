"""Programs of PyTorch made smaller on the command line."""

import re

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import decouply as dc
from decouply.cli._main import decouply

from . import tell_every_report


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.ModuleList([nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 6)) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(6), nn.Linear(6, 3)

    def forward(self, x):
        for one in self.inner:
            x = x + one(self.norm(x))
        return self.head(x)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(4, 6)
    any_number = ({0: torch.export.Dim("samples")},)
    torch.export.save(torch.export.export(net, (x,), dynamic_shapes=any_number), "net.pt2")
    torch.export.save(torch.export.export(net, (x,)), "fixed.pt2")
    np.save("X.npy", np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32))
    np.savez("many.npz", a=np.ones(3), b=np.ones(3))
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "cut.npz").write_bytes((tmp_path / "many.npz").read_bytes()[:200])
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(decouply, ["compress", *arguments, "--steps", "300"], catch_exceptions=False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_program_becomes_smaller_and_stays_a_program(folder, monkeypatch):
    tell_every_report(monkeypatch)
    done = run("net.pt2", "--parts", "inner.*", "--data", "X.npy", "--budget", "0.5", "--to", "small.pt2")
    assert done.exit_code == 0, done.output
    assert "inner.0" in done.output and "inner.1" in done.output and "Program: small.pt2" in done.output
    assert re.search(r"Compressing, training inner.1, training \d of \d\n", done.stderr), done.stderr
    before, after = (torch.export.load(folder / name) for name in ("net.pt2", "small.pt2"))
    sizes = [sum(p.numel() for p in program.parameters()) for program in (before, after)]
    assert sizes[1] < 0.65 * sizes[0]
    X = torch.tensor(np.load("X.npy"))
    wanted, got = before.module()(X), after.module()(X)
    assert float((got - wanted).pow(2).mean() / wanted.var()) < 0.02
    again = run("small.pt2", "--parts", "head", "--data", "X.npy", "--ranks", "1", "--quiet")
    assert again.exit_code == 0 and again.output == ""
    short = run("net.pt2", "--parts", "inner.*", "--data", "X.npy", "--ranks", "4", "--max-seconds", "0.01", "--quiet")
    assert short.exit_code == 0, short.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fixed.pt2", "--parts", "inner.*", "--ranks", "2"), "must take any number of samples. It takes 4"),
        (("X.npy", "--parts", "head", "--ranks", "2"), "must be a program that torch.export.save wrote"),
        (("net.pt2", "--parts", "head"), "`--budget` or `--ranks` must say"),
        (("net.pt2", "--parts", "tail", "--ranks", "2"), "Nothing matches 'tail'"),
        (("net.pt2", "--parts", "head", "--ranks", "2", "--data", "many.npz"), "holds several"),
        (
            ("net.pt2", "--parts", "head", "--ranks", "2", "--data", "net.pt2"),
            "must be an array in a .npy file",
        ),
        (("net.pt2", "--parts", "head", "--ranks", "2", "--data", "cut.npz"), "and whole. From a table"),
        (("net.pt2", "--parts", "head", "--ranks", "2", "--data", "empty.npy"), "and whole. From a table: np.save"),
    ],
)
def test_what_cannot_be_compressed_is_told_in_words(folder, arguments, message):
    given = arguments if "--data" in arguments else (*arguments, "--data", "X.npy")
    with pytest.raises((dc.InputError, dc.SampleFileError), match=message):
        run(*given)
