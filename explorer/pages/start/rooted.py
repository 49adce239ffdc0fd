"""Addresses of the root from the versions in which Heads was there."""

from explorer.exhibits.links import State
from explorer.pages.heads.choices import HeadsChoices
from explorer.pages.start.choices import StartChoices

POINTING = ("site", "layer", "head", "row", "key", "beside")
"""Choices that such an address made for Heads."""


def is_of_heads(state: State) -> bool:
    """Whether the choices are those of Heads, and nothing says what is open on Start."""
    if state.of(StartChoices) != StartChoices():
        return False
    plain = State()
    return state.of(HeadsChoices) != HeadsChoices() or any(
        getattr(state, name) != getattr(plain, name) for name in POINTING
    )
