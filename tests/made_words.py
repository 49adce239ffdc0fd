"""The words whose keys the code makes at run time: each family of keys, with every name that it can
have. With those of `word_pieces`, `tests/explorer/test_text.py` holds them against both languages.
"""

import re
import tomllib
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import get_args

from explorer.analysis.alignment.links import METHODS
from explorer.analysis.atlas.sums import MEASURES as ATLAS_MEASURES
from explorer.analysis.card import KINDS as MODEL_KINDS
from explorer.analysis.causes.ledger import Kind
from explorer.analysis.cell.initial import INITS
from explorer.analysis.cell.scaling import SCALINGS
from explorer.analysis.circuits.behaviour import BEHAVIOURS
from explorer.analysis.circuits.composition import WAYS as READS
from explorer.analysis.circuits.vocabulary import MAPS
from explorer.analysis.claims import GROUPS, VERDICTS
from explorer.analysis.clinic import PITFALLS
from explorer.analysis.clinic.card import Group, Needs
from explorer.analysis.machine.parameters import KINDS as PART_KINDS
from explorer.analysis.patching.maps import BY_HEAD, BY_PLACE
from explorer.analysis.workshop.grading import Relation
from explorer.analysis.workshop.tasks import KINDS as TASK_KINDS
from explorer.exhibits.alignment.choices import ROWS
from explorer.exhibits.atlas.choices import AtlasChoices
from explorer.exhibits.cell.choices import ASIDES, STAGES
from explorer.exhibits.cell.split import PARTS
from explorer.exhibits.circuits.choices import MADE_OF
from explorer.exhibits.heads.choices import MEASURES
from explorer.exhibits.machine.boxes import What
from explorer.exhibits.machine.choices import ASIDES as MACHINE_ASIDES
from explorer.exhibits.machine.reach import KINDS as NETS
from explorer.exhibits.machine.sizes import OWN, PRESETS
from explorer.exhibits.machine.swaps import OPTIONS as SWAPS
from explorer.exhibits.path.course import CHAPTERS
from explorer.exhibits.positions.choices import PositionsChoices
from explorer.exhibits.reasons import BLOCKERS
from explorer.exhibits.start.choices import MaskName
from explorer.exhibits.training.setting import NAMES as TRAINING_NAMES
from explorer.figures.alignment import FOUND
from explorer.figures.blocks import Placement
from explorer.library import CHECKPOINTS, list_models
from explorer.notebook.certify import Note, Why as UntestedWhy
from explorer.notebook.diagnosis import Cause as DiagnosedCause
from explorer.pages import MENU, PAGES
from explorer.problems import PROBLEMS
from explorer.sandbox import Kind as FaultKind
from explorer.text import LANGUAGES, examples, word_key, words
from explorer.training.comparing import Measure
from explorer.training.pairs import Pairs
from explorer.training.questions import QUESTIONS
from explorer.training.runs import RunState
from explorer.training.setup import ARCHITECTURE, FAULTS, OPTIONS as CHOICES, TASKS, TRAINING, Setup
from explorer.ui.sidebar.languages import SHORT
from models.hooks import ROLES
from models.marks import Marks
from models.pictures.faces import FACES
from models.refusals import REFUSALS
from models.training.home import asset

ROOT = Path(__file__).resolve().parents[1]
CODE = "\n".join(
    path.read_text(encoding="utf-8")
    for folder in ("explorer", "docs/website")
    for path in sorted((ROOT / folder).rglob("*.py"))
)
PAGES_CODE = "\n".join(
    path.read_text(encoding="utf-8")
    for folder in ("pages", "exhibits")
    for path in sorted((ROOT / "explorer" / folder).rglob("*.py"))
)
LIVE = "".join(
    path.read_text(encoding="utf-8") for path in sorted((ROOT / "explorer" / "live").glob("*.js"))
)
IN_FORMULAS = {word_key(word) for word in re.findall(r"\\text\{([^{}]*)\}", PAGES_CODE)}


def figures() -> set[str]:
    """What the demonstrations give; two of them give more on a reader's own sentence."""
    named = {figure.name for pitfall in PITFALLS for figure in pitfall.demonstrate(None).figures}
    return named | {"lowest_score", "own_loss", "chance_loss"}


def tried() -> set[str]:
    """The demonstrations that compare more than two ways."""
    return {pitfall.id for pitfall in PITFALLS if pitfall.demonstrate(None).tried}


def words_of(component: str) -> set[str]:
    """The words that a component asks for; the package's own names are its functions."""
    return set(import_module(f"explorer.components.{component}").WORDS)


def words_in(*files: str) -> set[str]:
    """The words that files of figures look up by a name that is written out."""
    code = "".join((ROOT / "explorer" / file).read_text(encoding="utf-8") for file in files)
    return set(re.findall(r"""\bwords\[["'](\w+)["']\]""", code))


CLAIM_WORDS = {
    *re.findall(
        r'"([a-z_0-9]+)"',
        "".join(
            path.read_text(encoding="utf-8")
            for path in (ROOT / "explorer" / "analysis" / "claims").glob("*.py")
        ),
    ),
    *("training", "no_cache", "with_cache"),
    *("post", "pre", "sublayer"),
    *(f"deep_{placement}" for placement in ("pre", "sublayer")),
    *(f"{task}_{kind}" for task in ("same", "other") for kind in ("tied", "untied")),
    *(f"{task}_{kind}" for task in ("order", "count") for kind in ("sinusoidal", "none")),
    *(f"{task}_{kind}" for task in ("distance", "place") for kind in ("sinusoidal", "learned")),
    *(f"{design}_{rate}" for design in ("pre", "post", "bare") for rate in ("low", "high")),
}


def said_in_claims(family: str) -> set[str]:
    """The words of a family that some claim names; tests of the claims hold the other way."""
    named = {key.removeprefix(f"{family}.") for key in words("en") if key.startswith(f"{family}.")}
    return named & CLAIM_WORDS


# Families of keys whose last name is made at run time, with all the names it can take.
MADE = {
    "components.start": words_of("start"),
    "live": {
        *re.findall(r"\bsaid\.([a-z_]+)", LIVE),
        *re.findall(r'\b(?:Unreadable|failed)\("(\w+)"', LIVE),
        *("about_int8", "about_float32", "no_script"),
    }
    - {"about"},
    "start.masks": set(get_args(MaskName)),
    "start.kinds": set(ROLES),
    "frame": {"page", "more", "sentence", "run"},
    "kinds": set(ROLES),
    "models": set(list_models(CHECKPOINTS)),
    "languages": set(LANGUAGES),
    "translated": {"source", "target", "help", "named", "yue", *SHORT.values()},
    "lessons": {"try", *tomllib.loads(asset("lessons", "telling.toml").read_text("utf-8"))},
    "streams": {"src", "tgt", "text", "picture", "query", "key", "which"},
    "blockers": set(BLOCKERS) - {""},
    "problems": set(PROBLEMS),
    "refusals": set(REFUSALS),
    "trained": {"right", "changed", "twin-no-causal", "twin-pad-visible", "twin-inverted"},
    "terminal": {"empty", "whitespace_only", "nothing_left"},
    "formulas": IN_FORMULAS | {"wrong", "right"},
    "more": {"formula", "code", "numbers", "label", "code_note"},
    "sentences": {
        group
        for path in (ROOT / "assets" / "sentences").glob("*.toml")
        for group in examples(path.stem)
    },
    "clinic.groups": set(get_args(Group)),
    "clinic.formulas": set(get_args(Group)),
    "clinic.absent": set(get_args(Needs)) - {""},
    "export": {"title", "sentence", "translation", *ROLES, "src", "tgt"}
    | words_in("exports/picture.py"),
    "heads.measures": {"none", *MEASURES},
    "atlas.command": {
        *("again", "changed", "going_on", "others"),
        *("progress", "unit", "done", "left_out"),
    },
    "atlas.axes": {"entropy", "deviation", "distance", "cost", "depth"},
    "atlas.kinds": {*ATLAS_MEASURES, "mixed"},
    "atlas.parts": set(AtlasChoices.parts),
    "figures.profile": words_in("figures/atlas.py"),
    "figures.heatmap": words_in("figures/heatmap.py"),
    "figures.effect_map": words_in("figures/effect_map.py"),
    "patching.whats": {*BY_PLACE, *BY_HEAD},
    "figures.bars": words_in("figures/bars.py"),
    "circuits.behaviours": set(BEHAVIOURS),
    "circuits.names": set(BEHAVIOURS),
    "circuits.made": set(MADE_OF),
    "circuits.maps": set(MAPS),
    "circuits.ways": set(READS),
    "circuits.columns": {"what", "best", "score", "even", "chance"},
    "figures.composed": words_in("figures/circuits.py"),
    "alignment.aligners": {"mean", "best", "head"},
    "alignment.rows": set(ROWS),
    "alignment.methods": set(METHODS),
    "figures.alignment": {*FOUND, "weight", "head", "layer"},
    "causes.writers": {*get_args(Kind), "self", "cross", "from", "rest"} - {"head"},
    "causes.depths": {"embedding", "self", "cross", "ffn"},
    "figures.causes": words_in("figures/causes.py"),
    "figures.head_map": words_in("figures/head_map.py"),
    "card.kinds": set(MODEL_KINDS),
    # `further_ends` are shown with `end`, and the source's own marks in its tokens.
    "card.marks": {each.name for each in fields(Marks)} - {"further_ends", "source"},
    "machine.parts": set(get_args(What)),
    "machine.kinds": set(PART_KINDS),
    "machine.asides": set(MACHINE_ASIDES),
    "reach.nets": set(NETS),
    "swaps.choices": {option.choice for option in SWAPS},
    "swaps.options": {f"{option.choice}_{option.name}" for option in SWAPS},
    "machine.presets": {OWN, *PRESETS},
    "path.groups": set(CHAPTERS),
    "path.missing": set(re.findall(r'Missing\("(\w+)"\)', CODE)),
    "workshop.groups": set(TASK_KINDS),
    "workshop.faults": set(get_args(FaultKind)),
    "workshop.relations": set(get_args(Relation)),
    "workshop.kinds": {"list", "number"},
    "workshop.verdicts": {"true", "false"},
    "workshop.axes": {"position", "dimension"},
    "claims.verdicts": set(VERDICTS),
    "claims.groups": set(GROUPS),
    "claims.rows": said_in_claims("claims.rows"),
    "claims.columns": said_in_claims("claims.columns"),
    "figures.cell": words_in("figures/cell.py"),
    "cell.stages": set(STAGES),
    "cell.asides": set(ASIDES) - {""},
    "cell.scalings": set(SCALINGS),
    "cell.inits": set(INITS),
    "cell.init_notes": set(INITS),
    "cell.parts": set(PARTS),
    "notebook.causes": set(get_args(DiagnosedCause)),
    "notebook.notes": set(get_args(Note)),
    "notebook.untested": set(get_args(UntestedWhy)),
    "menu": {group.name for group in MENU},
    "cell.layout": {"one", "per_head", "fused"},
    "figures.positions": words_in("figures/positions/encoding.py"),
    "components.film": words_of("film"),
    "components.cache_view": words_of("cache_view"),
    "components.batch_rows": words_of("batch_rows"),
    "components.tree_view": words_of("tree_view"),
    "figures.turning": {"query", "key"} | words_in("figures/positions/turning.py"),
    "figures.residual": {*get_args(Placement)} | words_in("figures/blocks.py"),
    "training.state": set(get_args(RunState)),
    "training.tasks": set(TASKS),
    "training.fields": {each.name for each in fields(Setup)} - {"text", *TRAINING_NAMES},
    "training.values": {
        str(value) for name in ARCHITECTURE + TRAINING for value in CHOICES.get(name, ())
    }
    - {*TRAINING_NAMES},
    "training.pairs_left": {each.name for each in fields(Pairs)} - {"rows"},
    "training.diverged": {"loss", "gradient"},
    "training.measures": set(get_args(Measure)),
    **{f"training.questions.{each.id}": {"ask", "first", "second"} for each in QUESTIONS},
    "training.stacks": {"encoder", "decoder"},
    **{f"training.faults.{fault}": {"title", "short", "what", "tells"} for fault in FAULTS},
    "training.faults.none": {"title"},
    **{
        f"{page.name}.parts": parts
        for page in PAGES
        if (parts := set(getattr(page.choices, "parts", ())) - {""})
    },
    "components.picture": words_of("picture"),
    "source.faces": set(FACES),
    "positions.groups": set(PositionsChoices.groups),
    "components.heads_view": words_of("heads_view"),
    "components.mask_matrix": words_of("mask_matrix"),
    "components.matrices": words_of("matrices"),
    "components.seen": words_of("mask_matrix"),
    "components.reach": words_of("mask_matrix"),
    "components.token_strip": words_of("token_strip"),
}
MADE_LATE = {"clinic.figures": figures, "clinic.tried": tried}
"""The same, found out when asked for: the demonstrations train small networks."""
