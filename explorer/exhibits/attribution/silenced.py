"""The experiment: remove a writer where the word is predicted."""

from explorer.analysis.attribution.ledger import BIASES
from explorer.analysis.attribution.writes import Silenced, Writes, silence
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.attribution.place import to_remove, writer_name
from explorer.exhibits.exhibit import OUTPUT
from explorer.library import LoadedModel
from explorer.numbers import fixed
from explorer.runs.trace import Trace


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
