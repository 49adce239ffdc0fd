"""The mask changes offered in the picture, one click each."""

from typing import Literal

from explorer.exhibits import View
from explorer.runs.edits import Edit, MaskSize, MaskSwitch

MaskName = Literal["trained", "causal", "alone"]
CHANGES: dict[MaskName, tuple[Edit, ...]] = {
    "trained": (),
    "causal": (MaskSwitch("causal", False),),
    "alone": (MaskSize("window", 1),),
}
"""As the model was trained; without its causal mask; every token attends to itself alone."""


def offered(view: View) -> tuple[MaskName, ...]:
    """The masks available for this model; only a decoder has a causal mask to disable."""
    causal = view.loaded.model.last_stack.causal
    return tuple(name for name in CHANGES if name != "causal" or causal)


def in_force(edits: tuple[Edit, ...]) -> str:
    """The name of the active change, "" if it is none of these."""
    changed = tuple(edit for edit in edits if isinstance(edit, MaskSwitch | MaskSize))
    return next((name for name, change in CHANGES.items() if change == changed), "")


def with_mask(edits: tuple[Edit, ...], name: MaskName) -> tuple[Edit, ...]:
    """`edits` with this change instead of all other mask rules."""
    others = (edit for edit in edits if not isinstance(edit, MaskSwitch | MaskSize))
    return (*others, *CHANGES[name])
