"""certify(): no false alarm on right models, and every fault of the Clinic found in a plain one."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from certifying import BY_ID
from plain_transformers import PlainTranslator, TorchText, TorchTranslator, masked_softmax
from torch import Tensor, nn

import explorer as hl
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
def test_no_false_alarm_on_nn_transformer(
    batch_first: bool, norm_first: bool, bool_masks: bool, more: dict[str, Any]
) -> None:
    model = TorchTranslator(batch_first=batch_first, norm_first=norm_first, **more).eval()
    model.bool_masks = bool_masks
    result = hl.certify(model, SRC, TGT, capture=True)
    assert result.passed, result.report()
    assert len(result.findings) == 11
    assert result.left_out == {}


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("seen", [True, False])
def test_no_false_alarm_on_nn_transformer_encoder(
    causal: bool, norm_first: bool, seen: bool
) -> None:
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
    result = hl.certify(PlainTranslator().double(), SRC, TGT, pad_id=None)
    assert result.passed
    assert result.left_out["padding_left"] == "no_pad"
    assert result.findings[0].tolerance == 1e-8


FAULTS = {
    "inverted_causal": ("own", "future_leak"),
    "inverted_padding": ("reading", "padding_right"),
    "after_softmax": ("own", "future_leak"),
    "times_zero": ("own", "future_leak"),
    "added_ones": ("own", "future_leak"),
    "diagonal_open": ("own", "future_leak"),
    "diagonal_closed": ("own", "open_cells"),
    "no_mask": ("own", "future_leak"),
    "first_item": ("own", "future_leak"),
    "first_head": ("own", "future_leak"),
}


# A residual stream hides from outside that a token does not see itself.
@pytest.mark.parametrize(
    ("fault", "seen"),
    [(fault, True) for fault in FAULTS]
    + [(fault, False) for fault in FAULTS if fault != "diagonal_closed"],
)
def test_every_mask_fault_of_the_clinic_is_found(fault: str, seen: bool) -> None:
    where, promise = FAULTS[fault]
    model = PlainTranslator(**{where: BY_ID[fault].wrong}).eval()
    result = hl.certify(model, SRC, TGT, capture=seen)
    assert promise in names(result), result.report()
    worst = next(finding for finding in result.broken if finding.name == promise)
    assert worst.error or worst.where is not None
    with pytest.raises(AssertionError, match="Usual cause"):
        assert_masks(model, SRC, TGT, capture=seen)


def test_the_list_of_faults_is_the_clinics() -> None:
    planted = {
        pitfall.id
        for pitfall in BY_ID.values()
        if pitfall.plant is not None and pitfall.group in ("masks", "shapes")
    }
    # extra_axis swaps heads and positions, and has a test of its own.
    assert planted - {"extra_axis"} == set(FAULTS)


@pytest.mark.parametrize("fault", ["inverted_padding", "after_softmax", "times_zero", "first_item"])
@pytest.mark.parametrize("where", ["across", "reading"])
def test_faults_of_padding_in_the_encoder_and_across(fault: str, where: str) -> None:
    model = PlainTranslator(**{where: BY_ID[fault].wrong}).eval()
    result = hl.certify(model, SRC, TGT, capture=True)
    assert names(result) & {"padding_right", "padding_left"}, result.report()
    assert names(result) & {"pad_mass", "cross_mask", "row_sums"}, result.report()


class _Extra(PlainTranslator):
    """The mask gets an axis too many, and heads and positions change places."""

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        for layer in self.own:
            layer.forward = self._swapped(layer)
        return super().forward(src, tgt)

    def _swapped(self, layer: Any) -> Callable[..., Tensor]:
        def forward(x: Tensor, memory: Tensor, keep: Tensor) -> Tensor:
            q, k, v = (
                part(x).unflatten(-1, (4, 4)).transpose(1, 2) for part in list(layer.qkv)[:3]
            )
            from explorer.analysis.clinic.shapes import mask_with_an_extra_axis

            return layer.qkv[3](mask_with_an_extra_axis(q, k, v, keep[:1]))

        return forward


def test_a_mask_with_an_extra_axis_is_found() -> None:
    assert names(hl.certify(_Extra().eval(), SRC, TGT)) & {"future_leak", "prefix"}


def test_nan_of_the_fused_path_is_a_note() -> None:
    result = hl.certify(TorchText(causal=True).eval(), None, TGT)
    assert result.passed
    assert result.notes == ("fused_nan",)
    assert "set_fastpath_enabled" in result.report()
    assert hl.certify(TorchText(causal=False).eval(), None, TGT, causal=False).notes == ()


def test_positions_counted_over_padding_are_found_on_the_left_only() -> None:
    result = hl.certify(TorchText(causal=True, positions=True).eval(), None, TGT)
    assert names(result) == {"padding_left"}
    assert "left_positions" in result.report()
    again = hl.certify(
        TorchText(causal=True, positions=True).eval(), None, TGT, without=["padding_left"]
    )
    assert again.passed
    assert again.left_out["padding_left"] == "not_asked"


def test_visible_padding_is_found_by_its_content() -> None:
    model = PlainTranslator(across=lambda scores, keep: scores.softmax(-1)).eval()
    result = hl.certify(model, SRC, TGT, capture=True)
    assert {"pad_content", "padding_right", "cross_mask"} <= names(result)
    place = next(f for f in result.broken if f.name == "cross_mask").where
    assert place is not None
    assert place.name.startswith("across.")
    assert place.key in (7, 8, 9, 0, 1, 2)


def test_a_callable_without_modules_is_enough() -> None:
    table = torch.randn(20, 20, generator=torch.Generator().manual_seed(0))

    def forward(ids: Tensor) -> Tensor:
        return (table[ids] * (ids != 0)[..., None]).cumsum(1)

    result = hl.certify(forward, None, TGT)
    assert result.passed, result.report()
    assert result.left_out["pad_content"] == "no_embedding"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_report_names_place_size_cause_and_the_clinics_lines(lang: str) -> None:
    result = hl.certify(PlainTranslator(own=BY_ID["no_mask"].wrong).eval(), SRC, TGT)
    report = result.report(lang)
    assert t("certify.future_leak.broken", lang=lang) in report
    assert t("clinic.no_mask.title", lang=lang) in report
    assert BY_ID["no_mask"].wrong_source.splitlines()[0] in report
    assert t("certify.where", lang=lang, where="logits")[:-6] in report
    assert "<pre>" in result._repr_html_()
    if lang == "en":
        assert str(result) == report


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tgt": [1, 0, 2]}, "tgt holds the padding id 0"),
        ({"src": [0, 1]}, "src holds the padding id 0"),
        ({"tgt": []}, "expected a row of token ids"),
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


def test_an_error_on_padded_rows_is_a_finding() -> None:
    def only_alone(src: Tensor, tgt: Tensor) -> Tensor:
        if len(tgt) == 3:
            raise RuntimeError("sizes differ")
        return PlainTranslator().eval()(src, tgt)

    broken = {finding.name: finding.error for finding in hl.certify(only_alone, SRC, TGT).broken}
    assert broken["padding_right"] == "RuntimeError: sizes differ"


def test_half_precision_and_other_containers() -> None:
    class Output:
        def __init__(self, logits: Tensor) -> None:
            self.logits = logits

    model = PlainTranslator().bfloat16().eval()
    assert hl.certify(
        lambda s, g: Output(model(s, g)), torch.tensor([SRC]), torch.tensor(TGT)
    ).passed
    assert hl.certify(lambda src, tgt: (model(src, tgt), None), SRC, TGT).passed
    assert isinstance(model, nn.Module)
    assert masked_softmax(torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.bool)).item() == 0
