"""The sentence, and the named parts of the masks: switches, numbers, and PADs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.links import MOST_PADS, State
from explorer.exhibits.picking import slider
from explorer.runs.edits import (
    SIZE_PARTS,
    USUAL_MASKS,
    Edit,
    MaskPart,
    MaskSize,
    MaskSwitch,
    SizePart,
)
from explorer.runs.interventions import Sizes, rules_in_force, sizes_in_force
from explorer.runs.trace import Trace
from models.hooks import Role


@dataclass(frozen=True)
class MaskRules:
    """Which switches are on, the sizes that are not 0, and the largest size of a slider."""

    on: dict[MaskPart, bool]
    sizes: Sizes
    longest: int


FIRST: tuple[MaskPart, ...] = ("pad_keys", "causal")
"""Rules whose switches are always visible."""
_CONCERNS: dict[str, Role] = {"cross_pad": "cross", "causal": "decoder", "prefix": "decoder"}
"""The kind of attention that a rule applies to, for rules of a single kind."""


def compute(trace: Trace, before: Trace, asked: tuple[Edit, ...], n_pads: int) -> MaskRules:
    """The rules in force. Both runs count for the largest size, so that a switch rarely moves the
    end of a slider."""
    on, sizes = rules_in_force(asked), sizes_in_force(asked)
    lengths = len(trace.tgt_tokens), len(before.tgt_tokens) + n_pads
    return MaskRules(on, sizes, max(len(trace.src_tokens), *lengths, *sizes.values(), 2))


def show(rules: MaskRules, view: View) -> b.Blocks:
    """The sentence, the changes as text, and one row of switches."""
    yield b.SentenceLine()
    pads = slider(view, "masks.pads", b.Span(0, MOST_PADS), view.pads, display=b.Display(170))
    switches = {
        part: b.Toggle(
            f"masks.{part}",
            view.t("edits.rules", part),
            rules.on[part],
            _switch(part),
            help=view.t("masks.help", part),
        )
        for part in USUAL_MASKS
        if _concerns(view, part)
    }
    shown = [switches.pop(part) for part in FIRST if part in switches]
    others = (*switches.values(), *_sizes(view, rules))
    further = b.Fold(view.t("masks.further"), others)
    yield b.Changes("masks.reset")
    yield b.Row((pads, *shown, further), align="center", gap="medium")


def _concerns(view: View, part: MaskPart | SizePart) -> bool:
    """Whether this model has attention that a rule applies to."""
    return part not in _CONCERNS or bool(view.sites_of(_CONCERNS[part]))


def _sizes(view: View, rules: MaskRules) -> b.Blocks:
    """Sliding window, prefix and blocks: each a number, 0 for off."""
    windows = [site.window for site in view.loaded.sites if site.kind == "self"]
    own = [window for window in windows if window is not None]
    if own:
        size = f"{own[0]:,}"
        yield b.Note(view.t("masks.own_window", layers=len(own), all=len(windows), window=size))
    for part in SIZE_PARTS:
        if _concerns(view, part):
            yield b.Slider(
                f"masks.{part}",
                view.t("edits.rules", part),
                b.Span(0, rules.longest),
                rules.sizes.get(part, 0),
                _resize(part),
                display=b.Display(
                    help=view.t("masks.help", part),
                    disabled=part == "prefix" and not rules.on["causal"],
                ),
            )


def _switch(part: MaskPart) -> Callable[[bool], b.Change]:
    """The change of a switch; only a deviation from the default masks is stored as an edit."""

    def change(on: bool) -> b.Change:
        return _replaced(part, () if on == USUAL_MASKS[part] else (MaskSwitch(part, on),))

    return change


def _resize(part: SizePart) -> Callable[[int], b.Change]:
    return lambda size: _replaced(part, (MaskSize(part, size),) if size else ())


def _replaced(part: str, edits: tuple[Edit, ...]) -> b.Change:
    """Replace the edits of a rule; rules precede painted cells, which are applied on top."""

    def is_rule(edit: Edit) -> bool:
        return isinstance(edit, MaskSwitch | MaskSize)

    def choices(state: State) -> dict[str, Any]:
        rules = (edit for edit in state.edits if is_rule(edit) and _part(edit) != part)
        cells = (edit for edit in state.edits if not is_rule(edit))
        return {"edits": (*rules, *edits, *cells)}

    return b.Change(choices)


def _part(edit: Any) -> str:
    return str(edit.part)


EXHIBIT = Exhibit(
    compute, show, inputs={"asked": lambda view: view.edits, "n_pads": lambda view: view.pads}
)
