"""The mask certificate: a behavioural test of whether a model's masks work.

No mask is read and no code is trusted. The certificate changes tokens, padding and values, and
reports what changed although it must not, by how much, and where. Each Finding is one property of a
masked Transformer.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from explorer.analysis.mask_tests.examiner import N_PADS, Examiner, Location, Worst
from explorer.analysis.mask_tests.placing import TOLERANCE, has_formula
from explorer.analysis.mask_tests.probe import Interference, Probe, Subject
from explorer.library import LoadedModel
from explorer.runs.edits import Edit
from explorer.runs.generation import translate
from explorer.runs.inputs import continued_tokens, given_tokens, target_tokens
from explorer.runs.interventions import edit_functions
from models.config import ModelConfig
from models.hooks import Edits
from models.pictures.patches import as_tokens
from models.rows import Rows

MAX_PROBED = 32
"""Tokens probed per sequence. Masks depend on positions, not on words, so probing more tokens would
reveal nothing new."""
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
"""Every property, in report order. `cross_mask` requires cross-attention, `cache` requires a cache,
`positions` requires a formula of the positions."""


LeftOut = Literal["no_cross", "both_ways", "uncached", "no_formula"]
"""Why a property is not tested: no cross-attention, bidirectional attention, decoding without a
cache, or no formula to compare the positions with."""


@dataclass(frozen=True)
class Finding:
    """The test of one property. `deviation` is 0 if it holds exactly, infinite for NaN.

    `error` is the model's error message if it raised one, "" otherwise.
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
        """The key of the property's title in the text files."""
        return f"certify.{self.name}.title"

    @property
    def meaning_key(self) -> str:
        """The text key of what it means that the property holds or fails."""
        return f"certify.{self.name}.{'kept' if self.passed else 'broken'}"


class Verdict:
    """Whether all `findings` passed, and which did not."""

    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether every tested property holds."""
        return not self.broken

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The findings that did not pass."""
        return tuple(finding for finding in self.findings if not finding.passed)


@dataclass(frozen=True, eq=False)
class Certificate(Verdict):
    """All findings about a model for one sentence, and the masks recovered from its behaviour.

    `masks[site]` is Bool [head, query, key]: with all-zero queries, that key reached that query
    with a nonzero weight. `reach` shows how far a changed token propagates through the whole model,
    Bool [query, key] with the changed token as key: "encoder" [src, src], "decoder" [tgt, tgt],
    "cross" [tgt, src]. Both cover rows with `N_PADS` PADs on the right (included in `src_tokens`
    and `tgt_tokens`). `left_out` maps each untested property to the reason, as in `Examination`.
    """

    findings: tuple[Finding, ...]
    masks: dict[str, np.ndarray] = field(repr=False)
    reach: dict[str, np.ndarray] = field(repr=False)
    src_tokens: tuple[int, ...]
    tgt_tokens: tuple[int, ...]
    left_out: dict[str, LeftOut] = field(default_factory=dict)

    @property
    def largest(self) -> float:
        """The largest deviation of any finding."""
        return max((finding.deviation for finding in self.findings), default=0.0)


class Examination:
    """Every property of one model for one sentence, each tested once, on first request.

    `src` are token ids with their end token and `tgt` the decoder's input, starting with its start
    token; `src` is ignored for a model of one text. Both are truncated to `MAX_PROBED`.
    `interference` adds edits to every run (an injected bug, a user's own masks); without `cached`
    the cache property is left out. `probe` runs the model, which is not changed. Raises ValueError
    for an empty sequence; exceptions raised by the model become a Finding.

    `names` are the properties in report order; `left_out` maps those that do not apply to this kind
    of model to the reason. Not thread-safe.
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
            raise ValueError("a certificate needs at least one token")
        left_out: dict[str, LeftOut] = {}
        if not config.is_causal:
            left_out |= dict.fromkeys(
                ("future_leak", "future_mass", "cache", "prefix"), "both_ways"
            )
        elif not cached:
            left_out["cache"] = "uncached"
        if not config.reads_source:
            src, left_out["cross_mask"] = (), "no_cross"
        if not has_formula(model):
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
        """The test of one property. Raises KeyError if it is not among `names`."""
        if name not in self.names:
            raise KeyError(f"there is no property {name!r} here")
        return self._find(name)

    def certificate(self) -> Certificate:
        """All findings; tests the properties not tested yet."""
        if self._certificate is None:
            self._certificate = self._certify()
            self._examiner = None  # releases a float64 copy of the model
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
            src_tokens=() if row.src is None else as_tokens(row.src[0].tolist()),
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
    "padding_batch": Examiner.in_a_batch,
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
    """Prepare to test a model on a text and its translation (by default the model's own).

    With `edits`, the edited model is tested; the cache property is then left out, since an edited
    model never decodes with a cache. Raises InputProblem as `trace`.
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
