"""The pages in menu order; each has a name, an icon, and `render(view)` in its `page.py`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module

from explorer.exhibits.blocks.choices import BlocksChoices
from explorer.exhibits.masks.choices import MasksChoices
from explorer.exhibits.view import View
from explorer.pages.alignment.choices import AlignmentChoices
from explorer.pages.atlas.choices import AtlasChoices
from explorer.pages.card.choices import CardChoices
from explorer.pages.causes.choices import CausesChoices
from explorer.pages.cell.choices import CellChoices
from explorer.pages.certificate.choices import CertificateChoices
from explorer.pages.circuits.choices import CircuitsChoices
from explorer.pages.claims.choices import ClaimsChoices
from explorer.pages.clinic.choices import ClinicChoices
from explorer.pages.decoding.choices import DecodingChoices
from explorer.pages.heads.choices import HeadsChoices
from explorer.pages.machine.choices import MachineChoices
from explorer.pages.patching.choices import PatchingChoices
from explorer.pages.path.choices import PathChoices
from explorer.pages.positions.choices import PositionsChoices
from explorer.pages.start.choices import StartChoices
from explorer.pages.training.choices import TrainingChoices
from explorer.pages.workshop.choices import WorkshopChoices
from explorer.render.app import draw_page


@dataclass(frozen=True)
class Page:
    """A page of the menu.

    `name` is also its address and the table of its words. `choices` is the frozen dataclass of the
    choices that exist only on this page. `group` is its heading in the menu (a key of the table
    `menu`), "" for none. `usual_pads` is the default number of PADs; `follows_edits` is True if the
    page applies the user's edits of the model (masks, heads).
    """

    name: str
    icon: str
    choices: type
    group: str = ""
    usual_pads: int = 0
    follows_edits: bool = True

    @property
    def render(self) -> Callable[[View], None]:
        """The function that draws the page, imported at first use to keep startup fast."""
        parts = getattr(self.choices, "parts", None)
        if isinstance(parts, Mapping):
            return partial(draw_page, page=self.name, parts=parts)
        drawn: Callable[[View], None] = import_module(f"explorer.pages.{self.name}.page").render
        return drawn


LESSONS: tuple[Page, ...] = (
    Page("start", ":material/play_circle:", StartChoices),
    Page("path", ":material/route:", PathChoices, follows_edits=False),
    Page("heads", ":material/grid_view:", HeadsChoices),
    Page("cell", ":material/center_focus_strong:", CellChoices),
    Page("masks", ":material/grid_off:", MasksChoices, usual_pads=3),
    Page("positions", ":material/waves:", PositionsChoices),
    Page("blocks", ":material/layers:", BlocksChoices, "model"),
    Page("machine", ":material/account_tree:", MachineChoices, "model"),
    Page("decoding", ":material/format_list_numbered:", DecodingChoices, "model"),
    Page("causes", ":material/psychology_alt:", CausesChoices, "why"),
    Page("patching", ":material/swap_horiz:", PatchingChoices, "why"),
    Page(
        "alignment",
        ":material/compare_arrows:",
        AlignmentChoices,
        "why",
        0,
        False,
    ),
    Page(
        "circuits",
        ":material/cable:",
        CircuitsChoices,
        "why",
        follows_edits=False,
    ),
    Page("atlas", ":material/map:", AtlasChoices, "why", 0, False),
    Page("certificate", ":material/verified:", CertificateChoices, "practise"),
    Page(
        "clinic",
        ":material/stethoscope:",
        ClinicChoices,
        "practise",
        usual_pads=2,
        follows_edits=False,
    ),
    Page(
        "training",
        ":material/model_training:",
        TrainingChoices,
        "practise",
        follows_edits=False,
    ),
    Page(
        "workshop",
        ":material/construction:",
        WorkshopChoices,
        "practise",
        follows_edits=False,
    ),
    Page("claims", ":material/quiz:", ClaimsChoices, "practise", 0, False),
)
"""All pages in menu order: the start picture; the guided tour; then, in teaching order, attention,
masks, positions, blocks, the whole model, decoding and interpretability; then exercises, among them
live training.
"""

PAGES: tuple[Page, ...] = (
    *LESSONS,
    Page("card", ":material/badge:", CardChoices, "model", follows_edits=False),
)
"""The lessons, and last the model card, which computes nothing from the sentence."""

HOME = "start"
"""The page at the root address."""
