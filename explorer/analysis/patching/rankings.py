"""Five rankings of the input words by how much a written word depends on them, side by side."""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

from explorer.analysis.patching.gradients import Gradients, gradients
from explorer.analysis.patching.network import Network, contribution_network, rollout_network
from explorer.analysis.patching.patches import Progress
from explorer.analysis.patching.words import Explained, explained
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.trace import Trace

Ranking = Literal["contribution", "rollout", "flow", "times_input", "integrated"]
RANKINGS: tuple[Ranking, ...] = get_args(Ranking)


@dataclass(frozen=True, eq=False)
class Rankings:
    """Scores of the input words for one written word, by ranking.

    contribution and rollout are shares of 1; special tokens and the text generated so far have the
    rest. flow is 0 to 1 for each word, and missing for long sequences; times_input and integrated
    are in nats of log p.
    """

    asked: Explained
    scores: dict[str, Float[np.ndarray, " word"]]
    slopes: Gradients = field(repr=False)


def rank(
    loaded: LoadedModel,
    traced: Trace,
    position: int,
    network: Network | None = None,
    progress: Progress | None = None,
) -> Rankings:
    """All rankings of the input words for the token at one position; `network` is the contribution
    network, if already computed. Raises IndexError and ValueError as `explained`."""
    asked = explained(loaded, traced, position)
    if network is None:
        network = contribution_network(loaded, traced)
    assumed = rollout_network(traced)
    node = network.node("tgt", position)
    words = [network.node(asked.stream, word) for word in asked.words]
    scores = {
        "contribution": network.reached(node)[0][words],
        "rollout": assumed.reached(node)[0][words],
    }
    with suppress(InputProblem):  # not computed for long sequences
        scores["flow"] = assumed.flow(node)[words]
    slopes = gradients(loaded, traced, asked, progress)
    scores |= {"times_input": slopes.times_input, "integrated": slopes.integrated}
    return Rankings(asked, scores, slopes)
