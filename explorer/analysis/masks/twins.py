"""What a missing mask is worth in training, and what it costs: two models that differ in it."""

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.analysis.masks.forced import forced
from explorer.library import LoadedModel
from explorer.runs.edits import Edit, MaskSwitch
from explorer.runs.trace import trace

NO_CAUSAL: tuple[Edit, ...] = (MaskSwitch("causal", False),)
RIGHT, CHEAT = "twin-right", "twin-no-causal"
"""Shipped twins: the same data, seed and steps, with and without the causal mask."""
LONGEST = 22
"""Characters of the longest sentence that they were trained on, as their recipes say."""


@dataclass(frozen=True)
class Twin:
    """One twin on one sentence: mean loss per token (nats) while it reads given words, and what
    it writes by itself, both under the masks that it learned with."""

    name: str
    loss: float
    writes: str


def twins(
    right: LoadedModel, cheat: LoadedModel, text: str, words: str | None = None
) -> tuple[Twin, Twin]:
    """Both twins read `words` (None: what the right one writes) and then write for themselves.

    Raises InputProblem as `trace`.
    """
    words = words or trace(right, text).output
    return _twin(right, text, words, ()), _twin(cheat, text, words, NO_CAUSAL)


def _twin(loaded: LoadedModel, text: str, words: str, masks: Sequence[Edit]) -> Twin:
    read = forced(loaded, trace(loaded, text, words), masks)
    return Twin(loaded.name, read.loss_after, trace(loaded, text, edits=masks).output)
