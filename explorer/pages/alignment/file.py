"""A whole file aligned: pairs, or sentences that the model translates first."""

import hashlib

import streamlit as st

from explorer.analysis.alignment.aligned import Alignment, align_all
from explorer.engine import cache, jobs
from explorer.exhibits.escape import escape
from explorer.pages.alignment.choices import AlignmentChoices
from explorer.pages.alignment.opened import Opened, pick_aligner
from explorer.pages.alignment.takeaway import downloads
from explorer.pages.alignment.words import aligned_words
from explorer.problems import InputProblem
from explorer.runs.generation import StepsDone
from explorer.runs.sentences import FILE_TYPES, pairs_from_file
from explorer.ui import controls, running
from explorer.ui.problem import message
from explorer.ui.tables import table

JOB = "alignment.file.job"
Aligned = tuple[tuple[Alignment, ...], tuple[tuple[int, InputProblem], ...]]
SHOWN = 12
"""Most pairs listed on the page; the exported files have all."""


def whole_file(choice: Opened) -> None:
    """Draw this part of the page: the upload box, and the open sentence until there is a file."""
    view = choice.view
    st.markdown(view.t("alignment.file_lead"))
    given = st.file_uploader(
        view.t("alignment.file_label", types=", ".join(FILE_TYPES)),
        key="alignment.file",
        max_upload_size=1,
    )
    st.code(
        f"headlight align --model {view.loaded.name} --data FILE.txt --out FILE.align",
        language=None,
        wrap_lines=True,
    )
    if given is None:
        aligned_words(choice)
        return
    data = given.getvalue()
    pairs = pairs_from_file(given.name, data)
    pick_aligner(choice)
    method = view.choices(AlignmentChoices).symmetrise
    key = (
        *(hashlib.sha256(data).hexdigest(), view.loaded.name, choice.back, choice.name),
        *(method, choice.place),
    )

    def work(tell: StepsDone) -> Aligned:
        back = None if choice.back is None else cache.open_model(choice.back)
        step = jobs.whole(tell)
        return align_all(view.loaded, back, pairs, choice.aligner, method, step)

    done = running.awaited(JOB, key, work, view.t("alignment.file_working"), view.lang)
    if done is None:
        return
    found, refused = done
    links = sum(int(each.links.sum()) for each in found)
    controls.reading("file", view.t("alignment.file_reading", pairs=len(found), links=links))
    for number, problem in refused[:SHOWN]:
        why = message(problem, view.lang)
        st.warning(view.t("alignment.file_refused", number=number + 1, reason=why))
    downloads(view, list(found), "alignment-file")
    rows = [
        [str(number), escape(" ".join(each.src)), escape(" ".join(each.tgt)), each.moses or "–"]
        for number, each in enumerate(found[:SHOWN], 1)
    ]
    table(["", view.stream("src"), view.stream("tgt"), "Moses"], rows, "rlll")
