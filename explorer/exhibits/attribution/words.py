"""The two words to compare: the predicted one and the runner-up, or the user's choice."""

from typing import Any

import numpy as np

from explorer.analysis.attribution.writes import next_word, runner_up
from explorer.exhibits import View, block as b
from explorer.exhibits.attribution.choices import AttributionChoices
from explorer.exhibits.block import escape
from explorer.figures.theme import show
from explorer.library import LoadedModel
from explorer.numbers import percent
from explorer.numerics import softmax

N_OFFERED = 12
NONE = -1
"""List entry for no word."""


def pick_position(view: View) -> b.Pick:
    """The control for the position of the prediction: the query's, if the head has one there."""
    trace = view.trace
    now, field = position_of(view)

    def words(place: int) -> str:
        follows = token_name(view.loaded, next_word(trace, place))
        return f"{place} {show(trace.tgt_str_tokens[place])} → {follows}"

    def change(place: int) -> b.Change:
        choices: dict[str, Any] = {field: place, "word": None, "rival": None}
        return b.choose(**choices)

    key = "attribution.position"
    places = {place: words(place) for place in range(int(trace.tgt_valid.sum()))}
    return b.Pick(key, view.t(key), places, now, change, "menu", b.Display(220))


def position_of(view: View) -> tuple[int, str]:
    """The selected position in the logits, and the field of the state that stores it."""
    field = "row" if view.site.query_stream == "tgt" else "step"
    last = int(view.trace.tgt_valid.sum()) - 1
    return min(view.row if field == "row" else view.step, last), field


def token_name(loaded: LoadedModel, token: int) -> str:
    """The displayed text of a single token."""
    return loaded.str_tokens([token])[0]


def words_of(view: View) -> tuple[int, int]:
    """The word, and the one to compare with (the same: no comparison)."""
    chosen, size = view.choices(AttributionChoices), view.loaded.config.vocab_size
    position, word, rival = position_of(view)[0], chosen.word, chosen.rival
    if word is None or word >= size:
        word = next_word(view.trace, position)
    if chosen.alone:
        return word, word
    if rival is None or rival == word or rival >= size:
        rival = runner_up(view.trace, position, word)
    return word, rival


def pick_words(view: View) -> tuple[b.Pick, b.Pick]:
    """The controls for both words."""
    trace, position = view.trace, position_of(view)[0]
    (word, rival), written = words_of(view), next_word(trace, position)
    logits = trace.logits[position]
    chances = softmax(logits)
    best = np.argsort(-logits, kind="stable")[:N_OFFERED].tolist()
    second = runner_up(trace, position, word) if rival == word else rival
    others = [NONE, *(token for token in (*best, second) if token != word)]
    return (
        _pick(view, "attribution.word", word, [*best, written, word], chances),
        _pick(view, "attribution.rival", NONE if rival == word else rival, others, chances),
    )


def notes(view: View) -> b.Blocks:
    """A refused word."""
    typed = view.choices(AttributionChoices).typed
    encoding = token_of(view.loaded, typed) if typed else 0
    if isinstance(encoding, list):
        key = "attribution.several" if encoding else "attribution.unknown"
        yield b.Hint(view.t(key, word=escape(typed)), "info", warns=True)
        yield b.Remember(b.choose(typed=""))


def _pick(view: View, key: str, now: int, options: list[int], chances: np.ndarray) -> b.Pick:
    """One of the two words: among the most probable ones, or typed."""
    labels: dict[str, int] = {}
    for token in dict.fromkeys(options):
        label = view.t("attribution.rival_none")
        if token != NONE:
            label = f"{token_name(view.loaded, token)} · {percent(float(chances[token]))}"
        labels[label if label not in labels else f"{label} ({token})"] = token

    def change(said: str | None) -> b.Change:
        token = labels.get(said or "", token_of(view.loaded, said) if said else [])
        if isinstance(token, list):
            return b.choose(typed=(said or "")[:40])
        if key == "attribution.word":
            return b.choose(word=token)
        return b.choose(alone=token == NONE, rival=None if token == NONE else token)

    shown = next(label for label, token in labels.items() if token == now)
    named = {label: label for label in labels}
    return b.Pick(key, view.t(key), named, shown, change, "open", b.Display(220))


def token_of(loaded: LoadedModel, word: str) -> int | list[str]:
    """The token of a typed word; else the pieces it is split into, empty if unknown."""
    encoded = loaded.tokenizer.of("tgt").encoded
    pieces = [encoded(form) for form in (word.strip(), f" {word.strip()}")]
    for tokens in pieces:
        if len(tokens) == 1 and tokens[0] != loaded.marks.unknown:
            return int(tokens[0])
    known = [token for token in pieces[0] if token != loaded.marks.unknown]
    return loaded.str_tokens(known) if len(known) > 1 else []
