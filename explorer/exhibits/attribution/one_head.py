"""One head, key by key: the contribution of each key, as vocabulary words and as logits."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from explorer.analysis.attribution.writes import Pushes, Writes, pushes, without_head
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.attribution.place import pick_row, site_name
from explorer.exhibits.attribution.words import position_of, token_name, words_of
from explorer.exhibits.attribution.writes import LOGIT, writes
from explorer.exhibits.needs import OUTPUT
from explorer.exhibits.picking import pick_place
from explorer.exhibits.saying import quoted, quoted_at
from explorer.numbers import fixed, percent, signed
from explorer.runs.passes import Steps

KEYS = 8
"""Most keys in the table."""
LEAST = 0.005
"""Smallest weight of a key in the table."""


@dataclass(frozen=True, eq=False)
class HeadOutput:
    """The output of a head on the vocabulary, its part of the logits by key (None: it is no part of
    them), and their difference without it (None: one word only)."""

    whole: Writes
    found: Pushes
    split: Writes | None
    after: float | None
    query: int


def compute(
    run: Run,
    position: int,
    words: tuple[int, int],
    compared: bool,
    site: str,
    head: int,
    query: int,
) -> Steps[HeadOutput]:
    """Raises as `writes`."""
    loaded, traced, place = cache.open_model(run.model), cache.trace(run), (head, query)
    whole = yield from writes.steps(run, position, words, "sublayers")
    pushed = yield from pushes(loaded, traced, loaded.site(site), *place)
    split, after = None, None
    if pushed.direct:
        split = yield from writes.steps(run, position, words, (site, head))
    if compared:
        after = without_head(loaded, traced, whole, loaded.site(site), *place)
    return HeadOutput(whole, pushed, split, after, query)


def query_of(view: View) -> int:
    """The query: where the word is predicted, unless the head reads another sequence."""
    return position_of(view)[0] if view.site.query_stream == "tgt" else view.row


def show(one: HeadOutput, view: View) -> b.Blocks:
    """The keys with the highest weights, and the experiment without the head."""
    yield b.Title(view.t("attribution.head_title"), large=True)
    row = () if view.site.query_stream == "tgt" else (pick_row(view),)
    yield b.Row((*pick_place(view, "attribution"), *row))
    shares = None if one.split is None else _of_keys(one.split)
    yield from _table(view, one.whole, words_of(view)[1], one.found, shares, one.query)
    if one.after is not None:
        tokens = view.trace.query_tokens(view.site.name)
        words = view.t(
            "attribution.head_without",
            query=quoted_at(view, tokens, one.query),
            before=fixed(one.whole.logits[0] - one.whole.logits[1], 3),
            after=fixed(one.after, 3),
        )
        yield b.Prose(words)
    yield b.Code((pushes,))


def _of_keys(split: Writes) -> dict[int, tuple[float, float]]:
    """The contribution of each key to the word's logit and to the logit difference."""
    return {
        writer.key: (float(share), float(difference))
        for writer, share, difference in zip(
            split.writers, split.shares, split.differences, strict=True
        )
        if writer.key is not None
    }


def _table(
    view: View,
    whole: Writes,
    rival: int | None,
    found: Pushes,
    shares: dict[int, tuple[float, float]] | None,
    query: int,
) -> b.Blocks:
    """The whole head, then its keys with the highest weights."""
    site = view.site.name
    query_token = quoted_at(view, view.trace.query_tokens(site), query)
    lead = "attribution.head_lead" if found.direct else "attribution.head_lead_indirect"
    yield b.Prose(view.t(lead, query=query_token))
    tokens = view.trace.key_tokens(site)
    keys = [at for at in range(len(found.keys)) if found.weights[at] >= LEAST][:KEYS]
    words = [token_name(view.loaded, token) for token in (whole.word, whole.other)]
    head = [view.t("attribution.key"), view.t("attribution.weight_of")]
    if shares is not None:
        head.append(view.t("attribution.to_word", word=quoted(view, words[0])))
        if rival is not None:
            head.append(view.t("attribution.minus_word", word=quoted(view, words[1])))
    n_numbers = len(head) - 1
    head += [view.t("attribution.pushed"), view.t("attribution.held_down")]

    def numbers(of: Iterable[tuple[float, float]]) -> list[str]:
        sums = np.array(list(of)).sum(0)
        return [signed(float(total), 3) for total in sums[: n_numbers - 1]]

    rows: list[tuple[str, ...]] = []
    bold = f"**{view.t('attribution.whole_head')}**"
    sums = numbers(shares.values()) if shares is not None else []
    rows.append((bold, "", *sums, *_words(view, found, 0)))
    for at in keys:
        own = numbers([shares[found.keys[at]]]) if shares is not None else []
        token = quoted_at(view, tokens, found.keys[at])
        weight = percent(float(found.weights[at]))
        rows.append((token, weight, *own, *_words(view, found, at + 1)))
    table = b.Table(head, rows, "l" + "r" * n_numbers + "ll")
    yield b.Pane((table,), key="attribution-keys")


def _words(view: View, found: Pushes, row: int) -> tuple[str, str]:
    """The words that one row promotes and suppresses, as Markdown."""
    sides = []
    for tokens, values in ((found.pushed, found.up), (found.held, found.down)):
        said = zip(tokens[row].tolist(), values[row].tolist(), strict=True)
        sides.append(
            " ".join(
                f"{quoted(view, token_name(view.loaded, token))}\u00a0{signed(value)}"
                for token, value in said
            ).replace("|", "\\|")
        )
    return sides[0], sides[1]


EXHIBIT = Exhibit(
    compute,
    show,
    OUTPUT,
    inputs=LOGIT | {"site": site_name, "query": query_of},
    wait=Wait("attribution.working"),
)
