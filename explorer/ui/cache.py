"""Streamlit's caches: one model for everybody, results by what they came from.

Importing it also imports torch, so whoever starts the app early has the model code ready.
"""

from collections.abc import Callable
from pathlib import Path

import streamlit as st
import torch

from explorer import library
from explorer.analysis.decoding.caching import Cached, Timing, cached_and_not
from explorer.analysis.decoding.caching import timings as measure
from explorer.analysis.decoding.labels import LabelledBatch, labelled_batch
from explorer.analysis.decoding.one_pass import OnePass
from explorer.analysis.decoding.one_pass import one_pass as find_one_pass
from explorer.analysis.decoding.tree import Line, Tree, grow
from explorer.analysis.heads import aggregates as further
from explorer.analysis.heads.ablation import Ablation, ablate
from explorer.analysis.heads.attribution import Causes
from explorer.analysis.heads.attribution import causes as find_causes
from explorer.library import LoadedModel
from explorer.runs import generation
from explorer.runs import trace as tracing
from explorer.runs.edits import format_edits, parse_edits
from explorer.runs.generation import Generation
from explorer.runs.rerun import Kind
from explorer.ui.kept import Kept
from models.decoding import Beam, Greedy, Sample, Strategy

MOST_ABLATIONS = 32
MOST_GENERATIONS = 32


def models() -> tuple[str, ...]:
    """The names on the shelf. Not cached: a checkpoint that was added shows up at once."""
    return library.list_models(library.CHECKPOINTS)


@st.cache_resource(max_entries=4, show_spinner=False)
def model(name: str, folder: str) -> LoadedModel:
    """One checkpoint of `folder`, opened once and shared by all sessions. Raises InputProblem.

    Small models run on one torch thread: with two and a busy neighbour they are four times slower.
    """
    torch.set_num_threads(1)
    return library.open_model(name, Path(folder))


def open_model(name: str) -> LoadedModel:
    """One checkpoint of the shelf. Raises InputProblem."""
    return model(name, str(library.CHECKPOINTS))


@st.cache_data(max_entries=64, show_spinner=False)
def _trace(
    name: str, folder: str, text: str, target: str | None, edits: str, pads: int
) -> tracing.Trace:
    return tracing.trace(model(name, folder), text, target, parse_edits(edits), pads)


def trace(name: str, text: str, target: str | None, edits: str, pads: int) -> tracing.Trace:
    """One sentence through one model; `edits` as in a link. Raises InputProblem."""
    return _trace(name, str(library.CHECKPOINTS), text, target, edits, pads)


@st.cache_data(max_entries=64, show_spinner=False)
def _extras(
    name: str, folder: str, text: str, target: str | None, edits: str, pads: int, kind: Kind
) -> tuple[further.Extra, ...]:
    return further.extras_of(_trace(name, folder, text, target, edits, pads), kind)


def extras(
    name: str, text: str, target: str | None, edits: str, pads: int, kind: Kind
) -> tuple[further.Extra, ...]:
    """Means, rollout and flow of one kind of attention. Raises InputProblem."""
    return _extras(name, str(library.CHECKPOINTS), text, target, edits, pads, kind)


@st.cache_resource(show_spinner=False)
def _ablations() -> Kept[Ablation]:
    return Kept(MOST_ABLATIONS)


def ablation(
    name: str,
    text: str,
    target: str | None,
    edits: str,
    pads: int,
    progress: Callable[[int, int], None] | None = None,
) -> Ablation:
    """Every head of a run switched off, one at a time; `progress(done, total)` while it runs.

    Raises InputProblem; ValueError where no token was written.
    """

    def make() -> Ablation:
        return ablate(open_model(name), trace(name, text, target, edits, pads), progress=progress)

    key = (str(library.CHECKPOINTS), name, text, target, edits, pads)
    return _ablations().get(key, make)


def has_ablation(name: str, text: str, target: str | None, edits: str, pads: int) -> bool:
    """Whether `ablation` would answer at once."""
    return (str(library.CHECKPOINTS), name, text, target, edits, pads) in _ablations()


@st.cache_data(max_entries=64, show_spinner=False)
def _causes(
    name: str,
    folder: str,
    text: str,
    target: str | None,
    edits: str,
    pads: int,
    position: int,
    _ablation: Ablation,
) -> Causes:
    traced = _trace(name, folder, text, target, edits, pads)
    return find_causes(model(name, folder), traced, position, ablation=_ablation)


def causes(
    name: str, text: str, target: str | None, edits: str, pads: int, position: int, known: Ablation
) -> Causes:
    """Four measures of the token after a position, by the run's ablation. Raises InputProblem."""
    folder = str(library.CHECKPOINTS)
    return _causes(name, folder, text, target, edits, pads, position, known)


@st.cache_resource(show_spinner=False)
def _generations() -> Kept[Generation]:
    return Kept(MOST_GENERATIONS)


def generate(
    name: str,
    text: str,
    strategy: Strategy,
    edits: str,
    limit: int = 64,
    forced: tuple[int, ...] = (),
    progress: generation.Progress | None = None,
) -> generation.Generation:
    """One sentence decoded, `edits` as in a link. Raises InputProblem.

    What was stopped by `progress` is not kept.
    """
    folder = str(library.CHECKPOINTS)

    def make() -> Generation:
        return generation.generate(
            model(name, folder),
            text,
            strategy,
            limit,
            parse_edits(edits),
            forced,
            progress,
        )

    key = (folder, name, text, strategy, edits, limit, forced)
    return _generations().get(key, make, lambda made: not made.stopped)


@st.cache_data(max_entries=16, show_spinner=False)
def _cached(name: str, folder: str, row: tuple[int, ...], _made: Generation) -> Cached:
    return cached_and_not(model(name, folder), _made)


def cached(made: Generation) -> Cached:
    """What a cache holds of a decoding, and how equal it leaves the logits."""
    row = (*made.given, -1, *made.tokens)
    return _cached(made.model, str(library.CHECKPOINTS), row, made)


def timings(
    name: str,
    given: tuple[int, ...],
    lengths: tuple[int, ...],
    tell: Callable[[int, int], bool],
) -> tuple[Timing, ...]:
    """Decodings of these lengths against the clock; measured anew whenever it is asked for."""
    return measure(open_model(name), given, lengths, tell)


@st.cache_data(max_entries=32, show_spinner=False)
def _tree(
    name: str, folder: str, text: str, beam: Beam, sample: Sample, edits: str, limit: int
) -> Tree:
    loaded, changed = model(name, folder), parse_edits(edits)
    others: dict[Line, Generation] = {
        "greedy": generate(name, text, Greedy(), edits, limit),
        "sample": generate(name, text, sample, edits, limit),
    }
    return grow(loaded, text, beam, others, limit, changed)


def tree(name: str, text: str, beam: Beam, sample: Sample, edits: str, limit: int) -> Tree:
    """Greedy, a beam and sampling in one tree. Raises InputProblem."""
    return _tree(name, str(library.CHECKPOINTS), text, beam, sample, edits, limit)


def tokens_of(name: str, typed: str) -> tuple[int, ...]:
    """The tokens of what was typed to be written next. Raises InputProblem."""
    return generation.forced_tokens(open_model(name), typed)


def most_new(name: str, text: str) -> int:
    """How many tokens can be written after this text. Raises InputProblem."""
    return generation.room(open_model(name), text)


@st.cache_data(max_entries=16, show_spinner=False)
def _one_pass(
    name: str, folder: str, row: tuple[int, ...], edits: str, _made: Generation
) -> OnePass:
    return find_one_pass(model(name, folder), _made)


def one_pass(made: Generation) -> OnePass:
    """The rows of a decoding beside one pass over all of them."""
    row, edits = (*made.given, -1, *made.tokens), format_edits(made.edits)
    return _one_pass(made.model, str(library.CHECKPOINTS), row, edits, made)


@st.cache_data(max_entries=16, show_spinner=False)
def _labels(name: str, folder: str, lines: tuple[str, ...]) -> LabelledBatch:
    return labelled_batch(model(name, folder), lines)


def labels(name: str, lines: tuple[str, ...]) -> LabelledBatch:
    """A training batch of these lines with its losses. Raises InputProblem."""
    return _labels(name, str(library.CHECKPOINTS), lines)
