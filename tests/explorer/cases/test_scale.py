"""The wrong scale of the scores: flatter weights, and a position bias that it leaves alone."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from explorer.analysis.cases import BUGS
from explorer.library import LoadedModel
from explorer.runs.rerun import rows_of
from explorer.runs.run import run
from explorer.runs.trace import Trace, trace
from explorer.text import LANGUAGES, t
from models.positions import PositionKind

(SCALE,) = (bug for bug in BUGS if bug.id == "model_scale")


def figures(traced: Trace | None) -> dict[str, tuple[float, ...]]:
    return {row.name: row.values for row in SCALE.compared(traced).rows}


def test_the_scale_of_the_model_flattens_every_row() -> None:
    shown = figures(None)
    (spread, right_spread), (entropy, right_entropy) = shown["score_spread"], shown["entropy"]
    assert right_spread == pytest.approx(0.99, abs=0.02)
    assert spread == pytest.approx(right_spread / math.sqrt(8))  # 512 / 64
    assert right_entropy == pytest.approx(2.37, abs=0.03)
    assert entropy == pytest.approx(2.72, abs=0.01)
    equal = shown["equal_entropy"]
    assert entropy < equal[0] == equal[1] == pytest.approx(math.log(16))


def test_flatter_need_not_be_uniform(translator: LoadedModel) -> None:
    """What is said of a wrong scale has to hold of heads that are sharp, too."""
    traced = trace(translator, "I love you.", "我爱你。")
    hooks = [site.hook("q") for site in translator.sites]
    sharp = replace(
        traced,
        activations=dict(traced.activations)
        | {hook: 30 * traced.activations[hook] for hook in hooks},
    )
    shown = figures(sharp)
    assert shown["entropy"][1] < shown["entropy"][0] < 0.8 * shown["equal_entropy"][1]
    for lang in LANGUAGES:
        said = t("cases.model_scale.symptom", lang=lang)
        assert "uniform" not in said
        assert "接近均匀" not in said


@pytest.mark.parametrize("positions", ["alibi", "t5", "sinusoidal"])
def test_a_bias_of_the_positions_is_not_scaled(
    tiny: Callable[..., LoadedModel], positions: PositionKind
) -> None:
    loaded = tiny("biased", positions=positions)
    traced = trace(loaded, "The cat sat on the mat.", "猫坐在垫子上。")
    site = next(site for site in loaded.sites if site.kind == "self" and site.stack == "decoder")
    scores = torch.tensor(traced.activations[site.hook("scores")])
    bias = torch.tensor(traced.activations.get(site.hook("bias"), 0.0))
    assert bool(bias.any()) == (positions != "sinusoidal")
    wrong = (scores - bias) / math.sqrt(loaded.config.n_heads) + bias

    # What is drawn is the pattern of these scores.
    shown = SCALE.compared(traced)
    keep = torch.tensor(traced.mask(site.name))
    pattern = wrong.masked_fill(~keep, -torch.inf).softmax(-1)
    assert shown.ways[0].site == site.name
    torch.testing.assert_close(shown.ways[0].picture, pattern)

    # What is planted makes the same scores, in the first layer, where the inputs are the same.
    rows = rows_of(traced)
    assert SCALE.plant is not None
    hook = site.hook("scores")
    planted = run(loaded.model, rows, {hook}, SCALE.plant(loaded.model, rows))[hook][0]
    torch.testing.assert_close(planted, wrong)


def test_the_bias_of_an_encoder_alone_is_left_alone_too(tiny: Callable[..., LoadedModel]) -> None:
    loaded = tiny("reader", family="encoder-only", positions="alibi")
    traced = trace(loaded, "The cat sat on the mat.")
    shown = SCALE.compared(traced)
    assert shown.ways[0].own, "an encoder alone has scores to scale, too"
    assert shown.ways[0].site == loaded.sites[0].name
    rows = rows_of(traced)
    assert SCALE.plant is not None
    hooks = {loaded.sites[0].hook(name) for name in ("scores", "bias")}
    before, after = (
        run(loaded.model, rows, hooks, *edits) for edits in ((), (SCALE.plant(loaded.model, rows),))
    )
    scores, bias = (loaded.sites[0].hook(name) for name in ("scores", "bias"))
    torch.testing.assert_close(after[bias], before[bias])
    torch.testing.assert_close(
        after[scores] - after[bias],
        (before[scores] - before[bias]) / 2,  # 4 heads
    )
