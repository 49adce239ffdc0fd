"""Questions decided by training: guess first, then both variants are trained with three seeds."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.escape import escape
from explorer.exhibits.picking import pick_one
from explorer.exhibits.training.choices import TrainingChoices
from explorer.exhibits.training.compared import chart, verdict
from explorer.exhibits.training.room import begin, is_shown, small_print
from explorer.text import shorten
from explorer.training.comparing import arms, band
from explorer.training.questions import QUESTIONS, SEEDS, RunComparison

BY_ID = {question.id: question for question in QUESTIONS}
GUESSES = ("first", "second", "band")


def show(answer: None, view: View) -> b.Blocks:
    """The question and the guess; then what the trainings decide."""
    given = view.choices(TrainingChoices).question
    question = BY_ID.get(given, QUESTIONS[0])
    yield b.Hero((*_pick(view, given, question), *_decided(view, question)))
    yield from small_print(view)


def _pick(view: View, given: str, question: RunComparison) -> b.Blocks:
    if given not in ("", *BY_ID):
        words = view.t("shell.refused", name="question", value=escape(shorten(given, 40)))
        yield b.Hint(words, "link_off", warns=True)
    more = b.More(
        said=lambda at: view.t(f"training.questions.{QUESTIONS[at].id}.ask"),
        change=lambda at: b.choose(question=QUESTIONS[at].id, expected=""),
    )
    places, now = range(len(QUESTIONS)), QUESTIONS.index(question)
    yield pick_one(view, "training.question", places, now, menu=True, quiet=True, **more)
    yield b.Title(view.t(f"training.questions.{question.id}.ask"), large=True)


def _decided(view: View, question: RunComparison) -> b.Blocks:
    names = [view.t(f"training.questions.{question.id}.{side}") for side in ("first", "second")]
    runs = view.choices(TrainingChoices).runs
    guess, answer, sides = _guess(view, names), question.answer(runs), question.runs(runs)
    yield guess
    trained, n = [run for side in sides for run in side], 2 * len(SEEDS)
    if not guess.now:
        yield b.Note(view.t("training.guess_first"))
        return
    if answer is None and not any(run.is_live for run in trained):
        words = view.t("training.decide", n=n, steps=question.first.steps)
        change = begin(view, question.setups())
        yield b.Button("training.decide", words, change, "play_arrow", primary=True)
    done = sum(run.state == "done" for run in trained)
    if sides[0] and done < n:
        yield b.ProgressBar(done / n, view.t("training.decided", done=done, n=n))
    if not all(side and side[0].scores for side in sides):
        return
    if answer is not None:
        key = "guess_right" if guess.now == answer.outcome else "guess_wrong"
        words = verdict(view, answer, names, question.measure)
        yield b.Sentence("training-asked", f"{view.t(f'training.{key}')} {words}")
    measure = "free" if question.measure == "beyond" else question.measure
    bands = [band(arms(side)[0], measure) for side in sides]
    yield chart(view, names, bands, measure, question.first.steps)


def _guess(view: View, names: list[str]) -> b.Pick:
    given = view.choices(TrainingChoices).expected
    labels = {
        "first": view.t("training.better", side=names[0]),
        "second": view.t("training.better", side=names[1]),
        "band": view.t("training.no_difference"),
    }
    now, more = given if given in GUESSES else None, b.More(said=labels.__getitem__)
    return pick_one(view, "training.expected", GUESSES, now, label="training.guess", **more)


EXHIBIT = Exhibit(None, show, open=is_shown)
