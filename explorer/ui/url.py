"""State <-> link: everything that decides a picture stands in the address, so a copied link is it.

Layers and heads count from 1 in a link, as they do on the screen. What a link says wrongly is
dropped and reported; the rest of the link still holds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from explorer.analysis.blocks.norms import NORMS
from explorer.analysis.cell.initial import INITS, Init
from explorer.analysis.cell.scaling import SCALINGS, Scaling
from explorer.analysis.heads.measures import HeadMeasure
from explorer.analysis.positions.changes import REMOVE, Change, format_change, parse_change
from explorer.analysis.positions.turning import LAYOUTS
from explorer.components import SCALES, Scale
from explorer.problems import InputProblem
from explorer.runs.edits import Edit, format_edits, parse_edits
from explorer.text import LANGUAGES
from explorer.ui.places import PARTS, PICTURES, Place, format_places, parse_place, parse_places
from models.decoding import Beam, Greedy, Sample

KINDS: tuple[str, ...] = ("encoder", "decoder", "cross")
MOST_PADS = 8
Strategy = Greedy | Beam | Sample
GREEDY = Greedy()
BEAM = Beam()
SAMPLE = Sample(seed=1)
MOST_NEW = 128
STREAMS: tuple[str, ...] = ("src", "tgt")
MOST_DIMS = 6
"""Dimensions of the table of positions whose waves are drawn at once."""
GAMMAS = (100, 250, 40, 100, 160, 100)
"""The gammas of the gradient on the Blocks page at first, in percent; unlike each other."""
FREE = -1
"""The row of a visitor who wants none lit."""
MEASURES: tuple[str, ...] = (*get_args(HeadMeasure), "needed")
"""What the heads can be measured by; the last is what is lost without a head."""
ASIDES: tuple[str, ...] = ("scaling", "initial", "split", "raw", "layouts", "groups", "dropout")
"""What the Cell page can show beside the steps; "" is none of it."""
STAGES: tuple[str, ...] = ("projection", "similarity", "scale", "softmax", "values")
"""The five steps of a cell."""
GUESSES: tuple[str, ...] = ("true", "false", "depends")
"""What a visitor can think of a claim, and what an experiment can say of it."""


@dataclass(frozen=True)
class State:
    """What the user chose. None means: not chosen, so the page picks something telling.

    Of the Heads page: `instead` is what stands open in place of the head ("none": nothing),
    `pins` what stands beside it, `measure` what its heads are measured by, `by_measure` their
    order, `scale` and `own_range` how weights become colours; a `row` of FREE is none.
    `beside` holds further sentences, one a line, that are compared and share a batch with `text`.
    `site` is a kind of attention; `layer`, `head`, `row` and `step` count from 0. `row` is the
    query whose row is read on the Heads page, `step` the decoding step. `target` None: the model
    translates by itself. `tested` (the masks have been put to the test) belongs to the
    Certificate, `case` to the Clinic. `part` is the part of a page that has several, `picture`
    what its picture shows; `base`, `width`, `length` and `dims` (of the table), `change` (of the
    positions of `stream`), `shuffle` (a seed), `layout` (of the pairs) and `story` (a long text)
    belong to the Positions page, `norm`, `depth` (layers), `final` (a norm behind the last) and
    `gamma` (in percent) to the Blocks page.
    Of the Cell page: `key` is the key whose cell is opened, `stage` the step of STAGES, `goal` the
    id of the token whose logit counts, `aside` what stands below, with its `scaling`, `init`,
    `kv_heads` and `drop` (percent of dropout). `claim` and `guess` belong to Claims, `sizes` to
    the Machine.
    Of the Decoding page: `fork` is how a second line must begin (token ids), `limit` the most new
    tokens, `beam` and `sample` what the tree draws beside the strategy, `lines` a training batch.
    """

    lang: str = "en"
    model: str = ""
    text: str | None = None
    target: str | None = None
    beside: str = ""
    site: str = "cross"
    layer: int | None = None
    head: int | None = None
    row: int | None = None
    step: int | None = None
    edits: tuple[Edit, ...] = ()
    pads: int | None = None
    instead: str = ""
    pins: tuple[Place, ...] = ()
    measure: str = ""
    by_measure: bool = False
    scale: Scale = "linear"
    own_range: bool = False
    strategy: Strategy = GREEDY
    base: int | None = None
    width: int | None = None
    length: int | None = None
    dims: tuple[int, ...] | None = None
    layout: str = ""
    part: str = ""
    picture: str = ""
    norm: str = ""
    change: Change = REMOVE
    stream: str = ""
    shuffle: int | None = None
    story: str | None = None
    depth: int | None = None
    final: bool = True
    gamma: tuple[int, ...] = GAMMAS
    tested: bool = False
    case: str = ""
    key: int | None = None
    stage: int = 0
    goal: int | None = None
    aside: str = ""
    scaling: Scaling = "head"
    init: Init = "ours"
    kv_heads: int | None = None
    drop: int = 50
    claim: str = ""
    guess: str = ""
    sizes: str = ""
    fork: tuple[int, ...] = ()
    limit: int = 64
    beam: Beam = BEAM
    sample: Sample = SAMPLE
    lines: str | None = None


class RefusedError(ValueError):
    """One value of a link cannot be used."""


def _one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise RefusedError(text)
        return text

    return parse


def _whole(low: int, high: int, shift: int = 0) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not low <= int(text[:9]) <= high:
            raise RefusedError(text)
        return int(text) - shift

    return parse


def _row(text: str) -> int:
    return FREE if text == "free" else _whole(0, 999)(text)


def _switch(text: str) -> bool:
    return bool(_whole(0, 1)(text))


def _instead(text: str) -> str:
    if text != "none" and not isinstance(parse_place(text), str):
        raise RefusedError(text)
    return text


def _gamma(text: str) -> tuple[int, ...]:
    parts = text.split("-")
    if len(parts) != len(GAMMAS):
        raise RefusedError(text)
    return tuple(_whole(0, 300)(part) for part in parts)


def _edits(text: str) -> tuple[Edit, ...]:
    try:
        return parse_edits(text)
    except InputProblem as problem:
        raise RefusedError(text) from problem


def format_strategy(strategy: Strategy) -> str:
    """`greedy`, `beam-4-0.6` or `sample-0.8-40-0.95-1` (temperature, top-k, top-p, seed)."""
    match strategy:
        case Beam(width=width, length_penalty=penalty):
            return f"beam-{width}-{penalty:g}"
        case Sample(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed):
            return f"sample-{temperature:g}-{top_k or 0}-{1.0 if top_p is None else top_p:g}-{seed}"
    return "greedy"


def parse_strategy(text: str) -> Strategy:
    """Read what `format_strategy` wrote. Raises ValueError for anything else."""
    match text.split("-"):
        case ["greedy"]:
            return Greedy()
        case ["beam", width, penalty] if 1 <= int(width) <= 8 and 0 <= float(penalty) <= 2:
            return Beam(width=int(width), length_penalty=float(penalty))
        case ["sample", temperature, top_k, top_p, seed] if (
            0 <= float(temperature) <= 3
            and 0 <= int(top_k) <= 100
            and 0 <= float(top_p) <= 1
            and 0 <= int(seed) <= 9999
        ):
            return Sample(
                temperature=float(temperature),
                top_k=int(top_k),
                top_p=float(top_p),
                seed=int(seed),
            )
    raise ValueError(f"no decoding strategy {text!r}")


def _only(kind: type[Strategy]) -> Callable[[str], Strategy]:
    def parse(text: str) -> Strategy:
        found = parse_strategy(text)
        if not isinstance(found, kind):
            raise RefusedError(text)
        return found

    return parse


def _dims(text: str) -> tuple[int, ...]:
    dims = () if text == "none" else tuple(_whole(0, 1023)(each) for each in text.split("."))
    if len(dims) > MOST_DIMS or len(set(dims)) < len(dims):
        raise RefusedError(text)
    return dims


def _tokens(text: str) -> tuple[int, ...]:
    return tuple(_whole(0, 999_999)(each) for each in text.split(".") if text)


_READ: dict[str, Callable[[str], Any]] = {
    "lang": _one_of(LANGUAGES),
    "model": str,
    "text": str,
    "target": str,
    "beside": str,
    "site": _one_of(KINDS),
    "layer": _whole(1, 999, shift=1),
    "head": _whole(1, 999, shift=1),
    "row": _row,
    "step": _whole(1, 999, shift=1),
    "edits": _edits,
    "pads": _whole(0, MOST_PADS),
    "instead": _instead,
    "pins": parse_places,
    "measure": _one_of(MEASURES),
    "by_measure": _switch,
    "scale": _one_of(SCALES),
    "own_range": _switch,
    "strategy": parse_strategy,
    "base": _whole(2, 1_000_000),
    "width": _whole(2, 1024),
    "length": _whole(16, 256),
    "dims": _dims,
    "layout": _one_of(LAYOUTS),
    "part": _one_of(tuple(part for parts in PARTS.values() for part in parts)),
    "picture": _one_of(tuple(name for names in PICTURES.values() for name in names)),
    "norm": _one_of(NORMS),
    "change": parse_change,
    "stream": _one_of(STREAMS),
    "shuffle": _whole(0, 9999),
    "story": str,
    "depth": _whole(1, 48),
    "final": _switch,
    "gamma": _gamma,
    "case": str,
    "key": _whole(0, 999),
    "stage": _whole(1, len(STAGES), shift=1),
    "goal": _whole(0, 999_999),
    "aside": _one_of(ASIDES),
    "scaling": _one_of(SCALINGS),
    "init": _one_of(INITS),
    "kv_heads": _whole(1, 999),
    "drop": _whole(0, 90),
    "claim": str,
    "guess": _one_of(GUESSES),
    "sizes": str,
    "fork": _tokens,
    "limit": _whole(0, MOST_NEW),
    "beam": _only(Beam),
    "sample": _only(Sample),
    "lines": str,
    "tested": lambda text: bool(_whole(0, 1)(text)),
}
_WRITE: dict[str, Callable[[Any], str]] = {
    "layer": lambda value: str(value + 1),
    "head": lambda value: str(value + 1),
    "step": lambda value: str(value + 1),
    "stage": lambda value: str(value + 1),
    "row": lambda value: "free" if value == FREE else str(value),
    "edits": format_edits,
    "dims": lambda value: ".".join(map(str, value)) or "none",
    "change": format_change,
    "final": lambda value: str(int(value)),
    "gamma": lambda value: "-".join(map(str, value)),
    "pins": format_places,
    "by_measure": lambda value: str(int(value)),
    "own_range": lambda value: str(int(value)),
    "strategy": format_strategy,
    "fork": lambda value: ".".join(map(str, value)),
    "beam": format_strategy,
    "sample": format_strategy,
    "tested": lambda value: str(int(value)),
}


def read(params: Mapping[str, str]) -> tuple[State, tuple[tuple[str, str], ...]]:
    """The state of a link, and what of it was refused as (name, value) pairs.

    Names that a link does not know are ignored: sites that pass links on add their own.
    """
    chosen: dict[str, Any] = {}
    refused: list[tuple[str, str]] = []
    for name, parse in _READ.items():
        if name in params:
            try:
                chosen[name] = parse(params[name])
            except ValueError:
                refused.append((name, params[name]))
    return State(**chosen), tuple(refused)


def write(state: State) -> dict[str, str]:
    """The state as the parameters of a link; what is as usual is left out, except the language."""
    usual = State()
    return {
        name: _WRITE.get(name, str)(value)
        for name in _READ
        if (value := getattr(state, name)) is not None
        and (name == "lang" or value != getattr(usual, name))
    }
