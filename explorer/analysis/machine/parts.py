"""The whole model: every part, with the tensors that it computed for this sentence."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from explorer.library import LoadedModel
from explorer.runs.rerun import edits_of, require_same_model, rows_of
from explorer.runs.trace import Trace
from models.hooks import LOGITS, Edits, StackSite, visiting
from models.positions import POSITIONS
from models.rows import Stream

What = Literal[
    "tokens",
    "embedding",
    "positions",
    "rotation",
    "bias",
    "self",
    "cross",
    "ffn",
    "norm",
    "add",
    "final_norm",
    "memory",
    "unembed",
]
Shapes = dict[str, tuple[int, ...]]


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

    `role` is that of its self-attention: an encoder's attends in both directions.
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


def towers(loaded: LoadedModel, traced: Trace) -> tuple[Tower, ...]:
    """A tower for each stack of the model. Raises ValueError for another model's Trace.

    A table that both streams share is counted at its first use, in the encoder.
    """
    made = shapes(loaded, traced)
    counted: set[int] = set()
    return tuple(_tower(loaded, made, stack, counted) for stack in loaded.model.stacks())


def _tower(loaded: LoadedModel, made: Shapes, stack: StackSite, counted: set[int]) -> Tower:
    model = loaded.model
    crossings = {site.block: site for site in loaded.sites if site.kind == "cross"}

    def part(what: What, path: str, out: str, inside: str = "") -> Station:
        new = _new_parameters(model, path, counted)
        return Station(what, made[out], made.get(inside, ()), new)

    embed = stack.hook("embed")
    table = part("embedding", stack.path("embed"), embed)
    mapping = _new_parameters(model, stack.path("embed_map"), counted)
    table = replace(table, parameters=table.parameters + mapping)
    before = [Station("tokens", made[embed][:1]), table]
    if stack.hook("pos_embed") in made:
        before.append(part("positions", stack.path("positions"), stack.hook("pos_embed")))
    if loaded.config.embed_norm:
        new = _new_parameters(model, stack.path("embed_norm"), counted)
        before.append(Station("norm", made[embed], (), new))
    # Positions that act in every layer without joining the stream are listed first.
    if POSITIONS[loaded.config.positions].acts == "turns":
        before.insert(0, Station("rotation", made[stack.block_hook(0, "q", "attn")]))
    if stack.block_hook(0, "bias", "attn") in made:
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

        attended = part(
            "self", inside("attn"), out("attn_out"), stack.block_hook(index, "pattern", "attn")
        )
        layer = sublayer(attended, inside("attn_norm"))
        crossing = crossings.get(inside())
        if crossing is not None:
            crossed = part("cross", crossing.name, out("cross_attn_out"), crossing.hook("pattern"))
            layer += sublayer(crossed, inside("cross_attn_norm"))
        transformed = part(
            "ffn", inside("ffn"), out("ffn_out"), stack.block_hook(index, "post", "ffn")
        )
        layers.append(layer + sublayer(transformed, inside("ffn_norm")))
    after = []
    if loaded.config.final_norm:
        after.append(part("final_norm", stack.path("final_norm"), stack.hook("resid_final")))
    if any(site.kind == "cross" and site.key_stream == stack.stream for site in loaded.sites):
        after.append(Station("memory", made[stack.hook("resid_final")]))
    if stack.stream == "tgt" and loaded.model.predicts is not None:
        unembed, net = part("unembed", "unembed", LOGITS), _new_parameters(model, "head", counted)
        after.append(replace(unembed, parameters=unembed.parameters + net))
    return Tower(stack.stream, stack.role, tuple(before), tuple(layers), tuple(after))


def _residual(placement: str, function: Station, norm: Station) -> Stations:
    """One sublayer's parts in the order in which `Block.residual` of `models.blocks` runs them."""
    if placement == "post":
        return function, Station("add", function.shape, skips=1), norm
    both = (norm, function) if placement == "pre" else (function, norm)
    return *both, Station("add", function.shape, skips=2)


def _new_parameters(model: nn.Module, path: str, counted: set[int]) -> int:
    """The parameters of a part that no earlier part has."""
    new = [p for p in model.get_submodule(path).parameters() if id(p) not in counted]
    counted.update(id(p) for p in new)
    return sum(p.numel() for p in new)
