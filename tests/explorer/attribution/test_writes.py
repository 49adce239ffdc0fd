"""The whole logit as a sum, a head key by key, and what is lost without a writer."""

import copy
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from explorer.analysis.attribution import writes as writing
from explorer.analysis.attribution.ledger import Writer, largest
from explorer.analysis.attribution.writes import Writes
from explorer.exhibits.attribution.lens import Depth, Lens, film, lens
from explorer.exhibits.attribution.one_head import pushes
from explorer.library import LoadedModel
from explorer.runs.edits import MaskSwitch
from explorer.runs.generation import generate
from explorer.runs.passes import walked
from explorer.runs.rerun import rerun, rows_of
from explorer.runs.run import run
from explorer.runs.trace import Trace
from models.hooks import LOGITS, Edits
from models.strategies import Greedy
from models.tokenizer import SPECIAL_TOKENS
from models.training.vocabulary import train_tokenizer
from tests.explorer.attribution.test_writers import held


def test_all_terms_add_up_to_both_logits(each):
    loaded, traced = each
    if not traced.config.lm_head:
        return
    for detail in ("sublayers", "heads", (traced.sites[-1].name, 1)):
        found = walked(writing.writes(loaded, traced, 2, 11, 30, detail))
        assert found.rests == pytest.approx((0, 0), abs=1e-9)
        assert found.logits == pytest.approx(traced.logits[2, [11, 30]].tolist())
        assert (found.caps == (0, 0)) == (loaded.config.logit_cap is None)
        odds = np.log(found.probabilities[0] / found.probabilities[1])
        assert found.logits[0] - found.logits[1] == pytest.approx(odds)


def without(loaded: LoadedModel, traced: Trace, found: Writes, at: int) -> float:
    """The difference of both logits in a run in which a head or a feed-forward network writes
    nothing at the position, while every other sublayer writes what it wrote."""
    writer, stack = found.writers[at], traced.stacks[-1]
    changes = held(traced, [site for site in traced.sites if site.query_stream == stack.stream])
    if writer.kind == "head":
        hook, place = traced.site(writer.site).hook("z"), (writer.head, found.position)
    else:
        hook, place = stack.block_hook(writer.layer, "ffn_out"), (found.position,)
    changes[hook] = partial(writing.silent_at, at=place)
    logits = rerun(loaded, traced, {LOGITS}, Edits(changes))[LOGITS][0, found.position]
    return float(logits[found.word] - logits[found.other])


def test_what_is_lost_without_a_writer_is_measured_by_the_model(each):
    loaded, traced = each
    if not traced.config.lm_head or loaded.config.logit_cap:
        return
    found = walked(writing.writes(loaded, traced, 3, 11, 30))
    before, kinds = found.logits[0] - found.logits[1], set()
    for at in (-1, -2, len(found.writers) // 2):
        lost = before - without(loaded, traced, found, at)
        assert lost == pytest.approx(float(found.lost[at]), abs=1e-9), found.writers[at]
        kinds.add(found.writers[at].kind)
    assert kinds == {"head", "ffn"}


def test_heads_and_sublayers_write_alike_and_a_head_can_be_left_out(design):
    loaded, traced = design("pre")
    found = walked(writing.writes(loaded, traced, 3, 11, 30, "sublayers"))
    at = next(at for at, writer in enumerate(found.writers) if writer.kind == "head")
    heads = walked(writing.writes(loaded, traced, 3, 11, 30))
    of_site = [w.site == found.writers[at].site for w in heads.writers]
    assert found.differences[at] == pytest.approx(heads.differences[of_site].sum())
    loaded, traced = design("llama")
    found = walked(writing.writes(loaded, traced, 3, 11, 30))
    site = traced.sites[-1]
    hook = {site.hook("z"): partial(writing.silent_at, at=(1, 3))}
    logits = run(loaded.model, rows_of(traced), {LOGITS}, Edits(hook))[LOGITS][0, 3]
    after = writing.without_head(loaded, traced, found, site, 1, 3)
    assert after == pytest.approx(float(logits[11] - logits[30]))


def test_a_head_pushes_words_by_what_its_keys_bring_to_their_logits(design):
    for name in ("post", "gemma", "bert"):
        loaded, traced = design(name)
        site = traced.sites[-1]
        found = walked(pushes(loaded, traced, site, 1, 3))
        assert found.direct
        assert list(found.weights) == sorted(found.weights, reverse=True)
        for row, key in enumerate((None, *found.keys)):
            first, last = int(found.pushed[row, 0]), int(found.held[row, 0])
            whole = walked(writing.writes(loaded, traced, 3, first, last, (site.name, 1)))
            of_key = [
                writer.key is not None and key in (None, writer.key) for writer in whole.writers
            ]
            difference = float(found.up[row, 0] - found.down[row, 0])
            assert difference == pytest.approx(whole.differences[of_key].sum(), abs=1e-5)


def test_a_head_of_the_encoder_points_and_does_not_reach_the_logits(design):
    loaded, traced = design("post")
    site = traced.sites_of("encoder")[0]
    found = walked(pushes(loaded, traced, site, 2, 1))
    assert not found.direct
    z = traced.activations[site.hook("z")][2, 1]
    w_o = loaded.model.get_submodule(f"{site.name}.w_o").weight.numpy()
    d_head = len(z)
    vector = w_o[:, 2 * d_head : 3 * d_head] @ z
    brought = loaded.model.unembed.weight.numpy() @ vector
    assert int(found.pushed[0, 0]) == int(brought.argmax())
    assert found.up[0, 0] == pytest.approx(float(brought.max() - brought.mean()), abs=1e-5)
    words = walked(writing.writes(loaded, traced, 3, 11, 30))
    before = words.logits[0] - words.logits[1]
    assert writing.without_head(loaded, traced, words, site, 2, 1) != pytest.approx(
        before, abs=1e-9
    )


def test_the_next_word_and_its_runner_up(design):
    loaded, traced = design("post")
    n_real = int(traced.tgt_valid.sum())
    assert writing.next_word(traced, 0) == traced.tgt_tokens[1]
    assert writing.next_word(traced, n_real - 1) == traced.marks.end
    best = np.argsort(-traced.logits[0])[:2].tolist()
    assert writing.runner_up(traced, 0, best[0]) == best[1]
    assert writing.runner_up(traced, 0, best[1]) == best[0]
    assert writing.runner_up(traced, 0, 3) == best[0]
    with pytest.raises(IndexError, match=f"no position {n_real}: the sequence has {n_real}"):
        writing.next_word(traced, n_real)
    with pytest.raises(IndexError, match="the vocabulary has"):
        walked(writing.writes(loaded, traced, 0, 10**6, 3))
    loaded, traced = design("headless")
    for ask in (
        lambda: writing.next_word(traced, 0),
        lambda: walked(pushes(loaded, traced, traced.sites[0], 0, 0)),
    ):
        with pytest.raises(ValueError, match="no LM head"):
            ask()


def test_biases_and_largest_writers():
    values = np.array([1.0, -5.0, 0.5, 3.0, -0.25])
    writers = [Writer("ffn", "tgt", layer) for layer in range(5)]
    groups = largest(writers, values, 3)
    assert [group.members for group in groups] == [(1,), (3,), (0, 2, 4)]
    assert [float(group.of(values)) for group in groups] == [-5.0, 3.0, 1.25]
    assert groups[-1].writer is None
    assert len(largest(writers, values, 5)) == 5
    writers[2], values[2] = Writer("bias", "tgt"), 0.0
    assert [group.members for group in largest(writers, values, 5)] == [(1,), (3,), (0,), (4,)]
    depths = (Depth("embedding"), Depth("attn", 0), Depth("ffn", 0), Depth("attn", 1))
    ranks = np.array([[9, 1], [1, 1], [2, 1], [1, 1]])
    nothing = np.zeros((4, 2, 1))
    found = Lens(
        depths=depths,
        tokens=nothing.astype(np.int64),
        probs=nothing,
        answer=np.array([0, 0]),
        ranks=ranks,
        shares=np.zeros((4, 2)),
        kl=np.array([[8.0, 4.0], [3.0, 5.0], [2.0, 2.0], [0.0, 0.0]]),
        blind=np.array([5.0, 4.0]),
        sizes=np.zeros((4, 2)),
    )
    assert found.misleads == (0,)  # 6 and 4 and 2 against 4.5
    assert found.agree.tolist() == [1, 2, 1, 2]
    assert (found.settled(0), found.settled(1)) == (3, 0)


@pytest.mark.parametrize("name", ["post", "pre", "alibi", "bert"])
def test_the_biases_are_one_writer(design, name):
    """Measured by a model whose constants are 0, while heads and nets are held at what they wrote;
    only those of the row that the logits belong to stand on the direct way.
    """
    loaded, traced = design(name)
    found = walked(writing.writes(loaded, traced, 3, 11, 30))
    without = copy.deepcopy(loaded.model)
    with torch.no_grad():
        for path, parameter in without.named_parameters():
            if path.endswith("bias") and ".ffn." not in path:
                parameter.zero_()
    edits = Edits(held(traced, traced.sites))
    logits = run(without, rows_of(traced), {LOGITS}, edits)[LOGITS][0, 3]
    left = found.logits[0] - found.logits[1] - float(found.lost[0])
    assert left == pytest.approx(float(logits[11] - logits[30]), abs=1e-9)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)


def agrees(found: Lens, at: int, logits: np.ndarray, answer: np.ndarray) -> None:
    """The logits read out at a depth; `answer` holds the logits of the model."""
    n_real = found.tokens.shape[1]
    said, final = (log_softmax(each[:n_real].astype(np.float64)) for each in (logits, answer))
    np.testing.assert_array_equal(found.answer, final.argmax(-1))
    np.testing.assert_array_equal(found.tokens[at], np.argsort(-said, kind="stable")[:, :5])
    np.testing.assert_allclose(found.probs[at, :, 0], np.exp(said.max(-1)), atol=1e-5)
    of_answer = said[np.arange(n_real), found.answer]
    np.testing.assert_array_equal(found.ranks[at], 1 + (said > of_answer[:, None]).sum(-1))
    kl = (np.exp(final) * (final - said)).sum(-1)
    np.testing.assert_allclose(found.kl[at], kl, atol=1e-5)


def test_behind_the_last_sublayer_it_is_the_logits(each):
    loaded, traced = each
    if not traced.config.lm_head:
        with pytest.raises(ValueError, match="no LM head"):
            walked(lens(loaded, traced))
        return
    found = walked(lens(loaded, traced))
    assert found.tokens.shape[1] == traced.tgt_valid.sum()
    agrees(found, -1, traced.logits, traced.logits)
    said = log_softmax(traced.logits[traced.tgt_valid].astype(np.float64))
    entropy = -(np.exp(said) * said).sum(-1)
    np.testing.assert_allclose(found.blind, np.log(said.shape[-1]) - entropy, atol=1e-5)


@pytest.mark.parametrize("name", ["post", "pre", "llama", "bert", "capped", "gemma"])
def test_behind_a_block_it_is_what_a_model_of_so_many_blocks_says(design, name):
    loaded, traced = design(name)
    found = walked(lens(loaded, traced))
    shorter = copy.deepcopy(loaded.model)
    stack = shorter.last_stack
    stack.blocks = stack.blocks[:1]
    assert len(stack.blocks) < loaded.config.n_layers
    with torch.inference_mode():
        logits = shorter.read(rows_of(traced))[0].numpy()
    agrees(found, found.depths.index(Depth("ffn", 0)), logits, traced.logits)


def test_a_film_is_the_lens_where_each_word_was_read_out(translator, writer, tiny):
    """Under edits or of filling in, each step is read by itself: with the causal mask off, a later
    word would change what an earlier position holds."""
    tokenizer = train_tokenizer(
        ["The cat sat on the mat."] * 2, vocab_size=60, special_tokens=(*SPECIAL_TOKENS, "[MASK]")
    )
    reader = replace(tiny("reader", family="encoder-only"), tokenizer=tokenizer)
    reader.model.marks = tokenizer.marks
    for loaded, text, edits in (
        (translator, "The cat sat.", ()),
        (translator, "The cat sat.", (MaskSwitch("causal", False),)),
        (reader, "The [MASK] sat [MASK].", ()),
        (writer, "A dog ran", ()),
    ):
        made = generate(loaded, text, Greedy(), 6, edits)
        found = walked(film(loaded, made))
        assert found.answer.tolist() == list(made.tokens)
        chances = [step.chosen_prob for step in made.steps]
        np.testing.assert_allclose(found.shares[-1], chances, atol=1e-5)
    told: list[tuple[int, int]] = []
    walked(film(writer, made), lambda done, total: told.append((done, total)))
    assert told == [*((at, 10) for at in range(1, 6)), (10, 10)]  # streams, then what they say
