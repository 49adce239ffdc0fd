"""The open head's QK and OV circuits over the vocabulary: the largest cells."""

from functools import partial

import numpy as np

from explorer.analysis.circuits.rows import ordinary, own_sites
from explorer.analysis.circuits.vocabulary import MAPS, Map, VocabularyMap, vocabulary_map
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.circuits.choices import CircuitsChoices
from explorer.exhibits.circuits.measured import behaviour, chosen_head, open_head, scope
from explorer.exhibits.picking import pick_one
from explorer.exhibits.saying import head_name, in_a_row, quoted
from explorer.figures.bars import measured
from explorer.library import LoadedModel
from explorer.numbers import fixed, percent, percents
from explorer.runs.passes import Steps

DRAWN = 20
Head = tuple[int, int]


def _kinds(view: View) -> tuple[Map, ...]:
    return MAPS if view.loaded.config.lm_head else ("qk",)


def _kind(view: View) -> Map:
    asked, kinds = view.choices(CircuitsChoices).head_map, _kinds(view)
    return asked if asked in kinds else kinds[0]


def compute(loaded: LoadedModel, at: Head | None, kind: Map) -> Steps[tuple[Head, VocabularyMap]]:
    """A head of self-attention, by default the best induction head, and its map."""
    layer, head = at or behaviour(loaded.name).best("induction")
    cells = yield from vocabulary_map(loaded, own_sites(loaded)[layer], head, kind)
    return (layer, head), cells


def show(answer: tuple[Head, VocabularyMap], view: View) -> b.Blocks:
    """The largest cells of the map."""
    yield from scope(view)
    at, token_map = answer
    yield b.Hero((b.Sentence("vocabulary", _reading(view, token_map, at)), _bars(view, token_map)))
    name = "circuits.head_map"
    kinds = pick_one(view, name, _kinds(view), token_map.kind, said="circuits.maps.")
    yield b.Row((kinds, _pick_head(view, at)))
    yield b.Note(view.t("circuits.map_note", tokens=f"{token_map.n_tokens:,}"))
    if token_map.left_out:
        yield b.Note(view.t("circuits.left_out", count=token_map.left_out))
    lines = {
        "qk": rf"\mathrm{{QK}} = E\,W_Q\,W_K^\top E^\top / {view.latex_divisor}",
        "ov": r"\mathrm{OV} = E\,W_V\,W_O\,U^\top",
    }
    yield b.Formula((lines[token_map.kind],), view.t("circuits.map_formula"))
    yield b.Code((vocabulary_map, ordinary))
    yield b.Numbers(lambda: _numbers(view, token_map))


def _pick_head(view: View, at: Head) -> b.Pick:
    """A head of self-attention."""
    sites, name = own_sites(view.loaded), partial(head_name, view)
    heads = [(site.layer, head) for site in sites for head in range(site.n_heads)]
    more = b.More(said=name, change=partial(open_head, view), form="menu", width=200)
    return pick_one(view, "circuits.head", heads, at, label="place.head", **more)


def _labels(view: View, mapping: VocabularyMap, count: int) -> list[tuple[str, str]]:
    shown = view.loaded.str_tokens
    return [(shown([row])[0], shown([column])[0]) for row, column, _ in mapping.pairs[:count]]


def _reading(view: View, mapping: VocabularyMap, at: tuple[int, int]) -> str:
    row, column = _labels(view, mapping, 1)[0]
    sentences = [
        view.t(
            f"circuits.{mapping.kind}_reading",
            place=head_name(view, at),
            row=quoted(view, row),
            column=quoted(view, column),
            value=fixed(mapping.pairs[0][2], 1),
            own=percent(mapping.own),
            guess=str(percents(np.array([mapping.guess]))[0]),
        )
    ]
    if not np.isnan(mapping.copying):
        sentences.append(view.t("circuits.copying", value=fixed(mapping.copying)))
    return in_a_row(sentences)


def _bars(view: View, mapping: VocabularyMap) -> b.Chart:
    labels = _labels(view, mapping, DRAWN)
    draw = partial(
        measured,
        [f"{row} → {column}" for row, column in labels],
        np.array([value for *_, value in mapping.pairs[:DRAWN]]),
        title=view.t(f"circuits.{mapping.kind}_value"),
    )
    return b.Chart("circuits.pairs", draw, view.t("circuits.pairs_alt"))


def _numbers(view: View, mapping: VocabularyMap) -> dict[str, list[object]]:
    labels = _labels(view, mapping, len(mapping.pairs))
    return {
        view.t(f"circuits.{mapping.kind}_row"): [row for row, _ in labels],
        view.t(f"circuits.{mapping.kind}_column"): [column for _, column in labels],
        view.t(f"circuits.{mapping.kind}_value"): [f"{value:.2f}" for *_, value in mapping.pairs],
    }


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={"at": chosen_head, "kind": _kind},
    wait=Wait("circuits.map_working", blocks=scope),
)
