"""A certificate as text for a terminal and as a record for programs."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from explorer.analysis.mask_tests.certify import Certificate, Finding
from explorer.analysis.mask_tests.sites import Location
from explorer.runs.edits import Edit, format_edits
from explorer.text import t


@dataclass(frozen=True)
class Tested:
    """What was tested: a model's name, a text, and the edits, which reports write as in links."""

    model: str
    text: str
    edits: tuple[Edit, ...] = ()


def report_lines(
    certificate: Certificate,
    lang: str,
    tested: Tested | None = None,
    explained: Iterable[str] = (),
) -> Iterator[str]:
    """The report, line by line, in `lang`: findings, untested properties, the lines that explain
    them, recovered masks, the verdict."""
    if tested is not None:
        yield t("certify.title", lang=lang, model=tested.model)
        yield t("certify.sentence", lang=lang, text=tested.text)
        if tested.edits:
            yield t("certify.edits", lang=lang, edits=format_edits(tested.edits))
        yield ""
    for finding in certificate.findings:
        yield from finding_lines(finding, lang)
    for name, why in certificate.left_out.items():
        promise = t(f"certify.{name}.title", lang=lang)
        reason = t(f"certify.left_out.{why}", lang=lang)
        yield f"{t('certify.untested', lang=lang, promise=promise)} {reason}"
    yield from explained
    for name, reached in certificate.reach.items():
        yield ""
        yield t(f"certify.reach_{name}", lang=lang)
        yield from matrix_lines(reached)
    count, broken = len(certificate.findings), len(certificate.broken)
    verdict = "verdict_kept" if certificate.passed else "verdict_broken"
    yield t(f"certify.{verdict}", lang=lang, count=count, broken=broken)


def report_record(certificate: Certificate, tested: Tested | None = None) -> dict[str, Any]:
    """The same report as values for JSON, without NaN.

    A `deviation` of None is infinite: the results were NaN, or the model raised an `error`.
    Positions count from 0.
    """
    named = {} if tested is None else vars(tested) | {"edits": format_edits(tested.edits)}
    return named | {
        "passed": certificate.passed,
        "findings": [finding_record(finding) for finding in certificate.findings],
        "left_out": certificate.left_out,
        "reach": {name: cells.astype(int).tolist() for name, cells in certificate.reach.items()},
    }


def finding_record(finding: Finding) -> dict[str, Any]:
    """One property as values for JSON, as in `report_record`."""
    return {
        "name": finding.name,
        "passed": finding.passed,
        "deviation": finding.deviation if math.isfinite(finding.deviation) else None,
        "tolerance": finding.tolerance,
        "where": None if finding.where is None else asdict(finding.where),
        "error": finding.error,
    }


def matrix_lines(cells: np.ndarray) -> Iterator[str]:
    """A Bool [query, key] matrix drawn with ■ and ·, one line per query."""
    for row in cells:
        yield "  " + "".join("■" if cell else "·" for cell in row)


def place_words(place: Location, lang: str) -> str:
    """The location of a deviation as text; positions are counted from 1."""
    words = [place.name]
    for axis in ("head", "query", "key"):
        index = getattr(place, axis)
        if index is not None:
            words.append(t(f"certify.at_{axis}", lang=lang, index=index + 1))
    if place.left:
        words.append(t("certify.at_left", lang=lang, left=place.left))
    return ", ".join(words)


def finding_lines(finding: Finding, lang: str) -> Iterator[str]:
    """One property: whether it holds, its deviation, the location, and what a violation means."""
    mark = t("certify.kept" if finding.passed else "certify.broken", lang=lang)
    yield f"[{mark}] {t(finding.title_key, lang=lang)}"
    if finding.error:
        yield "  " + t("certify.error", lang=lang, error=finding.error)
        return
    number = "NaN" if math.isinf(finding.deviation) else f"{finding.deviation:.3g}"
    limit = f"{finding.tolerance:.0e}"
    yield "  " + t("certify.deviation", lang=lang, deviation=number, tolerance=limit)
    if not finding.passed:
        if finding.where is not None:
            where = place_words(finding.where, lang)
            yield "  " + t("certify.where", lang=lang, where=where)
        yield "  " + t(finding.meaning_key, lang=lang)
