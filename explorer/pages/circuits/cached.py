"""What the Circuits page computes, cached by `engine.caching`."""

from collections.abc import Callable

import numpy as np

from explorer.analysis.circuits import behaviour as behaving
from explorer.analysis.circuits import by_hand as building
from explorer.analysis.circuits import composition as composing
from explorer.analysis.circuits import induction
from explorer.analysis.circuits import vocabulary as mapping
from explorer.analysis.circuits.chance import COPIES, Chance, by_chance
from explorer.analysis.circuits.rows import Twice, half_for, own_sites, random_twice, said, twice
from explorer.engine import cache
from explorer.engine.caching import cached
from explorer.library import LoadedModel
from explorer.runs.run import run

Progress = Callable[[int, int], object]


@cached
def built() -> LoadedModel:
    """The model with a hand-built circuit."""
    return building.by_hand()


def opened(model: str) -> LoadedModel:
    """A model of the shelf, or the one built by hand."""
    return built() if model == building.NAME else cache.open_model(model)


@cached
def behaviour(model: str, *, progress: Progress | None = None) -> behaving.Looked:
    """The behaviour of every head on synthetic sequences; `progress` is called once, at the end."""
    found = behaving.behaviour(opened(model))
    if progress is not None:
        progress(1, 1)
    return found


def work_of_chance(loaded: LoadedModel) -> int:
    """The cost of `chance` in tokens times parameters."""
    rows = random_twice(loaded).rows
    n_tokens = sum(rows.tokens(stream).numel() for stream in loaded.model.reads)
    return COPIES * n_tokens * sum(each.numel() for each in loaded.model.parameters())


@cached
def chance(model: str, *, progress: Progress | None = None) -> Chance:
    """The best head's score by chance on synthetic sequences; `progress` counts the shuffled
    copies."""
    return by_chance(opened(model), lambda copy: behaving.behaviour(copy).scores, progress)


@cached
def said_twice(model: str, text: str) -> tuple[Twice, bool]:
    """A text's tokens repeated twice, and whether its end was cut off. Raises InputProblem."""
    loaded = opened(model)
    tokens = said(loaded, text)
    most = max(1, half_for(loaded))
    return twice(loaded, [tokens[:most]]), len(tokens) > most


@cached
def on_text(model: str, text: str) -> behaving.Looked:
    """The behaviour of every head on a repeated text. Raises InputProblem."""
    return behaving.looked(opened(model), said_twice(model, text)[0])


@cached
def pattern(model: str, text: str, layer: int, head: int) -> tuple[np.ndarray, np.ndarray]:
    """One head's weights and mask on a repeated text, each [query, key]. Raises InputProblem."""
    loaded = opened(model)
    site = own_sites(loaded)[layer]
    hooks = site.hook("pattern"), site.hook("mask")
    kept = run(loaded.model, said_twice(model, text)[0].rows, set(hooks))
    weights, mask = (kept[hook][0, head].numpy() for hook in hooks)
    return weights, mask


@cached
def circuit(model: str, text: str | None, *, progress: Progress | None = None) -> induction.Circuit:
    """The induction circuit on synthetic sequences, or on a repeated text. Raises InputProblem."""
    if text is None:
        drawn = chance(model, progress=progress)
        return induction.circuit(opened(model), behaviour(model), chance=drawn, tell=progress)
    found, given = on_text(model, text), said_twice(model, text)[0]
    return induction.circuit(opened(model), found, given, tell=progress)


@cached
def composition(model: str, *, progress: Progress | None = None) -> composing.Composition | None:
    """Composition scores of all heads; None for a model with too many heads."""
    loaded = opened(model)
    if sum(site.n_heads for site in own_sites(loaded)) > composing.MOST_HEADS:
        return None
    return composing.composition(loaded, progress)


@cached
def vocabulary(
    model: str, layer: int, head: int, kind: mapping.Map, *, progress: Progress | None = None
) -> mapping.VocabularyMap:
    """A head's QK or OV circuit over the vocabulary. Raises ValueError for OV in a model without
    logits."""
    loaded = opened(model)
    return mapping.vocabulary_map(loaded, own_sites(loaded)[layer], head, kind, progress)
