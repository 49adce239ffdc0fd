"""How the loaded model was trained: losses by step as its card logs them, and the learning rate.

A card has one table per training run; each run starts from the weights of the previous one. A table
belongs to the first recipe of the card, in order, that trains for as many epochs as it has rows.
"""

import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float

from explorer.analysis.card.words import card_words
from explorer.engine import cache
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.machine.further import is_open
from explorer.figures.curves import lines
from explorer.library import LoadedModel, at_step, snapshots
from explorer.numbers import fixed
from explorer.runs.rerun import edits_of, rows_of, token_logprobs, written_tokens
from explorer.runs.run import run
from explorer.runs.trace import Trace
from models.hooks import LOGITS
from models.training.recipe import read_recipe, recipe_names
from models.training.settings import learning_rate

_TABLE = re.compile(r"^\| epoch \| steps \| loss \| validation loss .*\n\|.*\n((?:\|.*\n?)+)", re.M)
_ROW = re.compile(r"^\| (\d+) \| (\d[\d,]*) \| (\d+\.\d+) \| (\d+\.\d+) \|", re.M | re.A)
_RECIPE = re.compile(r"--recipe ([\w-]+)")


@dataclass(frozen=True)
class Log:
    """One training run: steps done after each epoch, and the two losses in nats per token there.

    The training loss is a mean over the epoch and includes all terms of the objective (label
    smoothing, dropout); the validation loss does not. `recipe`: the recipe's name, if known.
    """

    recipe: str | None
    steps: tuple[int, ...]
    loss: tuple[float, ...]
    valid: tuple[float, ...]


def logs(card: str) -> tuple[Log, ...]:
    """The tables of a model card whose rows are epochs 1, 2, 3, …; other tables are ignored."""
    known = set(recipe_names())
    names = [name for name in dict.fromkeys(_RECIPE.findall(card)) if name in known]
    recipes = [(name, read_recipe(name, []).training.epochs) for name in names]
    found = []
    for table in _TABLE.findall(card):
        rows = _ROW.findall(table)
        if len(rows) != len(table.splitlines()) or any(
            int(row[0]) != n for n, row in enumerate(rows, 1)
        ):
            continue
        at = next((i for i, (_, epochs) in enumerate(recipes) if epochs == len(rows)), None)
        recipe = None if at is None else recipes[at][0]
        recipes = recipes if at is None else recipes[at + 1 :]
        found.append(
            Log(
                recipe,
                tuple(int(row[1].replace(",", "")) for row in rows),
                tuple(float(row[2]) for row in rows),
                tuple(float(row[3]) for row in rows),
            )
        )
    return tuple(found)


def rates(log: Log, n: int = 60) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Steps of a run, and its recipe's learning rate at each; empty without a recipe."""
    if log.recipe is None:
        return (), ()
    total, config = log.steps[-1], read_recipe(log.recipe, []).training
    # Evenly spaced, plus the end of the warm-up, which is the maximum.
    wanted = {*np.linspace(0, total - 1, n).astype(int).tolist(), min(config.warmup, total) - 1}
    steps = tuple(sorted(wanted))
    return steps, tuple(learning_rate(step, total, config) for step in steps)


@dataclass(frozen=True, eq=False)
class Moments:
    """The mean loss on the tokens of one text, in nats, at the saved steps of a training run."""

    steps: tuple[int, ...]
    losses: Float[np.ndarray, " step"]


Steps = Generator[tuple[int, int], bool | None, "Moments | None"]


def moments(loaded: LoadedModel, traced: Trace, open_model: Callable[[str], LoadedModel]) -> Steps:
    """The Trace's text read by the model's saved snapshots; None if none was saved.

    Yields the snapshots done and their number.
    """
    kept: Sequence[int] = snapshots(loaded.name)
    tokens = written_tokens(traced)
    if not kept or not tokens:
        return None
    losses = []
    for done, step in enumerate(kept, 1):
        model = open_model(at_step(loaded.name, step)).model
        seen = run(model, rows_of(traced), {LOGITS}, edits_of(traced))
        losses.append(-float(token_logprobs(seen[LOGITS][0].numpy(), tokens).mean()))
        yield done, len(kept)
    return Moments(tuple(kept), np.array(losses))


@dataclass(frozen=True)
class History:
    """The training runs of a model, and the loss of a text at its saved steps (None if none)."""

    logs: tuple[Log, ...]
    moments: Moments | None


def compute(loaded: LoadedModel, trace: Trace) -> Generator[tuple[int, int], bool | None, History]:
    """The logs of the model's card, and the text read by its snapshots."""
    found = yield from moments(loaded, trace, cache.open_model)
    return History(logs(card_words(loaded.folder, "en").markdown), found)


def show(found: History, view: View) -> b.Blocks:
    """The losses and the learning rate by step, and the loss of this text."""
    if found.logs:
        yield from _losses(view, found.logs)
        yield from _rates(view, found.logs)
    else:
        yield b.Hint(view.t("history.no_log"))
    if found.moments is not None:
        yield from _moments(view, found.moments)
    if found.logs:
        line = (
            r"\eta_t = \eta\,\frac{t + 1}{w}\;(t < w), \qquad "
            r"\eta\sqrt{\frac{w}{t + 1}} \;\text{or}\; "
            r"\frac{\eta}{2}\left(1 + \cos\frac{\pi (t - w)}{T - w}\right)\;(t \geq w)"
        )
        yield b.Formula((line,), view.t("history.formula"))
        yield b.Code((learning_rate, logs), first=True)
        yield b.Numbers(lambda: _numbers(view, found.logs))


def _starts(found: tuple[Log, ...]) -> list[int]:
    """The number of steps before each run."""
    return [sum(log.steps[-1] for log in found[:i]) for i in range(len(found))]


def _losses(view: View, found: tuple[Log, ...]) -> b.Blocks:
    lead = view.t("history.lead", runs=len(found))
    later = view.t("history.later") if len(found) > 1 else ""
    yield b.Prose(f"{lead} {later}")
    gap = float("nan")  # NaN breaks the curve between runs
    x: list[float] = []
    ys: list[tuple[float, float]] = []
    for start, log in zip(_starts(found), found, strict=True):
        x += [start + step for step in log.steps] + [start + log.steps[-1]]
        ys += [*zip(log.loss, log.valid, strict=True), (gap, gap)]
    names = [view.t("history.loss"), view.t("history.valid")]
    axes = view.axes("history.step", "history.nats")
    draw = partial(lines, np.array(x), np.array(ys).T, names, points=True, **axes)
    yield b.Chart("history.losses", draw, lead)
    yield b.Sentence("history", _reading(view, found))


def _reading(view: View, found: tuple[Log, ...]) -> str:
    valid = found[-1].valid
    best = int(np.argmin(valid))
    return view.t(
        "history.reading" if best == len(valid) - 1 else "history.reading_rose",
        steps=f"{sum(log.steps[-1] for log in found):,}",
        first=fixed(found[0].valid[0]),
        last=fixed(valid[-1]),
        best=fixed(valid[best]),
        epoch=best + 1,
        epochs=len(valid),
    )


def _rates(view: View, found: tuple[Log, ...]) -> b.Blocks:
    x: list[float] = []
    y: list[float] = []
    for start, log in zip(_starts(found), found, strict=True):
        steps, values = rates(log)
        if steps:
            x += [*(start + step for step in steps), start + steps[-1]]
            y += [*values, float("nan")]
    if not x:
        return
    title, name = view.t("history.rate_title"), view.t("history.rate")
    axes = view.axes("history.step", "history.rate")
    draw = partial(lines, np.array(x), np.array([y]), [name], height=240, **axes)
    yield b.Note(title)
    yield b.Chart("history.rates", draw, title)


def _moments(view: View, kept: Moments) -> b.Blocks:
    title, name = view.t("history.moments"), view.t("history.sentence")
    axes = view.axes("history.step", "history.nats")
    steps, losses = np.array(kept.steps), kept.losses[None]
    yield b.Note(title)
    draw = partial(lines, steps, losses, [name], height=260, points=True, **axes)
    yield b.Chart("history.moments", draw, title)
    first, last = float(kept.losses[0]), float(kept.losses[-1])
    key = "history.moments_reading" if last < first else "history.moments_rose"
    values = {"first": fixed(first), "last": fixed(last)}
    values |= {"begin": f"{kept.steps[0]:,}", "step": f"{kept.steps[-1]:,}"}
    yield b.Sentence("moments", view.t(key, **values))


def _numbers(view: View, found: tuple[Log, ...]) -> dict[str, list[object]]:
    return {
        view.t("history.recipe"): [log.recipe or "" for log in found for _ in log.steps],
        view.t("history.step"): [step for log in found for step in log.steps],
        view.t("history.loss"): [loss for log in found for loss in log.loss],
        view.t("history.valid"): [loss for log in found for loss in log.valid],
    }


EXHIBIT = Exhibit(compute, show, open=partial(is_open, "history"))
