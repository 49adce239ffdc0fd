"""How a model knows the order of its tokens: four kinds behind the same two methods.

`added(positions)` is what joins the embedding (sinusoidal, learned) or None; `rotation(positions)`
is how queries and keys are turned (rotary) or None. A model asks for both, so nothing outside the
registry depends on the kind.
"""

import math
from typing import Literal, NamedTuple, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

PositionKind = Literal["sinusoidal", "learned", "rotary", "none"]


class Rotation(NamedTuple):
    """Cosine and sine per position and pair of features, each [batch | 1, 1, pos, d_head / 2].

    In float64: they are cast once, to the type of what they turn.
    """

    cos: Tensor
    sin: Tensor


def frequencies(n_features: int, base: float = 10000.0) -> Float[Tensor, " pair"]:
    """Angle per position of each pair of features: theta_i = base^(-2i / n_features), float64.

    The wavelength in positions is 2 pi / theta_i. Raises ValueError for an odd number.
    """
    if n_features % 2:
        raise ValueError(f"positions turn pairs of features: {n_features} is odd")
    return base ** (-torch.arange(0, n_features, 2, dtype=torch.float64) / n_features)


def sinusoidal_table(
    n_positions: int, d_model: int, base: float = 10000.0
) -> Float[Tensor, "pos d_model"]:
    """PE[p, 2i] = sin(p theta_i), PE[p, 2i + 1] = cos(p theta_i). Vaswani et al. 2017, §3.5.

    Angles are taken in float64 and cast once: in float32 the table is off by 4e-4 at 5,000.
    """
    angles = torch.arange(n_positions, dtype=torch.float64)[:, None] * frequencies(d_model, base)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).float()


def rotation_at(
    positions: Int[Tensor, "*batch pos"], d_head: int, base: float = 10000.0
) -> Rotation:
    """The rotation of every pair at these positions, ready to be applied by `apply_rotation`."""
    angles = positions.double()[..., None] * frequencies(d_head, base).to(positions.device)
    angles = angles.reshape(-1, 1, positions.shape[-1], d_head // 2)  # [batch | 1, 1, pos, pair]
    return Rotation(angles.cos(), angles.sin())


def apply_rotation(
    x: Float[Tensor, "batch head pos d_head"], rotation: Rotation
) -> Float[Tensor, "batch head pos d_head"]:
    """Turn each pair (x[2i], x[2i + 1]) of every head by its position's angle."""
    cos, sin = rotation.cos.to(x.dtype), rotation.sin.to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


def rotate(
    x: Float[Tensor, "batch head pos d_head"],
    positions: Int[Tensor, "*batch pos"],
    base: float = 10000.0,
) -> Float[Tensor, "batch head pos d_head"]:
    """Rotary position embedding of queries or keys: interleaved pairs, heads before positions.

    After it, a query's score with a key depends on their distance only, and lengths are kept.
    Other code pairs feature i with i + d_head / 2; the two differ by a fixed permutation of the
    features, so weights trained for one are wrong for the other. Su et al. 2021 (RoFormer), §3.2.
    """
    return apply_rotation(x, rotation_at(positions, x.shape[-1], base))


class Positions(nn.Module):
    """What the four kinds share: nothing is added, nothing is turned. Used as it is for "none".

    With a causal mask even this model can tell positions apart: a query's number of visible keys
    is its position (Haviv et al. 2022).
    """

    def __init__(self, d_model: int, d_head: int, n_ctx: int, base: float) -> None:
        super().__init__()
        self.d_model, self.d_head, self.n_ctx, self.base = d_model, d_head, n_ctx, base

    def added(
        self, positions: Int[Tensor, "batch pos"]
    ) -> Float[Tensor, "batch pos d_model"] | None:
        """What to add to the embeddings at these positions, or None."""
        return None

    def rotation(self, positions: Int[Tensor, "batch pos"]) -> Rotation | None:
        """How to turn queries and keys at these positions, or None."""
        return None


class NoPositions(Positions):
    """No position information except what a causal mask gives away."""


class Sinusoidal(Positions):
    """The fixed table of sines and cosines; any position, though quality ends where training did.

    The table is a buffer outside the state dict: it moves with the model and is never a reason
    for a checkpoint not to load.
    """

    table: Tensor

    def __init__(self, d_model: int, d_head: int, n_ctx: int, base: float) -> None:
        super().__init__(d_model, d_head, n_ctx, base)
        self.register_buffer("table", sinusoidal_table(n_ctx, d_model, base), persistent=False)

    def added(self, positions: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        table = self.table
        furthest = int(positions.max()) + 1
        if furthest > len(table):
            # A longer table for this call only: the module is shared and is never changed.
            table = sinusoidal_table(furthest, self.d_model, self.base).to(table)
        return table[positions]


class Learned(Positions):
    """One trained vector per position, and none beyond `n_ctx`."""

    def __init__(self, d_model: int, d_head: int, n_ctx: int, base: float) -> None:
        super().__init__(d_model, d_head, n_ctx, base)
        self.weight = nn.Parameter(torch.randn(n_ctx, d_model) / math.sqrt(d_model))

    def added(self, positions: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_model"]:
        """Raises ValueError for a position that was never trained."""
        furthest = int(positions.max()) + 1
        if furthest > self.n_ctx:
            raise ValueError(f"{furthest} positions, but only n_ctx = {self.n_ctx} were learned")
        return self.weight[positions]


class Rotary(Positions):
    """Queries and keys are turned by their position's angles in every self-attention layer."""

    def rotation(self, positions: Int[Tensor, "batch pos"]) -> Rotation:
        return rotation_at(positions, self.d_head, self.base)


POSITIONS: dict[PositionKind, type[Positions]] = {
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "rotary": Rotary,
    "none": NoPositions,
}
assert set(POSITIONS) == set(get_args(PositionKind))


def positions_of(
    valid: Tensor | None, tokens: Int[Tensor, "batch new"], past: int = 0
) -> Int[Tensor, "batch new"]:
    """The position of each of the newest tokens, counted over real tokens only.

    `valid` is Bool [batch, past + new], or None where every token is real; `past` tokens were read
    before. So padding on the left
    does not shift a sentence, and a token's position is the same alone and in a padded batch.
    Padding itself gets the position of the real token before it (0 if there is none).
    """
    n_new = tokens.shape[1]
    if valid is None:
        new = torch.arange(past, past + n_new, device=tokens.device)
        return new.expand(tokens.shape[0], n_new)
    return (valid.long().cumsum(1) - 1).clamp(min=0)[:, -n_new:]
