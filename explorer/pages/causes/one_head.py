"""One head, key by key: the contribution of each key, as vocabulary words and as logits."""

from collections.abc import Iterable

import numpy as np
import streamlit as st

from explorer.analysis.causes.writes import Pushes, Writes
from explorer.exhibits.view import View
from explorer.numbers import fixed, percent, signed
from explorer.pages.causes import cached
from explorer.pages.causes.waiting import waited
from explorer.pages.causes.why import pick_row
from explorer.pages.causes.words import token_name
from explorer.ui import controls
from explorer.ui.tables import table

KEYS = 8
"""Most keys in the table."""
LEAST = 0.005
"""Smallest weight of a key in the table."""


def one_head(view: View, whole: Writes, rival: int | None) -> bool:
    """Draw the section; return False while it is still computing."""
    st.subheader(view.t("causes.head_title"), anchor=False)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        controls.pick_place(view, "causes")
        site = view.site
        query = whole.position if site.query_stream == "tgt" else pick_row(view)
    found = waited(view, "pushes", cached.pushes, site.name, view.head, query)
    if found is None:
        return False
    shares = None
    if found.direct:
        detail = (site.name, view.head)
        asked = (whole.position, whole.word, whole.other, detail)
        split = waited(view, "split", cached.writes, *asked)
        if split is None:
            return False
        shares = _of_keys(split)
    _table(view, whole, rival, found, shares, query)
    if rival is not None:
        _without(view, whole, query)
    return True


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
) -> None:
    """The whole head, then its keys with the highest weights."""
    site = view.site.name
    query_token = controls.quoted_at(view, view.trace.query_tokens(site), query)
    lead = "causes.head_lead" if found.direct else "causes.head_lead_indirect"
    st.markdown(view.t(lead, query=query_token))
    tokens = view.trace.key_tokens(site)
    keys = [at for at in range(len(found.keys)) if found.weights[at] >= LEAST][:KEYS]
    words = [token_name(view.loaded, token) for token in (whole.word, whole.other)]
    head = [view.t("causes.key"), view.t("causes.weight_of")]
    if shares is not None:
        head.append(view.t("causes.to_word", word=controls.quoted(view, words[0])))
        if rival is not None:
            head.append(view.t("causes.minus_word", word=controls.quoted(view, words[1])))
    n_numbers = len(head) - 1
    head += [view.t("causes.pushed"), view.t("causes.held_down")]

    def numbers(of: Iterable[tuple[float, float]]) -> list[str]:
        sums = np.array(list(of)).sum(0)
        return [signed(float(each), 3) for each in sums[: n_numbers - 1]]

    rows: list[tuple[str, ...]] = []
    bold = f"**{view.t('causes.whole_head')}**"
    sums = numbers(shares.values()) if shares is not None else []
    rows.append((bold, "", *sums, *_words(view, found, 0)))
    for at in keys:
        own = numbers([shares[found.keys[at]]]) if shares is not None else []
        token = controls.quoted_at(view, tokens, found.keys[at])
        weight = percent(float(found.weights[at]))
        rows.append((token, weight, *own, *_words(view, found, at + 1)))
    with st.container(key="causes-keys"):
        table(head, rows, "l" + "r" * n_numbers + "ll")


def _without(view: View, found: Writes, query: int) -> None:
    """The experiment: the logit difference with this head ablated."""
    asked = (found.position, found.word, found.other, view.site.name, view.head, query)
    after = waited(view, "without", cached.without_head, *asked)
    if after is None:
        return
    words = view.t(
        "causes.head_without",
        query=controls.quoted_at(view, view.trace.query_tokens(view.site.name), query),
        before=fixed(found.logits[0] - found.logits[1], 3),
        after=fixed(after, 3),
    )
    st.markdown(words)


def _words(view: View, found: Pushes, row: int) -> tuple[str, str]:
    """The words that one row promotes and suppresses, as Markdown."""
    sides = []
    for tokens, values in ((found.pushed, found.up), (found.held, found.down)):
        said = zip(tokens[row].tolist(), values[row].tolist(), strict=True)
        sides.append(
            " ".join(
                f"{controls.quoted(view, token_name(view.loaded, token))}\u00a0{signed(value)}"
                for token, value in said
            ).replace("|", "\\|")
        )
    return sides[0], sides[1]
