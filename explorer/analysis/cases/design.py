"""The choices of a design, each swapped in the loaded model, one at a time, and measured.

Papers, tutorials and libraries write "the" Transformer in ways that look alike. Each option here is
built into a copy of the loaded model, whose weights stay as trained, and the copy reads
the same text again. An option that changes nothing may be written either way; one that changes
the output must match the weights.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor, nn

from explorer.analysis.cases.case import Case, Plant, Result, ResultRow
from explorer.analysis.cases.planting import plant_scale
from explorer.analysis.mask_tests.probe import Subject
from explorer.analysis.model.parameters import numbers_of
from explorer.analysis.score.steps import SCALINGS, Scaling, divisor_of
from explorer.library import SMALL, LoadedModel
from explorer.runs import rerun
from explorer.runs.passes import Steps, seeded
from explorer.runs.run import run
from explorer.runs.trace import Trace
from models.attention import Attention
from models.blocks import Block
from models.config import CHOICES, ModelConfig, NormPlacement
from models.fast import without_numbers
from models.feedforward import ACTIVATIONS, GATED, FeedForward
from models.hooks import LOGITS, NO_EDITS, Edits
from models.norms import NORMS
from models.positions import POSITIONS, Sinusoidal
from models.rows import Rows
from models.transformer import Model, Stack

P = 0.1
"""Dropout probability for options that leave dropout on outside training."""
SAME = 1e-3
"""The largest logit change that counts as none: above rounding, below a different decision."""
FIELDS = {"positions": "positions", "activation": "ffn"}
"""Choices among the registered kinds of a config's field."""


def _as_it_is(model: Subject, rows: Rows) -> Edits:
    return NO_EDITS


@dataclass(frozen=True)
class Option:
    """One way to implement one choice: `swap` puts it into a copy of a model, or into its run, by
    the edits that it returns; `own` says whether a model of this config has it, `fits` whether the
    choice applies to it."""

    choice: str
    name: str
    swap: Plant = _as_it_is
    own: Callable[[ModelConfig], bool] = lambda config: False
    fits: Callable[[ModelConfig], bool] = lambda config: True

    @property
    def key(self) -> str:
        """The key of its text."""
        field = FIELDS.get(self.choice, "")
        if self.name in CHOICES.get(field, ()):
            return f"designs.{field}.{self.name}"
        return f"swaps.options.{self.choice}.{self.name}"


def options(config: ModelConfig) -> tuple[Option, ...]:
    """The options that apply to a model of this config, choice by choice."""
    return tuple(option for option in every_option() if option.fits(config))


def design(loaded: LoadedModel, traced: Trace) -> Steps[Result]:
    """Every option that applies, in a copy of the model that reads the Trace's input once.

    The values are the largest change of any logit; the change of the mean loss on the written
    tokens (nats); the share of positions whose best token stays; how many more parameters the
    model has. They are NaN for what the model has already. Without rows for a model without logits
    and for one with more than SMALL parameters. Raises ValueError for another model's Trace.
    """
    rerun.require_same_model(loaded, traced)
    if not traced.config.lm_head:
        return Result("", (), (), why=("no_logits",))
    if loaded.n_parameters > SMALL:
        return Result("", (), (), why=("too_large",), numbers={"limit": f"{SMALL:,}"})
    rows: list[ResultRow] = []
    tried = options(loaded.config)
    for option in tried:
        rows.append(_measured(loaded, traced, option))
        yield len(rows), len(tried)
    kinds = [row.outcomes[0][0] for row in rows]
    numbers: dict[str, float | str] = {
        "p": f"{100 * P:g} %",
        "count": len(rows) - kinds.count("own"),
        **{kind: kinds.count(kind) for kind in ("same", "moved", "changed")},
    }
    costs = [row for row in rows if row.outcomes[0][0] in ("moved", "changed")]
    worst = max(costs, key=lambda row: row.values[1], default=None)
    why: tuple[str, ...] = ("reading",)
    if worst is not None and worst.values[1] > 0:
        why = ("reading", "costliest")
        numbers |= {"choice": worst.name, "option": worst.of, "loss": worst.values[1]}
    why += ("dropout_note",) if loaded.config.final_norm else ("dropout_note", "norm_note")
    columns = ("logit_change", "loss_change", "best_kept", "more_parameters")
    return Result("", columns, rows, why=why, numbers=numbers, code=(run,))


def _measured(loaded: LoadedModel, traced: Trace, option: Option) -> ResultRow:
    name = f"swaps.choices.{option.choice}"
    if option.own(loaded.config):
        return ResultRow(name, (math.nan,) * 4, option.key, (("own", math.nan),))
    # Modules are copied, parameters shared: no option writes to a parameter.
    other = copy.deepcopy(loaded.model, {id(p): p for p in loaded.model.parameters()})
    rows = rerun.rows_of(traced)
    edits = rerun.edits_of(traced).then(option.swap(other, rows))
    with seeded(0):  # for dropout
        logits = run(other, rows, {LOGITS}, edits)[LOGITS][0].numpy()
    tokens = rerun.written_tokens(traced)
    here = slice(0, len(tokens))  # padding follows
    before = rerun.token_logprobs(traced.logits, tokens)
    change = float(np.abs(logits - traced.logits)[here].max(initial=0.0))
    loss = float((before - rerun.token_logprobs(logits, tokens)).mean()) if tokens else 0.0
    kept = float((logits.argmax(1) == traced.logits.argmax(1))[here].mean()) if tokens else 1.0
    more = numbers_of(other) - numbers_of(loaded.model)
    kind = "same" if change < SAME else "moved" if kept == 1 else "changed"
    return ResultRow(name, (change, loss, kept, more), option.key, ((kind, math.nan),))


def _in_each(kind: type[Any], change: Callable[[Any, ModelConfig], object]) -> Plant:
    """Apply a change to each module of a class, given it and the model's config."""

    def swap(model: Subject, rows: Rows) -> Edits:
        assert isinstance(model, Model)
        for module in list(model.modules()):
            if isinstance(module, kind):
                change(module, model.config)
        return NO_EDITS

    return swap


def _with(kind: type[Any], **values: Callable[[Any, ModelConfig], object]) -> Plant:
    """Set attributes of each module of a class to these functions' values."""

    def change(module: Any, config: ModelConfig) -> None:
        for name, value in values.items():
            setattr(module, name, value(module, config))

    return _in_each(kind, change)


def _divides(scaling: Scaling, config: ModelConfig) -> bool:
    """Whether the model's scores are divided so."""
    return config.divisor == divisor_of(scaling, config.d_head, config.d_model)


def _divided(name: str, scaling: Scaling) -> Option:
    """Scores divided according to `scaling`."""
    return Option("scale", name, plant_scale(scaling), partial(_divides, scaling))


def _divides_otherwise(config: ModelConfig) -> bool:
    return not any(_divides(scaling, config) for scaling in SCALINGS)


def _placed(placement: NormPlacement) -> Option:
    return Option(
        "placement",
        placement,
        _with(Block, norm_placement=lambda block, config: placement),
        lambda config: config.norm_placement == placement,
        # Other designs have no single place: parallel sublayers, or norms on both sides of each.
        lambda config: not config.parallel and not config.out_norms,
    )


def _fresh_norm(stack: Stack, config: ModelConfig) -> nn.Module:
    """A final norm with its initial weights."""
    return NORMS[config.norm](config.d_model, config.norm_eps).to(stack.embed.weight)


def _activation(name: str) -> Option:
    return Option(
        "activation",
        name,
        _with(FeedForward, activation=lambda network, config: ACTIVATIONS[name]),
        lambda config: config.ffn == name,
        lambda config: config.ffn not in GATED and (name != "silu" or config.ffn == name),
    )


class _Halves(Sinusoidal):
    """The same sines and cosines in another order: all sines first, then all cosines."""

    def added(self, positions: Tensor) -> Tensor:
        table = super().added(positions)
        return torch.cat((table[..., 0::2], table[..., 1::2]), dim=-1)


def _positions(name: str) -> Option:
    kind = _Halves if name == "halves" else POSITIONS[name]
    return Option(
        "positions",
        name,
        _with(Stack, positions=lambda stack, config: kind(config, stack.causal)),
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


def _untied(model: Subject, rows: Rows) -> Edits:
    assert isinstance(model, Model)
    model.unembed.weight = nn.Parameter(model.unembed.weight.clone(), requires_grad=False)
    return NO_EDITS


def _dropping(where: type[nn.Module]) -> Plant:
    """Dropout left on, in modules of a class."""
    on = {"p": P, "training": True}
    return _in_each(where, lambda module, config: vars(module.dropout).update(on))


def _always(config: ModelConfig) -> bool:
    return True


def every_option() -> tuple[Option, ...]:
    """All options, choice by choice: every registered kind of positions and every activation."""
    return (
        Option("scale", "own", own=_always, fits=_divides_otherwise),
        _divided("d_head", "head"),
        _divided("d_model", "model"),
        _divided("none", "none"),
        *(_placed(placement) for placement in get_args(NormPlacement)),
        Option("final", "with", _with(Stack, final_norm=_fresh_norm), lambda c: c.final_norm),
        Option(
            "final",
            "without",
            _with(Stack, final_norm=lambda s, c: nn.Identity()),
            lambda c: not c.final_norm,
        ),
        *(_activation(name) for name in ACTIVATIONS),
        Option(
            "embedding",
            "scaled",
            _with(Stack, embed_scale=lambda s, c: math.sqrt(c.d_model)),
            lambda c: c.scale_embeddings,
        ),
        Option(
            "embedding",
            "plain",
            _with(Stack, embed_scale=lambda s, c: 1.0),
            lambda c: not c.scale_embeddings,
        ),
        *(_positions(name) for name in (*POSITIONS, "halves")),
        Option("bias", "with", own=_always, fits=lambda config: config.bias),
        Option(
            "bias",
            "without",
            _with(nn.Linear, bias=lambda m, c: None),
            fits=lambda config: config.bias,
        ),
        Option("tying", "tied", own=_always, fits=lambda config: config.tie_embeddings),
        Option("tying", "apart", _untied, fits=lambda config: config.tie_embeddings),
        Option("dropout", "off", own=_always),
        Option(
            "dropout",
            "weights",
            _with(Attention, dropout=lambda m, c: P, training=lambda m, c: True),
        ),
        Option("dropout", "inner", _dropping(FeedForward)),
        Option("dropout", "outer", _dropping(Block)),
        Option("dropout", "embedding", _dropping(Stack)),
    )


DESIGN = Case("design", "design", design)
