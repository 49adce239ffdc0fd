"""Small tables, as Markdown. On a narrow screen they scroll in their own place (page.css)."""

from collections.abc import Iterable, Sequence

import streamlit as st

_RULES = {"l": ":--", "r": "--:"}


def table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> None:
    """Draw `rows` of Markdown under `head`.

    `align` has "l" or "r" for each column; without it the first column is aligned left and all
    others, usually numbers, right.
    """
    rules = [_RULES[side] for side in align or "l" + "r" * (len(head) - 1)]
    lines = (head, rules, *rows)
    st.markdown("\n".join("| " + " | ".join(line) + " |" for line in lines))
