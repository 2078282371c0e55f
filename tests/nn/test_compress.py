"""Compression end to end on small trained networks."""

import copy
import math
import pickle
import warnings

import numpy as np
import pytest
import torch
from torch import nn

import decouply as dc
from decouply._support._interrupts import INTERRUPTED
from decouply.nn.compression import _options, _pipeline
from decouply.nn.compression._evaluation import Decision, _percent
from decouply.report._rerun_source import how_to_run_again

from .networks import Own, blobs, compress, sequential, train

DATA, LABELS = blobs()
TEST, TEST_LABELS = blobs(seed=5)
QUICK = dc.Proj(stopping=dc.solvers.Stopping(max_steps=1))


def accuracy(network):
    with torch.no_grad():
        return float((network(torch.tensor(TEST)).argmax(1).numpy() == TEST_LABELS).mean())


@pytest.fixture(scope="module")
def net():
    return train(sequential(), DATA, LABELS)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Fewer steps of training than a user would take."""
    monkeypatch.setattr(_options, "USUAL", dc.nn.Distil(max_steps=150))


def run(network, part, **options):
    settings = {"ranks": 4, "degrees": 3, "score": accuracy, "task": "classification", "progress": False, "rng": 0}
    return compress(network, part, DATA, **{**settings, **options})


def test_a_sequential_network_is_compressed_and_stays_as_it_was(net):
    before = copy.deepcopy(net.state_dict())
    out = run(net, ("2", "6"))
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items()) and len(net) == 7
    report = out.report
    assert report.parameters == (12 * 30 + 30 + 30 * 20 + 20 + 20 * 3 + 3, 4 * 12 + 4 * 3 + 4 * 3 + 4)
    assert report.savings == pytest.approx(100 * (1 - 76 / 1073))
    assert report.multiply_adds == (12 * 30 + 30 * 20 + 20 * 3, 4 * 12 + 4 * 3 + 4 + 4 * 3)  # with a tangent each
    assert report.score == (accuracy(net), accuracy(out.model)) and report.drop < 0.05
    assert isinstance(out.model[2], dc.nn.DecoupledLayer) and len(out.model) == 3
    assert "parameters of the part" in str(report) and report.latency[0] > 0
    points = net[:2](torch.tensor(DATA)).detach().numpy()
    assert np.allclose(out.decoupling(points), out.layer(torch.tensor(points)).detach().numpy(), atol=1e-3)


def test_a_network_with_a_forward_of_its_own_is_traced():
    own = train(Own(), DATA, LABELS).eval()
    out = run(own, ("fc2", "fc4"))
    assert out.report.drop < 0.05 and out.report.parameters[0] == 1073
    with torch.no_grad():
        assert torch.allclose(out.model(torch.tensor(TEST)).exp().sum(1), torch.ones(len(TEST)), atol=1e-5)


def test_a_named_submodule_and_a_final_softmax():
    inner = sequential(final=(nn.LogSoftmax(dim=1),))
    network = nn.Sequential()
    network.add_module("head", inner)
    train(network, DATA, LABELS)
    out = run(network, ("head.2", "head.7"))
    with torch.no_grad():
        total = out.model(torch.tensor(TEST)).exp().sum(1)
    assert torch.allclose(total, torch.ones(len(TEST)), atol=1e-5)  # the softmax was left outside
    inside = run(network, ("head.2", "head.7"), logits=False, refine=False)
    assert isinstance(inside.model.head[-1], dc.nn.DecoupledLayer)
    whole = run(network, "head", ranks=5)
    assert whole.report.parameters[0] == sum(p.numel() for p in network.parameters())


def test_refining_without_labels_and_training_with_them(net):
    plain = run(net, ("2", "6"), ranks=2, refine=False, score=None)
    refined = run(net, ("2", "6"), ranks=2, score=None)
    assert refined.report.score_name == "inputs that keep their class" and refined.report.score[0] == 1.0
    assert refined.report.score[1] >= plain.report.score[1]
    tuned = run(net, ("2", "6"), ranks=2, fine_tune=dc.nn.FineTune(DATA, LABELS, max_steps=20))
    assert tuned.report.drop < 0.05
    assert all(p.requires_grad for p in tuned.model.parameters())


def test_what_was_frozen_stays_frozen_and_no_gradients_are_left(net):
    frozen = copy.deepcopy(net)
    frozen[0].weight.requires_grad_(False)
    frozen[0].bias.grad = torch.ones(12)
    for whole in (False, True):
        out = run(frozen, ("2", "6"), refine=False, fine_tune=dc.nn.FineTune(DATA, LABELS, max_steps=10, whole=whole))
        assert [p.requires_grad for p in out.model.parameters()] == [False, True, True, True, True]
        assert all(p.grad is None for p in out.model.parameters())
        assert torch.equal(out.model[0].weight, frozen[0].weight)
        assert torch.equal(out.model[0].bias, frozen[0].bias) is not whole


def test_networks_that_return_probabilities_are_trained_as_such(net):
    """The cross-entropy of a softmax of a softmax can hardly fall."""
    final = nn.Sequential(*copy.deepcopy(net), nn.Softmax(dim=1))
    options = {"refine": False, "fine_tune": dc.nn.FineTune(DATA, LABELS, max_steps=10)}
    one, two = (run(network, ("2", "6"), **options) for network in (net, final))
    for a, b in zip(one.layer.parameters(), two.layer.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-3)


@pytest.fixture
def losses(monkeypatch):
    """What refining was asked to match, in every call."""
    seen = []

    def keep(layer, part, X, how, **_):
        seen.append(how.loss)
        return layer

    monkeypatch.setattr(_pipeline, "refine", keep)
    return seen


def test_refining_matches_classes_only_where_the_part_gives_them(net, losses):
    for network, part, options in [
        (net, ("2", "6"), {}),
        (nn.Sequential(*net, nn.Softmax(dim=1)), ("2", "7"), {}),
        (net, ("2", "4"), {}),  # a softmax of hidden units means nothing, and does not see a shift of them
        (net, ("2", "6"), {"refine": "squared"}),
        (net, ("2", "6"), {"task": "regression"}),
        (net, ("2", "6"), {"task": None}),  # scores of classes look like any other numbers
        (net, ("2", "6"), {"task": None, "labels": LABELS}),
        (nn.Sequential(*net, nn.LogSoftmax(dim=1)), ("2", "7"), {"task": None}),
        (net, ("2", "4"), {"refine": "kl"}),
        (net, ("2", "6"), {"refine": False}),
    ]:
        run(network, part, solver=QUICK, **options)
    assert losses == ["kl", "kl", "squared", "squared", "squared", "squared", "kl", "kl", "kl"]


def test_samples_are_balanced_by_the_classes_of_the_network(net):
    hidden = run(net, ("0", "2"), refine=False)  # thirty outputs, three classes
    assert hidden.result.samples.n_samples == 3 * 20
    classes = net(torch.tensor(hidden.result.samples.X, dtype=torch.float32)).argmax(1)
    assert torch.bincount(classes).tolist() == [20, 20, 20]


def test_the_range_is_that_of_the_samples_until_the_functions_learn_of_more(net):
    plain = run(net, ("2", "6"), refine=False)
    samples = plain.result.samples
    low, high = plain.layer.domain(0).numpy().T
    u = samples.X @ plain.layer.W[0].detach().numpy().T
    assert np.allclose(low, u.min(axis=0), rtol=1e-4) and np.allclose(high, u.max(axis=0), rtol=1e-4)
    assert plain.report.outside > run(net, ("2", "6")).report.outside
    assert run(net, ("2", "6"), validation=0).report.outside == 0.0
    with pytest.warns(dc.DecouplingWarning, match="lie outside the range .* raise `n_samples`"):
        run(net, ("2", "6"), refine=False, n_samples=9)


@pytest.mark.filterwarnings("ignore:.*outside the range the functions were fitted on")  # how far, luck decides
def test_ranks_are_found_for_an_accepted_drop(net):
    out = run(net, ("2", "6"), ranks="auto", max_drop=0.02, solver=dc.Proj(stopping=dc.solvers.Stopping(max_steps=20)))
    assert out.report.drop <= 0.02 and len(out.decoupling.ranks) == 1
    with pytest.warns(dc.DecouplingWarning, match="more than the 0 you accept"):
        run(net, ("2", "6"), ranks=1, max_drop=0.0, degrees=1, refine=False, solver=QUICK)
    with pytest.warns(dc.DecouplingWarning, match="not smaller"):
        run(net, "6", ranks=5, refine=False, solver=QUICK)


def test_a_search_without_end_stops_in_time_with_the_best_so_far(net):
    best = iter(np.linspace(1.0, 0.0, 99))  # the first score is that of the network, and no other comes near
    too_far = pytest.warns(dc.DecouplingWarning, match="more than the 0 you accept")
    in_time = pytest.warns(dc.DecouplingWarning, match=r"`max_seconds` was reached .* ranks up to 1 of \d+ were tried")
    with too_far, in_time:
        out = run(
            net, ("2", "6"), ranks="auto", max_drop=0.0, score=lambda _: next(best), solver=QUICK, max_seconds=1e-3
        )
    assert out.decoupling.ranks == (1,)


@pytest.mark.parametrize(("good_from", "tried"), [(1, [1]), (2, [1, 2]), (7, [1, 2, 3, 4, 6, 9, 7]), (99, None)])
def test_the_fewest_ranks_are_found_by_growing_and_halving(net, good_from, tried):
    seen = []

    def score(network):
        layer = next((m for m in network.modules() if isinstance(m, dc.nn.DecoupledLayer)), None)
        if layer is None:
            return 1.0
        if layer.ranks[0] not in seen:
            seen.append(layer.ranks[0])
        return 1.0 if layer.ranks[0] >= good_from else 0.01 * layer.ranks[0]

    options = {"ranks": "auto", "score": score, "refine": False, "solver": QUICK}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dc.DecouplingWarning)
        out = run(net, ("2", "6"), **options)
    if tried is None:  # nothing that is smaller than the part will do: the best of these
        assert out.layer.ranks[0] == max(seen) == 1072 // (12 + 3 + 3 + 1) and "more than" in out.report.warnings[-1]
    else:
        assert out.layer.ranks[0] == good_from and seen == tried


def test_it_works_where_gradients_are_switched_off_and_leaves_the_state_of_torch_alone(net):
    wanted = run(net, ("2", "6"))
    noise, threads = torch.get_rng_state(), torch.get_num_threads()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            got = run(net, ("2", "6"))
            assert not torch.is_grad_enabled()
        assert all(torch.equal(a, b) for a, b in zip(got.layer.parameters(), wanted.layer.parameters(), strict=True))
        got.model(torch.tensor(DATA)).sum().backward()
    assert torch.equal(torch.get_rng_state(), noise) and torch.get_num_threads() == threads


def test_metrics_of_all_kinds(net):
    def loss(network):
        assert not network.training
        network.train()  # and forgets about it
        return -nn.functional.cross_entropy(network(torch.tensor(DATA)), torch.tensor(LABELS))

    out = run(net, ("2", "6"), score=loss, refine=False)
    assert (
        out.report.score[0] == pytest.approx(float(loss(copy.deepcopy(net).eval()).detach())) and not out.model.training
    )
    scored = iter([1.0, np.nan])
    with pytest.warns(dc.DecouplingWarning, match="fell by nan, more than the 0.1"):
        odd = run(net, ("2", "6"), score=lambda network: next(scored), solver=QUICK, max_drop=0.1, refine=False)
    assert np.isnan(odd.report.drop)


def test_what_is_returned_can_be_kept(net):
    out = run(net, ("2", "6"), score=None, refine=False)
    again = pickle.loads(pickle.dumps(out))
    x = torch.tensor(TEST)
    assert torch.equal(again.model(x), out.model(x)) and again.report == out.report
    assert "Sequential" not in repr(out)
    exported = torch.export.export(out.model, (x,), dynamic_shapes=({0: torch.export.Dim("S")},)).module()
    for count in (1, 7):
        assert torch.allclose(exported(x[:count]), out.model(x[:count]), atol=1e-6)
    assert out.model(x[:0]).shape == (0, 3)


def test_the_page_of_a_compression_tells_the_errors_of_the_samples_that_were_fitted(net, tmp_path):
    result = run(net, ("2", "6")).result
    result.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    worst = result.relative_rmse().max()
    assert 10.0 < worst < 100.0 and f"<td>{worst:.3g} %</td>" in page
    wrong = np.sum((result.samples.F - result.decoupling(result.samples.X)) ** 2) / np.sum(result.samples.F**2)
    assert f"Error(F) = {wrong:.3g}" in page
    part = net[2:]
    values = part(torch.tensor(result.samples.X, dtype=torch.float32)).detach().numpy()
    assert np.allclose(result.samples.F, values, atol=1e-4)  # in the units of the network


def test_running_it_again_gives_the_same_decoupling(net, tmp_path, monkeypatch):
    for score in (None, accuracy):
        result = run(net, ("2", "6"), score=score).result
        settings = result.settings
        assert settings.as_given and settings.validation is None
        monkeypatch.chdir(tmp_path)
        result.samples.save("samples.npz")
        names = {"loss": result.solver.loss}
        exec(how_to_run_again(result).source, names)
        again = names["result"].decoupling
        for one, other in zip((*again.W, again.g[0].C), (*result.decoupling.W, result.decoupling.g[0].C), strict=True):
            assert np.array_equal(one, other)
        assert [row.loss for row in names["result"].path] == [row.loss for row in result.path]


def press(stage, at):
    """A progress callable that presses Ctrl-C once, and a list of the stages that it saw."""
    seen = []

    def progress(**values):
        seen.append(values["stage"].replace(",", " ").split()[0])
        if seen[-1] == stage and values.get("done") == at:
            raise KeyboardInterrupt

    return progress, seen


def told_of_ctrl_c(act):
    with pytest.warns(dc.DecouplingWarning) as told:
        out = act()
    assert [str(w.message) for w in told].count(INTERRUPTED) == 1
    return out


def test_ctrl_c_ends_everything_and_keeps_the_best(net):
    tuning = {"fine_tune": dc.nn.FineTune(DATA, LABELS, batch_size=100)}
    progress, seen = press("decoupling", 3)
    out = told_of_ctrl_c(lambda: run(net, ("2", "6"), ranks="auto", progress=progress, **tuning))
    assert set(seen) == {"sampling", "decoupling"} and out.result.status is not None
    assert out.report.score[1] == accuracy(out.model)
    progress, seen = press("refining", 20)
    tuning["solver"] = QUICK
    out = told_of_ctrl_c(lambda: run(net, ("2", "6"), progress=progress, **tuning))
    assert set(seen) == {"sampling", "decoupling", "refining"} and seen.count("refining") == 20
    progress, seen = press("fine-tuning", 20)
    out = told_of_ctrl_c(lambda: run(net, ("2", "6"), ranks=2, refine=False, progress=progress, **tuning))
    plain = run(net, ("2", "6"), ranks=2, refine=False, solver=QUICK)
    assert seen.count("fine-tuning") == 20 and cross_entropy(out.model) < cross_entropy(plain.model)
    assert all(p.requires_grad and p.grad is None for p in out.model.parameters())


def cross_entropy(network):
    with torch.no_grad():
        return float(nn.functional.cross_entropy(network(torch.tensor(DATA)), torch.tensor(LABELS)))


def test_training_with_labels_that_made_things_worse_before_ctrl_c_is_undone(net):
    progress, _ = press("fine-tuning", 2)
    tuning = dc.nn.FineTune(DATA, LABELS, rate=1e3, whole=True)
    out = told_of_ctrl_c(lambda: run(net, ("2", "6"), progress=progress, fine_tune=tuning))
    plain = run(net, ("2", "6"))
    assert all(torch.equal(a, b) for a, b in zip(out.model.parameters(), plain.model.parameters(), strict=True))


def test_the_report_says_plainly_what_is_worse():
    part = dc.nn.PartReport(
        "2", "the whole sample", (4,), (100, 200), (None, 50), (400, 800), (1e-3, 2e-3), 0.1, 0.0, 1e-6
    )
    decision = Decision("classification", "as asked")
    report = dc.nn.CompressionReport((part,), (300, 400), 256, (0.5, 0.5), "score", decision, 7, None)
    lines = str(report).splitlines()
    assert lines[-2:] == [
        "Slower: the result takes 2.0 times as long.",
        "Warning: The result is not smaller than the part it replaces: lower the ranks.",
    ]
    for error, told in ((0.1, "10 %"), (16.7, "1,670 %"), (math.inf, "inf %")):
        assert _percent(error) == told
    assert len({line.index(" -> ") - len(line.split(" -> ")[0].split()[-1]) for line in lines[:6]}) == 1  # one column


def test_multiply_adds_of_every_layer_are_counted(net):
    two = run(net, ("2", "6"), ranks=(4, 2), refine=False, outside="extend", solver=QUICK)
    assert two.report.multiply_adds[1] == 12 * 4 + 4 * 3 + 4 * 2 + 2 * 3 + 2 * 3


def test_the_same_seed_gives_the_same_network(net):
    one, two = (run(net, ("2", "6"), rng=3) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.model.parameters(), two.model.parameters(), strict=True))


def test_one_output_is_a_regression():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 1))
    out = run(net, ("2", "4"), ranks=3, score=None, task=None)
    assert out.report.score[1] > 0.9
    with torch.no_grad():
        for p in net[4].parameters():
            p.zero_()
    assert run(net, ("2", "4"), ranks=3, score=None, task=None, refine=False).report.score == (1.0, 1.0)


def test_several_numbers_are_not_taken_for_classes():
    """Outputs of very different sizes: the largest one is always the same, and says nothing."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 30), nn.Tanh(), nn.Linear(30, 3))
    with torch.no_grad():
        net[4].bias += torch.tensor([100.0, 0.0, -100.0])
    out = run(net, ("2", "4"), ranks=5, score=None, task=None)
    report = out.report
    assert report.task.task == "regression" and "nothing says that the outputs are classes" in str(report)
    x = torch.tensor(TEST)
    with torch.no_grad():
        wanted, got = net(x), out.model(x)
    off = ((got - wanted) / wanted.std(dim=0)).pow(2).mean().sqrt()
    assert report.relative_error == pytest.approx(float(off), rel=0.3) and float(off) < 0.5
    with pytest.warns(dc.DecouplingWarning, match="The error of .* % of the standard deviation"):
        run(net, ("2", "4"), ranks=1, degrees=1, score=None, task=None, refine=False, solver=QUICK)


def test_what_is_reported_was_not_fitted(net):
    out = run(net, ("2", "6"), score=None)
    assert out.report.n_held_out == 120 and "120 inputs held out" in str(out.report)
    given = run(net, ("2", "6"), score=None, validation=TEST)
    assert given.report.n_held_out == len(TEST)
    with torch.no_grad():
        x = torch.tensor(TEST)
        kept = (given.model(x).argmax(1) == net(x).argmax(1)).double().mean()
    assert given.report.score[1] == pytest.approx(float(kept))
    assert "the inputs fitted to" in str(run(net, ("2", "6"), validation=0, solver=QUICK, refine=False).report)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_short_floats_are_compressed_in_float32(net, dtype):
    out = run(copy.deepcopy(net).to(dtype), ("2", "6"), refine=False)
    assert {p.dtype for p in out.model.parameters()} == {torch.float32}
    before, after = out.report.stored_bytes  # what is stored, not the copy that was worked on
    assert before == 2 * sum(p.numel() for p in net[2:7].parameters())
    assert after == 4 * sum(tensor.numel() for tensor in out.layer.state_dict().values())


def test_a_budget_of_bytes_counts_short_floats_as_they_are_stored(net):
    quick = {"ranks": "auto", "budget": dc.nn.Budget(bytes=0.5), "start": "random", "refine": False}
    before, after = run(copy.deepcopy(net).bfloat16(), ("2", "6"), **quick).report.stored_bytes
    assert after <= 0.5 * before == sum(p.numel() for p in net[2:7].parameters())


class Pair(nn.Module):
    """Two outputs, of which one is used."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Linear(8, 12), nn.Linear(12, 3)

    def forward(self, x):
        h = torch.relu(self.body(x))
        return self.head(h), h


def test_networks_that_return_more_than_one_tensor_need_a_score():
    out = run(Pair(), "head", ranks=2, refine=False, score=lambda network: accuracy(lambda x: network(x)[0]))
    assert isinstance(out.model.head, dc.nn.DecoupledLayer)
    with pytest.raises(dc.InputError, match="`score` must be given: the network returns tuple"):
        run(Pair(), "head", score=None)


def test_bad_compressions_are_refused(net):
    class Branch(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)

        def forward(self, x):
            h = self.a(x)
            return self.c(self.b(h) + x)

    class Choosy(Branch):
        def forward(self, x):
            return self.c(self.b(self.a(x))) if x.sum() > 0 else self.c(x)

    one = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 30), nn.ReLU(), nn.Linear(30, 1))

    def tuned(labels, inputs=DATA, network=net):
        run(network, ("2", "4"), score=lambda network: 1.0, task=None, fine_tune=dc.nn.FineTune(inputs, labels))

    cases = [
        (lambda: run(net, ("2", "9")), "must name submodules"),
        (lambda: run(net, ("6", "2")), "first module before the last"),
        (lambda: run(net, lambda name, module: False), "The function chose none"),
        (lambda: run(Branch(), ("b", "c")), "Between b and c enter: a, x"),
        (lambda: run(Branch(), ("a", "b")), None),
        (lambda: run(Choosy(), ("a", "c")), "torch.fx can trace"),
        (lambda: run(copy.deepcopy(net).to(torch.float8_e5m2), ("2", "6")), "real numbers of 16 to 64 bits"),
        (lambda: run(one, ("2", "4")), '`task` must be "regression" for one output'),
        (lambda: run(net, ("2", "6"), validation=1.5), "`validation` must be a share"),
        (lambda: run(net, ("2", "6"), validation="some"), "`validation`"),
        (lambda: compress(net, ("2", "6"), DATA.astype(int), 4), "int64"),
        (lambda: compress(net, ("2", "6"), DATA[:2], 4), "at least two inputs"),
        (lambda: run(net, ("2", "6"), labels=LABELS[:2]), "`labels` must be 600"),
        (lambda: run(net, ("2", "6"), n_samples=2), "at least one input per class"),
        (lambda: run(net, ("2", "6"), labels=np.zeros(3, dtype=int)), "`labels` must be 600"),
        (lambda: run(net, ("2", "6"), score=lambda network: None), "`score` must return a number"),
        (lambda: run(net, ("2", "6"), score=lambda network: torch.zeros(4, 3)), r"Got a tensor of shape \(4, 3\)"),
        (lambda: run(net, ("2", "6"), score=lambda network: np.nan), "a finite number for the network that is given"),
        (lambda: run(net, ("2", "6"), labels=LABELS + 0.5), "`labels` must be 600 whole numbers.*Got float64"),
        (lambda: run(copy.deepcopy(net).to("meta"), ("2", "6")), 'on the device "meta"'),
        (lambda: tuned(LABELS + 1), "`labels` must be classes 0, ..., 2 of the network. Got 1 to 3"),
        (lambda: tuned(LABELS + 0.5), "`labels` must be 600 whole numbers"),
        (lambda: tuned(LABELS, DATA[:, :3]), "`inputs` must be inputs of the network"),
        (lambda: tuned(LABELS, network=one), r"scores \(S, n\) of n > 1 classes. It returns shape \(2, 1\)"),
        (lambda: run(nn.ReLU(), "x"), "must have parameters"),
        (lambda: run(nn.Sequential(nn.Linear(8, 3), nn.Linear(3, 2)), "1", ranks="auto"), "nothing to save"),
        (lambda: dc.nn.FineTune(DATA, LABELS[:3]), "same length"),
        (lambda: dc.nn.FineTune(3, 4), "same length"),
    ]
    for act, message in cases:
        if message is None:
            act()
            continue
        with pytest.raises(dc.InputError, match=message):
            act()
    broken = copy.deepcopy(net)
    with torch.no_grad():
        broken[6].bias[0] = float("inf")
    with pytest.raises(dc.InputError, match=r"finite weights\. 6\.bias has 1 that are NaN"):
        run(broken, ("2", "6"))
