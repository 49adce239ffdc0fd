"""Which model is compared with the open one."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.atlas.choices import AtlasChoices
from explorer.exhibits.atlas.moments import steps_of


def show(answer: None, view: View) -> b.Blocks:
    """The menu, and what to do if there is nothing to show yet."""
    now = view.choices(AtlasChoices).against
    label, why = view.t("atlas.against"), view.t("atlas.against_help")
    yield b.PickModel("atlas.against", label, now, lambda name: b.choose(against=name), why, 320)
    if now in ("", view.loaded.name) and not steps_of(view):
        yield b.Note(view.t("atlas.compare_none"))


EXHIBIT = Exhibit(None, show)
