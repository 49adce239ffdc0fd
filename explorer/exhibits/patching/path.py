"""The run in which one path is patched."""

from explorer.analysis.patching.maps import Cell
from explorer.analysis.patching.patched import PatchedRun, patched_run
from explorer.analysis.patching.paths import Into, run_path
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.patching.names import head_words, run_tables, said, third_words
from explorer.exhibits.patching.receiver import into_of, receiver_of
from explorer.exhibits.patching.second import Asked, asked_of, two
from explorer.exhibits.patching.senders import input_words, sender_of
from explorer.exhibits.saying import in_a_row
from explorer.library import LoadedModel


def compute(
    loaded: LoadedModel, asked: Asked, receiver: Cell | None, into: Into, sender: Cell | None
) -> PatchedRun | None:
    """None without a sender or a receiver."""
    both = two(asked).differ
    if both is None or receiver is None or sender is None:
        return None
    return run_path(loaded, both, receiver, into, sender)


def show(found: PatchedRun | None, view: View) -> b.Blocks:
    """Its probabilities and its output."""
    if found is None:
        return
    receiver, sender = receiver_of(view), sender_of(view)
    assert receiver is not None
    assert sender is not None
    yield b.Title(view.t("patching.run_title"), large=True)
    heads = {"sender": head_words(view, sender), "receiver": head_words(view, receiver)}
    into = input_words(view, into_of(view))
    words = view.t("patching.path_reading", **heads, into=into, effect=said(found.effect))
    yield b.Prose(in_a_row([words, third_words(view, found)]))
    yield run_tables(view, found)
    yield b.Code((patched_run,))


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={"asked": asked_of, "receiver": receiver_of, "into": into_of, "sender": sender_of},
    wait=Wait(after="patching.senders"),
)
