"""The effect on the translation of ablating the aligning heads, compared with random heads."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float

from explorer.analysis.alignment.reading import AT_ONCE, Pair, Tell, cross_sites, translated
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
from explorer.numerics import beats
from explorer.runs.edits import HeadOff
from explorer.runs.inputs import given_tokens, target_row, target_tokens
from explorer.runs.interventions import edit_functions
from explorer.runs.run import run
from explorer.runs.trace import trace
from models.hooks import LOGITS
from models.rows import Rows

COUNTS = (1, 2, 4, 8, 12)
DRAWS, FEW = 19, 5
"""Random sets of the largest number of heads, and of each smaller one."""


@dataclass(frozen=True, eq=False)
class HeadRemoval:
    """Mean ln p per generated token over all pairs.

    `whole`: the unmodified model; `aligning`: the first `counts` heads of the ranking ablated;
    `others`: as many random heads ablated, DRAWS times for the last count.
    """

    counts: tuple[int, ...]
    n_heads: int
    whole: float
    aligning: Float[np.ndarray, " count"]
    others: tuple[Float[np.ndarray, " draw"], ...]

    @property
    def stands_out(self) -> bool:
        """Whether the aligning heads cost clearly more than every random set of the last count."""
        return beats(-float(self.aligning[-1]), -self.others[-1])


def ablations(loaded: LoadedModel, heads: Sequence[int]) -> tuple[HeadOff, ...]:
    """The edits that ablate these cross-attention matrices, indexed in the order of `heads_of`."""
    names = [(site.name, head) for site in cross_sites(loaded) for head in range(site.n_heads)]
    return tuple(HeadOff(*names[each]) for each in heads)


def drawn(n_heads: int, count: int, seed: int, without: Sequence[int] = ()) -> list[int]:
    """Draw `count` heads at random, none of them in `without`."""
    others = [head for head in range(n_heads) if head not in set(without)]
    return sorted(np.random.default_rng(seed).permutation(others)[:count].tolist())


def counts_for(n_heads: int) -> tuple[int, ...]:
    """How many heads to ablate: at most half, so that as many others are left to draw."""
    return tuple(count for count in COUNTS if count <= n_heads // 2)


def removal(
    loaded: LoadedModel, pairs: Sequence[Pair], order: Sequence[int], tell: Tell | None = None
) -> HeadRemoval:
    """Ablate the first heads of `order` (all heads, best aligning first), and random ones.

    `tell(done, total)` is called with counts of passes over all pairs. Raises InputProblem, and
    ValueError if there is only one head, which leaves no control.
    """
    n_heads = len(order)
    counts = counts_for(n_heads)
    if not counts:
        raise ValueError("there is no second head to compare with")
    settings: list[list[int]] = [[], *(list(order[:count]) for count in counts)]
    draws = [FEW] * (len(counts) - 1) + [DRAWS]
    for count, n_draws in zip(counts, draws, strict=True):
        settings += [drawn(n_heads, count, seed) for seed in range(n_draws)]
    found = []
    for done, off in enumerate(settings):
        found.append(mean_logprob(loaded, pairs, off))
        if tell is not None:
            tell(done + 1, len(settings))
    whole, aligning, *others = np.split(found, np.cumsum([1, len(counts), *draws])[:-1])
    return HeadRemoval(counts, n_heads, float(whole[0]), aligning, tuple(others))


def mean_logprob(loaded: LoadedModel, pairs: Sequence[Pair], off: Sequence[int] = ()) -> float:
    """Mean ln p per token of the translations, end token included, under teacher forcing, with the
    heads in `off` ablated. Raises InputProblem."""
    silence = edit_functions(loaded.sites, ablations(loaded, off))
    total, count = 0.0, 0
    for start in range(0, len(pairs), AT_ONCE):
        batch = pairs[start : start + AT_ONCE]
        src = [given_tokens(loaded, source) for source, _ in batch]
        tgt = [target_row(loaded, target_tokens(loaded, target)) for _, target in batch]
        logits = run(loaded.model, Rows.of(tgt, src, loaded.marks), {LOGITS}, silence)[LOGITS]
        end = () if loaded.marks.end is None else (loaded.marks.end,)
        for row, tokens in zip(logits, tgt, strict=True):
            written = [*tokens[1:], *end]
            row = row[: len(written)]
            chosen = row[torch.arange(len(written)), written] - row.logsumexp(-1)
            total += float(chosen.double().sum())
            count += len(written)
    return total / max(1, count)


Outputs = tuple[tuple[int, str, str], ...]


def _order(model: str, back: str | None) -> tuple[int, ...]:
    """Every head once, sorted by the better of its two rows, the best first."""
    return tuple(dict.fromkeys(head for _, head in opened.study(model, back).ranked()))


@cached
def removed(
    model: str, back: str | None, *, progress: Progress | None = None
) -> HeadRemoval | None:
    """The ln p per token of the example translations without the aligning heads; None if
    there is only one head. Raises InputProblem."""
    loaded, order = cache.open_model(model), _order(model, back)
    if not counts_for(len(order)):
        return None
    return removal(loaded, translated(loaded, opened.sentences(model)), order, progress)


def compute(
    loaded: LoadedModel, text: str, back: str | None, progress: Progress
) -> tuple[HeadRemoval | None, Outputs]:
    """Also the outputs with a number of aligning heads ablated, and with as many others: (count,
    output, output). Raises InputProblem."""
    opened.study(loaded.name, back, progress=progress)
    whole, order = removed(loaded.name, back, progress=progress), _order(loaded.name, back)
    counts, found = counts_for(len(order)), []
    for done, count in enumerate(counts):
        progress(done, len(counts))
        others = drawn(len(order), count, 0, order[:count])
        own, other = (
            trace(loaded, text, edits=ablations(loaded, off)).output
            for off in (order[:count], others)
        )
        found.append((count, own, other))
    return whole, tuple(found)


def show(answer: tuple[HeadRemoval | None, Outputs], view: View) -> b.Blocks:
    """The cost over all examples, and the translations of the sentence."""
    found, outputs = answer
    lead = b.Prose(view.t("alignment.without_lead"))
    if found is None:
        yield from (lead, b.Hint(view.t("alignment.one_head"), "info"))
        return
    yield b.Hero((b.Sentence("without", _reading(view, found)), _curves(view, found)))
    yield lead  # after the picture, which would push it down
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
    yield b.Code((removal, drawn, mean_logprob, ablations))
    yield b.Numbers(lambda: _numbers(view, found))


def _numbers(view: View, found: HeadRemoval) -> dict[str, list[object]]:
    return {
        view.t("alignment.off_count"): list(found.counts),
        view.t("alignment.off_aligning"): [f"{x - found.whole:+.3f}" for x in found.aligning],
        view.t("alignment.off_others"): [f"{x.mean() - found.whole:+.3f}" for x in found.others],
    }


def _shown(text: str) -> str:
    return escape(text) if text.strip() else "–"


def _reading(view: View, found: HeadRemoval) -> str:
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
        draws=DRAWS,
        rate=percent(1 / (DRAWS + 1)),
    )


def _curves(view: View, found: HeadRemoval) -> b.Chart:
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
