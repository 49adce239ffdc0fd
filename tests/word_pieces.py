"""The words whose keys the code puts together from pieces, as f"page.{name}_note"."""

from typing import get_args

from made_words import said_in_claims

from explorer.analysis.alignment.study import Basis, Source
from explorer.analysis.blocks.norms import NORMS
from explorer.analysis.certificate.certify import FINDINGS, LeftOut
from explorer.analysis.circuits.behaviour import BEHAVIOURS
from explorer.analysis.circuits.composition import WAYS as READS
from explorer.analysis.circuits.vocabulary import MAPS
from explorer.analysis.claims import CLAIMS
from explorer.analysis.clinic import PITFALLS
from explorer.analysis.heads.attribution import MEASURES as CAUSES
from explorer.analysis.heads.versus import Incomparable
from explorer.analysis.positions.changes import CHANGE_KINDS
from explorer.analysis.positions.order import Setting
from explorer.analysis.positions.turning import LAYOUTS
from explorer.exhibits import needs
from explorer.exhibits.alignment.choices import ROWS
from explorer.exhibits.atlas.choices import SOURCES
from explorer.exhibits.blocks.choices import CurveOf
from explorer.exhibits.cell.engines import OPTIONS
from explorer.exhibits.masks.choices import READERS, RENDERINGS, SCOPES, TOOLS, WAYS
from explorer.exhibits.masks.conventions import OUTCOMES
from explorer.exhibits.masks.fills import Empty
from explorer.exhibits.path.course import STEPS
from explorer.figures.blocks import Placement
from explorer.pages import LESSONS, PAGES
from explorer.runs.edits import SIZE_PARTS, USUAL_MASKS
from explorer.text import LANGUAGES
from models.feedforward import ACTIVATIONS, FeedForwardKind
from models.positions import POSITIONS

# Keys that code writes as f"page.{...}"; each must also be named as a word of its own in the code.
PIECES = {
    *(f"self_check.{name}{end}" for name in ("shipped", "edited") for end in ("", "_broken")),
    "shelf.title",
    "glossary.title",
    *(f"needs.{need.name}" for need in vars(needs).values() if isinstance(need, needs.Need)),
    *(f"units.{unit}" for unit in ("large", "usual")),
    *(f"{page.name}.{part}" for page in PAGES for part in ("title", "lead", "try")),
    *(f"{page.name}.formula" for page in LESSONS if page.name != "clinic"),
    *(f"versus.{why}" for why in (*get_args(Incomparable), "nothing_read", "formula")),
    *(f"circuits.what_{name}" for name in BEHAVIOURS),
    *(
        f"circuits.{kind}_{name}"
        for kind in ("best", "next")
        for name in ("clear", "slight", "none", "untested")
    ),
    *(f"circuits.step_copies_{name}" for name in ("clear", "slight", "none")),
    *(f"circuits.{kind}_{what}" for kind in MAPS for what in ("note", "reading", "value")),
    *(f"circuits.{kind}_{what}" for kind in MAPS for what in ("row", "column")),
    *(f"circuits.way_{way}" for way in READS),
    *(f"circuits.composed_{how}" for how in ("above", "even", "untested", "score")),
    *(f"circuits.off_{name}" for name in ("one", "many", "most")),
    *(f"circuits.curve_{name}" for name in ("first", "others", "even")),
    *(f"circuits.alt_{name}" for name in ("copies", "finds", "fails")),
    *(f"circuits.{name}" for name in ("even", "guessing", "no_output", "head_net", "no_series")),
    *(f"circuits.{name}" for name in ("part", "later", "earlier")),
    *(f"alignment.{about}_{row}" for about in ("at", "row") for row in ROWS),
    *(
        f"alignment.{about}_{basis}"
        for about in ("basis", "best", "tied", "chosen", "score", "matrices_formula")
        for basis in get_args(Basis)
    ),
    *(f"alignment.checked_{by}_{who}" for by in get_args(Source) for who in ("same", "other")),
    *(f"alignment.known_{by}" for by in get_args(Source)),
    *(f"alignment.{name}" for name in ("part", "precision", "recall", "error")),
    *(f"align.{name}" for name in ("best", "mean")),
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
    *(f"measured.{name}" for name in ("no_head", "pad")),
    *(f"measured.agree_{strength}" for strength in ("strong", "weak", "none", "chance")),
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
    *(f"machine.{name}" for name in ("linear", "square")),
    *(f"swaps.{name}" for name in ("choice", "option", "change", "loss", "kept", "parameters")),
    *(f"tying.{name}" for name in ("word", "product", "logit", "h", "length", "cosine")),
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
    *(
        f"card.{name}"
        for name in ("ffn", "output", "marks_row", "not_shown", "stored", "languages", "licence")
    ),
    *(f"card.{name}" for name in ("heads_own", "heads_shared", "with_last", "without_last")),
    *(f"card.{name}" for name in ("output_tied", "output_own", "output_none")),
    *(f"machine.ways_{kind}" for kind in ("attention", "recurrent", "convolution")),
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
    *(f"positions.{name}" for name in ("base", "width", "length", "dimension", "wavelength")),
    *(f"sums.{name}" for name in ("way", "width", "parameters", "more")),
    *(f"positions.learned_{state}" for state in ("none", "trace", "close")),
    *(f"positions.learned_{whose}" for whose in ("computed", "own", "lead")),
    *(f"positions.model_{kind}" for kind in POSITIONS),
    *(f"decoding.{name}" for name in ("greedy", "beam", "sample")),
    *(f"decoding.{name}_note" for name in ("greedy", "beam", "sample", "refilling")),
    *(f"decoding.rule_{name}" for name in ("narrowing", "refill", "early", "never")),
    *(
        f"decoding.{name}"
        for name in ("asked_chosen", "asked_ignored", "rules_same", "rules_differ")
    ),
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
