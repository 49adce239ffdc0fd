"""A natural text longer than any in training, with everything as context and with the end only."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from explorer.analysis.positions.beyond import (
    MAX_CHARS,
    Beyond,
    beyond,
    by_bucket,
    can_go_beyond,
    perplexity,
)
from explorer.library import CHECKPOINTS, LoadedModel, list_models, open_model
from explorer.problems import InputProblem
from explorer.text import long_story
from models.rows import Rows

Tiny = Callable[..., LoadedModel]
TEXT = "The cat sat on the mat. A dog ran after the cat, and the cat ran away. " * 12


def by_hand(loaded: LoadedModel, read: list[int], token: int) -> float:
    """-ln p of a token after a row that is read alone."""
    with torch.inference_mode():
        logits = loaded.model.read(Rows.of([read]))[0, -1]
    return float(-logits.double().log_softmax(-1)[token])


@pytest.mark.parametrize("positions", ["rotary", "sinusoidal", "none"])
@pytest.mark.parametrize("n_chars", [330, 480, 800])
def test_each_token_is_read_from_what_it_says(tiny: Tiny, positions: str, n_chars: int) -> None:
    loaded = tiny("writer", family="decoder-only", positions=positions, n_ctx=40)
    kept = {name: tensor.clone() for name, tensor in loaded.model.named_parameters()}
    text = TEXT[:n_chars]
    found = beyond(loaded, text)
    tokens = loaded.tokenizer.encode(text.strip())
    row = [loaded.marks.start, *tokens[:120]]
    assert found.window == 20
    assert found.n_tokens == len(tokens)
    assert len(found.whole) == len(found.windowed) == len(row) - 1
    np.testing.assert_allclose(found.whole[:20], found.windowed[:20], atol=1e-5)
    for at in (0, 19, 50, len(row) - 2):
        assert found.whole[at] == pytest.approx(
            by_hand(loaded, row[: at + 1], row[at + 1]), abs=1e-4
        )
    ends = [*range(26, len(row), 5), len(row)]  # a window every quarter, the last with the row
    for at in range(20, len(row) - 1):
        end = next(end for end in ends if end > at + 1)
        read = [row[0], *row[end - 20 : at + 1]]
        assert 16 <= len(read) <= 20
        assert found.windowed[at] == pytest.approx(by_hand(loaded, read, row[at + 1]), abs=1e-4)
    assert loaded.config.n_ctx == 40
    assert all(torch.equal(kept[name], each) for name, each in loaded.model.named_parameters())


def test_only_a_writer_with_computed_positions_can(tiny: Tiny) -> None:
    for loaded in (tiny(), tiny("writer", family="decoder-only", positions="learned")):
        assert not can_go_beyond(loaded)
        with pytest.raises(ValueError, match="n_ctx"):
            beyond(loaded, TEXT)


def test_what_is_too_short_or_too_long_is_refused(tiny: Tiny) -> None:
    loaded = tiny("writer", family="decoder-only", n_ctx=40)
    with pytest.raises(InputProblem) as short:
        beyond(loaded, "The cat sat on the mat.")
    assert short.value.key == "too_few_tokens"
    assert short.value.values["limit"] == 72
    with pytest.raises(InputProblem) as long:
        beyond(loaded, "a" * (MAX_CHARS + 1))
    assert long.value.values == {"limit": MAX_CHARS, "length": MAX_CHARS + 1}
    assert beyond(loaded, TEXT + "☃").unknown == ("☃",)


def test_buckets_differences_and_perplexity() -> None:
    whole = np.array([1.0, 1, 1, 1, 3, 5, 3])
    middles, means = by_bucket(whole, 2)
    np.testing.assert_allclose(middles, [1, 3, 5, 6.5])
    np.testing.assert_allclose(means, [1, 1, 4, 3])
    assert len(by_bucket(whole, 5)[0]) == 1  # 2 of 5 are too few
    found = Beyond(4, 2, 7, (), whole, np.array([1.0, 1, 1, 1, 2, 3, 1]))
    assert found.difference == pytest.approx(5 / 3)
    assert found.error == pytest.approx(1 / 3)  # 1, 2, 2: deviation 1 / sqrt 3, over sqrt 3
    assert perplexity(np.log([2.0, 8.0])) == pytest.approx(4)


@pytest.mark.skipif("stories" not in list_models(CHECKPOINTS), reason="no checkpoint of stories")
def test_far_context_hurts_the_shipped_writer_beyond_its_training() -> None:
    found = beyond(open_model("stories"), long_story())
    assert found.unknown == ()
    assert len(found.whole) == 768
    assert found.difference > 3 * found.error
    inside = slice(found.window, found.n_ctx)
    gap = perplexity(found.whole[inside]) / perplexity(found.windowed[inside])
    assert gap < perplexity(found.whole[256:]) / perplexity(found.windowed[256:])
