"""The mask certificate: do the masks of a model do what masks are for? Found out by behaviour.

No mask is read and no code is trusted: tokens, padding and values are changed, and the certificate
says what moved that must not move, how far, and where. Each Finding is one promise of a masked
Transformer.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from explorer.analysis.examiner import N_PADS, Examiner, Place, Worst
from explorer.analysis.probe import Interference, Probe, Rows, Subject
from explorer.edits import Edit
from explorer.generation import translate
from explorer.interventions import edit_functions
from explorer.library import LoadedModel
from explorer.rows import prompt_row, source_row, target_tokens
from models.config import ModelConfig
from models.hooks import Edits
from models.transformer import DecoderOnly

MAX_PROBED = 32
"""Tokens per stream that are probed. Masks know places and no words, so more would show no more."""
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
)
"""Every promise, in the order of a report. `cross_mask` only where there is cross-attention,
`cache` only where a cache is used."""


@dataclass(frozen=True)
class Finding:
    """One promise put to the test. `deviation` is 0 where it is kept exactly, infinite for NaN.

    `error` is what the model raised instead of an answer, "" otherwise.
    """

    name: str
    deviation: float
    tolerance: float
    where: Place | None = None
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

    `masks[site]` is Bool [head, query, key]: a weight above 0 reached that query from that key.
    `reach` says how far a changed token travels through the whole model, Bool [query, key] with
    the changed token as key: "encoder" [src, src], "decoder" [tgt, tgt], "cross" [tgt, src].
    Both over rows with `N_PADS` PADs on the right (`src_tokens`, `tgt_tokens` with them).
    """

    findings: tuple[Finding, ...]
    masks: dict[str, np.ndarray] = field(repr=False)
    reach: dict[str, np.ndarray] = field(repr=False)
    src_tokens: tuple[int, ...]
    tgt_tokens: tuple[int, ...]

    @property
    def passed(self) -> bool:
        return all(finding.passed for finding in self.findings)

    def finding(self, name: str) -> Finding:
        """The finding with this name. Raises KeyError."""
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise KeyError(f"the certificate has no finding {name!r}")


def certify_text(
    loaded: LoadedModel, text: str, target: str | None = None, edits: Sequence[Edit] = ()
) -> Certificate:
    """Certify a model on a text and its translation (the model's own where none is given).

    With `edits`, what is certified is the model as a user changed it; the promise of the cache is
    left out then, since an edited model never decodes with one. Raises InputProblem as `trace`.
    """

    def edited(rows: Rows) -> Edits:
        return edit_functions(loaded.sites, edits, rows.src_valid, rows.tgt_valid)

    interference = edited if edits else None
    if isinstance(loaded.model, DecoderOnly):
        row = prompt_row(loaded, text, target or "")
        return certify(loaded.model, loaded.config, (), row.tokens, interference, not edits)
    src = source_row(loaded, text)
    tokens = target_tokens(loaded, target or "") or translate(loaded, src)[0]
    tgt = (loaded.config.bos_id, *tokens)
    return certify(loaded.model, loaded.config, src.tokens, tgt, interference, not edits)


def certify(
    model: Subject,
    config: ModelConfig,
    src: Sequence[int],
    tgt: Sequence[int],
    interference: Interference | None = None,
    cached: bool = True,
) -> Certificate:
    """Put every promise of the masks to the test on one sentence.

    `src` are token ids with their end mark and `tgt` those that the decoder reads, start mark
    first; `src` is ignored for a decoder-only model. Both are cut to `MAX_PROBED`.
    `interference` plants edits in every run (a fault of the clinic, a user's own masks); without
    `cached` the promise of the cache is left out. The model is not changed. Raises ValueError for
    an empty row; what the model itself raises becomes a Finding.
    """
    if not tgt or not (src or config.family == "decoder-only"):
        raise ValueError("there is nothing to certify a model on: give it at least one token")
    room = min(MAX_PROBED, config.n_ctx)
    examiner = Examiner(Probe(model, config, interference), tuple(src[:room]), tuple(tgt[:room]))
    checks: dict[str, Callable[[], Worst]] = {
        "future_leak": examiner.future_leak,
        "future_mass": examiner.future_mass,
        "pad_mass": examiner.pad_mass,
        "pad_content": examiner.pad_content,
        "padding_right": lambda: examiner.padding(left=0, right=N_PADS),
        "padding_left": lambda: examiner.padding(left=N_PADS, right=0),
        "padding_batch": lambda: examiner.padding(0, 0, in_a_batch=True),
        "cross_mask": examiner.cross_mask,
        "row_sums": examiner.row_sums,
        "open_cells": examiner.open_cells,
        "cache": examiner.cache,
        "prefix": examiner.prefix,
    }
    left_out = {
        "cross_mask": config.family == "decoder-only",
        "cache": not cached,
    }
    findings = []
    for name in FINDINGS:
        if left_out.get(name):
            continue
        try:
            worst, tolerance = checks[name](), examiner.tolerance
            findings.append(Finding(name, worst.deviation, tolerance, worst.where))
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            findings.append(Finding(name, math.inf, 0.0, error=f"{type(error).__name__}: {error}"))
    row = examiner.alone(right=N_PADS)
    return Certificate(
        findings=tuple(findings),
        masks=examiner.masks,
        reach=examiner.reach,
        src_tokens=() if row.src is None else tuple(row.src[0].tolist()),
        tgt_tokens=tuple(row.tgt[0].tolist()),
    )
