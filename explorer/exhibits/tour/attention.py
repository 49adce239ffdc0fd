"""Chapter 1 of the guided tour: what attention is."""

import numpy as np

from explorer.analysis.score.steps import attended
from explorer.exhibits import View
from explorer.exhibits.tour import pictures, rows
from explorer.exhibits.tour.pictures import Exhibited
from explorer.exhibits.tour.posed import Posed, Words, grouped
from explorer.exhibits.tour.rows import QueryRow, keys_of, main_role, require
from explorer.numbers import digits, percent, root

SHARP, LEAST_SHARP = 1.3, 1.02
"""The least ratio of a row's largest weight to the second largest for a question; the second value
is for models without a row as sharp as the first."""
MATRICES = tuple(f"{name}.weight" for name in ("w_q", "w_k", "w_v", "w_o"))


def look(view: View) -> Posed:
    """A row with one dominant weight."""
    trace = view.trace

    def worth(row: QueryRow) -> tuple[bool, int, float] | None:
        second, first = np.sort(row.weights)[-2:]
        if row.query == 0 or first < LEAST_SHARP * second:
            return None
        # A mark or punctuation, or attention to the token itself, makes no useful question.
        best = row.descending[0]
        asked = trace.query_tokens(row.site.name)[row.query], trace.key_tokens(row.site.name)[best]
        words = sum(not getattr(token, "special", False) and token.isalnum() for token in asked)
        is_self = row.site.kind == "self" and best == row.query
        return first >= SHARP * second, words - is_self, float(first - second)

    row = rows.best_row(view, "flat", worth, least=3)
    keys, (best, *others) = keys_of(view, row), [k for k in row.descending if row.allowed[k]]
    near = sorted(others, key=lambda key: (abs(key - best), key))
    before, after = (pictures.heatmap(view, row, whole=whole) for whole in (False, True))
    options, words = [keys[key] for key in (best, *near)], {"weight": row.weights[best]}
    return Posed(options, words, [before], [after], row, spelt=percent)


def rest(view: View) -> Posed:
    """A row whose largest weight is neither close to 0 nor close to 1."""
    wanted = rows.varied(view.trace, 0.25, 0.6)

    def worth(row: QueryRow) -> float:
        return -abs(float(row.weights.max()) - wanted)

    row = rows.best_row(view, "flat", worth, least=3)
    weights, (hidden, second, *_) = row.weights, row.descending
    shown = np.where(np.arange(len(weights)) == hidden, 0, weights)
    right, others = weights[hidden], np.delete(weights, hidden).sum()
    shares = (right, others, weights[second], 1 / int(row.allowed.sum()), right / 2)
    words = {"key": keys_of(view, row)[hidden], "others": others}
    before = pictures.row_bars(view, row, shown)
    return Posed(shares, words, [before], [pictures.softmax_of(row)], row, spelt=percent)


def times(value: float) -> str:
    """A factor, as 2.5."""
    return f"{value:.1f}" if value < 1e6 else digits(value)


def ratio(view: View) -> Posed:
    """The largest weight of a row compared with one whose score is lower by about `wanted`."""
    wanted = rows.varied(view.trace, 1.0, 2.2)  # a ratio of about 3 to 9

    def pair(row: QueryRow) -> tuple[float, int, int]:
        scores = np.where(row.allowed, row.scores, -np.inf)
        top = int(scores.argmax())
        apart = np.abs(scores[top] - scores - wanted)
        other = int(np.argmin(np.where(np.isfinite(apart), apart, np.inf)))
        return float(apart[other]), top, other

    def worth(row: QueryRow) -> float | None:
        apart, top, other = pair(row)
        return -apart if top != other and apart < wanted - 0.4 else None

    row = rows.best_row(view, "flat", worth, least=2)
    (_, more, less), scores, keys = pair(row), row.scores, keys_of(view, row)
    apart = scores[more] - scores[less]
    power, shares = np.exp(apart), [percent(row.weights[key]) for key in (more, less)]
    quotient = scores[more] / scores[less] if scores[less] > 0 else None
    factors = (power, apart, quotient, np.exp(2 * apart), 2 * apart)
    words: Words = {"more": keys[more], "less": keys[less], "difference": f"{apart:.2f}"}
    words["weights"] = " / ".join(shares)
    drawn, place = ([pictures.scores_of(row)], [pictures.softmax_of(row)]), {"key": more}
    return Posed(factors, words, *drawn, row, {**place, "stage": 3}, spelt=times)


def scale(view: View) -> Posed:
    """The row in which the key of largest weight gains most if q . k is not divided."""
    trace, divisor = view.trace, view.loaded.config.divisor
    require(view.loaded.config.score_cap is None, "capped")
    require(divisor > 1, "undivided")
    patterns = {
        (site.name, by): attended(trace, site, divisor=by)[1][0].double().numpy()
        for site in trace.sites_of(main_role(view))
        for by in (1.0, divisor, divisor**2)
    }

    def divided(row: QueryRow, by: float) -> np.ndarray:
        weights: np.ndarray = patterns[row.site.name, by][row.head, row.query]
        return weights

    def worth(row: QueryRow) -> float | None:
        if not 0.2 < row.weights.max() < 0.7:
            return None
        top = row.descending[0]  # a bias may let another key win undivided
        return float(divided(row, 1.0)[top] - row.weights[top])

    row = rows.best_row(view, "flat", worth, least=3)
    require((worth(row) or 0) >= 0.1, "flat")
    now, without, twice = (divided(row, by) for by in (divisor, 1.0, divisor**2))
    top, key = int(now.argmax()), root(divisor)
    shares = (without[top], now[top], twice[top], 1 / int(row.allowed.sum()))
    words = {"divisor": key, "now": now[top], "key": keys_of(view, row)[top]}
    pair = {view.t("tour.divided", divisor=key): now, view.t("tour.undivided"): without}
    drawn = [pictures.softmax_of(row)], [pictures.two_rows(view, row, pair)]
    return Posed(shares, words, *drawn, row, {"aside": "scaling"}, spelt=percent)


def values(view: View) -> Posed:
    """A row in which the key with the largest weight contributes little; else the clearest row."""

    def lengths_of(row: QueryRow) -> np.ndarray:
        group = row.site.n_heads // view.loaded.config.kv_heads
        v = view.trace.activations[row.site.hook("v")][row.head // group].astype(np.float64)
        return np.linalg.norm(v, axis=-1)

    def worth(row: QueryRow) -> float | None:
        brought = row.weights * lengths_of(row)
        *_, second, first = np.argsort(brought)
        if brought[first] < 1.1 * brought[second]:
            return None
        return float(row.weights[row.allowed].max() / max(row.weights[first], 1e-12))

    row = rows.best_row(view, "flat", worth, least=3)
    keys, weights, lengths = keys_of(view, row), row.weights, lengths_of(row)
    brought = weights * lengths
    most, heaviest = (int(np.where(row.allowed, of, -1).argmax()) for of in (brought, weights))
    wrong = [heaviest, int(np.where(row.allowed, lengths, -1).argmax()), *np.argsort(-brought)]
    options = [keys[key] for key in (most, *(key for key in wrong if row.allowed[key]))]
    shown = {"tour.value_length": lengths / lengths.max(), "tour.brought": brought / brought.max()}
    weight = view.t("tour.weight")
    before, after = (
        pictures.two_rows(view, row, {weight: weights, view.t(key): share}, "%")
        for key, share in shown.items()
    )
    place = {"key": most, "stage": 4}
    return Posed(options, {}, [before], [after], row, place)


def heads(view: View) -> Posed:
    """The parameters of W_Q, W_K, W_V and W_O of the first layer without biases, and how many they
    would be with one head as wide as all."""
    site, config = view.trace.sites_of(main_role(view))[0], view.loaded.config
    named = dict(view.loaded.model.get_submodule(site.name).named_parameters())
    own, n = sum(named[name].numel() for name in MATRICES if name in named), site.n_heads
    require(n >= 2, "one_head")
    per_head = 2 * config.d_model * config.d_head
    one_head = 2 * n * per_head
    require(own == (n + config.kv_heads) * per_head, "other_shape")
    options = (one_head, own, own // n, own * n, own * n**2)
    words, place = {"heads": n, "own": grouped(own)}, {"site": site.role}
    drawn, layer = [Exhibited("heads.heads", "heads.view", place)], {"layer": site.layer}
    return Posed(options, words, drawn, drawn, None, place | layer, spelt=grouped)


def cross(view: View) -> Posed:
    """The shape of cross-attention."""
    sites = view.trace.sites_of("cross")
    require(sites, "no_cross")
    n_query, n_key = view.trace.mask(sites[0].name).shape[1:]
    require(n_query != n_key, "same_length")
    shapes = ((n_query, n_key), (n_key, n_query), (n_query, n_query), (n_key, n_key))
    options = [view.t("tour.shape", rows=height, columns=width) for height, width in shapes]
    strips = [pictures.strip(view, "src"), pictures.strip(view, "tgt")]
    place, at = {"site": "cross", "layer": 0, "head": 0}, view.kinds.index("cross")
    after = Exhibited("masks.matrices", "masks.matrices", place, at)
    return Posed(options, {}, strips, [after], place=place)
