"""Path patching: what one head passes to another, through the query, key or value of the second.

In a first run of the second text, one head (the sender) outputs what it did in the first text while
all other heads output what they did in the second; feed-forward nets and norms follow. The
resulting query, key or value of another head (the receiver) is put into a second run, in which
nothing else is changed. So only the path from the one head to the other counts, bypassing all heads
in between. Wang et al. 2022, "Interpretability in the Wild", §3.1; Goldowsky-Dill et al. 2023,
"Localizing Model Behavior with Path Patching".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from explorer.analysis.patching.maps import Cell, Map, patches_of
from explorer.analysis.patching.pair import Pair
from explorer.analysis.patching.patched import PatchedRun, patched_run
from explorer.analysis.patching.patches import Patch, batch_size, patching
from explorer.library import LoadedModel
from explorer.runs.interventions import edit_functions
from explorer.runs.run import run
from models.hooks import AttentionSite, Edits, Record, visiting

Into = Literal["q", "k", "v"]


INTO: tuple[Into, ...] = get_args(Into)


@dataclass(frozen=True, eq=False)
class Paths:
    """The effect on the answer through one input of one head, the receiver.

    `heads` is a map of the senders, NaN if no path leads from them. `words` is the path from the
    embeddings themselves, bypassing all heads; `everything` all paths at once: the receiver's whole
    query, key or value as it was in the first run.
    """

    pair: Pair
    receiver: Cell
    into: Into
    heads: Map
    words: float
    everything: float


def senders(loaded: LoadedModel, receiver: AttentionSite, into: Into) -> tuple[AttentionSite, ...]:
    """The attention sublayers with a direct path to an input of this one: those that write to the
    same stream before it, or to the stream that it attends to."""
    stream = receiver.query_stream if into == "q" else receiver.key_stream
    before = [site for site in loaded.sites if site.query_stream == stream]
    if stream != receiver.query_stream:
        return tuple(before)
    return tuple(site for site in before if _order(site) < _order(receiver))


def _order(site: AttentionSite) -> tuple[int, bool]:
    return site.layer, site.kind == "cross"


def receivers(loaded: LoadedModel, into: Into) -> tuple[AttentionSite, ...]:
    """The attention sublayers that some path leads to."""
    return tuple(site for site in loaded.sites if senders(loaded, site, into))


def site_of(loaded: LoadedModel, cell: Cell) -> AttentionSite:
    """The sublayer of a cell of a map by head. Raises KeyError."""
    for site in loaded.sites:
        if (site.role, site.layer) == cell[:2] and 0 <= cell[2] < site.n_heads:
            return site
    raise KeyError(f"{loaded.name} has no head {cell}")


def run_path(
    loaded: LoadedModel, pair: Pair, receiver: Cell, into: Into, sender: Cell
) -> PatchedRun:
    """The run in which one path is patched. Raises KeyError for an unknown head."""
    patch = patches_of(loaded, pair, "z")[0][sender]
    site = site_of(loaded, receiver)
    arrived = arriving(loaded, pair, site, receiver[2], into, [[patch]])
    return patched_run(loaded, pair, arrived)


def arriving(
    loaded: LoadedModel,
    pair: Pair,
    site: AttentionSite,
    head: int,
    into: Into,
    rows: Sequence[Sequence[Patch]],
) -> list[Patch]:
    """For each of `rows` the receiver's input, with all other heads frozen."""
    own = edit_functions(loaded.sites, pair.edits)
    outputs = {attention.hook("z") for attention in loaded.sites}
    fixed = run(loaded.model, pair.rows[1], outputs, own)
    # The heads' outputs in the second run, repeated for every row.
    held = own.then(Edits({hook: z.expand_as for hook, z in fixed.items()}))
    hook = site.hook(into)
    group = 1 if into == "q" else loaded.config.n_heads // loaded.config.kv_heads
    index = head // group
    patches: list[Patch] = []
    size = batch_size(loaded, pair)
    for start in range(0, len(rows), size):
        batch = rows[start : start + size]
        record = Record({hook}.__contains__, held.then(patching(batch)))
        _read(loaded, pair, len(batch), record, site)
        tensors = record.activations[hook][:, index]
        places = list(range(tensors.shape[1]))  # not beyond, if a run generates further tokens
        patches += [Patch(hook, (index, places), tensor) for tensor in tensors]
    return patches


def _read(
    loaded: LoadedModel, pair: Pair, n_rows: int, record: Record, site: AttentionSite
) -> None:
    """Run copies of the second text up to the stack of the receiver."""
    model = loaded.model
    rows = pair.rows[1].select([0] * n_rows).to(next(model.parameters()).device)
    with torch.inference_mode(), visiting(record):
        memory = model.memory_of(rows)
        if site.query_stream == "tgt":
            model.last_stack.run(rows, memory)
