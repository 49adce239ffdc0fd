"""The recipes that come with the project, and its own curriculum: a README in place of one.

Each `NAME.toml` is a recipe (`models/training/recipe.py` reads them), and `python -m models train
--recipe NAME` follows it; its first lines say what it is for and which files it wants. Models that
ship are named like the last recipe of their line.

**Translators**, `en-zh` and `zh-en`, learn in four lessons, each of which begins with the model of
the one before: `NAME-short` reads the corpus, everyday sentences of some ten tokens; `NAME-long`
adds rows of several sentences or clauses (`joining.py`), since a model of nothing else stuttered on
forty tokens; `NAME-numbers` adds pairs with other numbers (`numbering.py`), since the corpus names
few and the model guessed the rest, and rows of a word or two (`shortening.py`), which are rare in
it; `NAME` returns to the corpus with fewer rows of these kinds.

**The story-teller**: `stories-base` learns four thousand children's stories, `stories-words`
everyday sentences beside them, `stories-names` and `stories-again` the stories with other names in
them (`renaming.py`), so that who is who has to be looked up. `stories-loops` learns not to repeat
itself (the objective `unlikelihood`), and `stories` prefers those of its own continuations that
kept sense longer in the eyes of a reader (`judging.py`, the marks in `judged/`, the objective
`preference`). `stories-deep`, a trial in twice the layers (`growing.py`), is not shipped.

**Twins** differ from `twin-right` in one thing each: the masks that they were trained under, their
positions, or, eight layers deep, where their norm stands. **Toys**, `copy`, `reverse` and `sort`,
learn a task whose right attention is known.

The modules here know English numbers, Chinese numerals, names and judged stories. The library
knows none of that: a recipe names the steps that prepare its rows, in its table [data], and `STEPS`
finds them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from models.tokenizer import Tokenizer
from models.training.corpus import Row
from models.training.data import Preference
from models.training.home import data
from models.training.recipes.joining import joined_pairs
from models.training.recipes.judging import preferences_of, read_judged
from models.training.recipes.numbering import numbered_rows
from models.training.recipes.renaming import renamed_texts
from models.training.recipes.shortening import short_rows

RECIPES = data("models.training.recipes")


def _pairs(rows: Sequence[Row]) -> list[tuple[str, str]]:
    return [row for row in rows if isinstance(row, tuple)]


def _texts(rows: Sequence[Row]) -> list[str]:
    return [row for row in rows if isinstance(row, str)]


Step = Callable[[Sequence[Row], int, int], Sequence[Row]]
"""(the rows of the recipe's file, how many to make, seed) -> the rows made out of them."""

STEPS: dict[str, Step] = {
    "joined": lambda rows, n, seed: joined_pairs(_pairs(rows), n, seed),
    "numbered": lambda rows, n, seed: [row[:2] for row in numbered_rows(_pairs(rows), n, seed)],
    "short": lambda rows, n, seed: short_rows(_pairs(rows), n, seed),
    "renamed": lambda rows, n, seed: renamed_texts(_texts(rows), n, seed),
}
"""What [data] of a recipe may ask for beside its file: `joined = 8000` is so many rows more."""

JUDGED = "judged"
"""And this names the judged continuations, a file in `judged/` or another, to prefer by."""


def check_steps(steps: Mapping[str, Any], made: bool) -> None:
    """Raises ValueError, naming the step, for an impossible number of rows.

    `made`: the recipe's own rows are made by a task, so there is no file to make others of.
    """
    for name in STEPS:
        n = steps.get(name, 0)
        if n < 0 or (n and made):
            raise ValueError(f"{name} is {n}: it must be at least 0, and 0 for the rows of a task")


def more_rows(rows: Sequence[Row], steps: Mapping[str, Any], seed: int) -> list[Row]:
    """The rows that the steps of a recipe make out of `rows`, drawn by `seed`.

    Always in the order of `STEPS`. Raises ValueError when there are too few rows for a step.
    """
    made: list[Row] = []
    for name, step in STEPS.items():
        if steps.get(name):
            made += step(rows, steps[name], seed)
    return made


def preferences(
    rows: Sequence[Row], steps: Mapping[str, Any], tokenizer: Tokenizer
) -> list[Preference]:
    """The pairs to prefer in, where a recipe names judged continuations of the texts of `rows`."""
    if not steps.get(JUDGED):
        return []
    return preferences_of(read_judged(steps[JUDGED]), _texts(rows), tokenizer)
