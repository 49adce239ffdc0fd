"""A certificate as text for a terminal and as a record for programs."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from explorer.analysis.mask_tests.certify import Certificate, Finding, Verdict
from explorer.analysis.mask_tests.examiner import Location
from explorer.runs.edits import Edit, format_edits
from explorer.text import t


def report_lines(
    certificate: Certificate, model: str, sentence: str, lang: str, edits: Sequence[Edit] = ()
) -> Iterator[str]:
    """The report, line by line, in `lang`: findings, recovered masks, the verdict.

    `edits` are the edits that the model was tested with; the report writes them as in links.
    """
    yield t("certify.title", lang=lang, model=model)
    yield t("certify.sentence", lang=lang, text=sentence)
    if edits:
        yield t("certify.edits", lang=lang, edits=format_edits(edits))
    for name, why in certificate.left_out.items():
        yield untested_line(name, f"certify.untested_{why}", lang)
    for finding in certificate.findings:
        yield ""
        yield from finding_lines(finding, lang)
    for name, reached in certificate.reach.items():
        yield ""
        yield t(f"certify.reach_{name}", lang=lang)
        yield from matrix_lines(reached)
    yield ""
    yield verdict_line(certificate, lang)


def untested_line(name: str, why: str, lang: str) -> str:
    """A property that was left out, and the text at `why`: the reason."""
    promise = t(f"certify.{name}.title", lang=lang)
    return f"{t('certify.untested', lang=lang, promise=promise)} {t(why, lang=lang)}"


def verdict_line(found: Verdict, lang: str) -> str:
    """How many properties were tested, and how many of them do not hold."""
    count = len(found.findings)
    if found.passed:
        return t("certify.verdict_kept", lang=lang, count=count)
    return t("certify.verdict_broken", lang=lang, count=count, broken=len(found.broken))


def report_record(
    certificate: Certificate, model: str, sentence: str, edits: Sequence[Edit] = ()
) -> dict[str, Any]:
    """The same report as values for JSON, without NaN.

    A `deviation` of None is infinite: the results were NaN, or the model raised an `error`.
    Positions count from 0.
    """
    return {
        "model": model,
        "text": sentence,
        "edits": format_edits(edits),
        "left_out": certificate.left_out,
        "passed": certificate.passed,
        "findings": [finding_record(finding) for finding in certificate.findings],
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
