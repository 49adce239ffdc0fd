"""A weight is not a cause: four measures for one head and one output token, compared."""

import math

from explorer.analysis.heads.ablation import Ablation, ablating
from explorer.analysis.heads.attribution import (
    MEASURES,
    Attribution,
    HeadRanks,
    Measure,
    attribute,
    likely,
)
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.heads.matter import is_open
from explorer.exhibits.heads.opened import Opened
from explorer.exhibits.picking import pick_one
from explorer.exhibits.saying import quoted, quoted_at
from explorer.figures.theme import show as visible
from explorer.library import LoadedModel
from explorer.numbers import fixed, percent, signed
from explorer.runs.trace import Trace


def measured(
    loaded: LoadedModel, trace: Trace, matter: Ablation, position: int | str
) -> Attribution | str:
    """The four measures of all heads; instead of a position, the reason why there is none."""
    if isinstance(position, str):
        return position
    return attribute(loaded, trace, position, matter)


def show(found: Attribution | str | None, view: View) -> b.Blocks:
    """The four measures of the current head, for the token predicted at the query."""
    if found is None:  # the heads have not been ablated
        return
    yield b.Title(view.t("measured.title"), large=True)
    current = Opened(view).current
    if isinstance(found, str) or current is None or current.site is None or current.head is None:
        yield b.Note(view.t(f"measured.{found}"))
        return
    if current.site.query_stream != "tgt":
        yield _pick_token(view)
    ranked = found.ranks(current.site.name, current.head)
    token = quoted(view, found.str_token)
    yield b.Prose(view.t("measured.lead", name=current.name, token=token))
    heaviest = quoted_at(view, view.trace.str_tokens(current.site.key_stream), ranked.key)
    yield b.Columns([(_number(view, name, ranked, heaviest),) for name in MEASURES], gap="small")
    yield b.Sentence("measured", _verdict(view, ranked))
    others = {name: ranked.agreement[name] for name in ("contribution", "gradient")}
    if not any(map(math.isnan, others.values())):
        rhos = {name: fixed(rho) for name, rho in others.items()}
        yield b.Note(view.t("measured.agree_others", **rhos))
    yield b.Code((ablating, attribute))


def _position(view: View) -> int | str:
    """The position of the output token, or why there is none."""
    current, n_real = Opened(view).current, int(view.trace.tgt_valid.sum())
    if current is None or current.site is None or current.head is None:
        return "no_head"
    if current.site.query_stream != "tgt":
        return min(view.step, n_real - 1)
    return view.row if view.row < n_real else "pad"


def _pick_token(view: View) -> b.Pick:
    """The control for the output token, for an encoder without output positions."""
    n_real = int(view.trace.tgt_valid.sum())
    written = view.trace.tgt_str_tokens[1:n_real]
    tokens = (*written, view.trace.predicted_str_tokens[n_real - 1])
    names = [f"{step}  {visible(token)}" for step, token in enumerate(tokens, 1)]
    more = b.More(label="measured.token", said=names.__getitem__, form="menu", width=240)
    return pick_one(
        view, "heads.token", range(len(tokens)), min(view.step, n_real - 1), "step", **more
    )


def _number(view: View, name: Measure, ranked: HeadRanks, key: str) -> b.Pane:
    """One measure with its rank among all heads."""
    rank = view.t("measured.rank", rank=ranked.ranks[name], count=ranked.n_heads)
    caption = f"{view.t('measured.at', key=key)} · {rank}" if name == "weight" else rank
    title = b.Note(view.t(f"measured.{name}"), view.t(f"measured.{name}_help"))
    value = b.Prose(f"**{_value(view, name, ranked.values[name])}**")
    return b.Pane((title, value, b.Note(caption)), key=f"cause-{name}", gap=None)


def _value(view: View, name: Measure, value: float) -> str:
    if name == "weight":
        return percent(value)
    if name == "contribution":
        return f"{value:.2f}"
    return view.t("measured.nats", value=signed(value, 3))


def _verdict(view: View, ranked: HeadRanks) -> str:
    rho, limit = ranked.agreement["weight"], likely(ranked.n_heads)
    if math.isnan(rho):  # with one visible key, its weight is 1 in every head
        return view.t("measured.agree_equal")
    return view.t("measured.agree", rho=fixed(rho), limit=fixed(limit), count=ranked.n_heads)


EXHIBIT = Exhibit(
    measured, show, inputs={"position": _position}, open=is_open, wait=Wait(after="heads.matter")
)
