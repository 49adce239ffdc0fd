"""The second sentence (suggested, typed, aligned), and the position compared in both runs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from explorer.analysis.patching.maps import What, by_head, by_place
from explorer.analysis.patching.pair import Pair, Places, pair
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.choices import RefusedError, joined, pairs
from explorer.exhibits.exhibit import OUTPUT
from explorer.exhibits.links import State
from explorer.exhibits.patching.choices import PatchingChoices
from explorer.exhibits.picking import pick_one
from explorer.exhibits.saying import message, quoted, quoted_at, reading_notes
from explorer.library import LoadedModel
from explorer.numbers import percent
from explorer.problems import InputProblem
from explorer.runs.inputs import given_tokens
from explorer.runs.passes import Steps
from explorer.runs.trace import Trace
from explorer.text import exchanges

MOST_TRIED = 40
"""Sentences that are tried before giving up."""

Groups = Mapping[str, Sequence[Sequence[str]]]


def other_text(
    loaded: LoadedModel, traced: Trace, groups: Groups, target: str | None = None
) -> Steps[str | None]:
    """The Trace's text with one word exchanged, such that it has the same number of tokens and the
    model answers it differently. None if no exchange does.

    `groups` are words that may replace each other; if they do not help, words of the text replace
    each other. The steps are attempts. Raises InputProblem `no_logits`.
    """
    first = len(given_tokens(loaded, traced.text))
    drawn = loaded.config.picture is not None
    texts = other_characters(traced.text) if drawn else exchanged(traced.text, groups)
    for done, text in enumerate(islice(texts, MOST_TRIED)):
        yield done, MOST_TRIED
        try:
            if len(given_tokens(loaded, text)) != first:
                continue
            both = pair(loaded, traced, text, target=target)
        except InputProblem as problem:
            if problem.key == "no_logits":
                raise
            continue
        if both.question.differs:
            return text
    return None


def exchanged(text: str, groups: Groups) -> Iterator[str]:
    """Texts with one word exchanged: by the groups, in their order, then by another word of the
    text itself. Capitalisation is preserved, and no text occurs twice."""
    seen = {text}
    for other in (*_by_group(text, groups), *_by_itself(text)):
        if other not in seen:
            seen.add(other)
            yield other


def other_characters(text: str) -> Iterator[str]:
    """Words to draw that differ in one character, the third one first, in the same face."""
    word, at, face = text.rpartition(" @") if " @" in text else (text, "", "")
    for index in sorted(range(len(word)), key=lambda at: abs(at - 2)):
        alike = "atnoeACHR" if word[index].isalpha() else "3578"
        for other in alike if word[index].isascii() else "天大人我好":
            if other.isupper() == word[index].isupper() and other != word[index]:
                yield f"{word[:index]}{other}{word[index + 1 :]}{at}{face}"


def _by_group(text: str, groups: Groups) -> Iterator[str]:
    for group in (group for groups in groups.values() for group in groups):
        wanted, others = group[0], group[1:]
        latin = wanted.isascii()
        pattern = rf"\b{re.escape(wanted)}\b" if latin else re.escape(wanted)
        spot = re.search(pattern, text, re.IGNORECASE)
        if spot is None:
            continue
        for other in others:
            begins = spot[0][0].isupper() and (wanted != "I" or spot.start() == 0)
            shown = other[0].upper() + other[1:] if begins else other
            yield text[: spot.start()] + shown + text[spot.end() :]


def _by_itself(text: str) -> Iterator[str]:
    """Every word replaced by every other, nearest first; characters in scripts without spaces, and
    the next letter of the alphabet if the words are letters."""
    blanks = " " in text.strip()
    words = text.split() if blanks else list(text)
    glue = " " if blanks else ""
    if words and all(len(word) == 1 and word.isascii() and word.isalpha() for word in words):
        for at in range(len(words) - 1, -1, -1):
            following = chr((ord(words[at].lower()) - ord("a") + 1) % 26 + ord("a"))
            yield glue.join([*words[:at], following, *words[at + 1 :]])
    for at in range(len(words)):
        for other in words:
            if other != words[at] and other.isalpha() and words[at].isalpha():
                yield glue.join([*words[:at], other, *words[at + 1 :]])


@dataclass(frozen=True, eq=False)
class Two:
    """The second sentence ("": none was found), and the two runs, the patched one second; or why
    they cannot be compared."""

    second: str
    pair: Pair | None = None
    problem: InputProblem | None = None

    @property
    def differ(self) -> Pair | None:
        """The two runs if there is an answer to recover."""
        return None if self.pair is None or self.pair.alike else self.pair


@cached
def offered(run: Run) -> Steps[str | None]:
    """A run's sentence with one word replaced, such that the answer changes. Cached because finding
    one takes up to MOST_TRIED runs, for each choice of `compute` alike. Raises InputProblem."""
    loaded, traced = cache.open_model(run.model), cache.trace(run)
    return (yield from other_text(loaded, traced, exchanges(), run.target))


def compute(
    run: Run,
    loaded: LoadedModel,
    trace: Trace,
    second: str,
    asked: int | None,
    align: Places | None,
    into: str,
) -> Steps[Two]:
    """The two runs side by side. Raises InputProblem if no sentence can be suggested."""
    second = second or (yield from offered.steps(run)) or ""
    if not second:
        return Two("")
    try:
        both = pair(loaded, trace, second, target=run.target, place=asked, by_hand=align)
    except InputProblem as problem:
        return Two(second, problem=problem)
    return Two(second, both.swapped() if into == "first" else both)


def show(compared: Two, view: View) -> b.Blocks:
    """Both sentences with their answers, and the controls that choose them."""
    yield b.Changes("patching.reset")
    both, second, chosen = compared.pair, compared.second, view.choices(PatchingChoices)
    if both is None:
        yield b.Row(_sentence(view, second))
        yield from _lacking(view, compared)
        return
    into = pick_one(view, "patching.into", ("second", "first"), chosen.into)
    now = what_of(view.loaded, both, chosen.what)
    more = b.More(said="patching.whats.", form="menu", width=240, help=view.t("patching.what_help"))
    whats = _whats(view.loaded, both)
    what = pick_one(view, "patching.what", whats, now, **more)
    picks = (*_sentence(view, second), _pick_question(view, both), into, what)
    yield b.Hero((b.Row(picks),))
    unknown = view.loaded.tokenizer.of("src").unknown(second)
    if notes := reading_notes(view, second, unknown):
        yield b.Note(notes)
    if now != chosen.what == "pattern":
        yield b.Note(view.t("patching.no_pattern"))
    yield b.Hero((b.Pane((b.Prose(_both_said(view, both, second)),), key="patching-two"),))
    yield from _alignment(view, both)
    if both.alike:
        answer = quoted(view, both.str_answers[0])
        yield b.Hint(view.t("patching.alike", answer=answer))


def _lacking(view: View, compared: Two) -> b.Blocks:
    """Why there is nothing to compare."""
    if compared.problem is None:
        yield b.Hint(view.t("patching.none_offered"))
        return
    yield b.Hint(message(compared.problem, view.lang), "info", warns=True)
    if view.choices(PatchingChoices).align is not None:
        yield _align_again(view)


def _sentence(view: View, second: str) -> tuple[b.TextBox | b.Button, ...]:
    """The control for the second sentence; a button returns from a typed one to the suggestion."""

    def change(text: str) -> b.Change:
        return b.choose(second=text if text.strip() else "", align=None, cell=None, asked=None)

    box = b.TextBox(
        "patching.second",
        view.t("patching.second"),
        second,
        change,
        display=b.Display(300, view.t("patching.second_help"), view.t("patching.second_hint")),
    )
    if not view.choices(PatchingChoices).second:
        return (box,)
    return box, b.Button("patching.offer", view.t("patching.offer"), change(""), kind="quiet")


def _both_said(view: View, both: Pair, second: str) -> str:
    """Both sentences, each with its answer and its probability."""
    answers, shares = both.str_answers, both.probabilities
    if _into(view) == "first":
        answers, shares = answers[::-1], shares[::-1]
    sentences = [
        view.t(
            f"patching.says_{key}",
            text=escape(text),
            answer=quoted(view, answer),
            share=percent(share),
        )
        for key, text, answer, share in zip(
            ("first", "second"), (view.trace.text, second), answers, shares, strict=True
        )
    ]
    return " · ".join(sentences)


def _into(view: View) -> str:
    return view.choices(PatchingChoices).into


def _pick_question(view: View, both: Pair) -> b.Pick:
    """The control for the compared position; positions where the runs differ are marked."""
    side = 1 if _into(view) == "first" else 0
    by_place = {question.places[side]: question for question in both.questions}

    def label(place: int) -> str:
        question = by_place[place]
        first, second = (_token(view, place, question.answers[at]) for at in (side, 1 - side))
        key = "patching.question_differs" if question.differs else "patching.question_alike"
        return view.t(key, place=place, first=first, second=second)

    more = b.More(said=label, form="menu", width=170, help=view.t("patching.question_help"))
    more["change"] = lambda place: b.choose(asked=place, cell=None)
    return pick_one(view, "patching.question", [*by_place], both.question.places[side], **more)


def _token(view: View, place: int, token: int) -> str:
    return view.loaded.str_tokens((view.trace.tgt_tokens[place], token))[-1]


def what_of(loaded: LoadedModel, both: Pair, chosen: str) -> What:
    """The kind of activation that is patched: the chosen one, if these two runs have it."""
    return next((what for what in _whats(loaded, both) if what == chosen), "resid")


def _whats(loaded: LoadedModel, both: Pair) -> tuple[What, ...]:
    return *by_place(loaded.stacks), *by_head(both)


def _alignment(view: View, both: Pair) -> b.Blocks:
    """For sentences of different length: shows and edits the token alignment."""
    stream = view.loaded.model.reads[0]
    tokens, places = both.str_tokens[stream], both.places[stream]
    if _into(view) == "first":
        tokens, places = tokens[::-1], tuple(sorted((b, a) for a, b in places))
    chosen = view.choices(PatchingChoices).align
    exchanged = sum(tokens[0][a] != tokens[1][b] for a, b in places)
    if both.same_length and chosen is None and exchanged <= 1:
        return  # the alignment is obvious
    if not both.same_length:
        yield b.Note(_unequal(view, tokens, places))
    pieces = (f"{a}–{b} {escape(tokens[0][a])} – {escape(tokens[1][b])}" for a, b in places)
    box = b.TextBox(
        "patching.align",
        view.t("patching.align"),
        joined(places).replace("_", " "),
        lambda text: b.Change(lambda state: _aligned(text, state)),
        display=b.Display(help=view.t("patching.align_help")),
    )
    again = () if chosen is None else (_align_again(view),)
    yield b.Fold(view.t("patching.align_title"), (b.Prose(" · ".join(pieces)), box, *again))


def _unequal(view: View, tokens: tuple[tuple[str, ...], ...], places: Places) -> str:
    """How many positions are compared, and which ones of the second sentence are not."""
    there = {b for _, b in places}
    alone = [quoted_at(view, tokens[1], at) for at in range(len(tokens[1])) if at not in there]
    return view.t(
        "patching.unequal",
        first=len(tokens[0]),
        second=len(tokens[1]),
        count=len(places),
        alone=", ".join(alone) or view.t("patching.none_alone"),
    )


def _aligned(text: str, state: State) -> Mapping[str, Any]:
    try:
        return {"align": pairs("_".join(text.split())) if text.strip() else None}
    except RefusedError:  # the box shows the current value again
        return {}


def _align_again(view: View) -> b.Button:
    return b.Button("patching.align_again", view.t("patching.align_again"), b.choose(align=None))


EXHIBIT = Exhibit(
    compute,
    show,
    needs=OUTPUT,
    wait=Wait(
        "patching.looking",
        blocks=lambda view: _sentence(view, view.choices(PatchingChoices).second),
    ),
)
