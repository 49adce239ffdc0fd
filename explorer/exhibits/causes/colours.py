"""What the logit lens is read from, and what its colours mean."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.causes.choices import CausesChoices
from explorer.exhibits.needs import OUTPUT
from explorer.exhibits.picking import pick_one, toggle

COLOURS = ("chance", "ranked", "distance")


def show(answer: None, view: View) -> b.Blocks:
    """Both controls, also while the lens is computed or if there is nothing to decode."""
    now, on = view.one_of("picture", COLOURS), view.choices(CausesChoices).filmed
    filmed = toggle(view, "causes.filmed", on, help=view.t("causes.filmed_help"))
    yield b.Row((pick_one(view, "causes.colour", COLOURS, now, "picture"), filmed))


EXHIBIT = Exhibit(None, show, OUTPUT)
