"""Names of patches, maps of them, and the tables of a patched run."""

from explorer.analysis.patching.maps import BY_HEAD, Cell, Map, What
from explorer.analysis.patching.pair import Pair
from explorer.analysis.patching.patched import PatchedRun
from explorer.components.mount import Index
from explorer.exhibits import View, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.saying import quoted, quoted_at
from explorer.figures.maps import EffectBlock, effects
from explorer.numbers import percent, whole_percent
from models.rows import Stream


def said(share: float) -> str:
    """Format a recovered share, which may be negative: −12 %."""
    return whole_percent(round(share, 2) + 0.0).replace("-", "−")


def part_name(view: View, name: str) -> str:
    """The name of a part of a map."""
    return view.stream(name) if name in ("src", "tgt") else view.t("kinds", name)


def row_name(view: View, what: What, row: int) -> str:
    """The name of a row of a map: the residual stream after a layer, or a layer."""
    if what != "resid":
        return view.t("patching.in_layer", layer=row + 1)
    return view.t("patching.embedding" if row == 0 else "patching.after_layer", layer=row)


def column_labels(both: Pair, stream: Stream) -> list[str]:
    """The tokens of the patched text; where the other text differs, its token comes first."""
    theirs, own = both.str_tokens[stream]
    source = {b: theirs[a] for a, b in both.places[stream]}
    return [
        token if source.get(at, token) == token else f"{source[at]}→{token}"
        for at, token in enumerate(own)
    ]


def stream_of(name: str) -> Stream:
    """The stream of a part of a map by position."""
    return "src" if name == "src" else "tgt"


def head_words(view: View, cell: Cell) -> str:
    """The name of a head, for use in a sentence."""
    kind = view.t("kinds", cell[0])
    kind = kind[0].lower() + kind[1:]
    return view.t("patching.head_words", kind=kind, layer=cell[1] + 1, head=cell[2] + 1)


def cell_words(view: View, both: Pair, what: What, cell: Cell) -> str:
    """The name of a cell of a map."""
    name, row, column = cell
    whats = view.t("patching.whats", what)
    if what in BY_HEAD:
        return view.t("patching.cell_head", what=whats, head=head_words(view, cell))
    return view.t(
        "patching.cell_place",
        what=whats,
        stream=part_name(view, name),
        row=row_name(view, what, row),
        word=quoted_at(view, column_labels(both, stream_of(name)), column),
    )


def run_shown(view: View, patched_run: PatchedRun) -> b.Blocks:
    """Whether a patched run predicts neither of the two answers, and its probabilities and output,
    compared with the two original runs."""
    if (third := patched_run.third) is not None:
        token, share = quoted(view, third.str_token), percent(third.probs[2])
        yield b.Prose(view.t("patching.third", token=token, share=share))
    names = [*map(view.t, ("patching.run_first", "patching.run_second", "patching.run_patched"))]
    rows = [
        (escape(answer.str_token), *map(percent, answer.probs)) for answer in patched_run.answers
    ]
    texts = [escape(text) or "–" for text in patched_run.texts]
    rows.append((view.t("patching.writes"), *texts))
    yield b.Table((view.t("patching.token"), *names), rows, "llll")  # the texts may wrap


def _blocks(view: View, both: Pair, mapped: Map) -> list[EffectBlock]:
    """A map as the blocks of `figures.maps`."""
    blocks = []
    for part in mapped.parts:
        stream = None if mapped.what in BY_HEAD else stream_of(part.name)
        begins = 0 if mapped.what == "resid" else 1
        rows = [str(begins + row) for row in range(len(part.effects))]
        columns = None if stream is None else column_labels(both, stream)
        blocks.append(EffectBlock(part_name(view, part.name), part.effects, rows, columns, stream))
    return blocks


def map_picture(view: View, both: Pair, mapped: Map, shown: Cell) -> b.Matrices:
    """A map with one cell outlined; a click opens another cell."""
    parts = [part.name for part in mapped.parts]
    drawn = effects(
        _blocks(view, both, mapped),
        selected=(parts.index(shown[0]), *shown[1:]),
        rows_title=view.t("patching.rows" if mapped.what == "resid" else "place.layer"),
        words=view.words("figures.maps"),
    )

    def look(cell: Index) -> b.Change | None:
        place = (parts[cell[0]], cell[1], cell[2])
        return b.choose(cell=place) if place in mapped.cells else None

    return b.Matrices("patching.map", drawn, mapped.what in BY_HEAD, look)
