"""The logit lens: predictions after each sublayer, over the text or over decoding steps."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from explorer.analysis.attribution.lens import Depth, Lens, depths_of, film, lens
from explorer.analysis.attribution.writers import points
from explorer.engine import cache
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.attribution.choices import AttributionChoices
from explorer.exhibits.attribution.place import opening
from explorer.exhibits.attribution.words import position_of, token_name
from explorer.exhibits.exhibit import OUTPUT
from explorer.exhibits.picking import pick_one, titled, toggle
from explorer.exhibits.saying import message, quoted, quoted_at
from explorer.figures.attribution import depths
from explorer.figures.curves import lines
from explorer.figures.frame import Figure
from explorer.figures.matrix import Axis
from explorer.labels import SpecialToken
from explorer.library import LoadedModel
from explorer.numbers import digits, fixed, percent
from explorer.problems import InputProblem
from explorer.runs.edits import Edit
from explorer.runs.passes import Steps
from explorer.runs.trace import Trace
from models.strategies import Greedy

COLOURS = ("chance", "ranked", "distance")
N_FILM = 24
"""Tokens generated for the lens over decoding steps."""


@dataclass(frozen=True, eq=False)
class LensTable:
    """A lens, with the tokens of its positions or steps; `place` is the open one."""

    found: Lens
    columns: tuple[str, ...]
    place: int = 0


def compute(
    loaded: LoadedModel, trace: Trace, text: str, edits: tuple[Edit, ...], filmed: bool
) -> Steps[LensTable | InputProblem]:
    """The lens at every position of the text, or at every step of greedy decoding; the problem if
    there is nothing to decode."""
    if not filmed:
        n_real = int(trace.tgt_valid.sum())
        return LensTable((yield from lens(loaded, trace)), trace.tgt_str_tokens[:n_real])
    try:
        generation = yield from cache.generate.steps(loaded.name, text, Greedy(), edits, N_FILM)
    except InputProblem as problem:
        return problem
    columns = tuple(step.chosen_str for step in generation.steps)
    return LensTable((yield from film(loaded, generation)), columns)


def _controls(view: View) -> b.Blocks:
    """What the lens is read from, and what its colours mean."""
    yield from opening(view)
    now, on = view.one_of("picture", COLOURS), view.choices(AttributionChoices).filmed
    filmed = toggle(view, "attribution.filmed", on, help=view.t("attribution.filmed_help"))
    yield b.Row((pick_one(view, "attribution.colour", COLOURS, now, "picture"), filmed))


def show(seen: LensTable | InputProblem, view: View) -> b.Blocks:
    """The grid of predictions, one position in detail, and all depths."""
    yield from _controls(view)
    if isinstance(seen, InputProblem):
        yield b.Hint(message(seen, view.lang), "info", warns=True)
        return
    filmed, readout = view.choices(AttributionChoices).filmed, seen.found
    place = min(view.step, len(seen.columns) - 1) if filmed else position_of(view)[0]
    here = replace(seen, place=place)
    yield from _pick_place(view, here)
    yield b.Hero((b.Sentence("lens", _reading(view, here)), _grid(view, here)))
    numbers = {"count": len(readout.misleads), "all": len(readout.depths) - 1}
    blind = fixed(float(readout.blind.mean()), 1)
    yield b.Prose(view.t("attribution.misleads", blind=blind, **numbers))
    if view.trace.src_tokens:
        yield b.Note(view.t("attribution.lens_source"))
    yield from _one_place(view, here)
    yield from _by_depth(view, readout)
    yield b.Formula.of(
        view.t("attribution.lens_formula"),
        r"p_d = \mathrm{softmax}\big(W_U\,\mathrm{Norm}(x_d)\big)",
        r"\mathrm{KL}(p \,\Vert\, p_d) = \sum_w p_w \ln \frac{p_w}{p_{d,w}}",
    )
    yield b.Code((film if filmed else lens, points, depths_of))
    yield b.Numbers(lambda: _numbers(view, readout))


def _pick_place(view: View, here: LensTable) -> Iterator[b.Control]:
    columns = here.columns
    if view.choices(AttributionChoices).filmed:
        if len(columns) > 1:
            yield b.Slider(
                "attribution.step",
                view.t("attribution.step"),
                b.Span(1, len(columns)),
                here.place + 1,
                lambda step: b.choose(step=step - 1),
            )
        return

    key, change = "attribution.place", b.sets(position_of(view)[1])
    places = {place: f"{place} {token}" for place, token in enumerate(columns)}
    yield b.Pick(key, view.t(key), places, here.place, change, "menu", b.Display(220))


def depth_name(view: View, depth: Depth) -> str:
    """The short name of a depth, for the axis."""
    layer = 0 if depth.layer is None else depth.layer + 1
    what = "self" if depth.what == "attn" else depth.what
    return view.t(f"attribution.depths.{what}", layer=layer)


def _grid(view: View, here: LensTable) -> b.Matrices:
    readout, kind = here.found, view.one_of("picture", COLOURS)
    first = readout.tokens[..., 0].tolist()
    words = [[token_name(view.loaded, token) for token in row] for row in first]
    values = {
        "chance": readout.probs[..., 0].astype(np.float64),
        "ranked": readout.ranks.astype(np.float64),
        "distance": readout.kl,
    }[kind]
    filmed = view.choices(AttributionChoices).filmed
    title = view.t("attribution.steps" if filmed else "attribution.read_at")
    rows = [depth_name(view, depth) for depth in readout.depths]
    for at in readout.misleads:
        rows[at] = SpecialToken(rows[at])
    drawn = depths(
        words,
        values,
        (Axis(rows, view.t("figures.attribution.depth")), Axis(here.columns, title, "tgt")),
        kind=kind,
        title=view.t(f"attribution.colour_{kind}"),
        selected=here.place,
        n_shown=here.place + 1 if filmed else len(here.columns),
    )
    panel = (view.t("attribution.lens_alt"), drawn)
    return b.Matrices("attribution.lens", (panel,), captioned=False)


def _reading(view: View, here: LensTable) -> str:
    readout, place = here.found, here.place
    values = {
        "answer": quoted(view, token_name(view.loaded, int(readout.answer[place]))),
        "chance": percent(float(readout.shares[-1, place])),
        "depth": depth_name(view, readout.depths[readout.settled(place)]),
    }
    if view.choices(AttributionChoices).filmed:
        return view.t("attribution.read_film", step=place + 1, **values)
    token = quoted_at(view, here.columns, place)
    return view.t("attribution.read_lens", token=token, **values)


def _one_place(view: View, here: LensTable) -> b.Blocks:
    """The five most probable words at each depth, at one position."""
    readout, place = here.found, here.place
    token = quoted_at(view, here.columns, place)
    yield b.Title(view.t("attribution.place_title", token=token))
    rows = []
    for at, depth in enumerate(readout.depths):
        guesses = zip(
            readout.tokens[at, place].tolist(), readout.probs[at, place].tolist(), strict=True
        )
        words = " ".join(
            f"{quoted(view, token_name(view.loaded, token))} {percent(chance)}".replace(
                " ", "\u00a0"
            )
            for token, chance in guesses
        ).replace("|", "\\|")
        rank = f"{int(readout.ranks[at, place]):,}"
        rows.append((depth_name(view, depth), words, rank, digits(float(readout.kl[at, place]))))
    head = [view.t(f"attribution.{name}") for name in ("depth", "said", "rank_of", "kl")]
    yield b.Pane((b.Table(head, rows, "llrr"),), key="attribution-said")


def _by_depth(view: View, readout: Lens) -> b.Blocks:
    """The distance of the lens from the answer at each depth, compared with the uniform
    baseline."""
    places = np.arange(len(readout.depths))
    blind = np.full(len(places), float(readout.blind.mean()))
    names = [depth_name(view, depth) for depth in readout.depths]

    def draw(dark: bool) -> Figure:
        figure = lines(
            places,
            np.stack([readout.kl.mean(1), blind]),
            [view.t("attribution.kl_lens"), view.t("attribution.kl_blind")],
            **view.axes("attribution.depth", "attribution.kl"),
            height=280,
            dark=dark,
        )
        every = max(1, len(names) // 14)
        ticks = {"tickvals": places[::every].tolist(), "ticktext": names[::every]}
        figure["layout"]["xaxis"] |= ticks
        return figure

    yield from titled(view, "attribution.by_depth", draw)
    first, *_, last = (digits(float(size)) for size in readout.sizes.mean(1))
    yield b.Prose(view.t("attribution.scale", first=first, last=last))


def _numbers(view: View, readout: Lens) -> dict[str, list[object]]:
    return {
        view.t("attribution.depth"): [depth_name(view, depth) for depth in readout.depths],
        view.t("attribution.kl"): np.round(readout.kl.mean(1), 4).tolist(),
        view.t("attribution.first_at"): readout.agree.tolist(),
        view.t("attribution.size"): np.round(readout.sizes.mean(1), 4).tolist(),
    }


EXHIBIT = Exhibit(compute, show, OUTPUT, wait=Wait("attribution.film_working", blocks=_controls))
