"""Gradients of a written word with respect to the input: gradient x input, integrated gradients.

gradient x input: the embedding of a word times the gradient of log p there; right to first order.
integrated gradients: the mean gradient on the straight path from a baseline to the embeddings,
times the path. Its parts add up to the difference of log p between both ends, which is tested here
and displayed. Sundararajan et al. 2017, "Axiomatic Attribution for Deep Networks", §3.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.analysis.patching.patches import Progress
from explorer.analysis.patching.words import Explained, no_word, stack_of
from explorer.library import LoadedModel
from explorer.runs.rerun import edits_of, rows_of
from explorer.runs.trace import Trace
from models.hooks import Edits, visiting

POINTS = 12
"""Points on each segment of the path at which gradients are taken."""
MOST_ROUNDS = 14
"""How often segments are halved: each has a known sum, and is halved while the estimate is off."""
CLOSED = 0.0025
"""The error allowed per segment, as a share of the whole difference (of 1 nat, if larger)."""
MAX_ROWS, MAX_TOKENS = 24, 1024  # of one pass, whose backward pass takes memory


@dataclass(frozen=True, eq=False)
class Gradients:
    """Both attributions of the input words, in nats of log p(token).

    `logprob` is that of the run, `baseline` that without any of the words; `gap` is the error of
    the sum of `integrated`, from gradients at `n_points`.
    """

    times_input: Float[np.ndarray, " word"]
    integrated: Float[np.ndarray, " word"]
    logprob: float
    baseline: float
    n_points: int

    @property
    def gap(self) -> float:
        """The sum of `integrated` minus its exact value."""
        return float(self.integrated.sum()) - (self.logprob - self.baseline)


def gradients(
    loaded: LoadedModel, traced: Trace, asked: Explained, progress: Progress | None = None
) -> Gradients:
    """Both attributions, under the Trace's edits. The baseline replaces every word with
    `words.no_word`; special tokens, positions and the target of a translation stay.

    `progress(done, total)` counts the points of the path; refining the path restarts from 0.
    """
    words, hook = list(asked.words), stack_of(loaded, asked.stream).hook("embed")
    own = _embedded(loaded, traced, hook)
    baseline = own.clone()
    baseline[words] = no_word(loaded, asked.stream)
    ends, slopes = _along(loaded, traced, asked, hook, torch.stack([baseline, own]))
    difference = ends[1] - ends[0]
    way = own - baseline
    times_input = (slopes[1] * own.double()).sum(-1)[words].numpy()
    nodes, weights = np.polynomial.legendre.leggauss(POINTS)
    known, stretches = {0.0: ends[0], 1.0: ends[1]}, [(0.0, 1.0)]
    integrated, n_points = np.zeros(len(words)), 0
    for turn in range(MOST_ROUNDS):
        at = np.array([[*(a + (b - a) * (nodes + 1) / 2), (a + b) / 2] for a, b in stretches])
        points = baseline + torch.tensor(at.reshape(-1, 1, 1), dtype=own.dtype) * way
        logprobs, slopes = _along(loaded, traced, asked, hook, points, progress)
        n_points += at.size
        along = (slopes * way.double()).sum(-1)[:, words].numpy()  # [point, word]
        halved = []
        for (a, b), place, found, each in zip(
            stretches,
            at,
            np.split(np.array(logprobs), len(stretches)),
            np.split(along, len(stretches)),
            strict=True,
        ):
            known[place[-1]] = found[-1]
            part = (b - a) / 2 * weights @ each[:-1]
            missed = abs(part.sum() - (known[b] - known[a]))
            if turn + 1 < MOST_ROUNDS and missed > CLOSED * max(1.0, abs(difference)):
                halved += [(a, place[-1]), (place[-1], b)]
            else:
                integrated += part
        if not halved:
            break
        stretches = halved
    return Gradients(times_input, integrated, ends[1], ends[0], n_points)


def _embedded(loaded: LoadedModel, traced: Trace, hook: str) -> Tensor:
    """The scaled embeddings of the run [pos, d_model]."""
    return torch.tensor(traced.activations[hook])


def _along(
    loaded: LoadedModel,
    traced: Trace,
    asked: Explained,
    hook: str,
    points: Tensor,
    progress: Progress | None = None,
) -> tuple[list[float], Float[Tensor, "point pos d_model"]]:
    """log p(token) at each of `points` [point, pos, d_model], embeddings of one stream, and its
    gradient there, in float64."""
    logprobs: list[float] = []
    slopes: list[Tensor] = []
    n_tokens = len(traced.src_tokens) + len(traced.tgt_tokens)
    size = max(1, min(MAX_ROWS, MAX_TOKENS // n_tokens))
    for start in range(0, len(points), size):
        # The caller may be in inference or no-grad mode; neither records a graph.
        with torch.inference_mode(False), torch.enable_grad():
            leaf = points[start : start + size].clone().requires_grad_(True)
            given = Edits({hook: partial(_instead, leaf)})
            with visiting(edits_of(traced).then(given)):
                logits = loaded.model.read(rows_of(traced).select([0] * len(leaf)))
            found = logits[:, asked.position].double().log_softmax(-1)[:, asked.token]
            (slope,) = torch.autograd.grad(found.sum(), leaf)
        logprobs += found.tolist()
        slopes.append(slope.double())
        if progress is not None:
            progress(len(logprobs), len(points))
    return logprobs, torch.cat(slopes)


def _instead(leaf: Tensor, embedded: Tensor) -> Tensor:
    return leaf.to(embedded.dtype)
