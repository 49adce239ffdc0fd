"""The whole model: every part, with the tensors that it computed for this sentence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from explorer.analysis.model.cost import cost
from explorer.analysis.model.parameters import Count, count
from explorer.components.machine_view import Box, Column, pack_machine_view
from explorer.components.mount import inside
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.model.choices import ModelChoices
from explorer.library import LoadedModel
from explorer.numbers import percent
from explorer.runs.rerun import edits_of, require_same_model, rows_of
from explorer.runs.trace import Trace
from explorer.text import in_units
from models.attention import attend
from models.hooks import LOGITS, Edits, StackSite, visiting
from models.positions import POSITIONS
from models.rows import Stream

Before = Literal["tokens", "embedding", "positions", "rotation", "bias"]
Inside = Literal["self", "cross", "ffn", "norm", "add"]
What = Literal[Before, Inside, "final_norm", "memory", "unembed"]
Shapes = dict[str, tuple[int, ...]]
Target = b.Change | None
OPENS: dict[What, b.Change] = {
    "positions": b.choose(visit="positions"),
    "rotation": b.choose(visit="positions"),
    "bias": b.choose(visit="positions"),
    "norm": b.choose(visit="model", part="norms"),
    "add": b.choose(visit="model", part="residual"),
    "ffn": b.choose(visit="model", part="hidden"),
    "final_norm": b.choose(visit="model", part="norms"),
    "unembed": b.choose(visit="decoding"),
}
"""The page that explains a part, if it is the same in all layers."""


class _Shapes:
    """A visitor that records the shape of every tensor, without its batch axis."""

    def __init__(self, edits: Edits) -> None:
        self.edits = edits
        self.shapes: Shapes = {}

    def wants(self, name: str) -> bool:
        return True

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        self.shapes[name] = tuple(tensor.shape[1:])
        return self.edits(name, tensor) if self.edits.wants(name) else tensor


def shapes(loaded: LoadedModel, traced: Trace) -> Shapes:
    """The shape of every tensor of a Trace's run, feed-forward nets included, by hook name."""
    require_same_model(loaded, traced)
    visitor = _Shapes(edits_of(traced))
    with torch.inference_mode(), visiting(visitor):
        loaded.model.read(rows_of(traced))
    return visitor.shapes


@dataclass(frozen=True)
class Station:
    """One part: its kind, its output shape, the shape inside it, and its parameters.

    `inside` is the shape of its main internal tensor: the attention weights, or the hidden units of
    a feed-forward net; () if there is none. A tied output has no parameters of its own. `skips` is
    for an addition: the number of preceding parts that the residual connection bypasses.
    """

    what: What
    shape: tuple[int, ...]
    inside: tuple[int, ...] = ()
    parameters: int = 0
    skips: int = 0


Stations = tuple[Station, ...]


@dataclass(frozen=True)
class Tower:
    """One token stream: the parts before the layers, the layers, and after them, in running order.

    `role` is the role of its self-attention: encoders attend in both directions.
    """

    stream: Stream
    role: Literal["encoder", "decoder"]
    before: Stations
    layers: tuple[Stations, ...]
    after: Stations

    @property
    def parameters(self) -> int:
        """All parameters of the tower."""
        stations = (*self.before, *(s for layer in self.layers for s in layer), *self.after)
        return sum(station.parameters for station in stations)


def towers(loaded: LoadedModel, sizes: Shapes) -> tuple[Tower, ...]:
    """A tower for each stack of the model, with the shapes of a run.

    A table that both streams share is counted at its first use, in the encoder.
    """
    counted: set[int] = set()
    return tuple(_tower(loaded, sizes, stack, counted) for stack in loaded.stacks)


def _tower(loaded: LoadedModel, sizes: Shapes, stack: StackSite, counted: set[int]) -> Tower:
    model = loaded.model
    crossings = {site.block: site for site in loaded.sites if site.kind == "cross"}

    def part(what: What, path: str, out: str, inside: str = "") -> Station:
        new = _new_parameters(model, path, counted)
        return Station(what, sizes[out], sizes.get(inside, ()), new)

    embed = stack.hook("embed")
    table = part("embedding", stack.path("embed"), embed)
    mapping = _new_parameters(model, stack.path("embed_map"), counted)
    table = replace(table, parameters=table.parameters + mapping)
    before = [Station("tokens", sizes[embed][:1]), table]
    if stack.hook("pos_embed") in sizes:
        before.append(part("positions", stack.path("positions"), stack.hook("pos_embed")))
    if loaded.config.embed_norm:
        new = _new_parameters(model, stack.path("embed_norm"), counted)
        before.append(Station("norm", sizes[embed], (), new))
    # Positions that act in every layer without joining the stream are listed first.
    if POSITIONS[loaded.config.positions].acts == "turns":
        before.insert(0, Station("rotation", sizes[stack.block_hook(0, "q", "attn")]))
    if stack.block_hook(0, "bias", "attn") in sizes:
        before.insert(0, part("bias", stack.path("positions"), stack.block_hook(0, "bias", "attn")))
    layers = []
    for index in range(stack.n_layers):
        inside, out = partial(stack.path, "blocks", index), partial(stack.block_hook, index)

        def sublayer(function: Station, path: str) -> Stations:
            # A norm does not change the shape of its input.
            norm = Station("norm", function.shape, (), _new_parameters(model, path, counted))
            parts = _residual(loaded.config.norm_placement, function, norm)
            if isinstance(model.get_submodule(path), nn.Identity):
                parts = function, Station("add", function.shape, skips=1)
            if loaded.config.out_norms and not path.endswith("cross_attn_norm"):
                outer = _new_parameters(model, path.replace("_norm", "_out_norm"), counted)
                added = replace(parts[-1], skips=parts[-1].skips + 1)
                parts = (*parts[:-1], Station("norm", function.shape, (), outer), added)
            return parts

        attended = part("self", inside("attn"), out("attn_out"), out("pattern", "attn"))
        layer = sublayer(attended, inside("attn_norm"))
        crossing = crossings.get(inside())
        if crossing is not None:
            crossed = part("cross", crossing.name, out("cross_attn_out"), crossing.hook("pattern"))
            layer += sublayer(crossed, inside("cross_attn_norm"))
        transformed = part("ffn", inside("ffn"), out("ffn_out"), out("post", "ffn"))
        layers.append(layer + sublayer(transformed, inside("ffn_norm")))
    after = []
    if loaded.config.final_norm:
        after.append(part("final_norm", stack.path("final_norm"), stack.hook("resid_final")))
    if any(site.kind == "cross" and site.key_stream == stack.stream for site in loaded.sites):
        after.append(Station("memory", sizes[stack.hook("resid_final")]))
    if stack.stream == "tgt" and loaded.config.lm_head:
        unembed, net = part("unembed", "unembed", LOGITS), _new_parameters(model, "head", counted)
        after.append(replace(unembed, parameters=unembed.parameters + net))
    return Tower(stack.stream, stack.role, tuple(before), tuple(layers), tuple(after))


def _residual(placement: str, function: Station, norm: Station) -> Stations:
    """One sublayer's parts in the order in which `Block.forward` of `models.blocks` runs them."""
    if placement == "post":
        return function, Station("add", function.shape, skips=1), norm
    both = (norm, function) if placement == "pre" else (function, norm)
    return *both, Station("add", function.shape, skips=2)


def _new_parameters(model: nn.Module, path: str, counted: set[int]) -> int:
    """The parameters of a part that no earlier part has."""
    new = [p for p in model.get_submodule(path).parameters() if id(p) not in counted]
    counted.update(id(p) for p in new)
    return sum(p.numel() for p in new)


@dataclass(frozen=True)
class Anatomy:
    """The towers of a model, its parameters, and the shape of every tensor of a run."""

    towers: tuple[Tower, ...]
    parameters: Count
    shapes: Shapes


def compute(loaded: LoadedModel, trace: Trace) -> Anatomy:
    """Every part of the model in this run."""
    sizes = shapes(loaded, trace)
    return Anatomy(towers(loaded, sizes), count(loaded.model), sizes)


def show(anatomy: Anatomy, view: View) -> b.Blocks:
    """The size in words, the control for the layer drawn part by part, and the boxes."""
    yield b.SentenceLine()
    yield b.Changes("model.reset")
    by_kind, total = anatomy.parameters.by_kind, anatomy.parameters.total
    most = max(by_kind, key=lambda kind: by_kind[kind])
    values = {"most": view.t("model.kinds", most), "share": percent(by_kind[most] / total)}
    yield b.Sentence("model", view.t("model.reading", total=f"{total:,}", **values))
    n_layers = max(len(tower.layers) for tower in anatomy.towers)
    if n_layers > 1:
        yield b.Slider(
            "model.unfolded",
            view.t("model.unfolded"),
            b.Span(1, n_layers),
            _shown_layer(view, n_layers) + 1,
            lambda layer: b.choose(unfolded=layer - 1),
            display=b.Display(340),
        )
    yield _canvas(view, anatomy.towers)
    lines = (
        r"\text{attention} = 2\,d\,(n_{\text{heads}} + n_\mathrm{kv})\,d_\mathrm{head}, \qquad "
        r"\text{feed-forward} = 2\,d\,d_\mathrm{ff}\;\text{or}\;3\,d\,d_\mathrm{ff}",
        r"\mathrm{FLOPs}(n) = 2\,n\,\text{weights} + 4\,n^2\,n_{\text{heads}}d_\mathrm{head}"
        r"\cdot\text{attentions}, \qquad \text{cache}(n) = 2\,n\,n_\mathrm{kv}d_\mathrm{head}"
        r"\cdot\text{attentions}_{\text{decoder}}\cdot 4",
    )
    yield b.Formula(lines, view.t("model.formula"))
    yield b.Code((*_model(view), towers, count, cost))
    yield b.Numbers(
        lambda: {
            view.t("model.tensor"): list(anatomy.shapes),
            view.t("model.shape"): [" × ".join(map(str, s)) for s in anatomy.shapes.values()],
        }
    )


def _shown_layer(view: View, n_layers: int) -> int:
    """The layer drawn part by part: the chosen one, else the first."""
    return min(view.choices(ModelChoices).unfolded, n_layers - 1)


def _canvas(view: View, stacks: tuple[Tower, ...]) -> b.Canvas:
    drawn = [(tower, _groups(view, tower)) for tower in stacks]
    links = [link for _, groups in drawn for _, parts in groups for _, link in parts]

    def pack(file: str, hrefs: Sequence[str]) -> bytes:
        return pack_machine_view([_column(view, *pair) for pair in drawn], hrefs)

    def picked(at: Any) -> Target:
        index = inside(at, len(links))
        return None if index is None else links[index]

    return b.Canvas("model.view", "machine_view", pack, {"picked": picked}, links)


Parts = list[tuple[Box, Target]]
Groups = list[tuple[str, Parts]]


def _column(view: View, tower: Tower, groups: Groups) -> Column:
    parameters = in_units(tower.parameters, lang=view.lang)
    title = view.t("model.stacks", tower.role, parameters=parameters)
    boxes = tuple((name, tuple(box for box, _ in parts)) for name, parts in groups)
    return Column(title, tower.stream, boxes)


def _groups(view: View, tower: Tower) -> Groups:
    """The parts of a stack below their titles: one layer is drawn in full."""

    def parts(stations: Stations, layer: int = 0) -> Parts:
        return [(_box(view, station), _link(tower, station, layer)) for station in stations]

    end = len(tower.layers)
    here = _shown_layer(view, end)
    layers = [_folded(view, tower, 0, here)] if here else []
    layers.append((view.t("model.layer", layer=here + 1), parts(tower.layers[here], here)))
    if here + 1 < end:
        layers.append(_folded(view, tower, here + 1, end))
    after = [(view.t("model.after"), parts(tower.after))] if tower.after else []
    return [(view.t("model.before"), parts(tower.before)), *layers, *after]


def _folded(view: View, tower: Tower, first: int, end: int) -> tuple[str, Parts]:
    """Layers `first` to `end` - 1 as one box: their number, the stream's shape, their
    parameters."""
    folded = [station for layer in tower.layers[first:end] for station in layer]
    title = view.t("model.folded", first=first + 1, last=end)
    if end == first + 1:
        title = view.t("model.layer", layer=end)
    name = view.t("model.folded_layers", count=end - first)
    note = f"{sum(station.parameters for station in folded):,}"
    return title, [(Box(name, _shape(folded[-1].shape), note), None)]


def _box(view: View, station: Station) -> Box:
    shape = _shape(station.shape)
    if station.inside:
        shape = f"{_shape(station.inside)} → {shape}"
    note = f"{station.parameters:,}" if station.parameters else ""
    if station.what == "unembed" and not station.parameters:
        note = view.t("model.tied_note")
    if station.what == "add":
        shape, note = "", shape
    return Box(
        view.t("model.boxes", station.what),
        shape,
        note,
        skips=station.skips,
        sends="memory" if station.what == "memory" else "",
        receives="memory" if station.what == "cross" else "",
        aside=station.what in ("rotation", "bias"),
    )


def _shape(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def _link(tower: Tower, station: Station, layer: int) -> Target:
    """The page of a part, opened at this layer; None if no page explains it."""
    place = {"site": tower.role, "layer": layer, "head": 0}
    match station.what:
        case "embedding":
            return b.choose(visit="score", elsewhere=True, **place, aside="split", key=None)
        case "self":
            return b.choose(visit="heads", elsewhere=True, **place)
        case "cross":
            return b.choose(visit="heads", elsewhere=True, **place | {"site": "cross"})
    return OPENS.get(station.what)


def _model(view: View) -> list[object]:
    """The code of the model, from token ids to logits, with one block."""
    model = view.loaded.model
    stack = model.last_stack
    block = stack.blocks[0]
    reads = [model.memory_of] if model.config.reads_source else []
    before = model.read, *reads, stack.run, stack.embed_tokens, stack.positions
    return [*before, block, block.add, block.attn, attend, block.attn_norm, block.ffn]


EXHIBIT = Exhibit(compute, show)
