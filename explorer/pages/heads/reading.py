"""The reading of the open head: one query in a sentence, the ablation switch, two heads
compared."""

from collections.abc import Sequence

import streamlit as st

from explorer.analysis.heads.reading import KeyWeight, top_keys
from explorer.exhibits.heads.linked import predictions
from explorer.exhibits.heads.opened import Opened, Shown
from explorer.exhibits.view import View
from explorer.figures import heatmap
from explorer.numbers import percent
from explorer.runs.edits import HeadOff
from explorer.ui import controls, session


def read_row(choice: Opened) -> str:
    """The current query in one sentence with its numbers, as Markdown; by word if the picture is by
    word. A word's prediction is at its last token."""
    view, shown = choice.view, choice.current
    if shown is None:
        return view.t("heads.closed")
    queries: Sequence[str] = view.trace.query_tokens(view.site.name)
    keys: Sequence[str] = view.trace.key_tokens(view.site.name)
    row = last = view.row
    if choice.words is not None:
        of_queries, of_keys = choice.words
        row = of_queries.of(view.row)
        last = (*of_queries.starts[1:], len(queries))[row] - 1
        queries, keys = of_queries.labels, of_keys.labels
    top = top_keys(choice.cells(shown)[0][row], keys)
    values: dict[str, object] = {
        "query": controls.quoted_at(view, queries, row),
        "looks": _looks(view, keys, top),
    }
    if shown.site is not None and shown.head is not None:
        values |= {"layer": shown.site.layer + 1, "head": shown.head + 1}
    else:
        values["name"] = shown.name
    return _sentence(view, shown, bool(top), values, last)


def _looks(view: View, keys: Sequence[str], top: Sequence[KeyWeight]) -> str:
    return view.t("heads.and").join(
        view.t(
            "heads.look",
            weight=percent(key.weight),
            key=controls.quoted_at(view, keys, key.key),
        )
        for key in top
        if key is top[0] or key.weight >= 0.01
    )


def _sentence(view: View, shown: Shown, sees: bool, values: dict[str, object], last: int) -> str:
    if shown.site is None:
        return view.t("heads.reading_extra" if sees else "heads.nothing_extra", **values)
    if not sees:
        return view.t("heads.nothing", **values)
    after = predictions(view)
    if after is None or not after[last]:
        return view.t("heads.reading", **values)
    values["next"] = controls.quoted(view, after[last])
    given = _given(view, last)
    if given is not None and given != after[last]:
        return view.t("heads.reading_given", given=controls.quoted(view, given), **values)
    return view.t("heads.reading_next", **values)


def _given(view: View, row: int) -> str | None:
    """The next token of a given text, which may differ from the predicted one."""
    if not view.trace.config.generates or row + 1 >= int(view.trace.tgt_valid.sum()):
        return None
    return view.trace.tgt_str_tokens[row + 1]


def switch_off(choice: Opened) -> None:
    """The switch that ablates the current head."""
    view, shown = choice.view, choice.current
    if shown is None or shown.site is None or shown.head is None:
        return
    edit = HeadOff(shown.site.name, shown.head)
    off = edit in view.edits
    st.session_state["heads.off"] = off
    st.toggle(
        view.t("heads.off", layer=shown.site.layer + 1, head=shown.head + 1),
        key="heads.off",
        help=view.t("heads.off_help"),
        on_change=lambda: session.change(
            edits=tuple(each for each in view.edits if each != edit)
            if off
            else (*view.edits, edit),
            layer=view.layer,
            head=view.head,
        ),
    )


def difference(choice: Opened) -> None:
    """The difference of two heads shown side by side; nothing for another number of heads."""
    view, shown = choice.view, choice.shown
    if len(shown) != 2:
        return
    one, other = shown
    title = view.t("heads.difference", one=one.name, other=other.name)
    st.caption(title)
    site = view.site.name
    figure = heatmap.difference(
        one.pattern,
        other.pattern,
        view.trace.query_tokens(site),
        view.trace.key_tokens(site),
        mask_before=one.mask,
        mask_after=other.mask,
        selected=view.row,
        dark=view.dark,
        words={**view.words("figures.heatmap"), "before": one.name, "after": other.name},
        **controls.place_titles(view),
    )
    controls.chart(figure, "heads.difference", alt=title)
