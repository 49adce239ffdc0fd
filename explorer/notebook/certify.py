"""`certify`: test the masks of any Transformer by its behaviour alone."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from torch import Tensor

from explorer.analysis.cases.case import source_of
from explorer.analysis.mask_tests.certify import (
    FINDINGS,
    OF_CAUSALITY,
    OF_HOOKS,
    OF_PADDING,
    OF_WEIGHTS,
    Certificate,
    Examination,
)
from explorer.analysis.mask_tests.examiner import LeftOut
from explorer.components.standalone import Paragraph, page
from explorer.exports.report import finding_record, report_lines, report_record
from explorer.notebook.behaviour import Behaviour, Forward, Step, own_step
from explorer.notebook.diagnosis import Cause, bug_of, diagnose
from explorer.notebook.evidence import Fill, cache_fault, facts
from explorer.numbers import minus, number
from explorer.text import t

if TYPE_CHECKING:
    from pandas import DataFrame

Note = Literal["fused_nan", "finite_fill", "own_input", "unread"]


@dataclass(frozen=True, eq=False)
class Certified(Certificate):
    """Result of `certify`.

    `findings` are in order; each has `name`, `passed`, `deviation`, `tolerance`, `where` and
    `error`. `left_out` maps each untested property to the reason. `masks` holds the masks
    recovered by capture, by module path, Bool [head, query, key] for the sentence padded on the
    right. `causes` are the likely causes of these findings, `notes` further facts, `fill` the mask
    of a finite number that leaks most. Printing it shows the report; `report("zh")` is the Chinese
    one.
    """

    notes: tuple[Note, ...] = ()
    causes: tuple[Cause, ...] = ()
    fill: Fill | None = None

    def record(self) -> dict[str, Any]:
        """The result as plain strings, numbers and lists; a `deviation` of None is infinite."""
        fill = None if self.fill is None else asdict(self.fill)
        more = {"causes": list(self.causes), "notes": list(self.notes), "fill": fill}
        return report_record(self) | more

    def report(self, lang: str = "en") -> str:
        """Each property with its location and deviation, the likely causes, and their code."""
        return "\n".join(report_lines(self, lang, explained=self.explained(lang)))

    def explained(self, lang: str = "en") -> Iterator[str]:
        """The likely causes with their code, and the notes, line by line."""
        for cause in self.causes:
            yield t("notebook.cause", lang=lang, cause=t(f"notebook.causes.{cause}", lang=lang))
            bug = bug_of(cause)
            if bug is not None:
                title = t(f"cases.{bug.id}.title", lang=lang)
                yield "  " + t("notebook.shown_by", lang=lang, bug=title, id=bug.id)
                yield from (f"    {line}" for line in source_of(bug.variant).splitlines())
        for note in self.notes:
            yield t(f"notebook.notes.{note}", lang=lang, **self._filled(lang))

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

        records = [finding_record(replace(finding, where=None)) for finding in self.findings]
        places = ["" if finding.where is None else finding.where.name for finding in self.findings]
        return pd.DataFrame(records).assign(where=places)

    def save(self, path: str | Path, lang: str = "en") -> Path:
        """Write the report as a page (.html) or as text (.txt), or the record (.json).

        Returns the path. Raises ValueError for any other file extension, OSError if the file cannot
        be written.
        """
        path = Path(path)
        ending = path.suffix.lower()
        if ending in (".html", ".htm"):
            content = page(t("mask_tests.title", lang=lang), [Paragraph(self.report(lang))], lang)
        elif ending == ".txt":
            content = self.report(lang) + "\n"
        elif ending == ".json":
            content = json.dumps(self.record(), ensure_ascii=False, indent=1) + "\n"
        else:
            raise ValueError(f"{path.name}: a certificate is saved as .html, .txt or .json")
        path.write_text(content, encoding="utf-8")
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
    window: int | None = None,
    capture: bool = True,
    cached: Step | None = None,
    without: Collection[str] = (),
) -> Certified:
    """Test the masks of any Transformer by its behaviour.

    `forward(src, tgt)` takes ids [batch, pos], Int64, computes its masks from them, and returns
    logits [batch, tgt, vocab], an object with `.logits`, or a tuple that begins with the logits.
    If `src` is None (a model without an encoder), it is called as `forward(tgt)`. `src` and `tgt`
    are one sentence each, without padding. `pad_id` None means that the model has no padding token.
    Set `causal` to False for a bidirectional model, and `window` to the number of tokens, itself
    included, that each token can attend to at least. `without` names properties to skip.

    `cached` is one step with a key/value cache: `cached(tgt, cache)`, or `cached(src, tgt, cache)`,
    returns (logits, cache) for the next tokens [batch, pos]. The cache is None at the start, then
    the object that the previous step returned. The step may also return an object with `.logits`
    and `.past_key_values`. A module without `src` whose `forward` takes `past_key_values` and
    `use_cache` does not need `cached`.

    Tested: `future_leak`, `prefix`, `needle`, `pad_content`, `padding_right`, `padding_left`,
    `padding_batch` and `cache`. With `capture`, also properties of the attention that can be
    recorded: `future_mass`, `pad_mass`, `cross_mask`, `row_sums`, `open_cells`, and the recovered
    masks. If a model blocks more on purpose than a `window` does, test it
    `without=["open_cells", "needle"]`.

    torch's fused inference path is not used: there a query without visible keys is NaN, whatever
    the masks. `notes` says if that would occur. It also says if a mask uses a finite number such as
    -1e4 or -1e9, which is correct only if every query has a visible key and no score is that low.

    In a test, call `explorer.testing.assert_masks` with the same arguments, or with the ids alone
    for a model of one text (`examples/test_masks.py`); in a shell, run
    `headlight certify my_model.py:build`, which also writes reports (`--junit`, `--markdown`).

    Raises ValueError if the ids contain padding, the logits have another shape, the logits change
    from run to run (dropout) or do not depend on the ids, or `without` contains an unknown name. An
    error in `forward` for padded or longer sequences is a finding; for the sentence itself it is a
    ValueError that names the arguments.
    """
    names = tuple(name for name in FINDINGS if name not in OF_HOOKS)
    if unknown := set(without) - set(names):
        raise ValueError(f"without: {', '.join(sorted(unknown))}; expected {', '.join(names)}")
    step = cached or own_step(forward, src)
    behaviour = Behaviour(forward, src, tgt, pad_id, step, causal, window)
    left_out: dict[str, LeftOut] = {} if step else {"cache": "no_cache"}
    left_out |= {} if capture else dict.fromkeys(OF_WEIGHTS, "no_capture")
    left_out |= {} if behaviour.n_pads else dict.fromkeys(OF_PADDING, "no_pad")
    left_out |= {} if causal else dict.fromkeys(OF_CAUSALITY, "both_ways")
    left_out |= dict.fromkeys(without, "not_asked")
    certificate = Examination(lambda: behaviour, left_out, names).certificate()
    broken = {finding.name for finding in certificate.broken if not finding.error}
    left = next((check for check in certificate.findings if check.name == "padding_left"), None)
    sites = [site for _, of_run in behaviour.captures for site in of_run]
    fills = [site.fill for site in sites if site.fill is not None]
    fill = max(fills, key=lambda fill: (fill.weight, fill.score or 0.0), default=None)
    holds: dict[Note, bool] = {
        "fused_nan": left is not None and not left.error and behaviour.fused_path_is_nan(),
        "finite_fill": fill is not None,
        "unread": behaviour.has_unread,
        "own_input": causal and behaviour.predicts_its_input(),
    }
    causes: tuple[Cause, ...] = ()
    if not certificate.passed:
        fault = cache_fault(behaviour) if capture and "cache" in broken else ""
        evidence = facts(sites, fault, behaviour.rows_see_each_other(), behaviour.has_unseen)
        causes = diagnose(certificate.findings, evidence)
    notes = tuple(note for note, is_true in holds.items() if is_true)
    return Certified(**vars(certificate), notes=notes, causes=causes, fill=fill)
