"""Path patching: the effect of one head on another through the latter's query, key or value."""

from explorer.analysis.patching.maps import DRAWS, Cell, Map, parts_of, patches_of
from explorer.analysis.patching.pair import Pair
from explorer.analysis.patching.patches import Patch, activations, gaps
from explorer.analysis.patching.paths import Into, Paths, arriving, senders, site_of
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.patching.choices import PatchingChoices
from explorer.exhibits.patching.map import Mapped, against_chance, chance, shared
from explorer.exhibits.patching.names import cell_words, head_words, map_picture, said
from explorer.exhibits.patching.receiver import receivers_in
from explorer.exhibits.saying import in_a_row
from explorer.library import LoadedModel
from explorer.numbers import fixed
from explorer.runs.passes import Steps


def _words(loaded: LoadedModel, pair: Pair) -> list[Patch]:
    """Patches that replace the second text's embeddings with the first text's."""
    hooks = {stack.stream: stack.hook("embed") for stack in loaded.stacks}
    seen = activations(loaded, pair, hooks.values())
    return [
        Patch(hook, ([b for _, b in places],), seen[hook][[a for a, _ in places]])
        for stream, hook in hooks.items()
        for places in (pair.places[stream],)
    ]


def path_map(loaded: LoadedModel, pair: Pair, receiver: Cell, into: Into) -> Steps[Paths]:
    """Every path from one head to an input of the receiver, with misplaced senders as control.

    Raises KeyError for an unknown receiver.
    """
    site = site_of(loaded, receiver)
    leading = {(sender.role, sender.layer) for sender in senders(loaded, site, into)}
    drawn = [
        {cell: patch for cell, patch in patches.items() if cell[:2] in leading}
        for patches in patches_of(loaded, pair, "z", (None, *range(DRAWS)))
    ]
    sent = list(dict.fromkeys(patch for patches in drawn for patch in patches.values()))
    rows = [*([patch] for patch in sent), _words(loaded, pair)]
    arrived = arriving(loaded, pair, site, receiver[2], into, rows)
    whole = patches_of(loaded, pair, into)[0][receiver]
    rows = [[patch] for patch in (*arrived, whole)]
    *shares, words, everything = pair.recovered((yield from gaps(loaded, pair, rows))).tolist()
    share = dict(zip(sent, shares, strict=True))
    # All senders at once are not asked for.
    heads = Map("z", parts_of(loaded, pair, "z", drawn, share), float("nan"))
    return Paths(pair, receiver, into, heads, words, everything)


def compute(
    loaded: LoadedModel, receiver: Mapped | None, chosen: Cell | None, into_head: Into
) -> Steps[Paths | None]:
    """Every path into one input of the chosen head, or of the one whose output recovers most; None
    if there is none."""
    if receiver is None or receiver.found is None:
        return None
    cells = receivers_in(loaded, receiver.found, into_head)
    if not cells:
        return None
    head = chosen if chosen is not None and chosen in cells else cells[0]
    return (yield from path_map(loaded, receiver.both, head, into_head))


def show(paths: Paths | None, view: View) -> b.Blocks:
    """A map of the senders, its reading and its control."""
    if paths is None:
        return
    sender = sender_in(paths, view.choices(PatchingChoices).sender)
    chart = map_picture(view, paths.pair, paths.heads, sender, "patching.senders", "sender")
    yield b.Hero((b.Sentence("patching-paths", _reading(view, paths)), chart))
    yield from shared(view, paths.into)
    yield chance(view, paths.heads)
    yield b.Formula.of(
        view.t("patching.paths_formula"),
        r"z'_h = z^{(1)}_h, \quad z'_{h'} = z^{(2)}_{h'} \ (h' \ne h) \quad\Rightarrow\quad "
        + rf"{paths.into}'_r \quad\Rightarrow\quad "
        + rf"\text{{recovered}}({paths.into}_r := {paths.into}'_r)",
    )
    yield b.Code((path_map, arriving))
    yield b.Numbers(lambda: _numbers(view, paths))


def sender_in(paths: Paths, chosen: Cell | None) -> Cell:
    """The chosen sender, if a path leads from it, else the best."""
    return chosen if chosen in paths.heads.patched else paths.heads.best()


def input_words(view: View, into: Into) -> str:
    """The name of a head's input, for use in a sentence."""
    words = view.t(f"patching.whats.{into}")
    return words[0].lower() + words[1:]


def _reading(view: View, paths: Paths) -> str:
    whole = view.t(
        "patching.paths_read",
        into=input_words(view, paths.into),
        receiver=head_words(view, paths.receiver),
        everything=said(paths.everything),
        words=said(paths.words),
    )
    whole, best = whole[0].upper() + whole[1:], paths.heads.best()
    if best not in paths.heads.patched:
        return whole
    effect = paths.heads.patched[best]
    words = view.t("patching.paths_best", sender=head_words(view, best), effect=said(effect))
    return in_a_row([whole, words, against_chance(view, paths.heads, effect)])


def _numbers(view: View, paths: Paths) -> dict[str, list[object]]:
    names = [cell_words(view, paths.pair, "z", cell) for cell in paths.heads.patched]
    whole = view.t("patching.words"), view.t("patching.everything")
    shares = *paths.heads.patched.values(), paths.words, paths.everything
    return {
        view.t("patching.sender"): [*names, *whole],
        view.t("patching.recovered"): [fixed(share, 4) for share in shares],
    }


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={"chosen": lambda view: view.choices(PatchingChoices).receiver},
    wait=Wait("patching.working", after="patching.receiver"),
)
