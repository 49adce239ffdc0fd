"""How the shipped models were trained: their recipes, and the curriculum these form.

Each `NAME.toml` is a recipe (read by `models/training/recipe.py`); `python -m models train --recipe
NAME` runs it. Its first lines state its purpose and the files it needs. A shipped model has the
name of the last recipe in its sequence.

**Translators**, `en-zh` and `zh-en`, are trained in four stages, each starting from the previous
model. `NAME-short` reads the corpus: everyday sentences of about ten tokens. `NAME-long` adds rows
of several sentences or clauses (`joining.py`), since the first model repeated itself on forty
tokens. `NAME-numbers` adds pairs with other numbers (`numbering.py`), since the corpus contains few
and the model guessed the rest, and rows of one or two words (`shortening.py`), which are rare in
it. `NAME` returns to the corpus with fewer rows of these kinds.

**The story model**: `stories-base` learns four thousand children's stories. `stories-words` adds
everyday sentences. `stories-names` and `stories-again` use the stories with other names
(`renaming.py`), so that the model must look up the characters. `stories-loops` learns not to repeat
itself (the objective `unlikelihood`). `stories` learns to prefer those of its own continuations
that a reader found coherent for longer (`judging.py`, the judgements in `judged/`, the objective
`preference`). `stories-deep`, an experiment with twice the layers (`growing.py`), is not shipped.

**Twins** differ from `twin-right` in one choice each: the masks used in training, the positions, or
(with eight layers) the norm placement. **Toys**, `copy`, `reverse` and `sort`, learn a task whose
correct attention is known.

**The reader**: `reader-base` and `reader-words` learn pictures of letters and digits
(`drawing.py`), `reader` adds 500 tokens and learns Chinese words too.

The package prepares examples: English numbers, Chinese numerals, names, judged stories. It also
counts the glosses of the translators' tokens in their pairs (`glossing.py`). Its class
`Curriculum` extends `models.training.recipe`, which imports it from a clone; the library does not
depend on it, and the wheel does not contain it. `python -m recipes` lists its own commands.
"""

from collections.abc import Callable, Sequence

from models.checkpoint import Checkpoint
from models.tokenizer import Tokenizer
from models.training.corpus import Row
from models.training.objectives import OBJECTIVES
from models.training.recipe import Additions, Recipe
from models.transformer import Model
from recipes.growing import add_tokens, grow
from recipes.joining import joined_pairs
from recipes.judging import preferences_of, read_judged
from recipes.numbering import numbered_rows
from recipes.objectives import RDrop, Smudged, Unlikelihood, WrongMasks
from recipes.preference import DirectPreference
from recipes.renaming import renamed_texts
from recipes.shortening import short_rows

OBJECTIVES.update(
    (cls.name, cls) for cls in (RDrop, WrongMasks, Unlikelihood, DirectPreference, Smudged)
)


def _pairs(rows: Sequence[Row]) -> list[tuple[str, str]]:
    return [row for row in rows if isinstance(row, tuple)]


def _texts(rows: Sequence[Row]) -> list[str]:
    return [row for row in rows if isinstance(row, str)]


Step = Callable[[Sequence[Row], int, int], Sequence[Row]]
"""(rows of the recipe's file, number of rows to make, seed) -> new rows made from them."""

STEPS: dict[str, Step] = {
    "joined": lambda rows, n, seed: joined_pairs(_pairs(rows), n, seed),
    "numbered": lambda rows, n, seed: [row[:2] for row in numbered_rows(_pairs(rows), n, seed)],
    "short": lambda rows, n, seed: short_rows(_pairs(rows), n, seed),
    "renamed": lambda rows, n, seed: renamed_texts(_texts(rows), n, seed),
}
"""Steps that a recipe's [data] may name in addition to its file: `joined = 8000` adds 8000 rows."""

JUDGED = "judged"
"""The field of [data] that names the judged continuations: a file in `judged/` or a path."""


class Curriculum(Additions):
    """Preparing steps, preferences, and starting from a smaller model."""

    fields = (*STEPS, JUDGED)

    def check(self, recipe: Recipe) -> None:
        """Raise ValueError for an invalid number of rows, or judgements that nothing reads."""
        for name in STEPS:
            n = recipe.steps.get(name, 0)
            if n < 0 or (n and recipe.data.task is not None):
                raise ValueError(f"{name} is {n}: it must be at least 0, and 0 for a task")
        judged = bool(recipe.steps.get(JUDGED))
        if judged != any(isinstance(each, DirectPreference) for each in recipe.objectives):
            raise ValueError(
                "data.judged and objectives.preference belong together: name both, or neither"
            )

    def more_rows(self, recipe: Recipe, rows: Sequence[Row]) -> list[Row]:
        """The rows that the recipe's steps make from `rows`, in the order of `STEPS`.

        Raises ValueError if there are too few rows for a step.
        """
        made: list[Row] = []
        for name, step in STEPS.items():
            if recipe.steps.get(name):
                made += step(rows, recipe.steps[name], recipe.training.seed)
        return made

    def prepare(self, recipe: Recipe, rows: Sequence[Row], tokenizer: Tokenizer) -> None:
        """Make the preference pairs from the judged continuations of the texts of `rows`."""
        for objective in recipe.objectives:
            if isinstance(objective, DirectPreference):
                judged = read_judged(recipe.steps[JUDGED])
                objective.learn_from(preferences_of(judged, _texts(rows), tokenizer))

    def begin(self, start: Checkpoint, model: Model, tokenizer: Tokenizer) -> None:
        """Start from a model with fewer tokens or fewer layers."""
        if start.config.vocab_size != model.config.vocab_size:
            add_tokens(start.model, start.tokenizer, model, tokenizer)
        else:
            grow(start.model, model)


CURRICULUM = Curriculum()
