"""The examiner of a model with hook points: every layer is compared, not only the output, and what
the model shows is compared with what it ran, and the effect of positions with the formula that
their class states (`Positions.expected_vector` and the methods after it)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from explorer.analysis.mask_tests.examiner import N_PADS, Examiner, LeftOut, OtherPads, Sentence
from explorer.analysis.mask_tests.probe import Probe, levelled
from explorer.analysis.mask_tests.sites import Location, Site, Worst
from models.fast import plain_type
from models.hooks import AttentionSite, Change, HookPoint, StackSite
from models.positions import Positions
from models.rows import Rows, Stream

TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-4}
"""Relative to the largest value of the tensor; 1e-2 in half precision."""


class HookedExaminer(Examiner):
    """Examines the model of a probe.

    `reach` shows how far a changed token propagates, and `masks` which keys reach which queries;
    see `Certificate`.
    """

    def __init__(self, probe: Probe, src: Sequence[int], tgt: Sequence[int]) -> None:
        super().__init__(src, tgt)
        self.probe, self.outcome, self.blocks = probe, probe.outcome, probe.blocks
        self.room, self.causal = probe.config.n_ctx, probe.config.is_causal
        windows = [site.window for site in probe.sites if site.kind == "self"]
        self.window = None if None in windows else max(filter(None, windows), default=None)
        self._weights: dict[tuple[str, float | None], Tensor] = {}
        # One row padded on the right, one on the left, with equal width. Never a batch of one, nor
        # only its first row: some bugs leave batch item 0 intact.
        self.padded = _stacked(
            self.batch([self.sentence], right=N_PADS), self.batch([self.sentence], left=N_PADS)
        )

    @property
    def tolerance(self) -> float:  # type: ignore[override]
        precision = self.probe.precision or next(iter(self.plain.values())).dtype
        return TOLERANCES.get(precision, 1e-2)

    def tolerance_of(self, name: str) -> float:
        return max(self.tolerance, TOLERANCE) if name == "positions" else self.tolerance

    def batch(self, sentences: Sequence[Sentence], left: int = 0, right: int = 0) -> Rows:
        return self.probe.batch_of(sentences, left, right)

    def run(self, rows: Rows) -> dict[str, Tensor]:
        return self.probe.run(rows)

    def steps(self, rows: Rows, sizes: Sequence[int]) -> Iterator[Tensor]:
        return self.probe.steps(rows, sizes)

    def moved(self, after: Tensor, before: Tensor) -> Tensor:
        scale = before.abs().max().nan_to_num(nan=1.0, posinf=1.0).clamp(min=1.0)
        return ((after - before).abs() / scale).amax(-1)

    def another(self, token: Tensor, stream: Stream) -> Tensor | int:
        """If possible not padding, start or end; of a patch the negative."""
        if token.ndim:
            return 255 - token.clamp(min=0)
        n, marks = self.probe.config.n_tokens(stream), self.probe.model.marks.of(stream)
        others = [(int(token) + step) % n for step in range(1, n)]
        structural = {marks.pad, marks.start, marks.end}
        return next((other for other in others if other not in structural), (int(token) + 1) % n)

    def other_pads(self, left: int) -> Iterator[OtherPads]:
        rows = self.batch([self.sentence], left, N_PADS - left)
        for stream in self.streams:
            pads = (~rows.valid(stream)[0]).nonzero().flatten().tolist()
            both = self.run(self.changed(rows, stream, [pads]))
            before, after = (
                {name: tensor[at : at + 1] for name, tensor in both.items()} for at in (0, 1)
            )
            yield OtherPads(rows, before, after, pads[0])

    def cached_rows(self) -> Iterator[Rows]:
        for left in (0, N_PADS):
            yield self.batch([self.sentence], left)

    @property
    def sites(self) -> Sequence[Site]:
        return [self._site(site) for site in self.probe.sites]

    def _site(self, site: AttentionSite) -> Site:
        return Site(
            site.name,
            (site.query_stream, site.key_stream),
            self.padded.valid(site.query_stream),
            self.padded.valid(site.key_stream),
            site.kind == "self" and site.stack == "decoder",
            partial(self._weigh, site),
            every_query=True,
            window=site.window if site.kind == "self" else None,
            layer=site.layer,
            stack=site.stack,
        )

    def _weigh(self, site: AttentionSite, level: float | None) -> Tensor:
        if (site.name, level) not in self._weights:
            self._weights[site.name, level] = self.probe.weights(site, self.padded, level)
        return self._weights[site.name, level]

    @property
    def masks(self) -> dict[str, np.ndarray]:
        """Of each site that was tested for open cells, with padding on the right."""
        levels = self._weights.items()
        return {name: (weights[0] != 0).numpy() for (name, level), weights in levels if level == 0}

    # Changed tokens: how far they reach.

    def future_leak(self) -> Worst | None:
        self.reach["decoder"] = self._reach("tgt", self.outcome)
        return super().future_leak()

    def pad_content(self) -> Worst | None:
        if self.sentence[0]:
            last = [name for name, site in self.blocks.items() if site.stack == "encoder"][-1]
            self.reach["encoder"] = self._reach("src", last)
            self.reach["cross"] = self._reach("src", self.outcome)
        return super().pad_content()

    def _reach(self, stream: Stream, name: str) -> np.ndarray:
        """Bool [pos of the tensor, changed token]: whether the change reached that position."""
        return (self.changes(stream)[name] > self.tolerance).T.numpy()

    def open_changes(self, stream: Stream) -> Tensor:
        levels = {
            hook: change
            for site in self.probe.sites
            for hook, change in levelled(site, 0.0).items()
        }
        outputs = self.probe.record(self.one_by_one(stream), self.outcome.__eq__, levels)
        output = outputs[self.outcome]
        return self.moved(output[1:], output[:1])

    def needle(self) -> Worst | None:
        """And no key beyond the window of a layer has weight in it."""
        worst = super().needle()
        beyond = self._mass(lambda site: site.window is not None, lambda site: site.beyond)
        is_worse = beyond is not None and (worst is None or beyond.deviation > worst.deviation)
        return beyond if is_worse else worst

    def unproven(self, name: str) -> LeftOut:
        reasons: dict[str, LeftOut] = {"needle": "too_weak", "hooks": "no_hooks"}
        return reasons.get(name, super().unproven(name))

    # Recorded patterns against the actual output; positions against their formula.

    def mixing(self) -> Worst:
        """Recorded patterns times values equal each head's output in a run without recording."""
        worst, probe = Worst(), self.probe
        used = {site.hook(what) for site in probe.sites for what in ("v", "z")}
        shown = {site.hook("pattern") for site in probe.sites}
        ran = probe.record(self.padded, used.__contains__)
        patterns = probe.record(self.padded, shown.__contains__)
        for site, seen in zip(probe.sites, self.sites, strict=True):
            z, v = ran[site.hook("z")], ran[site.hook("v")]
            v = v.repeat_interleave(z.shape[1] // v.shape[1], dim=1)
            mixture = patterns[site.hook("pattern")].to(v.dtype) @ v
            # NaN in both violates other properties.
            off = (mixture - z).masked_fill(mixture.isnan() & z.isnan(), 0.0).abs().amax(-1)
            scale = v.abs().max().nan_to_num(nan=1.0, posinf=1.0).clamp(min=1.0)
            worst.see((off / scale).masked_fill(~seen.query_real[:, None], 0.0), seen.at)
        return worst

    def hooks(self) -> Worst | None:
        """Every hook point fires in a run that records all; the deviation is the share that does
        not. Hook points of positions fire only in designs with such positions."""
        model, probe, worst = self.probe.model, self.probe, Worst()
        if not isinstance(model, nn.Module) or not hasattr(model, "stacks"):
            return None
        points = [module.name for module in model.modules() if isinstance(module, HookPoint)]
        optional = {site.hook("bias") for site in probe.sites}
        optional |= {stack.hook("pos_embed") for stack in probe.model.stacks()}
        fired = probe.record(self.padded, lambda _: True).keys() | optional
        silent = [name for name in points if name not in fired]
        worst.see(torch.tensor([len(silent) / max(1, len(points))]), lambda _: Location(silent[0]))
        return worst

    def positions(self) -> Worst:
        """What positions add, rotate or bias matches the formula that the config names."""
        worst, sites = Worst(), {site.name: site for site in self.sites}
        for values in placed(self.probe, self.batch([self.sentence])):
            worst.see(
                self.moved(values.found, values.expected),
                lambda *at, values=values: (
                    Location(values.hook, query=at[-1], stack=values.stack)
                    if values.site is None
                    else sites[values.site.name].at(0, at[1], at[-1])
                ),
            )
        return worst


def _stacked(first: Rows, second: Rows) -> Rows:
    """Two batches of equal width, one below the other."""
    return Rows(
        **{
            name: torch.cat([tensor, getattr(second, name)])
            for name, tensor in vars(first).items()
            if tensor is not None
        }
    )


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
