"""The views of the app in the order of its menu of ten; each has a name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.exhibits.alignment.choices import AlignmentChoices
from explorer.exhibits.attribution.choices import AttributionChoices
from explorer.exhibits.card.choices import CardChoices
from explorer.exhibits.cases.choices import CasesChoices
from explorer.exhibits.circuits.choices import CircuitsChoices
from explorer.exhibits.decoding.choices import DecodingChoices
from explorer.exhibits.exercises.choices import ExercisesChoices
from explorer.exhibits.exhibit import (
    CROSS,
    OUTPUT,
    WORDS,
    Need,
    PageChoices,
    choices_of,
    choices_on,
    exhibit_of,
)
from explorer.exhibits.heads.choices import HeadsChoices
from explorer.exhibits.masks.choices import MasksChoices
from explorer.exhibits.model.choices import ModelChoices
from explorer.exhibits.patching.choices import PatchingChoices
from explorer.exhibits.positions.choices import PositionsChoices
from explorer.exhibits.score.choices import ScoreChoices
from explorer.exhibits.start.choices import StartChoices
from explorer.exhibits.tour.choices import TourChoices
from explorer.exhibits.training.choices import TrainingChoices
from explorer.guests import guests


@dataclass(frozen=True)
class Page:
    """A view of the menu.

    `name` is also its address and the table of its words. `choices` is the frozen dataclass of the
    choices that exist only on this page. `usual_pads` is the default number of PADs;
    `follows_edits` is True if the page applies the user's edits of the model (masks, heads).
    `needs` is what a model must have, if it has nothing to show otherwise.
    """

    name: str
    choices: type[PageChoices]
    usual_pads: int = 0
    follows_edits: bool = True
    needs: Need | None = None

    @property
    def parts(self) -> Mapping[str, Sequence[str]]:
        """The addresses of the exhibits of each part."""
        return self.choices.parts

    def load(self) -> None:
        """Import the page's exhibits, so that its first visit does not wait for it."""
        for name in (name for part in self.parts.values() for name in part):
            exhibit_of(name)


LESSONS: tuple[Page, ...] = (
    Page("start", StartChoices),
    Page("heads", HeadsChoices),
    Page("score", ScoreChoices),
    Page("alignment", AlignmentChoices, follows_edits=False, needs=CROSS),
    Page("masks", MasksChoices, usual_pads=3),
    Page("positions", PositionsChoices),
    Page("decoding", DecodingChoices, needs=OUTPUT),
    Page("model", ModelChoices),
    Page("training", TrainingChoices, follows_edits=False),
    Page("attribution", AttributionChoices),
    Page("patching", PatchingChoices, needs=OUTPUT),
    Page("circuits", CircuitsChoices, follows_edits=False, needs=WORDS),
    Page("tour", TourChoices, follows_edits=False),
    Page("exercises", ExercisesChoices, follows_edits=False),
    Page("cases", CasesChoices, usual_pads=2),
    *(Page(name, choices_of(name)) for guest in guests() for name in guest.pages),
)
"""The pages with a lesson, in menu order; pages of other packages last."""

PAGES: tuple[Page, ...] = (*LESSONS, Page("card", CardChoices, follows_edits=False))
"""The lessons, and last the model card, which computes nothing from the sentence."""

CHOICES: tuple[type[PageChoices], ...] = tuple(
    dict.fromkeys(kind for page in PAGES for kind in choices_on(page.choices))
)
"""The choices of all subjects that pages show."""

HOME = "start"
"""The page at the root address."""


@dataclass(frozen=True)
class MenuItem:
    """An entry of the menu: its name (a key of the table `menu`), its icon, and its views.

    The entry opens the first view; a row above each view links to the others. Views that others
    link to are `inner`: the row has one only while it is open.
    """

    name: str
    icon: str
    views: tuple[str, ...]
    inner: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Add the pages of other packages."""
        pages = (page for guest in guests() for page in guest.pages.items())
        added = (name for name, entry in pages if entry == self.name)
        object.__setattr__(self, "views", (*self.views, *added))


MENU: tuple[MenuItem, ...] = (
    MenuItem("start", ":material/play_circle:", (HOME,)),
    MenuItem("attention", ":material/grid_view:", ("heads", "score", "alignment")),
    MenuItem("masks", ":material/grid_off:", ("masks",)),
    MenuItem("positions", ":material/waves:", ("positions",)),
    MenuItem("decoding", ":material/account_tree:", ("decoding",)),
    MenuItem("inside", ":material/layers:", ("model",)),
    MenuItem("train", ":material/model_training:", ("training",)),
    MenuItem("interpret", ":material/psychology_alt:", ("attribution", "patching", "circuits")),
    MenuItem("learn", ":material/route:", ("tour", "exercises"), ("glossary",)),
    MenuItem("models", ":material/folder_open:", ("models", "cases"), ("card",)),
)
"""The ten entries of the menu, with sixteen views. Each view is in one of them."""
