"""A certificate as text for a terminal and a pull request, and as records for programs."""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from html import escape
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

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

    def lines(self, lang: str) -> Iterator[str]:
        """The title of a report, the text, and the edits."""
        yield t("certify.title", lang=lang, model=self.model)
        if self.text:
            yield t("certify.sentence", lang=lang, text=self.text)
        if self.edits:
            yield t("certify.edits", lang=lang, edits=format_edits(self.edits))


def report_lines(
    certificate: Certificate, lang: str, tested: Tested | None = None, explained: Iterable[str] = ()
) -> Iterator[str]:
    """The report, line by line, in `lang`: findings, untested properties, the lines that explain
    them, recovered masks, the verdict."""
    if tested is not None:
        yield from tested.lines(lang)
        yield ""
    for finding in certificate.findings:
        yield from finding_lines(finding, lang)
    yield from _untested(certificate, lang)
    yield from explained
    for name, reached in certificate.reach.items():
        yield ""
        yield t("certify.reach", name, lang=lang)
        yield from matrix_lines(reached)
    yield verdict(certificate, lang)


def _untested(certificate: Certificate, lang: str) -> Iterator[str]:
    for name, why in certificate.left_out.items():
        promise = t("certify", name, "title", lang=lang)
        reason = t("certify.left_out", why, lang=lang)
        yield f"{t('certify.untested', lang=lang, promise=promise)} {reason}"


def verdict(certificate: Certificate, lang: str) -> str:
    """How many of the tested properties hold."""
    count, broken = len(certificate.findings), len(certificate.broken)
    key = "certify.verdict_kept" if certificate.passed else "certify.verdict_broken"
    return t(key, lang=lang, count=count, broken=broken)


_MARKDOWN = str.maketrans(
    {mark: f"&#{ord(mark)};" for mark in "\\`*_~[]<>|&#@"} | dict.fromkeys("\r\n", " ")
)
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(
    certificate: Certificate, lang: str, tested: Tested, explained: Iterable[str] = ()
) -> str:
    """A JUnit file: a test case per property, a failure or an error with its report, or skipped.

    Characters that XML cannot hold are replaced.
    """

    def add(parent: Element, tag: str, text: str = "", **attributes: str) -> Element:
        clean = {key: _NOT_XML.sub("�", value) for key, value in attributes.items()}
        child = SubElement(parent, tag, clean)
        child.text = _NOT_XML.sub("�", text) or None
        return child

    def case(name: str) -> Element:
        return add(suite, "testcase", classname=name, name=t("certify", name, "title", lang=lang))

    title, *about = tested.lines(lang)
    errors = sum(bool(finding.error) for finding in certificate.broken)
    counts = {
        "tests": len(certificate.findings) + len(certificate.left_out),
        "failures": len(certificate.broken) - errors,
        "errors": errors,
        "skipped": len(certificate.left_out),
    }
    root = Element("testsuites")
    suite = add(root, "testsuite", name=title, **{key: str(n) for key, n in counts.items()})
    for finding in certificate.findings:
        test = case(finding.name)
        if not finding.passed:
            _, *lines = finding_lines(finding, lang)
            tag = "error" if finding.error else "failure"
            add(test, tag, "\n".join(lines), message=lines[-1].strip())
    for name, why in certificate.left_out.items():
        add(case(name), "skipped", message=t("certify.left_out", why, lang=lang))
    add(suite, "system-out", "\n".join([*about, *explained]))
    indent(root)
    return tostring(root, "utf-8", xml_declaration=True).decode() + "\n"


def markdown(
    certificate: Certificate, lang: str, tested: Tested, explained: Iterable[str] = ()
) -> str:
    """A comment for a pull request: the verdict, a table of all properties, what is broken.

    Names and texts are written as character references, so that none of them is markup.
    """
    title, *about = (line.translate(_MARKDOWN) for line in tested.lines(lang))
    yes, no = t("certify.kept", lang=lang), t("certify.broken", lang=lang)
    titles = ("mask_tests.promise", "mask_tests.result", "mask_tests.deviation")
    head = [t(title, lang=lang) for title in titles]
    rows = [
        (
            t("certify", finding.name, "title", lang=lang),
            yes if finding.passed else f"**{no}**",
            "NaN" if math.isinf(finding.deviation) else f"{finding.deviation:.3g}",
        )
        for finding in certificate.findings
    ]
    table = [" | ".join(cells) for cells in (head, ["---"] * len(head), *rows)]
    broken = (line for finding in certificate.broken for line in finding_lines(finding, lang))
    more = "\n".join([*broken, *_untested(certificate, lang), *explained])
    blocks = [
        f"### {title}",
        *about,
        f"**{verdict(certificate, lang)}**",
        "\n".join(f"| {row} |" for row in table),
        more and f"<pre>\n{escape(more)}\n</pre>",
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


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
            words.append(t("certify.at", axis, lang=lang, index=index + 1))
    if place.left:
        words.append(t("certify.at_left", lang=lang, left=place.left))
    return ", ".join(words)


def finding_lines(finding: Finding, lang: str) -> Iterator[str]:
    """One property: whether it holds, its deviation, the location, and what a violation means."""
    mark = t("certify.kept" if finding.passed else "certify.broken", lang=lang)
    yield f"[{mark}] {t('certify', finding.name, 'title', lang=lang)}"
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
        yield "  " + t("certify", finding.name, "broken", lang=lang)
