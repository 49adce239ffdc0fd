"""When a head appears in a training."""

from collections.abc import Sequence


def appears(does: Sequence[bool]) -> int | None:
    """The first moment from which on a head does something at all later ones too; None: never."""
    last = next((at for at in reversed(range(len(does))) if not does[at]), -1)
    return last + 1 if last + 1 < len(does) else None
