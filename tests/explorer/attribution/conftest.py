"""Tiny models of every design, each built and read once: in float64, so that sums must close."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from explorer.library import LoadedModel
from explorer.runs.trace import Trace, trace

TEXT, TARGET = "The cat sat on the mat.", "猫坐在垫子上。"
WRITER = {"family": "decoder-only", "norm_placement": "pre", "final_norm": True}
READER = {"family": "encoder-only"}
DESIGNS: dict[str, dict[str, Any]] = {
    "post": {},
    "pre": {"norm_placement": "pre", "final_norm": True, "positions": "learned"},
    "sublayer": {"norm_placement": "sublayer", "final_norm": True, "norm": "rmsnorm"},
    "post-rms": {"norm": "rmsnorm", "positions": "t5", "n_kv_heads": 2},
    "llama": WRITER | {"norm": "rmsnorm", "positions": "rotary", "n_kv_heads": 2, "bias": False},
    "qwen": WRITER | {"positions": "rotary", "qk_norm": True, "rotary_dim": 4},
    "olmo": WRITER
    | {"norm_placement": "sublayer", "norm": "rmsnorm", "positions": "rotary", "qk_norm": True}
    | {"qk_norm_joint": True, "n_kv_heads": 2, "still_layers": (1,)},
    "alibi": WRITER | {"positions": "alibi", "n_kv_heads": 1, "unembed_bias": True},
    "gemma": WRITER
    | {"norm": "rmsnorm", "positions": "rotary", "out_norms": True, "near_layers": (0,)}
    | {"near_rope_base": 100.0, "window": 3, "score_divisor": 3.0},
    "capped": WRITER | {"score_cap": 1.0, "logit_cap": 2.0, "first_norm": False},
    "saturated": WRITER | {"score_cap": 0.01},  # no score tells what was capped
    "parallel": WRITER | {"parallel": True},
    "bert": READER | {"head_net": True, "embed_norm": True, "ffn": "gelu", "unembed_bias": True},
    "headless": READER | {"lm_head": False, "positions": "t5"},
}


@pytest.fixture(scope="session")
def design(tiny) -> Callable[[str], tuple[LoadedModel, Trace]]:
    """design("post"): a tiny model in float64, and what it did with a sentence."""

    @cache
    def made(name: str) -> tuple[LoadedModel, Trace]:
        loaded = tiny(name, **DESIGNS[name])
        loaded.model.double()
        traced = trace(loaded, TEXT, TARGET if "src" in loaded.model.reads else "", pads=1)
        assert traced.activations[traced.sites[0].hook("scores")].dtype == np.float64
        return loaded, traced

    return made


@pytest.fixture(params=DESIGNS)
def each(request, design) -> tuple[LoadedModel, Trace]:
    return design(request.param)
