"""Reading the RoPE settings of Hugging Face configs.

The settings are in `rope_parameters` (transformers 5), or in `rope_scaling` with a separate base
(transformers 4); the keys of the base and the rotated share depend on the family. Every kind of
scaling is converted to one divisor per pair of features. The attention factor is folded into the
rotated rows of the query and key matrices.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from models.config import ModelConfig
from models.foreign.folds import Fold, neighbours, turned_times
from models.foreign.plan import Keys
from models.positions import Scaling, frequencies
from models.refusals import Refusal

TABLES = (r".*rotary_emb\.inv_freq",)
"""Angles stored in old files. `transformers` recomputes them from the config; see `same_angles`."""

_ALWAYS = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}
GGUF_TURNED = "rope.dimension_count"
"""The key of GGUF files for the number of rotated features, which any of their families may have.
"""
_FIRST = "original_max_position_embeddings"
USED = {
    "default": set[str](),
    "linear": {"factor"},
    "dynamic": {"factor", _FIRST},
    "llama3": {"factor", "low_freq_factor", "high_freq_factor", _FIRST},
    "yarn": {"factor", "beta_fast", "beta_slow", "truncate", "attention_factor", "mscale"}
    | {"mscale_all_dim", _FIRST},
    "longrope": {"short_factor", "long_factor", "factor", "attention_factor", _FIRST},
}
"""The settings of each kind of scaling, in addition to the common ones."""


@dataclass(frozen=True)
class Turning:
    """A rotation: its base, the number of rotated features per head, and its scaling.

    `size` multiplies the rotated features of queries and keys (the attention factor).
    """

    base: float
    n_turned: int
    scaling: Scaling | None = None
    size: float = 1.0

    def settings(self, d_head: int) -> dict[str, Any]:
        """The fields of a `ModelConfig`."""
        return {
            "positions": "rotary",
            "rope_base": self.base,
            "rope_scaling": self.scaling,
            "rotary_dim": None if self.n_turned == d_head else self.n_turned,
        }

    def fold(self, n_heads: int, sized: bool = True) -> Fold:
        """The fold for the rows of w_q or w_k, which makes the pairs that rotate adjacent.

        With a norm on queries and keys only the norm's weight is `sized`, as it is applied later.
        """
        n = self.n_turned
        into_pairs = neighbours(n_heads, n)
        if self.size == 1.0 or not sized:
            return into_pairs
        grow = turned_times(self.size, n_heads, n)
        return lambda tensor: grow(into_pairs(tensor))


def turning(
    keys: Keys,
    d_head: int,
    *,
    base: float = 10000.0,
    bases: Sequence[str] = ("rope_theta",),
    share: float = 1.0,
    shares: Sequence[str] = (),
    layers: str | None = None,
) -> Turning:
    """The rotation of a config, or of its `layers` if two kinds of layers have different settings.

    `bases` and `shares` are the family's keys outside `rope_parameters`; `base` and `share` are the
    defaults. A family without `shares` rotates all features: as in `transformers`, it ignores the
    share, except under scaling, where the share is refused. Raises ValueError for a setting that is
    not supported.
    """
    settings = _settings(keys, layers)
    kind = _kind(settings)
    of = keys.of(settings)
    base = of.number("rope_theta", _first(keys, bases, base))
    n_turned = keys.size(GGUF_TURNED, d_head)
    if shares:
        part = of.number("partial_rotary_factor", _first(keys, shares, share))
        n_turned = int(d_head * part)
    elif kind != "default":
        for config in (of, keys):
            config.only("partial_rotary_factor", None, 1.0)
    if n_turned % 2:
        name, value = ("partial_rotary_factor", part) if shares else ("head_dim", n_turned)
        raise Refusal("odd_width", name=name, value=value, positions="rotary")
    if kind == "default":
        return Turning(base, n_turned)
    n_ctx = keys.size("max_position_embeddings")
    first = keys.size(_FIRST, of.size(_FIRST, n_ctx))
    angles = frequencies(n_turned, base)
    if kind == "longrope":
        return _longrope(of, base, n_turned, n_ctx, first)
    factor = of.number("factor", n_ctx / first if kind == "yarn" else None)
    if kind == "dynamic":
        of.only(_FIRST, None, n_ctx)
        return Turning(base, n_turned, Scaling(n_ctx=n_ctx, growth=factor))
    size = 1.0
    if kind == "linear":
        divisors = torch.full_like(angles, factor)
    elif kind == "llama3":
        divisors = _llama3(of, angles, factor, first)
    else:
        divisors, size = _yarn(of, angles, factor, first, base), _yarn_size(of, factor)
    return Turning(base, n_turned, Scaling(tuple(divisors.tolist())), size)


def two_turnings(
    keys: Keys,
    d_head: int,
    base: float,
    far: str = "rope_theta",
    near: str = "rope_local_base_freq",
) -> tuple[Turning, float]:
    """The rotation, and the base of the layers with a window (Gemma 3, ModernBERT).

    `far` and `near` are the keys of both bases outside `rope_parameters`, `base` the first one's
    default. Raises ValueError if the layers with a window scale their angles.
    """
    local = turning(keys, d_head, bases=(near,), layers="sliding_attention")
    full = turning(keys, d_head, base=base, bases=(far,), layers="full_attention")
    if local != Turning(local.base, full.n_turned) or full.size != 1:
        settings = keys.values.get("rope_parameters")
        raise Refusal("rope_near", name="rope_parameters", value=repr(settings))
    return full, local.base


def same_angles(stored: Tensor, config: ModelConfig) -> bool:
    """Whether stored angles [pair] are those of a config, before or after scaling.

    Old files have unscaled ones. Tolerates the rounding of 16-bit files.
    """
    usual = [
        frequencies(config.rotary_dim or config.d_head, base)
        for base in (config.rope_base, config.near_rope_base)
        if base is not None
    ]
    scaling = config.rope_scaling
    lists = () if scaling is None else (scaling.divisors, scaling.far)
    scaled = [angles / torch.tensor(member) for angles in usual for member in lists if member]
    return any(
        stored.shape == angles.shape
        and torch.allclose(stored.double(), angles.double(), rtol=2**-8, atol=2**-24)
        for angles in (*usual, *scaled)
    )


def _settings(keys: Keys, layers: str | None) -> Mapping[str, Any]:
    """The settings in the config's nested object, under the new key or the old one."""
    old = {k: v for k, v in keys.object("rope_scaling").items() if v is not None}
    new = keys.object("rope_parameters")
    if layers is not None:  # `transformers` ignores other forms there
        if new and not any(name.endswith("_attention") for name in new):
            raise Refusal("lacks_key", name=f"rope_parameters.{layers}")
        if old and "rope_type" not in old:
            raise Refusal("lacks_key", name="rope_scaling.rope_type")
        new = keys.of(new).object(layers)
    new = {k: v for k, v in new.items() if v is not None}
    if layers == "sliding_attention":
        old = {}  # applies to the other layers only
    if old and new and old != new:
        raise Refusal("rope_twice")
    return new or old


def _kind(said: Mapping[str, Any]) -> str:
    kind = said.get("rope_type", said.get("type", "default"))
    if kind == "su" or (kind == "yarn" and "short_factor" in said):
        kind = "longrope"  # its names in older configs
    if not isinstance(kind, str) or kind not in USED:
        raise Refusal("rope_kind", value=repr(kind), known=", ".join(USED))
    used = _ALWAYS | USED[kind]
    for name, value in said.items():
        if name not in used:
            known = ", ".join(sorted(used))
            raise Refusal("rope_key", name=name, value=repr(value), kind=kind, known=known)
    return kind


def _first(keys: Keys, names: Sequence[str], usual: float) -> float:
    """The first of these numbers that the config has."""
    matches = (name for name in names if keys.values.get(name) is not None)
    return keys.number(next(matches, names[0]), usual)


def _llama3(of: Keys, angles: Tensor, factor: float, first: int) -> Tensor:
    """Angles of pairs with short wavelengths are unchanged, those with long ones are divided by the
    factor, with a smooth transition in between. Llama team 2024, §3.4.2."""
    low, high = of.number("low_freq_factor"), of.number("high_freq_factor")
    if high <= low:
        raise Refusal("above", name="high_freq_factor", value=repr(high), least=low)
    share = ((first * angles / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
    return 1 / (share + (1 - share) / factor)


def _yarn(of: Keys, angles: Tensor, factor: float, first: int, base: float) -> Tensor:
    """As Llama 3, but linear in the pair's index. Peng et al. 2023 (YaRN), §3.2."""
    n = 2 * len(angles)

    def pair_that_turns(times: float) -> float:
        """The (fractional) index of the pair that rotates `times` times within the first n_ctx."""
        return n * math.log(first / (times * 2 * math.pi)) / (2 * math.log(base))

    low = pair_that_turns(of.number("beta_fast", 32.0))
    high = pair_that_turns(of.number("beta_slow", 1.0))
    if of.flag("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, n - 1)
    width = high - low if high != low else 0.001
    divided = ((torch.arange(len(angles), dtype=angles.dtype) - low) / width).clamp(0, 1)
    return 1 / (1 - divided + divided / factor)


def _yarn_size(of: Keys, factor: float) -> float:
    def size(times: float) -> float:
        return 0.1 * times * math.log(factor) + 1 if factor > 1 else 1.0

    usual = size(1.0)
    if of.values.get("mscale") and of.values.get("mscale_all_dim"):
        usual = size(of.number("mscale")) / size(of.number("mscale_all_dim"))
    return of.number("attention_factor", usual)


def _longrope(of: Keys, base: float, n_turned: int, n_ctx: int, first: int) -> Turning:
    """Divisors found by search, one list for short texts and one for long texts. Ding et al. 2024
    (LongRoPE)."""
    factor = of.number("factor", n_ctx / first)
    usual = math.sqrt(1 + math.log(factor) / math.log(first)) if factor > 1 else 1.0
    # A llama.cpp file has a single list for all lengths.
    near, far = (_list(of, name, n_turned // 2) for name in ("short_factor", "long_factor"))
    scaling = Scaling(near) if near == far else Scaling(near, first, far)
    return Turning(base, n_turned, scaling, of.number("attention_factor", usual))


def _list(of: Keys, name: str, n: int) -> tuple[float, ...]:
    numbers = of.values.get(name)
    if not isinstance(numbers, list) or len(numbers) != n:
        raise Refusal("rope_list", name=name, value=repr(numbers), pairs=n)
    return tuple(of.of({name: number}).number(name) for number in numbers)
