"""Certificate: behavioural tests of the model's masks."""

import json
from collections.abc import Sequence

import numpy as np
import streamlit as st

from explorer.analysis.certificate.certify import MAX_PROBED, Certificate, Finding
from explorer.analysis.certificate.examiner import Examiner, Location
from explorer.analysis.certificate.probe import Probe
from explorer.components import mask_matrix
from explorer.engine import jobs
from explorer.engine.cache import Run
from explorer.exhibits.escape import escape
from explorer.exhibits.view import View
from explorer.exports.report import report_lines, report_record
from explorer.numbers import number
from explorer.pages.certificate import cached
from explorer.pages.certificate.choices import CertificateChoices
from explorer.runs.edits import Edit, about_masks
from explorer.runs.generation import StepsDone
from explorer.ui import controls, running, session
from explorer.ui.page import draw_page
from explorer.ui.share import file_name

PADDINGS = ("padding_right", "padding_left", "padding_batch")
"""Promises that share one test, each with padding at another position."""


def render(view: View) -> None:
    """Draw the page."""
    draw_page(view, "certificate", _drawn)


def _drawn(view: View) -> None:
    """Draw the page below its introduction."""
    controls.sentence_line(view)
    _subject(view)
    edits = tuple(edit for edit in view.trace.edits if about_masks(edit))
    run = Run(view.loaded.name, view.text, view.target, edits)
    names = cached.promises(run)
    if not view.choices(CertificateChoices).tested:
        _offer(view, names)
        _left_out(view, run)
        return
    certificate = _run(view, run, names)
    if certificate is None:
        return
    _verdict(view, certificate)
    _findings(view, certificate)
    _left_out(view, run)
    _reach(view, certificate)
    _download(view, certificate, edits)
    controls.small_print(
        view,
        "certificate",
        formula=(
            r"\text{deviation} = \frac{\max|x' - x|}{\max(1,\ \max|x|)} \le 10^{-8}",
            r"\text{weights}:\qquad v_j = e_j \ \Rightarrow\ z_i = \sum_j a_{ij}\, e_j",
        ),
        code=_code(certificate),
        numbers=lambda: _numbers(view, certificate),
    )


def _code(certificate: Certificate) -> list[object]:
    """The code of the tests that ran, broken promises first."""
    tested = [*certificate.broken, *(each for each in certificate.findings if each.passed)]
    checks: dict[str, object] = {
        each.name: getattr(Examiner, "padding" if each.name in PADDINGS else each.name)
        for each in tested
    }
    return [*dict.fromkeys(checks.values()), Probe.weights]


def _subject(view: View) -> None:
    """A note that the model is tested with the user's edits, if there are any."""
    named = [
        f"**{controls.name_edit(view, edit)}**" for edit in view.trace.edits if about_masks(edit)
    ]
    if not named:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(view.t("certificate.edited", edits=" · ".join(named)))
        st.button(
            view.t("edits.reset"),
            key="certificate.reset",
            on_click=lambda: session.change(edits=()),
        )


def _offer(view: View, names: tuple[str, ...]) -> None:
    """Before the tests: the list of tests and the button to start."""
    st.button(
        view.t("certificate.run", count=len(names)),
        key="certificate.run",
        type="primary",
        icon=":material/verified:",
        on_click=lambda: session.change(tested=True),
    )
    for name, column in zip(names, _two_columns(names), strict=True):
        with column:
            st.markdown(
                f":gray[:material/radio_button_unchecked:] {view.t(f'certify.{name}.title')}"
            )


def _left_out(view: View, run: Run) -> None:
    """The promises that are not tested, to explain the number of tests."""
    for name, why in cached.left_out(run).items():
        words = view.t("certify.untested", promise=view.t(f"certify.{name}.title"))
        st.caption(f"{words} {view.t(f'certify.untested_{why}')}")


def _run(view: View, run: Run, names: Sequence[str]) -> Certificate | None:
    """The certificate; None while computing or after a stop."""

    def work(tell: StepsDone) -> Certificate:
        step = jobs.whole(tell)
        return cached.certificate(run, progress=lambda done, name: step(done, len(names)))

    return running.awaited("certificate.job", run, work, view.t("certificate.working"), view.lang)


def _verdict(view: View, certificate: Certificate) -> None:
    count, broken = len(certificate.findings), len(certificate.broken)
    largest = number(certificate.largest)
    if broken:
        words = view.t("certificate.broken", count=count, broken=broken, largest=largest)
        controls.reading("certificate", f":red[:material/cancel:] {words}")
    else:
        words = view.t("certificate.kept", count=count, largest=largest)
        controls.reading("certificate", f":material/verified: {words}")
    # Position tables are float32 in any model, so their finding has its own tolerance.
    tolerance = max(each.tolerance for each in certificate.findings if each.name != "positions")
    values = {"tolerance": number(tolerance), "limit": MAX_PROBED}
    st.caption(view.t("certificate.honest", **values))


def _findings(view: View, certificate: Certificate) -> None:
    """Broken promises in full, then kept ones in two columns."""
    for finding in certificate.broken:
        with st.container(border=True):
            _broken(view, certificate, finding)
    kept = [finding for finding in certificate.findings if finding.passed]
    for finding, column in zip(kept, _two_columns(kept), strict=True):
        with column:
            st.markdown(
                f":material/check_circle: {view.t(finding.title_key)}  \n"
                f":small[:gray[{_measured(view, finding)}]]",
                help=view.t(finding.meaning_key),
            )


def _two_columns(items: Sequence[object]) -> list[st.delta_generator.DeltaGenerator]:
    """The column for each item, filled left to right, then down."""
    left, right = st.columns(2, gap="large")
    return [right if index % 2 else left for index in range(len(items))]


def _broken(view: View, certificate: Certificate, finding: Finding) -> None:
    st.markdown(f":red[:material/cancel:] **{view.t(finding.title_key)}**")
    if finding.error:
        st.markdown(view.t("certify.error", error=escape(finding.error)))
        return
    st.markdown(view.t(finding.meaning_key))
    words = _measured(view, finding)
    if finding.where is not None:
        words = f"{words} · {_place(view, certificate, finding.where)}"
    st.caption(words)


def _measured(view: View, finding: Finding) -> str:
    if finding.deviation == 0:
        return view.t("certificate.exact")
    return view.t(
        "certify.deviation",
        deviation=number(finding.deviation),
        tolerance=number(finding.tolerance),
    )


def _place(view: View, certificate: Certificate, place: Location) -> str:
    """The place of a deviation: site, layer and head, and the tokens of query and key."""
    site = next((site for site in view.trace.sites if site.name == place.name), None)
    if site is not None:
        words = [
            view.t(f"kinds.{site.role}"),
            view.t("certificate.at_layer", layer=site.layer + 1),
        ]
    elif place.layer is not None:
        words = [view.t(f"certificate.behind_{place.stack}", layer=place.layer + 1)]
    elif place.stack:
        words = [view.t("certificate.added")]
    else:
        words = [view.t("certificate.logits")]
    if place.head is not None:
        words.append(view.t("certify.at_head", index=place.head + 1))
    # At the logits, after the last block, no stack is named.
    behind = next((each.stream for each in view.trace.stacks if each.role == place.stack), "tgt")
    stream = site.query_stream if site else behind
    if place.query is not None:
        token = _token(view, certificate, stream, place.query - place.left)
        words.append(view.t("certificate.query", token=token))
    if place.key is not None and site is not None:
        token = _token(view, certificate, site.key_stream, place.key - place.left)
        words.append(view.t("certificate.key", token=token))
    elif place.key is not None:
        words.append(view.t("certificate.changed_at", index=place.key + 1))
    if place.left:
        words.append(view.t("certify.at_left", left=place.left))
    return " · ".join(words)


def _token(view: View, certificate: Certificate, stream: str, index: int) -> str:
    """A token of the sentence in quotation marks; a position outside of it is padding."""
    tokens = _tokens(view, certificate, stream)
    if not 0 <= index < len(tokens) or tokens[index] == tokens[-1]:
        return controls.quoted(view, tokens[-1])
    return controls.quoted_at(view, tokens, index)


def _tokens(view: View, certificate: Certificate, stream: str) -> list[str]:
    ids = certificate.src_tokens if stream == "src" else certificate.tgt_tokens
    return view.loaded.str_tokens(ids)


def _reach(view: View, certificate: Certificate) -> None:
    """Which positions a changed token affects: the masks as observed from the model's behaviour."""
    st.markdown(view.t("certificate.reach"))
    streams = {"encoder": ("src", "src"), "decoder": ("tgt", "tgt"), "cross": ("tgt", "src")}
    shown = [name for name in streams if name in certificate.reach]
    for name, column in zip(shown, st.columns(max(len(shown), 1), gap="medium"), strict=False):
        query, key = streams[name]
        reached = certificate.reach[name]
        with column:
            title = view.t(f"certify.reach_{name}")
            st.caption(title)
            mask_matrix(
                reached,
                (~reached).astype(np.uint8),
                title=title.rstrip(":："),
                rules=[view.t("certificate.never")],
                query_tokens=_tokens(view, certificate, query),
                key_tokens=_tokens(view, certificate, key),
                query_title=view.t("certificate.moved", stream=view.stream(query)),
                key_title=view.t("certificate.changed", stream=view.stream(key)),
                query_stream="src" if query == "src" else "tgt",
                key_stream="src" if key == "src" else "tgt",
                words=view.words("components.reach"),
                key=f"certificate.reach.{name}",
            )


def _download(view: View, certificate: Certificate, edits: Sequence[Edit]) -> None:
    name, text = view.loaded.name, view.text
    lines = "\n".join(report_lines(certificate, name, text, view.lang, edits)) + "\n"
    record = json.dumps(report_record(certificate, name, text, edits), ensure_ascii=False, indent=2)
    with st.container(horizontal=True):
        st.download_button(
            view.t("certificate.as_text"),
            lines,
            file_name(view, "certificate", "txt"),
            key="certificate.text",
            on_click="ignore",
            icon=":material/download:",
        )
        st.download_button(
            view.t("certificate.as_json"),
            record,
            file_name(view, "certificate", "json"),
            key="certificate.json",
            on_click="ignore",
            icon=":material/download:",
        )


def _numbers(view: View, certificate: Certificate) -> dict[str, list[object]]:
    findings = certificate.findings
    return {
        view.t("certificate.promise"): [view.t(finding.title_key) for finding in findings],
        view.t("certificate.result"): [
            view.t("certify.kept" if finding.passed else "certify.broken") for finding in findings
        ],
        view.t("certificate.deviation"): [f"{finding.deviation:.3g}" for finding in findings],
        view.t("certificate.tolerance"): [f"{finding.tolerance:.0e}" for finding in findings],
    }
