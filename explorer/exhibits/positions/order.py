"""Shuffled words: are the vectors merely permuted, or does the model use the order?"""

from functools import partial

from explorer.analysis.positions.changes import position_functions
from explorer.analysis.positions.order import Moved, moved, shuffled_order
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.exhibit import TEXTS
from explorer.exhibits.picking import pick_stream
from explorer.exhibits.positions.choices import PositionsChoices
from explorer.exhibits.positions.opening import positions_at, positions_said
from explorer.figures.bars import WIDE, grouped
from explorer.library import LoadedModel, list_models
from explorer.numbers import share
from explorer.runs.trace import Trace
from models.rows import Stream

TWIN = "twin-no-positions"
ROUNDING = 1e-4
"""Largest mean relative change of vectors that counts as rounding."""


def compute(
    loaded: LoadedModel, trace: Trace, stream: Stream, shuffle: int | None
) -> tuple[list[str], tuple[Moved, ...]] | None:
    """A shuffled sequence, and the change of its vectors; None if there is only one order."""
    src = stream == "src"
    tokens = trace.src_str_tokens if src else trace.tgt_str_tokens
    n_real = int((trace.src_valid if src else trace.tgt_valid).sum())
    order = shuffled_order(loaded, tokens, n_real, stream, 1 if shuffle is None else shuffle)
    shuffled = [tokens[place] for place in order]
    if shuffled == list(tokens):
        return None
    return shuffled, moved(loaded, trace, stream, order)


def show(answer: tuple[list[str], tuple[Moved, ...]] | None, view: View) -> b.Blocks:
    """The words in another order, and the change of each vector."""
    yield b.SentenceLine()
    yield b.Changes("positions.reset")
    seed = view.choices(PositionsChoices).shuffle
    again = b.choose(shuffle=(2 if seed is None else seed + 1) % 10_000)
    controls: list[b.Block] = [*pick_stream(view, "positions.stream.order")]
    controls.append(b.Button("positions.shuffle", view.t("positions.shuffle"), again, "shuffle"))
    if TWIN in list_models() and view.loaded.name != TWIN and TEXTS.met(view.loaded):
        twin = b.choose(
            visit="positions", model=TWIN, text="Tom loves Mary.", target=None, edits=()
        )
        label = view.t("positions.open_twin")
        controls.append(b.Button("positions.open_twin", label, twin, "arrow_forward", kind="quiet"))
    if answer is None:
        yield b.Hero((b.Row(controls), b.Hint(view.t("positions.one_word"))))
        return
    new, changes = answer
    draw = partial(
        grouped,
        new,
        [100 * change.distances[-1] for change in changes],
        [view.t("positions.settings", change.setting) for change in changes],
        title=view.t("positions.moved"),
        label_title=view.t("positions.shuffled"),
        stream=view.sequence,
        streams=(view.sequence,),
        unit=" %",
        height=500,
        room=WIDE,
    )
    chart = b.Chart("positions.moved", draw, view.t("positions.moved"))
    yield b.Hero((b.Sentence("order", _said(view, changes)), b.Row(controls), chart))
    yield b.Formula.of(
        f"{positions_said(view)}\n\n{view.t('positions.order_formula')}",
        r"\text{moved}_i = \frac{\lVert f(x_\pi)_i - f(x)_{\pi(i)} \rVert}"
        r"{\lVert f(x)_{\pi(i)} \rVert}, \qquad f(x_\pi) = f(x)_\pi\ \text{without positions}",
    )
    yield b.Code((moved, *positions_at(view, view.sequence), position_functions, shuffled_order))
    yield b.Numbers(lambda: _numbers(view, new, changes))


def _said(view: View, moves: tuple[Moved, ...]) -> str:
    changes = [f"{view.t('positions.settings', of.setting)} **{share(of.mean)}**" for of in moves]
    return view.t("positions.read_order", changes=view.t("heads.and").join(changes))


def _numbers(view: View, tokens: list[str], moves: tuple[Moved, ...]) -> dict[str, list[object]]:
    columns: dict[str, list[object]] = {
        view.t("place.query"): [f"{place} {token}" for place, token in enumerate(tokens)]
    }
    for change in moves:
        name = view.t("positions.settings", change.setting)
        columns[name] = [f"{distance:.3g}" for distance in change.distances[-1]]
    return columns


EXHIBIT = Exhibit(compute, show)
