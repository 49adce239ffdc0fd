"""The values behind the steps of the path, computed from a model and a run: one function per step.

Each takes a `LoadedModel` and a `Trace` of it, without edits and padding, and returns the data for
its question, picture and explanation; or `Missing`, if this model or sentence does not show the
lesson.
"""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from explorer.runs.trace import Trace
from models.hooks import AttentionSite, Role

LONGEST = 64
"""The longest sequence that the path asks about: longer ones cannot be read off a picture."""


@dataclass(frozen=True)
class Missing:
    """A lesson that this run does not show; `why` is the key of the reason's words."""

    why: str


@dataclass(frozen=True)
class QueryRow:
    """One query of one head."""

    site: AttentionSite
    head: int
    query: int


def rows(trace: Trace, role: Role) -> Iterator[QueryRow]:
    """Every row of every head of a kind of attention whose query is a real token."""
    for site in trace.sites_of(role):
        valid = trace.src_valid if site.query_stream == "src" else trace.tgt_valid
        for query in np.flatnonzero(valid):
            for head in range(site.n_heads):
                yield QueryRow(site, head, int(query))


def best_row(trace: Trace, role: Role, worth: Callable[[QueryRow], float]) -> QueryRow | None:
    """The row with the largest `worth`; None if no row has a finite value."""
    worths = [(worth(row), row) for row in rows(trace, role)]
    finite = [(value, at, row) for at, (value, row) in enumerate(worths) if np.isfinite(value)]
    return max(finite, key=lambda each: (each[0], -each[1]))[2] if finite else None


def weights_of(trace: Trace, row: QueryRow) -> np.ndarray:
    """The weights of a row, float64 [key]."""
    found: np.ndarray = trace.pattern(row.site.name)[row.head, row.query].astype(np.float64)
    return found


def allowed_of(trace: Trace, row: QueryRow) -> np.ndarray:
    """Which keys a row may attend to, bool [key]."""
    found: np.ndarray = trace.mask(row.site.name)[row.head, row.query]
    return found


def scores_of(trace: Trace, row: QueryRow) -> np.ndarray:
    """The scores of a row before its mask, float64 [key]."""
    found: np.ndarray = trace.activations[row.site.hook("scores")][row.head, row.query]
    return found.astype(np.float64)


def varied(trace: Trace, low: float, high: float) -> float:
    """A number from `low` to `high`, determined by the text and the model.

    Questions aim at a value near it, so that their answers vary between texts.
    """
    return low + (high - low) * (zlib.crc32(f"{trace.model} {trace.text}".encode()) % 101) / 100


def is_mark(token: str) -> bool:
    """Whether a token is a special token, by the labels of a trace."""
    return bool(getattr(token, "special", False))


def main_role(trace: Trace) -> Role:
    """Cross-attention if the model has it; otherwise the attention of its one text."""
    roles: tuple[Role, ...] = ("cross", "decoder", "encoder")
    return next(role for role in roles if trace.sites_of(role))
