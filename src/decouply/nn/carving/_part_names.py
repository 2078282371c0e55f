"""Which parts of a network are replaced: names, patterns, stretches or a function that chooses."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from ..._support._errors import InputError
from ._carve import carve, chosen_by, is_within, outputs_of

Spec = str | tuple[str, str]


def chosen_parts(model: nn.Module, parts: Any) -> list[Spec]:
    """Parts by name; each is one module, or a stretch from a first to a last one."""
    modules = {name: module for name, module in model.named_modules(remove_duplicate=False) if name}
    if callable(parts) and not isinstance(parts, nn.Module):
        return list(chosen_by(parts, modules, "parts"))
    given = parts if isinstance(parts, list) else [parts]
    found: list[Spec] = []
    for one in given:
        if isinstance(one, str):
            matches: list[Spec] = [name for name in modules if _matches(name, one)]
            if not matches:
                raise InputError(
                    f"`parts` must name submodules of the network: {', '.join(list(modules)[:30])}. Nothing matches "
                    f"{one!r}."
                )
        elif isinstance(one, tuple) and len(one) == 2 and all(isinstance(name, str) for name in one):
            matches = [one]
        else:
            raise InputError(
                "`parts` must be names or patterns such as blocks.*.mlp, a pair of the first and the last module, a "
                f"list of these, or a function of name and module. Got {one!r}."
            )
        found += [match for match in matches if match not in found]
    if not found:
        raise InputError("`parts` must name at least one submodule. Got an empty list.")
    _check_apart(found)
    return found


def in_order_of_calls(model: nn.Module, parts: list[Spec], data: Tensor) -> list[Spec]:
    """Parts as the network comes to them."""
    order: list[int] = []
    handles = []
    for i, spec in enumerate(parts):
        name = spec if isinstance(spec, str) else spec[0]
        try:
            module = model.get_submodule(name)
        except AttributeError:
            continue  # `carve` says what is wrong with it
        handles.append(module.register_forward_pre_hook(lambda *_, i=i: order.append(i)))
    try:
        outputs_of(model, data[:1])
    finally:
        for handle in handles:
            handle.remove()
    return [parts[i] for i in sorted(range(len(parts)), key=lambda i: order.index(i) if i in order else len(order))]


def check_numbers(model: nn.Module) -> None:
    """Weights that are not numbers make every decision wrong: they are named before anything is done."""
    for name, p in (*model.named_parameters(), *model.named_buffers()):
        lazy = isinstance(p, nn.parameter.UninitializedParameter | nn.parameter.UninitializedBuffer)
        if p.is_floating_point() and not p.is_meta and not lazy:
            bad = int(torch.count_nonzero(~torch.isfinite(p.detach())))
            if bad:
                raise InputError(
                    f"`model` must have finite weights. {name} has {bad} that are NaN or infinite: look at how it was "
                    "trained."
                )


def _matches(name: str, pattern: str) -> bool:
    """Step by step: a star stands for one step of the path, or a piece of it."""
    steps, wanted = name.split("."), pattern.split(".")
    return len(steps) == len(wanted) and all(fnmatchcase(a, b) for a, b in zip(steps, wanted, strict=True))


def check_cuts(model: nn.Module, parts: list[Spec], data: Tensor, *, logits: bool) -> None:
    """Stretches take all that lies between two modules with them: no other part may lie there."""
    for part in parts:
        if isinstance(part, str) or len(parts) == 1:
            continue
        carved = carve(model, part, data, logits=logits)
        left = {name for name, _ in carved.network.named_modules() if not is_within(name, carved.path)}
        for other in parts:
            for name in (other,) if isinstance(other, str) else other:
                if other != part and name not in left:
                    raise InputError(f"`parts` must not overlap. {name} lies between {part[0]} and {part[1]}.")


def _check_apart(parts: list[Spec]) -> None:
    names = [(part, name) for part in parts for name in ((part,) if isinstance(part, str) else part)]
    for i, (part, name) in enumerate(names):
        for other_part, other in names[i + 1 :]:
            if part != other_part and (name == other or is_within(name, other) or is_within(other, name)):
                same = f"{name} is in two of them" if name == other else f"{name} and {other} do"
                raise InputError(f"`parts` must not overlap. {same}: one module would be replaced twice.")
