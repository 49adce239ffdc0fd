"""Glossary: every term of the app with its definition, and the page that shows it."""

import streamlit as st

from explorer import glossary, text
from explorer.exhibits.block import escape
from explorer.ui import session

NAME = "glossary"


def render() -> None:
    """Draw the page below its title; needs no model."""
    lang = session.state().lang
    st.markdown(text.t("glossary.lead", lang=lang))
    wanted = st.text_input(text.t("glossary.find", lang=lang), key="glossary.find").casefold()
    terms = [
        term
        for term in sorted(glossary.terms(lang), key=lambda term: term.name.casefold())
        if wanted in f"{term.name} {term.means}".casefold()
    ]
    if not terms:
        st.info(text.t("glossary.none", lang=lang))
    for term in terms:
        _entry(term, lang)


def _entry(term: glossary.Term, lang: str) -> None:
    meaning, way = st.columns([4, 1], vertical_alignment="center")
    meaning.markdown(f"**{term.name}** · {escape(term.means)}")
    with way:
        # Pages that run alone, as in tests, have no menu.
        if term.page in session.pages() and st.button(
            text.t(term.page, "title", lang=lang),
            key=f"glossary.{term.name}",
            type="tertiary",
            icon=":material/arrow_forward:",
        ):
            session.visit(term.page)
