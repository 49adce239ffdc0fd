"""The second room of the caches: cells, fresh models, claims, counts, kept as in `cache`."""

from collections.abc import Callable

import streamlit as st

from explorer import library
from explorer.analysis.cell.initial import Fresh, Init
from explorer.analysis.cell.initial import fresh_scores as find_fresh_scores
from explorer.analysis.cell.steps import Cell, Effect
from explorer.analysis.cell.steps import effect as find_effect
from explorer.analysis.claims import CLAIMS, Finding
from explorer.analysis.machine.parameters import Count, count_config
from explorer.ui import cache
from explorer.ui.kept import Kept
from models.config import ModelConfig

MOST_FINDINGS = 200
MOST_FRESH = 32


@st.cache_data(max_entries=128, show_spinner=False)
def _cell_effect(
    name: str,
    folder: str,
    text: str,
    target: str | None,
    edits: str,
    pads: int,
    place: tuple[str, int, int, int],
    position: int,
    token: int | None,
    _cell: Cell,
) -> Effect:
    traced = cache.trace(name, text, target, edits, pads)
    return find_effect(cache.model(name, folder), traced, _cell, position, token)


def cell_effect(
    name: str,
    text: str,
    target: str | None,
    edits: str,
    pads: int,
    cell: Cell,
    position: int,
    token: int | None,
) -> Effect:
    """What one cell of a run does to the logits after a position. Raises InputProblem."""
    place = (cell.site.name, cell.head, cell.query, cell.key)
    folder = str(library.CHECKPOINTS)
    return _cell_effect(name, folder, text, target, edits, pads, place, position, token, cell)


@st.cache_resource(show_spinner=False)
def _fresh() -> Kept[tuple[Fresh, ...]]:
    return Kept(MOST_FRESH)


def fresh_scores(
    name: str,
    text: str,
    target: str | None,
    edits: str,
    pads: int,
    site: str,
    init: Init,
    progress: Callable[[float], None],
) -> tuple[Fresh, ...]:
    """The scores of a site in fresh models that read a run's rows; `progress` as in `finding`.

    Raises InputProblem.
    """

    def make() -> tuple[Fresh, ...]:
        traced = cache.trace(name, text, target, edits, pads)
        return find_fresh_scores(traced, traced.site(site), init, progress=progress)

    key = (str(library.CHECKPOINTS), name, text, target, edits, pads, site, init)
    return _fresh().get(key, make)


@st.cache_resource(show_spinner=False)
def _findings() -> Kept[Finding]:
    return Kept(MOST_FINDINGS)


def finding(
    name: str,
    text: str,
    target: str | None,
    edits: str,
    pads: int,
    claim: str,
    progress: Callable[[float], None] | None = None,
) -> Finding:
    """The experiment of a claim on one run; `progress` is told what is done, 0 to 1.

    Raises InputProblem.
    """

    def make() -> Finding:
        traced = cache.trace(name, text, target, edits, pads)
        chosen = next(each for each in CLAIMS if each.id == claim)
        return chosen.test(cache.open_model(name), traced, progress or (lambda done: None))

    key = (str(library.CHECKPOINTS), name, text, target, edits, pads, claim)
    return _findings().get(key, make)


def forget_finding(
    name: str, text: str, target: str | None, edits: str, pads: int, claim: str
) -> None:
    """Let the experiment run anew when it is next asked for."""
    key = (str(library.CHECKPOINTS), name, text, target, edits, pads, claim)
    _findings().forget(key)


@st.cache_data(max_entries=128, show_spinner=False)
def count(config: str) -> Count:
    """The parameters that a model of this config, as JSON, would have. Raises ValueError."""
    return count_config(ModelConfig.from_json(config))
