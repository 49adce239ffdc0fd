"""The deletion test of the rankings, compared with random orders."""

from functools import partial

import numpy as np

from explorer.analysis.patching.deletion import Deletion, How, delete
from explorer.analysis.patching.patches import Progress
from explorer.analysis.patching.rankings import Rankings
from explorer.engine.cache import Run
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.patching.flow import position_of
from explorer.exhibits.patching.rankings import has_logits, labels, rankings
from explorer.exhibits.saying import quoted, quoted_at
from explorer.figures.patching.falls import falls
from explorer.library import LoadedModel
from explorer.numbers import fixed, percent
from explorer.runs.trace import Trace

FLAT = 0.02
"""Smallest change of a probability that counts as a fall."""
TIE = 0.005
"""Largest difference of areas that count as equal."""


def compute(
    loaded: LoadedModel, run: Run, trace: Trace, position: int, how: How, progress: Progress
) -> Deletion | None:
    """None if no word was read. Raises InputProblem."""
    ranked = rankings(run, position)
    if not ranked.asked.words:
        return None
    return delete(loaded, trace, ranked.asked, ranked.scores, how, progress)


def show(deleted: Deletion | None, view: View) -> b.Blocks:
    """Which ranking makes the probability fall fastest."""
    if deleted is None:
        return
    ranked = rankings(view.run, position_of(view))
    yield b.Sentence("patching-test", _reading(view, ranked, deleted))
    draw = partial(
        falls,
        deleted.steps,
        np.stack([each.probs for each in deleted.curves.values()]),
        [view.t(f"patching.rankings.{name}") for name in deleted.curves],
        np.stack([each.probs for each in deleted.random]),
        random_name=view.t("patching.random"),
        x_title=view.t("patching.gone"),
        y_title=f"p({ranked.asked.str_token})",
    )
    yield b.Chart("patching.falls", draw, view.t("patching.falls"))
    yield _table(view, ranked, deleted)
    yield b.Code((delete,))


def _table(view: View, ranked: Rankings, deleted: Deletion) -> b.Table:
    tokens, (mean, spread) = labels(view, ranked), deleted.chance
    rows = [
        (
            view.t(f"patching.rankings.{name}"),
            fixed(round(each.area, 2) + 0.0),
            str(deleted.beaten(name)),
            " ".join(quoted_at(view, tokens, at) for at in each.order[:3]),
        )
        for name, each in deleted.curves.items()
    ]
    rows.append((view.t("patching.random"), f"{fixed(mean)} ± {fixed(spread)}", "", ""))
    head = (
        view.t("patching.by"),
        view.t("patching.area"),
        view.t("patching.beaten", count=len(deleted.random)),
        view.t("patching.first_gone"),
    )
    return b.Table(head, rows, "lrrl")


def _reading(view: View, ranked: Rankings, deleted: Deletion) -> str:
    """Which ranking makes the probability fall fastest, or that none does."""
    every = np.stack([each.probs for each in (*deleted.curves.values(), *deleted.random)])
    before, after = float(every[0, 0]), float(every[0, -1])
    if np.abs(every - before).max() < FLAT:
        word = quoted(view, ranked.asked.str_token)
        shares = {"before": percent(before), "after": percent(after)}
        return view.t("patching.test_flat", word=word, **shares)
    mean, spread = deleted.chance
    most = max(each.area for each in deleted.curves.values())
    best = [name for name, each in deleted.curves.items() if each.area > most - TIE]
    said_first = view.t(
        "patching.test_read",
        best=" / ".join(view.t(f"patching.rankings.{name}") for name in best),
        area=fixed(most),
        mean=fixed(mean),
        spread=fixed(spread),
        orders=len(deleted.random),
    )
    return f"{said_first} {_better(view, deleted)}"


def _better(view: View, deleted: Deletion) -> str:
    """How many rankings are better than chance, with the false positive rate."""
    n_words, better = len(deleted.random[0].order), len(deleted.better)
    if not better and deleted.n_orders <= len(deleted.random):
        return view.t("patching.test_few", words=n_words, count=deleted.n_orders)
    if not better:
        return view.t("patching.test_none")
    rate = percent(deleted.rate)
    return view.t("patching.test_better", better=better, count=len(deleted.curves), rate=rate)


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={"position": position_of},
    working="patching.deleting",
    after="patching.rankings",
    open=has_logits,
)
