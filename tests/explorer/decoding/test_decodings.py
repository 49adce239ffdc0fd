"""A decoding and one pass over its row: equal under the causal mask, and only there."""

import math

import numpy as np
import pytest
import torch
from payloads import unpack

from explorer.components.cache_view import pack_cache_view
from explorer.components.tree_view import TreeNode, pack_tree_view
from explorer.exhibits.decoding.caching import RUNS, cached_and_not
from explorer.exhibits.decoding.labels import MOST_LINES, labelled_batch
from explorer.exhibits.decoding.one_pass import one_pass
from explorer.exhibits.decoding.tree import Line, Tree, grow
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.edits import HeadOff, MaskSwitch
from explorer.runs.passes import walked
from explorer.runs.trace import Generation, generate
from explorer.text import family
from models.rows import Rows
from models.strategies import Beam, Greedy, Sample

TEXT = "The cat ran."

WORDS = family("components.tree_view", lang="en")
BEAM = Beam(3, 0.7)

CACHE_WORDS = family("components.cache_view", lang="en")


@pytest.mark.parametrize("strategy", [Greedy(), Beam(3), Sample(temperature=2.0, seed=1)])
def test_steps_and_one_pass_agree_with_the_causal_mask_and_not_without(loaded, strategy):
    made = generate(loaded, TEXT, strategy, 6)
    found = walked(one_pass(loaded, made))
    assert len(found.gaps) == len(made.steps)
    assert found.largest < 1e-4
    assert (found.gaps_open[:-1] > 0.01).all()
    assert found.gaps_open[-1] < 1e-4  # nothing stands after the last row
    assert found.logprobs.sum() == pytest.approx(made.logprob, abs=1e-3)
    for step, logprob in zip(made.steps, found.logprobs, strict=True):
        assert np.log(step.chosen_prob) == pytest.approx(logprob, abs=1e-4)
        for site, row in step.rows.items():
            n_key = row.shape[1]
            np.testing.assert_allclose(found.patterns[site][:, step.index, :n_key], row, atol=1e-5)
            assert not found.masks[site][:, step.index, n_key:].any()
    own = next(site for site in found.patterns if "cross" not in site)
    assert found.patterns_open[own][:, 0, -1].max() > 0
    assert (found.queries[-1], found.keys[-1]) == (made.steps[-1].input_tokens[-1],) * 2


def test_other_edits_stay_and_the_causal_one_is_what_is_compared(translator):
    off = HeadOff("decoder.blocks.0.cross_attn", 1)
    made = generate(translator, TEXT, Greedy(), 5, [off, MaskSwitch("causal", False)])
    found = walked(one_pass(translator, made))
    assert found.largest < 1e-4
    plain = walked(
        one_pass(translator, generate(translator, TEXT, Greedy(), 5, forced=made.tokens))
    )
    assert np.abs(plain.logprobs - found.logprobs).max() > 1e-3


@pytest.mark.parametrize("compare", [one_pass, cached_and_not])
def test_a_decoding_of_another_model_is_refused(compare, translator, writer):
    with pytest.raises(ValueError, match="'tiny', not by 'writer'"):
        walked(compare(writer, generate(translator, TEXT, Greedy(), 2)))


def test_a_batch_shifts_pads_and_ignores_and_each_loss_is_its_sentences(translator):
    found = walked(labelled_batch(translator, ["I love you.\t我爱你。", "", "The cat.\t猫"]))
    assert [len(row) for row in found.inputs] == [len(found.inputs[0])] * 2
    for inputs, labels, counts in zip(found.inputs, found.labels, found.counts, strict=True):
        n = int(counts.sum())
        assert inputs[0] == "<s>"
        assert inputs[1:n] == labels[: n - 1]
        assert labels[n - 1] == "</s>"
        assert set(inputs[n:]) | set(labels[n:]) <= {"<pad>"}
    assert not found.counts[1].all()
    assert (found.losses[~found.counts] == 0).all()
    assert found.loss == pytest.approx(found.losses.sum() / found.counts.sum(), rel=1e-5)
    assert found.loss_with_padding != pytest.approx(found.loss, rel=1e-3)
    pairs = [("I love you.", "我爱你。"), ("The cat.", "猫")]
    together = walked(labelled_batch(translator, ["\t".join(pair) for pair in pairs]))
    end = translator.marks.end
    for losses, (source, target) in zip(together.losses, pairs, strict=True):
        row, src = (translator.tokenizer.encode(text) for text in (target, source))
        with torch.no_grad():
            logits = translator.model.read(Rows.of([[1, *row]], [[*src, end]]))[0]
        own = -logits.log_softmax(-1)[range(len(row) + 1), [*row, end]]
        np.testing.assert_allclose(losses[: len(own)], own.numpy(), atol=1e-4)


def test_without_a_translation_the_models_own_or_the_text_is_the_label(translator, writer):
    made = generate(translator, TEXT, Greedy(), 28)
    own = walked(labelled_batch(translator, [TEXT])).labels[0]
    given = [step.chosen_str for step in made.steps]
    n = min(len(given), len(own)) - 1
    assert n > 2
    assert list(own[:n]) == given[:n]
    found = walked(labelled_batch(writer, ["The cat ran.", "I love"]))
    assert found.sources == ()
    assert found.labels[1][-1] == "<pad>"


def test_what_makes_no_batch_or_tree_is_refused(translator):
    for lines, key in (
        ([], "no_lines"),
        (["  ", "\t"], "no_lines"),
        (["I."] * (MOST_LINES + 1), "too_many_lines"),
        (["\x07"], "nothing_left"),
        (["I love you.\t" + "，" * 200], "target_too_long"),
        (["，" * 200], "too_many_tokens"),
    ):
        with pytest.raises(InputProblem, match=f"^{key}"):
            walked(labelled_batch(translator, lines))
    with pytest.raises(InputProblem, match="bad_number"):
        walked(grow(translator, TEXT, Beam(99), {}))


def grown(loaded: LoadedModel, beam: Beam = BEAM, limit: int = 6) -> Tree:
    others: dict[Line, Generation] = {
        "greedy": generate(loaded, TEXT, Greedy(), limit),
        "sample": generate(loaded, TEXT, Sample(temperature=2.0, seed=4), limit),
    }
    return walked(grow(loaded, TEXT, beam, others, limit))


def test_every_node_adds_one_token_and_the_answers_are_those_of_the_strategies(loaded):
    tree = grown(loaded)
    assert len({node.tokens for node in tree.nodes}) == len(tree.nodes) > 12
    for at, node in enumerate(tree.nodes):
        before = 0.0
        if node.parent is None:
            assert len(node.tokens) == 1
        else:
            assert node.parent < at
            parent = tree.nodes[node.parent]
            assert parent.tokens == node.tokens[:-1]
            assert parent.fate != "finished"
            before = parent.logprob
        assert node.logprob - before == pytest.approx(math.log(node.prob), abs=1e-4)
        assert node.score == pytest.approx(node.logprob / len(node.tokens) ** 0.7)
        assert node.text == loaded.tokenizer.decode(node.tokens)
    for line, strategy in (
        ("beam", BEAM),
        ("greedy", Greedy()),
        ("sample", Sample(temperature=2.0, seed=4)),
    ):
        made = generate(loaded, TEXT, strategy, 6)
        end = tree.nodes[tree.ends[line]]
        assert end.tokens == made.tokens
        text, logprob, _ = tree.answers[line]
        assert (text, logprob) == (made.text, pytest.approx(made.logprob, abs=1e-4))
        on_it = {node.tokens for node in tree.nodes if line in node.lines}
        assert on_it == {made.tokens[:n] for n in range(1, len(made.tokens) + 1)}


def test_what_falls_falls_at_the_step_at_which_the_beam_drops_it(loaded):
    tree = grown(loaded, Beam(2, 0.0))
    kept = [node for node in tree.nodes if node.fate != "fallen"]
    fallen = [node for node in tree.nodes if node.fate == "fallen"]
    assert all(node.fell_at is None for node in kept)
    for node in fallen:
        assert node.fell_at in (len(node.tokens) - 1, len(node.tokens))
        assert node.fell_score is not None
        later = [other for other in kept if len(other.tokens) == node.fell_at + 1]
        rivals = [other.logprob for other in later if not other.lines or "beam" in other.lines]
        assert not rivals or node.fell_score <= min(rivals) + 1e-6
        if node.fell_at == len(node.tokens) and not node.lines:
            assert not any(other.tokens[:-1] == node.tokens for other in later)
    assert len(fallen) > 3
    tree = grown(loaded, Beam(1))
    assert tree.ends["beam"] == tree.ends["greedy"]


def node(parent: int | None, score: float = 0.0, fell: bool = False, line: str = "") -> TreeNode:
    fall = (1, -1.0) if fell else None
    return TreeNode("<i>", "<i>", parent, 0.5, -1.0, score, False, fall, (line,) if line else ())


def test_no_two_circles_stand_in_one_place_and_the_answer_runs_straight():
    nodes = [
        node(None, line="beam"),  # 0
        node(None, fell=True),
        node(0, score=9),
        node(0, line="beam"),
        node(0, fell=True),
        node(2),  # 5
        node(3, line="beam"),
        node(3, fell=True),
        node(2, fell=True),
    ]
    head, _ = unpack(pack_tree_view(nodes, words=WORDS))
    places = [(each["column"], each["row"]) for each in head["nodes"]]
    assert len(set(places)) == len(places)
    assert [places[at] for at in (0, 3, 6)] == [(0, 0), (1, 0), (2, 0)]
    for each, (column, row) in zip(head["nodes"], places, strict=True):
        if each["parent"] is not None:
            assert column == places[each["parent"]][0] + 1
            assert row >= places[each["parent"]][1]
    assert head["nodes"][0]["children"][0] == 3
    assert head["nodes"][1]["fell"] == [1, -1.0]


@pytest.mark.parametrize("strategy", [Greedy(), Beam(2)])
@pytest.mark.parametrize(
    ("family", "kv_heads"), [("encoder-decoder", 2), ("encoder-decoder", 4), ("decoder-only", 1)]
)
def test_cached_and_uncached_logits_are_equal(tiny, family, kv_heads, strategy):
    grouped = tiny("grouped", family=family, n_kv_heads=kv_heads)
    made = generate(grouped, TEXT, strategy, 7)
    told: list[tuple[int, int]] = []
    found = walked(cached_and_not(grouped, made), lambda *at: told.append(at))
    config, n_steps, first = grouped.config, len(made.steps), found.first
    assert told == [(done, RUNS * n_steps) for done in range(1, RUNS * n_steps + 1)]
    assert len(found.gaps) == n_steps
    assert found.largest < 1e-4
    assert found.seconds.shape == (2, n_steps)
    assert (found.seconds > 0).all()
    assert found.keys.shape == (2, config.kv_heads, first + n_steps)
    assert (found.keys > 0).all()
    assert (found.cross_keys is None) == (config.family == "decoder-only")
    n_src = len(made.src_str_tokens)
    lengths = range(first + 1, first + 1 + n_steps)
    positions = [config.n_layers * length + config.cross_layers * n_src for length in lengths]
    each = 2 * config.kv_heads * config.d_head * 4  # keys and values, float32
    assert list(found.n_bytes) == [each * count for count in positions]


def test_the_picture_sends_every_vector_as_a_share_of_the_longest():
    keys, row = np.arange(12, dtype=np.float32).reshape(2, 2, 3), ("<s>", "<b>", "c")
    cross = {"cross_keys": keys[..., :1], "cross_values": keys[..., :1], "source": ("</s>",)}
    usual = {"first": 1, "words": CACHE_WORDS}
    head, arrays = unpack(
        pack_cache_view(keys, keys / 2, row, (8, 16), kept_heads=1, step=1, **cross, **usual)
    )
    assert arrays["keys"].max() == arrays["values"].max() == 255
    assert arrays["keys"][0, 1, 0] == round(255 * 3 / 11)
    assert (head["first"], head["kept"], head["step"]) == (1, 1, 1)
    assert head["row"]["tokens"] == list(row)
