"""The box for a file of pairs, and the command that aligns it."""

from collections.abc import Iterator

from explorer.exhibits import block as b
from explorer.exhibits.exhibit import Exhibit
from explorer.exhibits.needs import TRANSLATES
from explorer.exhibits.view import View
from explorer.runs.sentences import FILE_TYPES


def show(answer: None, view: View) -> Iterator[b.Block]:
    """The file becomes a choice of the session."""
    yield b.Prose(view.t("alignment.file_lead"))
    label = view.t("alignment.file_label", types=", ".join(FILE_TYPES))
    yield b.Upload("alignment.file", label, lambda file: b.choose(rows_file=file))
    yield b.Verbatim(f"headlight align --model {view.loaded.name} --data FILE.txt --out FILE.align")


EXHIBIT = Exhibit(None, show, TRANSLATES)
