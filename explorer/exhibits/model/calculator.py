"""The calculator: parameters for any sizes, FLOPs and bytes by length."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from torch import nn

from explorer.analysis.model import parameters
from explorer.analysis.model.cost import Cost, cost
from explorer.analysis.model.parameters import KINDS, Count, count, on_paper
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.model.choices import ModelChoices
from explorer.exhibits.model.sizes import OWN, PRESETS, Sizes, parse_sizes
from explorer.exhibits.picking import pick_one
from explorer.figures.bars import measured
from explorer.figures.curves import lines
from explorer.numbers import byte_size, percent
from explorer.text import shorten
from models.config import ModelConfig
from models.transformer import build_model


def count_layers(config: ModelConfig) -> Count:
    """The parameters of the layers alone: without embeddings, positions and final norm."""
    model = on_paper(lambda: build_model(config))
    stacks = (model.get_submodule(stack.path("blocks")) for stack in model.stacks())
    return count(nn.ModuleList(stacks))


LENGTHS = tuple(2**power for power in range(4, 14))


HEADS = (1, 2, 4, 8, 12, 16, 32, 64)


VOCABULARIES = (0, 100, 1000, 8000, 32_000, 37_000, 50_000, 128_000)


CHOICES = {
    "model.d_model": (64, 128, 256, 512, 768, 1024, 2048, 4096),
    "model.n_heads": HEADS,
    "model.kv_heads": HEADS,
    "model.n_layers": (1, 2, 3, 6, 12, 24, 32, 48),
    "model.d_ff": (128, 256, 512, 1024, 2048, 3072, 4096, 8192, 11_008, 16_384),
    "model.vocab_size": VOCABULARIES,
    "model.src_vocab": VOCABULARIES,
}


SWITCHES = ("has_encoder", "swiglu", "bias", "tied", "out_bias", "final_norm")


EXAMPLE = (2, 10, 5)
"""Batch size, source length and target length for the shape of the logits."""


@dataclass(frozen=True)
class ModelCost:
    """The parameters of a model, the shape of its logits (None without an LM head), and its cost at
    each of LENGTHS."""

    parameters: Count
    logits: tuple[int, ...] | None
    costs: tuple[Cost, ...]


def compute(config: ModelConfig, whole: bool) -> ModelCost:
    """A model of these sizes; only its layers unless `whole`. Raises ValueError."""
    count = parameters.count_config if whole else count_layers
    batch, _, tgt = EXAMPLE
    shape = (batch, tgt, config.vocab_size) if whole and config.lm_head else None
    counted = count(config)
    costs = (cost(config, n, 4 * counted.total, unembeds=whole) for n in LENGTHS)
    return ModelCost(counted, shape, tuple(costs))


def sizes_of(view: View) -> Sizes:
    """The sizes from the link; the loaded model's own by default and if they are impossible."""
    own = view.loaded.config
    return parse_sizes(view.choices(ModelChoices).sizes, own) or Sizes.of(own)


def _preset(view: View) -> str:
    """The name of these sizes; "" if they have none."""
    chosen, named = sizes_of(view), {OWN: Sizes.of(view.loaded.config), **PRESETS}
    return next((name for name, sizes in named.items() if sizes == chosen), "")


def config_of(view: View) -> ModelConfig:
    """The config that is counted."""
    return view.loaded.config if _preset(view) == OWN else sizes_of(view).config()


def show(counted: ModelCost, view: View) -> b.Blocks:
    """The sizes, the parameters by part, and the cost by length."""
    blocks = [
        b.Prose(view.t("model.calculator_lead")),
        *_controls(view),
        b.Columns((_parts(view, counted), (*_totals(view, counted),)), (3, 2)),
        *_lengths(view, counted.costs),
    ]
    yield b.Fold(view.t("model.calculator"), blocks, inline=True)


def _controls(view: View) -> b.Blocks:
    asked, chosen = view.choices(ModelChoices).sizes, sizes_of(view)
    if parse_sizes(asked, view.loaded.config) is None:
        words = view.t("shell.refused", name="sizes", value=escape(shorten(asked, 40)))
        yield b.Hint(words, "link_off", warns=True)
    more = b.More(change=lambda name: b.choose(sizes=name or ""), quiet=True, form="optional")
    options, now = (OWN, *PRESETS), _preset(view) or None
    yield pick_one(view, "model.preset", options, now, **more)
    names = [name for name in CHOICES if name != "model.src_vocab"]
    if chosen.has_encoder and chosen.vocab_size:
        names.append("model.src_vocab")
    yield b.Row([_size(view, chosen, name) for name in names])
    yield b.Row([_switch(view, chosen, name) for name in SWITCHES], "center")


def _size(view: View, chosen: Sizes, key: str) -> b.Pick:
    name = key.removeprefix("model.")
    now = getattr(chosen, name)
    divided = {"n_heads": chosen.d_model, "kv_heads": chosen.n_heads}.get(name, 0)
    options = {now, *(size for size in CHOICES[key] if not divided or divided % size == 0)}
    nothing = view.t("model.shared" if name == "src_vocab" else "model.layers_alone")
    more = b.More(said=lambda size: f"{size:,}" if size else nothing)
    more["change"] = lambda size: b.choose(sizes=chosen.with_size(name, size).text())
    return pick_one(view, key, sorted(options), now, form="menu", width=130, **more)


def _switch(view: View, chosen: Sizes, name: str) -> b.Toggle:
    label, now = view.t("model.switches", name), getattr(chosen, name)
    return b.Toggle(
        f"model.{name}", label, now, lambda on: b.choose(sizes=chosen.with_switch(name, on).text())
    )


def _parts(view: View, model_cost: ModelCost) -> tuple[b.Block, ...]:
    by_kind = model_cost.parameters.by_kind
    shown = [kind for kind in KINDS if by_kind[kind]]
    names = [view.t("model.kinds", kind) for kind in shown]
    values = np.array([by_kind[kind] for kind in shown], float)
    draw = partial(measured, names, values, title=view.t("model.parameters"))
    return (b.Chart("model.parts", draw, view.t("model.calculator")),)


def _totals(view: View, model_cost: ModelCost) -> b.Blocks:
    total = model_cost.parameters.total
    yield b.Metrics([(view.t("model.parameters"), f"{total:,}")])
    yield b.Metrics([(view.t("model.bytes"), byte_size(4 * total))])
    yield b.Note(view.t("model.half", size=byte_size(2 * total)))
    if model_cost.logits is not None:
        batch, src, tgt = EXAMPLE
        shape = " × ".join(f"{n:,}" for n in model_cost.logits)
        key = "model.logits" if sizes_of(view).has_encoder else "model.logits_one"
        yield b.Note(view.t(key, batch=batch, src=src, tgt=tgt, shape=shape))


def _lengths(view: View, costs: Sequence[Cost]) -> b.Blocks:
    """Work and memory against text length, with the length from which the N² term dominates."""
    yield b.Title(view.t("model.lengths"))
    work = {"linear": "linear_flops", "square": "attention_flops"}
    memory = {"patterns": "pattern_bytes", "cache": "cache_bytes", "weights": "weight_bytes"}
    if not costs[0].cache_bytes:  # a bidirectional model has no KV cache
        del memory["cache"]
    left = _curves(view, "model.work", costs, work, "GFLOP", 1e9)
    right = _curves(view, "model.memory", costs, memory, "MiB", 2**20)
    yield b.Columns((left, right))
    first = costs[0]
    equal = first.length * first.linear_flops / first.attention_flops
    here = len(view.trace.tgt_tokens)
    values = {
        "crossing": f"{int(equal) + 1:,}",
        "length": here,
        "share": percent(here / (here + equal)),
    }
    yield b.Sentence("lengths", view.t("model.lengths_reading", **values))


def _curves(
    view: View, key: str, costs: Sequence[Cost], of: Mapping[str, str], unit: str, size: float
) -> tuple[b.Block, ...]:
    draw = partial(
        lines,
        np.array([point.length for point in costs]),
        np.array([[getattr(point, field) / size for point in costs] for field in of.values()]),
        [view.t("model.costs", name) for name in of],
        x_title=view.t("model.length"),
        y_title=unit,
        log_x=True,
        log_y=True,
    )
    return b.Note(view.t(key)), b.Chart(key, draw, view.t(key))


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={"config": config_of, "whole": lambda view: sizes_of(view).vocab_size > 0},
    wait=Wait("model.counting"),
)
