"""Caches of the pages Masks, Certificate and Clinic; models and Traces come from `ui.cache`."""

import streamlit as st

from explorer import library
from explorer.analysis.certificate.certify import Examination, examine_text
from explorer.analysis.clinic import PITFALLS, Symptom
from explorer.analysis.clinic import symptom as planted
from explorer.analysis.masks import forced as forcing
from explorer.analysis.masks.batch import Member
from explorer.analysis.masks.batch import batch as together
from explorer.analysis.masks.twins import CHEAT, RIGHT, Twin
from explorer.analysis.masks.twins import twins as price_of_a_mask
from explorer.runs.edits import parse_edits
from explorer.ui import cache


@st.cache_resource(max_entries=16, show_spinner=False)
def _examination(name: str, folder: str, text: str, target: str | None, edits: str) -> Examination:
    return examine_text(cache.model(name, folder), text, target, parse_edits(edits))


def examination(name: str, text: str, target: str | None, edits: str) -> Examination:
    """The masks of one model under test; what it has found is kept. Raises InputProblem."""
    return _examination(name, str(library.CHECKPOINTS), text, target, edits)


@st.cache_data(max_entries=64, show_spinner=False)
def _symptom(
    name: str, folder: str, text: str, target: str | None, pads: int, case: str
) -> Symptom:
    traced = cache.trace(name, text, target, "", pads)
    pitfall = next(each for each in PITFALLS if each.id == case)
    return planted(cache.model(name, folder), traced, pitfall)


def symptom(name: str, text: str, target: str | None, pads: int, case: str) -> Symptom:
    """A fault of the clinic planted into one model, on one sentence. Raises InputProblem."""
    return _symptom(name, str(library.CHECKPOINTS), text, target, pads, case)


@st.cache_data(max_entries=32, show_spinner=False)
def _batch(name: str, folder: str, texts: tuple[str, ...], edits: str) -> tuple[Member, ...]:
    return together(cache.model(name, folder), texts, parse_edits(edits))


def batch(name: str, texts: tuple[str, ...], edits: str) -> tuple[Member, ...]:
    """Sentences in one padded batch beside each alone. Raises InputProblem."""
    return _batch(name, str(library.CHECKPOINTS), texts, edits)


@st.cache_data(max_entries=32, show_spinner=False)
def _twins(folder: str, text: str, words: str | None) -> tuple[Twin, Twin]:
    return price_of_a_mask(cache.model(RIGHT, folder), cache.model(CHEAT, folder), text, words)


def twins(text: str, words: str | None) -> tuple[Twin, Twin] | None:
    """The twins with and without causal mask on one sentence; None where they are not shipped.

    Raises InputProblem.
    """
    if not {RIGHT, CHEAT} <= set(cache.models()):
        return None
    return _twins(str(library.CHECKPOINTS), text, words)


@st.cache_data(max_entries=64, show_spinner=False)
def _forced(
    name: str, folder: str, text: str, target: str | None, pads: int, edits: str
) -> forcing.Forced:
    traced = cache.trace(name, text, target, "", pads)
    return forcing.forced(cache.model(name, folder), traced, parse_edits(edits))


def forced(name: str, text: str, target: str | None, pads: int, edits: str) -> forcing.Forced:
    """The words of the unchanged model read again under `edits`. Raises InputProblem."""
    return _forced(name, str(library.CHECKPOINTS), text, target, pads, edits)
