"""Compare training runs: their settings, and whether they differ by more than their seeds do."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from explorer.training.runs import TrainingRun
from explorer.training.setup import Setup

Measure = Literal["loss", "forced", "free", "rows"]
LOWER_IS_BETTER: frozenset[Measure] = frozenset({"loss"})
Outcome = Literal["first", "second", "band", "one_seed", "nothing"]


@dataclass(frozen=True)
class Arm:
    """Runs that differ only in their seed, the longest of each seed. `differs` is how they differ
    from the other arms: settings by name, and the faults that were planted during training, as
    (step, name)."""

    runs: tuple[TrainingRun, ...]
    differs: tuple[tuple[str, Any], ...]
    faults: tuple[tuple[int, str], ...]


@dataclass(frozen=True, eq=False)
class Band:
    """A measure at the steps that every run of an arm has: mean, lowest, highest."""

    steps: Float[np.ndarray, " step"]
    mean: Float[np.ndarray, " step"]
    low: Float[np.ndarray, " step"]
    high: Float[np.ndarray, " step"]
    n_seeds: int


@dataclass(frozen=True)
class Difference:
    """Two arms at one step. `outcome`: which is better, if the bands of their seeds do not overlap;
    "band" if they overlap, "one_seed" if one of them has no band, "nothing" if no step was measured
    in both. `ranges` are (lowest, mean, highest) of each. `chance` is the share of random divisions
    of the same seeds into two arms in which they do not overlap either (permutation test)."""

    outcome: Outcome
    step: int = 0
    ranges: tuple[tuple[float, float, float], ...] = ()
    chance: float = 1.0


def arms(runs: Sequence[TrainingRun]) -> list[Arm]:
    """The runs grouped by setup, ignoring the seed, in the order of the first of each group."""
    groups: dict[tuple[Setup, tuple[tuple[int, str], ...]], list[TrainingRun]] = {}
    for run in runs:
        faults = tuple((step, name) for step, name, on in run.faults if on and step)
        groups.setdefault((replace(run.setup, seed=1), faults), []).append(run)
    setups = [setup for setup, _ in groups]
    names = [
        name
        for name in Setup.__dataclass_fields__
        if name not in ("text", "seed") and len({getattr(config, name) for config in setups}) > 1
    ]
    return [
        Arm(_one_per_seed(members), tuple((name, getattr(setup, name)) for name in names), faults)
        for (setup, faults), members in groups.items()
    ]


def _one_per_seed(runs: Sequence[TrainingRun]) -> tuple[TrainingRun, ...]:
    """The longest run of each seed: equal runs are no further evidence."""
    return tuple({run.setup.seed: run for run in sorted(runs, key=lambda run: run.step)}.values())


def band(arm: Arm, measure: Measure) -> Band:
    """The measure of an arm's runs, at the steps that all begun runs have."""
    curves = [
        {score.step: getattr(score, measure) for score in run.scores}
        for run in arm.runs
        if run.scores
    ]
    steps = sorted(set.intersection(*map(set, curves))) if curves else []
    values = np.array([[scores[step] for step in steps] for scores in curves or [{}]], float)
    return Band(np.array(steps, float), values.mean(0), values.min(0), values.max(0), len(curves))


def difference(first: Band, second: Band, measure: Measure) -> Difference:
    """Two arms at the last step at which both were measured."""
    common = sorted(set(first.steps.tolist()) & set(second.steps.tolist()))
    if not common:
        return Difference("nothing")
    step = common[-1]
    ranges = tuple(_at(arm, step) for arm in (first, second))
    (low, mean, high), (other_low, other_mean, other_high) = ranges
    if min(first.n_seeds, second.n_seeds) < 2:
        outcome: Outcome = "one_seed"
    elif high < other_low or other_high < low:
        first_is_lower = mean < other_mean
        outcome = "first" if first_is_lower == (measure in LOWER_IS_BETTER) else "second"
    else:
        outcome = "band"
    n_seeds = first.n_seeds, second.n_seeds
    return Difference(outcome, int(step), ranges, 2 / comb(sum(n_seeds), n_seeds[0]))


def _at(band: Band, step: float) -> tuple[float, float, float]:
    at = band.steps.tolist().index(step)
    return float(band.low[at]), float(band.mean[at]), float(band.high[at])
