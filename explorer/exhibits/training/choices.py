"""Choices on the Training page."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from explorer.exhibits import PageChoices
from explorer.exhibits.choices import RefusedError, choice, unlinked, whole
from explorer.exhibits.view import View, Viewer
from explorer.problems import InputProblem
from explorer.training.runs import TrainingRun
from explorer.training.setup import Setup, format_setup, parse_setup

if TYPE_CHECKING:
    from explorer.training.rooms import Room, Rooms

USUAL = Setup()


def _setup(text: str) -> Setup:
    try:
        return parse_setup(text)
    except (ValueError, TypeError) as error:
        raise RefusedError(text) from error


def _room(text: str) -> str:
    if not text.replace("-", "").replace("_", "").isalnum() or not text.isascii() or len(text) > 40:
        raise RefusedError(text)
    return text


def decoded(file: bytes | None) -> str | None:
    """The text of an uploaded file; None if there is none, or if it is not UTF-8."""
    try:
        return None if file is None else file.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _rooms() -> "Rooms":
    from explorer.training.rooms import ROOMS  # imported here to keep startup fast

    return ROOMS


@dataclass(frozen=True)
class TrainingChoices(PageChoices):
    """`setup` is the setup of the next training; `room` identifies the user's trainings, `shown` is
    the number of the selected one (None: the latest), `moment` the step of the frame (None: the
    latest).

    `own_room` is the room that this session created, `pairs` and `pairs_file` are the user's own
    pairs, `back_to` and `both` the steps chosen for a rewind and for two trainings side by side
    (None: the latest). `refused` is why the last button had no effect. For each draw, `opens` adds
    `runs`, copies of the trainings, and `queued`, the number of those before the shown one.
    """

    pictures: ClassVar[tuple[str, ...]] = ("loss", "forced", "free", "rows")
    parts: ClassVar[dict[str, tuple[str, ...]]] = {
        exhibit.rpartition(".")[2]: ("training.setting", "training.steer", exhibit)
        for exhibit in ("training.live", "training.opened", "training.compared")
    }
    setup: Setup = choice(USUAL, _setup, format_setup)
    room: str = choice("", _room)
    shown: int | None = choice(None, whole(1, 9999))
    moment: int | None = choice(None, whole(0, 9999))
    weight: str = choice("", str)
    own_room: str = unlinked("")
    pairs: str = unlinked("")
    pairs_file: bytes | None = unlinked(None)
    back_to: int | None = unlinked(None)
    both: int | None = unlinked(None)
    refused: InputProblem | None = unlinked(None)
    runs: tuple[TrainingRun, ...] = unlinked(())
    queued: int = unlinked(0)

    @property
    def full_setup(self) -> Setup:
        """The setup with the user's own pairs, if it uses them."""
        if self.setup.task != "own":
            return self.setup
        text = decoded(self.pairs_file)
        return replace(self.setup, text=self.pairs if text is None else text)

    def find_room(self, viewer: Viewer | None) -> "Room | None":
        """The room named by the link, or created by this session; it is kept open while watched."""
        name = self.room or self.own_room
        room = _rooms().find(name, viewer.browser()) if viewer is not None and name else None
        if viewer is not None and room is not None:
            _rooms().watch(room, viewer.session, viewer.is_here)
        return room

    @staticmethod
    def opens(view: View) -> View:
        """The view with copies of the trainings in the user's room, and the place in the queue."""
        own = view.choices(TrainingChoices)
        room = own.find_room(view.viewer)
        if room is None:
            return view
        run = room.run(own.shown)
        queued = 0 if run is None else _rooms().ahead(room, run)
        own = replace(own, runs=tuple(item.copy() for item in room.runs), queued=queued)
        others = (item for item in view.state.owned if not isinstance(item, TrainingChoices))
        return replace(view, state=replace(view.state, owned=(*others, own)))
