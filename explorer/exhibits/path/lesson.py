"""One step as shown to a learner: text, a live picture, a question, and the explanation."""

from dataclasses import replace
from typing import Any

from explorer import text
from explorer.engine import cache
from explorer.exhibits import block as b
from explorer.exhibits.escape import escape, plain
from explorer.exhibits.links import State
from explorer.exhibits.path.asked import PosedStep, Question, Step
from explorer.exhibits.path.choices import PathChoices, StepAnswer
from explorer.exhibits.path.course import title_of
from explorer.exhibits.path.found import Missing
from explorer.exhibits.view import View, default_model, first_sentence

RIGHT, WRONG, OPEN = "check_circle", "cancel", "circle"


def lead(view: View, step: str) -> str:
    """The introduction of a step, with the model's sizes filled in."""
    config = view.loaded.config
    sizes = {"heads": config.n_heads, "d_head": config.d_head, "d_model": config.d_model}
    width = config.n_heads * config.d_head
    return view.t(f"path.steps.{step}.lead", divisor=view.divisor, width=width, **sizes)


def answer_to(view: View, step: Step, question: Question) -> StepAnswer | None:
    """The answer to this question, if valid; a link is untrusted."""
    given = view.choices(PathChoices).answered(step.id)
    if given is None or given.mark != question.mark or given.option >= len(question.options):
        return None
    return replace(given, right=given.option == question.right)


def lesson(view: View, step: Step, posed: PosedStep | Missing) -> b.Blocks:
    """The blocks of a step."""
    yield b.Title(title_of(view, step.id), large=True)
    if isinstance(posed, Missing):
        yield b.Prose(lead(view, step.id))
        yield from _elsewhere(view, step, posed)
        return
    given = answer_to(view, step, posed.question)
    right = [b.Prose(lead(view, step.id)), *_ask(view, step, posed, given)]
    yield b.Columns((tuple(posed.picture(given is not None)), right), widths=(3, 2))


def _ask(view: View, step: Step, posed: PosedStep, given: StepAnswer | None) -> b.Blocks:
    """The question; after the answer also the right option and the explanation."""
    words, question = f"path.steps.{step.id}", posed.question
    said, made = view.t(f"{words}.ask", **posed.values), view.choices(PathChoices)
    yield b.Prose(f"**{said}**")
    if given is None:
        yield b.Pick(
            f"path.ask.{step.id}.{question.mark}",
            plain(said),
            range(len(question.options)),
            None,
            question.options.__getitem__,
            change=lambda option: b.Change(lambda state: _taken(state, step, question, option)),
            listed=True,
            quiet=True,
        )
        is_new = made.answered(step.id) is None
        yield b.Note(view.t("path.waiting" if is_new else "path.asked_before"))
        return
    icons = {given.option: WRONG, question.right: RIGHT}
    lines = [f"{icon(icons.get(at, OPEN))} {each}" for at, each in enumerate(question.options)]
    yield b.Pane((b.Prose("  \n".join(lines)),), key="path-options")
    if made.answered(given.step) != given:
        yield b.Remember(b.choose(answers=made.with_answer(given)))
    verdict, sign = ("path.right", RIGHT) if given.right else ("path.wrong", WRONG)
    yield b.Sentence("path", f"{icon(sign)} {view.t(verdict, answer=question.answer)}")
    yield b.Prose(view.t(f"{words}.{posed.told}", **posed.values))


def icon(name: str) -> str:
    """A Material icon in Markdown."""
    return f":material/{name}:"


def _taken(state: State, step: Step, question: Question, option: int | None) -> dict[str, Any]:
    """The choices after an answer: the first answer to a question counts."""
    if option is None:
        return {}
    answer = StepAnswer(step.id, option, option == question.right, question.mark)
    return {"answers": state.of(PathChoices).with_answer(answer)}


def _elsewhere(view: View, step: Step, found: Missing) -> b.Blocks:
    """Why this run does not show the lesson, with a button that opens one that does."""
    yield b.Hint(view.t(f"path.missing.{found.why}"))
    model, sentence = where_it_shows(step, view.lang)
    if model not in cache.models() or (model, sentence) == (view.loaded.name, view.text):
        return
    name = text.model_name(model, lang=view.lang)
    chosen: dict[str, Any] = {"text": sentence, "target": None, "edits": (), "pads": None}
    yield b.Button(
        f"path.there.{step.id}",
        view.t("path.try_there", text=escape(sentence), model=name),
        b.choose(elsewhere=True, model=model, lesson=step.id, **chosen),
        icon="arrow_forward",
    )


def where_it_shows(step: Step, lang: str) -> tuple[str, str]:
    """A model for this language and a sentence that shows the step."""
    model = default_model(cache.models(), lang)
    known = text.telling(step.telling, model) if step.telling else None
    return model, known or first_sentence(model)
