"""What the scores would be without the projections W_Q and W_K."""

import math
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from jaxtyping import Float

from explorer.analysis.score.steps import bias_of, site_inputs
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.score import place
from explorer.library import LoadedModel
from explorer.numbers import fixed
from explorer.runs.trace import Trace
from models.hooks import AttentionSite

Scores = Float[np.ndarray, "query key"]


@dataclass(frozen=True, eq=False)
class Raw:
    """X X^T / sqrt(d_model) compared with a head's scores, both [query, key].

    `asymmetry` of each is max |s_ij - s_ji|, None in cross-attention, where queries and keys are
    different tokens.
    """

    unprojected: Scores = field(repr=False)
    projected: Scores = field(repr=False)
    asymmetry: tuple[float, float] | None


def raw(loaded: LoadedModel, trace: Trace, site: AttentionSite, head: int) -> Raw:
    """What the scores would be without W_Q and W_K. Raises IndexError."""
    x, memory = site_inputs(loaded, trace, site)
    unprojected = (x @ memory.T / math.sqrt(x.shape[-1])).numpy()
    projected, biases = trace.activations[site.hook("scores")][head], bias_of(trace, site)
    if biases is not None:  # positional biases come from no projection
        projected = projected - biases[head]
    both = (_asymmetry(unprojected), _asymmetry(projected)) if site.kind == "self" else None
    return Raw(unprojected, projected, both)


def _asymmetry(matrix: Scores) -> float:
    return float(np.abs(matrix - matrix.T).max())


def show(scores: Raw, view: View) -> b.Blocks:
    """Both side by side, and how symmetric they are."""
    yield b.Prose(view.t("score.raw_lead"))
    both = {"score.unprojected": scores.unprojected, "score.projected": scores.projected}
    shown = [(view.t(key), matrix) for key, matrix in both.items()]
    yield place.matrices(view, "raw", shown)
    if scores.asymmetry is not None:
        without, with_both = map(fixed, scores.asymmetry)
        reading = view.t("score.raw_reading", raw=without, projected=with_both)
        yield b.Sentence("aside", reading)
    yield b.Code((raw,), first=True)


EXHIBIT = Exhibit(raw, show, open=partial(place.is_open, "raw"))
