"""Cached models and runs; `models` and `runs` next to it cache their analyses.

This module imports torch, so the app imports it early, to have the model code ready.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from explorer import library, text
from explorer.analysis.heads.ablation import Ablation, ablating
from explorer.analysis.heads.aggregates import Aggregate, aggregates_of
from explorer.analysis.heads.measures import HeadMeasure, measure_maps
from explorer.analysis.heads.sinks import Sinks, sinks_of, without_sinks
from explorer.analysis.heads.words import cells_by_word, words_of
from explorer.components.heads_payload import HeadGrid, joined, pooled, step_of
from explorer.engine.caching import PARTS, cached
from explorer.engine.turns import TOGETHER
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs import generation, trace as tracing
from explorer.runs.activations import Part
from explorer.runs.edits import Edit
from explorer.runs.inputs import given_tokens, target_tokens
from explorer.runs.interventions import rules_in_force
from explorer.runs.passes import Steps
from explorer.runs.rerun import read_again
from explorer.runs.retold import greedy_steps
from models.foreign.languages import split_languages
from models.hooks import Role
from models.strategies import Greedy, Strategy

SHORT = 64
"""The most tokens of a sentence that joins a batch: padding to a long one would cost more."""


@dataclass(frozen=True)
class Run:
    """The arguments of a Trace: one text, one model, and the user's edits.

    `target` None: the model generates its own output. `edits` are as requested, including any that
    do not apply; `pads` is the number of PADs added; `without_sinks` as in a Trace. Equal runs give
    equal results.
    """

    model: str
    text: str
    target: str | None = None
    edits: tuple[Edit, ...] = ()
    pads: int = 0
    without_sinks: bool = False

    @property
    def plain(self) -> "Run":
        """The same run without edits and padding, and with its sinks."""
        return replace(self, edits=(), pads=0, without_sinks=False)


def models() -> tuple[str, ...]:
    """The names of the listed models. Not cached, so an added checkpoint shows up at once."""
    return library.list_models(library.CHECKPOINTS)


@cached
def alike(model: str, shelf: tuple[str, ...]) -> tuple[str, ...]:
    """The models on the shelf with the same tokenization as this one, and their snapshots."""
    names = library.same_vocabulary(model, library.CHECKPOINTS)
    return tuple(name for name in names if library.split_step(name)[0] in shelf)


@cached
def translators(shelf: tuple[str, ...]) -> tuple[str, ...]:
    """The models on the shelf that have a source sequence."""
    return library.translators(shelf, library.CHECKPOINTS)


@cached(is_model=True)
def open_model(name: str) -> LoadedModel:
    """A listed model, opened once and shared by all sessions. Raises InputProblem.

    torch runs on one thread: with two, and another busy process, small models are four times
    slower.
    """
    torch.set_num_threads(1)
    base, pair = split_languages(name)
    if pair is not None:  # share the weights of all language pairs
        return open_model(base).speaking(*pair)
    return library.open_model(name, library.CHECKPOINTS)


@cached
def readable_examples(model: str) -> dict[str, tuple[str, ...]]:
    """Example sentences for a model, by topic, that it can read; all if it can read none. Raises
    InputProblem."""
    loaded = open_model(model)
    examples = text.examples(model, like=loaded.like)
    fitting = {
        topic: tuple(sentence for sentence in sentences if can_take(loaded, sentence))
        for topic, sentences in examples.items()
    }
    return {topic: sentences for topic, sentences in fitting.items() if sentences} or examples


def can_take(loaded: LoadedModel, sentence: str) -> bool:
    """Whether a model takes a sentence as its text; it may be too long."""
    try:
        given_tokens(loaded, sentence)
    except InputProblem:
        return False
    return True


def examples_of(model: str) -> dict[str, tuple[str, ...]]:
    """Example sentences for a model, by topic; with gaps for a masked language model.

    Sentences that are too long are omitted, unless all are: then the page reports it.
    """
    try:
        return readable_examples(model)
    except InputProblem:  # the page reports it
        return text.examples(model)


@cached
def trace(run: Run) -> tracing.Trace:
    """One run with all its activations. Raises InputProblem."""
    loaded, translated = open_model(run.model), None
    if run.without_sinks:
        return without_sinks(loaded, trace(replace(run, without_sinks=False)))
    if loaded.config.reads_source and not target_tokens(loaded, run.target or ""):
        # Padding changes a translation only under edits.
        pads = run.pads if run.edits else 0
        translated = translation(run.model, run.text, run.edits, pads)
    how = run.text, run.target, run.edits, run.pads, partial(_read, run), translated
    return tracing.trace(loaded, *how)


@cached
def translation(
    model: str, text: str, edits: tuple[Edit, ...] = (), pads: int = 0
) -> tuple[tuple[int, ...], bool]:
    """The greedy translation as tokens, and whether it ended. Raises InputProblem.

    The waiting sessions' new sentences are translated in one batch; under edits, only if their
    lengths are equal. With a causal mask a draft is faster than a batch.
    """
    loaded = open_model(model)
    source = given_tokens(loaded, text)

    translated = partial(generation.translate_all, loaded, edits=edits)
    if pads or (edits and rules_in_force(edits)["causal"]):
        tokens, finished = generation.translate(
            loaded, source, edits, pads, translation(model, text)[0]
        )
    elif len(source) > SHORT or loaded.marks.pad is None:
        ((tokens, finished),) = translated([source])
    else:
        group = model, edits, len(source) if edits else None
        tokens, finished = TOGETHER.ask(group, source, translated)
    return tuple(tokens), finished


def _read(run: Run, part: Part) -> Mapping[str, np.ndarray]:
    """A part of a run that its Trace does not store. Raises InputProblem."""

    def again() -> Mapping[str, np.ndarray]:
        return read_again(open_model(run.model), trace(run), part)

    return PARTS.get((str(library.CHECKPOINTS), run, part), again)


@cached
def measures(run: Run, kind: Role) -> Steps[dict[HeadMeasure, NDArray[np.float64]]]:
    """Measures of each head of one kind of attention in a run, layer by layer. Raises
    InputProblem."""
    return (yield from measure_maps(trace(run), kind))


@cached
def have_sinks(run: Run, kind: Role) -> bool:
    """Whether a head of one kind of attention has a sink; False for a long text, whose patterns are
    not stored. Raises InputProblem."""
    traced = trace(run)
    for site in reversed(traced.sites_of(kind) if traced.patterns_kept else ()):
        if sinks_of(open_model(run.model), traced, site).left_out.any():
            return True  # usually in the last layer
    return False


@cached
def sinks(run: Run, kind: Role) -> tuple[Sinks, ...]:
    """The sinks of each layer's heads of one kind of attention; () for a long text, as in
    `have_sinks`. Raises InputProblem."""
    loaded, traced = open_model(run.model), trace(replace(run, without_sinks=False))
    sites = traced.sites_of(kind) if traced.patterns_kept else ()
    return tuple(sinks_of(loaded, traced, site) for site in sites)


@cached
def aggregates(run: Run, kind: Role) -> tuple[Aggregate, ...]:
    """Means and rollout of one kind of attention. Raises InputProblem."""
    return aggregates_of(trace(run), kind)


@cached
def thumbnails(run: Run, kind: Role, by_words: bool) -> Steps[HeadGrid]:
    """Thumbnails of all heads of one kind of attention, layer by layer, then of the aggregates.
    Raises InputProblem."""
    whole, extras = trace(run), aggregates(run, kind)
    sites = whole.sites_of(kind)
    tokens = whole.query_tokens(sites[0].name), whole.key_tokens(sites[0].name)
    words = (words_of(tokens[0]), words_of(tokens[1])) if by_words else None
    n_query, n_key = map(len, tokens if words is None else (axis.starts for axis in words))
    step, parts = step_of(n_query, n_key), []
    for done, site in enumerate(sites):
        yield done, len(sites)
        cells = whole.pattern(site.name), whole.mask(site.name)
        parts.append(pooled(cells if words is None else cells_by_word(cells, words), step))
    for extra in extras:
        cells = extra.pattern[None], extra.mask[None]
        parts.append(pooled(cells if words is None else cells_by_word(cells, words), step))
    return joined((len(sites), sites[0].n_heads, n_query, n_key), step, parts)


@cached
def ablation(run: Run) -> Steps[Ablation]:
    """Every head of a run ablated, one at a time. Raises InputProblem; ValueError if no token was
    predicted."""
    return (yield from ablating(open_model(run.model), trace(run)))


@cached
def generate(
    model: str,
    text: str,
    strategy: Strategy,
    edits: tuple[Edit, ...],
    limit: int,
    forced: tuple[int, ...] = (),
    ruled: bool = True,
) -> Steps[generation.Generation]:
    """Decode one sentence. Raises InputProblem.

    `ruled`: with the rules of the model's own generation_config.json. A greedy translation is read
    from its Trace, if there is one.
    """
    loaded, run = open_model(model), Run(model, text)
    rules = loaded.asked.rules if ruled else None
    asked = loaded, text, strategy, limit, edits, forced, rules
    if isinstance(strategy, Greedy) and not (edits or forced or rules) and trace.is_kept(run):
        most = min(limit, generation.room(loaded, text))
        known = greedy_steps(loaded, trace(run), most)
        return (yield from generation.generating(*asked, known))
    return (yield from generation.generating(*asked))
