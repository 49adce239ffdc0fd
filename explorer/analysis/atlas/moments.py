"""The training snapshot at which a head appears."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from explorer.analysis.atlas.sums import MEASURES, Measure


def appears(does: Sequence[bool]) -> int | None:
    """The first snapshot from which on a head always shows a behaviour; None for never."""
    last = next((at for at in reversed(range(len(does))) if not does[at]), -1)
    return last + 1 if last + 1 < len(does) else None


def grown(strengths: Float[np.ndarray, "moment measure"]) -> Measure:
    """The measure that grew most from the first snapshot to the last; never `spread`, since most
    heads are spread out before they have learned anything.
    """
    gain = np.nan_to_num(strengths[-1] - strengths[0], nan=-np.inf)
    gain[MEASURES.index("spread")] = -np.inf
    return MEASURES[int(gain.argmax())]
