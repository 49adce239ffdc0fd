"""Class results from pasted links: programs are run again here, and nothing is stored."""

from collections.abc import Generator
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from explorer.analysis.exercises.tasks import task_of, tasks
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.escape import escape
from explorer.exhibits.exercises.choices import (
    MOST_CARRIED,
    MOST_NAME,
    ExercisesChoices,
    read_ids,
    read_programs,
)
from explorer.exhibits.exercises.subject import absent, graded

MOST_LINKS = 60
"""Most links of a class."""
MOST_PASTED = 800_000
"""Most characters of all links."""


@dataclass(frozen=True)
class Learner:
    """The contents of a results link: the tasks `claimed` as solved, and programs by task."""

    name: str
    claimed: tuple[str, ...]
    programs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Class:
    """Learners, each with the tasks that their programs solve, and the number of other links."""

    learners: tuple[tuple[Learner, list[str]], ...]
    unread: int


def compute(pasted: str) -> Generator[tuple[int, int], bool, Class]:
    """The results of a class, of at most MOST_LINKS links, one per line."""
    links = [line.strip() for line in pasted.splitlines() if line.strip()][:MOST_LINKS]
    read = [learner_of(link) for link in links]
    learners = [learner for learner in read if learner is not None]
    proved = []
    for at, learner in enumerate(learners):
        solved = []
        for task, code in learner.programs:
            yield at, len(learners)
            grade = graded(task, code)
            if grade is not None and grade.passed:
                solved.append(task)
        proved.append((learner, solved))
    return Class(tuple(proved), read.count(None))


def learner_of(link: str) -> Learner | None:
    """Parse a results link; None for any other text."""
    try:
        said = dict(parse_qsl(urlsplit(link).query)) if len(link) < 4 * MOST_CARRIED else {}
        claimed, programs = read_ids(said["solved"]), read_programs(said.get("programs", ""))
    except (KeyError, ValueError):
        return None
    name = " ".join(said.get("solver", "").split())[:MOST_NAME]
    known = {task.id for task in tasks()}
    own = tuple(each for each in programs if each[0] in known)
    return Learner(name, tuple(each for each in claimed if each in known), own)


def _box(view: View) -> b.Blocks:
    """The box for the links, which become a choice of the session."""
    yield from absent(view)
    yield b.Prose(view.t("exercises.class_lead"))
    yield b.TextBox(
        "exercises.pasted",
        view.t("exercises.paste"),
        view.choices(ExercisesChoices).pasted,
        lambda text: b.choose(pasted=text),
        160,
        most=MOST_PASTED,
    )


def show(found: Class, view: View) -> b.Blocks:
    """The box, and a table: solved here, or claimed only."""
    yield from _box(view)
    if not view.choices(ExercisesChoices).pasted.strip():
        return
    if found.unread:
        yield b.Hint(view.t("exercises.unread", count=found.unread), "warning", warns=True)
    rows = []
    for learner, solved in found.learners:
        rest = [each for each in learner.claimed if each not in solved]
        rows.append((escape(learner.name) or "–", _names(view, solved), _names(view, rest)))
    head = (view.t("exercises.name"), view.t("exercises.proved"), view.t("exercises.claimed"))
    yield b.Table(head, rows, "lll")


def _names(view: View, ids: list[str]) -> str:
    found = [task_of(name) for name in ids]
    names = ", ".join(task.name[view.lang] for task in found if task is not None)
    return f"**{len(ids)}** {names}" if ids else "0"


EXHIBIT = Exhibit(compute, show, wait=Wait("exercises.rerunning", blocks=_box))
