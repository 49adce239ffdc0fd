"""Positional encodings: six kinds with a common interface.

A model calls both `added` and `place`, so no code outside this file depends on the kind; class
attributes (`acts`, `bounded`) describe it to other code.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

At = Int[Tensor, "batch _"]  # the position of each token
Rotation = tuple[Tensor, Tensor]
"""Cosine and sine per position and pair, each [batch | 1, 1, pos, d_head / 2], in float64."""


@dataclass(frozen=True, eq=False)
class Placement:
    """The positional information that attention needs in one pass.

    Empty for kinds that add to the embedding, and in cross-attention, where query and key positions
    are not comparable.
    """

    rotation: Rotation | None = None  # of the positions of the new tokens
    bias: Float[Tensor, "batch head query key"] | None = None  # added to the scaled scores
    near: "Placement | None" = None  # for layers with their own base of the angles


NOWHERE = Placement()


def frequencies(n_features: int, base: float = 10000.0) -> Float[Tensor, " pair"]:
    """Angle per position of each pair of features: theta_i = base^(-2i / n_features), float64.

    The wavelength in positions is 2 pi / theta_i. Raises ValueError for an odd number.
    """
    if n_features % 2:
        raise ValueError(f"rotary positions need pairs of features: {n_features} is odd")
    return base ** (-torch.arange(0, n_features, 2, dtype=torch.float64) / n_features)


@dataclass(frozen=True)
class Scaling:
    """RoPE scaling: smaller angles for texts longer than those of pre-training.

    Each pair's angle is divided by its entry in `divisors` (None: by 1). Sequences of more than
    `n_ctx` tokens use `far` instead; or, with `growth`, pair i of n is divided by
    (growth * tokens / n_ctx - growth + 1)^(i / (n - 1)), which is known as dynamic NTK.
    """

    divisors: tuple[float, ...] | None = None
    n_ctx: int | None = None
    far: tuple[float, ...] | None = None
    growth: float | None = None


def stretched(
    angles: Float[Tensor, " pair"], scaling: Scaling | None, n_tokens: Tensor | int = 0
) -> Float[Tensor, "*batch pair"]:
    """Angles per position under `scaling`, for sequences of `n_tokens` tokens, an Int [batch]."""
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

    Angles are computed in float64: in float32 the error at position 5,000 would be 4e-4.
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
    """The rotation of every pair at these positions, for `rotate`; `scaling` and `n_tokens` are as
    in `stretched`."""
    freqs = stretched(frequencies(d_head, base).to(positions.device), scaling, n_tokens)
    angles = positions.double()[..., None] * freqs[..., None, :]
    angles = angles.reshape(-1, 1, positions.shape[-1], d_head // 2)  # [batch | 1, 1, pos, pair]
    return angles.cos(), angles.sin()


def rotate(
    x: Float[Tensor, "batch head pos d_head"], rotation: Rotation
) -> Float[Tensor, "batch head pos d_head"]:
    """Apply RoPE to queries or keys: each pair (x[2i], x[2i + 1]) is rotated by its position's
    angle. Su et al. 2021 (RoFormer), §3.2.

    The positions then affect a score only through the distance of query and key, and norms do not
    change. Other implementations pair feature i with i + d_head / 2. The two differ by a fixed
    permutation of the features, so weights trained for one are wrong for the other.
    """
    cos, sin = (factor.to(x.dtype) for factor in rotation)
    n = 2 * cos.shape[-1]
    if n < x.shape[-1]:  # the remaining features are not rotated
        return torch.cat((rotate(x[..., :n], rotation), x[..., n:]), dim=-1)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


def alibi_slopes(n_heads: int) -> Float[Tensor, " head"]:
    """The score penalty per position of distance, for each head. Press et al. 2022, §3.

    If n_heads is a power of two, head i = 1, 2, ... has 2^(-8 i / n_heads). Otherwise the slopes of
    the next lower power of two come first, then every second slope of the next higher one.
    """
    below = 2 ** int(math.log2(n_heads))
    slopes = [2 ** (-8 * i / below) for i in range(1, below + 1)]
    slopes += [2 ** (-4 * i / below) for i in range(1, 2 * below, 2)][: n_heads - below]
    return torch.tensor(slopes)


def t5_buckets(
    offsets: Int[Tensor, "*rest"], causal: bool, n_buckets: int = 32, furthest: int = 128
) -> Int[Tensor, "*rest"]:
    """The bucket of each offset key - query. Raffel et al. 2020, §2.1.

    Half of the buckets cover one distance each, 0, 1, 2, ...; the others grow logarithmically up to
    `furthest`, and the last one covers all larger distances. Without `causal`, the first half of
    the buckets is for keys before the query and the second half for keys after it; with `causal`,
    offsets of later keys count as 0.
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
    """The base class, also used as the kind "none": no positional encoding.

    Under a causal mask even such a model can infer positions from the number of visible keys (Haviv
    et al. 2022). `causal`: the stack's self-attention has a causal mask.
    """

    acts: ClassVar[Literal["adds", "turns", "biases", "nothing"]] = "nothing"
    """How it acts: adds to the embedding, rotates queries and keys by angles proportional to the
    position, or biases the scores by the offset of key and query."""
    bounded: ClassVar[bool] = False
    """Whether there are only n_ctx positions."""
    pairs: ClassVar[Literal["d_model", "d_head"] | None] = None
    """The width whose features form pairs, so it must be even."""

    def __init__(self, config: Any, causal: bool) -> None:  # a ModelConfig (it imports this file)
        super().__init__()
        self.config, self.causal = config, causal

    def initialise(self, std: float) -> None:
        """Initialise the parameters, if any; `std` is that of the scaled embeddings."""

    def added(self, positions: At) -> Float[Tensor, "batch pos d_model"] | None:
        """The vectors added to the embeddings at these positions (sinusoidal, learned), or None."""
        return None

    def place(self, queries: At, keys: At) -> Placement:
        """The placement for self-attention. `queries` are the positions of the new tokens, `keys`
        those of all tokens so far, the new ones last."""
        return NOWHERE

    # The published formula again, number by number and without the code above: the mask tests
    # compare a run with the one that belongs to `acts`. A kind that overrides none is not compared.

    def expected_vector(self, position: int) -> Sequence[float]:
        """The vector added at a position, [width]."""
        return ()

    def expected_angles(self, layer: int, n_tokens: int) -> Sequence[float]:
        """Radians per position of each pair of features, in a sequence of `n_tokens` tokens."""
        return ()

    def expected_bias(self, head: int, offset: int) -> float:
        """The bias of a key `offset` places after the query."""
        return math.nan


class Sinusoidal(Positions):
    """The fixed sinusoidal table; unbounded, but trained only up to n_ctx."""

    acts = "adds"
    pairs = "d_model"

    def added(self, positions: At) -> Float[Tensor, "batch pos d_model"]:
        n_positions = int(positions.max()) + 1
        table = sinusoidal_table(n_positions, self.config.width, self.config.rope_base)
        return table.to(positions.device)[positions]

    def expected_vector(self, position: int) -> list[float]:
        width, base = self.config.width, self.config.rope_base
        angles = [position / base ** (2 * (at // 2) / width) for at in range(width)]
        return [math.cos(x) if at % 2 else math.sin(x) for at, x in enumerate(angles)]


class Learned(Positions):
    """One learned vector per position, up to `n_ctx`.

    An encoder with `n_types` adds `types` [type, width] by the number of the text (`Stack`). Tokens
    without a position (`ModelConfig.unplaced`) get the vector `unplaced` [width].
    """

    acts = "adds"
    bounded = True

    def __init__(self, config: Any, causal: bool) -> None:
        super().__init__(config, causal)
        drawn = torch.randn(config.n_ctx, config.width)
        self.weight = nn.Parameter(drawn / math.sqrt(config.width))
        if config.n_types > 1 and not config.is_causal:
            self.types = nn.Parameter(torch.zeros(config.n_types, config.width))
        self.unplaced = nn.Parameter(torch.zeros(config.width)) if config.unplaced else None

    def initialise(self, std: float) -> None:
        for table in self.parameters():
            nn.init.normal_(table, std=std)

    def added(self, positions: At) -> Float[Tensor, "batch pos d_model"]:
        """Raises ValueError for a position beyond n_ctx."""
        furthest, n_ctx = int(positions.max()) + 1, self.config.n_ctx
        if furthest > n_ctx:
            raise ValueError(f"{furthest} positions, but only n_ctx = {n_ctx} were learned")
        added = self.weight[positions.clamp(min=0)]
        if self.unplaced is None:
            return added
        return torch.where(positions[..., None] < 0, self.unplaced, added)

    def expected_vector(self, position: int) -> list[float]:
        vector: list[float] = self.weight[position].tolist()
        return vector


class Rotary(Positions):
    """RoPE: self-attention rotates queries and keys by their position's angles in every layer."""

    acts = "turns"
    pairs = "d_head"

    def place(self, queries: At, keys: At) -> Placement:
        config, n_turned, near = self.config, self.config.n_turned, None
        if config.near_rope_base is not None:
            near = Placement(rotation_at(queries, n_turned, config.near_rope_base))
        scaling, n_tokens = config.rope_scaling, keys.amax(1) + 1
        rotation = rotation_at(queries, n_turned, config.rope_base, scaling, n_tokens)
        return Placement(rotation, near=near)

    def expected_angles(self, layer: int, n_tokens: int) -> list[float]:
        base, scaling, width = self.config.rope_base, self.config.rope_scaling, self.config.n_turned
        if self.config.looks_near(layer) and self.config.near_rope_base is not None:
            base, scaling = self.config.near_rope_base, None
        pairs = range(width // 2)
        divisors = [1.0 for _ in pairs] if scaling is None else list(scaling.divisors or ())
        if scaling is not None and scaling.n_ctx is not None and n_tokens > scaling.n_ctx:
            divisors = list(scaling.far or ())
            if scaling.growth is not None:
                grown = scaling.growth * n_tokens / scaling.n_ctx - (scaling.growth - 1)
                divisors = [grown ** (pair / max(1, len(pairs) - 1)) for pair in pairs]
        divisors = divisors or [1.0 for _ in pairs]
        return [base ** (-2 * pair / width) / divisors[pair] for pair in pairs]


class ALiBi(Positions):
    """A score penalty of the head's slope (`alibi_slopes`) times the distance. Press et al. 2022.

    In bidirectional attention the penalty is symmetric.
    """

    acts = "biases"

    def place(self, queries: At, keys: At) -> Placement:
        distances = (keys[:, None, None, :] - queries[:, None, :, None]).abs()
        slopes = alibi_slopes(self.config.n_heads).to(distances.device)
        return Placement(bias=-slopes[:, None, None] * distances)

    def expected_bias(self, head: int, offset: int) -> float:
        n = self.config.n_heads
        power = 2 ** (n.bit_length() - 1)
        slope = -8 * (head + 1) / power if head < power else -4 * (2 * (head - power) + 1) / power
        return -abs(offset) * 2.0**slope


class T5Bias(Positions):
    """A learned score bias per distance bucket (`t5_buckets`) and head. Raffel et al. 2020.

    All layers of a stack share one table.
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

    def expected_bias(self, head: int, offset: int) -> float:
        n, first, apart = self.n_buckets, 0, max(-offset, 0)
        if not self.causal:
            n //= 2
            first, apart = n if offset > 0 else 0, abs(offset)
        bucket = apart
        if apart >= n // 2:
            wide = math.log(apart / (n // 2)) / math.log(128 / (n // 2)) * (n - n // 2)
            bucket = min(n // 2 + int(wide), n - 1)
        return float(self.weight.detach()[first + bucket, head])


POSITIONS: dict[str, type[Positions]] = {
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "rotary": Rotary,
    "alibi": ALiBi,
    "t5": T5Bias,
    "none": Positions,
}


def positions_of(
    valid: Tensor | None,
    tokens: Int[Tensor, "batch new *pixels"],
    past: int = 0,
    unplaced: tuple[int, ...] = (),
) -> Int[Tensor, "batch pos"]:
    """The positions of `past` cached tokens and the new `tokens`, counting real tokens only.

    `valid` is Bool [batch, past + new], or None if every token is real. Left padding thus does not
    shift a sentence, and padding does not change a token's position. Padding has the position of
    the real token before it (0 if there is none). The ids `unplaced` do not count either, and have
    position -1; cached ones are counted, as in `transformers`.
    """
    if unplaced and past == 0:
        real = torch.ones_like(tokens, dtype=torch.bool) if valid is None else valid
        skipped = real & torch.isin(tokens, tokens.new_tensor(unplaced))
        positions = ((real & ~skipped).long().cumsum(1) - 1).clamp(min=0)
        return torch.where(skipped, -1, positions)
    if valid is None:
        positions = torch.arange(past + tokens.shape[1], device=tokens.device)
        return positions.expand(tokens.shape[0], -1)
    return (valid.long().cumsum(1) - 1).clamp(min=0)
