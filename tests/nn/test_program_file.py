"""Files of `torch.export.save` that would run code when torch loads them."""

import io
import json
import pickle
import zipfile

import pytest
import torch
from torch import nn

import decouply as dc
from decouply.nn.carving._exported_program import load_program

pytestmark = pytest.mark.filterwarnings("ignore")


class Bomb:
    """Writes a file when it is unpickled."""

    def __reduce__(self):
        return eval, ("open('went-off', 'w').close()",)


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "net.pt2"
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).eval()
    shapes = ({0: torch.export.Dim("samples")},)
    torch.export.save(torch.export.export(net, (torch.ones(4, 3),), dynamic_shapes=shapes), path)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(members, path="bomb.pt2"):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def torch_pickle(value):
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def with_member(name, data):
    def changed(members):
        root = next(iter(members)).split("/")[0]
        return members | {f"{root}/{name}": data}

    return changed


def with_graph(change):
    """Another description of the graph."""

    def changed(members):
        (name,) = (name for name in members if name.endswith("models/model.json"))
        program = json.loads(members[name])
        change(program["graph_module"]["graph"], program)
        return members | {name: json.dumps(program)}

    return changed


def with_pickled_weight(members):
    (name,) = (name for name in members if name.endswith("model_weights_config.json"))
    config = json.loads(members[name])
    config["config"]["0.bias"] |= {"use_pickle": True}
    weight = name.replace("model_weights_config.json", config["config"]["0.bias"]["path_name"])
    return members | {name: json.dumps(config), weight: torch_pickle(Bomb())}


def with_an_object(members):
    (name,) = (name for name in members if name.endswith("model_constants_config.json"))
    payload = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
    bomb = name.replace("model_constants_config.json", "opaque_obj_0")
    return members | {name: json.dumps({"config": {"c": payload}}), bomb: pickle.dumps(Bomb())}


def rename(graph, program):
    graph["inputs"][-1]["as_tensor"]["name"] = "x=open('went-off', 'w')"


def evaluate(graph, program):
    sizes = next(meta["sizes"] for meta in graph["tensor_values"].values() if "as_expr" in meta["sizes"][0])
    sizes[0]["as_expr"]["expr_str"] = 'exec(\'open("went-off", "w")\')'


def call(target):
    def change(graph, program):
        graph["nodes"][1]["target"] = target

    return change


def import_a_module(graph, program):
    context = json.dumps({"default_factory_module": "this", "default_factory_name": "s", "dict_context": []})
    spec = [1, {"type": "collections.defaultdict", "context": context, "children_spec": []}]
    program["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = json.dumps(spec)


BOMBS = {
    "example inputs": (with_member("data/sample_inputs/model.pt", torch_pickle(Bomb())), "something else than tensors"),
    "old weights": (with_member("data/weights/model.pt", torch_pickle(Bomb())), "something else than tensors"),
    "a weight": (with_pickled_weight, "something else than tensors"),
    "an object": (with_an_object, "an object, not a tensor"),
    "compiled code": (with_member("data/aotinductor/model/a.so", b"\x7fELF"), "is compiled code"),
    "a name": (with_graph(rename), "is no name"),
    "a size": (with_graph(evaluate), "is no arithmetic of sizes"),
    "a function": (with_graph(call("torch.os.system")), "no operator that is known here"),
    "a file": (with_graph(call("torch.ops.aten.from_file.default")), "works on files"),
    "a module": (with_graph(import_a_module), "are not taken"),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_no_code_in_a_program_runs(members, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    change, words = BOMBS[kind]
    with pytest.raises(dc.InputError, match=words):
        load_program(write(change(members)))
    assert not (tmp_path / "went-off").exists()


def test_the_bomb_is_one(members, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write(BOMBS["example inputs"][0](members))
    with pytest.raises(Exception):  # noqa: B017  # whatever torch says about it, after it ran
        torch.export.load(path)
    assert (tmp_path / "went-off").exists()


def test_a_program_is_the_same_after_the_check(members, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = torch.linspace(-1.0, 1.0, 15).reshape(5, 3)
    path = write(members)
    assert torch.equal(load_program(path).network(x), torch.export.load(path).module()(x))


@pytest.mark.parametrize("cut", [0.3, 0.9])
def test_damaged_programs_are_refused_with_words(members, tmp_path, monkeypatch, cut):
    monkeypatch.chdir(tmp_path)
    whole = (tmp_path / write(members)).read_bytes()
    (tmp_path / "cut.pt2").write_bytes(whole[: int(cut * len(whole))] + whole[-22:])
    with pytest.raises(dc.InputError, match=r"must be a program that torch\.export\.save wrote"):
        load_program("cut.pt2")
