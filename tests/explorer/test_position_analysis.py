from collections.abc import Callable

import numpy as np
import pytest

from explorer.analysis.positions import (
    dot_by_distance,
    gram,
    model_table,
    rotary_dot_by_distance,
    table,
    wavelengths,
    waves,
)
from explorer.library import LoadedModel
from explorer.trace import trace


def test_by_hand() -> None:
    # d_model 4: theta = 1 and 1/100.
    encoding = table(3, 4)
    np.testing.assert_allclose(
        encoding[2], [np.sin(2), np.cos(2), np.sin(0.02), np.cos(0.02)], atol=1e-7
    )
    np.testing.assert_allclose(wavelengths(4), 2 * np.pi * np.array([1, 1, 100, 100]))
    np.testing.assert_array_equal(waves(encoding, [3, 0]), encoding[:, [3, 0]].T)
    assert gram(encoding)[0, 2] == pytest.approx(np.cos(2) + np.cos(0.02), abs=1e-6)
    with pytest.raises(IndexError):
        waves(encoding, [4])
    with pytest.raises(ValueError, match="odd"):
        wavelengths(5)


def test_sines_and_cosines_depend_on_distance_only() -> None:
    dots = dot_by_distance(table(120, 512))
    assert dots.mean[[0, 1, 10, 100]] == pytest.approx([256, 249.1, 173.8, 112.0], abs=0.05)
    np.testing.assert_allclose(dots.lowest, dots.highest, atol=1e-4)
    longest = wavelengths(512)
    assert (longest[0], longest[-1]) == pytest.approx((6.28, 60611), rel=1e-3)


def test_learned_vectors_do_not() -> None:
    encoding = np.random.default_rng(0).normal(size=(20, 8))
    dots = dot_by_distance(encoding)
    assert (dots.highest - dots.lowest)[:10].min() > 0.1
    assert dots.mean[19] == pytest.approx(encoding[0] @ encoding[19])


def test_a_rotation_depends_on_distance_only() -> None:
    dots = rotary_dot_by_distance(30, 4)
    expected = np.cos(np.arange(30)) + np.cos(np.arange(30) / 100)
    np.testing.assert_allclose(dots.mean, expected, atol=1e-6)
    np.testing.assert_allclose(dots.lowest, dots.highest, atol=1e-6)


@pytest.mark.parametrize("stream", ["src", "tgt"])
def test_the_table_of_a_model_is_what_it_adds(
    stream: str, tiny: Callable[..., LoadedModel]
) -> None:
    for kind in ("sinusoidal", "learned"):
        loaded = tiny(positions=kind, n_ctx=9)
        traced = trace(loaded, "The cat ran", "我爱你猫")
        stack = {"src": "encoder", "tgt": "decoder"}[stream]
        added = traced.activations[f"{stack}.hook_pos_embed"]
        found = model_table(loaded, len(added), stream)
        assert found is not None
        np.testing.assert_array_equal(found, added)
    assert len(model_table(tiny(positions="learned", n_ctx=9), 50, stream)) == 9
    for kind in ("rotary", "none"):
        assert model_table(tiny(positions=kind), 5, stream) is None


def test_a_decoder_only_model_has_no_source_table(writer: LoadedModel) -> None:
    assert model_table(writer, 5, "src") is None
    np.testing.assert_array_equal(model_table(writer, 5), table(5, writer.config.d_model))
