"""Questions decided by training: guess first, then both variants are trained with three seeds."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.picking import pick_one
from explorer.exhibits.tour.choices import StepAnswer, TourChoices
from explorer.exhibits.training.choices import TrainingChoices
from explorer.exhibits.training.compared import chart, verdict
from explorer.exhibits.training.room import begin, is_shown, small_print
from explorer.training.comparing import QUESTIONS, SEEDS, RunComparison, arms, band

BY_ID = {question.id: question for question in QUESTIONS}


def show(answer: None, view: View) -> b.Blocks:
    """The question and the guess; then what the trainings decide."""
    question = BY_ID.get(view.choices(TrainingChoices).question, QUESTIONS[0])
    yield b.Hero((*_pick(view, question), *_decided(view, question)))
    yield from small_print(view)


def _pick(view: View, question: RunComparison) -> b.Blocks:
    more = b.More(
        said=lambda id: view.t(f"training.questions.{id}.ask"),
        change=lambda id: b.choose(question=id, expected=""),
    )
    yield pick_one(
        view, "training.question", tuple(BY_ID), question.id, form="menu", quiet=True, **more
    )
    yield b.Title(view.t(f"training.questions.{question.id}.ask"), large=True)


def sides_of(view: View, question: str) -> list[str]:
    """The names of both variants."""
    return [view.t(f"training.questions.{question}.{side}") for side in ("first", "second")]


def guesses(view: View, question: str) -> dict[str, str]:
    """What may be guessed: that one of the variants is better, or no difference."""
    better = (view.t("training.better", side=side) for side in sides_of(view, question))
    words = (*better, view.t("training.no_difference"))
    return dict(zip(("first", "second", "band"), words, strict=True))


def _decided(view: View, question: RunComparison) -> b.Blocks:
    choices, names = view.choices(TrainingChoices), sides_of(view, question.id)
    runs, labels = choices.runs, guesses(view, question.id)
    answer, sides = question.answer(runs), question.runs(runs)
    guess = choices.expected if choices.expected in labels else None
    more = b.More(said=labels.__getitem__, label="training.guess")
    yield pick_one(view, "training.expected", tuple(labels), guess, **more)
    trained, n = [run for side in sides for run in side], 2 * len(SEEDS)
    if guess is None:
        yield b.Note(view.t("training.guess_first"))
        return
    if answer is None and not any(run.is_live for run in trained):
        words = view.t("training.decide", n=n, steps=question.first.steps)
        change = begin(view, question.setups())
        yield b.Button("training.decide", words, change, "play_arrow", kind="primary")
    done = sum(run.state == "done" for run in trained)
    if sides[0] and done < n:
        yield b.ProgressBar(done / n, view.t("training.decided", done=done, n=n))
    if not all(side and side[0].scores for side in sides):
        return
    if answer is not None:
        right, tour = guess == answer.outcome, view.choices(TourChoices)
        reply = StepAnswer(f"train_{question.id}", [*labels].index(guess), right, "0")
        if tour.answered(reply.step) is None:
            yield b.Remember(b.choose(answers=tour.with_answer(reply)))
        key = "training.guess_right" if right else "training.guess_wrong"
        words = verdict(view, answer, names, question.measure)
        yield b.Sentence("training-asked", f"{view.t(key)} {words}")
    measure = "free" if question.measure == "beyond" else question.measure
    bands = [band(arms(side)[0], measure) for side in sides]
    yield chart(view, names, bands, measure, question.first.steps)


EXHIBIT = Exhibit(None, show, open=is_shown)
