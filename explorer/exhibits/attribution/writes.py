"""Logit decomposition: the next word's logit as a sum, and one head's part of it by key."""

from functools import partial

import numpy as np

from explorer.analysis.attribution.ledger import largest
from explorer.analysis.attribution.writers import output, writers_at
from explorer.analysis.attribution.writes import Writes, writes
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.attribution.place import (
    detail_of,
    group_names,
    in_half_precision,
    opening,
    pick_detail,
    shortfall,
    writer_name,
)
from explorer.exhibits.attribution.words import (
    notes,
    pick_position,
    pick_words,
    position_of,
    token_name,
    words_of,
)
from explorer.exhibits.exhibit import OUTPUT
from explorer.exhibits.saying import in_a_row, quoted, quoted_at
from explorer.figures.attribution import ranking
from explorer.numbers import percent, signed

MOST = 18
"""Most bars in the ranking; the smallest terms share the last one."""


def show(result: Writes, view: View) -> b.Blocks:
    """The terms of the logit, or of the difference."""
    yield from opening(view)
    yield b.Row((pick_position(view), *pick_words(view), pick_detail(view)))
    yield from notes(view)
    yield b.Hero((b.Sentence("writes", _reading(view, result)), _drawn(view, result)))
    config = view.loaded.config
    noted = {
        "attribution.note_logit_cap": config.logit_cap is not None,
        "attribution.note_gate": config.head_net,
        "attribution.note_precision": in_half_precision(view),
    }
    for key in (key for key, here in noted.items() if here):
        yield b.Note(view.t(key))
    yield b.Formula.of(
        view.t("attribution.writes_formula"),
        r"\ell_w = \sum_a x_a \cdot U_w + b_w, \qquad "
        r"\ell_w - \ell_v = \ln \frac{p_w}{p_v}",
        r"x_{h} = \sum_j a_{ij}\, v_j W_O^{h}",
    )
    yield b.Code((writes, output, writers_at))
    yield b.Numbers(lambda: _numbers(view, result))


def _drawn(view: View, result: Writes) -> b.Chart:
    """The terms of the logit, or of the difference, as a ranking."""
    groups, loaded = largest(result.writers, result.terms, MOST), view.loaded
    extra = [(view.t("attribution.rest"), result.between(result.rests))]
    if loaded.config.logit_cap is not None:
        extra.insert(0, (view.t("attribution.cap"), result.between(result.caps)))
    alone = [result.lost[group.members[0]] if group.writer else np.nan for group in groups]
    title = view.t("attribution.contribution")
    draw = partial(
        ranking,
        [*group_names(view, groups), *(name for name, _ in extra)],
        np.array([*(group.of(result.terms) for group in groups), *(value for _, value in extra)]),
        free=np.array([*alone, *[np.nan] * len(extra)]) if result.compares else None,
        title=title,
        words=view.words("figures.attribution"),
    )
    return b.Chart("attribution.shares", draw, title)


def _reading(view: View, result: Writes) -> str:
    trace, loaded, values = view.trace, view.loaded, result.terms
    first = int(values[0] == 0)  # the biases come first: none to name in a model without any
    most, least = (first + int(find(values[first:])) for find in (np.argmax, np.argmin))
    words = {
        "before": quoted_at(view, trace.tgt_str_tokens, result.position),
        "word": quoted(view, token_name(loaded, result.word)),
        "chance": percent(result.probabilities[0]),
        "total": signed(result.between(result.logits)),
    }
    if result.compares:
        words["other"] = quoted(view, token_name(loaded, result.other))
        words["other_chance"] = percent(result.probabilities[1])
        logits = view.t("attribution.read_difference", **words)
    else:
        logits = view.t("attribution.read_logit", **words)
    terms = view.t(
        "attribution.read_terms",
        most=writer_name(view, result.writers[most]),
        up=signed(float(values[most])),
        least=writer_name(view, result.writers[least]),
        down=signed(float(values[least])),
    )
    return in_a_row([logits, *shortfall(view, result.between(result.rests), values), terms])


def _numbers(view: View, result: Writes) -> dict[str, list[object]]:
    loaded = view.loaded
    return {
        "": [writer_name(view, writer) for writer in result.writers],
        token_name(loaded, result.word): np.round(result.shares, 5).tolist(),
        f"{token_name(loaded, result.other)} ": np.round(result.other_shares, 5).tolist(),
        view.t("attribution.difference"): np.round(result.differences, 5).tolist(),
    }


EXHIBIT = Exhibit(
    writes,
    show,
    OUTPUT,
    inputs={
        "position": lambda view: position_of(view)[0],
        "word": lambda view: words_of(view)[0],
        "other": lambda view: words_of(view)[1],
        "detail": detail_of,
    },
    wait=Wait("attribution.working", blocks=opening),
)
