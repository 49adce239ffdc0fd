"""What the code and its data write out, and the families of words that belong to one registry."""

import re
from pathlib import Path
from pkgutil import resolve_name
from typing import get_args

from explorer.text import word_key
from models.training.home import asset

ROOT = Path(__file__).resolve().parents[1]
FILES = [
    path
    for folder in ("explorer", "docs/website")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
CODE = "\n".join(path.read_text(encoding="utf-8") for path in FILES)
PAGES_CODE = "\n".join(
    path.read_text(encoding="utf-8") for path in FILES if {"pages", "exhibits"} & {*path.parts}
)
IN_FORMULAS = {
    word_key(word)
    for latex in (PAGES_CODE, asset("cases", "formulas.toml").read_text("utf-8"))
    for word in re.findall(r"\\text\{([^{}]*)\}", latex)
}
DATA = [
    *(ROOT / "explorer").rglob("*.js"),
    *(path for path in (ROOT / "assets").glob("*/*.toml") if path.parent.name != "text"),
]
WRITTEN = set(re.findall(r"[^\W_]+", CODE + "".join(path.read_text("utf-8") for path in DATA)))
"""All words that code and data write out, as parts of names too."""
REGISTRIES = {
    "start.masks": "explorer.exhibits.start.choices:MaskName",
    "start.kinds": "models.hooks:ROLES",
    "kinds": "models.hooks:ROLES",
    "designs.positions": "models.positions:POSITIONS",
    "designs.norm": "explorer.analysis.blocks.norms:NORMS",
    "designs.ffn": "models.feedforward:FEEDFORWARDS",
    "languages": "explorer.text:LANGUAGES",
    "blockers": "explorer.exhibits.reasons:BLOCKERS",
    "refusals": "models.refusals:REFUSALS",
    "cases.absent": "explorer.analysis.cases.case:Needs",
    "circuits.names": "explorer.analysis.circuits.behaviour:BEHAVIOURS",
    "circuits.made": "explorer.exhibits.circuits.choices:MADE_OF",
    "circuits.maps": "explorer.exhibits.circuits.choices:MAPS",
    "circuits.ways": "explorer.exhibits.circuits.choices:WAYS",
    "alignment.rows": "explorer.exhibits.alignment.choices:ROWS",
    "alignment.methods": "explorer.analysis.alignment.links:METHODS",
    "card.kinds": "explorer.exhibits.card.facts:KINDS",
    "model.boxes": "explorer.exhibits.model.boxes:What",
    "model.kinds": "explorer.analysis.model.parameters:KINDS",
    "masks.asides": "explorer.exhibits.masks.choices:FURTHER",
    "exercises.groups": "explorer.analysis.exercises.tasks:KINDS",
    "exercises.faults": "explorer.sandbox:Kind",
    "cases.verdicts": "explorer.analysis.cases:VERDICTS",
    "score.stages": "explorer.exhibits.score.choices:STAGES",
    "score.asides": "explorer.exhibits.score.choices:ASIDES",
    "score.scalings": "explorer.analysis.score.steps:SCALINGS",
    "score.inits": "explorer.analysis.score.initial:INITS",
    "score.init_notes": "explorer.analysis.score.initial:INITS",
    "score.parts": "explorer.exhibits.score.split:PARTS",
    "notebook.causes": "explorer.notebook.diagnosis:Cause",
    "notebook.notes": "explorer.notebook.certify:Note",
    "certify.left_out": "explorer.analysis.mask_tests.examiner:LeftOut",
    "training.state": "explorer.training.runs:RunState",
    "training.tasks": "explorer.training.setup:TASKS",
    "training.pairs_left": "explorer.training.pairs:REASONS",
    "training.measures": "explorer.exhibits.training.compared:Measure",
    "source.faces": "models.pictures.faces:FACES",
}
"""Families of words whose names are all those of one registry (a table, or a type of names)."""


def names_in(registry: str) -> set[str]:
    found = resolve_name(registry)
    return set(get_args(found) or found) - {""}
