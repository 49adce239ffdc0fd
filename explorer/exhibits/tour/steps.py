"""The open step of the tour, with the controls that lead to the others."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from explorer import text
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.block import escape, plain
from explorer.exhibits.picking import pick_one
from explorer.exhibits.saying import in_a_row
from explorer.exhibits.tour import course
from explorer.exhibits.tour.choices import CHAPTERS, StepAnswer, TourChoices
from explorer.exhibits.tour.contents import ICONS
from explorer.exhibits.tour.course import open_step
from explorer.exhibits.tour.posed import Missing, PosedStep, Question, Step, found_by
from explorer.exhibits.view import default_model, first_sentence

SIGNS = {True: " ✓", False: " ✗", None: ""}


def compute(run: Run, lang: str, lesson: str, sheet: tuple[str, ...]) -> PosedStep | Missing:
    """What the open step asks about a run, or `Missing`. Raises InputProblem."""
    return found_by(run, lang, course.STEPS[course.opened(lesson, sheet)])


def show(posed: PosedStep | Missing, view: View) -> b.Blocks:
    """The step, and the way to others."""
    yield from course.heading(view)
    tour = view.choices(TourChoices)
    step = course.STEPS[course.opened(tour.lesson, tour.sheet)]
    inside = named = course.steps_of(tour.sheet)
    if not tour.sheet:
        chapter = course.chapter_of(step.id)
        first = {name: next(iter(part["steps"])) for name, part in CHAPTERS.items()}
        more = b.More(change=lambda name: open_step(first[name]), quiet=True)
        yield pick_one(view, "tour.chapter", tuple(first), chapter, said="tour.groups", **more)
        inside = tuple(CHAPTERS[chapter]["steps"])

    right = {answer.step: answer.right for answer in tour.answers}

    def label(name: str) -> str:
        return course.number_of(name) + SIGNS[right.get(name)]

    more = b.More(said=label, change=open_step, quiet=True)
    yield pick_one(view, "tour.step", inside, step.id, **more)
    yield b.SentenceLine()
    yield b.Hero(tuple(_lesson(view, step, posed)))
    yield b.Row(tuple(_onward(view, step, named, posed)), align="center")
    yield b.Formula((step.formula,))
    yield b.Code((step.find,))
    yield b.Numbers(lambda: _numbers(view, step, posed))


def _onward(
    view: View, step: Step, named: Sequence[str], posed: PosedStep | Missing
) -> Iterator[b.Button]:
    """Buttons for the previous and next step, and for the pages for further exploration."""
    at, chapter = named.index(step.id), course.chapter_of(step.id)
    before = open_step(named[max(0, at - 1)])
    yield b.Button("tour.back", view.t("tour.back"), before, icon="arrow_back", disabled=at == 0)
    word, icon, following = "tour.finish", "flag", b.choose(part="results")
    if at + 1 < len(named):
        word, icon, following = "tour.next", "arrow_forward", open_step(named[at + 1])
    yield b.Button("tour.next", view.t(word), following, icon=icon)
    label = view.t("tour.alone", page=view.t(step.page, "title"))
    away = b.choose(visit=step.page, **place_of(posed))
    yield b.Button("tour.alone", label, away, icon="explore", kind="quiet")
    if step.id == [*CHAPTERS[chapter]["steps"]][-1]:
        task = course.ENTRIES[f"task_{CHAPTERS[chapter]['task']}"].opens
        yield b.Button(
            "tour.write", view.t("tour.write_it"), task, icon="construction", kind="quiet"
        )


def place_of(posed: PosedStep | Missing) -> dict[str, Any]:
    """The choices with which the page of a step opens, with the unedited model."""
    place = posed.place if isinstance(posed, PosedStep) else {}
    return {"edits": (), "pads": None, "part": "", "key": None, **place}


def _numbers(view: View, step: Step, posed: PosedStep | Missing) -> dict[str, list[str]]:
    if isinstance(posed, Missing):
        return {view.t("tour.step"): [course.number_of(step.id)]}
    question = posed.question
    right = [""] * len(question.options)
    if _answer_to(view, step, question) is not None:
        right[question.right] = "✓"
    return {view.t("tour.options"): list(question.options), view.t("tour.n_right"): right}


def lead(view: View, step: str) -> str:
    """The introduction of a step, with the model's sizes filled in."""
    config = view.loaded.config
    sizes = {"heads": config.n_heads, "d_head": config.d_head, "d_model": config.d_model}
    width = config.n_heads * config.d_head
    return view.t("tour.steps", step, "lead", divisor=view.divisor, width=width, **sizes)


def _answer_to(view: View, step: Step, question: Question) -> StepAnswer | None:
    """The answer to this question, if valid; a link is untrusted."""
    answer = view.choices(TourChoices).answered(step.id)
    if answer is None or answer.mark != question.mark or answer.option >= len(question.options):
        return None
    return replace(answer, right=answer.option == question.right)


def _lesson(view: View, step: Step, posed: PosedStep | Missing) -> b.Blocks:
    """The blocks of a step."""
    yield b.Title(course.title_of(view, step.id), large=True)
    if isinstance(posed, Missing):
        yield b.Prose(lead(view, step.id))
        yield from _elsewhere(view, step, posed)
        return
    answer = _answer_to(view, step, posed.question)
    right = [b.Prose(lead(view, step.id)), *_ask(view, step, posed, answer)]
    yield b.Columns((tuple(posed.picture(view, answer is not None)), right), widths=(3, 2))


def _ask(view: View, step: Step, posed: PosedStep, step_answer: StepAnswer | None) -> b.Blocks:
    """The question; after the answer also the right option and the explanation."""
    question, tour = posed.question, view.choices(TourChoices)
    asks = view.t("tour.steps", step.id, "ask", **posed.values)
    yield b.Prose(f"**{asks}**")
    if step_answer is None:

        def taken(option: int | None) -> b.Change:
            if option is None:
                return b.choose()
            answer = StepAnswer(step.id, option, option == question.right, question.mark)
            return b.Change(lambda state: {"answers": state.of(TourChoices).with_answer(answer)})

        key, options = f"tour.ask.{step.id}.{question.mark}", dict(enumerate(question.options))
        yield b.Pick(key, plain(asks), options, None, taken, "list", b.Display(quiet=True))
        if tour.answered(step.id) is not None:
            yield b.Pane((b.Note(view.t("tour.asked_before")),), key="tour-noprint")
        return
    marks = {step_answer.option: False, question.right: True}
    lines = [f"{_icon(marks.get(at))} {text}" for at, text in enumerate(question.options)]
    yield b.Pane((b.Prose("  \n".join(lines)),), key="tour-options")
    if tour.answered(step_answer.step) != step_answer:
        yield b.Remember(b.choose(answers=tour.with_answer(step_answer)))
    verdict = view.t("tour.right" if step_answer.right else "tour.wrong", answer=question.answer)
    yield b.Sentence("tour", f"{_icon(step_answer.right)} {verdict}")
    told = [view.t("tour.steps", step.id, "told", **posed.values)]
    if misread := question.misread[step_answer.option]:
        of = {"option": question.options[step_answer.option]}
        told.append(view.t("tour.misreading", **of, misread=view.t("tour.misread", misread)))
    yield b.Prose(in_a_row(told))


def _icon(right: bool | None) -> str:
    """The icon of a result in Markdown."""
    return f":material/{ICONS[right]}:"


def _elsewhere(view: View, step: Step, missing: Missing) -> b.Blocks:
    """Why this run does not show the lesson, with a button that opens one that does."""
    yield b.Hint(view.t("tour.missing", missing.why))
    model, sentence = where_it_shows(step, view.lang)
    if model not in cache.models() or (model, sentence) == (view.loaded.name, view.text):
        return
    name = text.model_name(model, lang=view.lang)
    label = view.t("tour.try_there", text=escape(sentence), model=name)
    run: dict[str, Any] = {"text": sentence, "target": None, "edits": (), "pads": None}
    there = b.choose(elsewhere=True, model=model, lesson=step.id, **run)
    yield b.Button(f"tour.there.{step.id}", label, there, icon="arrow_forward")


def where_it_shows(step: Step, lang: str) -> tuple[str, str]:
    """A model for this language and a sentence that shows the step."""
    model = default_model(cache.models(), lang)
    known = text.telling(step.telling, model) if step.telling else None
    return model, known or first_sentence(model)


EXHIBIT = Exhibit(compute, show)
