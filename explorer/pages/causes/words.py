"""The two words to compare: the predicted one and the runner-up, or the user's choice."""

import numpy as np
import streamlit as st

from explorer.analysis.causes.writes import next_word, runner_up
from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.figures.theme import show
from explorer.library import LoadedModel
from explorer.numbers import percent
from explorer.pages.causes.choices import CausesChoices
from explorer.ui import controls, session

N_OFFERED = 12
NONE = -1
"""List entry for no word."""
REFUSED = "causes.refused"


def pick_position(view: View) -> int:
    """The control for the position of the prediction: the query's, if the head has one there."""
    trace = view.trace
    now, field = position_of(view)
    n_real = int(trace.tgt_valid.sum())
    with st.container(width=220):
        controls.pick(
            view.t("causes.position"),
            range(n_real),
            now,
            "causes.position",
            lambda place: session.change(**{field: place}, word=None, rival=None),
            format_func=lambda place: (
                f"{place} {show(trace.tgt_str_tokens[place])} → "
                f"{token_name(view.loaded, next_word(trace, place))}"
            ),
        )
    return now


def position_of(view: View) -> tuple[int, str]:
    """The selected position in the logits, and the field of the state that stores it."""
    field = "row" if view.site.query_stream == "tgt" else "step"
    last = int(view.trace.tgt_valid.sum()) - 1
    return min(view.row if field == "row" else view.step, last), field


def token_name(loaded: LoadedModel, token: int) -> str:
    """The displayed text of a single token."""
    return loaded.str_tokens([token])[0]


def pick_words(view: View, position: int) -> tuple[int, int | None]:
    """The controls for the word and for the word to compare with (None: no comparison)."""
    made, trace = view.choices(CausesChoices), view.trace
    size = view.loaded.config.vocab_size
    written = next_word(trace, position)
    word = written if made.word is None or made.word >= size else made.word
    second = runner_up(trace, position, word)
    rival = second if made.rival in (None, word) or made.rival >= size else made.rival
    logits = trace.logits[position].astype(np.float64)
    chances = np.exp(logits - np.logaddexp.reduce(logits))
    best = np.argsort(-logits, kind="stable")[:N_OFFERED].tolist()
    _pick(view, "word", word, [*best, written, word], chances)
    others = [token for token in (*best, rival) if token != word]
    _pick(view, "rival", NONE if made.alone else rival, [NONE, *others], chances)
    refused = st.session_state.pop(REFUSED, None)
    if refused is not None:
        st.warning(refused)
    if word != written:
        st.caption(
            view.t(
                "causes.not_written",
                word=controls.quoted(view, token_name(view.loaded, word)),
                written=controls.quoted(view, token_name(view.loaded, written)),
            )
        )
    return word, None if made.alone else int(rival)


def _pick(view: View, field: str, now: int, options: list[int], chances: np.ndarray) -> None:
    """One of the two words: among the most probable ones, or typed."""
    labels: dict[str, int] = {}
    for token in dict.fromkeys(options):
        label = view.t("causes.rival_none")
        if token != NONE:
            label = f"{token_name(view.loaded, token)} · {percent(float(chances[token]))}"
        labels[label if label not in labels else f"{label} ({token})"] = token
    key = f"causes.{field}"
    st.session_state[key] = next(label for label, token in labels.items() if token == now)
    with st.container(width=220):
        st.selectbox(
            view.t(f"causes.{field}"),
            list(labels),
            key=key,
            accept_new_options=True,
            on_change=lambda: _chosen(view, field, labels, st.session_state[key]),
        )


def _chosen(view: View, field: str, labels: dict[str, int], said: str | None) -> None:
    """Store the picked or typed word, or an error message."""
    token = labels.get(said) if said else None
    if said and token is None:
        found = token_of(view.loaded, said)
        if isinstance(found, list):
            shown = " ".join(controls.quoted(view, piece) for piece in found)
            key = "causes.several" if found else "causes.unknown"
            st.session_state[REFUSED] = view.t(key, word=escape(said[:40]), tokens=shown)
            return
        token = found
    if token is None:
        return
    if field == "rival":
        session.change(alone=token == NONE, rival=None if token == NONE else token)
    else:
        session.change(word=token)


def token_of(loaded: LoadedModel, word: str) -> int | list[str]:
    """The token of a typed word; else the pieces it is split into, empty if unknown."""
    tokenizer = loaded.tokenizer
    output = "src" in loaded.model.reads
    pieces = [tokenizer.encoded(each, output) for each in (word.strip(), f" {word.strip()}")]
    for tokens in pieces:
        if len(tokens) == 1 and tokens[0] != loaded.marks.unknown:
            return int(tokens[0])
    known = [token for token in pieces[0] if token != loaded.marks.unknown]
    return loaded.str_tokens(known) if len(known) > 1 else []
