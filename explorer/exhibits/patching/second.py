"""The second sentence (suggested, typed, aligned), and the position compared in both runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from explorer.analysis.patching.maps import What, by_head, by_place
from explorer.analysis.patching.pair import Pair, Places, pair
from explorer.engine.cache import Run
from explorer.engine.runs import offered
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
from explorer.runs.passes import Steps
from explorer.runs.trace import Trace


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
    into = pick_one(view, "patching.into", ("second", "first"), chosen.into, said="patching.runs")
    now = what_of(view.loaded, both, chosen.what)
    more = b.More(said="patching.whats", form="menu", width=240, help=view.t("patching.what_help"))
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
        view.t(key, text=escape(text), answer=quoted(view, answer), share=percent(share))
        for key, text, answer, share in zip(
            ("patching.says_first", "patching.says_second"),
            (view.trace.text, second),
            answers,
            shares,
            strict=True,
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
