"""Every way in which a config describes its rotation: honoured as a whole, or refused."""

import math
import re
from typing import Any

import pytest

from models.foreign.plan import Keys
from models.foreign.rotation import Turning, turning
from models.positions import Scaling
from models.refusals import Refusal

LLAMA3 = {
    "factor": 4.0,
    "low_freq_factor": 2.0,
    "high_freq_factor": 5.0,
    "original_max_position_embeddings": 100,
}


def read(values: dict[str, Any], d_head: int = 4, **options: Any) -> Turning:
    return turning(Keys({"max_position_embeddings": 400, **values}), d_head, **options)


@pytest.mark.parametrize(
    "values",
    [
        {"rope_theta": 500.0, "partial_rotary_factor": 0.5},
        {"rope_theta": 500, "rope_scaling": None, "partial_rotary_factor": 0.5},
        {"rope_parameters": {"rope_theta": 500.0, "partial_rotary_factor": 0.5}},
        {
            "rope_parameters": {"rope_type": "default", "rope_theta": 500.0, "factor": None},
            "partial_rotary_factor": 0.5,
        },
        {"rope_scaling": {"rope_theta": 500.0, "type": "default"}, "partial_rotary_factor": 0.5},
        {"rope_theta": 9.0, "rope_scaling": {"rope_theta": 500.0, "partial_rotary_factor": 0.5}},
    ],
)
def test_base_and_share_in_every_place(values):
    assert read(values, d_head=8, shares=("partial_rotary_factor",)) == Turning(500.0, 4)
    assert read(values, d_head=8) == Turning(500.0, 8), "a family that ignores the share"


def test_a_scaled_rotation_of_a_share_is_refused_by_a_family_that_has_no_share():
    scaled = {"rope_type": "linear", "factor": 4.0}
    for values in (
        {"rope_parameters": scaled | {"partial_rotary_factor": 0.5}},
        {"rope_scaling": scaled, "partial_rotary_factor": 0.5},
    ):
        with pytest.raises(ValueError, match=r"partial_rotary_factor is 0\.5"):
            read(values, d_head=8)


def test_settings_that_transformers_ignores_in_layers_of_two_kinds_are_refused():
    kinds: dict[str, Any] = {"layers": "full_attention"}
    for name, values in (
        ("rope_scaling.rope_type", {"rope_scaling": {"type": "linear", "factor": 4.0}}),
        ("rope_parameters.full_attention", {"rope_parameters": {"rope_theta": 50.0}}),
    ):
        with pytest.raises(ValueError, match=re.escape(f"{name} is missing")):
            read(values, **kinds)


def test_a_family_may_name_them_in_its_own_way():
    names: dict[str, Any] = {"bases": ("rope_theta", "rotary_emb_base"), "shares": ("rotary_pct",)}
    assert read({"rotary_emb_base": 50.0, "rotary_pct": 0.25}, 8, **names) == Turning(50.0, 2)
    assert read({}, 8, base=1e6, share=0.75, **names) == Turning(1e6, 6)


@pytest.mark.parametrize("place", ["rope_parameters", "rope_scaling"])
@pytest.mark.parametrize("spelling", ["rope_type", "type"])
def test_a_kind_in_every_place(place, spelling):
    found = read({place: {spelling: "linear", "factor": 4.0}})
    assert found == Turning(10000.0, 4, Scaling((4.0, 4.0)))
    found = read({place: {spelling: "dynamic", "factor": 2.0}})
    assert found == Turning(10000.0, 4, Scaling(n_ctx=400, growth=2.0))


def test_yarn_by_hand():
    """Base e², 4 pairs: within 200π tokens pair i turns 100 exp(-i / 2) times, so beta 100 and
    100 / e² give pairs 0 and 4, and the divided share rises by quarters."""
    said = {
        "rope_type": "yarn",
        "factor": 8.0,
        "beta_fast": 100.0,
        "beta_slow": 100 / math.e**2,
        "original_max_position_embeddings": round(200 * math.pi),
        "truncate": False,
    }
    found = read({"rope_theta": math.e**2, "rope_scaling": said}, d_head=8)
    shares = [i / 4 for i in range(4)]
    expected = [1 / (1 - share + share / 8) for share in shares]
    assert found.scaling.divisors == pytest.approx(expected, rel=1e-2)
    assert found.size == pytest.approx(0.1 * math.log(8) + 1)
    for changes, size in (
        ({"attention_factor": 1.5}, 1.5),
        ({"mscale": 2.0, "mscale_all_dim": 1.0}, (0.2 * math.log(8) + 1) / found.size),
        ({"factor": 0.5}, 1.0),
    ):
        assert read({"rope_scaling": said | changes}, 8).size == pytest.approx(size)
    whole = {k: v for k, v in said.items() if k != "factor"}
    whole |= {"original_max_position_embeddings": 50}
    assert read({"rope_scaling": whole}, 8).size == pytest.approx(0.1 * math.log(400 / 50) + 1)


def test_longrope_by_hand():
    said = {"type": "su", "short_factor": [1.0, 2.0], "long_factor": [3.0, 4]}
    found = read({"rope_scaling": said, "original_max_position_embeddings": 20})
    assert found.scaling == Scaling((1.0, 2.0), 20, (3.0, 4.0))
    assert found.size == pytest.approx(math.sqrt(1 + math.log(20) / math.log(20)))
    inside = said | {"original_max_position_embeddings": 7, "attention_factor": 1.25}
    found = read({"rope_scaling": inside, "original_max_position_embeddings": 20})
    assert (found.scaling, found.size) == (Scaling((1.0, 2.0), 20, (3.0, 4.0)), 1.25)


def test_each_kind_of_layer_has_its_own():
    both = {
        "full_attention": {"rope_type": "linear", "rope_theta": 100.0, "factor": 8.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
    }
    full = read({"rope_parameters": both}, layers="full_attention")
    assert full == Turning(100.0, 4, Scaling((8.0, 8.0)))
    assert read({"rope_parameters": both}, layers="sliding_attention") == Turning(50.0, 4)
    old = {"rope_scaling": {"rope_type": "linear", "factor": 8.0}, "rope_local_base_freq": 50.0}
    assert read(old, layers="full_attention") == Turning(10000.0, 4, Scaling((8.0, 8.0)))
    near = read(old, layers="sliding_attention", bases=("rope_local_base_freq",))
    assert near == Turning(50.0, 4)
    with pytest.raises(Refusal, match="full_attention is"):
        read({"rope_parameters": both})


def scaled(**said: Any) -> dict[str, Any]:
    return {"rope_scaling": said}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (scaled(type="mrope"), "RoPE scaling 'mrope' is not supported; supported: default, linear"),
        (scaled(type=3), "RoPE scaling 3 is not"),
        (scaled(type="linear"), "factor is missing"),
        (scaled(type="linear", factor=0), "factor is 0: it must be"),
        (scaled(factor=4.0), "factor is 4.0, which RoPE scaling default does not"),
        (scaled(type="linear", factor=2.0, alpha=9), "alpha is 9"),
        (scaled(type="dynamic", factor=2.0, alpha=9), "alpha is 9"),
        (scaled(type="dynamic", factor=2.0, original_max_position_embeddings=8), "is 8: only None"),
        (scaled(type="linear", factor=2.0) | {"rope_parameters": {"factor": 3.0}}, "two different"),
        ({"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0]}}, "list 2 numbers"),
        (scaled(type="longrope", short_factor=[1, 1], long_factor=[1, "x"]), "long_factor is 'x'"),
        (
            scaled(type="llama3", **(LLAMA3 | {"high_freq_factor": 1.0})),
            "1.0: it must be above 2.0",
        ),
        ({"rope_parameters": 3}, "rope_parameters is 3: it must be an object"),
        (scaled(type="linear") | {"rope_parameters": 0}, "rope_parameters is 0"),
        ({"rope_scaling": [1]}, "rope_scaling is [1]: it must be an object"),
        ({"partial_rotary_factor": 0.75}, "partial_rotary_factor is 0.75"),
        ({"rope_theta": "x"}, "rope_theta is 'x'"),
    ],
)
def test_what_cannot_be_honoured_is_refused(values, said):
    with pytest.raises(Refusal, match=re.escape(said)):
        read(values, shares=("partial_rotary_factor",))
