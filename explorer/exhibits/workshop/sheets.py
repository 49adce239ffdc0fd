"""Class results from pasted links: programs are run again here, and nothing is stored."""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from explorer.analysis.workshop.tasks import task_of, tasks
from explorer.engine.caching import cached
from explorer.engine.jobs import whole
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.escape import escape
from explorer.exhibits.workshop.choices import (
    MOST_CARRIED,
    MOST_NAME,
    WorkshopChoices,
    read_ids,
    read_programs,
)
from explorer.exhibits.workshop.subject import graded

MOST_LINKS = 60
"""Most links of a class."""


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


@cached(worth=lambda found: False)
def checked(pasted: str, *, progress: Callable[[int, int], object] | None = None) -> Class:
    """The results of a class, of at most MOST_LINKS links, one per line; never cached."""
    links = [line.strip() for line in pasted.splitlines() if line.strip()][:MOST_LINKS]
    found = [learner_of(link) for link in links]
    learners = [each for each in found if each is not None]
    tell, proved = whole(progress or (lambda done, total: None)), []
    for at, learner in enumerate(learners):
        solved = []
        for task, code in learner.programs:
            tell(at, len(learners))
            made = graded(task, code)
            if made is not None and made.passed:
                solved.append(task)
        proved.append((learner, solved))
    return Class(tuple(proved), found.count(None))


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


def show(found: Class, view: View) -> b.Blocks:
    """A table: solved here, or claimed only."""
    if found.unread:
        yield b.Hint(view.t("workshop.unread", count=found.unread), "warning", warns=True)
    rows = []
    for learner, solved in found.learners:
        rest = [each for each in learner.claimed if each not in solved]
        rows.append((escape(learner.name) or "–", _names(view, solved), _names(view, rest)))
    head = (view.t("workshop.name"), view.t("workshop.proved"), view.t("workshop.claimed"))
    yield b.Table(head, rows, "lll")


def _names(view: View, ids: list[str]) -> str:
    found = [task_of(name) for name in ids]
    names = ", ".join(task.name[view.lang] for task in found if task is not None)
    return f"**{len(ids)}** {names}" if ids else "0"


EXHIBIT = Exhibit(
    checked,
    show,
    working="workshop.rerunning",
    open=lambda view: bool(view.choices(WorkshopChoices).pasted.strip()),
)
