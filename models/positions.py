"""How a model knows the order of its tokens: six kinds behind the same two methods.

A model calls both `added` and `place`, so nothing outside this file depends on the kind; what
others want to know of it (`acts`, `bounded`) its class says.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

PositionKind = Literal["sinusoidal", "learned", "rotary", "alibi", "t5", "none"]
At = Int[Tensor, "batch _"]  # the position of each token
Rotation = tuple[Tensor, Tensor]
"""Cosine and sine per position and pair, each [batch | 1, 1, pos, d_head / 2], in float64."""


@dataclass(frozen=True, eq=False)
class Placement:
    """Where the queries and keys of one pass stand, as far as attention has to know it.

    Empty for kinds that act on the embedding, and in cross-attention: two streams, two scales.
    """

    rotation: Rotation | None = None  # of the positions of the new tokens
    bias: Float[Tensor, "batch head query key"] | None = None  # joins the scaled scores
    near: "Placement | None" = None  # of the layers that have angles of their own


NOWHERE = Placement()


def frequencies(n_features: int, base: float = 10000.0) -> Float[Tensor, " pair"]:
    """Angle per position of each pair of features: theta_i = base^(-2i / n_features), float64.

    The wavelength in positions is 2 pi / theta_i. Raises ValueError for an odd number.
    """
    if n_features % 2:
        raise ValueError(f"positions turn pairs of features: {n_features} is odd")
    return base ** (-torch.arange(0, n_features, 2, dtype=torch.float64) / n_features)


@dataclass(frozen=True)
class Scaling:
    """How a rotation's angles shrink, for texts longer than those of the first training.

    Each pair's angle is divided by its entry in `divisors` (None: by 1). Rows of more than `n_ctx`
    tokens use `far` instead; or, with `growth`, pair i of n is divided by
    (growth * tokens / n_ctx - growth + 1)^(i / (n - 1)), which is known as dynamic NTK.
    """

    divisors: tuple[float, ...] | None = None
    n_ctx: int | None = None
    far: tuple[float, ...] | None = None
    growth: float | None = None


def stretched(
    angles: Float[Tensor, " pair"], scaling: Scaling | None, n_tokens: Tensor | int = 0
) -> Float[Tensor, "*batch pair"]:
    """Angles per position as `scaling` changes them in rows of `n_tokens`, an Int [batch]."""
    if scaling is None:
        return angles
    near = angles if scaling.divisors is None else angles / angles.new_tensor(scaling.divisors)
    if scaling.n_ctx is None:
        return near
    n = torch.as_tensor(n_tokens)[..., None]
    if scaling.growth is not None:
        grown = scaling.growth * n / scaling.n_ctx - scaling.growth + 1
        share = torch.arange(len(angles), dtype=angles.dtype) / max(1, len(angles) - 1)
        far = angles / grown.clamp(min=1) ** share.to(grown.device)
    else:
        far = angles / angles.new_tensor(scaling.far)
    return torch.where(n > scaling.n_ctx, far, near)


def sinusoidal_table(
    n_positions: int, d_model: int, base: float = 10000.0
) -> Float[Tensor, "pos d_model"]:
    """PE[p, 2i] = sin(p theta_i), PE[p, 2i + 1] = cos(p theta_i). Vaswani et al. 2017, §3.5.

    Angles are taken in float64 and cast once: in float32 the table is off by 4e-4 at 5,000.
    """
    angles = torch.arange(n_positions, dtype=torch.float64)[:, None] * frequencies(d_model, base)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).float()


def rotation_at(
    positions: Int[Tensor, "*batch pos"],
    d_head: int,
    base: float = 10000.0,
    scaling: Scaling | None = None,
    n_tokens: Tensor | int = 0,
) -> Rotation:
    """The rotation of every pair at these positions, ready to be applied by `rotate`; `scaling`
    and `n_tokens` as in `stretched`."""
    each = stretched(frequencies(d_head, base).to(positions.device), scaling, n_tokens)
    angles = positions.double()[..., None] * each[..., None, :]
    angles = angles.reshape(-1, 1, positions.shape[-1], d_head // 2)  # [batch | 1, 1, pos, pair]
    return angles.cos(), angles.sin()


def rotate(
    x: Float[Tensor, "batch head pos d_head"], rotation: Rotation
) -> Float[Tensor, "batch head pos d_head"]:
    """Rotary position embedding of queries or keys: each pair (x[2i], x[2i + 1]) is turned by its
    position's angle. Su et al. 2021 (RoFormer), §3.2.

    After it, a query's score with a key depends on their distance only, and lengths are kept.
    Other code pairs feature i with i + d_head / 2; the two differ by a fixed permutation of the
    features, so weights trained for one are wrong for the other.
    """
    cos, sin = (each.to(x.dtype) for each in rotation)
    n = 2 * cos.shape[-1]
    if n < x.shape[-1]:  # the features behind the turned ones stay
        return torch.cat((rotate(x[..., :n], rotation), x[..., n:]), dim=-1)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


def alibi_slopes(n_heads: int) -> Float[Tensor, " head"]:
    """How much a key loses per position of distance, for each head. Press et al. 2022, §3.

    For a power of two, head i = 1, 2, ... has 2^(-8 i / n_heads). For any other number, those of
    the power of two below it come first, then every second one of the power above.
    """
    below = 2 ** int(math.log2(n_heads))
    slopes = [2 ** (-8 * i / below) for i in range(1, below + 1)]
    slopes += [2 ** (-4 * i / below) for i in range(1, 2 * below, 2)][: n_heads - below]
    return torch.tensor(slopes)


def t5_buckets(
    offsets: Int[Tensor, "*rest"], causal: bool, n_buckets: int = 32, furthest: int = 128
) -> Int[Tensor, "*rest"]:
    """The bucket of each offset key - query. Raffel et al. 2020, §2.1.

    One half of the buckets stand for one distance each, 0, 1, 2, ...; the others widen by powers
    until `furthest`, and the last one holds all beyond. Both directions share the buckets, keys
    behind the query first; with `causal` there are none, and such offsets count as 0.
    """
    first = torch.zeros_like(offsets)
    if causal:
        distances = (-offsets).clamp(min=0)
    else:
        n_buckets //= 2
        first = (offsets > 0) * n_buckets
        distances = offsets.abs()
    exact = n_buckets // 2
    share = (distances.clamp(min=1) / exact).log() / math.log(furthest / exact)
    wide = exact + (share * (n_buckets - exact)).long()
    return first + torch.where(distances < exact, distances, wide.clamp(max=n_buckets - 1))


class Positions(nn.Module):
    """What all kinds share, and the kind without any: nothing is added or follows for attention.

    Under a causal mask even such a model can count the visible keys (Haviv et al. 2022).

    `causal`: the stack's self-attention never looks ahead.
    """

    acts: ClassVar[Literal["adds", "turns", "biases", "nothing"]] = "nothing"
    """What it does: add to the embedding, turn queries and keys, or bias the scores."""
    bounded: ClassVar[bool] = False
    """True where there are n_ctx positions and no more."""
    pairs: ClassVar[Literal["d_model", "d_head"] | None] = None
    """The width whose features have their angles in pairs, so that it must be even."""

    def __init__(self, config: Any, causal: bool) -> None:  # a ModelConfig, which knows `POSITIONS`
        super().__init__()
        self.config, self.causal = config, causal

    def initialise(self, std: float) -> None:
        """Draw fresh parameters, where there are any; `std` is that of the scaled embeddings."""

    def added(self, positions: At) -> Float[Tensor, "batch pos d_model"] | None:
        """What to add to the embeddings at these positions (sinusoidal, learned), or None."""
        return None

    def place(self, queries: At, keys: At) -> Placement:
        """What self-attention has to know: the positions of the new tokens, which ask, and those
        of all tokens so far, the new ones last, which they may attend to."""
        return NOWHERE


class Sinusoidal(Positions):
    """The fixed table of sines and cosines; any position, but trained for those up to n_ctx."""

    acts = "adds"
    pairs = "d_model"

    def added(self, positions: At) -> Float[Tensor, "batch pos d_model"]:
        n_positions = int(positions.max()) + 1
        table = sinusoidal_table(n_positions, self.config.d_model, self.config.rope_base)
        return table.to(positions.device)[positions]


class Learned(Positions):
    """One trained vector per position, and none beyond `n_ctx`."""

    acts = "adds"
    bounded = True

    def __init__(self, config: Any, causal: bool) -> None:
        super().__init__(config, causal)
        drawn = torch.randn(config.n_ctx, config.d_model)
        self.weight = nn.Parameter(drawn / math.sqrt(config.d_model))

    def initialise(self, std: float) -> None:
        nn.init.normal_(self.weight, std=std)

    def added(self, positions: At) -> Float[Tensor, "batch pos d_model"]:
        """Raises ValueError for a position that was never trained."""
        furthest = int(positions.max()) + 1
        n_ctx = self.config.n_ctx
        if furthest > n_ctx:
            raise ValueError(f"{furthest} positions, but only n_ctx = {n_ctx} were learned")
        return self.weight[positions]


class Rotary(Positions):
    """Queries and keys are turned by their position's angles in every self-attention layer."""

    acts = "turns"
    pairs = "d_head"

    def place(self, queries: At, keys: At) -> Placement:
        config, near = self.config, None
        n_turned = config.n_turned
        if config.near_rope_base is not None:
            near = Placement(rotation_at(queries, n_turned, config.near_rope_base))
        scaling, n_tokens = config.rope_scaling, keys.amax(1) + 1
        rotation = rotation_at(queries, n_turned, config.rope_base, scaling, n_tokens)
        return Placement(rotation, near=near)


class ALiBi(Positions):
    """The further a key, the lower its score: by `alibi_slopes` of the head times the distance.

    Press et al. 2022. Where attention looks both ways the distance counts alike on both sides.
    """

    acts = "biases"

    def place(self, queries: At, keys: At) -> Placement:
        distances = (keys[:, None, None, :] - queries[:, None, :, None]).abs()
        slopes = alibi_slopes(self.config.n_heads).to(distances.device)
        return Placement(bias=-slopes[:, None, None] * distances)


class T5Bias(Positions):
    """A learned number per bucket of distances (`t5_buckets`) and head joins the scaled score.

    Raffel et al. 2020. One table serves all layers of a stack.
    """

    acts = "biases"
    n_buckets: ClassVar[int] = 32

    def __init__(self, config: Any, causal: bool) -> None:
        super().__init__(config, causal)
        self.weight = nn.Parameter(torch.zeros(self.n_buckets, config.n_heads))

    def initialise(self, std: float) -> None:
        nn.init.normal_(self.weight, std=self.config.d_model**-0.5)

    def place(self, queries: At, keys: At) -> Placement:
        offsets = keys[:, None, :] - queries[:, :, None]  # [batch, query, key]
        buckets = t5_buckets(offsets, self.causal, self.n_buckets)
        return Placement(bias=self.weight[buckets].permute(0, 3, 1, 2))


POSITIONS: dict[PositionKind, type[Positions]] = {
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "rotary": Rotary,
    "alibi": ALiBi,
    "t5": T5Bias,
    "none": Positions,
}
assert set(POSITIONS) == set(get_args(PositionKind))


def positions_of(
    valid: Tensor | None, tokens: Int[Tensor, "batch new"], past: int = 0
) -> Int[Tensor, "batch pos"]:
    """The position of each token so far, `past` ones and the new `tokens`, counted over real ones.

    `valid` is Bool [batch, past + new], or None where every token is real. So padding on the left
    does not shift a sentence, and a token's position is the same alone and in a padded batch.
    Padding itself gets the position of the real token before it (0 if there is none).
    """
    if valid is None:
        positions = torch.arange(past + tokens.shape[1], device=tokens.device)
        return positions.expand(tokens.shape[0], -1)
    return (valid.long().cumsum(1) - 1).clamp(min=0)
