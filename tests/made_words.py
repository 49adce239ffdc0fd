"""Which keys of the words the registries of the code need, and what the code writes out."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import get_args

from explorer.analysis.alignment.links import METHODS
from explorer.analysis.attribution.ledger import Kind
from explorer.analysis.blocks.norms import NORMS
from explorer.analysis.card import KINDS as MODEL_KINDS
from explorer.analysis.cases import GROUPS, VERDICTS
from explorer.analysis.cases.case import Needs
from explorer.analysis.cases.design import every_option
from explorer.analysis.circuits.behaviour import BEHAVIOURS
from explorer.analysis.circuits.composition import WAYS as READS
from explorer.analysis.circuits.vocabulary import MAPS
from explorer.analysis.exercises.grading import Relation
from explorer.analysis.exercises.tasks import KINDS as TASK_KINDS
from explorer.analysis.mask_tests.examiner import LeftOut
from explorer.analysis.model.parameters import KINDS as PART_KINDS
from explorer.analysis.patching.maps import BY_HEAD, BY_PLACE
from explorer.analysis.roles import MEASURES as ATLAS_MEASURES
from explorer.analysis.score.initial import INITS
from explorer.analysis.score.scaling import SCALINGS
from explorer.exhibits.alignment.choices import ROWS
from explorer.exhibits.atlas.choices import AtlasChoices
from explorer.exhibits.circuits.choices import MADE_OF
from explorer.exhibits.heads.choices import MEASURES
from explorer.exhibits.model.boxes import What
from explorer.exhibits.model.choices import ASIDES as MACHINE_ASIDES
from explorer.exhibits.model.reach import KINDS as NETS
from explorer.exhibits.model.sizes import OWN, PRESETS
from explorer.exhibits.positions.choices import PositionsChoices
from explorer.exhibits.reasons import BLOCKERS
from explorer.exhibits.score.choices import ASIDES, STAGES
from explorer.exhibits.score.split import PARTS
from explorer.exhibits.start.choices import MaskName
from explorer.exhibits.tour.chapters import CHAPTERS
from explorer.exhibits.training.setting import NAMES as TRAINING_NAMES
from explorer.library import CHECKPOINTS, list_models
from explorer.notebook.certify import Note
from explorer.notebook.diagnosis import Cause as DiagnosedCause
from explorer.pages import MENU, PAGES
from explorer.problems import PROBLEMS
from explorer.sandbox import Kind as FaultKind
from explorer.text import LANGUAGES, examples, word_key
from explorer.training.comparing import QUESTIONS, Measure
from explorer.training.pairs import REASONS
from explorer.training.runs import RunState
from explorer.training.setup import ARCHITECTURE, FAULTS, OPTIONS as CHOICES, TASKS, TRAINING, Setup
from explorer.ui.sidebar.languages import SHORT
from models.config import CHOICES as CONFIG_CHOICES
from models.hooks import ROLES
from models.marks import Marks
from models.pictures.faces import FACES
from models.refusals import REFUSALS
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
# Tables whose names are those of a registry: the words have them, and no others.
MADE = {
    "start.masks": set(get_args(MaskName)),
    "start.kinds": set(ROLES),
    "kinds": set(ROLES),
    "models": set(list_models(CHECKPOINTS)),
    "languages": set(LANGUAGES),
    "translated": {"source", "target", "help", "named", "yue", *SHORT.values()},
    "lessons": {"try", *tomllib.loads(asset("lessons", "telling.toml").read_text("utf-8"))},
    "blockers": set(BLOCKERS) - {""},
    "problems": set(PROBLEMS),
    "refusals": set(REFUSALS),
    "trained": {"right", "changed", "twin-no-causal", "twin-pad-visible", "twin-inverted"},
    "formulas": IN_FORMULAS | {"wrong", "right"},
    "sentences": {
        group
        for path in (ROOT / "assets" / "sentences").glob("*.toml")
        for group in examples(path.stem)
    },
    "cases.groups": {group for groups in GROUPS.values() for group in groups},
    "cases.formulas": set(GROUPS["bugs"]),
    "cases.absent": set(get_args(Needs)) - {""},
    "heads.measures": {"none", *MEASURES},
    "roles": {*ATLAS_MEASURES, "mixed", "successor"},
    "atlas.parts": set(AtlasChoices.parts),
    "patching.whats": {*BY_PLACE, *BY_HEAD},
    "circuits.names": set(BEHAVIOURS),
    "circuits.made": set(MADE_OF),
    "circuits.maps": set(MAPS),
    "circuits.ways": set(READS),
    "alignment.rows": set(ROWS),
    "alignment.methods": set(METHODS),
    "attribution.writers": {*get_args(Kind), "self", "cross", "from", "rest"} - {"head"},
    "card.kinds": set(MODEL_KINDS),
    # `further_ends` are shown with `end`, and the source's own marks in its tokens.
    "card.marks": {each.name for each in fields(Marks)} - {"further_ends", "source"},
    "model.parts": set(get_args(What)),
    "model.kinds": set(PART_KINDS),
    "model.asides": set(MACHINE_ASIDES),
    "reach.nets": set(NETS),
    "swaps.choices": {option.choice for option in every_option()},
    "swaps.options": {
        name
        for option in every_option()
        if (name := option.key.removeprefix("swaps.options.")) != option.key
    },
    "model.presets": {OWN, *PRESETS},
    "tour.groups": set(CHAPTERS),
    "tour.missing": set(re.findall(r'(?:Missing(?:Error)?\(|require\(.*, )"(\w+)"\)', CODE)),
    "exercises.groups": set(TASK_KINDS),
    "exercises.faults": set(get_args(FaultKind)),
    "exercises.relations": set(get_args(Relation)),
    "cases.verdicts": set(VERDICTS),
    "score.stages": set(STAGES),
    "score.asides": set(ASIDES) - {""},
    "score.scalings": set(SCALINGS),
    "score.inits": set(INITS),
    "score.init_notes": set(INITS),
    "score.parts": set(PARTS),
    "notebook.causes": set(get_args(DiagnosedCause)),
    "notebook.fill": {"leaks", "rounds", "unknown"},
    "notebook.notes": set(get_args(Note)),
    "certify.left_out": set(get_args(LeftOut)),
    "menu": {group.name for group in MENU},
    "training.state": set(get_args(RunState)),
    "training.tasks": set(TASKS),
    "training.fields": {each.name for each in fields(Setup)} - {"text", *TRAINING_NAMES},
    "training.values": {
        str(value)
        for name in {*ARCHITECTURE, *TRAINING} - {*DESIGNS}
        for value in CHOICES.get(name, ())
    }
    - {*TRAINING_NAMES},
    **{f"designs.{field}": set(kinds) for field, kinds in DESIGNS.items()},
    "designs.norm": set(NORMS),  # with batch normalization, for comparison
    "training.pairs_left": set(REASONS),
    "training.measures": set(get_args(Measure)),
    **{f"training.questions.{each.id}": {"ask", "first", "second"} for each in QUESTIONS},
    **{f"training.faults.{fault}": {"title", "short", "what", "tells"} for fault in FAULTS},
    "training.faults.none": {"title"},
    **{
        f"{page.name}.parts": parts
        for page in PAGES
        if (parts := set(getattr(page.choices, "parts", ())) - {""})
    },
    "source.faces": set(FACES),
    "positions.groups": set(PositionsChoices.groups),
}
