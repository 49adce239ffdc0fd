"""Implementation variants: one choice of the loaded model swapped at a time, and measured.

Papers, tutorials and libraries write "the" Transformer in ways that look alike. Each option here is
built into a copy of the loaded model, whose weights stay as trained, and the copy reads
the same text again. An option that changes nothing may be written either way; one that changes
the output must match the weights.
"""

import copy
import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import torch
from torch import Tensor, nn

from explorer.analysis.model.parameters import numbers_of
from explorer.analysis.score.scaling import SCALINGS, Scaling, divisor_of
from explorer.library import LoadedModel
from explorer.runs import rerun
from explorer.runs.run import run
from explorer.runs.trace import Trace
from explorer.seeding import seeded
from models.attention import Attention, attend, capped, share_heads
from models.blocks import Block
from models.config import ModelConfig, NormPlacement
from models.fast.memory import without_numbers
from models.feedforward import ACTIVATIONS, GATED, FeedForward
from models.hooks import LOGITS
from models.norms import NORMS, LayerNorm, RMSNorm
from models.positions import POSITIONS, Sinusoidal
from models.transformer import Model, Stack

P = 0.1
"""Dropout probability for options that leave dropout on outside training."""
SAME = 1e-3
"""The largest logit change that counts as none: above rounding, below a different decision."""


@dataclass(frozen=True)
class Option:
    """One way to implement one choice: `swap` puts it into a model, `own` says whether a model of
    this config has it, `fits` whether the choice applies to it."""

    choice: str
    name: str
    swap: Callable[[Model], object]
    own: Callable[[ModelConfig], bool] = lambda config: False
    fits: Callable[[ModelConfig], bool] = lambda config: True


@dataclass(frozen=True)
class Swapped:
    """The effect of an option on the text that was read.

    `change` is the largest change of any logit, `loss` the change of the mean loss on the written
    tokens (nats), `kept` the share of positions whose best token stays, `parameters` how many more
    the model has (fewer, if negative). `own`: the model has this option already; nothing was run.
    """

    choice: str
    option: str
    own: bool
    change: float = 0.0
    loss: float = 0.0
    kept: float = 1.0
    parameters: int = 0

    @property
    def harmless(self) -> bool:
        """Whether the output, including its probabilities, is unchanged."""
        return self.change < SAME


def options(config: ModelConfig) -> tuple[Option, ...]:
    """The options that apply to a model of this config, choice by choice."""
    return tuple(option for option in every_option() if option.fits(config))


def swapped(
    loaded: LoadedModel, trace: Trace
) -> Generator[tuple[int, int], bool | None, tuple[Swapped, ...]]:
    """Every option that applies, in a copy of the model that reads the Trace's input once.

    Yields the options done and their number. Empty for a model without logits. Raises ValueError
    if the Trace is of another model.
    """
    rerun.require_same_model(loaded, trace)
    found: list[Swapped] = []
    tried = options(loaded.config) if trace.config.lm_head else ()
    for option in tried:
        found.append(_measured(loaded, trace, option))
        yield len(found), len(tried)
    return tuple(found)


def _measured(loaded: LoadedModel, traced: Trace, option: Option) -> Swapped:
    if option.own(loaded.config):
        return Swapped(option.choice, option.name, own=True)
    # Modules are copied, parameters shared: no option writes to a parameter.
    other = copy.deepcopy(loaded.model, {id(p): p for p in loaded.model.parameters()})
    option.swap(other)
    with seeded(0):  # for dropout
        seen = run(other, rerun.rows_of(traced), {LOGITS}, rerun.edits_of(traced))
    logits, tokens = seen[LOGITS][0].numpy(), rerun.written_tokens(traced)
    here = slice(0, len(tokens))  # padding follows
    before = rerun.token_logprobs(traced.logits, tokens)
    return Swapped(
        option.choice,
        option.name,
        own=False,
        change=float(np.abs(logits - traced.logits)[here].max(initial=0.0)),
        loss=float((before - rerun.token_logprobs(logits, tokens)).mean()) if tokens else 0.0,
        kept=float((logits.argmax(1) == traced.logits.argmax(1))[here].mean()) if tokens else 1.0,
        parameters=numbers_of(other) - numbers_of(loaded.model),
    )


# Attention


def _attending(replaced: Callable[..., tuple[Tensor, Tensor]]) -> Callable[[Model], None]:
    def swap(model: Model) -> None:
        for module in model.modules():
            if isinstance(module, Attention):
                vars(module)["attend"] = replaced

    return swap


def _divided(name: str, scaling: Scaling) -> Option:
    """Scores divided according to `scaling`."""

    def swap(model: Model) -> None:
        for module in model.modules():
            if isinstance(module, Attention):
                module.divisor = _divisor(model.config, scaling)

    return Option("scale", name, swap, lambda c: c.divisor == _divisor(c, scaling))


def _divisor(config: ModelConfig, scaling: Scaling) -> float:
    return divisor_of(scaling, config.d_head, config.d_model)


def _divides_otherwise(config: ModelConfig) -> bool:
    return all(config.divisor != _divisor(config, scaling) for scaling in SCALINGS)


def _filled(fill: float | None) -> Callable[[Model], None]:
    """Blocked scores replaced by `fill`; None: weights multiplied by 0 after the softmax."""

    def written(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None = None,
        *,
        bias: Tensor | None = None,
        divisor: float,
        cap: float | None = None,
        dropout: float = 0.0,
        hooks: Attention,
    ) -> tuple[Tensor, Tensor]:
        k, v = share_heads(q, k), share_heads(q, v)
        scores = capped(q @ k.transpose(-2, -1) / divisor, cap)
        scores = hooks.hook_scores(scores if bias is None else scores + bias)
        mask = torch.ones((), dtype=torch.bool, device=q.device) if mask is None else mask
        mask = hooks.hook_mask(mask.expand(scores.shape))
        if fill is None:
            pattern = scores.softmax(-1) * mask
        else:
            pattern = scores.masked_fill(~mask, fill).softmax(-1)
        pattern = hooks.hook_pattern(pattern)
        return pattern @ v, pattern

    return _attending(written)


def _reversed(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, **more: object
) -> tuple[Tensor, Tensor]:
    """A mask passed to code that reads True as blocked."""
    return attend(q, k, v, None if mask is None else ~mask, **more)  # type: ignore[arg-type]


# Norms


class _WrittenNorm(nn.Module):
    """LayerNorm by hand: another divisor of the variance, or eps outside the root."""

    def __init__(self, norm: LayerNorm, ddof: int, eps: float, outside: bool) -> None:
        super().__init__()
        assert norm.bias is not None
        self.weight, self.bias = norm.weight, norm.bias
        self.ddof, self.eps, self.outside = ddof, eps, outside

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        var = x.var(-1, correction=self.ddof, keepdim=True)
        spread = var.sqrt() + self.eps if self.outside else (var + self.eps).sqrt()
        return self.weight * (centred / spread) + self.bias


def _norms(make: Callable[[LayerNorm], nn.Module]) -> Callable[[Model], None]:
    def swap(model: Model) -> None:
        for parent in list(model.modules()):
            for name, child in list(parent.named_children()):
                if isinstance(child, LayerNorm):
                    setattr(parent, name, make(child))

    return swap


def _written(ddof: int = 0, eps: float | None = None, outside: bool = False) -> Callable[..., None]:
    return _norms(lambda n: _WrittenNorm(n, ddof, n.eps if eps is None else eps, outside))


def _rms(norm: LayerNorm) -> RMSNorm:
    other = RMSNorm(len(norm.weight), norm.eps)
    other.weight = norm.weight
    return other


def _placed(placement: NormPlacement) -> Option:
    def swap(model: Model) -> None:
        for block in model.modules():
            if isinstance(block, Block):
                block.norm_placement = placement

    return Option(
        "placement",
        placement,
        swap,
        lambda config: config.norm_placement == placement,
        # Other designs have no single place: parallel sublayers, or norms on both sides of each.
        lambda config: not config.parallel and not config.out_norms,
    )


def _final(wanted: bool) -> Callable[[Model], None]:
    def swap(model: Model) -> None:
        for stack in _stacks(model):
            new = NORMS[model.config.norm](model.config.d_model, model.config.norm_eps)
            stack.final_norm = new.to(stack.embed.weight) if wanted else nn.Identity()

    return swap


# The rest


def _stacks(model: Model) -> list[Stack]:
    return [module for module in model.modules() if isinstance(module, Stack)]


def _activation(name: str) -> Option:
    def swap(model: Model) -> None:
        for module in model.modules():
            if isinstance(module, FeedForward):
                module.activation = ACTIVATIONS[name]

    return Option(
        "activation",
        name,
        swap,
        lambda config: config.ffn == name,
        lambda config: config.ffn not in GATED and (name != "silu" or config.ffn == name),
    )


def _embedded(scaled: bool) -> Callable[[Model], None]:
    def swap(model: Model) -> None:
        for stack in _stacks(model):
            stack.embed_scale = math.sqrt(model.config.d_model) if scaled else 1.0

    return swap


class _Halves(Sinusoidal):
    """The same sines and cosines in another order: all sines first, then all cosines."""

    def added(self, positions: Tensor) -> Tensor:
        table = super().added(positions)
        return torch.cat((table[..., 0::2], table[..., 1::2]), dim=-1)


def _positions(name: str) -> Option:
    def swap(model: Model) -> None:
        for stack in _stacks(model):
            kind = _Halves if name == "halves" else POSITIONS[name]
            stack.positions = kind(model.config, stack.causal)

    return Option(
        "positions",
        name,
        swap,
        lambda config: config.positions == name,
        lambda config: _can_have(config, name),
    )


def _can_have(config: ModelConfig, positions: str) -> bool:
    """Whether these widths allow such positions; another order of sines requires sines."""
    if positions == "halves":
        return config.positions == "sinusoidal"
    try:
        other = replace(config, positions=positions)
    except ValueError:
        return False
    with without_numbers():
        trained = next(other.position_type(other, other.is_causal).parameters(), None)
    return trained is None or config.positions == positions


def _without_biases(model: Model) -> None:
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.register_parameter("bias", None)


def _untied(model: Model) -> None:
    model.unembed.weight = nn.Parameter(model.unembed.weight.clone(), requires_grad=False)


def _dropping(*where: type[nn.Module]) -> Callable[[Model], None]:
    """Dropout left on, in modules of these classes."""

    def swap(model: Model) -> None:
        for module in model.modules():
            if isinstance(module, where):
                dropout = module.get_submodule("dropout")
                vars(dropout).update(p=P, training=True)

    return swap


def _drop_weights(model: Model) -> None:
    for module in model.modules():
        if isinstance(module, Attention):
            module.dropout, module.training = P, True


def _is_layernorm(config: ModelConfig) -> bool:
    return config.norm == "layernorm"


def every_option() -> tuple[Option, ...]:
    """All options, choice by choice: every registered kind of positions and every activation."""
    return (
        Option("scale", "own", lambda model: None, lambda config: True, _divides_otherwise),
        _divided("d_head", "head"),
        _divided("d_model", "model"),
        _divided("none", "none"),
        Option("fill", "excluded", lambda model: None, lambda config: True),
        Option("fill", "e9", _filled(-1e9)),
        Option("fill", "e4", _filled(-1e4)),
        Option("fill", "after", _filled(None)),
        Option("sense", "may", lambda model: None, lambda config: True),
        Option("sense", "blocked", _attending(_reversed)),
        *(_placed(placement) for placement in get_args(NormPlacement)),
        Option("final", "with", _final(True), lambda config: config.final_norm),
        Option("final", "without", _final(False), lambda config: not config.final_norm),
        Option("norm", "inside", lambda model: None, _is_layernorm, _is_layernorm),
        Option("norm", "unbiased", _written(ddof=1), fits=_is_layernorm),
        Option("norm", "outside", _written(outside=True), fits=_is_layernorm),
        Option("norm", "both", _written(ddof=1, eps=1e-6, outside=True), fits=_is_layernorm),
        Option("norm", "tiny", _written(eps=1e-12), fits=_is_layernorm),
        Option("norm", "rms", _norms(_rms), fits=_is_layernorm),
        *(_activation(name) for name in ACTIVATIONS),
        Option("embedding", "scaled", _embedded(True), lambda config: config.scale_embeddings),
        Option("embedding", "plain", _embedded(False), lambda config: not config.scale_embeddings),
        *(_positions(name) for name in (*POSITIONS, "halves")),
        Option("bias", "with", lambda model: None, lambda config: True, lambda config: config.bias),
        Option("bias", "without", _without_biases, fits=lambda config: config.bias),
        Option("tying", "tied", lambda model: None, lambda c: True, lambda c: c.tie_embeddings),
        Option("tying", "apart", _untied, fits=lambda config: config.tie_embeddings),
        Option("dropout", "off", lambda model: None, lambda config: True),
        Option("dropout", "weights", _drop_weights),
        Option("dropout", "inner", _dropping(FeedForward)),
        Option("dropout", "outer", _dropping(Block)),
        Option("dropout", "embedding", _dropping(Stack)),
    )
