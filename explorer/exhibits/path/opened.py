"""The title of a teacher's sheet, and what a link names that does not exist."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.escape import escape
from explorer.exhibits.path.choices import PathChoices
from explorer.exhibits.path.course import STEPS
from explorer.text import shorten


def show(answer: None, view: View) -> b.Blocks:
    """The title, which is the main part of the page, and messages."""
    made = view.choices(PathChoices)
    title = b.Title(escape(made.sheet_title), large=True)
    yield b.Hero((title,) if made.sheet_title else ())
    unknown = [name for name in made.sheet if name not in STEPS]
    if unknown:
        yield _refused(view, "sheet", " ".join(unknown))
    if made.lesson not in ("", *STEPS):
        yield _refused(view, "lesson", made.lesson)


def _refused(view: View, name: str, value: str) -> b.Hint:
    words = view.t("shell.refused", name=name, value=escape(shorten(value, 40)))
    return b.Hint(words, "link_off", warns=True)


EXHIBIT = Exhibit(None, show)
