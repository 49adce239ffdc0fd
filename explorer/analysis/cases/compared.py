"""Claims that compare designs: small models trained identically, each with several seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from explorer.analysis.cases.case import Result, ResultRow, judged
from explorer.analysis.cases.training import (
    PRE,
    SEEDS,
    SYMBOLS,
    Learn,
    Seeds,
    SymbolTask,
    TaskTraining,
    above,
    both_neighbours,
    curves_of,
    larger_neighbour,
    mean_and_range,
    next_symbol,
    of_seeds,
    of_tasks,
    same,
    several,
    shuffled,
    symbol_config,
    train,
    two_back,
)
from explorer.runs.passes import Steps
from models.config import ModelConfig

CLOSE = 0.05
"""Losses (nats) and shares that differ by less than this count as equal."""
LEARNT = ("loss_mean", "loss_range", "right", "right_range")


def tying_quality(learn: Learn = train) -> Steps[Result]:
    """One matrix for embedding and output, or two: on a task whose answer is the symbol itself, and
    on one whose answer is another symbol."""
    tasks = {"same": same, "other": next_symbol}
    pair = {"tied": True, "untied": False}
    designs = {name: symbol_config(tie_embeddings=tie, **PRE) for name, tie in pair.items()}
    results = yield from several(_arms(tasks, designs, 60), learn)
    costs = [_loses(results, f"{task}_tied", f"{task}_untied") for task in tasks]
    return _learnt(results, costs, holds=False)


STEPS, LONGER = 200, 800
"""Steps of a training run, and of the longer one that shows whether accuracy still grows."""


def causal_order(learn: Learn = train) -> Steps[Result]:
    """Small models on a task of order, with the causal mask and positions, with one or neither."""
    arms = {
        name: TaskTraining(
            symbol_config(family=family, positions=positions, n_layers=2, **PRE),
            two_back,
            steps,
            rate=5e-3,
        )
        for name, family, positions, steps in (
            ("neither", "encoder-only", "none", STEPS),
            ("mask_only", "decoder-only", "none", STEPS),
            ("both_given", "decoder-only", "sinusoidal", STEPS),
            ("mask_longer", "decoder-only", "none", LONGER),
        )
    }
    results = yield from several(arms, learn)
    rows = [ResultRow(name, mean_and_range(result.right)) for name, result in results.items()]
    neither, mask, both, longer = (result.right for result in results.values())
    helped, grows = min(both) > max(neither), above(longer, mask, 0.05)
    verdict = judged(
        helped and min(mask) > max(both) - 0.1,
        false=helped and max(mask) < (min(neither) + min(both)) / 2 and grows is False,
    )
    between = helped and max(neither) < min(mask) and max(mask) < min(both)
    why = of_seeds(verdict, [grows if between else None])
    numbers = {"steps": STEPS, "more": LONGER}
    return Result(verdict, ("right", "range"), rows, bars="right", why=why, numbers=numbers)


def learned_positions(learn: Learn = train) -> Steps[Result]:
    """Learned against sinusoidal positions: a task of distances, and one of absolute positions."""
    tasks = {"distance": two_back, "place": shuffled}
    kinds = ("sinusoidal", "learned")
    designs = {kind: symbol_config(positions=kind, **PRE) for kind in kinds}
    results = yield from several(_arms(tasks, designs, 200), learn)
    better = [
        above(results[f"{task}_learned"].right, results[f"{task}_sinusoidal"].right, CLOSE)
        for task in tasks
    ]
    return _learnt(results, better)


def _arms(
    tasks: Mapping[str, SymbolTask], designs: Mapping[str, ModelConfig], steps: int
) -> dict[str, TaskTraining]:
    """Every design on every task, at "<task>_<design>"."""
    return {
        f"{task}_{design}": TaskTraining(config, function, steps, 5e-3)
        for task, function in tasks.items()
        for design, config in designs.items()
    }


def _loses(results: Mapping[str, Seeds], one: str, other: str) -> bool | None:
    """Whether `one` has the larger mean loss, by more than CLOSE; None if seeds overlap."""
    return above(results[one].mean, results[other].mean, CLOSE)


def _learnt(
    results: Mapping[str, Seeds], outcomes: Sequence[bool | None], holds: bool = True
) -> Result:
    """A row of LEARNT for each training run, and their losses as curves; the verdict as
    `of_tasks`."""
    verdict, why = of_tasks(outcomes, holds)
    rows = [
        ResultRow(name, (*mean_and_range(seeds.mean), *mean_and_range(seeds.right)))
        for name, seeds in results.items()
    ]
    return Result(verdict, LEARNT, rows, curves_of(results), why=why)


def one_head(learn: Learn = train) -> Steps[Result]:
    """One head against four of the same total width, on one task for each and three seeds."""
    tasks = {"larger": larger_neighbour, "both": both_neighbours}
    sized = partial(symbol_config, vocab_size=SYMBOLS**2, **PRE)
    designs = {str(n_heads): sized(n_heads=n_heads) for n_heads in (1, 4)}
    results = yield from several(_arms(tasks, designs, 250), learn)
    rights = {name: seeds.right for name, seeds in results.items()}
    rows = [
        ResultRow(f"{task}_neighbour", mean_and_range(rights[f"{task}_{n_heads}"]), of=n_heads)
        for task in tasks
        for n_heads in designs
    ]
    verdict, why = of_tasks(
        [above(rights[f"{task}_4"], rights[f"{task}_1"], 0.1) for task in tasks]
    )
    return Result(verdict, ("right", "range"), rows, bars="right", why=why)


RATES = {"low": 3e-3, "high": 2e-2}


def norm_stabilises(learn: Learn = train) -> Steps[Result]:
    """Four layers with pre-norm, with post-norm and without any norm, at two learning rates."""
    designs = {
        "pre": (symbol_config(n_layers=4, **PRE), True),
        "post": (symbol_config(n_layers=4), True),
        "bare": (symbol_config(n_layers=4, norm_placement="pre"), False),
    }
    arms = {
        f"{design}_{rate}": TaskTraining(config, same, 60, RATES[rate], normed=normed)
        for design, (config, normed) in designs.items()
        for rate in RATES
    }
    results = yield from several(arms, learn)
    rows = [
        ResultRow(name, (*mean_and_range(seeds.left), seeds.losses.max(), seeds.learned))
        for name, seeds in results.items()
    ]
    helps, gains = [], []
    for design in ("pre", "post"):
        pairs = [(results[f"{design}_{r}"].learned, results[f"bare_{r}"].learned) for r in RATES]
        clear = any(normed == len(SEEDS) and not bare for normed, bare in pairs)
        helps.append(clear and all(normed >= bare for normed, bare in pairs))
        gains += [normed > bare for normed, bare in pairs]
    verdict = judged(all(helps), false=not any(gains))
    columns = ("loss_after", "range", "loss_highest", "seeds_learned")
    why = of_seeds(verdict, [None if not any(helps) else True])
    return Result(verdict, columns, rows, curves_of(results, True), why=why)


DEPTH, WARM = 8, 50


def warmup(learn: Learn = train) -> Steps[Result]:
    """Deep post-norm at a large rate, with warm-up, and at a small rate; deep pre-norm; three
    seeds."""
    post = TaskTraining(symbol_config(n_layers=DEPTH), same, steps=80, rate=5e-3)
    arms = {
        "post_plain": post,
        "post_warmed": replace(post, warm=WARM),
        "post_small": replace(post, rate=5e-4),
        "pre_plain": replace(post, config=symbol_config(n_layers=DEPTH, **PRE)),
    }
    results = yield from several(arms, learn)
    learned = {name: seeds.learned for name, seeds in results.items()}
    rows = [
        ResultRow(name, (seeds.losses[:, 0].mean(), *mean_and_range(seeds.left), seeds.learned))
        for name, seeds in results.items()
    ]
    needed = not learned["post_plain"] and not learned["post_small"]
    verdict = judged(
        needed and learned["post_warmed"] == learned["pre_plain"] == len(SEEDS),
        false=learned["post_plain"] == len(SEEDS) or not learned["pre_plain"],
    )
    columns = ("loss_before", "loss_after", "range", "seeds_learned")
    return Result(verdict, columns, rows, curves_of(results))
