"""Each fault of the clinic: the figure that it shows, worked by hand, and the right lines."""

import ast
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from explorer.analysis.clinic import PITFALLS, Figure, Pitfall, symptom
from explorer.analysis.clinic.card import causal_keep, fixed_scores, padded_keep
from explorer.analysis.clinic.fills import fill_table
from explorer.analysis.clinic.senses import masked_softmax
from explorer.library import LoadedModel
from explorer.runs.trace import trace
from models.attention import attend
from models.masks import causal_mask
from models.positions import sinusoidal_table

BY_ID = {pitfall.id: pitfall for pitfall in PITFALLS}
ROOT = Path(__file__).resolve().parents[3]


def figure(fault: str, name: str, of: str = "") -> Figure:
    figures = BY_ID[fault].demonstrate(None).figures
    (found,) = (each for each in figures if (each.name, each.of) == (name, of))
    return found


def close(found: Tensor, expected: list[float], atol: float = 5e-4) -> None:
    wanted = torch.tensor(expected).to(found).expand(found.shape)
    torch.testing.assert_close(found, wanted, atol=atol, rtol=0)


# All cards.


def test_ids_are_unique_and_the_list_is_whole() -> None:
    assert len(BY_ID) == len(PITFALLS) == 34


@pytest.mark.parametrize("pitfall", PITFALLS, ids=lambda pitfall: pitfall.id)
def test_wrong_and_right_differ_in_the_figures_shown(pitfall: Pitfall) -> None:
    shown = pitfall.demonstrate(None)
    assert not shown.own
    assert any(f.wrong != f.right for f in shown.figures)  # NaN differs from everything
    assert all(math.isfinite(f.right) for f in shown.figures)
    if shown.wrong is not None and shown.right is not None:
        assert shown.wrong.shape == shown.right.shape
        assert np.isfinite(shown.right).all()
        assert not np.array_equal(shown.wrong, shown.right)


@pytest.mark.parametrize("pitfall", PITFALLS, ids=lambda pitfall: pitfall.id)
def test_the_code_shown_is_a_few_lines_that_run(pitfall: Pitfall) -> None:
    for source in (pitfall.wrong_source, pitfall.right_source):
        (function,) = ast.parse(source).body
        assert isinstance(function, ast.FunctionDef)
        assert ast.get_docstring(function) is None  # the page says it in the reader's language
        assert len(source.splitlines()) <= 11
    assert pitfall.wrong.__doc__
    assert pitfall.right.__doc__
    assert pitfall.wrong_source != pitfall.right_source


@pytest.mark.parametrize("pitfall", PITFALLS, ids=lambda pitfall: pitfall.id)
@pytest.mark.parametrize("kind", ["translator", "writer"])
def test_a_demonstration_takes_the_sentence_of_the_reader(
    pitfall: Pitfall, kind: str, request: pytest.FixtureRequest
) -> None:
    loaded: LoadedModel = request.getfixturevalue(kind)
    traced = trace(loaded, "The cat sat.", "猫坐", pads=2)
    shown = pitfall.demonstrate(traced)
    assert shown.figures
    assert all(math.isfinite(f.right) for f in shown.figures)
    if shown.own and shown.right is not None and shown.right.ndim == 3:
        assert shown.right.shape[-1] in (len(traced.src_tokens), len(traced.tgt_tokens))
    assert pitfall.demonstrate(traced).own == shown.own  # and the Trace is as it was


def test_the_wrong_code_is_imported_by_nothing_but_the_pages_that_show_it() -> None:
    # The claim about fills puts the clinic's own wrong lines to the test; the Masks page compares
    # notations and fills with the clinic's right ones; `certify` names the line that shows a fault.
    importers = [
        path.relative_to(ROOT).as_posix()
        for folder in ("models", "explorer")
        for path in (ROOT / folder).rglob("*.py")
        if path.parent != ROOT / "explorer/analysis/clinic"
        and "analysis.clinic" in path.read_text(encoding="utf-8")
    ]
    showing = {
        "explorer/analysis/claims/attention.py",
        "explorer/analysis/masks/conventions.py",
        "explorer/analysis/masks/fills.py",
        "explorer/notebook/certify.py",
        "explorer/pages/masks/fills.py",
        "explorer/pages/clinic/__init__.py",
        "explorer/pages/clinic/cached.py",
    }
    assert set(importers) == showing


def test_the_right_pattern_is_that_of_the_models() -> None:
    q, k, v = (fixed_scores(2, 3, 5, 4, seed) for seed in range(3))
    keep = torch.rand(2, 3, 5, 5) > 0.5
    keep[0, 0, 0] = False  # a row with nothing too
    right = attend(q, k, v, keep)[1]
    torch.testing.assert_close(masked_softmax(q @ k.transpose(-2, -1) / 2, keep), right)


# Masks that say the wrong thing.


def test_an_inverted_causal_mask_shows_the_future_only() -> None:
    scores = fixed_scores()
    keep = causal_keep(scores)
    pattern = BY_ID["inverted_causal"].wrong(scores, keep)
    n = scores.shape[-1]
    close((pattern * ~keep).sum(-1)[..., :-1], [1.0] * (n - 1))
    assert (pattern * keep)[..., :-1, :].max() == 0
    close(pattern[..., -1, :], [1 / n] * n)  # the last row has no future
    assert figure("inverted_causal", "hidden_mass") == Figure("hidden_mass", 1.0, 0.0)


def test_an_inverted_padding_mask_shows_the_padding_only() -> None:
    scores = fixed_scores(n_query=6, n_key=6)
    keep = padded_keep(scores)
    wrong = BY_ID["inverted_padding"].wrong
    close((wrong(scores, keep) * ~keep).sum(-1), [1.0] * 6)
    close(wrong(scores, torch.ones_like(keep)), [1 / 6] * 6)  # no padding: every word is hidden


def test_a_mask_after_the_softmax_loses_what_was_hidden() -> None:
    scores = torch.zeros(1, 1, 4, 4)  # 1/4 each
    pattern = BY_ID["after_softmax"].wrong(scores, causal_keep(scores))
    close(pattern.sum(-1)[0, 0], [0.25, 0.5, 0.75, 1.0])
    shown = figure("after_softmax", "row_sum_error")
    assert shown.wrong > 0.5
    assert shown.right < 1e-6


def test_zero_is_a_score_like_any_other() -> None:
    scores = torch.tensor([[-1.0, 2.0]])[None, None]
    keep = torch.tensor([[True, False]])[None, None]
    pattern = BY_ID["times_zero"].wrong(scores, keep)
    e = math.exp(-1)
    close(pattern[0, 0, 0], [e / (e + 1), 1 / (e + 1)])  # 0.27 visible, 0.73 hidden


def test_ones_added_are_a_factor_of_e() -> None:
    scores = torch.zeros(1, 1, 1, 2)
    keep = torch.tensor([True, False])[None, None, None]
    close(BY_ID["added_ones"].wrong(scores, keep)[0, 0, 0], [math.e / (math.e + 1), 0.2689])


@pytest.mark.parametrize(("fault", "seen"), [("diagonal_open", 2), ("diagonal_closed", 0)])
def test_a_diagonal_off_by_one(fault: str, seen: int) -> None:
    scores = fixed_scores()
    pattern = BY_ID[fault].wrong(scores, causal_keep(scores))
    expected = torch.tensor([min(row + seen, 5) for row in range(5)])
    assert torch.equal((pattern > 0).sum(-1), expected.expand(2, 3, 5))
    cached = BY_ID[fault].wrong(scores[:, :, 4:], causal_keep(scores)[:, :, 4:])
    torch.testing.assert_close(cached, pattern[:, :, 4:])  # the same fault in a cached step


def test_without_masks_old_rows_drift_as_the_row_grows() -> None:
    scores = fixed_scores()
    wrong = BY_ID["no_mask"].wrong
    keep = causal_keep(scores)
    first = [float(wrong(scores, keep)[0, 0, 0, 0])]
    first += [float(wrong(scores[..., :n, :n], keep[..., :n, :n])[0, 0, 0, 0]) for n in (1, 2, 3)]
    assert first[1] == 1.0
    assert first[1] > first[2] > first[3] > first[0]
    assert figure("no_mask", "first_row_self").right == 1.0
    assert figure("no_mask", "first_row_self").wrong == pytest.approx(first[0])


# Masks of the wrong shape.


def test_an_extra_axis_mixes_heads_and_positions() -> None:
    q, k, v = (fixed_scores(2, 4, 5, 4, seed) for seed in range(3))
    keep = causal_mask(5)[None, None]
    wrong, right = BY_ID["extra_axis"].wrong, BY_ID["extra_axis"].right
    bad, good = wrong(q, k, v, keep), right(q, k, v, keep)
    assert bad.shape == good.shape == (2, 5, 16)  # no error, and the right shape
    assert (bad - good).abs().max() > 0.5
    torch.testing.assert_close(good, attend(q, k, v, keep)[0].transpose(1, 2).flatten(2))
    # One head: batch and head have traded places for nothing where the batch is 1 too.
    one = [tensor[:1, :1] for tensor in (q, k, v)]
    torch.testing.assert_close(wrong(*one, keep), right(*one, keep))
    with pytest.raises(AssertionError, match="scores became"):
        right(q, k, v, keep[None])
    changed = v.clone()
    changed[:, :, -1] += 1  # the last token
    rows = ((wrong(q, k, changed, keep) - bad)[0].abs().amax(-1) > 1e-6).nonzero().flatten()
    assert len(rows) > 1
    assert rows.tolist() != [4]
    assert ((right(q, k, changed, keep) - good)[0].abs().amax(-1) > 1e-6).nonzero().tolist() == [
        [4]
    ]
    shown = figure("extra_axis", "future_cells")
    assert shown.wrong > 0
    assert shown.right == 0


@pytest.mark.parametrize("fault", ["first_item", "first_head"])
def test_an_assignment_by_index_does_not_broadcast(fault: str) -> None:
    scores = fixed_scores(batch=4, n_heads=6)
    keep = causal_keep(scores)
    mass = (BY_ID[fault].wrong(scores, keep) * ~keep).sum((-2, -1))  # [batch, head], over 5 rows
    intact = mass[0] if fault == "first_item" else mass[:, 0]
    others = mass[1:] if fault == "first_item" else mass[:, 1:]
    assert intact.max() == 0
    # With equal scores a row i of 5 puts (4 - i) / 5 on the future: 2.0 over the five rows.
    assert float(others.mean()) == pytest.approx(2.0, abs=0.2)
    assert (BY_ID[fault].right(scores, keep) * ~keep).max() == 0


def test_in_a_batch_only_the_first_item_is_masked() -> None:
    assert figure("first_item", "mass_item", "1") == Figure("mass_item", 0.0, 0.0, "1")
    assert figure("first_item", "mass_item", "2").wrong > 0.5


def test_padding_is_read_per_head_where_heads_and_batch_agree() -> None:
    scores = torch.zeros(3, 3, 5, 5)
    valid = torch.ones(3, 5, dtype=torch.bool)
    valid[1, 3:] = False
    wrong, right = BY_ID["padding_per_head"].wrong, BY_ID["padding_per_head"].right
    on_pads = wrong(scores, valid)[1][..., 3:].sum((-2, -1))
    close(on_pads, [2.0, 0.0, 2.0])  # 2 of 5 keys over 5 rows, except in the head of its number
    close(wrong(scores, valid)[0, 1, 0], [1 / 3] * 3 + [0.0] * 2)  # hides words of sentence 1
    assert right(scores, valid)[1][..., 3:].max() == 0
    with pytest.raises(RuntimeError):
        wrong(torch.zeros(3, 4, 5, 5), valid)
    assert figure("padding_per_head", "pad_mass_head", "2").wrong == 0
    assert figure("padding_per_head", "pad_mass_head", "1").wrong == pytest.approx(2.0, abs=0.5)


def test_a_mask_without_head_axis_is_one_row_per_head() -> None:
    scores, keep = torch.zeros(1, 4, 4, 4), causal_mask(4)
    pattern = BY_ID["row_per_head"].wrong(scores, keep)
    for head in range(4):
        close(pattern[0, head], [1 / (head + 1)] * (head + 1) + [0.0] * (3 - head))
        assert figure("row_per_head", "open_keys", str(head + 1)).wrong == head + 1
    right = BY_ID["row_per_head"].right(scores, keep)
    torch.testing.assert_close(right, masked_softmax(scores, causal_keep(scores)))


# Fill values.


def test_ten_thousand_is_not_infinity() -> None:
    scores = torch.tensor([-12000.0, -12001.0, 3.0])[None, None, None]
    keep = torch.tensor([True, True, False])[None, None, None]
    close(BY_ID["small_fill"].wrong(scores, keep)[0, 0, 0], [0.0, 0.0, 1.0])
    for fault in ("empty_row_nan", "empty_row_uniform"):  # -inf, -1e9
        close(BY_ID[fault].wrong(scores, keep)[0, 0, 0], [0.7311, 0.2689, 0.0])
    close(BY_ID["small_fill"].right(scores, keep)[0, 0, 0], [0.7311, 0.2689, 0.0])
    assert figure("small_fill", "hidden_mass") == Figure("hidden_mass", 1.0, 0.0)


def test_added_to_a_whole_row_it_cancels() -> None:
    scores = torch.tensor([1.0, -1.0, 0.0])[None, None, None]
    keep = torch.zeros(1, 1, 1, 3, dtype=torch.bool)
    close(BY_ID["added_fill"].wrong(scores, keep)[0, 0, 0], [0.665, 0.090, 0.245])
    close(BY_ID["added_fill"].right(scores, keep)[0, 0, 0], [0.0, 0.0, 0.0])


def test_what_each_type_stores() -> None:
    fills = fill_table()
    expected = [
        [-1e4, -9984.0, -1e4],
        [-1e9, -998244352.0, math.nan],  # float16 refuses
        [-math.inf] * 3,
        [torch.finfo(dtype).min for dtype in (torch.float32, torch.bfloat16, torch.float16)],
    ]
    np.testing.assert_array_equal(fills, expected)
    scores, keep = fixed_scores(), causal_keep(fixed_scores())
    with pytest.raises(RuntimeError, match="overflow"):
        BY_ID["half_fill"].wrong(scores, keep)
    right = BY_ID["half_fill"].right(scores, keep)
    assert right.dtype == torch.float16
    torch.testing.assert_close(right.float(), masked_softmax(scores, keep), atol=2e-3, rtol=0)
    by_index = torch.zeros(2, dtype=torch.float16)
    by_index[torch.tensor([True, False])] = -1e9
    assert by_index[0] == -math.inf  # as the words of the card say


def test_an_empty_row_is_nan_uniform_or_zero() -> None:
    scores, keep = fixed_scores(1, 1, 4, 4), torch.ones(1, 1, 4, 4).tril(-1).bool()
    assert BY_ID["empty_row_nan"].wrong(scores, keep)[0, 0, 0].isnan().all()
    close(BY_ID["empty_row_uniform"].wrong(scores, keep)[0, 0, 0], [0.25] * 4)
    close(masked_softmax(scores, keep)[0, 0, 0], [0.0] * 4)
    fused = nn.functional.scaled_dot_product_attention(scores, scores, scores, attn_mask=keep)
    close(fused[0, 0, 0], [0.0] * 4)  # torch's own kernel gives zeros too


def test_one_nan_row_becomes_all_rows_a_layer_later() -> None:
    for layers, wrong in (("1", 1), ("2", 4)):
        assert figure("empty_row_nan", "nan_rows", layers) == Figure("nan_rows", wrong, 0, layers)
        assert figure("empty_row_uniform", "nan_rows", layers).wrong == 0
    # The loss leaves the empty row out, and its gradient is NaN all the same: 0 x NaN.
    assert figure("empty_row_nan", "nan_gradients") == Figure("nan_gradients", 1.0, 0.0)


# Padding and the cache.


def test_is_causal_with_one_query_sees_the_first_key_only() -> None:
    q, k, v = (fixed_scores(2, 3, n, 4, seed) for seed, n in enumerate((1, 5, 5)))
    pitfall = BY_ID["is_causal_cache"]
    torch.testing.assert_close(pitfall.wrong(q, k, v), v[:, :, :1])
    everything = nn.functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(pitfall.right(q, k, v), everything)
    whole = fixed_scores(2, 3, 5, 4, 7)
    torch.testing.assert_close(pitfall.wrong(whole, k, v), pitfall.right(whole, k, v))
    assert figure("is_causal_cache", "keys_seen") == Figure("keys_seen", 1.0, 5.0)
    assert figure("is_causal_cache", "first_key_weight").wrong == 1.0


def test_a_borrowed_padding_id() -> None:
    tokens = torch.tensor([[7, 5, 9, 2, 0, 0]])
    pitfall = BY_ID["pad_confused"]
    assert pitfall.wrong(tokens, 0, 2).tolist() == [[True, True, True, False, True, True]]
    assert pitfall.right(tokens, 0, 2).tolist() == [[True, True, True, True, False, False]]
    assert figure("pad_confused", "pads_seen") == Figure("pads_seen", 2.0, 0.0)
    assert figure("pad_confused", "ends_hidden") == Figure("ends_hidden", 1.0, 0.0)


def test_positions_counted_over_padding() -> None:
    valid = torch.tensor([[False, False, True, True], [True, True, True, False]])
    tokens = torch.zeros(2, 4, dtype=torch.long)
    pitfall = BY_ID["left_positions"]
    assert pitfall.wrong(tokens, valid).tolist() == [[0, 1, 2, 3], [0, 1, 2, 3]]
    assert pitfall.right(tokens, valid).tolist() == [[0, 0, 0, 1], [0, 1, 2, 2]]
    assert figure("left_positions", "first_position") == Figure("first_position", 2.0, 0.0)


# Inside the model, and around it.


def test_positions_by_the_batch_size() -> None:
    pitfall, table = BY_ID["batch_positions"], sinusoidal_table(20, 8)
    one = torch.zeros(1, 10, 8)
    torch.testing.assert_close(pitfall.wrong(one, table)[0], table[:1].expand(10, 8))
    torch.testing.assert_close(pitfall.right(one, table)[0], table[:10])
    with pytest.raises(RuntimeError):
        pitfall.wrong(torch.zeros(2, 10, 8), table)
    ten = torch.zeros(10, 10, 8)  # as many sentences as positions: right, by chance
    torch.testing.assert_close(pitfall.wrong(ten, table), pitfall.right(ten, table))
    assert figure("batch_positions", "different_positions").wrong == 1
    assert figure("batch_positions", "different_positions").right == 10


def test_rotating_by_head_leaves_no_positions() -> None:
    pitfall = BY_ID["rotated_heads"]
    x = fixed_scores(1, 6, 6, 4)
    assert pitfall.wrong(x).shape == x.shape
    assert not torch.allclose(pitfall.wrong(x), pitfall.right(x))
    torch.testing.assert_close(pitfall.wrong(x), pitfall.right(x.transpose(1, 2)).transpose(1, 2))
    shown = figure("rotated_heads", "position_effect")
    assert shown.wrong < 1e-5
    assert shown.right > 1


@pytest.mark.parametrize(
    ("width", "factor"), [("2", 0.7071), ("8", 0.9354), ("64", 0.9922), ("512", 0.9990)]
)
def test_the_unbiased_variance_shrinks_the_output(width: str, factor: float) -> None:
    shown = figure("unbiased_variance", "output_spread", width)
    assert shown.right == pytest.approx(1.0, abs=1e-4)
    assert shown.wrong == pytest.approx(factor, abs=1e-4)
    assert factor == pytest.approx(math.sqrt((int(width) - 1) / int(width)), abs=1e-4)
    x = fixed_scores(1, 1, 2, int(width))
    torch.testing.assert_close(BY_ID["unbiased_variance"].right(x), nn.LayerNorm(int(width))(x))


def test_the_backward_pass_is_wrong_for_unequal_weights_only() -> None:
    assert figure("norm_backward", "dx_error_equal").wrong < 1e-12
    assert figure("norm_backward", "dx_error_unequal").wrong > 0.1
    assert figure("norm_backward", "dx_error_unequal").right < 1e-12
    x = fixed_scores(1, 1, 3, 8).double()[0, 0].requires_grad_()
    weight = torch.linspace(-1, 2, 8, dtype=torch.float64)
    grad_out = fixed_scores(1, 1, 3, 8, seed=5).double()[0, 0]
    y = nn.functional.layer_norm(x, (8,), weight)
    (true,) = torch.autograd.grad(y, x, grad_out)
    x = x.detach()
    torch.testing.assert_close(BY_ID["norm_backward"].right(x, weight, grad_out), true)
    assert (BY_ID["norm_backward"].wrong(x, weight, grad_out) - true).abs().max() > 0.1


def test_labels_through_a_view_change_the_inputs() -> None:
    pitfall, row = BY_ID["label_view"], [1, 5, 6, 2, 0, 0]
    tokens = torch.tensor([row])
    inputs, labels = pitfall.right(tokens, 0)
    assert (inputs.tolist(), tokens.tolist()) == ([[1, 5, 6, 2, 0]], [row])
    assert labels.tolist() == [[5, 6, 2, -100, -100]]
    inputs, labels = pitfall.wrong(tokens, 0)
    assert inputs.tolist() == [[1, 5, 6, 2, -100]]
    assert labels.tolist() == [[5, 6, 2, -100, -100]]  # what is looked at is right
    with pytest.raises(IndexError):
        nn.Embedding(9, 3)(inputs)
    assert figure("label_view", "pads_found") == Figure("pads_found", 0.0, 1.0)


def test_a_second_softmax_makes_perfection_cost_as_much_as_a_guess() -> None:
    shown = figure("double_softmax", "perfect_loss")
    assert shown.right == 0
    assert shown.wrong == pytest.approx(math.log(math.e + 199) - 1, abs=1e-5)
    assert shown.wrong == pytest.approx(4.31, abs=5e-3)
    gradient = figure("double_softmax", "first_gradient")
    assert gradient.right == pytest.approx(1.0, abs=5e-3)
    assert gradient.wrong == pytest.approx(0.0050, abs=5e-5)


def test_gradients_add_up() -> None:
    first = figure("no_zero_grad", "gradient_norm", "1").right
    for step in range(1, 6):
        shown = figure("no_zero_grad", "gradient_norm", str(step))
        assert shown.right == pytest.approx(first)
        assert shown.wrong == pytest.approx(step * first)


# Planted into the reader's model.


def test_a_symptom_is_the_run_with_the_fault(translator: LoadedModel) -> None:
    traced = trace(translator, "The cat sat.", "猫坐在垫子上。")
    found = symptom(translator, traced, BY_ID["inverted_causal"])
    assert len(found.logprobs_before) == len(found.logprobs_after) > 0
    assert found.loss_before != found.loss_after
    pattern = found.patterns_after["decoder.blocks.0.attn"]
    future = np.triu(np.ones(pattern.shape[1:], dtype=bool), 1)
    np.testing.assert_allclose((pattern * future).sum(-1)[:, :-1], 1.0, atol=1e-6)
    # A hidden source of nothing but PADs in sight is another translation altogether.
    padding = symptom(translator, traced, BY_ID["inverted_padding"])
    assert padding.output_before == found.output_before
    assert padding.output_after != padding.output_before


def test_a_fault_of_decoding_leaves_teacher_forcing_alone(translator: LoadedModel) -> None:
    traced = trace(translator, "The cat sat.", "猫坐在垫子上。")
    found = symptom(translator, traced, BY_ID["is_causal_cache"])
    np.testing.assert_array_equal(found.logprobs_before, found.logprobs_after)
    assert found.output_before != found.output_after


@pytest.mark.parametrize("kind", ["translator", "writer"])
def test_without_a_fault_the_symptom_is_the_model_itself(
    kind: str, request: pytest.FixtureRequest
) -> None:
    loaded: LoadedModel = request.getfixturevalue(kind)
    traced = trace(loaded, "The cat sat.", None if kind == "translator" else "")
    alone = replace(BY_ID["first_item"], batched=False)  # a batch of one stays intact
    found = symptom(loaded, traced, alone)
    assert not found.changed
    np.testing.assert_allclose(found.logprobs_before, found.logprobs_after, atol=1e-5)
    assert found.output_before == found.output_after
    assert found.output_before
    if kind == "translator":  # the same greedy decoding, however long each lets it run
        assert traced.output.startswith(found.output_before[:10])
    again = trace(loaded, "The cat sat.", None if kind == "translator" else "")
    np.testing.assert_array_equal(again.logits, traced.logits)  # nothing stays in the model


def test_a_fault_that_spares_the_first_sentence_shows_at_the_second(
    translator: LoadedModel,
) -> None:
    traced = trace(translator, "The cat sat.", "猫坐在垫子上。")
    found = symptom(translator, traced, BY_ID["first_item"])
    assert found.changed
    future = np.triu(found.patterns_after["decoder.blocks.0.attn"], 1)
    assert future.sum() > 0.1
    usual = symptom(translator, traced, BY_ID["no_mask"])
    np.testing.assert_allclose(found.logprobs_before, usual.logprobs_before, atol=1e-5)


def test_a_symptom_names_its_tokens_and_words(translator: LoadedModel) -> None:
    traced = trace(translator, "The cat sat.", "猫坐在垫子上。")
    found = symptom(translator, traced, BY_ID["inverted_causal"])
    assert found.tokens == (*traced.tgt_str_tokens[1:], "</s>")
    assert len(found.tokens) == len(found.logprobs_after)
    kept = [token for token, status in found.words if status != "gone"]
    assert "".join(kept).replace("·", "") == found.output_after.replace(" ", "")


def test_a_picture_shows_the_head_that_differs_most() -> None:
    shown = BY_ID["first_head"].demonstrate(None)
    picture = shown.picture
    assert picture is not None
    assert picture.head != 0  # the only head that is right
    assert picture.hidden is not None
    np.testing.assert_array_equal(picture.hidden, np.triu(np.ones((5, 5), dtype=bool), 1))
    lost = BY_ID["empty_row_nan"].demonstrate(None).picture
    assert lost is not None
    assert np.isnan(lost.wrong[0]).all()
    assert BY_ID["norm_backward"].demonstrate(None).picture is None


def test_own_patterns_name_their_site(translator: LoadedModel) -> None:
    traced = trace(translator, "The cat sat.", "猫坐在垫子上。", pads=2)
    for pitfall in PITFALLS:
        shown = pitfall.demonstrate(traced)
        if shown.columns:
            assert shown.wrong is not None
            n_rows = len(shown.columns) if shown.wrong.dtype == bool and pitfall.left else 1
            assert shown.wrong.shape == (n_rows, len(shown.columns))
        if shown.site:
            assert shown.wrong is not None
            mask = traced.mask(shown.site)
            assert shown.wrong.shape[-1] == mask.shape[-1]
    assert BY_ID["inverted_padding"].demonstrate(traced).site == "encoder.blocks.0.attn"
    assert BY_ID["inverted_padding"].demonstrate(None).site == ""


def test_what_cannot_be_planted_is_refused(translator: LoadedModel, writer: LoadedModel) -> None:
    traced = trace(translator, "The cat sat.", "猫坐")
    with pytest.raises(ValueError, match="label_view"):
        symptom(translator, traced, BY_ID["label_view"])
    with pytest.raises(ValueError, match="the model is"):
        symptom(writer, traced, BY_ID["inverted_causal"])
