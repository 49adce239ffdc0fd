from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from explorer.analysis.start import flow as flows
from explorer.analysis.start.flow import bins, flow, in_bins
from explorer.library import LoadedModel
from explorer.runs.edits import CellEdit, Edit, HeadOff, MaskSize, MaskSwitch
from explorer.runs.generation import (
    BEYOND,
    MAX_NEW_TOKENS,
    first_seen,
    generating,
    translate,
    translate_all,
)
from explorer.runs.inputs import given_tokens, limit
from explorer.runs.retold import greedy_steps
from explorer.runs.trace import generate, trace
from models.strategies import Beam, Greedy, Sample, Strategy
from tests.explorer.runs.test_trace import refused as run_refused

TEXT = "The cat ran."
STRATEGIES: list[Strategy] = [Greedy(), Beam(3), Sample(temperature=2.0, top_k=6, seed=5)]
EDITS: list[tuple[Edit, ...]] = [
    (),
    (HeadOff("decoder.blocks.0.cross_attn", 1), HeadOff("blocks.0.attn", 1)),
]

CHANGES: dict[str, tuple[Edit, ...]] = {
    "head": (HeadOff("decoder.blocks.0.cross_attn", 1), HeadOff("encoder.blocks.0.attn", 0)),
    "causal": (MaskSwitch("causal", False),),
    "prefix": (MaskSize("prefix", 4),),
    "window": (MaskSize("window", 2),),
    "future": (CellEdit("decoder", None, 1, 4, True), CellEdit("decoder", 0, 2, 6, True)),
    "shut": (CellEdit("decoder", None, 3, 0, False), CellEdit("cross", 1, 2, 0, False)),
}


@pytest.mark.parametrize("edits", EDITS, ids=["plain", "edited"])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: type(s).__name__)
def test_a_generation_is_consistent(loaded, strategy, edits):
    made = generate(loaded, TEXT, strategy, 8, edits)
    assert len(made.steps) == len(made.tokens) == 8 or made.finished
    assert made.text == loaded.tokenizer.decode(made.tokens)
    assert [step.chosen for step in made.steps] == list(made.tokens)
    assert sum(np.log(step.chosen_prob) for step in made.steps) == pytest.approx(made.logprob)
    for before, step in zip(made.steps, made.steps[1:], strict=False):
        assert step.input_tokens == (*before.input_tokens, before.chosen_str)
    for index, step in enumerate(made.steps):
        assert step.index == index
        logprobs = [candidate.logprob for candidate in step.candidates[:12]]
        assert logprobs == sorted(logprobs, reverse=True)
        (chosen,) = (c for c in step.candidates if c.token == step.chosen)
        assert chosen.kept
        assert np.exp(chosen.logprob) == pytest.approx(step.chosen_prob)
        for site, row in step.rows.items():
            n_key = len(made.src_str_tokens if "cross" in site else step.input_tokens)
            assert row.shape == (4, n_key)
            np.testing.assert_allclose(row.sum(-1), 1, atol=1e-5)


def test_the_rank_of_a_token_counts_the_whole_vocabulary(loaded):
    """Also if the token is not among the candidates shown."""
    size = loaded.config.vocab_size
    firsts = [generate(loaded, TEXT, Greedy(), 1, forced=[token]).steps[0] for token in range(size)]
    by_chance = sorted(firsts, key=lambda step: -step.chosen_prob)
    assert [step.rank for step in by_chance] == list(range(1, size + 1))


def test_what_sampling_cuts_has_probability_0_and_a_rare_choice_is_a_candidate(translator):
    made = generate(translator, TEXT, Sample(temperature=1.5, top_k=3, seed=1), 4)
    for step in made.steps:
        kept = [candidate.kept for candidate in step.candidates]
        assert kept[:3] == [True] * 3
        assert not any(kept[3:])
        assert sum(c.prob for c in step.candidates) == pytest.approx(1)
        assert all(c.prob == 0 for c in step.candidates[3:])
        # Temperature 1.5, then made to sum to 1 again over three.
        weights = np.exp([c.logprob / 1.5 for c in step.candidates[:3]])
        expected = list(weights / weights.sum())
        assert [c.prob for c in step.candidates[:3]] == pytest.approx(expected, rel=1e-4)
    least = generate(translator, TEXT, Sample(temperature=1e6, seed=3), 6)
    assert any(len(step.candidates) == 13 for step in least.steps)
    for step in least.steps:
        assert step.chosen in {candidate.token for candidate in step.candidates}


def test_forced_beginnings(loaded):
    as_text = generate(loaded, TEXT, Beam(2), 6, forced="猫跑")
    tokens = loaded.tokenizer.encode("猫跑")
    assert as_text.tokens[: len(tokens)] == tuple(tokens)
    assert [step.forced for step in as_text.steps[:3]] == [True] * len(tokens) + [False] * (
        3 - len(tokens)
    )
    assert generate(loaded, TEXT, Beam(2), 6, forced=tokens).tokens == as_text.tokens
    end = loaded.marks.end
    ended = generate(loaded, TEXT, Greedy(), 6, forced=[*tokens, end, 7, 8])
    assert ended.tokens == (*tokens, end)
    assert ended.finished
    assert ended.text == loaded.tokenizer.decode(tokens)


def test_limits_edits_and_unknown_characters_are_reported(translator, writer):
    refused = partial(run_refused, by=generate)
    for n in (0, MAX_NEW_TOKENS + 1):
        assert refused("bad_number", translator, TEXT, Greedy(), n).values["value"] == n
    refused("empty", translator, "", Greedy())
    refused("bad_number", translator, TEXT, Greedy(), forced=[translator.config.vocab_size])
    assert refused("target_too_long", translator, TEXT, Greedy(), 2, forced="，，，").values == {
        "limit": 2,
        "length": 3,
    }
    lacking = refused("unknown_forced", translator, TEXT, Greedy(), 8, forced="鸭☃")
    assert lacking.values == {"characters": "鸭 ☃"}
    most = limit(writer)
    full = "，" * (most - 1)
    assert refused("too_many_tokens", writer, full, Greedy()).values["limit"] == most - 1
    assert len(generate(writer, full[:-2], Greedy(), 9).tokens) == 2
    unfit = CellEdit("decoder.blocks.0.attn", None, 50, 0, False)
    fitting = CellEdit("decoder.blocks.0.attn", None, 3, 0, False)
    made = generate(translator, "I 鸭.", Greedy(), 5, [unfit, fitting])
    assert (made.edits, made.ignored_edits, made.unknown) == ((fitting,), (unfit,), ("鸭",))
    shut = [step.rows["decoder.blocks.0.attn"][0, 0] == 0 for step in made.steps]
    assert shut == [False, False, False, True, False]


def test_progress_is_told_and_may_stop_a_decoding(loaded):
    whole = generate(loaded, TEXT, Beam(2), 8)
    steps = generating(loaded, TEXT, Beam(2), 8)
    assert [next(steps), steps.send(True), steps.send(True)] == [(1, 8), (2, 8), (3, 8)]
    with pytest.raises(StopIteration) as ended:
        steps.send(False)
    made = ended.value.value
    assert made.stopped
    assert not whole.stopped
    assert len(made.tokens) == 3
    assert made.text == loaded.tokenizer.decode(made.tokens)


@pytest.mark.parametrize(("most", "pad"), [(2, 0), (4, 0), (4, 1)])
def test_the_steps_of_a_trace_are_those_of_the_decoding(tiny, most, pad):
    translator = tiny()
    assert (translator.marks.pad, translator.marks.start) == (0, 1)
    translator.model.marks = translator.tokenizer.marks = replace(translator.marks, pad=pad)
    made = generate(translator, TEXT, Greedy(), most)
    known = greedy_steps(translator, trace(translator, TEXT), most)
    assert len(known) == most
    again = generate(translator, TEXT, Greedy(), most, known=known)
    assert (again.tokens, again.text, again.finished) == (made.tokens, made.text, made.finished)
    assert again.logprob == pytest.approx(made.logprob, abs=1e-4)
    for own, read in zip(made.steps, again.steps, strict=True):
        assert (own.input_tokens, own.chosen_str) == (read.input_tokens, read.chosen_str)
        assert [each.token for each in own.candidates] == [each.token for each in read.candidates]
        assert own.rows.keys() == read.rows.keys()
        for name, row in own.rows.items():
            np.testing.assert_allclose(read.rows[name], row, atol=1e-5)


def test_what_no_trace_of_the_translation_holds_is_not_read(translator, writer):
    off = (MaskSwitch("causal", False),)
    assert not greedy_steps(translator, trace(translator, TEXT, edits=off), 2)
    assert not greedy_steps(translator, trace(translator, TEXT, pads=2), 2)
    assert not greedy_steps(translator, trace(translator, TEXT, "猫"), 2)  # not the model's own
    assert not greedy_steps(translator, trace(translator, TEXT), 99)  # cut off before its end
    assert not greedy_steps(writer, trace(writer, TEXT), 2)


def tokens_after(draft: Sequence[int], edits: Sequence[Edit], loaded: LoadedModel) -> list[int]:
    return translate(loaded, given_tokens(loaded, TEXT), edits, 1, draft)[0]


@pytest.mark.parametrize("edits", CHANGES.values(), ids=CHANGES)
def test_whatever_the_draft_says_the_same_is_written(translator, edits):
    step_by_step = tokens_after((), edits, translator)
    assert len(step_by_step) > 8
    plain = translate(translator, given_tokens(translator, TEXT))[0]
    half = [*step_by_step[:5], *plain]
    for draft in (plain, step_by_step, half, [5], [7] * 99):
        assert tokens_after(draft, edits, translator) == step_by_step


def test_a_draft_is_read_together_up_to_a_place_seen_earlier(translator, monkeypatch):
    stack, lengths = translator.model.last_stack, []
    run = stack.run

    def counted(rows, *more):
        lengths.append(rows.tgt.shape[1])
        return run(rows, *more)

    right = tokens_after((), CHANGES["head"], translator)
    monkeypatch.setattr(stack, "run", counted)
    assert tokens_after(right, CHANGES["head"], translator) == right
    assert len(lengths) == 1
    lengths.clear()
    tokens_after(right, CHANGES["causal"], translator)
    assert lengths == list(range(1, len(right) + 1))  # each token changes all before it
    sites = translator.sites
    for name, query, place in (
        ("head", 0, BEYOND),
        ("shut", 0, BEYOND),
        ("window", 0, BEYOND),
        ("causal", 5, 6),
        ("prefix", 2, 3),  # four tokens see each other, the last of them at place 3
        ("prefix", 3, BEYOND),
        ("future", 0, 4),
        ("future", 4, 6),
        ("future", 6, BEYOND),
    ):
        assert first_seen(sites, CHANGES[name], query) == place, (name, query)
    past = (CellEdit("decoder", None, 4, 1, True),)
    assert first_seen(sites, past, 0) == BEYOND
    lost = lambda x: torch.full((*x.shape[:2], 3), torch.nan)  # noqa: E731
    monkeypatch.setattr(translator.model, "logits_of", lost)
    with pytest.raises(ValueError, match="no probabilities"):
        tokens_after([5, 6], CHANGES["head"], translator)


def test_sentences_in_one_batch_are_translated_as_each_alone(translator):
    sources = [given_tokens(translator, text) for text in (TEXT, "Dogs.", "I like the old house.")]
    assert translate_all(translator, sources) == [translate(translator, each) for each in sources]
    alike, edits = [*sources[:1], sources[0][1::-1] + sources[0][2:]], CHANGES["future"]
    alone = [translate(translator, each, edits) for each in alike]
    assert translate_all(translator, alike, edits) == alone != translate_all(translator, alike)


OFF = (MaskSwitch("causal", False),)


def test_without_the_causal_mask_only_the_last_step_saw_what_one_pass_sees(writer):
    made = generate(writer, TEXT, Greedy(), 6, OFF)
    last = flow(writer, trace(writer, TEXT, edits=OFF), made, OFF).lanes[-1].blocks[-1][0]
    rows = last.pattern[:, -len(made.steps) :].swapaxes(0, 1)
    gaps = np.abs(rows - last.steps).max((1, 2))
    assert gaps[-1] < 1e-5
    assert (gaps[:-1] > 1e-3).all()
    assert last.allowed.all()
    assert not last.allowed_then[0, -1]  # its key did not exist yet


def test_the_source_lane_and_its_waves_are_those_of_the_trace(translator):
    traced = trace(translator, TEXT)
    found = flow(translator, traced, generate(translator, TEXT, Greedy(), 6))
    source, target = found.lanes
    assert source.tokens == traced.src_str_tokens
    assert [[each.site.role for each in block] for block in target.blocks] == [
        ["decoder", "cross"]
    ] * 2
    for block in source.blocks:
        (each,) = block
        np.testing.assert_allclose(each.pattern, traced.pattern(each.site.name), atol=1e-6)
        assert len(each.steps) == 0
    embedded = traced.activations["encoder.hook_embed"]
    np.testing.assert_allclose(source.embedded, embedded[:, : flows.SHOWN_VALUES], atol=1e-6)
    lane = flow(translator, traced, None).lanes[0]
    added = traced.activations["encoder.hook_pos_embed"]
    assert not lane.turns
    np.testing.assert_allclose(lane.waves[:, 0], added[:, 0], atol=1e-6)  # sin(position)
    np.testing.assert_allclose(lane.waves[:, 0], np.sin(np.arange(len(lane.tokens))), atol=1e-5)


def test_rotary_positions_are_shown_by_their_angles_and_biases_not_at_all(tiny):
    loaded = tiny("rotary", family="decoder-only", positions="rotary")
    lane = flow(loaded, trace(loaded, TEXT), None).lanes[0]
    assert lane.turns
    np.testing.assert_allclose(lane.waves[:, 0], np.sin(np.arange(len(lane.tokens))), atol=1e-6)
    loaded = tiny("alibi", family="decoder-only", positions="alibi")
    assert flow(loaded, trace(loaded, TEXT), None).lanes[0].waves is None


def test_another_models_run_is_refused(translator, writer):
    with pytest.raises(ValueError, match="the run was made by 'tiny', not by 'writer'"):
        flow(writer, trace(translator, TEXT), None)


def test_bins_keep_the_sum_of_a_row_of_long_texts_too(writer, monkeypatch):
    pattern = np.array([[[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0, 0.25, 0.75, 0], [0, 0, 0, 1]]])
    binned = in_bins(pattern, (0, 2), (0, 1, 3))
    # Rows 0 and 1 averaged, keys 1 and 2 summed; so are rows 2 and 3.
    np.testing.assert_allclose(binned, [[[0.75, 0.25, 0], [0, 0.5, 0.5]]])
    assert bins(5, 8) == (0, 1, 2, 3, 4)
    many = bins(1000, 960)  # isqrt(1,500,000 / 960) = 39
    assert len(many) == 39
    assert many[0] == 0
    assert np.diff([*many, 1000]).max() <= np.diff([*many, 1000]).min() + 1
    monkeypatch.setattr(flows, "MOST_THREADS", 8)
    made = generate(writer, "The cat sat on the mat. " * 3, Greedy(), 4)
    found = flow(writer, trace(writer, "The cat sat on the mat. " * 3), made)
    lane = found.lanes[0]
    assert len(lane.starts) == 8
    np.testing.assert_allclose(lane.blocks[0][0].pattern.sum(-1), 1, atol=1e-5)
    np.testing.assert_allclose(lane.blocks[0][0].steps.sum(-1), 1, atol=1e-5)
    assert found.steps[-1].thread == 7
