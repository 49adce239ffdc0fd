"""The pages in the order of the menu. A page is a name, an icon, and `render(view)`."""

from collections.abc import Callable
from dataclasses import dataclass

from explorer.pages import (
    blocks,
    cell,
    certificate,
    claims,
    clinic,
    decoding,
    heads,
    machine,
    masks,
    positions,
)
from explorer.ui.view import View


@dataclass(frozen=True)
class Page:
    """`name` is also its address and the table of its words.

    `usual_pads` is how many PADs it adds to the sentence until the visitor chooses a number.
    """

    name: str
    icon: str
    render: Callable[[View], None]
    usual_pads: int = 0


PAGES: tuple[Page, ...] = (
    Page("heads", ":material/grid_view:", heads.render),
    Page("cell", ":material/center_focus_strong:", cell.render),
    Page("masks", ":material/grid_off:", masks.render, usual_pads=3),
    Page("certificate", ":material/verified:", certificate.render),
    Page("clinic", ":material/stethoscope:", clinic.render, usual_pads=2),
    Page("positions", ":material/waves:", positions.render),
    Page("blocks", ":material/layers:", blocks.render),
    Page("decoding", ":material/format_list_numbered:", decoding.render),
    Page("machine", ":material/account_tree:", machine.render),
    Page("claims", ":material/quiz:", claims.render),
)
