"""The lens: behind the last sublayer the logits, before it what a shorter model would say."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from explorer.analysis.causes.lens import Depth, Lens, film, lens
from explorer.engine.jobs import walked
from explorer.library import LoadedModel
from explorer.runs.edits import MaskSwitch
from explorer.runs.generation import generate
from explorer.runs.rerun import rows_of
from explorer.runs.trace import Trace
from models.strategies import Greedy
from models.tokenizer import SPECIAL_TOKENS
from models.training.vocabulary import train_tokenizer

Made = tuple[LoadedModel, Trace]


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)


def test_behind_the_last_sublayer_it_is_the_logits(each: Made) -> None:
    loaded, traced = each
    if not traced.config.lm_head:
        with pytest.raises(ValueError, match="no LM head"):
            walked(lens(loaded, traced))
        return
    found = walked(lens(loaded, traced))
    n_real = int(traced.tgt_valid.sum())
    said = log_softmax(traced.logits[:n_real].astype(np.float64))
    np.testing.assert_array_equal(found.answer, said.argmax(-1))
    np.testing.assert_array_equal(found.tokens[-1], np.argsort(-said, kind="stable")[:, :5])
    np.testing.assert_allclose(found.probs[-1, :, 0], np.exp(said.max(-1)), atol=1e-5)
    np.testing.assert_allclose(found.kl[-1], 0, atol=1e-6)
    assert (found.ranks[-1] == 1).all()
    entropy = -(np.exp(said) * said).sum(-1)
    np.testing.assert_allclose(found.blind, np.log(said.shape[-1]) - entropy, atol=1e-5)


@pytest.mark.parametrize("name", ["post", "pre", "llama", "bert", "capped", "gemma"])
def test_behind_a_block_it_is_what_a_model_of_so_many_blocks_says(design, name) -> None:
    loaded, traced = design(name)
    found = walked(lens(loaded, traced))
    shorter = copy.deepcopy(loaded.model)
    stack = shorter.last_stack
    stack.blocks = stack.blocks[:1]
    assert len(stack.blocks) < loaded.config.n_layers
    with torch.inference_mode():
        logits = shorter.read(rows_of(traced))[0].numpy()
    at = found.depths.index(Depth("ffn", 0))
    n_real = found.tokens.shape[1]
    said = log_softmax(logits[:n_real].astype(np.float64))
    np.testing.assert_array_equal(found.tokens[at, :, 0], said.argmax(-1))
    np.testing.assert_allclose(found.probs[at, :, 0], np.exp(said.max(-1)), atol=1e-5)
    of_answer = said[np.arange(n_real), found.answer]
    np.testing.assert_array_equal(found.ranks[at], 1 + (said > of_answer[:, None]).sum(-1))
    answer = log_softmax(traced.logits[:n_real].astype(np.float64))
    kl = (np.exp(answer) * (answer - said)).sum(-1)
    np.testing.assert_allclose(found.kl[at], kl, atol=1e-5)


def test_where_it_misleads_and_where_it_settles_by_hand() -> None:
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


def test_a_film_is_the_lens_where_each_word_was_read_out(translator, writer) -> None:
    for loaded, text in ((translator, "The cat sat."), (writer, "A dog ran")):
        made = generate(loaded, text, Greedy(), 6)
        found = walked(film(loaded, made))
        assert found.answer.tolist() == list(made.tokens)
        for step in (0, len(made.tokens) - 1):
            assert found.shares[-1, step] == pytest.approx(made.steps[step].chosen_prob, abs=1e-5)
            assert len(found.depths) == len(found.kl)
    told: list[tuple[int, int]] = []
    walked(film(writer, made), lambda done, total: told.append((done, total)))
    assert told == [*((at, 10) for at in range(1, 6)), (10, 10)]  # streams, then what they say


def test_a_film_under_edits_reads_each_step_by_itself(translator: LoadedModel) -> None:
    """With the causal mask off, a later word would change what an earlier position holds."""
    edits = (MaskSwitch("causal", False),)
    made = generate(translator, "The cat sat.", Greedy(), 4, edits)
    found = walked(film(translator, made))
    for step in range(1, len(made.tokens)):
        assert found.shares[-1, step] == pytest.approx(made.steps[step].chosen_prob, abs=1e-5)


def test_a_film_of_filling_in_has_the_words_filled_in_before(tiny) -> None:
    tokenizer = train_tokenizer(
        ["The cat sat on the mat."] * 2, vocab_size=60, special_tokens=(*SPECIAL_TOKENS, "[MASK]")
    )
    loaded = replace(tiny("reader", family="encoder-only"), tokenizer=tokenizer)
    loaded.model.marks = tokenizer.marks
    made = generate(loaded, "The [MASK] sat [MASK].", Greedy(), 2)
    found = walked(film(loaded, made))
    assert found.answer.tolist() == list(made.tokens)
    for step, of in enumerate(made.steps):
        assert found.shares[-1, step] == pytest.approx(of.chosen_prob, abs=1e-5)
