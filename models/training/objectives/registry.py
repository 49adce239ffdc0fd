"""The registry of objectives, and building objectives from the tables of a recipe."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from models.training.objectives import Objective
from models.training.objectives.likelihood import Likelihood
from models.training.objectives.masked_words import MaskedWords
from models.training.objectives.preference import DirectPreference
from models.training.objectives.r_drop import RDrop
from models.training.objectives.smudged import Smudged
from models.training.objectives.unlikelihood import Unlikelihood
from models.training.objectives.wrong_masks import WrongMasks

OBJECTIVES: dict[str, type[Objective]] = {
    cls.name: cls
    for cls in (
        *(Likelihood, RDrop, WrongMasks, MaskedWords, Unlikelihood, DirectPreference, Smudged),
    )
}

Tables = dict[str, dict[str, Any]]


def make_objectives(tables: Mapping[str, Mapping[str, Any]]) -> tuple[Objective, ...]:
    """Build the objectives that these tables name, in order.

    Raises ValueError for an unknown objective, an unknown field or an invalid value.
    """
    made = []
    for name, values in tables.items():
        if name not in OBJECTIVES:
            known = ", ".join(OBJECTIVES)
            raise ValueError(f"no objective {name!r}: it must be one of {known}")
        cls: Any = OBJECTIVES[name]
        unknown = sorted(set(values) - {field.name for field in fields(cls) if field.init})
        if unknown:
            raise ValueError(f"[objectives.{name}] has unknown fields {', '.join(unknown)}")
        made.append(cls(**values))
    return tuple(made)


def without_shorthands(
    training: Mapping[str, Any], tables: Tables
) -> tuple[dict[str, Any], Tables]:
    """Move the shorthands for objectives from the table [training] to the tables [objectives].

    `label_smoothing`, `r_drop`, `masks`, `unlikelihood` and `preference` in [training] are
    shorthands for the tables of these objectives; 0 omits the objective. `--set
    training.r_drop=5.0` replaces plain likelihood by R-Drop. `moments` is the former name of
    `snapshots`.
    """
    rest, objectives = dict(training), {name: dict(table) for name, table in tables.items()}
    if "moments" in rest:
        rest["snapshots"] = rest.pop("moments")
    mains = [name for name in objectives if name in OBJECTIVES and OBJECTIVES[name].main]
    if not mains:
        objectives = {Likelihood.name: {}, **objectives}
    if "label_smoothing" in rest:
        objectives[(mains or [Likelihood.name])[0]]["label_smoothing"] = rest.pop("label_smoothing")
    for short, name, field, usual in (
        ("r_drop", RDrop.name, "weight", 0),
        ("masks", WrongMasks.name, "masks", "right"),
    ):
        value = rest.pop(short, usual)
        if value != usual:
            table = objectives.pop(Likelihood.name, {})
            objectives = {name: {**table, field: value}, **objectives}
    for name in (Unlikelihood.name, DirectPreference.name):
        if name in rest:
            objectives[name] = {**objectives.get(name, {}), "weight": rest.pop(name)}
    return rest, {name: table for name, table in objectives.items() if table.get("weight") != 0}
