"""The Blocks page: what its widgets change, what it says of this model, and its experts."""

from functools import partial
from pathlib import Path

import pytest
from foreign import Golden
from shown import charts, everything, filled, formulas, link, messages, numbers, panels, reading

from explorer import library
from explorer.analysis.blocks.residual import trained_flow
from explorer.runs.trace import trace
from explorer.text import examples, t
from models.foreign.finding import VARIABLE

MODERN = {
    "family": "decoder-only",
    "norm": "rmsnorm",
    "norm_placement": "pre",
    "final_norm": True,
    "ffn": "swiglu",
}


@pytest.fixture(scope="session")
def shelf(tmp_path_factory, save_small) -> Path:
    """A translator, a modern writer, and three twins that differ in where their norm stands."""
    folder = tmp_path_factory.mktemp("blocks")
    save_small(folder / "en-zh")
    save_small(folder / "modern", **MODERN)
    for name, place in (("post", "post"), ("pre", "pre"), ("branch", "sublayer")):
        save_small(folder / f"twin-deep-{name}", norm_placement=place, n_encoder_layers=2)
    return folder


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("model", ["relu", "gelu", "swiglu"])
def test_the_formula_of_the_hidden_units_is_that_of_the_model(
    open_page, save_small, tmp_path, monkeypatch, model, bias
):
    save_small(tmp_path / "en-zh", ffn=model, bias=bias)
    monkeypatch.setattr(library, "CHECKPOINTS", tmp_path)
    at = open_page("blocks", part="hidden")
    at.segmented_control(key="model.more").set_value("more").run()
    line = formulas(at)
    net = library.open_model("en-zh", tmp_path).model.get_submodule("encoder.blocks.0.ffn")
    biases = {name.split(".")[0][2:] for name, _ in net.named_parameters() if "bias" in name}
    shown = {name for name in ("gate", "up", "down") if rf"b_\mathrm{{{name}}}" in line}
    assert shown == biases
    assert bool(biases) == bias
    weights = {name.split(".")[0][2:] for name, _ in net.named_parameters()}
    assert weights == {name for name in ("gate", "up", "down") if rf"W_\mathrm{{{name}}}" in line}
    assert {"relu": "ReLU", "gelu": "GELU", "swiglu": "SiLU"}[model] in line


def test_why_the_sum_is_told_from_what_is_measured_at_this_depth(open_page):
    for depth, are_alike in (("12", True), ("1", False)):
        at = open_page("blocks", part="residual", depth=depth)
        said = filled(at, "blocks.read_without_sum")
        assert float(said["spread_on"].removesuffix(" %")) > 20
        assert (float(said["spread_off"].removesuffix(" %")) < 1) == are_alike
        (chart,) = charts(at, "blocks.without_sum.gradient")
        gradients = [numbers(line["y"])[0] for line in chart["data"]]
        shown = [float(said["gradient_on"]), float(said["gradient_off"])]
        assert shown == pytest.approx(gradients, abs=0.006)


def test_each_norm_counts_its_statistics_and_an_unreadable_sentence_is_said(open_page):
    at = open_page("blocks", beside="She reads.\nWe went to the park yesterday.")
    for norm, count in (("batchnorm", "24 of each"), ("rmsnorm", "in all")):
        at.segmented_control(key="blocks.norm").set_value(norm).run()
        assert count in everything(at)
        assert at.query_params["norm"] == norm
        assert everything(open_page("blocks", **link(at))) == everything(at)
    at.segmented_control(key="model.more").set_value("more").run()
    assert "Your input and 2 others" in everything(at)
    at = open_page("blocks", beside="a b " * 240)
    assert "the limit is" in messages(at)


def test_one_token_predicts_no_other_and_is_all_that_batch_norm_sees(open_page, add_own):
    alone = {"model": "my-gpt2", "text": "a"}
    at = open_page("blocks", part="residual", **alone)
    assert t("problems.one_token", lang="en") in everything(at)
    assert "**100 %** on average under BatchNorm" in everything(open_page("blocks", **alone))


def test_gamma_depth_and_the_last_norm_change_the_numbers(open_page):
    at = open_page("blocks", gamma="100-100-100-100-100-100")
    assert "10⁻" in filled(at, "blocks.read_backward")["wrong"]  # equal γ hide the bug
    at.slider(key="blocks.gamma.2").set_value(2.0).run()
    assert at.query_params["gamma"] == "100-100-200-100-100-100"
    said = filled(at, "blocks.read_backward")
    assert "10⁻" in said["error"]  # by hand: rounding
    assert float(said["wrong"]) > 0.01
    at = open_page("blocks", part="residual", depth="3")
    said = reading(at, "the residual stream has size")
    at.slider(key="blocks.depth").set_value(6).run()
    assert at.query_params["depth"] == "6"
    deeper = reading(at, "the residual stream has size")
    assert "After 6 blocks" in deeper
    assert deeper != said
    at.toggle(key="blocks.final").set_value(False).run()
    assert at.query_params["final"] == "0"
    assert reading(at, "the residual stream has size") != deeper


def test_the_trained_twins_stand_beside(open_page):
    at = open_page("blocks", part="residual", depth="2")
    assert t("blocks.twins_note", lang="en") in everything(at)
    said = filled(at, "blocks.read_twins")
    for name, place in (("post", "post"), ("pre", "pre"), ("branch", "sublayer")):
        loaded = library.open_model(f"twin-deep-{name}", library.CHECKPOINTS)
        flow = trained_flow(loaded, trace(loaded, examples("en-zh")["first"][0]))
        assert said[f"{place}_loss"] == f"{float(flow.loss):.2f}"
    assert charts(at, "blocks.fresh.stream")
    assert charts(at, "blocks.twins.stream")


def test_hidden_units_of_a_layer(open_page):
    words = partial(t, "blocks", lang="en")
    at = open_page("blocks", part="hidden")
    assert {each["title"] for each in panels(at)} == {words("pre"), words("post")}
    before = reading(at, "responds most")
    at.segmented_control(key="blocks.stream").set_value("tgt").run()
    other = 1 - at.selectbox(key="blocks.layer").value
    at.selectbox(key="blocks.layer").select(other).run()
    assert at.query_params["layer"] == str(other + 1)
    assert at.query_params["site"] == "decoder"
    assert reading(at, "responds most") != before
    gated = open_page("blocks", part="hidden", model="modern")
    assert {each["title"] for each in panels(gated)} == {*map(words, ("gate", "up", "product"))}
    assert "of all gate values here" in everything(gated)


def test_activations_can_be_seen_as_differences(open_page):
    at = open_page("blocks", part="activations")
    at.segmented_control(key="blocks.curves").set_value("difference").run()
    again = open_page("blocks", **link(at))
    assert again.segmented_control(key="blocks.curves").value == "difference"
    assert charts(again) == charts(at)


def test_the_gradient_is_that_of_the_models_norm_or_the_chosen_one(open_page):
    def title(norm: str) -> str:
        return t("blocks.backward", lang="en", norm=norm)

    assert title("LayerNorm") in everything(open_page("blocks", part="norms"))
    for asked, norm in (({}, "RMSNorm"), ({"norm": "layernorm"}, "LayerNorm")):
        words = everything(open_page("blocks", part="norms", model="modern", **asked))
        assert title(norm) in words
        assert ("Gradients of β" in words) == (norm == "LayerNorm")  # the other has none


def test_the_page_shows_the_router_and_what_an_expert_does(open_page, tmp_path, monkeypatch):
    Golden.load("qwen2_moe").write(tmp_path / "my-experts", "own")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    asked = {"model": "my-experts", "text": "We went to the park.", "part": "experts"}
    at = open_page("blocks", **asked)
    assert "to no other more; each to 3." in everything(at)
    (drawn,) = panels(at, "blocks.experts")
    weights = drawn["cells"]
    assert ((weights[:, :5] > 0).sum(1) == 3).all()
    assert ((weights[:, 5] > 0) & (weights[:, 5] < 1)).all()
    assert drawn["columns"]["tokens"][-1] == "shared"
    off = everything(open_page("blocks", **asked, experts_off="1-2-3-4-5-6"))
    assert "with these experts off, it predicts" in off
    whole = open_page("blocks", part="experts")
    assert "have no router" in everything(whole)
