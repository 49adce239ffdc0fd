"""`certify`: test the masks of any Transformer by its behaviour alone."""

import json
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from explorer.analysis.cases.case import source_of
from explorer.analysis.mask_tests.certify import Finding, Verdict
from explorer.analysis.mask_tests.examiner import Location, Worst
from explorer.components.standalone import Paragraph, page
from explorer.exports.report import finding_lines, finding_record, untested_line, verdict_line
from explorer.notebook.behaviour import (
    TOLERANCES,
    Behaviour,
    Forward,
    Padded,
    Step,
    UntestableError,
    own_step,
)
from explorer.notebook.captured import Captured
from explorer.notebook.diagnosis import Cause, bug_of, diagnose
from explorer.notebook.evidence import SHARE, Fill, Recording, Site, cache_fault, facts
from explorer.numbers import minus, number
from explorer.text import t

if TYPE_CHECKING:
    from pandas import DataFrame

PROMISES = (
    "future_leak",
    "future_mass",
    "prefix",
    "pad_content",
    "padding_right",
    "padding_left",
    "padding_batch",
    "cache",
    "pad_mass",
    "cross_mask",
    "row_sums",
    "open_cells",
)
Why = Literal[
    "both_ways",
    "no_pad",
    "no_embedding",
    "no_capture",
    "no_cache",
    "not_asked",
    "no_site",
    "unread",
]
Note = Literal["fused_nan", "finite_fill", "own_input", "unread"]


@dataclass(frozen=True, eq=False)
class Certified(Verdict):
    """Result of `certify`.

    `findings` are in order; each has `name`, `passed`, `deviation`, `tolerance`, `where` and
    `error`. `left_out` maps each untested property to the reason. `masks` holds the masks
    recovered by capture, by module path, Bool [head, query, key] for the sentence padded on the
    right. `causes` are the likely causes of these findings, `notes` further facts, `fill` the mask
    of a finite number that leaks most. Printing it shows the report; `report("zh")` is the Chinese
    one.
    """

    findings: tuple[Finding, ...]
    left_out: dict[str, Why]
    masks: dict[str, np.ndarray] = field(repr=False)
    notes: tuple[Note, ...] = ()
    causes: tuple[Cause, ...] = ()
    fill: Fill | None = None

    def record(self) -> dict[str, Any]:
        """The result as plain strings, numbers and lists; a `deviation` of None is infinite."""
        findings = [finding_record(finding) for finding in self.findings]
        facts = {
            "left_out": self.left_out,
            "causes": list(self.causes),
            "notes": list(self.notes),
            "fill": None if self.fill is None else asdict(self.fill),
        }
        return {"passed": self.passed, "findings": findings, **facts}

    def report(self, lang: str = "en") -> str:
        """Each property with its location and deviation, the likely causes, and their code."""
        return "\n".join(self._lines(lang))

    def _lines(self, lang: str) -> Iterator[str]:
        for finding in self.findings:
            yield from finding_lines(finding, lang)
        for cause in self.causes:
            yield t("notebook.cause", lang=lang, cause=t(f"notebook.causes.{cause}", lang=lang))
            bug = bug_of(cause)
            if bug is not None:
                title = t(f"cases.{bug.id}.title", lang=lang)
                yield "  " + t("notebook.shown_by", lang=lang, bug=title, id=bug.id)
                yield from (f"    {line}" for line in source_of(bug.variant).splitlines())
        for name, why in self.left_out.items():
            yield untested_line(name, f"notebook.untested.{why}", lang)
        for note in self.notes:
            yield t(f"notebook.notes.{note}", lang=lang, **self._filled(lang))
        yield verdict_line(self, lang)

    def _filled(self, lang: str) -> dict[str, str]:
        """Where a finite number masks, which one, and what leaks."""
        if self.fill is None:
            return {}
        score, weight = self.fill.score, number(self.fill.weight)
        shown = (
            t("notebook.fill.unknown", lang=lang)
            if score is None
            else minus(f"{score:,.4g}" if abs(score) > 1e6 else f"{score:,.0f}")
        )
        how = "leaks" if self.fill.weight else "rounds"
        leak = t(f"notebook.fill.{how}", lang=lang, weight=weight)
        return {"name": self.fill.name, "fill": shown, "leak": leak}

    def numpy(self) -> dict[str, np.ndarray]:
        """The recovered masks by module path, Bool [head, query, key]."""
        return dict(self.masks)

    def dataframe(self) -> "DataFrame":
        """One row per tested property. Raises ImportError without pandas."""
        import pandas as pd  # optional dependency

        found = [finding_record(replace(each, where=None)) for each in self.findings]
        places = ["" if each.where is None else each.where.name for each in self.findings]
        return pd.DataFrame(found).assign(where=places)

    def save(self, path: str | Path, lang: str = "en") -> Path:
        """Write the report as a page (.html) or as text (.txt), or the record (.json).

        Returns the path. Raises ValueError for any other file extension, OSError if the file cannot
        be written.
        """
        path = Path(path)
        ending = path.suffix.lower()
        if ending in (".html", ".htm"):
            made = page(t("mask_tests.title", lang=lang), [Paragraph(self.report(lang))], lang)
        elif ending == ".txt":
            made = self.report(lang) + "\n"
        elif ending == ".json":
            made = json.dumps(self.record(), ensure_ascii=False, indent=1) + "\n"
        else:
            raise ValueError(f"{path.name}: a certificate is saved as .html, .txt or .json")
        path.write_text(made, encoding="utf-8")
        return path

    def __str__(self) -> str:
        return self.report()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.report())}</pre>"


def certify(
    forward: Forward,
    src: Sequence[int] | Tensor | None,
    tgt: Sequence[int] | Tensor,
    pad_id: int | None = 0,
    *,
    causal: bool = True,
    capture: bool = True,
    cached: Step | None = None,
    without: Collection[str] = (),
) -> Certified:
    """Test the masks of any Transformer by its behaviour.

    `forward(src, tgt)` takes ids [batch, pos], Int64, computes its masks from them, and returns
    logits [batch, tgt, vocab], an object with `.logits`, or a tuple that begins with the logits.
    If `src` is None (a model without an encoder), it is called as `forward(tgt)`. `src` and `tgt`
    are one sentence each, without padding. `pad_id` None means that the model has no padding token.
    Set `causal` to False for a bidirectional model. `without` names properties to skip.

    `cached` is one step with a key/value cache: `cached(tgt, cache)`, or `cached(src, tgt, cache)`,
    returns (logits, cache) for the next tokens [batch, pos]. The cache is None at the start, then
    the object that the previous step returned. The step may also return an object with `.logits`
    and `.past_key_values`. A module without `src` whose `forward` takes `past_key_values` and
    `use_cache` does not need `cached`.

    Tested: `future_leak`, `prefix`, `pad_content`, `padding_right`, `padding_left`,
    `padding_batch` and `cache`. With `capture`, also properties of the attention that can be
    recorded: `future_mass`, `pad_mass`, `cross_mask`, `row_sums`, `open_cells`, and the recovered
    masks. If a model blocks more on purpose, such as one with a sliding window, test it
    `without=["open_cells"]`.

    torch's fused inference path is not used: there a query without visible keys is NaN, whatever
    the masks. `notes` says if that would occur. It also says if a mask uses a finite number such as
    -1e4 or -1e9, which is correct only if every query has a visible key and no score is that low.

    In a test, call `explorer.testing.assert_masks` with the same arguments; in a shell, run
    `headlight certify my_model.py:build`.

    Raises ValueError if the ids contain padding, the logits have another shape, the logits change
    from run to run (dropout) or do not depend on the ids, or `without` contains an unknown name. An
    error in `forward` for padded or longer sequences is a finding; for the sentence itself it is a
    ValueError that names the arguments.
    """
    if unknown := set(without) - set(PROMISES):
        raise ValueError(f"without: {', '.join(sorted(unknown))}; expected {', '.join(PROMISES)}")
    behaviour = Behaviour(forward, src, tgt, pad_id)
    left_out: dict[str, Why] = dict.fromkeys(without, "not_asked")
    if not causal:
        left_out |= dict.fromkeys(("future_leak", "prefix", "cache", "future_mass"), "both_ways")
    if pad_id is None:
        paddings = ("pad_content", "padding_right", "padding_left", "pad_mass", "cross_mask")
        left_out |= dict.fromkeys(paddings, "no_pad")
    step = cached or own_step(forward, src)
    if step is None:
        left_out.setdefault("cache", "no_cache")
    seen = _Seen(behaviour, causal)
    if not capture:
        left_out |= dict.fromkeys(_Seen.CHECKS, "no_capture")
    checks: dict[str, Callable[[], Worst | None]] = {
        "future_leak": behaviour.future,
        "prefix": behaviour.prefix,
        "pad_content": behaviour.pad_content,
        "padding_right": lambda: behaviour.padding(left=False),
        "padding_left": lambda: behaviour.padding(left=True),
        "padding_batch": behaviour.in_a_batch,
        "cache": lambda: behaviour.with_cache(step),
        **{name: lambda name=name: seen.check(name) for name in _Seen.CHECKS},  # type: ignore[misc]
    }
    findings = []
    for name, check in checks.items():
        if name in left_out:
            continue
        try:
            worst = check()
        except UntestableError:
            raise
        except (RuntimeError, ValueError, IndexError, TypeError, AssertionError) as error:
            said = f"{type(error).__name__}: {error}"
            findings.append(Finding(name, math.inf, 0.0, error=said))
            continue
        if worst is None:
            unproven: Why = "unread" if seen.has_unread else "no_site"
            left_out[name] = "no_embedding" if name == "pad_content" else unproven
            continue
        shares = name in _Seen.CHECKS and behaviour.plain.dtype in TOLERANCES
        tolerance = SHARE if shares else behaviour.tolerance
        findings.append(Finding(name, worst.deviation, tolerance, worst.where))
    ordered = {name: left_out[name] for name in PROMISES if name in left_out}
    left = next((finding for finding in findings if finding.name == "padding_left"), None)
    fused = left is not None and not left.error and behaviour.fused_path_is_nan()
    notes: list[Note] = ["fused_nan"] if fused else []
    fill = seen.fill
    notes += ["finite_fill"] if fill is not None else []
    notes += ["unread"] if capture and seen.has_unread else []
    notes += ["own_input"] if causal and behaviour.predicts_its_input() else []
    causes: tuple[Cause, ...] = ()
    if not all(finding.passed for finding in findings):
        stepped = capture and any(f.name == "cache" and not (f.passed or f.error) for f in findings)
        fault = cache_fault(behaviour, step) if stepped and step is not None else ""
        rows = behaviour.rows_see_each_other()
        causes = diagnose(findings, facts(seen.sites, fault, rows, seen.has_unseen))
    return Certified(tuple(findings), ordered, seen.masks, tuple(notes), causes, fill)


class _Seen:
    """Properties of the attention weights, as captured on padded sentences."""

    CHECKS = ("future_mass", "pad_mass", "cross_mask", "row_sums", "open_cells")

    def __init__(self, behaviour: Behaviour, causal: bool) -> None:
        self.behaviour, self.causal = behaviour, causal
        self.masks: dict[str, np.ndarray] = {}
        self.sites: list[Site] = []
        self._runs: list[Captured] = []
        self._n_unread = 0

    @property
    def fill(self) -> Fill | None:
        """The finite number that masks a score and leaks most; None if there is none."""
        fills = [fill for fill in (site.fill for site in self.sites) if fill is not None]
        return max(fills, key=lambda fill: (fill.weight, fill.score or 0.0), default=None)

    @property
    def has_unread(self) -> bool:
        """Whether any attention was computed that could not be read."""
        return self._n_unread > 0 or self.has_unseen

    @property
    def has_unseen(self) -> bool:
        """Whether the pattern of any attention could not be recorded."""
        return any(seen.unseen for seen in self._runs)

    def check(self, name: str) -> Worst | None:
        """Check one property at every attention whose shape identifies its queries and keys.

        None if there is no such attention.
        """
        if not self._runs:
            self._run()
        worst, n_sites = Worst(), 0
        for site in self.sites:
            off = _off(name, site)
            if off is None:
                continue
            n_sites += 1
            worst.see(
                off,
                lambda _, head, query, *key, name=site.call.name: Location(
                    name, None, head, query, *key
                ),
            )
        return worst if n_sites else None

    def _run(self) -> None:
        behaviour, is_padded = self.behaviour, self.behaviour.pad_id is not None
        alike = [(behaviour.src, behaviour.tgt)] * 3
        for sentences, left in [(alike, False), (alike, True), (behaviour.mixed(), False)][
            : 3 if is_padded else 1
        ]:
            rows = behaviour.batch(sentences, left, 2 * is_padded)
            with Recording(sequences=len(rows.tgt)) as seen:
                behaviour.run(rows)
            for site in self._sites(rows, seen):
                self.sites.append(site)
                if not self._runs:
                    self.masks[site.call.name] = site.visible[-1].cpu().numpy()
            self._runs.append(seen)

    def _sites(self, rows: Padded, seen: Captured) -> Iterator[Site]:
        for call in seen:
            kind = _kind(call.pattern, rows)
            if kind is None:
                self._n_unread += 1
            else:
                queries, keys = (self._real(rows, stream) for stream in kind)
                yield Site(call, kind, queries, keys, self.causal and kind == ("tgt", "tgt"))

    def _real(self, rows: Padded, stream: str) -> Tensor:
        ids = rows.tgt if stream == "tgt" else rows.src
        assert ids is not None
        if self.behaviour.pad_id is None:
            return torch.ones_like(ids, dtype=torch.bool)
        return ids != self.behaviour.pad_id


def _off(name: str, site: Site) -> Tensor | None:
    """Deviation of each [batch, head, query(, key)]; None if the property does not apply."""
    pattern = site.call.pattern
    if name == "row_sums":
        return (pattern.sum(-1) - 1).abs().masked_fill(~site.query_real[:, None], 0.0)
    if name == "open_cells":
        closed = (site.allowed & ~site.visible).double()
        return closed * (closed.sum() / site.allowed.sum())
    if name == "future_mass":
        if not site.causal:
            return None
        hidden = site.later.expand(pattern.shape)
    else:
        is_self = site.kind[0] == site.kind[1]
        if is_self == (name == "cross_mask") or bool(site.key_real.all()):
            return None
        hidden = ~site.key_real[:, None, None, :].expand(pattern.shape)
    return (pattern.abs() * hidden).masked_fill(~site.query_real[:, None, :, None], 0.0)


def _kind(pattern: Tensor, rows: Padded) -> tuple[str, str] | None:
    """The sequences ("src", "tgt") of queries and keys, by length; None if none matches."""
    lengths = {rows.tgt.shape[1]: "tgt"}
    if rows.src is not None:
        lengths |= {rows.src.shape[1]: "src"}
    query, key = (lengths.get(length) for length in pattern.shape[-2:])
    if query is None or key is None or len(pattern) != len(rows.tgt):
        return None
    return query, key
