"""Root addresses of earlier versions, in which Heads was at the root."""

from explorer.exhibits.heads.choices import HeadsChoices
from explorer.exhibits.links import State
from explorer.pages.start.choices import StartChoices

POINTING = ("site", "layer", "head", "row", "key", "beside")
"""Choices in such an address that belong to Heads."""


def is_of_heads(state: State) -> bool:
    """Whether the choices belong to Heads, without any choice of Start."""
    if state.of(StartChoices) != StartChoices():
        return False
    plain = State()
    return state.of(HeadsChoices) != HeadsChoices() or any(
        getattr(state, name) != getattr(plain, name) for name in POINTING
    )
