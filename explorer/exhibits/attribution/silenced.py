"""The experiment: remove a writer where the word is predicted."""

from explorer.analysis.attribution.writers import Detail
from explorer.analysis.attribution.writes import Silenced, silence
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.attribution.place import writer_name
from explorer.exhibits.attribution.writes import LOGIT, to_remove, writes
from explorer.exhibits.needs import OUTPUT
from explorer.numbers import fixed, signed
from explorer.runs.passes import Steps


@cached
def silenced(
    run: Run,
    position: int,
    words: tuple[int, int],
    detail: Detail,
    compared: bool,
    taken: int | None,
) -> Steps[Silenced | None]:
    """Ablate a writer; None without a second word. Raises as `writes`."""
    if not compared:
        return None
    whole = yield from writes.steps(run, position, words, detail)
    writer = to_remove(whole, words[1], taken)[1]
    return silence(cache.open_model(run.model), cache.trace(run), whole, writer)


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
        left=signed(out.held - out.predicted),
        free=fixed(out.free),
        later=signed(out.free - out.held),
    )
    yield b.Sentence("silenced", words)


EXHIBIT = Exhibit(silenced, show, OUTPUT, inputs=LOGIT, wait=Wait("attribution.working"))
