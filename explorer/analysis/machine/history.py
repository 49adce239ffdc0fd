"""How the loaded model was trained: losses by step as its card logs them, and the learning rate.

A card has one table per training run; each run starts from the weights of the previous one. A table
belongs to the first recipe of the card, in order, that trains for as many epochs as it has rows.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from explorer.library import LoadedModel, at_step, snapshots
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


def moments(
    loaded: LoadedModel, traced: Trace, open_model: Callable[[str], LoadedModel]
) -> Moments | None:
    """The Trace's text read by the model's saved snapshots; None if none was saved."""
    kept: Sequence[int] = snapshots(loaded.name)
    tokens = written_tokens(traced)
    if not kept or not tokens:
        return None
    losses = []
    for step in kept:
        model = open_model(at_step(loaded.name, step)).model
        seen = run(model, rows_of(traced), {LOGITS}, edits_of(traced))
        losses.append(-float(token_logprobs(seen[LOGITS][0].numpy(), tokens).mean()))
    return Moments(tuple(kept), np.array(losses))
