"""`certify`: test the masks of any Transformer by its behaviour alone."""

import importlib.util
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any, Literal

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
from explorer.exports.report import report_lines, report_record
from explorer.notebook.behaviour import Behaviour, Forward, Step, own_step
from explorer.notebook.diagnosis import Cause, Fill, bug_of, cache_fault, diagnose
from explorer.numbers import minus, number
from explorer.text import t

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
            yield t("notebook.cause", lang=lang, cause=t("notebook.causes", cause, lang=lang))
            bug = bug_of(cause)
            if bug is not None:
                title = t("cases", bug.id, "title", lang=lang)
                yield "  " + t("notebook.shown_by", lang=lang, bug=title, id=bug.id)
                yield from (f"    {line}" for line in source_of(bug.variant).splitlines())
        for note in self.notes:
            yield t("notebook.notes", note, lang=lang, **self._filled(lang))

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
        leak = t("notebook.fill", how, lang=lang, weight=weight)
        return {"name": self.fill.name, "fill": shown, "leak": leak}

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
        causes = diagnose(
            certificate.findings,
            sites,
            cache=fault,
            rows=behaviour.rows_see_each_other(),
            unseen=behaviour.has_unseen,
        )
    notes = tuple(note for note, is_true in holds.items() if is_true)
    return Certified(**vars(certificate), notes=notes, causes=causes, fill=fill)


# `FILE.py:FUNCTION` on the command line.


def is_code(spec: str) -> bool:
    """Whether `spec` names Python code, not a model."""
    return spec.endswith(".py") or ".py:" in spec


def certify_built(spec: str) -> Certified:
    """Run a function of a Python file without arguments, and certify what it returns.

    The function returns (forward, src, tgt), (forward, src, tgt, pad_id), or a dict of arguments
    of `certify`. As with `python FILE`, the file can import from its own folder.
    Raises ValueError for a malformed spec, a missing file or function, or any other result. Errors
    raised by the file itself become ValueErrors that name the line.
    """
    name, colon, function = spec.rpartition(":")
    if not colon or not name or not function.isidentifier():
        raise ValueError(f"{spec}: expected FILE.py:FUNCTION")
    path = Path(name)
    if not path.is_file():
        raise ValueError(f"there is no file {name}")
    sys.path.insert(0, str(path.resolve().parent))
    try:
        return certify(**_built(path, function))
    except (ValueError, OSError):
        raise
    except Exception as error:  # user code may raise anything: report it
        here, trail = path.resolve(), traceback.extract_tb(error.__traceback__)
        lines = [at.lineno for at in trail if Path(at.filename).resolve() == here]
        where = f"{name}, line {lines[-1]}" if lines else name
        raise ValueError(f"{where}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.resolve().parent))


def _built(path: Path, function: str) -> Mapping[str, Any]:
    """The arguments for `certify` that a function of this file returns."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    build: Any = getattr(module, function, None)
    if not callable(build):
        raise ValueError(f"{path} has no function {function}")
    built = build()
    if isinstance(built, Mapping):
        return built
    if isinstance(built, tuple) and len(built) in (3, 4):
        return dict(zip(("forward", "src", "tgt", "pad_id"), built, strict=False))
    raise ValueError(
        f"{function} returned {type(built).__name__}, expected (forward, src, tgt), "
        "(forward, src, tgt, pad_id), or a dict of arguments of certify"
    )
