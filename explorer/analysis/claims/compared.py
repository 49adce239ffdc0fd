"""Claims that compare two designs: small models trained alike, each with several seeds."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from explorer.analysis.claims.card import Claim, Finding, FractionDone, ResultRow, judged
from explorer.analysis.claims.training import (
    PRE,
    Learn,
    Learned,
    SymbolTask,
    Training,
    curves_of,
    larger_neighbour,
    mean_and_range,
    next_symbol,
    same,
    several,
    shuffled,
    symbol_config,
    times_here,
    train,
    two_back,
)
from explorer.analysis.machine.parameters import numbers_of, on_paper
from explorer.library import LoadedModel
from explorer.runs.trace import Trace
from models.config import ModelConfig
from models.transformer import build_model

CLOSE = 0.05
"""Losses (nats) and shares that differ by less count as equal."""


def swiglu_equal(
    loaded: LoadedModel, traced: Trace, progress: FractionDone, learn: Learn = train
) -> Finding:
    """GELU 96 wide against SwiGLU 64 wide: 2 x 96 = 3 x 64, without biases; three seeds.

    "Beats" is a smaller loss with every seed than any of the other's.
    """
    configs = {
        "gelu_net": symbol_config(ffn="gelu", d_ff=96, bias=False),
        "swiglu_net": symbol_config(ffn="swiglu", d_ff=64, bias=False),
    }
    rows, (gelu, swiglu), numbers = _losses_left(configs, learn, progress)
    verdict = judged(max(swiglu) < min(gelu), false=min(swiglu) > max(gelu))
    return Finding(verdict, SIZED, rows, bars="loss_after", why=(verdict,), numbers=numbers)


def rms_quality(
    loaded: LoadedModel, traced: Trace, progress: FractionDone, learn: Learn = train
) -> Finding:
    """The same pre-norm model with either norm in its blocks, three seeds.

    "Hardly" is a difference of at most CLOSE between any seed of one and any of the other; "false"
    is one of more than that between the means, with every seed of one beyond every seed of the
    other. Where the seeds differ more among themselves, they cannot tell.
    """
    configs = {
        "layernorm_net": symbol_config(**PRE),
        "rmsnorm_net": symbol_config(norm="rmsnorm", **PRE),
    }
    rows, (layer, rms), numbers = _losses_left(configs, learn, progress)
    means_apart = abs(float(np.mean(layer)) - float(np.mean(rms)))
    disjoint = max(layer) < min(rms) or max(rms) < min(layer)
    farthest = max(max(layer) - min(rms), max(rms) - min(layer))
    verdict = judged(farthest <= CLOSE, false=disjoint and means_apart > CLOSE)
    numbers |= {"apart": means_apart, "spread": max(np.ptp(layer), np.ptp(rms))}
    return Finding(verdict, SIZED, rows, bars="loss_after", why=(verdict,), numbers=numbers)


SIZED = ("parameters", "loss_after", "range")


def _losses_left(
    configs: Mapping[str, ModelConfig], learn: Learn, progress: FractionDone
) -> tuple[tuple[ResultRow, ...], list[list[float]], dict[str, float]]:
    """(a row of SIZED for each config; the loss left with every seed; the numbers for words)."""
    arms = {name: Training(config, larger_neighbour, 200, 5e-3) for name, config in configs.items()}
    rows, lefts = [], []
    numbers: dict[str, float] = {}
    for name, tries in several(arms, learn, progress).items():
        lefts.append([each.left for each in tries])
        mean, spread = mean_and_range(lefts[-1])
        size = numbers_of(on_paper(partial(build_model, configs[name])))
        rows.append(ResultRow(name, (size, mean, spread)))
        numbers |= {name: mean, f"{name}_range": spread}
    return tuple(rows), lefts, numbers


def tying_quality(
    loaded: LoadedModel, traced: Trace, progress: FractionDone, learn: Learn = train
) -> Finding:
    """One matrix for embedding and output, or two: where the answer is the symbol itself, and where
    it is another one.

    It costs something where the loss over the whole training is larger with every seed, and by more
    than CLOSE.
    """
    found = several(
        {
            f"{name}_{kind}": Training(symbol_config(tie_embeddings=tie, **PRE), task, 60, 5e-3)
            for name, task in (("same", same), ("other", next_symbol))
            for kind, tie in (("tied", True), ("untied", False))
        },
        learn,
        progress,
    )
    costs = [
        _clearly_above(found[f"{name}_tied"], found[f"{name}_untied"]) for name in ("same", "other")
    ]
    verdict = judged(not any(costs), false=all(costs))
    numbers = _numbers(found)
    first = {name: [each.losses[0] for each in tries] for name, tries in found.items()}
    for name in ("same", "other"):
        numbers[f"{name}_right"] = float(np.mean([each.right for each in found[f"{name}_tied"]]))
        numbers[f"{name}_tied_first"] = float(np.mean(first[f"{name}_tied"]))
    copies = max(first["same_tied"]) < min(*first["same_untied"], *first["other_tied"])
    why = (verdict, "losses", "start") if copies else (verdict, "losses")
    return Finding(verdict, LEARNT, _rows(found), curves_of(found), why=why, numbers=numbers)


def no_positions(
    loaded: LoadedModel, traced: Trace, progress: FractionDone, learn: Learn = train
) -> Finding:
    """Sinusoidal positions or none: on a task of order, and on one in which order means nothing.

    "More slowly" is a larger loss over the whole training with every seed, by more than CLOSE.
    """
    found = _placed({"order": two_back, "count": times_here}, "sinusoidal", "none", learn, progress)
    slower = [
        _clearly_above(found[f"{name}_none"], found[f"{name}_sinusoidal"])
        for name in ("order", "count")
    ]
    verdict = judged(all(slower), false=not any(slower))
    numbers, why = _numbers(found), (verdict, "losses")
    return Finding(verdict, LEARNT, _rows(found), curves_of(found), why=why, numbers=numbers)


def learned_positions(
    loaded: LoadedModel, traced: Trace, progress: FractionDone, learn: Learn = train
) -> Finding:
    """Learned positions against sinusoidal ones: a task of distance, and one of places.

    "More" is a larger share right with every seed, by more than CLOSE.
    """
    tasks = {"distance": two_back, "place": shuffled}
    found = _placed(tasks, "sinusoidal", "learned", learn, progress)
    better = []
    for name in tasks:
        sines, learned = (
            [each.right for each in found[f"{name}_{kind}"]] for kind in ("sinusoidal", "learned")
        )
        better.append(min(learned) > max(sines) and np.mean(learned) - np.mean(sines) > CLOSE)
    verdict = judged(all(better), false=not any(better))
    rights = {name: float(np.mean([each.right for each in tries])) for name, tries in found.items()}
    why = (verdict, "shares")
    return Finding(verdict, LEARNT, _rows(found), curves_of(found), why=why, numbers=rights)


LEARNT = ("loss_mean", "loss_range", "right", "right_range")


def _placed(
    tasks: Mapping[str, SymbolTask], one: str, other: str, learn: Learn, progress: FractionDone
) -> dict[str, list[Learned]]:
    """What two kinds of positions reach on each task, at "<task>_<kind>"."""
    arms = {
        f"{name}_{kind}": Training(symbol_config(positions=kind, **PRE), task, 200, 5e-3)
        for name, task in tasks.items()
        for kind in (one, other)
    }
    return several(arms, learn, progress)


def _clearly_above(these: list[Learned], those: list[Learned]) -> bool:
    """Whether the mean loss is larger with every seed, and by more than CLOSE on average."""
    larger, smaller = ([each.mean for each in tries] for tries in (these, those))
    return min(larger) > max(smaller) and float(np.mean(larger) - np.mean(smaller)) > CLOSE


def _rows(found: Mapping[str, list[Learned]]) -> tuple[ResultRow, ...]:
    """A row of LEARNT for each training."""
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


def _numbers(found: Mapping[str, list[Learned]]) -> dict[str, float]:
    """The mean loss over all steps and seeds, for words."""
    return {name: float(np.mean([each.mean for each in tries])) for name, tries in found.items()}


RATES = {"low": 3e-3, "high": 2e-2}


def norm_stabilises(
    loaded: LoadedModel, traced: Trace, progress: FractionDone, learn: Learn = train
) -> Finding:
    """Four layers with pre-norm, with post-norm and without any norm, at two learning rates.

    A placement stabilises when it learns, with every seed, at a rate at which the model without
    norms does not, and also wherever that one does. "True" needs both placements to.
    """
    designs = {
        "pre": (symbol_config(n_layers=4, **PRE), True),
        "post": (symbol_config(n_layers=4), True),
        "bare": (symbol_config(n_layers=4, norm_placement="pre"), False),
    }
    arms = {
        f"{design}_{rate}": Training(config, same, 60, RATES[rate], normed=normed)
        for design, (config, normed) in designs.items()
        for rate in RATES
    }
    found = several(arms, learn, progress)
    rows, learned = [], {}
    for name, tries in found.items():
        highest = max(max(each.losses) for each in tries)
        n_learned = sum(each.learned for each in tries)
        rows.append(
            ResultRow(name, (*mean_and_range([each.left for each in tries]), highest, n_learned))
        )
        learned[name] = n_learned == len(tries)
    helps = []
    for design in ("pre", "post"):
        pairs = [(learned[f"{design}_{rate}"], learned[f"bare_{rate}"]) for rate in RATES]
        gains = any(normed and not bare for normed, bare in pairs)
        helps.append(gains and all(normed or not bare for normed, bare in pairs))
    verdict = judged(all(helps), false=not any(helps))
    numbers = {row.name: row.values[0] for row in rows}
    columns = ("loss_after", "range", "loss_highest", "seeds_learned")
    one = "depends_pre" if helps[0] else "depends_post"
    why = (one if verdict == "depends" else verdict, "losses")
    curve = replace(curves_of(found), log_y=True)
    return Finding(verdict, columns, tuple(rows), curve, why=why, numbers=numbers)


COMPARED = (
    Claim("tying_quality", "counting", tying_quality, own=False, slow=True),
    Claim("no_positions", "positions", no_positions, own=False, slow=True),
    Claim("learned_positions", "positions", learned_positions, own=False, slow=True),
    Claim("norm_stabilises", "blocks", norm_stabilises, own=False, slow=True),
    Claim("swiglu_equal", "blocks", swiglu_equal, own=False, slow=True),
    Claim("rms_quality", "blocks", rms_quality, own=False, slow=True),
)
