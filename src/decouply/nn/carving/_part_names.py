"""Which parts of a network are replaced: names, patterns, stretches, or a function that chooses modules."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor, nn

from ..._support._errors import InputError
from ._carve import PartName, carve, is_within, outputs_of
from ._jacobian_sampling import first_line

Filter = Callable[[str, nn.Module], bool]
Parts = str | tuple[str, str] | list[str | tuple[str, str]] | Filter
_MAX_NAMES = 30  # of modules in a message


def part_names(model: nn.Module, parts: Any) -> list[PartName]:
    """Parts by name, in the order given; no module is in two of them."""
    modules = {name: module for name, module in model.named_modules(remove_duplicate=False) if name}
    some = ", ".join(list(modules)[:_MAX_NAMES])
    if callable(parts) and not isinstance(parts, nn.Module):
        return _choose(parts, modules)
    found: list[PartName] = []
    for one in parts if isinstance(parts, list) else [parts]:
        if isinstance(one, nn.Module):
            own = next((name for name, module in modules.items() if module is one), None)
            hint = "It is not one of the network." if own is None else f'Its name is "{own}".'
            raise InputError(f"`parts` must be named, not given as modules. {hint}")
        if isinstance(one, str):
            matches: list[PartName] = [name for name in modules if _matches(name, one)]
            if not matches:
                raise InputError(f"`parts` must name submodules of the network: {some}. Nothing matches {one!r}.")
        elif isinstance(one, tuple) and len(one) == 2 and all(isinstance(name, str) for name in one):
            for name in one:
                if name not in modules:
                    raise InputError(f"`parts` must name submodules of the network: {some}. Got {name!r}.")
            if any(is_within(a, b) for a, b in (one, one[::-1])):
                raise InputError(f"`parts` must name modules beside each other. Of {one}, one lies within the other.")
            matches = [one[0] if one[0] == one[1] else one]
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


def _choose(choose: Filter, modules: dict[str, nn.Module]) -> list[PartName]:
    """The outermost modules that a function chooses."""
    try:
        chosen = [name for name, module in modules.items() if choose(name, module)]
    except TypeError as error:
        raise InputError(f"`parts` must be a function of name and module. It raises {first_line(error)}") from error
    outer: list[PartName] = [name for name in chosen if not any(is_within(name, other) for other in chosen)]
    if not outer:
        some = ", ".join(list(modules)[:_MAX_NAMES])
        raise InputError(f"`parts` must choose at least one submodule of {some}. The function chose none.")
    return outer


def _matches(name: str, pattern: str) -> bool:
    """Step by step: a star stands for one step of the path, or a piece of it."""
    steps, wanted = name.split("."), pattern.split(".")
    return len(steps) == len(wanted) and all(fnmatchcase(a, b) for a, b in zip(steps, wanted, strict=True))


def _check_apart(parts: list[PartName]) -> None:
    names = [(part, name) for part in parts for name in ((part,) if isinstance(part, str) else part)]
    for i, (part, name) in enumerate(names):
        for other_part, other in names[i + 1 :]:
            if part != other_part and (name == other or is_within(name, other) or is_within(other, name)):
                same = f"{name} is in two of them" if name == other else f"{name} and {other} do"
                raise InputError(f"`parts` must not overlap. {same}: one module would be replaced twice.")


def sort_by_calls(model: nn.Module, parts: list[PartName], data: Tensor, *, logits: bool) -> list[PartName]:
    """Parts in the order in which the network calls them; stretches must have no other part between their ends."""
    order: list[int] = []
    handles = []
    for i, part in enumerate(parts):
        module = model.get_submodule(part if isinstance(part, str) else part[0])
        handles.append(module.register_forward_pre_hook(lambda *_, i=i: order.append(i)))
    try:
        outputs_of(model, data[:1])
    finally:
        for handle in handles:
            handle.remove()
    for part in parts:
        if isinstance(part, str):
            continue
        carved = carve(model, part, data, logits=logits)
        left = {name for name, _ in carved.network.named_modules() if not is_within(name, carved.path)}
        for other in parts:
            for name in (other,) if isinstance(other, str) else other:
                if other != part and name not in left:
                    raise InputError(f"`parts` must not overlap. {name} lies between {part[0]} and {part[1]}.")
    return [parts[i] for i in sorted(range(len(parts)), key=lambda i: order.index(i) if i in order else len(order))]
