"""The mask certificate: a behavioural test of whether a model's masks work.

No mask is read and no code is trusted. The certificate changes tokens, padding and values, and
reports what changed although it must not, by how much, and where. Each Finding is one property of a
masked Transformer.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor, nn

from explorer.analysis.mask_tests.examiner import Examiner, LeftOut, UntestableError
from explorer.analysis.mask_tests.hooked import HookedExaminer, has_formula
from explorer.analysis.mask_tests.probe import Interference, Probe, Subject
from explorer.analysis.mask_tests.sites import Location
from explorer.library import LoadedModel
from explorer.runs.edits import Edit
from explorer.runs.generation import translate
from explorer.runs.inputs import continued_tokens, given_tokens, target_tokens
from explorer.runs.interventions import edit_functions
from explorer.text import examples
from models.config import ModelConfig
from models.hooks import AttentionSite
from models.rows import Rows, Stream, as_tokens

MAX_PROBED = 32
"""Tokens probed per sequence. Masks depend on positions, not on words, so probing more tokens would
reveal nothing new."""
FINDINGS = (
    *("future_leak", "future_mass", "pad_mass", "pad_content", "padding_right", "padding_left"),
    *("padding_batch", "cross_mask", "row_sums", "open_cells", "needle", "cache", "prefix"),
    *("mixing", "hooks", "positions"),
)
"""Every property, in report order. Each is a method of `Examiner`; the last three are methods of
`HookedExaminer`, since they need hook points."""
OF_HOOKS = ("mixing", "hooks", "positions")
OF_WEIGHTS = ("future_mass", "pad_mass", "cross_mask", "row_sums", "open_cells")
"""The properties of attention weights; the others are properties of the output."""
OF_CAUSALITY = ("future_leak", "future_mass", "cache", "prefix")
OF_PADDING = ("pad_mass", "pad_content", "padding_right", "padding_left", "cross_mask")


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


@dataclass(frozen=True, eq=False)
class Certificate:
    """All findings about a callable for one sentence, and the masks recovered from its behaviour.

    `left_out` maps each untested property to the reason. `masks[site]` is Bool [head, query, key],
    for the sentence padded on the right: that key reached that query, of a model with hook points
    with all-zero queries. `reach` shows how far a changed token propagates through the whole of
    such a model, Bool [query, key] with the changed token as key: "encoder" [src, src], "decoder"
    [tgt, tgt], "cross" [tgt, src]; `tokens` are the ids of both sequences. These cover rows with
    `N_PADS` PADs on the right.
    """

    findings: tuple[Finding, ...]
    left_out: dict[str, LeftOut]
    masks: dict[str, np.ndarray] = field(repr=False)
    reach: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    tokens: dict[Stream, tuple[Any, ...]] = field(default_factory=dict, repr=False)

    @property
    def passed(self) -> bool:
        """Whether every tested property holds."""
        return not self.broken

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The findings that did not pass."""
        return tuple(finding for finding in self.findings if not finding.passed)

    @property
    def largest(self) -> float:
        """The largest deviation of any finding."""
        return max((finding.deviation for finding in self.findings), default=0.0)


class Examination:
    """Every property of one callable for one sentence, each tested once, on first request.

    `make` builds the examiner at the first test. `names` are the properties that are tested, in
    report order; `left_out` maps the others to the reason. Exceptions raised by the callable
    become a Finding. Not thread-safe.
    """

    def __init__(
        self,
        make: Callable[[], Examiner],
        left_out: Mapping[str, LeftOut],
        names: Sequence[str] = FINDINGS,
    ) -> None:
        self.left_out = {name: left_out[name] for name in names if name in left_out}
        self.names = tuple(name for name in names if name not in left_out)
        self._make = make
        self._examiner: Examiner | None = None
        self._tested: dict[str, Finding | None] = {}
        self._certificate: Certificate | None = None

    def finding(self, name: str) -> Finding | None:
        """The test of one property; None if nothing could violate it, which adds it to `left_out`.

        Raises KeyError if it is not among `names`.
        """
        if name not in self.names:
            raise KeyError(f"there is no property {name!r} here")
        if name not in self._tested:
            self._tested[name] = self._test(name)
        return self._tested[name]

    def certificate(self) -> Certificate:
        """All findings; tests the properties not tested yet."""
        if self._certificate is None:
            findings = tuple(filter(None, [self.finding(name) for name in self.names]))
            examiner = self._ready()
            row = examiner.batch([examiner.sentence], right=examiner.n_pads)
            self._certificate = Certificate(
                findings,
                {name: self.left_out[name] for name in FINDINGS if name in self.left_out},
                examiner.masks,
                examiner.reach,
                {stream: as_tokens(row.tokens(stream)[0].tolist()) for stream in examiner.streams},
            )
            self._examiner = None  # releases a float64 copy of the model
        return self._certificate

    def _ready(self) -> Examiner:
        if self._examiner is None:
            self._examiner = self._make()
        return self._examiner

    def _test(self, name: str) -> Finding | None:
        try:
            examiner = self._ready()
            worst = getattr(examiner, name)()
            if worst is None:
                self.left_out[name] = examiner.unproven(name)
                return None
            return Finding(name, worst.deviation, examiner.tolerance_of(name), worst.where)
        except UntestableError:
            raise
        except (RuntimeError, ValueError, IndexError, TypeError, AssertionError) as error:
            return Finding(name, math.inf, 0.0, error=f"{type(error).__name__}: {error}")


def examine(
    model: Subject,
    config: ModelConfig,
    src: Sequence[int],
    tgt: Sequence[int],
    interference: Interference | None = None,
    cached: bool = True,
    probe: type[Probe] = Probe,
) -> Examination:
    """Prepare to test a model with hook points for one sentence.

    `src` are token ids with their end token and `tgt` the decoder's input, starting with its start
    token; `src` is ignored for a model of one text. Both are truncated to `MAX_PROBED`.
    `interference` adds edits to every run (an injected bug, a user's own masks); without `cached`
    the cache property is left out. `probe` runs the model, which is not changed. Raises ValueError
    for an empty sequence.
    """
    if not tgt or (config.reads_source and not src):
        raise ValueError("a certificate needs at least one token")
    left_out: dict[str, LeftOut] = {}
    if not config.is_causal:
        left_out |= dict.fromkeys(OF_CAUSALITY, "both_ways")
    elif not cached:
        left_out["cache"] = "uncached"
    if not config.reads_source:
        src, left_out["cross_mask"] = (), "no_cross"
    if not has_formula(model):
        left_out["positions"] = "no_formula"
    room = min(MAX_PROBED, config.n_ctx)

    def make() -> Examiner:
        return HookedExaminer(probe(model, config, interference), src[:room], tgt[:room])

    return Examination(make, left_out)


def examine_text(
    loaded: LoadedModel, text: str, target: str | None = None, edits: Sequence[Edit] = ()
) -> Examination:
    """Prepare to test a model on a text and its translation (by default the model's own).

    With `edits`, the edited model is tested; the cache property is then left out, since an edited
    model never decodes with a cache. Raises InputProblem as `trace`.
    """
    if not loaded.config.reads_source:
        tgt: Sequence[int] = continued_tokens(loaded, text, target or "")
        src: Sequence[int] = ()
    else:
        src = given_tokens(loaded, text)
        tokens = target_tokens(loaded, target or "") or translate(loaded, src)[0]
        tgt = loaded.model.with_marks("tgt", tokens)
    return examine(loaded.model, loaded.config, src, tgt, edited(loaded, edits), not edits)


def edited(loaded: LoadedModel, edits: Sequence[Edit]) -> Interference | None:
    """The edits of a user in every run; None without edits."""
    if not edits:
        return None
    return lambda rows: edit_functions(loaded.sites, edits, rows.src_valid, rows.tgt_valid)


N_TOKENS = 4
"""Tokens besides the special ones: enough for a future of several tokens and a row between two."""


@dataclass(frozen=True)
class SelfCheck:
    """How many properties were tested, and the names of those that fail."""

    tested: int
    broken: tuple[str, ...]

    @property
    def kept(self) -> int:
        """How many properties hold."""
        return self.tested - len(self.broken)


class QuickProbe(Probe):
    """A probe of the shared model itself that recovers the weights of all sites in one run.

    Values are replaced at every site and add nothing to the stream, so later sites read a stream
    that no sentence produces. The certificate's requirements for weights hold for any stream.
    """

    def __init__(
        self, model: Subject, config: ModelConfig, interference: Interference | None = None
    ) -> None:
        super().__init__(model, config, interference, exact=False)
        if isinstance(model, nn.Module):
            self.precision = next(model.parameters()).dtype
        self._of_all: dict[float | None, dict[str, Tensor]] = {}

    def weights(self, site: AttentionSite, rows: Rows, level: float | None = None) -> Tensor:
        if level not in self._of_all:
            self._of_all[level] = self.weights_of(self.sites, rows, level)
        return self._of_all[level][site.name]


def self_check(
    loaded: LoadedModel,
    interference: Interference | None = None,
    step: Callable[[], None] = lambda: None,
    edits: Sequence[Edit] = (),
) -> SelfCheck:
    """The self-check: every property in a quick form, on at most N_TOKENS tokens.

    The shared model itself runs, in its own precision, and all sites at once: about forty short
    passes, whatever the number of layers. Bugs that show only on longer texts (such as a window) or
    below float32 rounding are left to the certificate. `interference` or `edits` change each run;
    with `edits`, the cache property is left out, as in `examine_text`.

    The model is not changed, and others may use it at the same time. `step` is called before each
    property.
    """
    model = loaded.model
    src = model.with_marks("src", _tokens(loaded, "src")) if model.config.reads_source else ()
    tgt = model.with_marks("tgt", _tokens(loaded, "tgt"))

    interference = edited(loaded, edits) or interference
    examination = examine(model, loaded.config, src, tgt, interference, not edits, QuickProbe)
    for name in examination.names:
        step()
        examination.finding(name)
    certificate = examination.certificate()
    broken = tuple(finding.name for finding in certificate.broken)
    return SelfCheck(len(certificate.findings), broken)


def _tokens(loaded: LoadedModel, stream: Stream) -> list[int]:
    """The first tokens of the model's own example; if it has none, the first ordinary tokens."""
    like = loaded.like if loaded.config.picture else ""
    sentence = next(iter(examples(loaded.name, like=like).values()))[0]
    tokenizer, marks = loaded.tokenizer.of(stream), loaded.marks.of(stream)
    tokens = [
        token_id for token_id in tokenizer.encoded(sentence) if not tokenizer.is_special(token_id)
    ]
    every = (token for token in range(loaded.config.n_tokens(stream)) if token not in marks)
    return tokens[:N_TOKENS] or [token for token, _ in zip(every, range(N_TOKENS), strict=False)]
