"""certify() names the cause: each fault is planted, and the pattern of findings tells it apart."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from plain_transformers import (
    CachedText,
    Causal,
    PlainTranslator,
    TorchText,
    causal_with_offset,
    masked_softmax,
)
from torch import Tensor, nn

import explorer as hl
from explorer.analysis.cases import BY_ID
from explorer.cli import main
from explorer.notebook.diagnosis import Cause
from explorer.text import t
from models.positions import rotate, rotation_at

SRC, TGT = [7, 5, 9, 11, 13, 6, 2], [1, 8, 10, 4, 12]

RIGHT = """
import torch
from helper import table
def forward(ids):
    return (table(ids) * (ids != 0)[..., None]).cumsum(1)
def build():
    return forward, None, [3, 4, 5]
def keyed():
    return {"forward": forward, "src": None, "tgt": [3, 4, 5], "pad_id": 0, "capture": False}
def leaking():
    return lambda ids: forward(ids).flip(1), None, [3, 4, 5]
def other():
    return forward
value = 3
def failing():
    return {}["weights"]
def misspelt():
    return keyed() | {"padding": 0}
"""
HELPER = """
import torch
def table(ids):
    return torch.eye(8)[ids]
"""


class Changed(TorchText):
    """A causal model of one text in which `change` acts on the embedded stream."""

    def __init__(
        self, change: Callable[[Tensor], Tensor], causal: bool = True, pads: bool = True
    ) -> None:
        super().__init__(causal)
        self.change, self.pads = change, pads

    def forward(self, ids: Tensor) -> Tensor:
        n = ids.shape[1]
        mask = torch.ones(n, n, dtype=torch.bool).triu(1) if self.causal else None
        pads = ids == 0 if self.pads else None
        x = self.change(self.embed(ids))
        return self.out(self.inner(x, mask=mask, src_key_padding_mask=pads))


def normed(axis: int) -> Callable[[Tensor], Tensor]:
    return lambda x: (
        (x - x.mean(axis, keepdim=True)) / (x.std(axis, keepdim=True, unbiased=False) + 1e-3)
    )


def convolved(x: Tensor) -> Tensor:
    """Each position mixed with its neighbours, the next one included."""
    return x + nn.functional.pad(x, (0, 0, 0, 1))[:, 1:]


def from_the_end(x: Tensor) -> Tensor:
    places = torch.arange(x.shape[1]).flip(0)[:, None] + torch.arange(x.shape[2])
    return x + places.sin()


class Sideways(nn.Module):
    """`batch_first` was forgotten."""

    def __init__(self, masked: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.masked = nn.Embedding(20, 16), masked
        self.inner = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(16, 2, 32), 2, enable_nested_tensor=False
        )
        self.out = nn.Linear(16, 20)

    def forward(self, ids: Tensor) -> Tensor:
        n = len(ids)
        mask = torch.ones(n, n, dtype=torch.bool).triu(1) if self.masked else None
        return self.out(self.inner(self.embed(ids), mask=mask))


def per_head(scores: Tensor, keep: Tensor) -> Tensor:
    return BY_ID["padding_per_head"].variant(scores, keep[:, 0, 0])


def top_left(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def unmasked_steps(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    whole = q.shape[2] == k.shape[2]
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=whole)


def grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Two groups of two heads; a cached step pairs each head with another group."""
    whole = q.shape[2] == k.shape[2]

    def spread(x: Tensor) -> Tensor:
        x = x[:, :2]
        return x.repeat_interleave(2, 1) if whole else x.repeat(1, 2, 1, 1)

    return causal_with_offset(q, spread(k), spread(v))


def rotated(wrong: Callable[[Tensor, int], Tensor], q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """RoPE over unrotated cached keys; in a cached step `wrong` rotates the queries."""
    past = k.shape[2] - q.shape[2]
    return causal_with_offset(wrong(q, past) if past else at(q, 0), at(k, 0), v)


def at(x: Tensor, first: int) -> Tensor:
    return rotate(x, rotation_at(torch.arange(first, first + x.shape[2]), 4))


def halves(x: Tensor, first: int) -> Tensor:
    order = torch.tensor([0, 2, 1, 3])
    return at(x[..., order], first)[..., order]


def own_values(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The values of a cached step belong to other keys."""
    return causal_with_offset(q, k, v if q.shape[2] == k.shape[2] else v.flip(2))


CACHED: dict[Causal, Cause] = {
    top_left: "is_causal_cache",
    unmasked_steps: "is_causal_cache",
    grouped: "cache_heads",
    partial(rotated, lambda x, past: at(x, 0)): "cache_positions",
    partial(rotated, halves): "cache_positions",
    own_values: "cache",
}

OF_TEXT: list[tuple[Callable[[], nn.Module], dict[str, Any], tuple[Cause, ...]]] = [
    (lambda: Changed(normed(1)), {}, ("outside_future",)),
    (lambda: Changed(convolved), {}, ("outside_future",)),
    (lambda: Changed(normed(0)), {}, ("rows",)),
    (lambda: Sideways(True), {}, ("rows",)),
    (lambda: Sideways(False), {}, ("rows",)),
    (lambda: Sideways(True), {"pad_id": None}, ("rows",)),
    (lambda: Changed(from_the_end), {}, ("length",)),
    (lambda: Changed(normed(1), causal=False), {"causal": False}, ("outside_padding",)),
    (lambda: Changed(lambda x: x, causal=False, pads=False), {"causal": False}, ("pad_visible",)),
    (lambda: Changed(lambda x: x, causal=False), {}, ("no_mask",)),
    (lambda: Changed(normed(1)), {"capture": False}, ("ahead_unseen",)),
    (
        lambda: Changed(lambda x: x, causal=False, pads=False),
        {"causal": False, "capture": False},
        ("pads_unseen",),
    ),
    (lambda: TorchText(causal=True, positions=True), {}, ("left_positions",)),
    *(
        (partial(CachedText, attend), {"pad_id": None}, (cause,))
        for attend, cause in CACHED.items()
    ),
]


@pytest.mark.parametrize(("build", "options", "causes"), OF_TEXT)
def test_the_cause_of_a_fault_in_a_model_of_one_text(build, options, causes) -> None:
    result = hl.certify(build().eval(), None, TGT, **options)
    assert result.causes == causes, result.report()


def by_equation(equation: str, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention of two groups of two heads; of each group the first keys, without an r."""
    left, right, scores = re.split(",|->", equation)
    own = "bgrkd" if "r" in right else "bgkd"
    q, k, v = (x.unflatten(1, (2, 2)) for x in (q, k, v))
    k, v = (torch.einsum(f"{own}->{right}", x if "r" in right else x[:, :, 0]) for x in (k, v))
    raw = torch.einsum(equation, torch.einsum(f"bgrqd->{left}", q), k) / 2
    sizes = dict(zip(scores, raw.shape, strict=True))
    keep = torch.ones(sizes["q"], sizes["k"], dtype=torch.bool).tril(sizes["k"] - sizes["q"])
    keep = keep.reshape([sizes[letter] if letter in "qk" else 1 for letter in scores])
    weights = masked_softmax(raw, keep)
    return torch.einsum(f"{scores},{right}->bgrqd", weights, v).flatten(1, 2)


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    keep = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
    return masked_softmax(q @ k.transpose(-2, -1) / 2, keep) @ v


EQUATIONS = ("bqgrd,bkgrd->bgrqk", "bgrqd,bgkd->bgrqk", "bqgrd,bkgd->bqgrk")


@pytest.mark.parametrize("by", [by_hand, *(partial(by_equation, each) for each in EQUATIONS)])
@pytest.mark.parametrize("attend", list(CACHED)[2:])  # the others call torch's function
def test_the_cause_of_a_fault_in_cached_steps_written_by_hand(attend, by, monkeypatch) -> None:
    monkeypatch.setitem(globals(), "causal_with_offset", by)
    result = hl.certify(CachedText(attend).eval(), None, TGT, None)
    assert result.causes == (CACHED[attend],), result.report()


OF_MASKS: dict[tuple[str, str], tuple[Cause, ...]] = {
    ("own", "inverted_causal"): ("inverted_causal",),
    ("own", "after_softmax"): ("after_softmax",),
    ("own", "times_zero"): ("times_zero",),
    ("own", "added_ones"): ("no_mask",),
    ("own", "diagonal_open"): ("diagonal_open",),
    ("own", "diagonal_closed"): ("diagonal_closed",),
    ("own", "no_mask"): ("no_mask",),
    ("own", "first_item"): ("first_item",),
    ("own", "first_head"): ("first_head",),
    ("own", "empty_row_nan"): ("empty_row_nan",),
    ("across", "inverted_padding"): ("inverted_padding",),
    ("across", "after_softmax"): ("after_softmax",),
    ("across", "times_zero"): ("pad_visible",),
    ("across", "no_mask"): ("pad_visible",),
    ("across", "first_item"): ("pad_visible",),
    ("reading", "after_softmax"): ("after_softmax",),
    ("reading", "times_zero"): ("pad_visible",),
    ("reading", "first_item"): ("pad_visible",),
    ("across", "first_head"): ("first_head",),
    ("reading", "inverted_padding"): ("inverted_padding",),
    ("reading", "no_mask"): ("pad_visible",),
    ("reading", "diagonal_open"): ("hides_too_much",),
}

EXPECTED = {"diagonal_closed": {"open_cells"}, "diagonal_open": {"future_leak", "open_cells"}}


@pytest.mark.parametrize(("where", "fault"), OF_MASKS)
def test_the_cause_of_a_fault_in_a_mask(where, fault) -> None:
    result = hl.certify(PlainTranslator(**{where: BY_ID[fault].variant}).eval(), SRC, TGT)
    assert result.causes == OF_MASKS[where, fault], result.report()
    assert {f.name for f in result.broken} & EXPECTED.get(fault, {"padding_right", "padding_left"})


Steps = Callable[[Tensor, Any], Any]


def keeping(keep: Callable[[Tensor], Tensor]) -> Callable[[CachedText], Steps]:
    """Steps that keep only a part of the keys and values."""

    def steps(model: CachedText) -> Steps:
        def step(ids: Tensor, cache: Any) -> Any:
            logits, cache = model(ids, past_key_values=cache, use_cache=True)
            return logits, [(keep(k), keep(v)) for k, v in cache]

        return step

    return steps


def stale(model: CachedText) -> Steps:
    """Keeps what it read from one text to the next."""
    kept: list[Any] = [None]

    def step(ids: Tensor, cache: Any) -> Any:
        past = kept[0] if cache is None else cache
        logits, kept[0] = model(ids, past_key_values=past, use_cache=True)
        return logits, kept[0]

    return step


def first_row_for_all(model: CachedText) -> Steps:
    return lambda ids, cache: model(
        ids[:1].expand(ids.shape), past_key_values=cache, use_cache=True
    )


OF_STEPS: list[tuple[Callable[[CachedText], Steps], Cause]] = [
    (keeping(lambda x: x[:, :, -1:]), "cache_keys"),
    (keeping(lambda x: x[:, :, -3:]), "cache_keys"),
    (keeping(lambda x: x[:, :, :0]), "cache_keys"),
    (stale, "cache_keys"),
    (first_row_for_all, "rows"),
    (lambda model: lambda ids, cache: (model(ids)[:, 1:], 0), "error"),  # one logit too few
    (lambda model: lambda ids, cache: model(ids), "error"),  # no cache
]


@pytest.mark.parametrize(("steps", "cause"), OF_STEPS)
def test_the_cause_of_a_fault_in_the_steps_of_a_cache(steps, cause) -> None:
    model = CachedText().eval()
    result = hl.certify(lambda ids: model(ids), None, TGT, None, cached=steps(model))
    assert [finding.name for finding in result.broken] == ["cache"], result.report()
    assert result.causes == (cause,)


class Masked(PlainTranslator):
    """`change` gets the padding masks of source and target, Bool [batch, key]."""

    def __init__(self, change: Callable[[Tensor], Tensor], of: str) -> None:
        super().__init__()
        self.change, self.of = change, of

    def masks(self, src: Tensor, tgt: Tensor) -> tuple[Tensor, Tensor]:
        read, causal = super().masks(src, tgt)
        if self.of == "src":
            return self.change(src != 0)[:, None, None], causal
        return read, self.change(tgt != 0)[:, None, None] & torch.ones_like(causal).tril()


@pytest.mark.parametrize("of", ["src", "tgt"])
@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda valid: valid.flip(0), "other_row"),
        (lambda valid: valid.roll(1, 0), "other_row"),
        (lambda valid: valid[:1].expand(valid.shape), "other_row"),
        (lambda valid: valid.roll(1, 1), "shifted_padding"),
        (lambda valid: valid.roll(-1, 1), "shifted_padding"),
        # Neither inverted nor shifted: every second key is blocked, padding or not.
        (lambda valid: torch.arange(valid.shape[1]).expand(valid.shape) % 2 > 0, "unknown"),
    ],
)
def test_a_padding_mask_of_other_places(change, cause, of) -> None:
    result = hl.certify(Masked(change, of).eval(), SRC, TGT)
    assert result.causes == (cause,), result.report()


@pytest.mark.parametrize("where", ["own", "across"])
@pytest.mark.parametrize("added", [-1e9, -1.0])
def test_a_mask_added_after_the_softmax(added: float, where: str) -> None:
    def attend(scores: Tensor, keep: Tensor) -> Tensor:
        return scores.softmax(-1) + torch.zeros_like(scores).masked_fill(~keep, added)

    result = hl.certify(PlainTranslator(**{where: attend}).eval(), SRC, TGT)
    assert result.causes == ("added_after",), result.report()


@pytest.mark.parametrize("aligned", ["first", "last"])
def test_causal_cross_attention_is_named_and_nothing_else(aligned: str) -> None:
    def attend(scores: Tensor, keep: Tensor) -> Tensor:
        place = scores.shape[-1] - scores.shape[-2] if aligned == "last" else 0
        return masked_softmax(scores, keep & torch.ones_like(keep).tril(place))

    result = hl.certify(PlainTranslator(across=attend).eval(), SRC, TGT)
    assert result.causes == ("causal_cross",), result.report()


def test_two_faults_have_two_causes_and_an_error_one() -> None:
    model = PlainTranslator(own=BY_ID["diagonal_open"].variant, across=BY_ID["no_mask"].variant)
    assert hl.certify(model.eval(), SRC, TGT).causes == ("diagonal_open", "pad_visible")
    reading = PlainTranslator(
        reading=BY_ID["no_mask"].variant, own=BY_ID["diagonal_closed"].variant
    )
    assert hl.certify(reading.eval(), SRC, TGT).causes == ("pad_visible", "diagonal_closed")
    assert hl.certify(PlainTranslator(across=per_head).eval(), SRC, TGT).causes == ("error",)
    # Three rows fit three heads, without an error of their own.
    three = hl.certify(PlainTranslator(across=per_head, n_heads=3).eval(), SRC, TGT)
    assert three.causes == ("error", "other_row")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_report_says_the_cause_once_and_not_another(lang) -> None:
    report = hl.certify(Changed(normed(1)).eval(), None, TGT).report(lang)
    assert report.count(t("notebook.causes.outside_future", lang=lang)) == 1
    assert t("cases.no_mask.title", lang=lang) not in report
    report = hl.certify(Sideways(True).eval(), None, TGT).report(lang)
    assert "batch_first" in report
    assert t("cases.left_positions.title", lang=lang) not in report


class Echo(TorchText):
    """Trained on labels that were not shifted: it predicts the token that it reads."""

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids) + 100 * nn.functional.one_hot(ids, 20)


def test_a_model_that_predicts_its_own_input_is_noted() -> None:
    result = hl.certify(Echo(causal=True).eval(), None, TGT)
    assert result.passed
    assert "own_input" in result.notes
    assert "the one just read" in result.report()
    assert "own_input" not in hl.certify(TorchText(causal=True).eval(), None, TGT).notes


@pytest.fixture
def code(tmp_path: Path) -> str:
    (tmp_path / "helper.py").write_text(HELPER, encoding="utf-8")
    path = tmp_path / "my_model.py"
    path.write_text(RIGHT, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("function", "status"), [("build", 0), ("keyed", 0), ("leaking", 1)])
def test_the_exit_status_is_the_verdict(code, function, status, tmp_path, capsys) -> None:
    comment = tmp_path / "c.md"
    assert main(["certify", f"{code}:{function}", "--json", "--markdown", str(comment)]) == status
    assert json.loads(capsys.readouterr().out)["passed"] is (status == 0)
    assert ("Likely cause" in comment.read_text(encoding="utf-8")) is (status == 1)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{code}:nothing", "has no function nothing"),
        ("{code}:value", "has no function value"),
        ("{code}:other", "other returned function, expected (forward, src, tgt)"),
        ("{code}", "expected FILE.py:FUNCTION"),
        ("nowhere.py:build", "there is no file nowhere.py"),
        ("{code}:failing", "my_model.py, line 16: KeyError: 'weights'"),
        ("{code}:misspelt", "unexpected keyword argument 'padding'"),
    ],
)
def test_refusals(code, spec, message, capsys) -> None:
    assert main(["certify", spec.format(code=code)]) == 2
    assert message in capsys.readouterr().err
