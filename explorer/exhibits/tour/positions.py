"""Chapter 3 of the guided tour: positions."""

from collections.abc import Callable

import numpy as np

from explorer.exhibits import View, block as b
from explorer.exhibits.saying import quoted_at
from explorer.exhibits.tour import pictures
from explorer.exhibits.tour.asked import PosedStep, question, step
from explorer.exhibits.tour.found import positions as finding
from explorer.exhibits.tour.found.positions import Distance, Lengths, Rotated, Shuffled, Wave
from explorer.figures import order
from explorer.figures.positions import encoding
from explorer.figures.positions.turning import arrows
from explorer.numbers import fixed, share


def _moved(
    view: View, found: Shuffled, settings: list[str], key: str
) -> Callable[[bool], b.Blocks]:
    """The shuffled words, and after the answer the change of each vector."""

    def picture(answered: bool) -> b.Blocks:
        yield pictures.strip(view, found.tokens, found.stream, f"{key}.strip", None)
        if not answered:
            return
        yield pictures.chart(
            key,
            view.t("positions.moved"),
            order.moved,
            found.tokens,
            np.stack([found.by[name].distances[-1] for name in settings]),
            [view.t(f"positions.{name}") for name in settings],
            y_title=view.t("positions.moved"),
            x_title=view.t("positions.shuffled"),
            stream=found.stream,
        )

    return picture


def _bag(view: View, found: Shuffled) -> PosedStep:
    right = share(found.barest.mean)
    wrong = [share(found.by["as_is"].mean)] if "as_is" in found.by else []
    n = len(found.order)
    asks = question("bag", right, [*wrong, share(1 / n), share(0.5), share(1.0)])
    causal = found.barest.setting == "unmasked"
    values = {"masked": view.t("tour.and_mask") if causal else "", "moved": right}
    place = {"part": "order", "stream": found.stream, "shuffle": 1}
    return PosedStep(asks, values, _moved(view, found, list(found.by), "bag"), place)


def _leak(view: View, found: Shuffled) -> PosedStep:
    tokens = list(found.tokens)
    names = [quoted_at(view, tokens, at) for at in range(len(tokens))]
    distances = found.by["without"].distances[-1]
    middle = [len(tokens) - 1, 1, len(tokens) // 2, 2]
    asks = question("leak", names[0], [names[at] for at in middle])
    values = {"first": names[0], "mean": share(float(distances[1:].mean()))}
    place = {"part": "order", "stream": "tgt", "shuffle": 1}
    return PosedStep(asks, values, _moved(view, found, ["without"], "leak"), place)


def _length(view: View, found: Lengths) -> PosedStep:
    width, place = found.table.shape[1], found.place
    right = fixed(float(found.positions[place]), 1)
    asks = question("length", right, [fixed(each, 1) for each in (width**0.5, width / 2, 1.0)])

    def picture(answered: bool) -> b.Blocks:
        if not answered:
            yield _table(view, found.table, "length.table")
            return
        yield pictures.two_bars(
            found.tokens,
            found.words,
            found.positions,
            (view.t("positions.size_word"), view.t("positions.size_position")),
            "length",
            title=view.t("positions.size"),
            stream=found.stream,
        )

    values = {
        "place": place,
        "token": quoted_at(view, found.tokens, place),
        "width": width,
        "pairs": width // 2,
        "length": right,
        "word": fixed(float(found.words[place]), 1),
    }
    return PosedStep(asks, values, picture, {"part": "sum", "place": place})


def _table(view: View, values: np.ndarray, name: str) -> b.Block:
    words = view.words("figures.positions")
    return pictures.chart(name, view.t("positions.table"), encoding.table, values, words=words)


def _waves(view: View, found: Wave) -> PosedStep:
    shortest, pair = 2 * np.pi, found.dim // 2
    wrong = (shortest, shortest * (pair + 1), found.wavelength / 2, 2 * found.wavelength)
    asks = question("waves", fixed(found.wavelength, 1), [fixed(each, 1) for each in wrong])
    words = view.words("figures.positions")

    def picture(answered: bool) -> b.Blocks:
        if not answered:
            yield _table(view, found.table, "waves.table")
            return
        alt = view.t("positions.waves")
        yield pictures.chart("waves", alt, encoding.waves, found.table, [0, found.dim], words=words)

    values = {
        "dim": found.dim,
        "width": found.width,
        "base": f"{found.base:,.0f}",
        "times": fixed(found.wavelength / shortest, 2),
        "wavelength": fixed(found.wavelength, 1),
    }
    place = {"part": "table", "width": found.width, "dims": (0, found.dim)}
    return PosedStep(asks, values, picture, place)


def _distance(view: View, found: Distance) -> PosedStep:
    def name(pair: tuple[int, int]) -> str:
        return view.t("tour.positions", first=pair[0], second=pair[1])

    names = {name(pair): str(pair) for pair in (found.same, *found.others)}
    asks = question("distance", name(found.same), [name(pair) for pair in found.others], names)
    words = view.words("figures.positions")

    def picture(answered: bool) -> b.Blocks:
        if not answered:
            yield _table(view, found.table, "distance.table")
            return
        yield pictures.chart(
            "distance", view.t("positions.gram"), encoding.gram, found.gram, words=words
        )

    values = {
        "pair": name(found.pair),
        "same": name(found.same),
        "dot": fixed(found.dot(found.pair), 2),
        "again": fixed(found.dot(found.same), 2),
        "apart": found.pair[1] - found.pair[0],
    }
    return PosedStep(asks, values, picture, {"part": "table", "width": found.table.shape[1]})


def _rotary(view: View, found: Rotated) -> PosedStep:
    asks = question(
        "rotary",
        fixed(found.both, 2),
        [fixed(each, 2) for each in (found.query, found.key, found.bare)],
    )

    def picture(answered: bool) -> b.Blocks:
        q, k = found.turned[found.shift if answered else 0]
        yield pictures.chart(
            "rotary",
            view.t("tour.steps.rotary.title"),
            arrows,
            found.q,
            found.k,
            q,
            k,
            wavelengths=2 * np.pi / np.maximum(found.angles, 1e-12),
            contributions=(q * k).sum(1) / found.divisor,
            words=view.words("figures.turning"),
        )

    query, key = found.places
    tokens = view.trace.query_tokens(found.row.site.name)
    values = {
        "q_token": quoted_at(view, tokens, query),
        "k_token": quoted_at(view, tokens, key),
        "query": query,
        "key": key,
        "apart": query - key,
        "shift": found.shift,
        "score": fixed(found.score, 2),
        "both": fixed(found.both, 2),
        "one": fixed(found.query, 2),
    }
    place = pictures.place_of(found.row) | {"part": "rotary", "key": key}
    return PosedStep(asks, values, picture, place, "told" if found.own else "told_other")


STEPS = (
    step(*("bag", "positions", finding.bag, _bag), r"f(x_\pi) = f(x)_\pi"),
    step(
        *("length", "positions", finding.length, _length),
        r"\lVert PE_p\rVert^2 = \sum_{i=1}^{d/2} (\sin^2 p\,\theta_i + \cos^2 p\,\theta_i) = d/2",
    ),
    step(
        *("waves", "positions", finding.waves, _waves),
        r"\theta_i = \mathrm{base}^{-2i/d},\qquad \lambda_i = 2\pi/\theta_i",
    ),
    step(
        *("distance", "positions", finding.distance, _distance),
        r"PE_p\cdot PE_{p+n} = \sum_i \cos(n\,\theta_i)",
    ),
    step(*("leak", "positions", finding.leak, _leak), r"z_i = \sum_{j \le i} p_{ij}\,v_j"),
    step(
        *("rotary", "positions", finding.rotary, _rotary),
        r"(R_m q)\cdot(R_n k) = q\cdot(R_{n-m}\,k)",
        told=("told", "told_other"),
    ),
)
