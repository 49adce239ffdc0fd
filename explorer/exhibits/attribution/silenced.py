"""The experiment: remove a writer where the word is predicted."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from explorer.analysis.attribution.ledger import BIASES, Writer
from explorer.analysis.attribution.writes import Place, Writes, silent_at
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.attribution.place import to_remove, writer_name
from explorer.exhibits.exhibit import OUTPUT
from explorer.library import LoadedModel
from explorer.numbers import fixed
from explorer.runs.rerun import rerun
from explorer.runs.trace import Trace
from models.hooks import LOGITS, Change, Edits


@dataclass(frozen=True)
class Silenced:
    """A component ablated at one position: the difference of two logits before and after.

    `predicted` follows from its share. `held` is measured: the model runs without it while the
    output of every later component is held fixed, so only the norms change their scale. `free` is
    measured too: every later component reacts.
    """

    writer: Writer
    before: float
    predicted: float
    held: float
    free: float


def silence(loaded: LoadedModel, traced: Trace, result: Writes, writer: int) -> Silenced:
    """Ablate a component where it wrote, in two runs of the model.

    Raises IndexError for a component out of range, ValueError for the biases, which are written in
    many places.
    """
    named = result.writers[writer]
    if named.kind == "bias":
        raise ValueError("biases are added in many places, so they cannot be ablated as one")
    hook, at = _place_of(traced, named, result.position)
    kept = _kept(traced)
    change: dict[str, Change] = {hook: partial(silent_at, at=at)}
    held = {name: partial(_as_it_was, array=array) for name, array in kept.items()} | change
    before = result.logits[0] - result.logits[1]
    measured = []
    for edits in (held, change):
        logits = rerun(loaded, traced, {LOGITS}, Edits(edits))[LOGITS][0, result.position].double()
        measured.append(float(logits[result.word] - logits[result.other]))
    return Silenced(named, before, before - float(result.differences[writer]), *measured)


def _place_of(traced: Trace, writer: Writer, position: int) -> tuple[str, Place]:
    """Where a component writes: its hook point, and the part to set to 0."""
    stack = traced.stacks[-1]
    match writer.kind:
        case "head":
            head = slice(None) if writer.head is None else writer.head
            return traced.site(writer.site).hook("z"), (head, position)
        case "ffn":
            assert writer.layer is not None
            return stack.block_hook(writer.layer, "ffn_out"), (position,)
        case "embedding":
            return stack.hook("embed"), (position,)
    return stack.hook("pos_embed"), (position,)


def _kept(traced: Trace) -> dict[str, np.ndarray]:
    """The recorded output of every sublayer of the last stack."""
    stack = traced.stacks[-1]
    hooks = [site.hook("z") for site in traced.sites if site.query_stream == stack.stream]
    hooks += [stack.block_hook(layer, "ffn_out") for layer in range(stack.n_layers)]
    return {hook: traced.activations[hook] for hook in hooks}


def _as_it_was(tensor: Tensor, array: np.ndarray) -> Tensor:
    return torch.tensor(array, dtype=tensor.dtype)[None]


def compute(
    loaded: LoadedModel, trace: Trace, writes: Writes, taken: int | None
) -> Silenced | None:
    """Ablate a writer; None without a second word."""
    if not writes.compares:
        return None
    return silence(loaded, trace, writes, to_remove(writes.terms, taken, BIASES)[1])


def show(out: Silenced | None, view: View) -> b.Blocks:
    """The difference of the logits before and after."""
    if out is None:
        return
    words = view.t(
        "attribution.read_silenced",
        writer=writer_name(view, out.writer),
        before=fixed(out.before),
        predicted=fixed(out.predicted),
        held=fixed(out.held),
        free=fixed(out.free),
    )
    yield b.Sentence("silenced", words)


EXHIBIT = Exhibit(
    compute, show, OUTPUT, wait=Wait("attribution.working", after="attribution.writes")
)
