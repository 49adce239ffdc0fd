"""The Code panel: the functions that computed a picture, each linked to the functions it calls."""

from collections.abc import Sequence

import streamlit as st

from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.ui.code.source import SourceCode, lines_of


def code_panel(view: View, code: Sequence[object]) -> None:
    """Show the source of `code` (see `source.lines_of`), the first function open."""
    st.caption(view.t("more.code_note"))
    for at, lines in enumerate(lines_of(code, (view.loaded, view.loaded.model))):
        with st.expander(_title(lines), expanded=at == 0):
            _show(view, lines)
            if lines.calls:
                st.caption(view.t("more.calls"))
            for called in lines.calls:
                with st.expander(_title(called)):
                    _show(view, called)


def _title(lines: SourceCode) -> str:
    path = f"{lines.module.replace('.', '/')}.py"
    return f"**{escape(lines.name)}** :gray[{escape(path)}]"


def _show(view: View, lines: SourceCode) -> None:
    if lines.faster:
        st.caption(view.t("more.faster", name=lines.faster))
    st.code(lines.text.rstrip(), language="python")
