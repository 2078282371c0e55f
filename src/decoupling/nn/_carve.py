"""Cutting a part out of a network: a copy of the network in which the part is one module with one input.

Names of children of one `nn.Sequential` are cut there; a single name is cut as it is; any other pair of names is found
in the graph that `torch.fx` traces, where everything from the first to the last module must hang on one tensor.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from .._errors import InputError

_FINAL = (nn.Sigmoid, nn.Softmax, nn.LogSoftmax)
_NAME = "decoupled"


@dataclass(frozen=True)
class Carved:
    """A copy of a network whose part is the submodule at `path`."""

    network: nn.Module
    path: str

    @property
    def part(self) -> nn.Module:
        return self.network.get_submodule(self.path)

    def with_part(self, replacement: nn.Module) -> nn.Module:
        """A copy of the network with another module in the place of the part."""
        network = copy.deepcopy(self.network)
        _set(network, self.path, replacement)
        return network

    def inputs_of_part(self, data: Tensor, batch_size: int) -> Tensor:
        """What the part is given when the network runs on `data`."""
        seen: list[Tensor] = []

        def keep(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if len(args) != 1 or kwargs or not isinstance(args[0], Tensor):
                got = [type(a).__name__ for a in (*args, *kwargs.values())]
                raise InputError(
                    f"`part` must be a function of one tensor. It is called with {', '.join(got) or 'none'}."
                )
            seen.append(args[0].detach())

        handle = self.part.register_forward_pre_hook(keep, with_kwargs=True)
        parts = []
        try:
            with torch.no_grad():
                for first in range(0, len(data), batch_size):
                    seen.clear()
                    self.network(data[first : first + batch_size])
                    if len(seen) != 1:
                        raise InputError(
                            f"`part` must be used once when the network runs. It was used {len(seen)} times."
                        )
                    parts.append(seen[0].cpu())
        finally:
            handle.remove()
        return torch.cat(parts)


def carve(model: nn.Module, part: Any, *, logits: bool) -> Carved:
    """Copy `model` and make `part` one submodule of it; with `logits`, a final sigmoid or softmax stays outside."""
    network = copy.deepcopy(model).eval()
    names = _names(network, part)
    if len(names) == 1:
        return _single(network, names[0], logits)
    first, last = names
    parent, _, child = first.rpartition(".")
    same = parent == last.rpartition(".")[0]
    if same and isinstance(network.get_submodule(parent), nn.Sequential):
        return _slice(network, parent, child, last.rpartition(".")[2], logits)
    return _traced(network, first, last)


def _names(network: nn.Module, part: Any) -> tuple[str, ...]:
    known = [name for name, _ in network.named_modules() if name]
    if isinstance(part, str):
        names: tuple[str, ...] = (part,)
    elif isinstance(part, tuple | list) and len(part) == 2 and all(isinstance(p, str) for p in part):
        names = (part[0], part[1]) if part[0] != part[1] else (part[0],)
    elif callable(part):
        chosen = [name for name, module in network.named_modules() if name and part(name, module)]
        if not chosen:
            raise InputError("`part` must choose at least one submodule. The filter chose none.")
        names = (chosen[0],) if len(chosen) == 1 else (chosen[0], chosen[-1])
    else:
        raise InputError(
            "`part` must be the name of a submodule, the names of the first and the last one, or a function of name "
            f"and module. Got {part!r}."
        )
    for name in names:
        if name not in known:
            raise InputError(f"`part` must name submodules of the network: {', '.join(known[:30])}. Got {name!r}.")
    return names


def _single(network: nn.Module, name: str, logits: bool) -> Carved:
    module = network.get_submodule(name)
    children = list(module.named_children())
    if logits and isinstance(module, nn.Sequential) and len(children) > 1 and isinstance(children[-1][1], _FINAL):
        return _slice(network, name, children[0][0], children[-1][0], logits)
    return Carved(network, name)


def _slice(network: nn.Module, parent: str, first: str, last: str, logits: bool) -> Carved:
    sequence = network.get_submodule(parent)
    children = list(sequence.named_children())
    order = [name for name, _ in children]
    i, j = order.index(first), order.index(last)
    if i > j:
        raise InputError(f"`part` must name the first module before the last one. Got {(first, last)}.")
    if logits and j > i and isinstance(children[j][1], _FINAL):
        j -= 1
    inner = nn.Sequential(*(module for _, module in children[i : j + 1]))
    taken = {name for name, _ in children[:i] + children[j + 1 :]}
    name = first if first.isdigit() or first not in taken else _NAME
    replaced = nn.Sequential()
    for k, (child_name, module) in enumerate(children):
        if k == i:
            replaced.add_module(name, inner)
        elif not i < k <= j:
            replaced.add_module(child_name, module)
    path = f"{parent}.{name}" if parent else name
    if parent:
        _set(network, parent, replaced)
        return Carved(network, path)
    replaced.train(network.training)
    return Carved(replaced, path)


def _traced(network: nn.Module, first: str, last: str) -> Carved:
    """Cut a network with a forward method of its own, through its graph."""
    try:
        graph = fx.symbolic_trace(network)
    except Exception as error:  # whatever a user's forward method does when it is traced
        raise InputError(
            f"`part` {(first, last)} lies in a network that torch.fx cannot trace: {str(error).splitlines()[0]} Put "
            "the part into one submodule (an nn.Sequential) and name that."
        ) from error
    nodes = list(graph.graph.nodes)
    begin, end = (_only_call(nodes, name) for name in (first, last))
    span = nodes[nodes.index(begin) : nodes.index(end) + 1]
    if not span:
        raise InputError(f"`part` must name the first module before the last one. Got {(first, last)}.")
    entering = {n for node in span for n in node.all_input_nodes if n not in span and n.op != "get_attr"}
    leaving = [node for node in span if node is not end and any(user not in span for user in node.users)]
    if len(entering) != 1:
        raise InputError(
            f"`part` must be a function of one tensor. Between {first} and {last} enter: "
            f"{', '.join(sorted(n.name for n in entering))}."
        )
    if leaving:
        raise InputError(
            f"`part` must be used through its last module only. {leaving[0].name} is used outside of it as well."
        )
    (source,) = entering
    inner = fx.Graph()
    copies = {source: inner.placeholder("x")}
    for node in span:
        for needed in node.all_input_nodes:
            if needed.op == "get_attr" and needed not in copies:
                copies[needed] = inner.node_copy(needed)
        copies[node] = inner.node_copy(node, lambda n: copies[n])
    inner.output(copies[end])
    graph.add_submodule(_NAME, fx.GraphModule(graph, inner))
    with graph.graph.inserting_after(end):
        call = graph.graph.call_module(_NAME, (source,))
    end.replace_all_uses_with(call)
    for node in reversed(span):
        graph.graph.erase_node(node)
    graph.delete_all_unused_submodules()
    graph.recompile()
    return Carved(graph, _NAME)


def _only_call(nodes: list[fx.Node], name: str) -> fx.Node:
    calls = [node for node in nodes if node.op == "call_module" and node.target == name]
    if len(calls) != 1:
        raise InputError(f"`part` must name modules that the network calls once. {name} is called {len(calls)} times.")
    return calls[0]


def _set(network: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, child = path.rpartition(".")
    network.get_submodule(parent).register_module(child, module)


Filter = Callable[[str, nn.Module], bool]
