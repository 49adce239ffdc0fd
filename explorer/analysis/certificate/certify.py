"""The mask certificate: do the masks of a model work? A test of its behaviour.

No mask is read and no code is trusted: tokens, padding and values are changed, and the certificate
says what changed that must not change, by how much, and where. Each Finding is one promise of a
masked Transformer.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from explorer.analysis.certificate.examiner import N_PADS, Examiner, Location, Worst
from explorer.analysis.certificate.placing import TOLERANCE
from explorer.analysis.certificate.probe import Interference, Probe, Subject
from explorer.library import LoadedModel
from explorer.runs.edits import Edit
from explorer.runs.generation import translate
from explorer.runs.inputs import continued_tokens, given_tokens, target_tokens
from explorer.runs.interventions import edit_functions
from models.config import ModelConfig
from models.hooks import Edits
from models.rows import Rows

MAX_PROBED = 32
"""Tokens per stream that are probed. Masks depend on positions, not on words, so more tokens would
show nothing more."""
FINDINGS = (
    "future_leak",
    "future_mass",
    "pad_mass",
    "pad_content",
    "padding_right",
    "padding_left",
    "padding_batch",
    "cross_mask",
    "row_sums",
    "open_cells",
    "cache",
    "prefix",
    "mixing",
    "positions",
)
"""Every promise, in the order of a report. `cross_mask` only if there is cross-attention, `cache`
only if a cache is used, `positions` only if the config names a formula for them."""


LeftOut = Literal["no_cross", "both_ways", "uncached", "no_formula"]
"""Why a promise is not tested: there is no cross-attention, the model reads both ways, it never
decodes with a cache, or no formula is named for its positions."""


@dataclass(frozen=True)
class Finding:
    """One promise put to the test. `deviation` is 0 where it is kept exactly, infinite for NaN.

    `error` is what the model raised instead of an answer, "" otherwise.
    """

    name: str
    deviation: float
    tolerance: float
    where: Location | None = None
    error: str = ""

    @property
    def passed(self) -> bool:
        return self.deviation <= self.tolerance

    @property
    def title_key(self) -> str:
        """The key of the promise in the text files."""
        return f"certify.{self.name}.title"

    @property
    def meaning_key(self) -> str:
        """The key of what it means that the promise is kept, or broken."""
        return f"certify.{self.name}.{'kept' if self.passed else 'broken'}"


@dataclass(frozen=True, eq=False)
class Certificate:
    """All findings about a model on one sentence, and the masks recovered from its behaviour.

    `masks[site]` is Bool [head, query, key]: with queries of zeros, a weight other than 0 reached
    that query from that key.
    `reach` says how far a changed token travels through the whole model, Bool [query, key] with
    the changed token as key: "encoder" [src, src], "decoder" [tgt, tgt], "cross" [tgt, src].
    Both over rows with `N_PADS` PADs on the right (`src_tokens`, `tgt_tokens` with them).
    `left_out` are the promises that were not tested, and why, as in `Examination`.
    """

    findings: tuple[Finding, ...]
    masks: dict[str, np.ndarray] = field(repr=False)
    reach: dict[str, np.ndarray] = field(repr=False)
    src_tokens: tuple[int, ...]
    tgt_tokens: tuple[int, ...]
    left_out: dict[str, LeftOut] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return all(finding.passed for finding in self.findings)

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The findings that did not pass."""
        return tuple(finding for finding in self.findings if not finding.passed)

    @property
    def largest(self) -> float:
        """The largest deviation of all."""
        return max((finding.deviation for finding in self.findings), default=0.0)


class Examination:
    """Every promise of one model on one sentence, put to the test when it is asked for, and once.

    `src` are token ids with their end mark and `tgt` those that the decoder reads, start mark
    first; `src` is ignored for a model of one text. Both are cut to `MAX_PROBED`. `interference`
    plants edits in every run (a fault of the clinic, a user's own masks); without `cached` the
    promise of the cache is left out. `probe` runs the model, which is not changed. Raises
    ValueError for an empty row; what the model itself raises becomes a Finding.

    `names` are the promises in the order of a report; `left_out` those that a model like this does
    not make, each with the reason. For one thread.
    """

    def __init__(
        self,
        model: Subject,
        config: ModelConfig,
        src: Sequence[int],
        tgt: Sequence[int],
        interference: Interference | None = None,
        cached: bool = True,
        probe: type[Probe] = Probe,
    ) -> None:
        if not tgt or (config.reads_source and not src):
            raise ValueError("there is nothing to certify a model on: give it at least one token")
        left_out: dict[str, LeftOut] = {}
        if not config.is_causal:
            left_out |= dict.fromkeys(
                ("future_leak", "future_mass", "cache", "prefix"), "both_ways"
            )
        elif not cached:
            left_out["cache"] = "uncached"
        if not config.reads_source:
            left_out["cross_mask"] = "no_cross"
        if config.positions == "none" or not hasattr(model, "stacks"):
            left_out["positions"] = "no_formula"
        self.left_out = {name: left_out[name] for name in FINDINGS if name in left_out}
        self.names = tuple(name for name in FINDINGS if name not in left_out)
        room = min(MAX_PROBED, config.n_ctx)
        self._sentence = tuple(src[:room]), tuple(tgt[:room])
        self._make_probe = partial(probe, model, config, interference)
        self._examiner: Examiner | None = None
        self._found: dict[str, Finding] = {}
        self._certificate: Certificate | None = None

    def finding(self, name: str) -> Finding:
        """One promise put to the test. Raises KeyError for one that is not among `names`."""
        if name not in self.names:
            raise KeyError(f"there is no promise {name!r} here")
        return self._find(name)

    def certificate(self) -> Certificate:
        """All findings; what has not been tested yet is tested now."""
        if self._certificate is None:
            self._certificate = self._certify()
            self._examiner = None  # it holds a copy of the model in float64
        return self._certificate

    def _ready(self) -> Examiner:
        if self._examiner is None:
            self._examiner = Examiner(self._make_probe(), *self._sentence)
        return self._examiner

    def _find(self, name: str) -> Finding:
        if name not in self._found:
            try:
                worst, tolerance = _CHECKS[name](self._ready()), self._ready().tolerance
                tolerance = max(tolerance, TOLERANCE) if name == "positions" else tolerance
                finding = Finding(name, worst.deviation, tolerance, worst.where)
            except (RuntimeError, ValueError, IndexError, TypeError) as error:
                finding = Finding(name, math.inf, 0.0, error=f"{type(error).__name__}: {error}")
            self._found[name] = finding
        return self._found[name]

    def _certify(self) -> Certificate:
        findings = tuple(self._find(name) for name in self.names)
        examiner = self._ready()
        row = examiner.alone(right=N_PADS)
        return Certificate(
            findings=findings,
            masks=examiner.masks,
            reach=examiner.reach,
            src_tokens=() if row.src is None else tuple(row.src[0].tolist()),
            tgt_tokens=tuple(row.tgt[0].tolist()),
            left_out=self.left_out,
        )


_CHECKS: dict[str, Callable[[Examiner], Worst]] = {
    "future_leak": Examiner.future_leak,
    "future_mass": Examiner.future_mass,
    "pad_mass": Examiner.pad_mass,
    "pad_content": Examiner.pad_content,
    "padding_right": lambda examiner: examiner.padding(left=0, right=N_PADS),
    "padding_left": lambda examiner: examiner.padding(left=N_PADS, right=0),
    "padding_batch": lambda examiner: examiner.padding(0, 0, in_a_batch=True),
    "cross_mask": Examiner.cross_mask,
    "row_sums": Examiner.row_sums,
    "open_cells": Examiner.open_cells,
    "cache": Examiner.cache,
    "prefix": Examiner.prefix,
    "mixing": Examiner.mixing,
    "positions": Examiner.positions,
}


def examine_text(
    loaded: LoadedModel, text: str, target: str | None = None, edits: Sequence[Edit] = ()
) -> Examination:
    """Ready to test a model on a text and its translation (its own where none is given).

    With `edits`, what is tested is the model as a user changed it; the promise of the cache is
    left out then, since an edited model never decodes with one. Raises InputProblem as `trace`.
    """

    def edited(rows: Rows) -> Edits:
        return edit_functions(loaded.sites, edits, rows.src_valid, rows.tgt_valid)

    interference = edited if edits else None
    if not loaded.config.reads_source:
        tgt = continued_tokens(loaded, text, target or "")
        return Examination(loaded.model, loaded.config, (), tgt, interference, not edits)
    src = given_tokens(loaded, text)
    tokens = target_tokens(loaded, target or "") or translate(loaded, src)[0]
    tgt = loaded.model.with_marks("tgt", tokens)
    return Examination(loaded.model, loaded.config, src, tgt, interference, not edits)
