"""The effect of positions in a run, compared with the formula that the config names.

The formulas are reimplemented here, number by number, so that a bug in `models.positions` shows.
Only learned tables are read from the model.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from explorer.analysis.mask_tests.probe import Probe
from models.config import ModelConfig
from models.fast import is_a
from models.hooks import AttentionSite, Change, StackSite
from models.positions import POSITIONS, Positions, Scaling
from models.rows import Rows

TOLERANCE = 1e-6
"""Position tables are rounded to float32 in every model."""


@dataclass(frozen=True, eq=False)
class PositionValues:
    """The values found at a hook point and those of the formula, [..., pos, feature].

    `site` is None for positions added to the embeddings of the `stack`.
    """

    hook: str
    stack: str
    found: Tensor
    expected: Tensor
    site: AttentionSite | None = None


def placed(probe: Probe, rows: Rows) -> Iterator[PositionValues]:
    """Everything that positions add, rotate or bias in one run over rows without padding.

    Yields nothing for a stack without a formula. Raises ValueError if a hook point was not reached.
    """
    for stack in probe.model.stacks():
        way = _way(probe.model, probe.config, stack)
        if way is not None:
            yield from way(probe, rows, stack)


def has_formula(model: Any, config: ModelConfig) -> bool:
    """Whether there is a formula to compare a model's positions with.

    A new position kind may have none, and a user's own module is never compared with the formula
    of the kind that the config names.
    """
    return hasattr(model, "stacks") and any(_way(model, config, each) for each in model.stacks())


def _way(model: Any, config: ModelConfig, stack: StackSite) -> "_Way | None":
    positions = model.get_submodule(stack.path("positions"))
    if isinstance(positions, Positions) and positions.expected_bias(0, 0) is not None:
        return _biased_by(positions)
    named = is_a(positions, POSITIONS[config.positions])
    return _WAYS.get(config.positions) if named else None


def _seen(found: dict[str, Tensor], hook: str) -> Tensor:
    if hook not in found:
        raise ValueError(f"{hook} was not reached: the run has no positions there")
    return found[hook]


def _added(probe: Probe, rows: Rows, stack: StackSite) -> Iterator[PositionValues]:
    hook, n = stack.hook("pos_embed"), rows.tokens(stack.stream).shape[1]
    found = _seen(probe.record(rows, hook.__eq__), hook)
    if probe.config.positions == "learned":
        table = probe.model.get_submodule(stack.path("positions")).weight.detach()[:n]
    else:
        table = sines(n, probe.config.d_model, probe.config.rope_base).float()
    yield PositionValues(hook, stack.role, found, table.to(found.dtype).expand(found.shape))


def sines(n: int, width: int, base: float) -> Tensor:
    """[pos, feature]: feature 2i is sin(pos / base^(2i / width)), feature 2i + 1 the cosine."""
    rows = []
    for pos in range(n):
        angles = [pos / base ** (2 * (at // 2) / width) for at in range(width)]
        rows.append([math.cos(x) if at % 2 else math.sin(x) for at, x in enumerate(angles)])
    return torch.tensor(rows, dtype=torch.float64)


def _turned(probe: Probe, rows: Rows, stack: StackSite) -> Iterator[PositionValues]:
    """Queries and keys, compared with a run in which every position is 0 and nothing is rotated.
    Attention adds nothing to the stream in both runs, so that all layers have the same input."""
    sites = [site for site in probe.sites if site.kind == "self" and _in(site, stack)]
    silent: dict[str, Change] = {
        site.block_hook("attn_out" if site.kind == "self" else "cross_attn_out"): torch.zeros_like
        for site in probe.sites
    }
    hooks = {site.hook(what): site for site in sites for what in ("q", "k")}
    turned = probe.record(rows, hooks.__contains__, silent)
    still = {stack.hook("positions"): torch.zeros_like}
    straight = probe.record(rows, hooks.__contains__, silent | still)
    for hook, site in hooks.items():
        found, before = _seen(turned, hook), _seen(straight, hook)
        angles = angles_of(probe.config, site.layer, found.shape[2])
        yield PositionValues(hook, stack.role, found, turn(before, angles), site)


def _in(site: AttentionSite, stack: StackSite) -> bool:
    return site.block == stack.path("blocks", site.layer)


def angles_of(config: ModelConfig, layer: int, n: int) -> list[list[float]]:
    """The rotation angle of each pair at each position, [pos][pair], in radians."""
    base, scaling = config.rope_base, config.rope_scaling
    if config.looks_near(layer) and config.near_rope_base is not None:
        base, scaling = config.near_rope_base, None
    width = config.n_turned
    each = [base ** (-2 * pair / width) for pair in range(width // 2)]
    if scaling is not None:
        each = [
            angle / by for angle, by in zip(each, _divisors(scaling, len(each), n), strict=True)
        ]
    if not config.turns(layer):
        each = [0.0] * len(each)
    return [[pos * angle for angle in each] for pos in range(n)]


def _divisors(scaling: Scaling, n_pairs: int, n: int) -> list[float]:
    """The divisor of each pair's angle in a sequence of n tokens."""
    near = list(scaling.divisors or [1.0] * n_pairs)
    if scaling.n_ctx is None or n <= scaling.n_ctx:
        return near
    if scaling.growth is None:
        return list(scaling.far or near)
    grown = scaling.growth * n / scaling.n_ctx - (scaling.growth - 1)
    return [grown ** (pair / max(1, n_pairs - 1)) for pair in range(n_pairs)]


def turn(x: Tensor, angles: list[list[float]]) -> Tensor:
    """Rotate features 2i and 2i + 1 of x [batch, head, pos, d_head], as complex numbers, by their
    angle; remaining features are unchanged."""
    given = torch.tensor(angles, dtype=torch.float64, device=x.device)
    turned = x[..., : 2 * given.shape[1]].double()
    pairs = torch.view_as_complex(turned.reshape(*turned.shape[:-1], -1, 2))
    after = torch.view_as_real(pairs * torch.polar(torch.ones_like(given), given)).flatten(-2)
    return torch.cat((after.to(x.dtype), x[..., 2 * given.shape[1] :]), dim=-1)


def _biased(probe: Probe, rows: Rows, stack: StackSite) -> Iterator[PositionValues]:
    n = rows.tokens(stack.stream).shape[1]
    if probe.config.positions == "alibi":
        expected = distances(probe.config.n_heads, n)
    else:
        weight = probe.model.get_submodule(stack.path("positions")).weight.detach()
        causal = stack.role == "decoder"
        buckets = [[bucket(key - query, causal) for key in range(n)] for query in range(n)]
        expected = weight[torch.tensor(buckets)].permute(2, 0, 1)
    yield from _biases(probe, rows, stack, expected)


def _biased_by(positions: Positions) -> "_Way":
    """Compare with the kind's own formula."""

    def way(probe: Probe, rows: Rows, stack: StackSite) -> Iterator[PositionValues]:
        places = range(rows.tokens(stack.stream).shape[1])
        heads = range(probe.config.n_heads)
        expected: Any = torch.tensor(
            [
                [[positions.expected_bias(head, k - q) for k in places] for q in places]
                for head in heads
            ],
            dtype=torch.float64,
        )
        yield from _biases(probe, rows, stack, expected)

    return way


def _biases(
    probe: Probe, rows: Rows, stack: StackSite, expected: Tensor
) -> Iterator[PositionValues]:
    """The biases of a stack's attention, and the expected ones [head, query, key]."""
    hooks = {
        site.hook("bias"): site for site in probe.sites if site.kind == "self" and _in(site, stack)
    }
    found = probe.record(rows, hooks.__contains__)
    for hook, site in hooks.items():
        bias = _seen(found, hook)
        yield PositionValues(
            hook, stack.role, bias, expected.to(bias.dtype).expand(bias.shape), site
        )


_Way = Callable[[Probe, Rows, StackSite], Iterator[PositionValues]]
_WAYS: dict[str, _Way] = {
    "sinusoidal": _added,
    "learned": _added,
    "rotary": _turned,
    "alibi": _biased,
    "t5": _biased,
}


def distances(n_heads: int, n: int) -> Tensor:
    """ALiBi's bias [head, query, key]: the distance times the head's slope."""

    def slopes(count: int) -> list[float]:
        return [2 ** (-8 * (head + 1) / count) for head in range(count)]

    power = 2 ** (n_heads.bit_length() - 1)
    each = slopes(power) + slopes(2 * power)[0::2][: n_heads - power]
    apart = [[-abs(query - key) for key in range(n)] for query in range(n)]
    made: Any = torch.tensor(each, dtype=torch.float64)[:, None, None]
    return made * torch.tensor(apart, dtype=torch.float64)


def bucket(offset: int, causal: bool, n_buckets: int = 32, furthest: int = 128) -> int:
    """T5's bucket of an offset key - query."""
    first, apart = 0, max(-offset, 0)
    if not causal:
        n_buckets //= 2
        first, apart = n_buckets if offset > 0 else 0, abs(offset)
    exact = n_buckets // 2
    if apart < exact:
        return first + apart
    wide = math.log(apart / exact) / math.log(furthest / exact) * (n_buckets - exact)
    return first + min(exact + int(wide), n_buckets - 1)
