"""Caches of the pages Positions and Blocks; models and Traces come from `ui.cache`."""

import numpy as np
import streamlit as st

from explorer import library
from explorer.analysis.blocks import residual
from explorer.analysis.positions import beyond as reading_on
from explorer.analysis.positions import learned as learning
from explorer.analysis.positions import length
from explorer.analysis.positions.changes import parse_change
from explorer.analysis.positions.order import FourTexts
from explorer.analysis.positions.order import four_texts as write_four
from explorer.analysis.positions.reread import write_under
from explorer.runs.edits import parse_edits
from explorer.ui import cache
from models.config import NormPlacement
from models.hooks import Stream


@st.cache_data(max_entries=64, show_spinner=False)
def _four_texts(name: str, folder: str, text: str, seed: int, edits: str) -> FourTexts:
    return write_four(cache.model(name, folder), text, seed, parse_edits(edits))


def four_texts(name: str, text: str, seed: int, edits: str) -> FourTexts:
    """What is written in order and shuffled, with positions and without. Raises InputProblem."""
    return _four_texts(name, str(library.CHECKPOINTS), text, seed, edits)


@st.cache_data(max_entries=64, show_spinner=False)
def _moved_text(name: str, folder: str, text: str, edits: str, stream: Stream, change: str) -> str:
    loaded = cache.model(name, folder)
    return write_under(loaded, text, stream, parse_change(change), parse_edits(edits))


def moved_text(name: str, text: str, edits: str, stream: Stream, change: str) -> str:
    """What is written under changed positions, `change` as in a link. Raises InputProblem."""
    return _moved_text(name, str(library.CHECKPOINTS), text, edits, stream, change)


@st.cache_data(max_entries=16, show_spinner=False)
def _learned(name: str, folder: str, stream: Stream) -> learning.Learned:
    return learning.learned(cache.model(name, folder), stream)


def learned(name: str, stream: Stream) -> learning.Learned:
    """The learned position vectors of a model. Raises ValueError for one that has none."""
    return _learned(name, str(library.CHECKPOINTS), stream)


@st.cache_data(max_entries=32, show_spinner=False)
def _shift_losses(
    name: str,
    folder: str,
    text: str,
    target: str | None,
    edits: str,
    pads: int,
    stream: Stream,
    most: int,
) -> tuple[tuple[int, ...], np.ndarray]:
    traced = cache.trace(name, text, target, edits, pads)
    shifts = tuple(shift for shift in length.SHIFTS if shift <= most)
    return shifts, length.shift_losses(cache.model(name, folder), traced, stream, shifts)


def shift_losses(
    name: str, text: str, target: str | None, edits: str, pads: int, stream: Stream, most: int
) -> tuple[tuple[int, ...], np.ndarray]:
    """Shifts up to `most`, and the mean loss of a run's tokens at each. Raises InputProblem."""
    folder = str(library.CHECKPOINTS)
    return _shift_losses(name, folder, text, target, edits, pads, stream, most)


@st.cache_data(max_entries=16, show_spinner=False)
def _beyond(name: str, folder: str, text: str) -> reading_on.Beyond:
    return reading_on.beyond(cache.model(name, folder), text)


def beyond(name: str, text: str) -> reading_on.Beyond:
    """A text read beyond the training's length. Raises InputProblem; ValueError where it ends."""
    return _beyond(name, str(library.CHECKPOINTS), text)


@st.cache_data(max_entries=8, show_spinner=False)
def _by_length(name: str, folder: str, lengths: tuple[int, ...]) -> length.ByLength:
    toy = length.toy_of(name)
    if toy is None:
        raise ValueError(f"{name} is no toy")
    return length.by_length(cache.model(name, folder), toy, lengths)


def by_length(name: str, lengths: tuple[int, ...]) -> length.ByLength:
    """How often a toy model is right, by the length of its rows. Raises ValueError for others."""
    return _by_length(name, str(library.CHECKPOINTS), lengths)


@st.cache_data(max_entries=64, show_spinner=False)
def fresh_flow(
    tokens: tuple[int, ...],
    placement: NormPlacement,
    depth: int,
    final: bool,
    summed: bool = True,
) -> residual.Flow:
    """Three fresh models of one placement reading `tokens`, with the residual sum or without.

    Raises ValueError for one token.
    """
    return residual.fresh_flow(tokens, placement, depth, final, residual=summed)


@st.cache_data(max_entries=32, show_spinner=False)
def _trained_flow(name: str, folder: str, text: str) -> residual.Flow:
    traced = cache.trace(name, text, None, "", 0)
    return residual.trained_flow(cache.model(name, folder), traced)


def trained_flow(name: str, text: str) -> residual.Flow:
    """A trained model reading a sentence. Raises InputProblem; ValueError for no output."""
    return _trained_flow(name, str(library.CHECKPOINTS), text)
