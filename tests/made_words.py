"""Which keys of the words the registries of the code need, and what the code writes out."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from pkgutil import resolve_name
from typing import get_args

from explorer.analysis.attribution.ledger import Kind
from explorer.analysis.blocks.norms import NORMS
from explorer.analysis.cases import GROUPS
from explorer.analysis.cases.design import every_option
from explorer.analysis.heads.measures import LANDMARKS
from explorer.analysis.patching.maps import BY_HEAD, BY_PLACE
from explorer.analysis.roles import MEASURES as ATLAS_MEASURES
from explorer.exhibits.heads.choices import MEASURES
from explorer.exhibits.model.sizes import OWN, PRESETS
from explorer.exhibits.tour.choices import CHAPTERS, TourChoices
from explorer.exhibits.tour.sheet import LESSONS
from explorer.exhibits.training.setting import NAMES as TRAINING_NAMES
from explorer.library import CHECKPOINTS, list_models
from explorer.pages import MENU, PAGES
from explorer.text import examples, word_key
from explorer.training.setup import ARCHITECTURE, FAULTS, OPTIONS as CHOICES, TRAINING, Setup
from explorer.ui.sidebar.languages import SHORT
from models.config import CHOICES as CONFIG_CHOICES
from models.marks import Marks
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
WRITTEN = set(
    re.findall(r"[^\W_]+", CODE + "".join(map(Path.read_text, (ROOT / "explorer").rglob("*.js"))))
)
"""All words that the code writes out, as parts of names too."""
DESIGNS = {name: CONFIG_CHOICES[name] for name in ("positions", "norm", "ffn")}
REGISTRIES = {
    "start.masks": "explorer.exhibits.start.choices:MaskName",
    "start.kinds": "models.hooks:ROLES",
    "kinds": "models.hooks:ROLES",
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
    "training.measures": "explorer.training.comparing:Measure",
    "source.faces": "models.pictures.faces:FACES",
}
"""Families of words whose names are all those of one registry (a table, or a type of names)."""


def names_in(registry: str) -> set[str]:
    found = resolve_name(registry)
    return set(get_args(found) or found) - {""}


# Families whose names come from more than one registry, or from a part of one.
MADE = {
    **{family: names_in(registry) for family, registry in REGISTRIES.items()},
    "models": set(list_models(CHECKPOINTS)),
    "translated": {"source", "target", "help", "named", "yue", *SHORT.values()},
    "lessons": {"try", *tomllib.loads(asset("lessons", "telling.toml").read_text("utf-8"))},
    "trained": {"right", "changed", "twin-no-causal", "twin-pad-visible", "twin-inverted"},
    "formulas": IN_FORMULAS | {"wrong", "right"},
    "sentences": {
        group
        for path in (ROOT / "assets" / "sentences").glob("*.toml")
        for group in examples(path.stem)
    },
    "cases.groups": {group for groups in GROUPS.values() for group in groups},
    "cases.formulas": {"masks", "model", "training"},
    "heads.measures": {"none", *MEASURES},
    "heads.roles": {*LANDMARKS},
    "roles": {*ATLAS_MEASURES, "mixed", "successor"},
    "patching.whats": {*BY_PLACE, *BY_HEAD},
    "attribution.writers": {*get_args(Kind), "self", "cross", "from", "rest"} - {"head"},
    # `further_ends` are shown with `end`, and the source's own marks in its tokens.
    "card.marks": {each.name for each in fields(Marks)} - {"further_ends", "source"},
    "swaps.choices": {option.choice for option in every_option()},
    "swaps.options": {
        name
        for option in every_option()
        if (name := option.key.removeprefix("swaps.options.")) != option.key
    },
    "model.presets": {OWN, *PRESETS},
    "tour.groups": {*CHAPTERS, *TourChoices.groups},
    **{f"tour.lessons.{name}": {"title", *lesson} for name, lesson in LESSONS.items()},
    "tour.misread": {
        name
        for chapter in CHAPTERS.values()
        for step in chapter["steps"].values()
        for name in step["wrong"]
    },
    "tour.missing": set(re.findall(r'(?:Missing(?:Error)?\(|require\(.*, )"(\w+)"\)', CODE)),
    "notebook.fill": {"leaks", "rounds", "unknown"},
    "menu": {group.name for group in MENU},
    "training.fields": {each.name for each in fields(Setup)} - {"text", *TRAINING_NAMES},
    "training.values": {
        str(value)
        for name in {*ARCHITECTURE, *TRAINING} - {*DESIGNS}
        for value in CHOICES.get(name, ())
    }
    - {*TRAINING_NAMES},
    **{f"designs.{field}": set(kinds) for field, kinds in DESIGNS.items()},
    "designs.norm": set(NORMS),  # with batch normalization, for comparison
    **{f"training.faults.{fault}": {"title", "short", "what", "tells"} for fault in FAULTS},
    "training.faults.none": {"title"},
    **{
        f"{page.name}.parts": parts
        for page in PAGES
        if (parts := set(getattr(page.choices, "parts", ())) - {""})
    },
}
