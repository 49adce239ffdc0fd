"""certify(): no false alarm on right models, and every common bug found in a plain one."""

from typing import Any

import pytest
import torch
from plain_transformers import (
    CachedText,
    PlainTranslator,
    TorchAttentions,
    TorchText,
    TorchTranslator,
    masked_softmax,
)
from torch import Tensor

import explorer as hl
from explorer.analysis.cases import BY_ID
from explorer.testing import assert_masks
from explorer.text import t

SRC, TGT = [7, 5, 9, 11, 13, 6, 2], [1, 8, 10, 4, 12]


def names(result: Any) -> set[str]:
    return {finding.name for finding in result.broken}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("bool_masks", [True, False])
@pytest.mark.parametrize("more", [{}, {"bias": False}, {"activation": "gelu"}])
def test_no_false_alarm_on_nn_transformer(batch_first, norm_first, bool_masks, more) -> None:
    model = TorchTranslator(batch_first=batch_first, norm_first=norm_first, **more).eval()
    model.bool_masks = bool_masks
    result = hl.certify(model, SRC, TGT, capture=True)
    assert result.passed, result.report()
    assert len(result.findings) == 12
    assert result.left_out == {"cache": "no_cache"}
    assert "finite_fill" not in result.notes


@pytest.mark.parametrize("n_src", range(2, 9))  # an added key makes one length look like another
@pytest.mark.parametrize("more", [{}, {"add_zero_attn": True}, {"add_bias_kv": True}])
def test_no_false_alarm_on_multi_head_attention(n_src: int, more: dict[str, Any]) -> None:
    model = TorchAttentions(**more).eval()
    result = hl.certify(model, [3] * n_src, TGT)
    assert result.passed, result.report()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("seen", [True, False])
def test_no_false_alarm_on_nn_transformer_encoder(causal, norm_first, seen) -> None:
    model = TorchText(causal, norm_first).eval()
    result = hl.certify(model, None, TGT, causal=causal, capture=seen)
    assert result.passed, result.report()
    if seen:
        mask = result.masks["inner.layers.0.self_attn"][0]
        real = torch.tensor([[True] * 5 + [False] * 2])
        kept = torch.ones(7, 7).tril().bool() & real if causal else real.expand(7, 7)
        assert torch.equal(torch.tensor(mask), kept)


def test_no_false_alarm_on_a_plain_model_or_without_padding() -> None:
    assert_masks(PlainTranslator().eval(), SRC, TGT, capture=True)
    assert hl.certify(PlainTranslator().eval(), SRC, TGT).causes == ()
    result = hl.certify(PlainTranslator().double(), SRC, TGT, pad_id=None)
    assert result.passed
    assert result.left_out["padding_left"] == "no_pad"
    assert result.findings[0].tolerance == 1e-8


@pytest.mark.parametrize("scale", [1e3, 1e5, 1e7])  # open scores below those of usual fills
@pytest.mark.parametrize("where", ["own", "across", "reading"])
def test_sharp_scores_are_neither_closed_cells_nor_a_fill(scale: float, where: str) -> None:
    sharp = {where: lambda scores, keep: masked_softmax(scores * scale, keep)}
    result = hl.certify(PlainTranslator(**sharp).eval(), SRC, TGT)
    assert "open_cells" in {finding.name for finding in result.findings}
    assert result.passed, result.report()
    assert not result.notes


@pytest.mark.parametrize("fault", ["small_fill", "empty_row_nan", "empty_row_uniform"])
def test_a_fill_is_found_where_it_shows_and_named_where_it_does_not(fault: str) -> None:
    """In single precision, -1e4 hides as well as -inf, except for low scores and empty rows."""
    wrong = BY_ID[fault].variant
    result = hl.certify(PlainTranslator(own=wrong).eval(), SRC, TGT)
    if fault == "empty_row_nan":
        assert "padding_left" in names(result)
        return
    assert result.passed, result.report()
    assert result.notes == ("finite_fill",)
    assert result.fill is not None
    assert result.fill.score == pytest.approx(-1e9 if fault == "empty_row_uniform" else -1e4, 1e-3)
    assert ("(−10,000)" in result.report()) is (fault == "small_fill")
    if fault != "empty_row_uniform":
        low = PlainTranslator(own=lambda scores, keep: wrong(scores * 1e6, keep)).eval()
        assert {"future_leak", "padding_right"} & names(hl.certify(low, SRC, TGT))


@pytest.mark.parametrize("where", ["own", "across", "reading"])
@pytest.mark.parametrize("fill", [-12.0, -30.0, -150.0, -4999.0])  # the last two underflow
def test_a_fill_that_leaks_less_than_the_tolerance_is_named(fill: float, where: str) -> None:
    def attend(scores: Tensor, keep: Tensor) -> Tensor:
        return scores.masked_fill(~keep, fill).softmax(-1)

    result = hl.certify(PlainTranslator(**{where: attend}).eval(), SRC, TGT)
    assert result.passed, result.report()
    assert result.notes == ("finite_fill",)
    assert result.fill is not None
    assert (result.fill.name.split(".")[0], result.fill.score) == (where, fill)
    assert (result.fill.weight > 0) is (fill > -100)
    assert (
        "rounds to 0" in result.report() if fill < -100 else "a weight of up to" in result.report()
    )


def test_one_row_for_each_head_is_found_and_a_fill_beyond_half_precision_is_an_error() -> None:
    def own(scores: Tensor, keep: Tensor) -> Tensor:
        return scores.masked_fill(~keep[0, 0].unsqueeze(1), -1e9).softmax(-1)

    def half(scores: Tensor, keep: Tensor) -> Tensor:
        return scores.half().masked_fill(~keep, -1e9).softmax(-1)

    assert "future_leak" in names(hl.certify(PlainTranslator(own=own, n_heads=5).eval(), SRC, TGT))
    with pytest.raises(ValueError, match="must match the size"):  # other numbers do not fit
        hl.certify(PlainTranslator(own=own, n_heads=4).eval(), SRC, TGT)
    with pytest.raises(ValueError, match=r"raised RuntimeError: .*Half"):
        hl.certify(PlainTranslator(own=half).eval(), SRC, TGT)


def test_a_cache_is_tested_by_itself_or_by_its_steps() -> None:
    right = hl.certify(CachedText().eval(), None, TGT, pad_id=None)
    assert right.passed, right.report()
    assert "cache" in {finding.name for finding in right.findings}
    wrong = CachedText(BY_ID["is_causal_cache"].variant).eval()
    result = hl.certify(wrong, None, TGT, pad_id=None)
    assert names(result) == {"cache"}
    (finding,) = result.broken
    assert finding.where is not None
    assert "is_causal_cache" in result.report()
    again = hl.certify(wrong, None, TGT, pad_id=None, without=["cache"])
    assert again.passed
    assert again.left_out["cache"] == "not_asked"
    alone = hl.certify(lambda ids: wrong(ids), None, TGT, pad_id=None)
    assert alone.left_out["cache"] == "no_cache"
    model = PlainTranslator().eval()

    def step(src: Tensor, tgt: Tensor, read: Tensor | None) -> tuple[Tensor, Tensor]:
        read = tgt if read is None else torch.cat([read, tgt], 1)
        return model(src, read)[:, -1], read

    result = hl.certify(model, SRC, TGT, cached=step)
    assert result.passed, result.report()
    assert result.left_out == {}
    assert "cache" in hl.certify(model, SRC, TGT, causal=False).left_out


def test_nan_of_the_fused_path_is_a_note() -> None:
    result = hl.certify(TorchText(causal=True).eval(), None, TGT)
    assert result.passed
    assert result.notes == ("fused_nan",)
    assert "set_fastpath_enabled" in result.report()
    assert hl.certify(TorchText(causal=False).eval(), None, TGT, causal=False).notes == ()


def test_a_callable_and_other_containers_and_half_precision_are_enough() -> None:
    table = torch.randn(20, 20, generator=torch.Generator().manual_seed(0))

    def forward(ids: Tensor) -> Tensor:
        return (table[ids] * (ids != 0)[..., None]).cumsum(1)

    result = hl.certify(forward, None, TGT)
    assert result.passed, result.report()
    assert result.left_out["pad_content"] == "no_embedding"

    class Output:
        def __init__(self, logits: Tensor) -> None:
            self.logits = logits

    model = PlainTranslator().bfloat16().eval()
    assert hl.certify(
        lambda s, g: Output(model(s, g)), torch.tensor([SRC]), torch.tensor(TGT)
    ).passed
    assert hl.certify(lambda src, tgt: (model(src, tgt), None), SRC, TGT).passed


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_report_names_place_size_cause_and_the_clinics_lines(lang: str) -> None:
    result = hl.certify(PlainTranslator(own=BY_ID["no_mask"].variant).eval(), SRC, TGT)
    report = result.report(lang)
    assert t("certify.future_leak.broken", lang=lang) in report
    assert t("cases.no_mask.title", lang=lang) in report
    assert "def no_mask(scores: Tensor, keep: Tensor) -> Tensor:" in report
    assert t("certify.where", lang=lang, where="logits")[:-6] in report
    assert "<pre>" in result._repr_html_()
    with pytest.raises(AssertionError, match="Likely cause"):
        assert_masks(PlainTranslator(own=BY_ID["no_mask"].variant).eval(), SRC, TGT, capture=False)
    if lang == "en":
        assert str(result) == report


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tgt": [1, 0, 2]}, "tgt holds the padding id 0"),
        ({"src": [0, 1]}, "src holds the padding id 0"),
        ({"tgt": []}, "expected a row of token ids"),
        ({"tgt": "text"}, "tgt: expected a row of token ids"),
        ({"tgt": [[1, 2], [3, 4]]}, "expected a row of token ids"),
        ({"without": ["future"]}, "without: future; expected future_leak"),
        ({"forward": lambda src, tgt: torch.zeros(3)}, r"returned shape \[3\]"),
        ({"forward": lambda src, tgt: tgt}, "expected a tensor of logits"),
        ({"forward": lambda src, tgt: torch.ones(*tgt.shape, 20)}, "do not depend"),
        ({"forward": lambda src, tgt: torch.rand(*tgt.shape, 20)}, "at the second run"),
        ({"forward": TorchText(causal=True).train(), "src": None}, r"model.eval\(\)"),
    ],
)
def test_refusals(given: dict[str, Any], message: str) -> None:
    asked = {"forward": PlainTranslator().eval(), "src": SRC, "tgt": TGT} | given
    with pytest.raises(ValueError, match=message):
        hl.certify(**asked)


def test_what_a_model_raises_says_what_was_asked_or_is_a_finding() -> None:
    model = PlainTranslator().eval()
    message = (
        r"forward\(src, tgt\) raised IndexError: .* in plain_transformers.py, line \d+, when it "
        r"was called with the sentence itself, src ids \[1, 7\] from 2 to 13 and tgt ids \[1, 2\] "
        r"from 1 to 900, Int64, on cpu; are all ids in the model's vocabulary\?"
    )
    with pytest.raises(ValueError, match=message) as raised:
        hl.certify(model, SRC, [1, 900])
    assert isinstance(raised.value.__cause__, IndexError)

    def only_alone(src: Tensor, tgt: Tensor) -> Tensor:
        if len(tgt) == 3:
            raise RuntimeError("sizes differ")
        return PlainTranslator().eval()(src, tgt)

    broken = {finding.name: finding.error for finding in hl.certify(only_alone, SRC, TGT).broken}
    assert broken["padding_right"] == "RuntimeError: sizes differ"


LONG = [1 + 7 * i % 18 for i in range(60)]


def _windowed(scores: Tensor, keep: Tensor) -> Tensor:
    n = scores.shape[-1]
    return masked_softmax(scores, keep & torch.ones(n, n).triu(-1).bool())  # two tokens


def _moved_down(src: Tensor, tgt: Tensor) -> Tensor:
    """The logits of each row in the next one: the row of the last token is lost."""
    logits = PlainTranslator().eval()(src, tgt)
    return torch.cat([logits[:, :1], logits[:, :-1]], 1)


CUT = {
    "window": (PlainTranslator(own=_windowed).eval(), (3, 0)),  # two layers reach two tokens
    "rows moved": (_moved_down, (1, 1)),
    "source cut": (lambda src, tgt: PlainTranslator().eval()(src[:, -4:], tgt), (4, 2)),
}
"""Models that lose tokens, and the output and the changed token that show it."""


@pytest.mark.parametrize("fault", CUT)
def test_a_token_that_reaches_nothing_is_found_without_weights(fault: str) -> None:
    forward, place = CUT[fault]
    result = hl.certify(forward, SRC, TGT, pad_id=None, capture=False)
    assert [finding.name for finding in result.broken] == ["needle"]
    (where,) = (finding.where for finding in result.broken)
    assert where is not None
    assert (where.query, where.key) == place
    assert hl.certify(forward, SRC, TGT, pad_id=None, without=["needle", "open_cells"]).passed


def test_a_window_that_is_named_is_no_fault() -> None:
    assert_masks(PlainTranslator(own=_windowed).eval(), SRC, TGT, window=2)
    assert_masks(PlainTranslator(own=_windowed).eval(), SRC, TGT, window=2, capture=False)


def test_a_change_that_fades_with_the_distance_is_not_judged() -> None:
    """Neither a recurrence nor a steep bias cuts anything off."""
    embed, recurrent = torch.nn.Embedding(20, 16), torch.nn.LSTM(16, 20, batch_first=True)
    fading = hl.certify(lambda ids: recurrent(embed(ids))[0], None, LONG, pad_id=None)

    def steep(scores: Tensor, keep: Tensor) -> Tensor:
        n = torch.arange(scores.shape[-1])
        return masked_softmax(scores - 8 * (n[:, None] - n).abs(), keep)

    steeper = hl.certify(PlainTranslator(own=steep).eval(), SRC, LONG)
    for result in (fading, steeper):
        assert result.passed, result.report()
        assert result.left_out["needle"] == "too_weak"
