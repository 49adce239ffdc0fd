"""Small tables, as Markdown. On a narrow screen each table scrolls (page.css)."""

from collections.abc import Iterable, Sequence

import streamlit as st

_RULES = {"l": ":--", "r": "--:"}


def table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> None:
    """Draw `rows` of Markdown under `head`.

    `align` has "l" or "r" for each column. By default the first column is left-aligned and all
    others, usually numbers, right-aligned.
    """
    rules = [_RULES[side] for side in align or "l" + "r" * (len(head) - 1)]
    lines = (head, rules, *rows)
    st.markdown("\n".join("| " + " | ".join(line) + " |" for line in lines))
