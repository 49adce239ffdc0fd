"""Every tensor of one run; few are stored, and the others are recomputed on request.

Stored are the streams before each block, from which one block can be run again alone, and the masks
and patterns of all heads up to `PATTERN_BYTES`. A run of at most `WHOLE_BYTES` is stored whole,
since recomputing a part of it would take longer than storing it. Values do not depend on
what is stored: attention is computed cell by cell if its cells are stored or requested.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import cast

import numpy as np
import torch
from torch import Tensor

from explorer.library import LoadedModel
from explorer.runs.edits import Edit
from explorer.runs.interventions import edit_functions
from explorer.runs.run import EnoughError, Until, run
from models.foreign.placing import inside
from models.hooks import LOGITS, AttentionSite, StackSite, visiting
from models.rows import Rows
from models.transformer import Stack

WHOLE_BYTES = 8_000_000
"""A run that takes no more is stored whole."""
PATTERN_BYTES = 32_000_000
"""The patterns of all heads are stored up to this size: 30 layers of 9 heads at 172 tokens."""


@dataclass(frozen=True)
class Part:
    """The unit of recomputation: something in one block, or (`layer` None) the logits.

    `what` names the attention sublayer whose mask and pattern, or whose scores, are meant; "" is
    everything else in the block, which is much smaller for long texts.
    """

    stack: int
    layer: int | None
    what: str = ""


Read = Callable[[Part], Mapping[str, np.ndarray]]


class Activations(Mapping[str, np.ndarray]):
    """The tensors of one run by the names of their hook points, in the order of the run.

    Tensors that are not in `kept` are computed by `read` from their part. The names are known
    without computing anything. A pickle contains all tensors.
    """

    def __init__(
        self, kept: Mapping[str, np.ndarray], parts: Mapping[str, Part | None], read: Read
    ) -> None:
        self.kept, self.parts, self._read = dict(kept), dict(parts), read

    def __getitem__(self, name: str) -> np.ndarray:
        array = self.kept.get(name)
        if array is not None:
            return array
        part = self.parts[name]
        if part is None:
            raise KeyError(name)
        return self._read(part)[name]

    def __contains__(self, name: object) -> bool:
        return name in self.parts

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __or__(self, other: Mapping[str, np.ndarray]) -> "Activations":
        """A copy with some tensors replaced or added."""
        return Activations(self.kept | dict(other), self.parts | dict.fromkeys(other), self._read)

    def __reduce__(self) -> tuple[object, ...]:
        return dict, (dict(self),)


class _Places:
    """The hook points of a model that tell in which part a pass is."""

    def __init__(self, stacks: tuple[StackSite, ...], sites: tuple[AttentionSite, ...]) -> None:
        self.ends: set[str] = set()
        self.begins: dict[str, Part] = {}
        self.blocks: list[tuple[str, str]] = []  # where each block ends, and the next one begins
        for index, stack in enumerate(stacks):
            self.ends.add(stack.hook("resid_final"))
            begins = [stack.block_hook(layer, "resid_pre") for layer in range(stack.n_layers)]
            for layer, name in enumerate(begins):
                self.begins[name] = Part(index, layer)
                after = [*begins, stack.hook("resid_final")][layer + 1]
                self.blocks.append((stack.block_hook(layer, "resid_post"), after))
        self.cells = {site.hook(what): site.name for site in sites for what in ("mask", "pattern")}
        self.scores = {site.hook(what): site.name for site in sites for what in ("scores", "bias")}


_places = lru_cache(maxsize=64)(_Places)


class _Survey:
    """Records every hook point of a pass, and decides which tensors are stored; the logits are
    always recorded."""

    def __init__(self, places: _Places, whole: bool, patterns: bool) -> None:
        self.parts: dict[str, Part | None] = {}
        self.whole, self._patterns, self._places = whole, patterns, places
        self._here: Part | None = None

    def __call__(self, name: str) -> bool:
        if ".ffn." in name:  # the hidden units are as large as everything else together
            return False
        if name not in self.parts:
            self._note(name)
        kept = self.parts[name] is None or self.whole or name in self._places.begins
        return kept or name == LOGITS or (self._patterns and name in self._places.cells)

    def _note(self, name: str) -> None:
        places = self._places
        self._here = None if name in places.ends else places.begins.get(name, self._here)
        part = self._here
        if name == LOGITS:
            part = Part(-1, None)
        elif part is not None and name in places.cells:
            part = Part(part.stack, part.layer, places.cells[name])
        elif part is not None and name in places.scores:
            part = Part(part.stack, part.layer, f"scores of {places.scores[name]}")
        self.parts[name] = part


def survey(
    loaded: LoadedModel, rows: Rows, edits: Sequence[Edit], read: Read | None = None
) -> tuple[Activations, tuple[int, ...]]:
    """One teacher-forced pass under `edits`: its tensors, without a batch axis, and the most
    probable token at each position (empty for a model without an LM head).

    `read` computes what is not stored; None: the model does, and the last requested part is cached.
    """
    changes = edit_functions(loaded.sites, edits, rows.src_valid, rows.tgt_valid)
    cells, others = sizes(loaded, rows)
    places = _places(loaded.stacks, loaded.sites)
    keep = _Survey(places, cells * 3 + others <= WHOLE_BYTES, cells <= PATTERN_BYTES)
    seen = run(loaded.model, rows, keep, changes)
    logits = seen[LOGITS]
    predicted = tuple(logits[0].argmax(-1).tolist()) if logits.shape[-1] else ()
    if not keep.whole:
        del seen[LOGITS]
    kept = as_arrays(seen)
    for end, begin in places.blocks:
        kept[end] = kept[begin]
    if read is None:
        again = partial(read_part, loaded, rows, tuple(edits), kept, keep.parts)
        read = lru_cache(maxsize=1)(again)
    return Activations(kept, keep.parts, read), predicted


def sizes(loaded: LoadedModel, rows: Rows) -> tuple[int, int]:
    """Bytes of the patterns of all heads, and roughly of everything except the heads' cells."""
    config, shape = loaded.config, {s: rows.tokens(s).shape[1] for s in loaded.model.reads}
    cells = sum(s.n_heads * shape[s.query_stream] * shape[s.key_stream] for s in loaded.sites)
    streams = sum(stack.n_layers * shape[stack.stream] for stack in loaded.stacks)
    return 4 * cells, 4 * (12 * config.d_model * streams + config.vocab_size * shape["tgt"])


def read_part(
    loaded: LoadedModel,
    rows: Rows,
    edits: tuple[Edit, ...],
    kept: Mapping[str, np.ndarray],
    parts: Mapping[str, Part | None],
    part: Part,
) -> dict[str, np.ndarray]:
    """The tensors of one part, from the `kept` streams of the run of `rows` under `edits`."""
    names = {name for name, of in parts.items() if of == part}
    stacks = loaded.stacks

    def stream(name: str) -> Tensor:
        return inside(loaded.model, torch.tensor(kept[name])[None])

    def module(stack: StackSite) -> Stack:
        return cast(Stack, loaded.model.get_submodule(stack.name))

    def output(stack: StackSite) -> Tensor:
        states: Tensor = module(stack).final_norm(stream(stack.hook("resid_final")))
        return states

    changes = edit_functions(loaded.sites, edits, rows.src_valid, rows.tgt_valid)
    # Requesting a mask makes attention run cell by cell, as in the run itself.
    masks = {site.hook("mask") for site in loaded.sites}
    record = Until(names, lambda name: name in names or name in masks, changes)
    with torch.inference_mode(), suppress(EnoughError):
        if part.layer is None:
            with visiting(record):
                loaded.model.logits_of(output(stacks[-1]))
        else:
            stack = stacks[part.stack]
            before = [other for other in stacks if other.stream in stack.reads_too]
            memory = output(before[0]) if before else None
            batch = rows.to(next(loaded.model.parameters()).device)
            _, inputs = module(stack).enter(batch, memory)
            x = stream(stack.block_hook(part.layer, "resid_pre"))
            with visiting(record):
                module(stack).blocks[part.layer](x, *inputs(part.layer))
    return as_arrays({name: record.activations[name] for name in names})


def as_arrays(seen: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """The first row of each tensor as a read-only array, since arrays are shared by sessions."""
    arrays = {}
    for name, tensor in seen.items():
        arrays[name] = tensor[0].numpy()
        arrays[name].flags.writeable = False
    return arrays
