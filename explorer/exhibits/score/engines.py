"""Three implementations of one attention layer, and the options of the fused one."""

from functools import partial

from explorer.analysis.cases import Result
from explorer.analysis.cases.backend import BACKEND, ENGINES, backend, options
from explorer.analysis.score.scaling import Scaling, divisor_of
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.cases.outcome import named, print_of, table_of, variant_of, words_of
from explorer.exhibits.choices import PartChoices
from explorer.exhibits.picking import pick_one, toggle
from explorer.exhibits.score.choices import ScoreChoices
from explorer.exhibits.score.groups import possible_groups
from explorer.exhibits.score.place import drop_of, is_open, pick_dropout
from explorer.library import LoadedModel
from explorer.runs.trace import Trace
from models.hooks import AttentionSite


def compute(
    loaded: LoadedModel,
    trace: Trace,
    site: AttentionSite,
    head: int,
    engine: str,
    p: float,
    training: bool,
    scaling: Scaling,
    n_kv_heads: int,
) -> tuple[Result, Result]:
    """The implementations, and the options of the fused function."""
    result = backend(loaded, trace, site, head, engine, p, training)
    return result, options(loaded, trace, site, p, scaling, n_kv_heads)


def show(results: tuple[Result, Result], view: View) -> b.Blocks:
    """The switch, dropout and mode, the three runs, the returned weights, and the options."""
    (engines, tried), choices = results, view.choices(ScoreChoices)
    yield b.Prose(view.t("cases.backend.lead"))
    names = {name: named(view, spelt) for name, spelt in ENGINES.items()}
    more = b.More(said=names.__getitem__)
    engine = pick_one(view, "score.engine", tuple(ENGINES), choices.engine, **more)
    mode = toggle(view, "score.training", choices.training)
    yield b.Row((engine, pick_dropout(view, "score.engine_drop", 220), mode))
    yield from table_of(view, engines)
    if engines.why:
        yield b.Sentence("aside", words_of(view, BACKEND.id, engines))
    yield from variant_of(view, BACKEND, engines)
    yield b.Title(view.t("cases.options.lead"))
    yield from table_of(view, tried)
    if tried.why:
        yield b.Note(words_of(view, "options", tried))
    yield from print_of(view, BACKEND, engines)


def _other_scale(view: View) -> Scaling:
    """The scaling tried with `scale`: the one chosen for the aside on scaling, else the first one
    that is not the model's own."""
    config, chosen = view.loaded.config, view.choices(ScoreChoices).scaling
    tried: tuple[Scaling, ...] = (chosen, "model", "none")
    own = config.divisor
    return next(e for e in tried if divisor_of(e, config.d_head, config.d_model) != own)


def _shared(view: View) -> int:
    """The number of key/value heads tried with `enable_gqa`: two, or the number chosen
    elsewhere."""
    offered = possible_groups(view.site)
    own = view.loaded.config.kv_heads
    chosen = view.choices(PartChoices).kv_heads
    if chosen in offered and chosen <= own:
        return chosen
    return min(own, 2) if 2 in offered else own


INPUTS = {"p": drop_of, "scaling": _other_scale, "n_kv_heads": _shared}
EXHIBIT = Exhibit(compute, show, inputs=INPUTS, open=partial(is_open, "engines"))
