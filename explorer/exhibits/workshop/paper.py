"""All tasks for print: description, formula, and space to write."""

from explorer.analysis.workshop.tasks import KINDS, Task, tasks
from explorer.exhibits import Exhibit, View, block as b


def show(answer: None, view: View) -> b.Blocks:
    """The tasks of each kind, numbered."""
    yield b.Note(view.t("workshop.paper_lead"))
    for kind in KINDS:
        yield b.Pane((b.Title(view.t(f"workshop.groups.{kind}"), large=True),))
        for number, task in enumerate((each for each in tasks() if each.kind == kind), 1):
            yield from _on_paper(view, number, task)


def _on_paper(view: View, number: int, task: Task) -> b.Blocks:
    asked = f"{task.text[view.lang]} {task.note[view.lang]}"
    yield b.Prose(f"**{number}. {task.name[view.lang]}** {asked}")
    yield b.Prose(f"${view.formula(task.formula)}$")
    yield b.Verbatim(task.signature if not task.clinic else task.starter, "python")


EXHIBIT = Exhibit(None, show)
