"""The second test: the user's mask in a trained model, its certificate and its output.

A mask is right if it breaks the same properties as the reference, and no others: a correct window
hides real tokens, which is one of the properties.
"""

from explorer.analysis.cases.symptom import Symptom
from explorer.analysis.exercises.planted import fits
from explorer.engine.exercises import Program, Status, Trial, graded, tried
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.cases.planted import loss_of, output_of
from explorer.exhibits.exercises.asked import opened, program, written
from explorer.exhibits.exercises.choices import ExercisesChoices
from explorer.exhibits.exercises.said import fault_words
from explorer.exhibits.saying import in_a_row
from explorer.sandbox import Fault


def _wanted(view: View) -> Program | Status:
    """A right program, or one that the user or another session has put into this model."""
    task, code = opened(view), written(view)
    if not task.planted or code is None:
        return ""
    grade = graded(task.id, code)
    if grade is None or grade.fault is not None or (grade.wrong and grade.wrong.shape):
        return ""
    if not fits(task, view.loaded):
        return "no_place"
    mine = view.choices(ExercisesChoices).planted == (task.id, code)
    is_due = grade.passed or mine or tried.is_kept(view.run.plain, (task.id, code))
    return (task.id, code) if is_due else "plant"


def show(found: Trial | Fault | Status, view: View) -> b.Blocks:
    """The model with this mask: at once if it is right, else on request."""
    if found == "":
        return
    task = opened(view)
    yield b.Title(view.t("exercises.in_model"))
    if found == "no_place":
        yield b.Note(view.t("exercises.no_place"))
    elif found == "plant":
        change = b.choose(planted=(task.id, program(view)))
        yield b.Button("exercises.plant", view.t("exercises.plant"), change, "science")
    elif isinstance(found, Fault):
        yield b.Hint(in_a_row(fault_words(view, task, found)), "warning", warns=True)
    elif isinstance(found, Trial):
        yield from _certificate(view, found)
        yield from _written(view, found.symptom)


def _certificate(view: View, trial: Trial) -> b.Blocks:
    """Properties violated by the mask but not by the reference mask."""
    expected = {test.name for test in trial.right if not test.passed}
    broken = [test for test in trial.own if not test.passed]
    surprising = [test for test in broken if test.name not in expected]
    missing = [test for test in trial.own if test.passed and test.name in expected]
    kept, count = len(trial.own) - len(broken), len(trial.own)
    if not surprising and not missing:
        verdict = view.t("exercises.as_expected", kept=kept, count=count)
        yield b.Prose(f":green[:material/verified:] {verdict}")
    elif surprising:
        verdict = view.t("exercises.breaks", count=len(surprising), of=count - len(expected))
        yield b.Prose(f":red[:material/cancel:] {verdict}")
    else:
        yield b.Prose(view.t("exercises.unlike"))
    for finding in surprising:
        title, meaning = (view.t("certify", finding.name, of) for of in ("title", "broken"))
        yield b.Prose(f"- **{title}** {meaning}")
    for finding in broken:
        if finding.name in expected:
            words = view.t("exercises.expected", promise=view.t("certify", finding.name, "title"))
            yield b.Prose(f"- :gray[{words}]")


def _written(view: View, symptom: Symptom) -> b.Blocks:
    """The model's output with and without the mask."""
    if view.trace.config.generates:
        yield b.Prose(f"{view.t('exercises.writes')} {output_of(view, symptom)}")
    yield b.Prose(loss_of(view, symptom)) if symptom.changed else b.Note(view.t("exercises.same"))


EXHIBIT = Exhibit(
    tried,
    show,
    inputs={"plain": lambda view: view.run.plain, "wanted": _wanted},
    wait=Wait("exercises.planting"),
)
