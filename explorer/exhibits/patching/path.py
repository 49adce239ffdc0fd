"""The run in which one path is patched."""

from explorer.analysis.patching.maps import Cell
from explorer.analysis.patching.patched import PatchedRun, patched_run
from explorer.analysis.patching.paths import Paths, run_path
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.patching.names import head_words, run_shown, said
from explorer.exhibits.patching.senders import input_words, sender_in
from explorer.library import LoadedModel

Path = tuple[Paths, Cell, PatchedRun]
"""All paths into the receiver, the sender of the patched one, and its run."""


def compute(loaded: LoadedModel, senders: Paths | None, sender: Cell | None) -> Path | None:
    """None without a sender or a receiver."""
    if senders is None:
        return None
    shown = sender_in(senders, sender)
    if shown not in senders.heads.patched:
        return None
    run = run_path(loaded, senders.pair, senders.receiver, senders.into, shown)
    return senders, shown, run


def show(path: Path | None, view: View) -> b.Blocks:
    """Its probabilities and its output."""
    if path is None:
        return
    paths, sender, run = path
    yield b.Title(view.t("patching.run_title"), large=True)
    heads = {"sender": head_words(view, sender), "receiver": head_words(view, paths.receiver)}
    into = input_words(view, paths.into)
    words = view.t("patching.path_reading", **heads, into=into, effect=said(run.effect))
    yield from run_shown(view, words, run)
    yield b.Code((patched_run,))


EXHIBIT = Exhibit(compute, show, wait=Wait(after="patching.senders"))
