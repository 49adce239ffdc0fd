"""The cache of a decoding: equal logits, exact bytes, counted multiply-adds."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from payloads import unpack
from torch.utils.flop_counter import FlopCounterMode

from explorer.components.cache_view import pack_cache_view
from explorer.engine.jobs import walked
from explorer.exhibits.decoding.caching import (
    RUNS,
    cache_bytes,
    cached_and_not,
    decoding_multiply_adds,
    multiply_adds,
)
from explorer.library import LoadedModel
from explorer.runs.trace import generate
from explorer.text import family
from models.cache import KVCache
from models.rows import Rows
from models.strategies import Beam, Greedy
from models.transformer import EncoderDecoder, build_model

TEXT = "The cat ran."
WORDS = family("components.cache_view", lang="en")
Tiny = Callable[..., LoadedModel]


@pytest.fixture(params=["encoder-decoder", "decoder-only"])
def loaded(request: pytest.FixtureRequest, tiny: Tiny) -> LoadedModel:
    return tiny("grouped", family=request.param, n_kv_heads=2)


@pytest.mark.parametrize("strategy", [Greedy(), Beam(2)])
def test_cached_and_uncached_logits_are_equal(loaded: LoadedModel, strategy: Greedy | Beam) -> None:
    made = generate(loaded, TEXT, strategy, 7)
    told: list[tuple[int, int]] = []
    found = walked(cached_and_not(loaded, made), lambda *at: told.append(at))
    total = RUNS * len(made.steps)
    assert told == [(done, total) for done in range(1, total + 1)]
    assert len(found.gaps) == len(made.steps)
    assert found.largest < 1e-4
    assert found.seconds.shape == (2, len(made.steps))
    assert (found.seconds > 0).all()
    assert found.keys.shape == (2, 2, found.first + len(made.steps))
    assert (found.keys > 0).all()
    assert (found.cross_keys is None) == (loaded.config.family == "decoder-only")


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("family", ["encoder-decoder", "decoder-only"])
def test_the_bytes_are_those_of_a_real_cache_of_such_heads(tiny, family, kv_heads) -> None:
    model = tiny("grouped", family=family, n_kv_heads=kv_heads)
    made = generate(model, TEXT, Greedy(), 5)
    found = walked(cached_and_not(model, made))
    own = [
        cache_bytes(model.config, len(made.src_str_tokens), found.first + 1 + step, kv_heads)
        for step in range(len(made.steps))
    ]
    assert list(found.n_bytes) == own


@pytest.mark.parametrize("ffn", ["relu", "swiglu"])
@pytest.mark.parametrize("kv_heads", [1, 4])
@pytest.mark.parametrize("family", ["encoder-decoder", "decoder-only"])
def test_multiply_adds_are_those_that_torch_counts(tiny, family, kv_heads, ffn) -> None:
    """The model as it is written: torch counts neither fused attention nor packed matrices."""
    config = tiny("counted", family=family, n_kv_heads=kv_heads, ffn=ffn).config
    model = build_model(config).eval()
    n_src, past, new = 7, 5, 3
    memory = None
    if isinstance(model, EncoderDecoder):
        memory = model.memory_of(Rows.of([[1]], torch.randint(4, 40, (1, n_src)).tolist()))

    def read(n: int, cache: KVCache) -> int:
        tokens = torch.randint(4, 40, (1, n))
        counter = FlopCounterMode(display=False)
        with torch.no_grad(), counter:
            model.read(Rows(tokens), memory, cache)
        return counter.get_total_flops() // 2

    cache = KVCache(config.n_layers)
    assert read(past, cache) == multiply_adds(config, n_src, 0, past)
    assert read(new, cache) == multiply_adds(config, n_src, past, new)


def test_a_whole_decoding_adds_its_passes_up(loaded: LoadedModel) -> None:
    config = loaded.config
    cached, uncached = decoding_multiply_adds(config, 7, 3, 4).tolist()
    assert cached[0] == uncached[0] == multiply_adds(config, 7, 0, 3)
    assert cached[3] == cached[0] + sum(multiply_adds(config, 7, past, 1) for past in (3, 4, 5))
    assert uncached[3] == sum(multiply_adds(config, 7, 0, n) for n in (3, 4, 5, 6))


def test_a_decoding_of_another_model_is_refused(translator, writer) -> None:
    with pytest.raises(ValueError, match="'tiny', not by 'writer'"):
        walked(cached_and_not(writer, generate(translator, TEXT, Greedy(), 2)))


def test_the_picture_sends_every_vector_as_a_share_of_the_longest() -> None:
    keys = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    packed = pack_cache_view(
        keys,
        keys / 2,
        ("<s>", "<b>", "c"),
        (8, 16),
        first=1,
        cross_keys=keys[..., :1],
        cross_values=keys[..., :1],
        source=("</s>",),
        kept_heads=1,
        step=1,
        words=WORDS,
    )
    head, arrays = unpack(packed)
    assert arrays["keys"].max() == arrays["values"].max() == 255
    assert arrays["keys"][0, 1, 0] == round(255 * 3 / 11)
    assert (head["first"], head["kept"], head["step"]) == (1, 1, 1)
    assert head["row"]["tokens"] == ["<s>", "<b>", "c"]
    with pytest.raises(ValueError, match="n_bytes has 3 entries, but there are 2 steps"):
        pack_cache_view(keys, keys, ("a", "b", "c"), (1, 2, 3), first=1, words=WORDS)
    with pytest.raises(ValueError, match=r"cross_keys has shape \(2, 2, 3\), expected \(2, 2, 1\)"):
        pack_cache_view(
            keys,
            keys,
            ("a", "b", "c"),
            (1, 2, 3),
            cross_keys=keys,
            cross_values=keys,
            source="x",
            words=WORDS,
        )
