"""Cutting a part out of a network: a copy of the network in which the part is one module with one input.

Names of children of one `nn.Sequential` are cut there; a single name is cut as it is. Any other pair of names is found
in the graph that `torch.fx` traces. There everything from the first to the last module must hang on one tensor. A cut
counts only if the copy still computes what the network does.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, fx, nn

from ..._support._errors import InputError
from ._jacobian_sampling import chunks, first_line, twin_of
from ._receptive_field import AbstractReceptiveField

PartName = str | tuple[str, str]  # one module, or the first and the last of a stretch
ACTIVATIONS = (nn.Sigmoid, nn.Softmax, nn.LogSoftmax)  # that turn scores into probabilities
_NEW_NAME = "decoupled"  # of a stretch that becomes a module in a traced network
_N_COMPARED = 4  # inputs on which a cut network is compared with the given one


@dataclass(frozen=True)
class Carved:
    """A copy of a network whose part is the submodule at `path`."""

    network: nn.Module
    path: str

    @property
    def part(self) -> nn.Module:
        return self.network.get_submodule(self.path)

    def with_layer(self, field: AbstractReceptiveField, layer: nn.Module) -> nn.Module:
        """A copy of the network with a function of vectors, in the type of the network, in the place of the part."""
        p = next(self.network.parameters())
        network = copy.deepcopy(self.network)
        _set_submodule(network, self.path, field.module(layer.to(p.device, p.dtype)))
        return network.eval()

    def batches(self, data: Tensor, batch_size: int) -> Iterator[tuple[Tensor, Any, Any]]:
        """What the part is given, what it returns, and what the network returns, batch by batch."""
        seen: list[tuple[Tensor, Any]] = []

        def check(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if len(args) != 1 or kwargs or not isinstance(args[0], Tensor):
                got = [type(a).__name__ for a in args] + [f"{k}={type(a).__name__}" for k, a in kwargs.items()]
                raise InputError(
                    f"`parts` must be functions of one tensor, called with it alone. {self.path} is called with "
                    f"({', '.join(got)})."
                )
            if not args[0].is_floating_point():
                raise InputError(
                    f"`parts` must take real inputs: Jacobians need them. {self.path} is called with {args[0].dtype}."
                )
            seen.append((args[0].detach().cpu().clone(), None))  # the part may begin with a module that works in place

        def keep(_: nn.Module, __: Any, output: Any) -> None:
            seen[-1] = seen[-1][0], output.detach().cpu() if isinstance(output, Tensor) else output

        handles = [
            self.part.register_forward_pre_hook(check, with_kwargs=True),
            self.part.register_forward_hook(keep),
        ]
        try:
            for rows in chunks(len(data), batch_size):
                seen.clear()
                output = outputs_of(self.network, data[rows])
                if len(seen) != 1:
                    raise InputError(
                        f"`parts` must be used once when the network runs. {self.path} was used {len(seen)} times: "
                        "give each use its own module."
                    )
                given, returned = seen[0]
                if given.ndim < 2 or len(given) != rows.stop - rows.start:
                    raise InputError(
                        f"`parts` must take one vector or array per sample. {self.path} is given the shape "
                        f"{tuple(given.shape)} for {rows.stop - rows.start} samples."
                    )
                yield given, returned, output
        finally:
            for handle in handles:
                handle.remove()


def carve(model: nn.Module, name: PartName, data: Tensor, *, logits: bool) -> Carved:
    """Copy `model` and make a part one submodule of it; with `logits`, a final sigmoid or softmax stays outside."""
    names = (name,) if isinstance(name, str) else name
    some = data[:_N_COMPARED]
    whole = twin_of(model, "model")
    wanted, again = (list(_tensors(outputs_of(whole, some))) for _ in range(2))
    if not _all_same(again, wanted):
        raise InputError(
            "`model` must return the same numbers when it is called again. It does not, in evaluation mode: look for "
            "dropout that is always on."
        )
    problem = InputError(
        f"`parts` must leave a working network. Without {' to '.join(names)}, the rest computes "
        "something else: put the part into one submodule and name that."
    )
    for k, cut in enumerate(_cutting_methods(model, names, logits)):
        try:
            carved = cut(twin_of(model, "model"))
            if _all_same(list(_tensors(outputs_of(carved.network, some))), wanted):
                return carved
        except InputError as error:
            problem = error if k == 0 else problem
    raise problem


def _cutting_methods(model: nn.Module, names: tuple[str, ...], logits: bool) -> Iterator[Callable[[nn.Module], Carved]]:
    """The ways to cut, the one that changes least first."""
    if len(names) == 1:
        yield partial(_cut_module, name=names[0], logits=logits)
        return
    first, last = names
    steps = zip(first.split("."), last.split("."), strict=False)
    around = ".".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], steps))  # the smallest around both
    if around == first.rpartition(".")[0] == last.rpartition(".")[0] and _is_plain(model.get_submodule(around)):
        yield partial(_cut_sequence, first=first, last=last, logits=logits)
    while True:
        if type(model.get_submodule(around)).forward is not nn.Module.forward:  # a list of modules is never called
            yield partial(_cut_traced, around=around, paths=names, logits=logits)
        if not around:
            return
        around = around.rpartition(".")[0]


def _is_plain(module: nn.Module) -> bool:
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def is_within(name: str, other: str) -> bool:
    return name.startswith(f"{other}.")


def outputs_of(network: nn.Module, data: Tensor, name: str = "data") -> Any:
    """What the network returns, which may be anything; `data` stays as it is, also if a module works in place."""
    try:
        with torch.no_grad():
            return network(data.clone())
    except InputError:
        raise
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        kind = "" if data.is_floating_point() else f", in {str(data.dtype).removeprefix('torch.')},"
        raise InputError(
            f"`{name}` must be inputs of the network, which must be a function of one tensor. For the shape "
            f"{tuple(data.shape)}{kind} it says: {first_line(error)}"
        ) from error


def _tensors(output: Any) -> Iterator[Tensor]:
    """All tensors in what a network returns."""
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, dict):
        for value in output.values():
            yield from _tensors(value)
    elif isinstance(output, tuple | list):
        for value in output:
            yield from _tensors(value)


def _all_same(got: list[Tensor], wanted: list[Tensor]) -> bool:
    return len(got) == len(wanted) and all(
        a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-6, equal_nan=True)
        for a, b in zip(got, wanted, strict=True)
    )


# Ways to cut


def _cut_module(network: nn.Module, name: str, logits: bool) -> Carved:
    module = network.get_submodule(name)
    children = list(module._modules.items())
    if logits and _is_plain(module) and len(children) > 1 and isinstance(children[-1][1], ACTIVATIONS):
        return _cut_sequence(network, f"{name}.{children[0][0]}", f"{name}.{children[-1][0]}", logits)
    return Carved(network, name)


def _cut_sequence(network: nn.Module, first: str, last: str, logits: bool) -> Carved:
    """Cut a stretch out of an `nn.Sequential`, which stays what it is otherwise."""
    parent = first.rpartition(".")[0]
    sequence = network.get_submodule(parent)
    children = list(sequence._modules.items())  # named_children leaves out a module that comes a second time
    order = [name for name, _ in children]
    i, j = (order.index(name.rpartition(".")[2]) for name in (first, last))
    if i > j:
        raise InputError(f"`parts` must name the first module before the last one. Got {(first, last)}.")
    if logits and j > i and isinstance(children[j][1], ACTIVATIONS):
        j -= 1
    inner = nn.Sequential(*(module for _, module in children[i : j + 1] if module is not None)).eval()
    sequence._modules = dict([*children[:i], (order[i], inner), *children[j + 1 :]])
    return Carved(network, first)


class _Tracer(fx.Tracer):
    """Looks into the modules around the named ones alone. torch.load makes one without names."""

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        super().__init__()
        self._names = names

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:  # noqa: ARG002
        return not any(is_within(name, module_qualified_name) for name in self._names)


def _cut_traced(network: nn.Module, around: str, paths: tuple[str, ...], logits: bool) -> Carved:
    """Cut the module at `around`, which has a forward method of its own, through its graph."""
    names = tuple(path.removeprefix(f"{around}.") if around else path for path in paths)
    module = network.get_submodule(around)
    try:
        graph = _Tracer(names).trace(module)
    except Exception as error:  # whatever a user's forward method does when it is traced
        raise InputError(
            f"`parts` must be modules, or stretches of a network that torch.fx can trace. Of {paths} it cannot: "
            f"{first_line(error)}. Put the part into one submodule (an nn.Sequential) and name that."
        ) from error
    ends = []
    for name in names:
        wanted = module.get_submodule(name)
        calls = [n for n in graph.nodes if n.op == "call_module" and module.get_submodule(str(n.target)) is wanted]
        if len(calls) != 1:
            raise InputError(
                f"`parts` must name modules that the network calls once. {name} is called {len(calls)} times."
            )
        ends += calls
    begin, end = ends
    if logits and isinstance(module.get_submodule(names[1]), ACTIVATIONS):
        (end,) = end.all_input_nodes
    source, span = _span_of_one_input(graph, begin, end, paths)
    # The nodes between become a graph of their own, a function of `source` ...
    inner = fx.Graph()
    copies = {source: inner.placeholder("x")}
    for node in span:
        copies[node] = inner.node_copy(node, lambda n: copies[n])
    inner.output(copies[end])
    new, count = _NEW_NAME, 1
    while hasattr(module, new):
        count += 1
        new = f"{_NEW_NAME}_{count}"
    module.add_module(new, fx.GraphModule(module, inner))
    # ... that is called once in their place, as far as nothing else uses them.
    with graph.inserting_after(end):
        call = graph.call_module(new, (source,))
    end.replace_all_uses_with(call)
    for node in reversed(span):
        if not node.users:
            graph.erase_node(node)
    cut = fx.GraphModule(module, graph, type(module).__name__)
    called = [node for g in (graph, inner) for node in g.nodes if node.op in ("call_module", "get_attr")]
    used = {str(node.target).split(".")[0] for node in called}
    for name, child in module.named_children():  # what the network never calls stays with it
        if name not in used:
            cut.add_module(name, child)
    cut.eval()
    if not around:
        return Carved(cut, new)
    _set_submodule(network, around, cut)
    return Carved(network, f"{around}.{new}")


def _span_of_one_input(
    graph: fx.Graph, begin: fx.Node, end: fx.Node, names: tuple[str, ...]
) -> tuple[fx.Node, list[fx.Node]]:
    """The one node on which everything from `begin` to `end` hangs, and the nodes between, the last of them `end`."""
    behind, before = {begin}, {end}
    for node in graph.nodes:
        if any(n in behind for n in node.all_input_nodes):
            behind.add(node)
    for node in reversed(graph.nodes):
        if any(user in before for user in node.users):
            before.add(node)
    if end not in behind:
        raise InputError(f"`parts` must name the first module before the last one. Got {names}.")
    known = set(begin.all_input_nodes)
    for node in graph.nodes:  # what is computed beside the modules from the same tensor, such as its shape, comes along
        alone = bool(node.all_input_nodes) and all(n in known for n in node.all_input_nodes)
        if node in before and (node in behind or node.op == "get_attr" or alone):
            known.add(node)
    span: list[fx.Node] = []
    for node in reversed(graph.nodes):
        if node is end or (node in known and node not in begin.all_input_nodes and any(u in span for u in node.users)):
            span.insert(0, node)
    entering = {n.name for node in span for n in node.all_input_nodes if n not in span}
    if len(entering) != 1:
        raise InputError(
            f"`parts` must be functions of one tensor. Between {names[0]} and {names[1]} enter: "
            f"{', '.join(sorted(entering))}."
        )
    leaving = [n for n in span if n in behind and n is not end and any(user not in span for user in n.users)]
    if leaving:
        raise InputError(
            f"`parts` must be used through their last modules only. {leaving[0].name} is used outside as well."
        )
    return begin.all_input_nodes[0], span


def _set_submodule(network: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, child = path.rpartition(".")
    network.get_submodule(parent).register_module(child, module)
