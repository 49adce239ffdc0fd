"""Behavioural tests of the model's masks."""

import json
from collections.abc import Generator
from dataclasses import dataclass

from explorer.analysis.mask_tests.certify import MAX_PROBED, Certificate, Finding, examine_text
from explorer.analysis.mask_tests.examiner import LeftOut
from explorer.analysis.mask_tests.hooked import HookedExaminer
from explorer.analysis.mask_tests.probe import Probe
from explorer.analysis.mask_tests.sites import Location
from explorer.exhibits import Exhibit, View, Wait, block as b, saying
from explorer.exhibits.block import escape
from explorer.exports.report import Tested, report_lines, report_record, verdict
from explorer.figures.matrix import Axis, Matrix
from explorer.library import LoadedModel
from explorer.numbers import number
from explorer.runs.edits import Edit, about_masks
from models.hooks import LOGITS
from models.rows import Stream

REACH: dict[str, tuple[Stream, Stream]] = {
    "encoder": ("src", "src"),
    "decoder": ("tgt", "tgt"),
    "cross": ("tgt", "src"),
}
"""The sequences of the queries and keys of each picture."""


@dataclass(frozen=True, eq=False)
class Tests:
    """The promises to test, those left out with reasons, and the result once they are tested."""

    names: tuple[str, ...]
    left_out: dict[str, LeftOut]
    certificate: Certificate | None


def compute(
    loaded: LoadedModel, text: str, target: str | None, mask_edits: tuple[Edit, ...], tested: bool
) -> Generator[tuple[int, int], bool, Tests]:
    """The tests, run if the user has started them. Raises InputProblem."""
    examination = examine_text(loaded, text, target, mask_edits)
    names = examination.names
    for done, name in enumerate(names if tested else ()):
        yield done, len(names)
        examination.finding(name)
    return Tests(names, examination.left_out, examination.certificate() if tested else None)


def show(tests: Tests, view: View) -> b.Blocks:
    """The button to start, or the verdict, all findings and the masks."""
    yield from _subject(view)
    certificate = tests.certificate
    if certificate is None:
        start, words = b.choose(tested=True), view.t("mask_tests.run", count=len(tests.names))
        yield b.Button("mask_tests.run", words, start, "verified", kind="primary")
    else:
        yield from _verdict(view, certificate)
        for finding in certificate.broken:
            yield b.Pane([*_broken(view, certificate, finding)], framed=True)
        kept = [_kept(view, finding) for finding in certificate.findings if finding.passed]
        yield b.Columns((kept[::2], kept[1::2]))
    for name, why in tests.left_out.items():
        words = view.t("certify.untested", promise=view.t("certify", name, "title"))
        yield b.Note(f"{words} {view.t('certify.left_out', why)}")
    if certificate is None:
        return
    shown = [name for name in REACH if name in certificate.reach]
    if shown:  # nothing is masked in a model of one text that reads both ways
        yield b.Prose(view.t("mask_tests.reach"))
        yield b.Columns([_reach(view, certificate, name) for name in shown], gap="medium")
    yield _downloads(view, certificate)
    yield b.Formula.of(
        view.t("mask_tests.formula"),
        r"\text{deviation} = \frac{\max|x' - x|}{\max(1,\ \max|x|)} \le 10^{-8}",
        r"\text{weights}:\qquad v_j = e_j \ \Rightarrow\ z_i = \sum_j a_{ij}\, e_j",
    )
    yield b.Code(_code(certificate))
    yield b.Numbers(lambda: _numbers(view, certificate))


def _subject(view: View) -> b.Blocks:
    """The sentence, and the user's edits of masks with a button to undo them."""
    yield b.SentenceLine()
    edits = [edit for edit in view.trace.edits if about_masks(edit)]
    if edits:
        named = " · ".join(f"**{saying.name_edit(view, edit)}**" for edit in edits)
        words, undo = view.t("certify.edits", edits=named), view.t("edits.reset")
        reset = b.Button("mask_tests.reset", undo, b.choose(edits=()))
        yield b.Row((b.Prose(words), reset), align="center")


def _code(certificate: Certificate) -> list[object]:
    """The code of the tests that ran, broken promises first."""
    tested = [*certificate.broken, *(check for check in certificate.findings if check.passed)]
    checks = [getattr(HookedExaminer, finding.name) for finding in tested]
    return [*checks, Probe.weights]


def _verdict(view: View, certificate: Certificate) -> b.Blocks:
    icon = ":material/verified:" if certificate.passed else ":red[:material/cancel:]"
    words = f"{icon} {verdict(certificate, view.lang)}"
    yield b.Hero((b.Sentence("mask_tests", words),))
    yield b.Note(view.t("mask_tests.honest", limit=MAX_PROBED))


def _kept(view: View, finding: Finding) -> b.Prose:
    title, measured = view.t("certify", finding.name, "title"), _measured(view, finding)
    words = f":material/check_circle: {title}  \n:small[:gray[{measured}]]"
    missed = view.t("certify.misses", what=view.t("certify", finding.name, "misses"))
    return b.Prose(words, help=missed)


def _broken(view: View, certificate: Certificate, finding: Finding) -> b.Blocks:
    yield b.Prose(f":red[:material/cancel:] **{view.t('certify', finding.name, 'title')}**")
    if finding.error:
        yield b.Prose(view.t("certify.error", error=escape(finding.error)))
        return
    yield b.Prose(view.t("certify", finding.name, "broken"))
    words = _measured(view, finding)
    if finding.where is not None:
        words = f"{words} · {_place(view, certificate, finding.where)}"
    yield b.Note(words)


def _measured(view: View, finding: Finding) -> str:
    if finding.deviation == 0:
        return view.t("mask_tests.exact")
    return view.t(
        "certify.deviation",
        deviation=number(finding.deviation),
        tolerance=number(finding.tolerance),
    )


def _place(view: View, certificate: Certificate, place: Location) -> str:
    """The place of a deviation: site, layer and head, and the tokens of query and key."""
    site = next((site for site in view.trace.sites if site.name == place.name), None)
    if site is not None:
        words = [view.t("kinds", site.role), view.t("mask_tests.at_layer", layer=site.layer + 1)]
    elif place.layer is not None:
        words = [view.t("mask_tests.behind", place.stack, layer=place.layer + 1)]
    elif place.stack:
        words = [view.t("mask_tests.added")]
    else:
        words = [view.t("mask_tests.logits") if place.name == LOGITS else place.name]
    if place.head is not None:
        words.append(view.t("certify.at.head", index=place.head + 1))
    # At the logits, after the last block, no stack is named.
    streams: dict[str, Stream] = {stack.role: stack.stream for stack in view.trace.stacks}
    stream = site.query_stream if site else streams.get(place.stack, "tgt")
    if place.query is not None:
        token = _token(view, certificate, stream, place.query - place.left)
        words.append(view.t("mask_tests.query", token=token))
    if place.key is not None and site is not None:
        token = _token(view, certificate, site.key_stream, place.key - place.left)
        words.append(view.t("mask_tests.key", token=token))
    elif place.key is not None:
        words.append(view.t("mask_tests.changed_at", index=place.key + 1))
    if place.left:
        words.append(view.t("certify.at_left", left=place.left))
    return " · ".join(words)


def _token(view: View, certificate: Certificate, stream: Stream, index: int) -> str:
    """A token of the sentence in quotation marks; a position outside of it is padding."""
    tokens = _tokens(view, certificate, stream)
    if not 0 <= index < len(tokens) or tokens[index] == tokens[-1]:
        return saying.quoted(view, tokens[-1])
    return saying.quoted_at(view, tokens, index)


def _tokens(view: View, certificate: Certificate, stream: Stream) -> list[str]:
    return view.loaded.str_tokens(certificate.tokens[stream], stream)


def _reach(view: View, certificate: Certificate, name: str) -> tuple[b.Block, ...]:
    """Which positions a changed token affects: the masks as observed from the model's behaviour."""
    query, key = REACH[name]
    reached, title = certificate.reach[name], view.t("certify.reach", name)
    words = view.words("components.reach")
    axes = (
        Axis(
            _tokens(view, certificate, query),
            view.t("mask_tests.moved", stream=view.stream(query)),
            query,
            words["query"],
        ),
        Axis(
            _tokens(view, certificate, key),
            view.t("mask_tests.changed", stream=view.stream(key)),
            key,
            words["key"],
        ),
    )
    rules = (words["open"], view.t("mask_tests.never"))
    panel = title.rstrip(":："), Matrix(axes, blocked=~reached, rules=rules)
    own = {name: words[name] for name in ("blocked", "hint")}
    picture = b.Matrices(f"mask_tests.reach.{name}", (panel,), captioned=False, words=own)
    return b.Note(title), picture


def _downloads(view: View, certificate: Certificate) -> b.Row:
    edits = tuple(edit for edit in view.trace.edits if about_masks(edit))
    tested = Tested(view.loaded.name, view.text, edits)

    def lines() -> str:
        return "\n".join(report_lines(certificate, view.lang, tested)) + "\n"

    def record() -> str:
        return json.dumps(report_record(certificate, tested), ensure_ascii=False, indent=2)

    return b.Row(
        (
            b.Download("mask_tests.text", view.t("mask_tests.as_text"), lines, "txt"),
            b.Download("mask_tests.json", view.t("mask_tests.as_json"), record, "json"),
        )
    )


def _numbers(view: View, certificate: Certificate) -> dict[str, list[object]]:
    findings = certificate.findings
    return {
        view.t("mask_tests.promise"): [
            view.t("certify", finding.name, "title") for finding in findings
        ],
        view.t("mask_tests.result"): [
            view.t("certify.kept" if finding.passed else "certify.broken") for finding in findings
        ],
        view.t("mask_tests.deviation"): [f"{finding.deviation:.3g}" for finding in findings],
        view.t("mask_tests.tolerance"): [f"{finding.tolerance:.0e}" for finding in findings],
    }


EXHIBIT = Exhibit(compute, show, wait=Wait("mask_tests.working", blocks=_subject))
