"""Claims that compare two designs: small models trained identically, each with several seeds."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from explorer.analysis.claims.card import Claim, Result, ResultRow, judged
from explorer.analysis.claims.training import (
    PRE,
    SEEDS,
    Learn,
    SymbolTask,
    TaskTraining,
    TrainingResult,
    above,
    curves_of,
    larger_neighbour,
    mean_and_range,
    next_symbol,
    of_seeds,
    same,
    several,
    shuffled,
    symbol_config,
    times_here,
    train,
    two_back,
)
from explorer.analysis.model.parameters import numbers_of, on_paper
from explorer.library import LoadedModel
from explorer.runs.passes import Steps
from explorer.runs.trace import Trace
from models.config import ModelConfig
from models.transformer import build_model

CLOSE = 0.05
"""Losses (nats) and shares that differ by less than this count as equal."""


def swiglu_equal(loaded: LoadedModel, traced: Trace, learn: Learn = train) -> Steps[Result]:
    """GELU of width 96 against SwiGLU of width 64: 2 x 96 = 3 x 64, without biases; three seeds.

    "Beats" is a smaller loss with every seed than with any seed of the other.
    """
    configs = {
        "gelu_net": symbol_config(ffn="gelu", d_ff=96, bias=False),
        "swiglu_net": symbol_config(ffn="swiglu", d_ff=64, bias=False),
    }
    rows, (gelu, swiglu), numbers = yield from _losses_left(configs, learn)
    verdict = judged(max(swiglu) < min(gelu), false=min(swiglu) > max(gelu))
    why = (verdict, "losses")
    return Result(verdict, SIZED, rows, bars="loss_after", why=why, numbers=numbers)


def rms_quality(loaded: LoadedModel, traced: Trace, learn: Learn = train) -> Steps[Result]:
    """The same pre-norm model with either norm in its blocks, three seeds.

    "Hardly" is a difference of at most CLOSE between any seed of one and any of the other; "false"
    is a larger difference between the means, with every seed of one beyond every seed of the other.
    Otherwise the variation among seeds is too large to decide.
    """
    configs = {
        "layernorm_net": symbol_config(**PRE),
        "rmsnorm_net": symbol_config(norm="rmsnorm", **PRE),
    }
    rows, (layer, rms), numbers = yield from _losses_left(configs, learn)
    means_apart = abs(float(np.mean(layer)) - float(np.mean(rms)))
    disjoint = max(layer) < min(rms) or max(rms) < min(layer)
    farthest = max(max(layer) - min(rms), max(rms) - min(layer))
    verdict = judged(farthest <= CLOSE, false=disjoint and means_apart > CLOSE)
    numbers |= {"apart": means_apart, "spread": max(np.ptp(layer), np.ptp(rms))}
    why = (verdict, "losses")
    return Result(verdict, SIZED, rows, bars="loss_after", why=why, numbers=numbers)


SIZED = ("parameters", "loss_after", "range")


def _losses_left(
    configs: Mapping[str, ModelConfig], learn: Learn
) -> Steps[tuple[tuple[ResultRow, ...], list[list[float]], dict[str, float]]]:
    """(a row of SIZED for each config; the final loss per seed; the numbers for the text)."""
    arms = {
        name: TaskTraining(config, larger_neighbour, 200, 5e-3) for name, config in configs.items()
    }
    rows, lefts = [], []
    numbers: dict[str, float] = {}
    for name, tries in (yield from several(arms, learn)).items():
        lefts.append([each.left for each in tries])
        mean, spread = mean_and_range(lefts[-1])
        size = numbers_of(on_paper(partial(build_model, configs[name])))
        rows.append(ResultRow(name, (size, mean, spread)))
        numbers |= {name: mean, f"{name}_range": spread}
    return tuple(rows), lefts, numbers


def tying_quality(loaded: LoadedModel, traced: Trace, learn: Learn = train) -> Steps[Result]:
    """One matrix for embedding and output, or two: on a task whose answer is the symbol itself, and
    on one whose answer is another symbol.

    Tying costs something if the mean loss over the whole training is larger by more than CLOSE; if
    not with every seed, the verdict is "depends".
    """
    found = yield from several(
        {
            f"{name}_{kind}": TaskTraining(symbol_config(tie_embeddings=tie, **PRE), task, 60, 5e-3)
            for name, task in (("same", same), ("other", next_symbol))
            for kind, tie in (("tied", True), ("untied", False))
        },
        learn,
    )
    costs = [_loses(found[f"{name}_tied"], found[f"{name}_untied"]) for name in ("same", "other")]
    verdict = judged(all(each is False for each in costs), false=all(costs))
    numbers = _numbers(found)
    first = {name: [each.losses[0] for each in tries] for name, tries in found.items()}
    for name in ("same", "other"):
        numbers[f"{name}_right"] = float(np.mean([each.right for each in found[f"{name}_tied"]]))
        numbers[f"{name}_tied_first"] = float(np.mean(first[f"{name}_tied"]))
    copies = max(first["same_tied"]) < min(*first["same_untied"], *first["other_tied"])
    why = (of_seeds(verdict, costs), "losses", *(["start"] if copies else []))
    return Result(verdict, LEARNT, _rows(found), curves_of(found), why=why, numbers=numbers)


def no_positions(loaded: LoadedModel, traced: Trace, learn: Learn = train) -> Steps[Result]:
    """Sinusoidal positions or none: on a task that depends on order, and on one that does not.

    "More slowly" is a mean loss over the whole training that is larger by more than CLOSE; if not
    with every seed, the verdict is "depends".
    """
    found = yield from _placed(
        {"order": two_back, "count": times_here}, "sinusoidal", "none", learn
    )
    slower = [
        _loses(found[f"{name}_none"], found[f"{name}_sinusoidal"]) for name in ("order", "count")
    ]
    verdict = judged(all(slower), false=all(each is False for each in slower))
    numbers, why = _numbers(found), (of_seeds(verdict, slower), "losses")
    return Result(verdict, LEARNT, _rows(found), curves_of(found), why=why, numbers=numbers)


def learned_positions(loaded: LoadedModel, traced: Trace, learn: Learn = train) -> Steps[Result]:
    """Learned against sinusoidal positions: a task of distances, and one of absolute positions.

    "More" is a mean accuracy that is higher by more than CLOSE; if not with every seed, the verdict
    is "depends".
    """
    tasks = {"distance": two_back, "place": shuffled}
    found = yield from _placed(tasks, "sinusoidal", "learned", learn)
    better = []
    for name in tasks:
        sines, learned = (
            [each.right for each in found[f"{name}_{kind}"]] for kind in ("sinusoidal", "learned")
        )
        better.append(above(learned, sines, CLOSE))
    verdict = judged(all(better), false=all(each is False for each in better))
    rights = {name: float(np.mean([each.right for each in tries])) for name, tries in found.items()}
    why = (of_seeds(verdict, better), "shares")
    return Result(verdict, LEARNT, _rows(found), curves_of(found), why=why, numbers=rights)


LEARNT = ("loss_mean", "loss_range", "right", "right_range")


def _placed(
    tasks: Mapping[str, SymbolTask], one: str, other: str, learn: Learn
) -> Steps[dict[str, list[TrainingResult]]]:
    """The results of two kinds of positions on each task, at "<task>_<kind>"."""
    arms = {
        f"{name}_{kind}": TaskTraining(symbol_config(positions=kind, **PRE), task, 200, 5e-3)
        for name, task in tasks.items()
        for kind in (one, other)
    }
    return (yield from several(arms, learn))


def _loses(these: list[TrainingResult], those: list[TrainingResult]) -> bool | None:
    """Whether `these` have the larger mean loss, by more than CLOSE; None if seeds overlap."""
    return above([each.mean for each in these], [each.mean for each in those], CLOSE)


def _rows(found: Mapping[str, list[TrainingResult]]) -> tuple[ResultRow, ...]:
    """A row of LEARNT for each training run."""
    return tuple(
        ResultRow(
            name,
            (
                *mean_and_range([each.mean for each in tries]),
                *mean_and_range([each.right for each in tries]),
            ),
        )
        for name, tries in found.items()
    )


def _numbers(found: Mapping[str, list[TrainingResult]]) -> dict[str, float]:
    """The mean loss over all steps and seeds, for the text."""
    return {name: float(np.mean([each.mean for each in tries])) for name, tries in found.items()}


RATES = {"low": 3e-3, "high": 2e-2}


def norm_stabilises(loaded: LoadedModel, traced: Trace, learn: Learn = train) -> Steps[Result]:
    """Four layers with pre-norm, with post-norm and without any norm, at two learning rates.

    A placement stabilizes training if it learns, with every seed, at a rate at which the model
    without norms learns with none, and at every rate at which that model learns. "True" requires
    this of both placements; "false" requires that neither learns with more seeds than the model
    without norms at any rate.
    """
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
    found = yield from several(arms, learn)
    rows, learned = [], {}
    for name, tries in found.items():
        highest = max(max(each.losses) for each in tries)
        learned[name] = sum(each.learned for each in tries)
        left = mean_and_range([each.left for each in tries])
        rows.append(ResultRow(name, (*left, highest, learned[name])))
    helps, gains = [], []
    for design in ("pre", "post"):
        pairs = [(learned[f"{design}_{rate}"], learned[f"bare_{rate}"]) for rate in RATES]
        clear = any(normed == len(SEEDS) and not bare for normed, bare in pairs)
        helps.append(clear and all(normed >= bare for normed, bare in pairs))
        gains += [normed > bare for normed, bare in pairs]
    verdict = judged(all(helps), false=not any(gains))
    numbers = {row.name: row.values[0] for row in rows}
    columns = ("loss_after", "range", "loss_highest", "seeds_learned")
    depends = "depends_pre" if helps[0] else "depends_post" if helps[1] else "seeds"
    why = (depends if verdict == "depends" else verdict, "losses")
    curve = replace(curves_of(found), log_y=True)
    return Result(verdict, columns, tuple(rows), curve, why=why, numbers=numbers)


COMPARED = (
    Claim("tying_quality", "counting", tying_quality, own=False, slow=True),
    Claim("no_positions", "positions", no_positions, own=False, slow=True),
    Claim("learned_positions", "positions", learned_positions, own=False, slow=True),
    Claim("norm_stabilises", "blocks", norm_stabilises, own=False, slow=True),
    Claim("swiglu_equal", "blocks", swiglu_equal, own=False, slow=True),
    Claim("rms_quality", "blocks", rms_quality, own=False, slow=True),
)
