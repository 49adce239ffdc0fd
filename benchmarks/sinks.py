"""Alignment error on the hand-made links, with attention sinks and without them.

    python -m benchmarks.sinks

Sinks are found in each head by evidence. For comparison, the last rows leave out classes of keys of
every head without any.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import numpy as np

from explorer.analysis.alignment.aligned import align
from explorer.analysis.alignment.links import score
from explorer.analysis.alignment.reading import read, read_back
from explorer.analysis.alignment.study import drawn_by_hand, known_by_hand, other_direction
from explorer.analysis.heads import sinks
from explorer.analysis.heads.sinks import CLASSES, KeyClass, key_classes, renormalised, sinks_of
from explorer.engine import cache
from explorer.engine.models import ranking
from explorer.library import LoadedModel
from explorer.runs.trace import Trace, trace

MODELS = ("en-zh", "zh-en")
Leave = Callable[[LoadedModel, Trace], Trace]


def leave_out(classes: tuple[KeyClass, ...], loaded: LoadedModel, traced: Trace) -> Trace:
    """The run without these classes of keys in any head of cross-attention."""
    patterns = {}
    for site in traced.sites_of("cross"):
        such = key_classes(traced, site.key_stream)[[CLASSES.index(name) for name in classes]]
        left_out = np.broadcast_to(such.any(0), (site.n_heads, such.shape[1]))
        patterns[site.hook("pattern")] = renormalised(traced.pattern(site.name), left_out)
    return replace(traced, activations=traced.activations | patterns)


WAYS: dict[str, Leave] = {
    "all keys": lambda loaded, traced: traced,
    "without sinks": sinks.without_sinks,
    "without end and punctuation": partial(leave_out, ("end", "punctuation")),
    "without the first key": partial(leave_out, ("first",)),
}


def main() -> None:
    """Print a table of error rates, and where the weight of cross-attention lies."""
    for name in MODELS:
        back = other_direction(name, cache.translators(cache.models()))
        assert back is not None
        models = [cache.open_model(model) for model in (name, back)]
        aligners, drawn = ranking(name, back), drawn_by_hand(name)
        for way, leave in WAYS.items():
            with patch.object(sinks, "without_sinks", leave):
                readings = [*read(models[0], [gold.pair for gold in drawn], without_sinks=True)]
                backs = [*read_back(models[1], readings, without_sinks=True)]
            known = [known_by_hand(gold, own) for gold, own in zip(drawn, readings, strict=True)]
            triples = zip(readings, backs, known, strict=True)
            triples = [triple for triple in triples if triple[2] is not None]
            errors = []
            for aligner in (aligners.best, aligners.mean):
                links = [align(own, reverse, aligner).links for own, reverse, _ in triples]
                errors.append(score(links, [truth for _, _, truth in triples]).error)
            print(
                f"{name}  {way}: best {errors[0]:.3f}, mean {errors[1]:.3f}, {len(triples)} pairs"
            )
        found = [
            sinks_of(models[0], traced, site)
            for traced in (trace(models[0], *gold.pair) for gold in drawn)
            for site in traced.sites_of("cross")
        ]
        n_patterns = sum(each.is_sink.shape[1] for each in found)
        n_sinks = sum(int(each.is_sink.sum()) for each in found)
        print(f"{name}  {n_sinks} sinks in {n_patterns} patterns of cross-attention")
        for kind in ("first", "end", "punctuation"):
            at = CLASSES.index(kind)
            share, chance = (
                np.nanmean([getattr(each, what)[at] for each in found])
                for what in ("share", "chance")
            )
            print(f"{name}  weight on {kind}: {share:.1%}, uniform {chance:.1%}")


if __name__ == "__main__":
    main()
