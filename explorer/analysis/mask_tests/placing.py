"""The effect of positions in a run, compared with the formula that their class states
(`Positions.expected_vector` and the methods after it)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from explorer.analysis.mask_tests.probe import Probe
from models.fast import plain_type
from models.hooks import AttentionSite, Change, StackSite
from models.positions import Positions
from models.rows import Rows

TOLERANCE = 1e-6
"""Position tables are rounded to float32 in every model."""


@dataclass(frozen=True, eq=False)
class PositionValues:
    """The values at a hook point and the values of the formula, [..., pos, feature].

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
        positions = probe.model.get_submodule(stack.path("positions"))
        if _states_formula(positions):
            yield from _READ[positions.acts](probe, rows, stack, positions)


def has_formula(model: Any) -> bool:
    """Whether the positions of a stack state a formula to compare them with."""
    return hasattr(model, "stacks") and any(
        _states_formula(model.get_submodule(stack.path("positions"))) for stack in model.stacks()
    )


def _states_formula(positions: nn.Module) -> bool:
    """The formula of a base class does not apply to a class that acts in another way."""
    if not isinstance(positions, Positions) or positions.acts == "nothing":
        return False
    formula, method = {
        "adds": ("expected_vector", "added"),
        "turns": ("expected_angles", "place"),
        "biases": ("expected_bias", "place"),
    }[positions.acts]

    def defined(name: str) -> type:
        return next(kind for kind in plain_type(positions).__mro__ if name in vars(kind))

    return defined(formula) is not Positions and issubclass(defined(formula), defined(method))


def _seen(found: dict[str, Tensor], hook: str) -> Tensor:
    if hook not in found:
        raise ValueError(f"{hook} was not reached: the run has no positions there")
    return found[hook]


def _added(
    probe: Probe, rows: Rows, stack: StackSite, positions: Positions
) -> Iterator[PositionValues]:
    hook, n = stack.hook("pos_embed"), rows.tokens(stack.stream).shape[1]
    activation = _seen(probe.record(rows, hook.__eq__), hook)
    vectors = torch.tensor([positions.expected_vector(at) for at in range(n)], dtype=torch.float64)
    # Tables are float32 in every model.
    yield PositionValues(
        hook, stack.role, activation, vectors.float().to(activation).expand(activation.shape)
    )


def _turned(
    probe: Probe, rows: Rows, stack: StackSite, positions: Positions
) -> Iterator[PositionValues]:
    """Queries and keys, compared with a run in which every position is 0 and nothing is rotated.
    Attention adds nothing to the stream in both runs, so that all layers have the same input."""
    sites = _own(probe, stack)
    silent: dict[str, Change] = {
        site.block_hook("attn_out" if site.kind == "self" else "cross_attn_out"): torch.zeros_like
        for site in probe.sites
    }
    hooks = {site.hook(what): site for site in sites for what in ("q", "k")}
    turned = probe.record(rows, hooks.__contains__, silent)
    still = {stack.hook("positions"): torch.zeros_like}
    straight = probe.record(rows, hooks.__contains__, silent | still)
    for hook, site in hooks.items():
        vectors, before = _seen(turned, hook), _seen(straight, hook)
        after = before
        if probe.config.turns(site.layer):
            after = turn(before, positions.expected_angles(site.layer, vectors.shape[2]))
        yield PositionValues(hook, stack.role, vectors, after, site)


def _own(probe: Probe, stack: StackSite) -> list[AttentionSite]:
    """The self-attention sites of a stack."""
    return [
        site
        for site in probe.sites
        if site.kind == "self" and site.block == stack.path("blocks", site.layer)
    ]


def turn(x: Tensor, angles: Sequence[float]) -> Tensor:
    """Rotate features 2i and 2i + 1 of x [batch, head, pos, d_head], as complex numbers, by the
    position times their angle; remaining features are unchanged."""
    places = torch.arange(x.shape[2], dtype=torch.float64, device=x.device)
    by = places[:, None] * torch.tensor(angles, dtype=torch.float64, device=x.device)
    turned = x[..., : 2 * len(angles)].double()
    pairs = torch.view_as_complex(turned.reshape(*turned.shape[:-1], -1, 2))
    after = torch.view_as_real(pairs * torch.polar(torch.ones_like(by), by)).flatten(-2)
    return torch.cat((after.to(x.dtype), x[..., 2 * len(angles) :]), dim=-1)


def _biased(
    probe: Probe, rows: Rows, stack: StackSite, positions: Positions
) -> Iterator[PositionValues]:
    n = rows.tokens(stack.stream).shape[1]
    heads, offsets = range(probe.config.n_heads), range(1 - n, n)
    by_offset = torch.tensor(
        [[positions.expected_bias(head, offset) for offset in offsets] for head in heads],
        dtype=torch.float64,
    )
    places = torch.arange(n)
    expected = by_offset[:, places[None, :] - places[:, None] + n - 1]  # [head, query, key]
    still = probe.config.still_layers or ()
    hooks = {site.hook("bias"): site for site in _own(probe, stack) if site.layer not in still}
    activations = probe.record(rows, hooks.__contains__)
    for hook, site in hooks.items():
        bias = _seen(activations, hook)
        yield PositionValues(hook, stack.role, bias, expected.to(bias).expand(bias.shape), site)


_READ: dict[str, Callable[..., Iterator[PositionValues]]] = {
    "adds": _added,
    "turns": _turned,
    "biases": _biased,
}
