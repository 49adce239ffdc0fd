"""When a head appears in a training."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from explorer.analysis.atlas.sums import MEASURES, Measure


def appears(does: Sequence[bool]) -> int | None:
    """The first moment from which on a head does something at all later ones too; None: never."""
    last = next((at for at in reversed(range(len(does))) if not does[at]), -1)
    return last + 1 if last + 1 < len(does) else None


def grown(strengths: Float[np.ndarray, "moment measure"]) -> Measure:
    """The measure that grew most from the first moment to the last; never `spread`, which a head
    mostly is before it has learned anything."""
    gain = np.nan_to_num(strengths[-1] - strengths[0], nan=-np.inf)
    gain[MEASURES.index("spread")] = -np.inf
    return MEASURES[int(gain.argmax())]
