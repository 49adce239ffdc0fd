"""The suggested second sentence, if the user has typed another one."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.escape import escape
from explorer.exhibits.patching.choices import PatchingChoices
from explorer.exhibits.patching.second import offered


def _typed(view: View) -> str:
    return view.choices(PatchingChoices).second


def show(found: str | None, view: View) -> b.Blocks:
    """The button that returns to it."""
    if found is not None and found != _typed(view):
        label = view.t("patching.offer", text=escape(found))
        back = b.choose(second="", align=None, cell=None, asked=None)
        yield b.Button("patching.offer", label, back, quiet=True)


EXHIBIT = Exhibit(offered, show, working="patching.looking", open=lambda view: bool(_typed(view)))
