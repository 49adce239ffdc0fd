"""The draft model of speculative decoding, and the number of tokens that it proposes."""

from functools import partial

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.decoding.choices import MOST_DRAFTED, DecodingChoices
from explorer.exhibits.decoding.one_pass import is_open
from explorer.exhibits.escape import escape
from explorer.exhibits.picking import pick_one, slider
from explorer.library import LoadedModel, same_vocabulary
from explorer.text import shorten

_LAYERS = "layers-"


def layers_of(draft: str) -> int | None:
    """The number of the model's own layers that `layers-2` uses; None for another model's name."""
    number = draft.removeprefix(_LAYERS)
    return int(number) if number != draft and number.isascii() and number.isdecimal() else None


def drafts(loaded: LoadedModel) -> tuple[str, ...]:
    """The possible drafts for a model: its own first layers, most first, and other models.

    All share the model's vocabulary: tokens of another vocabulary could not be checked.
    """
    own = (f"{_LAYERS}{n}" for n in range(loaded.config.n_layers - 1, 0, -1))
    return (*own, *same_vocabulary(loaded.name))


def draft_of(view: View) -> str:
    """The chosen draft, by default the model's first layers; "" if there is none."""
    offered, chosen = drafts(view.loaded), view.choices(DecodingChoices).draft
    return chosen if chosen in offered else next(iter(offered), "")


def show(answer: None, view: View) -> b.Blocks:
    """Both controls."""
    yield b.Prose(view.t("speculation.lead"))
    if view.trace.edits:
        yield b.Note(view.t("speculation.without_edits"))
    now, chosen = draft_of(view), view.choices(DecodingChoices)
    if not now:
        yield b.Hint(view.t("speculation.no_draft"))
        return
    if chosen.draft not in ("", now):
        shown = escape(shorten(chosen.draft, 40))
        refused = view.t("shell.refused", name="draft", value=shown)
        yield b.Hint(refused, "link_off", warns=True)
    more = b.More(menu=True, width=320, help=view.t("speculation.draft_help"))
    named = partial(_name, view)
    pick = pick_one(view, "speculation.draft", drafts(view.loaded), now, said=named, **more)
    ahead = slider(view, "speculation.ahead", 1, MOST_DRAFTED, chosen.ahead, width=240)
    yield b.Row((pick, ahead))


def _name(view: View, draft: str) -> str:
    kept = layers_of(draft)
    if kept is None:
        return draft
    return view.t("speculation.layers", kept=kept, layers=view.loaded.config.n_layers)


EXHIBIT = Exhibit(None, show, open=is_open)
