"""The effect on the translation of ablating the aligning heads, compared with random heads."""

from functools import partial

import numpy as np

from explorer.analysis.alignment import removal
from explorer.analysis.alignment.reading import translated
from explorer.engine import cache
from explorer.engine.caching import cached
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.alignment import opened
from explorer.exhibits.alignment.opened import Progress
from explorer.exhibits.escape import escape
from explorer.exhibits.needs import TRANSLATES
from explorer.figures.curves import lines
from explorer.library import LoadedModel
from explorer.numbers import percent, signed
from explorer.runs.trace import trace

Outputs = tuple[tuple[int, str, str], ...]


def _order(model: str, back: str | None) -> tuple[int, ...]:
    """Every head once, sorted by the better of its two rows, the best first."""
    return tuple(dict.fromkeys(head for _, head in opened.study(model, back).ranked()))


@cached
def removed(
    model: str, back: str | None, *, progress: Progress | None = None
) -> removal.HeadRemoval | None:
    """The ln p per token of the example translations without the aligning heads; None if
    there is only one head. Raises InputProblem."""
    loaded, order = cache.open_model(model), _order(model, back)
    if not removal.counts_for(len(order)):
        return None
    return removal.removal(loaded, translated(loaded, opened.sentences(model)), order, progress)


def compute(
    loaded: LoadedModel, text: str, back: str | None, progress: Progress
) -> tuple[removal.HeadRemoval | None, Outputs]:
    """Also the outputs with a number of aligning heads ablated, and with as many others: (count,
    output, output). Raises InputProblem."""
    opened.study(loaded.name, back, progress=progress)
    whole, order = removed(loaded.name, back, progress=progress), _order(loaded.name, back)
    counts, found = removal.counts_for(len(order)), []
    for done, count in enumerate(counts):
        progress(done, len(counts))
        others = removal.drawn(len(order), count, 0, order[:count])
        own, other = (
            trace(loaded, text, edits=removal.ablations(loaded, off)).output
            for off in (order[:count], others)
        )
        found.append((count, own, other))
    return whole, tuple(found)


def show(answer: tuple[removal.HeadRemoval | None, Outputs], view: View) -> b.Blocks:
    """The cost over all examples, and the translations of the sentence."""
    found, outputs = answer
    yield b.Prose(view.t("alignment.without_lead"))
    if found is None:
        yield b.Hint(view.t("alignment.one_head"), "info")
        return
    yield b.Hero((b.Sentence("without", _reading(view, found)), _curves(view, found)))
    yield b.Title(view.t("alignment.without_here"))
    before = escape(view.before().output)
    rows = [["0", before, before]]
    rows += [[str(count), _shown(own), _shown(other)] for count, own, other in outputs]
    head = [view.t(f"alignment.{name}") for name in ("off_count", "off_aligning", "off_drawn")]
    yield b.Table(head, rows, "rll")
    yield b.Formula.of(
        view.t("alignment.without_formula"),
        r"\Delta = \frac1n\sum_t \Big(\log p(y_t \mid y_{<t}, x;\ \text{heads off}) "
        r"- \log p(y_t \mid y_{<t}, x)\Big)",
    )
    yield b.Code((removal.removal, removal.drawn, removal.mean_logprob, removal.ablations))
    yield b.Numbers(lambda: _numbers(view, found))


def _numbers(view: View, found: removal.HeadRemoval) -> dict[str, list[object]]:
    return {
        view.t("alignment.off_count"): list(found.counts),
        view.t("alignment.off_aligning"): [f"{x - found.whole:+.3f}" for x in found.aligning],
        view.t("alignment.off_others"): [f"{x.mean() - found.whole:+.3f}" for x in found.others],
    }


def _shown(text: str) -> str:
    return escape(text) if text.strip() else "–"


def _reading(view: View, found: removal.HeadRemoval) -> str:
    """The reading: the cost of the largest ablation, and the highest cost of as many others."""
    own, others = found.aligning - found.whole, [each - found.whole for each in found.others]
    return view.t(
        f"alignment.without_{'more' if found.stands_out else 'less'}",
        count=found.counts[-1],
        total=found.n_heads,
        own=signed(float(own[-1])),
        mean=signed(float(others[-1].mean())),
        worst=signed(float(others[-1].min())),
        first=signed(float(own[0])),
        first_mean=signed(float(others[0].mean())),
        draws=removal.DRAWS,
        rate=percent(1 / (removal.DRAWS + 1)),
    )


def _curves(view: View, found: removal.HeadRemoval) -> b.Chart:
    means, worst = ([f(each) for each in found.others] for f in (np.mean, np.min))
    curves = np.array([found.aligning, means, worst]) - found.whole
    draw = partial(
        lines,
        np.array([0, *found.counts]),
        np.pad(curves, ((0, 0), (1, 0))),
        [view.t(f"alignment.{name}") for name in ("off_aligning", "off_others", "off_worst")],
        **view.axes("alignment.off_count", "alignment.change"),
        points=True,
    )
    return b.Chart("alignment.without", draw, view.t("alignment.without_alt"))


EXHIBIT = Exhibit(
    compute, show, TRANSLATES, inputs={"back": opened.back_of}, working="alignment.without_working"
)
