"""Exports of the Alignment page: the links of this pair as a Moses line, JSON and CSV."""

from collections.abc import Callable

import streamlit as st

from explorer.analysis.alignment.aligned import Alignment
from explorer.exhibits.view import View
from explorer.exports.alignments import to_csv, to_json, to_moses
from explorer.pages.alignment import cached
from explorer.pages.alignment.opened import Opened, back_of
from explorer.pages.alignment.words import pair_of
from explorer.ui.share import file_name

FILES: tuple[tuple[str, str, str, Callable[[list[Alignment]], str]], ...] = (
    ("Moses", "txt", "text/plain", to_moses),
    ("JSON", "json", "application/json", to_json),
    ("CSV", "csv", "text/csv", to_csv),
)


def take_away(view: View) -> None:
    """Download the links of the open sentence, once the heads are ranked."""
    back, model = back_of(view), view.loaded.name
    if not view.sites_of("cross") or not cached.study.is_kept(model, back):
        return
    pair = pair_of(view)
    if pair is None or not cached.readings.is_kept(model, back, pair):
        return
    opened = Opened(view, back, cached.study(model, back))
    found = opened.align(cached.readings(model, back, pair))
    st.caption(view.t("alignment.take"))
    st.code(found.moses, language=None, wrap_lines=True)
    downloads(view, [found], "alignment")


def downloads(view: View, found: list[Alignment], page: str) -> None:
    """A download button for each file format."""
    with st.container(horizontal=True):
        for kind, ending, mime, write in FILES:
            st.download_button(
                kind,
                write(found).encode("utf-8-sig" if ending == "csv" else "utf-8"),
                file_name(view, page, ending),
                mime,
                key=f"{page}.take.{ending}",
                on_click="ignore",
            )
