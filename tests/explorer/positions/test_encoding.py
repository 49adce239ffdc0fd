import numpy as np
import pytest
import torch

from explorer.analysis.positions import encoding as encodings
from explorer.runs.trace import trace
from models.hooks import Edits, Record, visiting
from models.rows import Rows


def test_sines_by_hand_depend_on_distance_only_and_learned_vectors_do_not():
    # d_model 4: theta = 1 and 1/100.
    encoding = encodings.table(3, 4)
    np.testing.assert_allclose(
        encoding[2], [np.sin(2), np.cos(2), np.sin(0.02), np.cos(0.02)], atol=1e-7
    )
    np.testing.assert_allclose(encodings.wavelengths(4), 2 * np.pi * np.array([1, 1, 100, 100]))
    assert encodings.gram(encoding)[0, 2] == pytest.approx(np.cos(2) + np.cos(0.02), abs=1e-6)
    with pytest.raises(ValueError, match="odd"):
        encodings.wavelengths(5)
    dots = encodings.dot_by_distance(encodings.table(120, 512))
    assert dots.mean[[0, 1, 10, 100]] == pytest.approx([256, 249.1, 173.8, 112.0], abs=0.05)
    np.testing.assert_allclose(dots.lowest, dots.highest, atol=1e-4)
    longest = encodings.wavelengths(512)
    assert (longest[0], longest[-1]) == pytest.approx((6.28, 60611), rel=1e-3)
    encoding = np.random.default_rng(0).normal(size=(20, 8))
    dots = encodings.dot_by_distance(encoding)
    assert (dots.highest - dots.lowest)[:10].min() > 0.1
    assert dots.mean[19] == pytest.approx(encoding[0] @ encoding[19])


@pytest.mark.parametrize("stream", ["src", "tgt"])
def test_the_table_of_a_model_is_what_it_adds(stream, tiny):
    for kind in ("sinusoidal", "learned"):
        loaded = tiny(positions=kind, n_ctx=9)
        traced = trace(loaded, "The cat ran", "我爱你猫")
        stack = {"src": "encoder", "tgt": "decoder"}[stream]
        added = traced.activations[f"{stack}.hook_pos_embed"]
        found = encodings.model_table(loaded, len(added), stream)
        np.testing.assert_array_equal(found, added)
    assert len(encodings.model_table(tiny(positions="learned", n_ctx=9), 50, stream)) == 9
    for kind in ("rotary", "none"):
        assert encodings.model_table(tiny(positions=kind), 5, stream) is None


def test_the_position_part_of_the_scores_behind_the_projections(tiny):
    # Scores are bilinear, so with biases off and embeddings at zero nothing else is left of them.
    loaded = tiny(bias=False, n_kv_heads=2)
    site = "encoder.blocks.0.attn"
    traced = trace(loaded, "The cat ran away")
    n = len(traced.src_tokens)
    with (
        torch.inference_mode(),
        visiting(
            record := Record(
                lambda name: name == f"{site}.hook_scores",
                Edits({"encoder.hook_embed": torch.zeros_like}),
            )
        ),
    ):
        loaded.model.memory_of(Rows.of([[1]], [traced.src_tokens]))
    scores = record.activations[f"{site}.hook_scores"][0].numpy()
    for head in range(4):
        found = encodings.projected_gram(loaded, site, head, n)
        np.testing.assert_allclose(found, scores[head], atol=1e-5)
    assert encodings.projected_gram(loaded, "decoder.blocks.0.cross_attn", 0, n) is None
    assert encodings.projected_gram(tiny(positions="none"), site, 0, n) is None


def test_what_survives_the_projections(tiny):
    plain = encodings.gram(encodings.table(40, 24))
    assert encodings.spread_by_distance(plain) < 1e-6
    assert encodings.asymmetry(plain) < 1e-7
    found = encodings.projected_gram(tiny(), "encoder.blocks.0.attn", 0, 40)
    assert encodings.spread_by_distance(found) > 0.2
    assert encodings.asymmetry(found) > 0.2
    by_hand = np.array([[1.0, 2.0], [0.0, 3.0]])  # means 2, 2 and 0: the diagonal keeps 1 and 3
    assert encodings.spread_by_distance(by_hand) == pytest.approx(2 / 5)
    assert encodings.asymmetry(by_hand) == pytest.approx(8**0.5 / (2 * 14**0.5))


def test_words_and_positions_have_sizes_in_their_only_stream_too(tiny, writer):
    loaded = tiny()
    traced = trace(loaded, "The cat ran", "爱猫你")
    found = encodings.sizes(traced, "src")
    words, added = found
    np.testing.assert_allclose(added, (24 / 2) ** 0.5, rtol=1e-6)  # sines and cosines: sqrt(d / 2)
    weight = loaded.model.get_parameter("encoder.embed.weight").numpy()
    expected = np.linalg.norm(weight[list(traced.src_tokens)], axis=1) * 24**0.5
    np.testing.assert_allclose(words, expected, rtol=1e-5)
    for kind in ("rotary", "none"):
        other = tiny(positions=kind)
        assert encodings.sizes(trace(other, "The cat ran", "爱猫你"), "src") is None
    assert encodings.model_table(writer, 5, "src") is None
    np.testing.assert_array_equal(
        encodings.model_table(writer, 5), encodings.table(5, writer.config.d_model)
    )
    traced = trace(writer, "The cat ran")
    assert encodings.sizes(traced, "tgt") is not None
