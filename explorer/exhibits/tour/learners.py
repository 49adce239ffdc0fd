"""The results of a class: learners' links as a table; nothing is stored."""

from collections.abc import Sequence
from urllib.parse import parse_qs, urlsplit

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.escape import escape
from explorer.exhibits.tour.choices import MOST_NAME, TourChoices, one_line, read_answers
from explorer.exhibits.tour.course import STEPS, heading, number_of, steps_of_view, title_of
from explorer.exhibits.tour.steps import SIGNS

MOST_LINKS = 100
MOST_PASTED = 200_000
"""Most characters of pasted text: enough for a hundred long links."""


def show(answer: None, view: View) -> b.Blocks:
    """The box for the links, and the table."""
    yield from heading(view)
    pasted = view.choices(TourChoices).class_links[:MOST_PASTED]
    yield b.Prose(view.t("tour.class_lead"))
    more = b.More(height=180, most=MOST_PASTED)
    label, change = view.t("tour.class_links"), lambda text: b.choose(class_links=text)
    yield b.TextBox("tour.class", label, pasted, change, **more)
    lines = [line.strip() for line in pasted.splitlines() if line.strip()]
    results = [read_results(line) for line in lines[:MOST_LINKS]]
    if len(lines) > MOST_LINKS:
        words = view.t("tour.class_many", most=MOST_LINKS, count=len(lines))
        yield b.Hint(words, warns=True)
    bad = [str(at + 1) for at, result in enumerate(results) if result is None]
    if bad:
        words = view.t("tour.class_bad", count=len(bad), lines=", ".join(bad[:20]))
        yield b.Hint(words, warns=True)
    if good := [result for result in results if result is not None]:
        yield from _table(view, good)


def read_results(link: str) -> tuple[str, dict[str, bool]] | None:
    """The name and the results by step of a learner's link; None if it has none."""
    try:
        params = parse_qs(urlsplit(link).query)
        answers = read_answers(params["answers"][0])
    except (KeyError, ValueError):  # RefusedError is one
        return None
    outcomes = {answer.step: answer.right for answer in answers if answer.step in STEPS}
    return (one_line(params.get("learner", [""])[0], MOST_NAME), outcomes) if outcomes else None


def _table(view: View, results: Sequence[tuple[str, dict[str, bool]]]) -> b.Blocks:
    named = [step for step in steps_of_view(view) if any(step in given for _, given in results)]
    marks = SIGNS | {None: "–"}
    rows = []
    for name, outcomes in results:
        cells = [marks[outcomes.get(step)] for step in named]
        right = sum(outcomes.get(step, False) for step in named)
        shown = escape(name) if name else view.t("tour.nobody")
        rows.append([shown, f"{right} / {len(named)}", *cells])
    sums = [sum(given.get(step, False) for _, given in results) for step in named]
    rows.append([view.t("tour.class_right"), "", *(f"{right} / {len(results)}" for right in sums)])
    head = [view.t("tour.learner"), view.t("tour.n_right"), *(number_of(step) for step in named)]
    yield b.Table(head, rows)
    yield b.Note(" · ".join(title_of(view, step) for step in named))
    yield b.Note(view.t("tour.class_note"))


EXHIBIT = Exhibit(None, show)
