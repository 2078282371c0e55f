"""Other replacements of a part with the same number of parameters, trained on the same inputs.

`dense` is a network with hidden layers of one width; `prune` the part without its least important hidden units;
`low_rank` the part with matrices of lower rank. `quantize` rounds the weights of the part, and nothing else.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from decouply.nn.layer._quantisation import count_parameters, round_rows


def dense(dims: Sequence[int], activation: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    """Linear layers with an activation between them."""
    layers: list[nn.Module] = []
    for a, b in pairwise(dims):
        layers += [nn.Linear(a, b), activation()]
    return nn.Sequential(*layers[:-1])


def n_parameters(dims: Sequence[int]) -> int:
    """Of a dense network."""
    return sum((a + 1) * b for a, b in pairwise(dims))


def widths(ends: tuple[int, int], size: int, n_hidden: int) -> tuple[int, ...]:
    """Widths of the largest dense network with hidden layers of one width that has at most `size` parameters."""
    width = 1
    while n_parameters((ends[0], *[width + 1] * n_hidden, ends[1])) <= size:
        width += 1
    return ends[0], *[width] * n_hidden, ends[1]


@torch.no_grad()
def prune(part: nn.Sequential, points: Tensor, size: int) -> nn.Sequential:
    """Hidden units that matter most: by their spread over the inputs times the size of their outgoing weights."""
    linear = [module for module in part if isinstance(module, nn.Linear)]
    p = linear[0].weight
    scores, z = [], points[:8192].to(p)
    for module in part:
        if isinstance(module, nn.Linear) and module is not linear[0]:
            scores.append(z.std(dim=0) * module.weight.norm(dim=0))
        z = module(z)
    widths = [len(s) for s in scores]
    ends = linear[0].in_features, linear[-1].out_features

    def parameters(share: float) -> int:
        inner = [max(1, round(share * w)) for w in widths]
        return n_parameters((ends[0], *inner, ends[1]))

    share = _largest_share(parameters, size)
    kept = [torch.sort(s.topk(max(1, round(share * len(s)))).indices).values for s in scores]
    rows = [*kept, torch.arange(ends[1], device=p.device)]
    columns = [torch.arange(ends[0], device=p.device), *kept]
    layers: list[nn.Module] = []
    i = 0
    for module in part:
        if not isinstance(module, nn.Linear):
            layers.append(copy.deepcopy(module))
            continue
        fewer = nn.Linear(len(columns[i]), len(rows[i]), bias=module.bias is not None).to(p)
        fewer.weight.copy_(module.weight[rows[i]][:, columns[i]])
        if module.bias is not None:
            fewer.bias.copy_(module.bias[rows[i]])
        layers.append(fewer)
        i += 1
    return nn.Sequential(*layers).requires_grad_(True)


@torch.no_grad()
def low_rank(part: nn.Sequential, size: int) -> nn.Sequential:
    """Every matrix as a product of two of lower rank, with the largest share of the ranks that the size allows."""

    def cut(share: float) -> nn.Sequential:
        layers: list[nn.Module] = []
        for module in part:
            if not isinstance(module, nn.Linear):
                layers.append(copy.deepcopy(module))
                continue
            rank = max(1, round(share * min(module.weight.shape)))
            if rank * sum(module.weight.shape) >= module.weight.numel():
                layers.append(copy.deepcopy(module))
                continue
            U, s, Vt = torch.linalg.svd(module.weight, full_matrices=False)
            first = nn.Linear(module.in_features, rank, bias=False).to(module.weight)
            second = nn.Linear(rank, module.out_features).to(module.weight)
            first.weight.copy_(Vt[:rank])
            second.weight.copy_(U[:, :rank] * s[:rank])
            second.bias.copy_(torch.zeros_like(second.bias) if module.bias is None else module.bias)
            layers += [first, second]
        return nn.Sequential(*layers)

    return cut(_largest_share(lambda share: count_parameters(cut(share)), size)).requires_grad_(True)


@torch.no_grad()
def quantize(function: nn.Module, n_bits: int) -> nn.Module:
    """The same module with matrices and kernels rounded to so many bits, one scale per row."""
    own = copy.deepcopy(function)
    for p in own.parameters():
        if p.ndim >= 2:
            codes, scale = round_rows(p, n_bits)
            p.copy_(codes * scale.to(p).reshape(-1, *[1] * (p.ndim - 1)))
    return own


def quantized_bytes(function: nn.Module, n_bits: int) -> int:
    """What `quantize` takes to store: whole numbers, scales and biases of 16 bits."""
    return sum(
        -(-p.numel() * n_bits // 8) + 2 * len(p) if p.ndim >= 2 else 2 * p.numel() for p in function.parameters()
    )


def _largest_share(parameters: Callable[[float], int], size: int) -> float:
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2.0
        low, high = (middle, high) if parameters(middle) <= size else (low, middle)
    return low
