"""A recipe: a TOML file with tables of settings for model, training, objectives and data."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from models.config import ModelConfig
from models.training.corpus import DataConfig
from models.training.objectives import Objective
from models.training.objectives.registry import make_objectives, without_shorthands
from models.training.recipes import JUDGED, RECIPES, STEPS, check_steps
from models.training.settings import TrainingConfig

TABLES = ("model", "training", "objectives", "data")


@dataclass(frozen=True)
class Recipe:
    """The settings of the model, the training, its objectives and its data.

    `steps` holds the data preparation steps that [data] names (`recipes.STEPS`).
    """

    model: ModelConfig
    training: TrainingConfig
    objectives: tuple[Objective, ...]
    data: DataConfig
    steps: Mapping[str, Any]


def recipe_names() -> tuple[str, ...]:
    """Names of the recipes that ship with the project."""
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
        raise ValueError(f"no recipe {name!r}: there are {', '.join(recipe_names())}, or a file")
    try:
        tables: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path.name} is not TOML: {error}") from error
    for change in changes:
        _merge(tables, _change(change))
    if set(tables) - set(TABLES):
        raise ValueError(f"{path.name}: unknown tables {sorted(set(tables) - set(TABLES))}")
    data = tables.get("data", {})
    steps = {key: data.pop(key) for key in (*STEPS, JUDGED) if key in data}
    try:
        training, objectives = without_shorthands(
            tables.get("training", {}), tables.get("objectives", {})
        )
        named = make_objectives(objectives)
        check_steps(steps, made="task" in data)
    except (TypeError, AttributeError) as error:  # a value of the wrong type
        raise ValueError(f"{path.name}: {error}") from error
    return Recipe(
        _made(ModelConfig, path, "model", tables.get("model", {})),
        _made(TrainingConfig, path, "training", training),
        named,
        _made(DataConfig, path, "data", data),
        steps,
    )


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
