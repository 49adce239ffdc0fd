"""The words: both languages whole and alike, every key used, every used key there."""

import re
import string
import tomllib
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

from explorer.__main__ import refusal
from explorer.analysis.alignment.links import METHODS
from explorer.analysis.alignment.study import Basis
from explorer.analysis.atlas.sums import MEASURES as ATLAS_MEASURES
from explorer.analysis.blocks.activations import What as CurveOf
from explorer.analysis.blocks.norms import NORMS
from explorer.analysis.card.facts import KINDS as MODEL_KINDS
from explorer.analysis.causes.ledger import Kind
from explorer.analysis.cell.engines import OPTIONS
from explorer.analysis.cell.initial import INITS
from explorer.analysis.cell.origin import PARTS
from explorer.analysis.cell.scaling import SCALINGS
from explorer.analysis.certificate.certify import FINDINGS, LeftOut
from explorer.analysis.circuits.behaviour import BEHAVIOURS
from explorer.analysis.circuits.composition import WAYS as READS
from explorer.analysis.circuits.vocabulary import MAPS
from explorer.analysis.claims import CLAIMS, GROUPS, VERDICTS
from explorer.analysis.clinic import PITFALLS
from explorer.analysis.clinic.card import Group
from explorer.analysis.heads.attribution import MEASURES as CAUSES
from explorer.analysis.heads.versus import Incomparable
from explorer.analysis.machine.parameters import KINDS as PART_KINDS
from explorer.analysis.machine.parts import What
from explorer.analysis.machine.reach import KINDS as NETS
from explorer.analysis.machine.swaps import OPTIONS as SWAPS
from explorer.analysis.masks.conventions import OUTCOMES, READERS, RENDERINGS
from explorer.analysis.masks.fills import WAYS, Empty
from explorer.analysis.masks.reasons import BLOCKERS
from explorer.analysis.patching.deletion import HOW
from explorer.analysis.patching.maps import BY_HEAD, BY_PLACE
from explorer.analysis.patching.rankings import RANKINGS
from explorer.analysis.positions.changes import CHANGE_KINDS
from explorer.analysis.positions.order import Setting
from explorer.analysis.positions.sizes import DRAWN
from explorer.analysis.positions.turning import LAYOUTS
from explorer.analysis.workshop.grading import Relation
from explorer.analysis.workshop.tasks import KINDS as TASK_KINDS
from explorer.figures.alignment.links import FOUND
from explorer.figures.blocks.residual import Placement
from explorer.figures.theme import DARK, LIGHT
from explorer.library import CHECKPOINTS, list_models
from explorer.notebook.certify import Note
from explorer.notebook.certify import Why as UntestedWhy
from explorer.pages import LESSONS, PAGES
from explorer.pages.alignment.choices import ROWS
from explorer.pages.atlas.choices import SOURCES, AtlasChoices
from explorer.pages.cell.choices import ASIDES, STAGES
from explorer.pages.circuits.choices import MADE_OF
from explorer.pages.heads.choices import MEASURES
from explorer.pages.machine.choices import ASIDES as MACHINE_ASIDES
from explorer.pages.machine.sizes import OWN, PRESETS
from explorer.pages.masks.matrices import SCOPES, TOOLS
from explorer.pages.path.course import CHAPTERS, STEPS
from explorer.pages.training.setting import NAMES as TRAINING_NAMES
from explorer.problems import PROBLEMS, InputProblem
from explorer.runs.edits import SIZE_PARTS, USUAL_MASKS
from explorer.sandbox import Kind as FaultKind
from explorer.text import LANGUAGES, examples, formula, t, word_key, words
from explorer.training.comparing import Measure
from explorer.training.pairs import Pairs
from explorer.training.questions import QUESTIONS
from explorer.training.runs import RunState
from explorer.training.setup import ARCHITECTURE, FAULTS, TASKS, TRAINING, Setup
from explorer.training.setup import OPTIONS as CHOICES
from models.feedforward import ACTIVATIONS, FeedForwardKind
from models.hooks import ROLES
from models.marks import Marks
from models.positions import POSITIONS
from models.refusals import REFUSALS
from models.training.home import asset

ROOT = Path(__file__).resolve().parents[2]
CODE = "\n".join(
    path.read_text(encoding="utf-8") for path in sorted((ROOT / "explorer").rglob("*.py"))
)

# The words of formulas, and the names in upright letters, which no language translates.
PAGES_CODE = "\n".join(
    path.read_text(encoding="utf-8") for path in sorted((ROOT / "explorer" / "pages").rglob("*.py"))
)
IN_FORMULAS = {word_key(word) for word in re.findall(r"\\text\{([^{}]*)\}", PAGES_CODE)}
NAMES_IN_FORMULAS = {
    *("softmax", "Var", "FLOPs", "NaN", "LN", "Norm", "LayerNorm", "RMSNorm"),
    *(
        "ReLU",
        "AER",
        "OV",
        "QK",
        "GELU",
        "SiLU",
        "SwiGLU",
        "FFN",
        "PAD",
        "END",
        "dtype",
        "float16",
        "base",
    ),
    *("logit", "IG", "BatchNorm", "Concat", "JS", "KL", "erf", "rank", "pad", "ctx", "diag"),
    *("model", "head", "kv", "ff", "key", "query", "fan_"),
}


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
    "frame": {"page", "more", "sentence", "run"},
    "kinds": set(ROLES),
    "models": set(list_models(CHECKPOINTS)),
    "languages": set(LANGUAGES),
    "lessons": {"try", *tomllib.loads(asset("lessons", "telling.toml").read_text("utf-8"))},
    "streams": {"src", "tgt", "text", "query", "key", "which"},
    "blockers": set(BLOCKERS) - {""},
    "problems": set(PROBLEMS),
    "refusals": set(REFUSALS),
    "trained": {"right", "changed", "twin-no-causal", "twin-pad-visible", "twin-inverted"},
    "terminal": {"empty", "whitespace_only", "nothing_left"},
    "formulas": IN_FORMULAS | {"wrong", "right"},
    "more": {"formula", "code", "numbers", "label", "code_note", "calls", "faster"},
    "sentences": {
        group
        for path in (ROOT / "assets" / "sentences").glob("*.toml")
        for group in examples(path.stem)
    },
    "clinic.groups": set(get_args(Group)),
    "clinic.formulas": set(get_args(Group)),
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
    "figures.profile": words_in("figures/atlas/profile.py"),
    "figures.heatmap": words_in("figures/heatmap.py"),
    "figures.effect_map": words_in("figures/patching/effect_map.py"),
    "figures.flow_graph": words_in("figures/patching/flow_graph.py"),
    "figures.rankings": words_in("figures/patching/effect_map.py"),
    "patching.whats": {*BY_PLACE, *BY_HEAD},
    "patching.levels": {*ROLES, "words"},
    "patching.rankings": set(RANKINGS),
    "patching.hows": set(HOW),
    "figures.bars": words_in("figures/bars.py"),
    "circuits.behaviours": set(BEHAVIOURS),
    "circuits.names": set(BEHAVIOURS),
    "circuits.made": set(MADE_OF),
    "circuits.maps": set(MAPS),
    "circuits.ways": set(READS),
    "circuits.columns": {"what", "best", "score", "even"},
    "figures.composed": words_in("figures/circuits/composed.py"),
    "alignment.aligners": {"mean", "best", "head"},
    "alignment.rows": set(ROWS),
    "alignment.methods": set(METHODS),
    "figures.alignment": {*FOUND, "weight", "head", "layer"},
    "causes.writers": {*get_args(Kind), "self", "cross", "from", "rest"} - {"head"},
    "causes.depths": {"embedding", "self", "cross", "ffn"},
    "figures.causes": words_in("figures/causes/terms.py", "figures/causes/depths.py"),
    "figures.head_map": words_in("figures/head_map.py"),
    "card.kinds": set(MODEL_KINDS),
    "card.marks": {each.name for each in fields(Marks)} - {"further_ends"},  # shown with `end`
    "machine.parts": set(get_args(What)),
    "machine.kinds": set(PART_KINDS),
    "machine.asides": set(MACHINE_ASIDES),
    "sizes.drawn": set(DRAWN),
    "sizes.verdicts": {"drown", "dominate", "both"},
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
    "notebook.notes": set(get_args(Note)),
    "notebook.untested": set(get_args(UntestedWhy)),
    "menu": {page.group for page in PAGES if page.group},
    "cell.layout": {"one", "per_head", "fused"},
    "figures.positions": words_in("figures/positions/encoding.py"),
    "components.film": words_of("film"),
    "components.cache_view": words_of("cache_view"),
    "components.batch_rows": words_of("batch_rows"),
    "components.tree_view": words_of("tree_view"),
    "figures.turning": {"query", "key"} | words_in("figures/positions/turning.py"),
    "figures.residual": {*get_args(Placement)} | words_in("figures/blocks/residual.py"),
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
        f"{page.name}.parts": set(page.choices.parts)
        for page in PAGES
        if hasattr(page.choices, "parts")
    },
    "components.heads_view": words_of("heads_view"),
    "components.mask_matrix": words_of("mask_matrix"),
    "components.matrices": words_of("matrices"),
    "components.seen": words_of("mask_matrix"),
    "components.reach": words_of("mask_matrix"),
    "components.token_strip": words_of("token_strip"),
}
# Keys that code writes as f"page.{...}"; each must also be named as a word of its own in the code.
PIECES = {
    *(f"{page.name}.{part}" for page in PAGES for part in ("title", "lead", "try")),
    *(f"{page.name}.formula" for page in LESSONS if page.name != "clinic"),
    *(f"versus.{why}" for why in (*get_args(Incomparable), "nothing_read", "formula")),
    *(f"circuits.what_{name}" for name in BEHAVIOURS),
    *(f"circuits.best_{name}" for name in ("clear", "slight", "none", "successor")),
    *(f"circuits.{kind}_{what}" for kind in MAPS for what in ("note", "reading", "value")),
    *(f"circuits.{kind}_{what}" for kind in MAPS for what in ("row", "column")),
    *(f"circuits.way_{way}" for way in READS),
    *(f"circuits.composed_{how}" for how in ("above", "even", "score")),
    *(f"circuits.off_{name}" for name in ("one", "many", "most")),
    *(f"circuits.verdict_{name}" for name in ("depends", "alone")),
    *(f"circuits.curve_{name}" for name in ("first", "others", "even")),
    *(f"circuits.alt_{name}" for name in ("copies", "finds", "fails")),
    *(f"circuits.{name}" for name in ("part", "later", "earlier")),
    *(f"alignment.{about}_{row}" for about in ("at", "row") for row in ROWS),
    *(
        f"alignment.{about}_{basis}"
        for about in ("basis", "best", "chosen", "score", "matrices_formula")
        for basis in get_args(Basis)
    ),
    *(f"alignment.checked_{by}_{who}" for by in ("hand", "task") for who in ("same", "other")),
    *(f"alignment.{name}" for name in ("part", "precision", "recall", "error")),
    *(f"align.{name}" for name in ("best", "mean")),
    *(f"alignment.without_{verdict}" for verdict in ("more", "less")),
    *(f"alignment.off_{name}" for name in ("count", "aligning", "others", "worst", "drawn")),
    *(f"edits.{part}" for part in USUAL_MASKS),
    *(f"edits.{name}" for name in ("switch_on", "switch_off", "cell_open", "cell_shut")),
    *(f"causes.{name}" for name in ("query", "key", "of_query", "of_key", "word", "rival")),
    *(f"causes.{name}" for name in ("before", "predicted", "measured", "norms_free")),
    *(f"causes.{name}" for name in ("by_sublayers", "by_singles")),
    *(f"causes.{name}" for name in ("weight_of", "pushed", "held_down", "kl", "said", "rank_of")),
    *(f"causes.note_{name}" for name in ("qk_norm", "first", "precision")),
    *(f"causes.note_{name}" for name in ("logit_cap", "gate")),
    *(f"causes.read_{kind}{from_}" for kind in ("lens", "film") for from_ in ("", "_first")),
    *(f"causes.colour_{name}" for name in ("chance", "ranked", "distance")),
    *(f"measured.{name}{part}" for name in CAUSES for part in ("", "_help")),
    *(f"measured.agree_{strength}" for strength in ("strong", "weak", "none")),
    *(f"take.{kind}" for kind in ("svg", "csv", "html", "npz")),
    *(f"edits.{part}" for part in SIZE_PARTS),
    *(f"masks.{part}_help" for part in (*USUAL_MASKS, *SIZE_PARTS)),
    *(f"cell.{name}" for name in ("stream", "all_heads", "this_head", "this_cell", "token")),
    *(f"cell.{name}" for name in ("query", "key", "divided_by", "entropy", "top", "gradient")),
    *(f"cell.{name}" for name in ("matrices", "parameters", "difference")),
    *(f"cell.reading_projection{turned}" for turned in ("", "_turned")),
    *(f"cell.initial_{name}" for name in ("weights", "scores", "bits", "most")),
    *(f"cell.initial_{name}" for name in ("decided", "even", "open")),
    *(f"cell.single_{name}" for name in ("this", "own", "made", "shape", "norm")),
    *(f"cell.single_{name}" for name in ("same", "positions", "other", "flatter", "sharper")),
    *(f"cell.initial_why_{reason}" for reason in ("rule", "normed")),
    *(f"cell.single_lack_{name}" for name in ("positions", "normed")),
    *(f"cell.engine_{name}" for name in ("own", "mean")),
    *(f"cell.engines_{name}" for name in ("on", "off", "agree", "differ", "fused", "module")),
    *(f"cell.engines_lack_{name}" for name in ("turned", "normed", "capped")),
    *(f"cell.option_{name}" for name in (*OPTIONS, "same", "other", "meaning")),
    *(f"cell.backward_{name}" for name in ("made", "shape", "largest", "error", "recomputed")),
    *(f"machine.{name}" for name in ("d_model", "n_heads", "kv_heads", "n_layers", "d_ff")),
    *(f"machine.{name}" for name in ("vocab_size", "has_encoder", "swiglu", "bias", "tied")),
    *(f"machine.{name}" for name in ("src_vocab", "out_bias", "final_norm")),
    *(f"machine.{name}" for name in ("patterns", "cache", "weights", "encoder", "decoder")),
    *(f"training.{name}" for name in ("pause", "go", "step", "stop", "part")),
    *(f"training.compare.outcome_{name}" for name in ("first", "second", "band", "one_seed")),
    *(f"training.opened.{name}" for name in ("fresh", "pause", "source", "read", "labels", "grad")),
    *(f"training.opened.{name}" for name in ("norm", "clipped", "rate", "m_before", "v_before")),
    *(f"training.opened.{name}" for name in ("m_after", "v_after", "m_hat", "v_hat")),
    *(f"training.opened.{name}" for name in ("before", "after", "reading", "no_formula")),
    *(f"training.guess_{name}" for name in ("right", "wrong")),
    *(f"training.reading.{name}" for name in ("right", "wrong", "silent")),
    *(f"training.{name}_title" for name in ("norm", "entropy")),
    *(f"training.curve.{name}" for name in ("norm", "entropy")),
    *(f"claims.{claim.id}.claim" for claim in CLAIMS),
    *(
        f"path.steps.{step.id}.{word}"
        for step in STEPS.values()
        for word in ("title", "lead", "ask", *step.told)
    ),
    *(f"path.{name}" for name in ("chapter", "n_right", "n_given", "n_steps")),
    *(f"path.place_{placement}" for placement in get_args(Placement)),
    *(f"path.{name}" for name in ("right", "wrong", "waiting", "asked_before", "part")),
    *(
        f"claims.{claim.id}.{why}"
        for claim in CLAIMS
        for why in said_in_claims(f"claims.{claim.id}")
    ),
    *(f"masks.scope_{scope}" for scope in SCOPES),
    *(f"masks.{name}" for name in (*TOOLS, "undo", "redo")),
    *(f"masks.{name}" for name in ("sides", "scores", "difference")),
    *(f"masks.{name}" for name in ("before", "after", "masked", "unmasked")),
    *(f"masks.{name}" for name in ("open_cell", "shut_cell")),
    *(f"masks.rendering_{name}{by}" for name in RENDERINGS for by in ("", "_by")),
    *(f"masks.reader_{name}" for name in READERS),
    *(f"masks.{word}_{name}" for word in ("outcome", "handed") for name in OUTCOMES),
    *(f"masks.handed_{name}_title" for name in ("right", "got")),
    *(f"masks.fills_{name}_alt" for name in ("open", "empty")),
    *(f"masks.way_{name}" for name in WAYS),
    *(f"masks.empty_{name}" for name in get_args(Empty)),
    *(f"card.layers_{role}" for role in ("encoder", "decoder")),
    *(f"card.tokens_{lang}" for lang in LANGUAGES),
    *(f"card.only_{lang}" for lang in LANGUAGES),
    *(f"card.{name}" for name in ("name", "snapshot", "kind", "layers", "heads", "width")),
    *(f"card.{name}" for name in ("parameters", "vocabulary", "length", "positions", "norm")),
    *(f"card.{name}" for name in ("ffn", "output", "marks_row", "stored", "languages", "licence")),
    *(f"card.{name}" for name in ("heads_own", "heads_shared", "with_last", "without_last")),
    *(f"card.{name}" for name in ("output_tied", "output_own", "output_none")),
    *(f"machine.ways_{kind}" for kind in ("attention", "recurrent", "convolution")),
    *(f"speculation.{pace}" for pace in ("faster", "slower", "alike")),
    *(f"masks.twins_{name}" for name in ("model", "loss", "writes", "right", "cheat")),
    *(
        f"masks.batch_{name}"
        for name in ("sentence", "pads", "text_pads", "alone", "together", "moved_head")
    ),
    *(f"place.{name}" for name in ("translated", "forced", "prompt", "continued")),
    *(f"{page}.part" for page in ("decoding", "masks", "patching", "causes")),
    *(f"blocks.{norm}" for norm in NORMS),
    *(f"blocks.read_{norm}" for norm in NORMS),
    *(f"blocks.ffn_{kind}" for kind in get_args(FeedForwardKind)),
    *(f"blocks.act_{name}" for name in ACTIVATIONS),
    *(f"blocks.curve_{what}" for what in get_args(CurveOf)),
    *(f"blocks.{name}" for name in ("mean", "scale", "rms", "by_hand", "autograd", "late")),
    *(
        f"blocks.{name}{axis}"
        for name in ("stream", "gradient", "spread")
        for axis in ("", "_axis")
    ),
    *(f"blocks.{name}" for name in ("pre", "post", "gate", "up", "product", "part")),
    *(f"positions.{setting}" for setting in get_args(Setting)),
    *(f"masks.nothing_changed_{why}" for why in ("same", "pads", "edits")),
    *(f"contexts.{kind.acts}" for kind in POSITIONS.values()),
    *(f"positions.read_flat_{kind.acts}" for kind in POSITIONS.values()),
    *(f"positions.read_{setting}" for setting in get_args(Setting)),
    *(f"positions.change_{kind}" for kind in CHANGE_KINDS),
    *(f"workshop.{name}" for name in ("sees", "does_not_see", "at_hidden", "at_shown")),
    *(f"workshop.{name}" for name in ("accused", "let_through", "as_expected", "certified")),
    *(f"workshop.{name}" for name in ("yours", "wanted", "part")),
    *(f"positions.show_{name}" for name in ("weights", "scores", "difference")),
    *(f"positions.layout_{layout}" for layout in LAYOUTS),
    *(f"positions.{name}" for name in ("first", "second", "head_before", "head_after")),
    *(f"positions.{name}" for name in ("part", "query", "key")),
    *(
        f"positions.learned_{name}_{of}"
        for name in ("table", "gram")
        for of in ("sines", "vectors")
    ),
    *(f"positions.learned_curve_{name}" for name in ("sines", "vectors", "before", "added")),
    *(f"positions.natural_{state}" for state in ("hurts", "helps", "same")),
    *(f"positions.learned_{state}" for state in ("none", "trace", "close")),
    *(f"positions.model_{kind}" for kind in POSITIONS),
    *(f"decoding.{name}" for name in ("greedy", "beam", "sample")),
    *(f"decoding.{name}_note" for name in ("greedy", "beam", "sample")),
    *(f"decoding.{name}" for name in ("width", "length_penalty", "temperature", "top_k", "top_p")),
    *(f"decoding.why_{name}" for name in ("greedy", "beam_first", "beam_other", "sample")),
    *(f"decoding.{name}" for name in ("why_forced", "result", "result_unfinished")),
    *(f"decoding.result_{name}" for name in ("unfinished", "stopped")),
    *(f"branches.{name}" for name in ("first", "second", "the_first", "the_second", "sides")),
    *(f"onepass.{name}" for name in ("with", "without")),
    *(f"certify.{name}.{word}" for name in FINDINGS for word in ("title", "kept", "broken")),
    *(f"clinic.{p.id}.{w}" for p in PITFALLS for w in ("title", "symptom", "silent", "right")),
    *(f"certificate.behind_{stack}" for stack in ("encoder", "decoder")),
    *(f"certify.untested_{why}" for why in get_args(LeftOut)),
    *(f"certify.reach_{name}" for name in ("decoder", "encoder", "cross")),
    *(f"atlas.{name}" for name in ("across", "up", "shortest", "longest", "least")),
    "atlas.part",
    *(f"atlas.{name}_help" for name in ("shortest", "longest", "least")),
    *(f"atlas.column_{name}" for name in ("what", "top", "weight", "chance", "kind")),
    *(f"atlas.column_{name}" for name in ("source", "target", "credit")),
    *(f"atlas.cost_{name}" for name in ("some", "less", "none")),
    *(f"atlas.here_{name}" for name in ("does", "not", "mixed")),
    *(f"atlas.name_{name}" for name in ("rows", "some", "alignment")),
    *(f"atlas.profile_{name}" for name in ("self", "cross")),
    *(f"atlas.moments_{name}" for name in ("never", "from", "always")),
    *(f"atlas.like_{name}" for name in SOURCES),
    *(f"atlas.sentences_{name}" for name in ("weight", "spread", "alignment")),
    *(f"atlas.csv_{name}" for name in ("heads", "sentences")),
    *(f"atlas.search_{name}" for name in ("head", "mean", "here", "kind")),
    *(f"patching.says_{name}" for name in ("first", "second")),
    *(f"patching.into_{name}" for name in ("first", "second")),
    *(f"patching.run_{name}" for name in ("first", "second", "patched")),
    *(f"patching.{name}_alt" for name in ("elsewhere", "by_position")),
    *(f"certify.at_{axis}" for axis in ("head", "query", "key")),
}
MADE_LATE = {"clinic.figures": figures, "clinic.tried": tried}
"""The same, found out when asked for: the demonstrations train small networks."""
IN_SPECS = {"count"}  # a placeholder that stands within the words of another one
NAMES_OF_SETTINGS = {"layer", "head"}  # the view's own; the rest come with the backend's problems


@cache
def names_made(family: str) -> set[str]:
    return MADE[family] if family in MADE else MADE_LATE[family]()


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def literal_keys() -> set[str]:
    """Every key that code writes out as a whole string."""
    tables = {key.split(".")[0] for key in words("en")}
    found = re.findall(r"""["']([a-z_]+(?:\.[a-z_]+)+)["']""", CODE)
    return {key for key in found if key.split(".")[0] in tables and key in words("en")}


def test_both_languages_have_the_same_keys() -> None:
    first, second = (set(words(lang)) for lang in LANGUAGES)
    assert first == second


def test_both_languages_have_the_same_placeholders() -> None:
    for key, english in words("en").items():
        assert placeholders(english) == placeholders(words("zh")[key]), key


def test_a_number_of_one_is_followed_by_a_word_in_the_singular() -> None:
    """Of what there can be one of, on some text or in some model."""
    many = r"(tokens|steps|passes|sentences|PADs|cells|runs|labels|keys|layers)"
    never_one = re.compile(
        r"^(problems\.(too_l|too_many|target)|positions\.(natural|model)|certificate|reach|history"
        r"|certify\.verdict|claims|clinic\.(read_left|figures)|sidebar\.sentence_help|caching\.ask"
        r"|machine\.(logits|lengths)|card\.(tokens|heads)|masks\.conventions_alike"
        r"|cell\.(raw|backward_kept)|blocks\.read_batchnorm)"
    )
    for key, text in words("en").items():
        if not never_one.match(key):
            said = t(key, lang="en", **dict.fromkeys(placeholders(text) | IN_SPECS, 1))
            assert not re.search(rf"\b1\**( [a-z/]+)? {many}\b", said), key
    assert t("decoding.result", lang="en", count=1, logprob=0).startswith("1 step ·")
    assert t("decoding.result", lang="en", count="2", logprob=0).startswith("2 steps ·")


def test_no_words_are_empty_or_left_in_the_other_language() -> None:
    for key in words("en"):
        assert words("en")[key], key
        assert words("zh")[key], key
        assert not re.search(r"[\u4e00-\u9fff]", words("en")[key]), key
        plain = re.sub(r"\{\w+\}|[A-Za-zα0-9 =().`*:·−→-]+", "", words("zh")[key])
        untranslated = key.startswith(("settings.top_", "alignment.methods.grow")) or key in (
            "place.quoted", "place.translated", "place.prompt", "heads.and",
            "cell.dot", "cell.scaled",
        )  # fmt: skip
        assert plain or untranslated, key


@pytest.mark.parametrize("family", [*MADE, *MADE_LATE])
def test_each_family_has_just_the_words_it_can_show(family: str) -> None:
    prefix = f"{family}."
    there = {
        key.removeprefix(prefix)
        for key in words("en")
        if key.startswith(prefix) and "." not in key.removeprefix(prefix)
    }
    assert there == names_made(family)


def test_every_used_key_exists() -> None:
    called = set(re.findall(r"""\bt\(\s*["']([a-z_.]+)["']""", CODE))
    assert called
    assert called <= set(words("en"))
    assert set(words("en")) >= PIECES


def test_every_key_is_used() -> None:
    families = [*MADE, *MADE_LATE]
    made = {f"{family}.{name}" for family in families for name in names_made(family)}
    settings = {key for key in words("en") if key.startswith("settings.")}
    filling = {key for key in words("en") if key.startswith("filling.")}
    unused = set(words("en")) - literal_keys() - made - PIECES - settings - filling
    assert not unused


@pytest.mark.parametrize("lang", LANGUAGES)
def test_words_for_filling_in_replace_words_of_the_same_values(lang: str) -> None:
    replaced = {key: key.removeprefix("filling.") for key in words(lang) if "filling." in key}
    assert replaced
    for key, usual in replaced.items():
        assert placeholders(words(lang)[key]) == placeholders(words(lang)[usual]), key


def test_the_words_of_a_formula_are_those_of_the_language() -> None:
    line = r"\text{feed-forward} = \mathrm{SwiGLU}\;\text{or}\;\mathrm{ReLU}"
    assert formula(line, lang="en") == line
    assert (
        formula(line, lang="zh") == r"\text{前馈网络} = \mathrm{SwiGLU}\;\text{或}\;\mathrm{ReLU}"
    )
    with pytest.raises(KeyError, match="no_such_word"):
        formula(r"\text{no such word}", lang="en")


def test_no_formula_has_an_english_word_in_chinese() -> None:
    assert IN_FORMULAS
    for word in IN_FORMULAS:
        assert not re.search(r"[A-Za-z]{2}", words("zh")[f"formulas.{word}"]), word
    assert set(re.findall(r"\\mathrm\{+(\w+)", PAGES_CODE)) <= NAMES_IN_FORMULAS | {"name"}


def test_every_setting_that_can_be_refused_has_a_name() -> None:
    named = set(re.findall(r'checked_number\(\s*"(\w+)"', CODE))
    assert named
    have = {key.removeprefix("settings.") for key in words("en") if key.startswith("settings.")}
    assert named | NAMES_OF_SETTINGS <= have


@pytest.mark.parametrize("key", PROBLEMS)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_words_of_a_problem_use_values_that_it_has(lang: str, key: str) -> None:
    assert placeholders(words(lang)[f"problems.{key}"]) <= PROBLEMS[key]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_terminal_is_told_nothing_of_boxes_and_buttons(lang: str) -> None:
    """Of all that the commands of the shell can be refused."""
    shell = "empty whitespace_only nothing_left too_long_chars too_many_tokens target_too_long "
    shell += "bad_number bad_edit unknown_model broken_model nothing_to_fill writes_nothing"
    for key in shell.split():
        values = dict.fromkeys(PROBLEMS[key], "1")
        said = refusal(InputProblem(key, **values), lang)
        assert not re.search(r"on the left|\bbox\b|example|candidate|左侧|示例|清空|候选", said), (
            key
        )


def test_a_missing_key_or_value_or_language_raises() -> None:
    with pytest.raises(KeyError, match="no_such_key"):
        t("no_such_key", lang="en")
    with pytest.raises(KeyError, match="text"):
        t("shell.last_good", lang="en")
    with pytest.raises(KeyError, match="xx"):
        t("shell.working", lang="xx")


def test_values_fill_the_words() -> None:
    assert t("heads.large", lang="en", layer=2, head=5) == "Layer 2, head 5"
    assert t("heads.large", lang="zh", layer=2, head=5) == "第 2 层，第 5 头"


def test_examples_are_sentences_and_come_for_any_model() -> None:
    for model in ("en-zh", "copy", "../../etc/passwd"):
        groups = examples(model)
        assert all(groups.values())
        assert all(sentence.strip() == sentence for group in groups.values() for sentence in group)


def test_a_model_that_fills_in_gets_examples_with_gaps() -> None:
    for model in ("masked-en", "my-bert", "en-bert"):
        sentences = [each for group in examples(model, masked=True).values() for each in group]
        assert all("[MASK]" in sentence for sentence in sentences)
    assert examples("en-bert") == examples("en-zh")


def test_the_theme_of_the_app_is_the_palette() -> None:
    config = (ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8")
    for name, palette in (("light", LIGHT), ("dark", DARK)):
        section = config.split(f"[theme.{name}]")[1].split("[theme.")[0]
        for option, colour in (
            ("primaryColor", palette.accent),
            ("backgroundColor", palette.paper),
            ("textColor", palette.ink),
            ("borderColor", palette.line),
            ("greenTextColor", palette.source),
            ("greenBackgroundColor", palette.source_soft),
            ("orangeTextColor", palette.target),
            ("orangeBackgroundColor", palette.target_soft),
        ):
            assert f'{option} = "{colour}"' in section
