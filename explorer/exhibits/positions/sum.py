"""Token + position: both vectors of a word and their sum, and why they are not concatenated."""

from functools import partial

import numpy as np

from explorer.analysis.positions.sums import Addends, Overlap, room, sums, widths
from explorer.exhibits import Exhibit, View, block as b, saying
from explorer.exhibits.picking import pick_stream, pick_token
from explorer.exhibits.positions.choices import PositionsChoices
from explorer.exhibits.positions.opening import opening
from explorer.figures.curves import lines
from explorer.figures.positions import sums as figures
from explorer.library import LoadedModel
from explorer.numbers import fixed, percent
from explorer.runs.trace import Trace
from models.rows import Stream


def compute(loaded: LoadedModel, trace: Trace, stream: Stream) -> tuple[Addends, Overlap] | None:
    """The sums of a sequence and the room of both parts; None for a model that adds no positions to
    its embeddings."""
    vectors = sums(trace, stream)
    return None if vectors is None else (vectors, room(loaded, stream))


def show(answer: tuple[Addends, Overlap] | None, view: View) -> b.Blocks:
    """The vectors of one token, the angles of all, and the cost of concatenation."""
    yield from opening(view)
    if streams := pick_stream(view, "positions.stream.sum"):
        yield b.Row(streams)
    if answer is None:
        yield b.Hint(view.t("sums.nothing_added"))
        return
    (vectors, space), tokens = answer, view.str_tokens()
    at = min(view.choices(PositionsChoices).place, len(tokens) - 1)
    yield b.Prose(view.t("sums.lead"))
    yield pick_token(view, "positions.place", "sums.token", tokens, at, "place", width=260)
    yield from _drawn(view, vectors, at, tokens[at])
    yield from _every(view, vectors)
    yield from _concatenated(view, space)
    yield b.Formula.of(
        view.t("sums.formula"),
        r"x_p = s\,E[w_p] + P[p], \qquad s = \sqrt{d} \;\text{or}\; 1",
        r"W(e + p) = \begin{pmatrix} W & W \end{pmatrix}"
        r"\begin{pmatrix} e \\ p \end{pmatrix}, \qquad "
        r"\cos(e, p) = \frac{e \cdot p}{\lVert e\rVert\,\lVert p\rVert}",
    )
    yield b.Code((view.loaded.model.last_stack.embed_tokens, sums, room, widths))
    parts = {"word": vectors.token[at], "position": vectors.position[at], "sum": vectors.total[at]}
    columns = {view.t(f"sums.{name}"): [f"{x:.4f}" for x in part] for name, part in parts.items()}
    dimensions = list(range(vectors.total.shape[1]))
    yield b.Numbers(lambda: {view.t("sums.dimension"): dimensions, **columns})


def _drawn(view: View, addends: Addends, at: int, token: str) -> b.Blocks:
    """The vectors of one token, by component and as arrows."""
    lengths, degrees = addends.lengths(at), addends.angle(at)
    yield b.Sentence(
        "sums",
        view.t(
            "sums.reading",
            token=saying.quoted(view, token),
            at=at,
            word=fixed(lengths[0]),
            position=fixed(lengths[1]),
            angle=fixed(degrees, 0),
        ),
    )
    names = [view.t(key) for key in ("sums.word", "sums.position", "sums.sum")]
    values = np.stack([addends.token[at], addends.position[at], addends.total[at]])
    strips = figures.strips(values, names, words=view.words("figures.positions"))
    left = b.Matrices("sums.strips", ((view.t("sums.strips"), strips),))
    plane, title = partial(figures.plane, lengths[:2], degrees, names), view.t("sums.plane")
    right = b.Note(title), b.Chart("sums.plane", plane, title)
    yield b.Columns(((left,), right), (3, 2))


def _every(view: View, addends: Addends) -> b.Blocks:
    """The angles at every position."""
    places = range(len(addends.token))
    angles = [
        [addends.angle(place) for place in places],
        [addends.turned(place) for place in places],
    ]
    names = [view.t("sums.angle_between"), view.t("sums.angle_turned")]
    titles = view.axes("sums.place", "sums.degrees")
    yield b.Note(view.t("sums.angles"))
    draw = partial(
        lines, np.array(places), np.array(angles), names, height=240, points=True, **titles
    )
    yield b.Chart("sums.angles", draw, view.t("sums.angles"))


def _concatenated(view: View, space: Overlap) -> b.Blocks:
    """The cost of concatenation, and how separable both parts are in the sum."""
    yield b.Title(view.t("sums.why"))
    yield b.Prose(view.t("sums.why_lead"))
    config = view.loaded.config
    counted, d = widths(config), config.d_model
    head = [view.t(f"sums.{name}") for name in ("way", "width", "parameters", "more")]
    rows = []
    for key, width, total in (
        ("sums.summed", d, counted.summed),
        ("sums.mapped", d, counted.mapped),
        ("sums.wide", 2 * d, counted.wide),
    ):
        more = f"+{percent(total / counted.summed - 1)}" if total > counted.summed else ""
        rows.append((view.t(key), f"{width:,}", f"{total:,}", more))
    yield b.Table(head, rows)
    shares = {"share": percent(space.share), "chance": percent(space.by_chance)}
    yield b.Sentence("room", view.t("sums.room", n=space.n, of=space.of, **shares))


EXHIBIT = Exhibit(compute, show)
