"""The level of detail of writers."""

from explorer.analysis.causes.writers import Detail
from explorer.exhibits.view import View
from explorer.ui.parts import pick_one


def pick_detail(view: View) -> Detail:
    """The choice between whole sublayers and single heads."""
    shown = pick_one(
        view,
        "picture",
        view.t("causes.by"),
        ("sublayers", "singles"),
        "causes.by",
        lambda name: view.t(f"causes.by_{name}"),
    )
    return "heads" if shown == "singles" else "sublayers"
