"""A whole file aligned: pairs, or sentences that the model translates first."""

import hashlib

import streamlit as st

from explorer.analysis.alignment.aligned import Alignment, align_pairs, completed
from explorer.analysis.alignment.reading import Pair
from explorer.pages.alignment.choices import AlignmentChoices
from explorer.pages.alignment.opened import Opened, pick_aligner
from explorer.pages.alignment.takeaway import downloads
from explorer.pages.alignment.words import aligned_words
from explorer.runs.generation import StepsDone
from explorer.runs.sentences import FILE_TYPES, pairs_from_file
from explorer.ui import cache, controls
from explorer.ui.escape import escape
from explorer.ui.tables import table
from explorer.ui.work import running

JOB = "alignment.file.job"
SHOWN = 12
"""Pairs whose links are listed on the page; the files have all."""


def whole_file(choice: Opened) -> None:
    """The part: below a file's box the open sentence, until there is a file."""
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

    def work(tell: StepsDone) -> tuple[Alignment, ...]:
        return _aligned(choice, pairs, tell)

    found = running.awaited(JOB, key, work, view.t("alignment.file_working"), view.lang)
    if found is None:
        return
    links = sum(int(each.links.sum()) for each in found)
    controls.reading("file", view.t("alignment.file_reading", pairs=len(found), links=links))
    downloads(view, list(found), "alignment-file")
    rows = [
        [str(number), escape(" ".join(each.src)), escape(" ".join(each.tgt)), each.moses or "–"]
        for number, each in enumerate(found[:SHOWN], 1)
    ]
    table(["", view.stream("src"), view.stream("tgt"), "Moses"], rows, "rlll")


def _aligned(choice: Opened, pairs: tuple[Pair, ...], tell: StepsDone) -> tuple[Alignment, ...]:
    """Every pair of the file; not kept for others, since it is one visitor's own text."""
    view, step = choice.view, running.whole(tell)
    loaded = view.loaded
    back = None if choice.back is None else cache.open_model(choice.back)
    whole = completed(loaded, pairs, step)
    method = view.choices(AlignmentChoices).symmetrise
    return align_pairs(loaded, back, whole, choice.aligner, method, step)
