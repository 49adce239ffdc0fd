"""A whole file aligned: pairs, or sentences that the model translates first."""

from dataclasses import dataclass

from explorer.analysis.alignment.aligned import Alignment, align_all
from explorer.analysis.alignment.links import Method
from explorer.analysis.alignment.study import Study
from explorer.engine import cache
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.alignment import opened
from explorer.exhibits.alignment.opened import AlignmentView, Progress
from explorer.exhibits.escape import escape
from explorer.exhibits.needs import TRANSLATES
from explorer.exhibits.saying import message
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.sentences import pairs_from_file

SHOWN = 12
"""Most pairs listed on the page; the exported files have all."""


@dataclass(frozen=True, eq=False)
class Aligned:
    """The ranking of heads, the pairs of the file, and the refused ones by their index."""

    study: Study
    pairs: tuple[Alignment, ...]
    refused: tuple[tuple[int, InputProblem], ...]


def compute(
    loaded: LoadedModel,
    back: str | None,
    rows_file: tuple[str, bytes] | None,
    aligner: str,
    word_row: str,
    at: tuple[int, int],
    symmetrise: Method,
    progress: Progress,
) -> Aligned | None:
    """None until there is a file. Raises InputProblem."""
    if rows_file is None:
        return None
    pairs, study = pairs_from_file(*rows_file), opened.study(loaded.name, back, progress=progress)
    other = None if back is None else cache.open_model(back)
    weights = opened.chosen(study, aligner, word_row, at)[2]
    return Aligned(study, *align_all(loaded, other, pairs, weights, symmetrise, progress))


def show(found: Aligned | None, view: View) -> b.Blocks:
    """The links of the first pairs, and the files with all."""
    if found is None:
        return
    links = sum(int(each.links.sum()) for each in found.pairs)
    yield from opened.pick_aligner(AlignmentView(view, found.study))
    reading = view.t("alignment.file_reading", pairs=len(found.pairs), links=links)
    yield b.Sentence("file", reading)
    for number, problem in found.refused[:SHOWN]:
        why = message(problem, view.lang)
        words = view.t("alignment.file_refused", number=number + 1, reason=why)
        yield b.Hint(words, "info", warns=True)
    yield opened.downloads(found.pairs, "alignment-file")
    rows = [
        [str(number), escape(" ".join(each.src)), escape(" ".join(each.tgt)), each.moses or "–"]
        for number, each in enumerate(found.pairs[:SHOWN], 1)
    ]
    table = b.Table(["", view.stream("src"), view.stream("tgt"), "Moses"], rows, "rlll")
    yield b.Pane((table,), key="alignment-pairs")  # it scrolls, see page.css


EXHIBIT = Exhibit(
    compute,
    show,
    TRANSLATES,
    inputs={"back": opened.back_of, "at": opened.open_place},
    working="alignment.file_working",
)
