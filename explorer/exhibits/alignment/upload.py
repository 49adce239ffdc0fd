"""The box for a file of pairs, and the command that aligns it."""

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.needs import TRANSLATES
from explorer.runs.sentences import FILE_TYPES


def show(answer: None, view: View) -> b.Blocks:
    """The file becomes a choice of the session."""
    yield b.Prose(view.t("alignment.file_lead"))
    label = view.t("alignment.file_label", types=", ".join(FILE_TYPES))
    yield b.Upload("alignment.file", label, lambda file: b.choose(rows_file=file))
    yield b.Verbatim(f"headlight align --model {view.loaded.name} --data FILE.txt --out FILE.align")


EXHIBIT = Exhibit(None, show, TRANSLATES)
