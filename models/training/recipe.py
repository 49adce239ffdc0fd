"""A recipe: a TOML file with tables of settings for model, training, objectives and data.

The recipes of the shipped models are in the folder `recipes/` of a clone. It is also a package that
adds objectives and preparing steps; an installed copy of this library has neither.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any

from models.checkpoint import WEIGHTS, Checkpoint, load_weights
from models.config import ModelConfig
from models.tokenizer import Tokenizer
from models.training.corpus import DataConfig, Row
from models.training.home import home
from models.training.objectives import Objective, make_objectives
from models.training.settings import TrainingConfig
from models.transformer import Model

RECIPES = home() / "recipes"
TABLES = ("model", "training", "objectives", "data")


@dataclass(frozen=True)
class Recipe:
    """The settings of the model, the training, its objectives and its data.

    `steps` holds the fields of [data] that `Additions` defines.
    """

    model: ModelConfig
    training: TrainingConfig
    objectives: tuple[Objective, ...]
    data: DataConfig
    steps: Mapping[str, Any]


class Additions:
    """What the package `recipes` adds to the training of a recipe; this base class adds nothing."""

    fields: tuple[str, ...] = ()
    """Fields of [data], in addition to those of `DataConfig`."""

    def check(self, recipe: Recipe) -> None:
        """Raise ValueError, naming the field, for an invalid value of `recipe.steps`."""

    def more_rows(self, recipe: Recipe, rows: Sequence[Row]) -> list[Row]:
        """Training rows made from those of the recipe's file."""
        return []

    def prepare(self, recipe: Recipe, rows: Sequence[Row], tokenizer: Tokenizer) -> None:
        """Give the recipe's objectives what they learn from, before the training."""

    def begin(self, start: Checkpoint, model: Model, tokenizer: Tokenizer) -> None:
        """Initialise `model` from a checkpoint with other sizes, or raise CheckpointError."""
        load_weights(model, start.folder / WEIGHTS)


def additions() -> Additions:
    """The `Additions` of the package `recipes`; importing it registers its objectives."""
    if not RECIPES.is_dir():
        return Additions()
    added: Additions = import_module("recipes").CURRICULUM
    return added


def recipe_names() -> tuple[str, ...]:
    """Names of the shipped models' recipes; none in an installed copy."""
    return tuple(sorted(path.stem for path in RECIPES.glob("*.toml")))


CHANGE = (
    "{0!r} is no change of a recipe: it must be TABLE.FIELD=VALUE with a TOML value, as in "
    "model.dropout=0.2"
)


def read_recipe(name: str, changes: list[str]) -> Recipe:
    """Read a recipe by name or file path and apply `changes` such as "model.dropout=0.2".

    Raises ValueError for an unknown recipe, table or field, or an invalid value.
    """
    path = RECIPES / f"{name}.toml"
    if not path.is_file():
        path = Path(name)
    if not path.is_file():
        known = f"one of {', '.join(recipe_names())}"
        if not RECIPES.is_dir():
            known = "a name in a clone of Headlight, whose folder recipes/ is not installed"
        raise ValueError(f"no recipe {name!r}: it must be a file, or {known}")
    try:
        tables: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path.name} is not TOML: {error}") from error
    for change in changes:
        _merge(tables, _change(change))
    if set(tables) - set(TABLES):
        raise ValueError(f"{path.name}: unknown tables {sorted(set(tables) - set(TABLES))}")
    data = tables.get("data", {})
    added = additions()
    steps = {key: data.pop(key) for key in added.fields if key in data}
    try:
        recipe = Recipe(
            _made(ModelConfig, path, "model", tables.get("model", {})),
            _made(TrainingConfig, path, "training", tables.get("training", {})),
            make_objectives(tables.get("objectives", {})),
            _made(DataConfig, path, "data", data),
            steps,
        )
        added.check(recipe)
    except (TypeError, AttributeError) as error:  # a value of the wrong type
        raise ValueError(f"{path.name}: {error}") from error
    return recipe


def _change(text: str) -> dict[str, Any]:
    """Parse a change into its table with one field. Raises ValueError, quoting `text`."""
    table, dot, assignment = text.partition(".")
    try:
        values = tomllib.loads(assignment)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{CHANGE.format(text)} ({error})") from error
    if not (table and dot and values):
        raise ValueError(CHANGE.format(text))
    return {table: values}


def _merge(into: dict[str, Any], changes: dict[str, Any]) -> None:
    """Set the values of `changes` in `into`, table by table."""
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _made(cls: type[Any], path: Path, table: str, values: dict[str, Any]) -> Any:
    """Build one table's dataclass. Raises ValueError, naming file and table, for a wrong field."""
    unknown = sorted(set(values) - {f.name for f in fields(cls)})
    if unknown:
        raise ValueError(f"{path.name}: [{table}] has unknown fields {', '.join(unknown)}")
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    try:
        return cls(**values)
    except TypeError as error:
        raise ValueError(f"{path.name}: [{table}]: {error}") from error
