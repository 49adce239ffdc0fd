"""Card: facts about the open model from its files, and its author's description."""

from collections.abc import Iterator

import streamlit as st

from explorer.analysis.card.facts import ModelFacts
from explorer.analysis.card.words import MOST_CHARS, CardWords, card_words
from explorer.components.standalone import Text, record
from explorer.exhibits.escape import escape, plain
from explorer.exhibits.view import View
from explorer.library import split_step
from explorer.pages.card import cached
from explorer.ui import controls, session
from explorer.ui.markdown import has_more, sections
from explorer.ui.share import shared
from explorer.ui.tables import table

_BELOW = 2  # levels by which the card's headings are moved down


def render(view: View) -> None:
    """Draw the page."""
    controls.opening(view, "card")
    with shared(view, "card"):
        _drawn(view)


def _drawn(view: View) -> None:
    """Draw the page below its introduction."""
    # Pages that run alone, as in tests, have no menu.
    if "models" in session.page_names() and st.button(
        view.t("sidebar.models"), key="card.models", type="tertiary", icon=":material/folder_open:"
    ):
        session.visit("models")
    words = card_words(view.loaded.folder, view.lang)
    st.subheader(view.t("card.facts"), anchor=False)
    facts = cached.facts(view.loaded.name)
    rows = [
        (view.t(f"card.{name}"), said)
        for name, said in (*_sizes(view, facts), *_design(view), *_files(view, facts, words))
    ]
    table((view.t("card.property"), view.t("card.value")), rows, align="ll")
    for row in rows:
        record(Text(plain(": ".join(row)), is_reading=True))
    _written(view, words)


def _sizes(view: View, facts: ModelFacts) -> Iterator[tuple[str, str]]:
    config = view.loaded.config
    name, step = split_step(view.loaded.name)
    yield "name", f"{_code(name)}"
    if step is not None:
        yield "snapshot", view.t("sidebar.moment_step", step=step)
    yield "kind", view.t(f"card.kinds.{facts.kind}")
    layers = (view.t(f"card.layers_{role}", count=n) for role, n in facts.layers.items())
    yield "layers", " · ".join(layers)
    shared = "heads_shared" if config.kv_heads < config.n_heads else "heads_own"
    heads = {"heads": config.n_heads, "kv_heads": config.kv_heads, "features": config.d_head}
    yield "heads", view.t(f"card.{shared}", **heads)
    yield "width", f"{config.d_model:,}"
    yield "parameters", f"{facts.parameters:,}"
    said = [view.t("card.tokens", count=f"{config.vocab_size:,}")]
    for lang, count in facts.written_in.items():
        said.append(view.t(f"card.tokens_{lang}", count=f"{count:,}"))
    if facts.without_piece:
        said.append(view.t("card.without_piece", count=f"{facts.without_piece:,}"))
    yield "vocabulary", " · ".join(said)


def _design(view: View) -> Iterator[tuple[str, str]]:
    config = view.loaded.config
    limit = f"{config.n_ctx:,}"
    yield "length", view.t("card.tokens", count=limit)
    kind = f"positions.model_{config.positions}"
    yield "positions", view.t(kind, width=config.d_model, limit=limit)
    last = "with_last" if config.final_norm else "without_last"
    placement = view.t(f"swaps.options.placement_{config.norm_placement}")
    norm = view.t(f"blocks.{config.norm}")
    yield "norm", " · ".join((norm, escape(placement), view.t(f"card.{last}")))
    ffn = view.t(f"blocks.ffn_{config.ffn}")
    yield "ffn", f"{ffn} · {view.t('card.wide', width=f'{config.d_ff:,}')}"
    tied = "output_tied" if config.tie_embeddings else "output_own"
    yield "output", view.t(f"card.{tied}" if config.lm_head else "card.output_none")


def _files(view: View, facts: ModelFacts, words: CardWords) -> Iterator[tuple[str, str]]:
    marks = (
        f"{view.t(f'card.marks.{name}')} {_code(token)}" for name, token in facts.marks.items()
    )
    yield "marks_row", " · ".join(marks) or view.t("card.no_marks")
    size = f"{facts.bytes_stored / 1e6:,.1f}"
    yield "stored", view.t("card.megabytes", size=size, dtypes=", ".join(facts.dtypes))
    if view.loaded.not_shown:
        yield "not_shown", " · ".join(map(_code, view.loaded.not_shown))
    if words.languages:
        yield "languages", escape(" · ".join(words.languages))
    if words.licence:
        yield "licence", escape(words.licence)


def _written(view: View, words: CardWords) -> None:
    if not words.markdown.strip():
        st.info(view.t("card.none"), icon=":material/info:")
        return
    if words.lang not in (None, view.lang):
        st.info(view.t(f"card.only_{words.lang}"), icon=":material/translate:")
    with st.container(border=True, key="card"):
        before, rest = sections(words.markdown, _BELOW)
        st.markdown(before)
        for title, text in rest:
            with st.expander(title):
                st.markdown(text)
    if words.is_cut:
        st.caption(view.t("card.cut", count=f"{MOST_CHARS:,}"))
    if has_more(words.markdown):
        st.caption(view.t("card.left_out"))


def _code(text: str) -> str:
    """A name as inline code; with a backtick in it, as plain text."""
    return escape(text) if "`" in text or "|" in text else f"`{text}`"
