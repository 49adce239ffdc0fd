"""Five rankings of the words read for a generated word."""

from functools import partial

import numpy as np

from explorer.analysis.patching.deletion import HOW
from explorer.analysis.patching.gradients import gradients
from explorer.analysis.patching.network import rollout_network
from explorer.analysis.patching.patches import Progress
from explorer.analysis.patching.rankings import Rankings, rank
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.needs import OUTPUT
from explorer.exhibits.patching.choices import PatchingChoices
from explorer.exhibits.patching.flow import position_of
from explorer.exhibits.patching.graph import network
from explorer.exhibits.picking import pick_one
from explorer.figures.patching.effect_map import EffectBlock, effect_map
from explorer.numbers import fixed, signed


@cached
def rankings(run: Run, position: int, *, progress: Progress | None = None) -> Rankings:
    """Five rankings of the words read for a generated word. Raises InputProblem."""
    loaded, traced = cache.open_model(run.model), cache.trace(run)
    return rank(loaded, traced, position, network(run), progress)


def has_logits(view: View) -> bool:
    """Whether the model has probabilities, which the rankings are about."""
    return OUTPUT.met(view.loaded)


def show(ranked: Rankings | None, view: View) -> b.Blocks:
    """One strip of words per ranking, and how words are deleted to test them."""
    if ranked is None:
        return
    yield b.Title(view.t("patching.rankings_title"), large=True)
    if ranked.asked.words:
        yield from _strips(view, ranked)
    else:
        yield b.Hint(view.t("patching.no_words"))
    yield b.Code((rollout_network, gradients))
    yield b.Numbers(lambda: _numbers(view, ranked))


def _strips(view: View, ranked: Rankings) -> b.Blocks:
    """The rankings, each scaled to its own largest score."""
    tokens, stream = labels(view, ranked), ranked.asked.stream
    blocks = [
        EffectBlock(
            view.t(f"patching.rankings.{name}"),
            (scores / max(float(np.abs(scores).max(initial=0.0)), 1e-12))[None],
            [""],
            tokens,
            stream,
        )
        for name, scores in ranked.scores.items()
    ]
    draw = partial(effect_map, blocks, words=view.words("figures.rankings"))
    yield b.Chart("patching.strips", draw, view.t("patching.rankings_title"))
    slopes = ranked.slopes
    total, change = float(slopes.integrated.sum()), slopes.logprob - slopes.baseline
    sums = {"total": signed(total), "difference": signed(change), "steps": slopes.n_points}
    yield b.Note(view.t("patching.closes", **sums))
    if "flow" not in ranked.scores:
        yield b.Note(view.t("patching.no_flow"))
    now, help = view.choices(PatchingChoices).how, view.t("patching.how_help")
    yield pick_one(view, "patching.how", HOW, now, said="patching.hows.", help=help)


def labels(view: View, ranked: Rankings) -> list[str]:
    """The ranked words."""
    asked = ranked.asked
    row = view.trace.src_str_tokens if asked.stream == "src" else view.trace.tgt_str_tokens
    return [row[word] for word in asked.words]


def _numbers(view: View, ranked: Rankings) -> dict[str, list[object]]:
    return {
        view.t("patching.token"): list(labels(view, ranked)),
        **{
            view.t(f"patching.rankings.{name}"): [fixed(float(each), 4) for each in scores]
            for name, scores in ranked.scores.items()
        },
    }


EXHIBIT = Exhibit(
    rankings,
    show,
    inputs={"position": position_of},
    working="patching.ranking",
    after="patching.graph",
    open=has_logits,
)
