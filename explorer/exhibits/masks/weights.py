"""The weights of one head as a heatmap that gives the reason for every blocked cell."""

import numpy as np

from explorer.exhibits import View, saying
from explorer.exhibits.reasons import BLOCKERS
from explorer.figures.heatmap import weights
from explorer.figures.matrix import Matrix
from explorer.runs.trace import Trace
from models.hooks import AttentionSite


def weights_of(
    view: View, trace: Trace, site: AttentionSite, head: int, codes: np.ndarray
) -> Matrix:
    """One head of a run; `codes` [query, key] are its `blocker_codes`."""
    return weights(
        trace.pattern(site.name)[head],
        trace.mask(site.name)[head],
        blocked_labels=saying.blocker_words(view, np.array(BLOCKERS)[codes]),
        words=view.words("figures.heatmap"),
        **saying.site_axes(view, site, trace),
    )
