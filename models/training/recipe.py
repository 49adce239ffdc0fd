"""A recipe: settings of model, training and data as a TOML file, in the tables of those names."""

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from models.config import ModelConfig
from models.home import data
from models.training.corpus import DataConfig
from models.training.settings import TrainingConfig

RECIPES = data("models.training", "recipes")


@dataclass(frozen=True)
class Recipe:
    """What to build, how to train it, and on what."""

    model: ModelConfig
    training: TrainingConfig
    data: DataConfig


def recipe_names() -> tuple[str, ...]:
    """The recipes that come with the project."""
    return tuple(sorted(path.stem for path in RECIPES.glob("*.toml")))


def read_recipe(name: str, changes: list[str]) -> Recipe:
    """The recipe of that name, or in that file, with `changes` like "model.dropout=0.2" applied.

    Raises ValueError for an unknown recipe, table or field, or an impossible value.
    """
    path = RECIPES / f"{name}.toml"
    if not path.is_file():
        path = Path(name)
    if not path.is_file():
        raise ValueError(f"no recipe {name!r}: there are {', '.join(recipe_names())}, or a file")
    try:
        tables: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        for change in changes:
            table, _, assignment = change.partition(".")
            for key, value in tomllib.loads(assignment).items():
                tables.setdefault(table, {})[key] = value
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path.name} or a change to it is not TOML: {error}") from error
    classes = {"model": ModelConfig, "training": TrainingConfig, "data": DataConfig}
    if set(tables) - set(classes):
        raise ValueError(f"{path.name}: unknown tables {sorted(set(tables) - set(classes))}")
    made: dict[str, Any] = {}
    for table, cls in classes.items():
        values = tables.get(table, {})
        unknown = sorted(set(values) - {f.name for f in fields(cls)})
        if unknown:
            raise ValueError(f"{path.name}: [{table}] has unknown fields {', '.join(unknown)}")
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        try:
            made[table] = cls(**values)
        except TypeError as error:
            raise ValueError(f"{path.name}: [{table}]: {error}") from error
    return Recipe(**made)
