"""The results of a class from pasted links: programs are run again here, and nothing is stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from explorer.engine.exercises import graded
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.exercises.asked import absent
from explorer.exhibits.exercises.choices import MOST_CARRIED, read_ids, read_programs
from explorer.exhibits.tour.choices import MOST_NAME, TourChoices, one_line, read_answers
from explorer.exhibits.tour.course import ENTRIES, heading, number_of, sheet_of, title_of
from explorer.runs.passes import Steps

MOST_LINKS = 100
MOST_FIELDS = 64
"""Most choices in a link; one with more has no results."""
MOST_PASTED = 800_000
"""Most characters of pasted text."""
SIGNS = {True: "✓", False: "✗", None: "?"}


@dataclass(frozen=True)
class Learner:
    """The contents of a results link: programs by task, and whether each entry is right; None for
    an exercise that is claimed as solved. `sheet` has the entries of the link's worksheet."""

    name: str
    sheet: tuple[str, ...]
    outcomes: dict[str, bool | None]
    programs: tuple[tuple[str, str], ...]


def compute(class_links: str) -> Steps[Sequence[Learner | None]]:
    """What each of the first MOST_LINKS lines contains, None for no results; an exercise whose
    program passes is right. Yields the lines done and their number."""
    learners = [read_results(line) for line in _lines(class_links)[:MOST_LINKS]]
    for at, learner in enumerate(learners):
        for task, code in () if learner is None else learner.programs:
            yield at, len(learners)
            grade = graded(task, code)
            if learner is not None and grade is not None and grade.passed:
                learner.outcomes[f"task_{task}"] = True
    return learners


def _lines(pasted: str) -> list[str]:
    return [line.strip() for line in pasted[:MOST_PASTED].splitlines() if line.strip()]


def read_results(link: str) -> Learner | None:
    """The name, results and programs of a learner's link; None if it has no results."""
    try:
        query = urlsplit(link).query if len(link) < 4 * MOST_CARRIED else ""
        params = dict(parse_qsl(query, max_num_fields=MOST_FIELDS))
        answers, solved = (
            read_answers(params.get("answers", "")),
            read_ids(params.get("solved", "")),
        )
        programs = read_programs(params.get("programs", ""))
        sheet = tuple(entry for entry in read_ids(params.get("sheet", "")) if entry in ENTRIES)
    except ValueError:  # RefusedError is one
        return None
    outcomes = {f"task_{task}": None for task in solved} | {
        submission.step: submission.right for submission in answers
    }
    known = {entry: right for entry, right in outcomes.items() if entry in ENTRIES}
    own = tuple(submission for submission in programs if f"task_{submission[0]}" in ENTRIES)
    name = one_line(params.get("learner") or params.get("solver", ""), MOST_NAME)
    return Learner(name, sheet, known, own) if known or own else None


def _box(view: View) -> b.Blocks:
    """The box for the links."""
    yield from heading(view)
    pasted = view.choices(TourChoices).class_links
    if "programs=" in pasted:
        yield from absent(view)
    yield b.Prose(view.t("tour.class_lead"))
    label, change = view.t("tour.class_links"), b.sets("class_links")
    yield b.TextBox("tour.class", label, pasted, change, 180, MOST_PASTED)


def show(learners: Sequence[Learner | None], view: View) -> b.Blocks:
    """The box, and the table."""
    yield from _box(view)
    count = len(_lines(view.choices(TourChoices).class_links))
    if count > MOST_LINKS:
        yield b.Hint(view.t("tour.class_many", most=MOST_LINKS, count=count), warns=True)
    if bad := [str(at) for at, learner in enumerate(learners, 1) if learner is None]:
        yield b.Hint(view.t("tour.class_bad", lines=", ".join(bad)), warns=True)
    if good := [learner for learner in learners if learner is not None]:
        yield from _table(view, good)


def _table(view: View, learners: Sequence[Learner]) -> b.Blocks:
    """A row for each learner, and a column for each entry of the worksheet: the user's, else those
    that the links name, else what was answered."""
    sheet = sheet_of(view.choices(TourChoices).sheet) or dict.fromkeys(
        entry for learner in learners for entry in learner.sheet
    )
    answered = {entry for learner in learners for entry in learner.outcomes}
    named = [*sheet] or [entry for entry in ENTRIES if entry in answered]

    def out_of(right: int, count: int) -> str:
        return view.t("tour.out_of", right=right, count=count)

    rows = []
    for learner in learners:
        known = {entry: SIGNS[right] for entry, right in learner.outcomes.items()}
        n_right = sum(learner.outcomes.get(column) is True for column in named)
        name = escape(learner.name) or view.t("tour.nobody")
        marks = (known.get(column, "–") for column in named)
        rows.append([name, out_of(n_right, len(named)), *marks])
    sums = [sum(learner.outcomes.get(column) is True for learner in learners) for column in named]
    rows.append([view.t("tour.class_right"), "", *(out_of(right, len(learners)) for right in sums)])
    head = [view.t("tour.learner"), view.t("tour.n_right"), *map(number_of, named)]
    yield b.Table(head, rows)
    yield b.Note(" · ".join(title_of(view, entry) for entry in named))
    yield b.Note(view.t("tour.class_note"))


EXHIBIT = Exhibit(compute, show, wait=Wait("exercises.rerunning", blocks=_box))
