"""Exports of the Heads page: the shown heads as SVG and CSV, the run, the code."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import streamlit as st

from explorer import library
from explorer.exhibits.heads.opened import Opened, Shown
from explorer.exhibits.saying import model_title
from explorer.exhibits.view import View
from explorer.exports.archive import to_csv, to_npz, to_rows
from explorer.exports.page import axes_of
from explorer.exports.picture import difference_svg, site_svg
from explorer.exports.snippet import snippet
from explorer.library import LoadedModel
from explorer.pages.heads.pair import ViewPair
from explorer.pages.heads.versus import OpenHeads, open_heads
from explorer.text import UPLOADED
from explorer.ui.share import file_name


def take_away(choice: Opened, pair: ViewPair | None) -> None:
    """The page's own exports: pictures, numbers, code."""
    view = choice.view
    if choice.shown:
        st.caption(view.t("take.picture"))
        _pictures(choice)
    if pair is not None:
        _of_both(choice, pair)
    st.caption(view.t("take.trace"))
    _download(view, "npz", lambda: to_npz(view.trace), "application/octet-stream")
    code = _code(choice)
    if code:
        st.caption(view.t("take.code"))
        st.code(code, language="python")


def _of_both(choice: Opened, pair: ViewPair) -> None:
    """Exports for two models: the difference of the open heads, and of all heads."""
    view, page = pair.view, "heads-versus"
    opened = open_heads(choice, pair)
    if opened is not None:
        st.caption(view.t("take.difference"))
        picture = partial(difference, pair, opened)
        _download(view, "svg", lambda: picture().encode(), "image/svg+xml", page=page)
    if pair.compared is not None and pair.compared.by_number:
        st.caption(view.t("take.versus"))
        _download(view, "csv", lambda: differences(pair), "text/csv", page=page)


def difference(pair: ViewPair, opened: OpenHeads) -> str:
    """The difference of the two open heads, as an SVG."""
    view, found = pair.view, pair.compared
    assert found is not None
    own = axes_of(view.trace, view.site, view.lang)
    one, other = (model_title(view, each.loaded.name) for each in (view, pair.other))
    places = opened.places
    return difference_svg(
        opened.one,
        opened.other,
        (opened.one > 0) | (opened.other > 0),
        replace(own, query_tokens=found.queries.labels, key_tokens=opened.keys),
        title=view.t("versus.difference", one=one, other=other, **places),
        name="L{their_layer}·H{their_head} − L{layer}·H{head}".format_map(places),
        words=view.words("export"),
    )


def _pictures(choice: Opened) -> None:
    view = choice.view
    current = choice.current or choice.shown[-1]
    site = view.site.name
    with st.container(horizontal=True):
        _download(view, "svg", lambda: _svg(choice).encode(), "image/svg+xml")
        _download(
            view,
            "csv",
            lambda: to_csv(
                current.pattern,
                current.mask,
                view.trace.query_tokens(site),
                view.trace.key_tokens(site),
            ).encode("utf-8-sig"),
            "text/csv",
            note=current.name,
        )


def differences(pair: ViewPair) -> bytes:
    """The differences of heads with the same index, in bits, the largest first, as a CSV."""
    view, found = pair.view, pair.compared
    assert found is not None
    assert found.difference is not None
    names = (view.t("place.layer"), view.t("place.head"), view.t("heads.measures.differs"))
    rows = [(at[0] + 1, at[1] + 1, f"{found.difference[at]:.6g}") for at in found.ranked()]
    return to_rows(names, rows).encode("utf-8-sig")


def _download(
    view: View,
    kind: str,
    make: Callable[[], bytes],
    mime: str,
    note: str = "",
    page: str = "heads",
) -> None:
    """A download button whose file is made on click."""
    label = view.t(f"take.{kind}") + (f" · {note}" if note else "")
    name = file_name(view, page, kind)
    st.download_button(label, make, name, mime, key=f"{page}.take.{kind}", on_click="ignore")


def _svg(choice: Opened) -> str:
    view, shown = choice.view, choice.shown
    return site_svg(
        choice.stacked(shown, "pattern"),
        choice.stacked(shown, "mask"),
        axes_of(view.trace, view.site, view.lang),
        title=view.t(f"kinds.{choice.kind}"),
        names=[each.name for each in shown],
        words=view.words("export"),
    )


def _code(choice: Opened) -> str | None:
    """Python code that computes the open head or aggregate; None if no single function does."""
    shown: Shown | None = choice.current
    view = choice.view
    lines = partial(snippet, view.trace, target=view.target, folder=folder_of(view.loaded))
    if shown is None:
        return None
    if shown.site is not None and shown.head is not None:
        return lines(shown.site.name, shown.head)
    if shown.aggregate is None or shown.aggregate.layer is not None:
        return None
    last = choice.sites[-1].name
    if shown.aggregate.name == "rollout":
        return lines(last, 0, view="rollout")
    return lines(last, 0, view="flow")


def folder_of(loaded: LoadedModel) -> Path | None:
    """The model folder for the exported code; None for a shipped model, which is found by name.

    For uploads, whose folder no longer exists, and for models of a server, whose paths are private,
    only the folder's name is given.
    """
    folder = loaded.folder.absolute()
    if folder.is_relative_to(library.CHECKPOINTS.absolute()):
        return None
    local = st.get_option("server.address") in ("localhost", "127.0.0.1", "::1")
    is_there = local and loaded.was_stored is None
    return folder if is_there else Path(UPLOADED.sub("", loaded.folder.name))
