"""Chapter 1 of the guided tour: attention."""

import numpy as np

from explorer.exhibits import View, block as b
from explorer.exhibits.tour import pictures
from explorer.exhibits.tour.asked import PosedStep, question, step
from explorer.exhibits.tour.found import attention as finding
from explorer.numbers import percent


def _look(view: View, found: finding.RankedKeys) -> PosedStep:
    keys = pictures.keys_of(view, found.row)
    best, *others = found.order
    near = sorted(others, key=lambda key: (abs(key - best), key))
    asks = question("look", keys[best], [keys[key] for key in near])
    place = pictures.where(view, found.row)
    return PosedStep(
        asks,
        {**place, "weight": percent(float(found.weights[best])), "key": keys[best]},
        lambda answered: (pictures.heatmap(view, found.row, "look", whole=answered),),
        pictures.place_of(found.row),
    )


def _rest(view: View, found: finding.RankedKeys) -> PosedStep:
    keys, weights = pictures.keys_of(view, found.row), found.weights
    hidden = found.order[0]
    right, others = float(weights[hidden]), float(np.delete(weights, hidden).sum())
    second = float(weights[found.order[1]])
    asks = question(
        "rest",
        percent(right),
        [percent(others), percent(second), percent(1 / len(weights)), percent(right / 2)],
    )

    def picture(answered: bool) -> b.Blocks:
        shown = weights if answered else np.where(np.arange(len(weights)) == hidden, 0, weights)
        yield pictures.row_bars(view, found.row, shown, "rest")

    values = {
        **pictures.where(view, found.row),
        "key": keys[hidden],
        "others": percent(others),
        "weight": percent(right),
    }
    return PosedStep(asks, values, picture, pictures.place_of(found.row))


def _times(value: float) -> str:
    return f"{value:.1f} ×"


def _ratio(view: View, found: finding.Ratio) -> PosedStep:
    keys, scores = pictures.keys_of(view, found.row), found.scores
    more, less, apart = found.more, found.less, found.difference
    wrong = [_times(apart), _times(float(np.exp(2 * apart)))]
    if scores[less] > 0:
        wrong.insert(1, _times(float(scores[more] / scores[less])))
    wrong.append(_times(2 * apart))
    asks = question("ratio", _times(found.times), wrong)

    def picture(answered: bool) -> b.Blocks:
        if answered:
            yield pictures.heatmap(view, found.row, "ratio", whole=True)
        else:
            yield pictures.scores_map(view, found.row, "ratio.scores")

    values = {
        **pictures.where(view, found.row),
        "more": keys[more],
        "less": keys[less],
        "difference": f"{apart:.2f}",
        "power": f"{found.times:.1f}",
        "times": _times(found.times),
        "weights": f"{percent(float(found.weights[more]))} / {percent(float(found.weights[less]))}",
    }
    place = pictures.place_of(found.row) | {"key": more, "stage": 3}
    return PosedStep(asks, values, picture, place)


def _scale(view: View, found: finding.Undivided) -> PosedStep:
    top = int(found.divided.argmax())
    now, without = float(found.divided[top]), float(found.undivided[top])
    asks = question(
        "scale",
        percent(without),
        [percent(now), percent(float(found.twice[top])), percent(1 / int(found.allowed.sum()))],
    )

    def picture(answered: bool) -> b.Blocks:
        tokens = view.trace.key_tokens(found.row.site.name)
        if not answered:
            yield pictures.row_bars(view, found.row, found.divided, "scale", found.allowed)
            return
        yield pictures.two_bars(
            tokens,
            100 * found.divided,
            100 * found.undivided,
            (view.t("tour.divided", divisor=view.divisor), view.t("tour.undivided")),
            "scale.both",
            title=view.t("tour.weight"),
            stream=found.row.site.key_stream,
        )

    values = {
        **pictures.where(view, found.row),
        "divisor": view.divisor,
        "now": percent(now),
        "without": percent(without),
        "key": pictures.keys_of(view, found.row)[top],
    }
    place = pictures.place_of(found.row) | {"aside": "scaling"}
    return PosedStep(asks, values, picture, place, "told_biased" if found.biased else "told")


def _values(view: View, found: finding.Carried) -> PosedStep:
    keys, most, heaviest = pictures.keys_of(view, found.row), found.most, found.heaviest
    wrong = [heaviest, *np.argsort(-found.brought), int(found.lengths.argmax())]
    asks = question(
        "values", keys[most], [keys[int(key)] for key in wrong if found.allowed[int(key)]]
    )

    def picture(answered: bool) -> b.Blocks:
        tokens, stream = view.trace.key_tokens(found.row.site.name), found.row.site.key_stream
        lengths = found.lengths / found.lengths.max()
        yield pictures.two_bars(
            tokens,
            100 * found.weights,
            100 * (found.brought / found.brought.max() if answered else lengths),
            (view.t("tour.weight"), view.t("tour.brought" if answered else "tour.value_length")),
            "values",
            title="%",
            stream=stream,
        )

    values = {
        **pictures.where(view, found.row),
        "key": keys[most],
        "heaviest": keys[heaviest],
        "weight": percent(float(found.weights[most])),
        "top": percent(float(found.weights[heaviest])),
        "times": _times(float(found.brought[most] / max(found.brought[heaviest], 1e-12))),
    }
    told = "told_same" if most == heaviest else "told"
    place = pictures.place_of(found.row) | {"key": most, "stage": 4}
    return PosedStep(asks, values, picture, place, told)


def _heads(view: View, found: finding.AttentionParameters) -> PosedStep:
    n = found.n_heads
    asks = question(
        "heads",
        f"{found.one_head:,}",
        [f"{number:,}" for number in (found.own, found.own // n, found.own * n, found.own * n**2)],
    )
    row = finding.first_row(view.trace)
    values = {
        "heads": n,
        "d_head": found.d_head,
        "width": n * found.d_head,
        "own": f"{found.own:,}",
        "one": f"{found.one_head:,}",
    }
    return PosedStep(
        asks,
        values,
        lambda answered: (pictures.all_heads(view, "tour.heads"),),
        {"site": row.site.role, "layer": row.site.layer},
        "told_shared" if found.shared else "told",
    )


def _cross(view: View, found: finding.Crossing) -> PosedStep:
    n_query, n_key = found.n_query, found.n_key

    def shape(rows: int, columns: int) -> str:
        return view.t("tour.shape", rows=rows, columns=columns)

    asks = question(
        "cross",
        shape(n_query, n_key),
        [shape(n_key, n_query), shape(n_query, n_query), shape(n_key, n_key)],
    )

    def picture(answered: bool) -> b.Blocks:
        if answered:
            yield pictures.heatmap(view, found.row, "cross", whole=True)
            return
        yield pictures.strip(view, view.trace.src_str_tokens, "src", "cross.src", None)
        yield pictures.strip(view, view.trace.tgt_str_tokens, "tgt", "cross.tgt", None)

    values = {"rows": n_query, "columns": n_key}
    return PosedStep(asks, values, picture, pictures.place_of(found.row))


SOFTMAX = r"p_{ij} = \frac{e^{s_{ij}}}{\sum_k e^{s_{ik}}}"
STEPS = (
    step("look", "heads", finding.look, _look, r"z_i = \sum_j p_{ij}\,v_j"),
    step("rest", "heads", finding.rest, _rest, SOFTMAX + r",\qquad \sum_j p_{ij} = 1"),
    step(
        *("ratio", "score", finding.ratio, _ratio),
        r"\frac{p_{ij}}{p_{ik}} = \frac{e^{s_{ij}}}{e^{s_{ik}}} = e^{s_{ij} - s_{ik}}",
    ),
    step(
        *("scale", "score", finding.scale, _scale),
        r"s_{ij} = \frac{q_i\cdot k_j}{\sqrt{d_\mathrm{head}}}",
        told=("told", "told_biased"),
    ),
    step(
        *("values", "score", finding.values, _values),
        r"z_i = \sum_j p_{ij}\,v_j,\qquad \lVert p_{ij}\,v_j\rVert = p_{ij}\lVert v_j\rVert",
        told=("told", "told_same"),
    ),
    step(
        *("heads", "heads", finding.heads, _heads),
        r"4\, d_\mathrm{model}\, (H\, d_\mathrm{head}) = 4\, d_\mathrm{model}^2",
        told=("told", "told_shared"),
    ),
    step(
        *("cross", "heads", finding.cross, _cross),
        r"\text{pattern} \in \mathbb{R}^{n_\mathrm{query}\times n_\mathrm{key}}",
    ),
)
