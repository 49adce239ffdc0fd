"""A vector stored as the sum of what each component wrote, updated as the model processes it.

A linear map acts on each piece separately. So does a norm with a frozen scale, that is, with the
scale computed from the whole vector: LayerNorm's centring is linear, and so is division by a given
number. In the 2017 design the stream is normalized after each sum; with frozen scales this chain of
norms is a chain of linear maps, and the pieces add up to the whole at every point. Elhage et al.
2021, "A Mathematical Framework for Transformer Circuits".

Freezing hides that a vector without one of its components has another scale. The ledger therefore
also stores, for each piece, the whole without that component, for which every norm recomputes its
scale.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from models.foreign.placing import outside
from models.norms import Norm
from models.positions import Rotation, rotate
from models.rows import Stream

Kind = Literal["bias", "embedding", "position", "head", "ffn"]


@dataclass(frozen=True)
class Writer:
    """A component that writes to a stream: the embedding, the positions, a head, a feed-forward
    network, or all constants together ("bias": the biases of W_O, of norms, of W_Q and W_K).

    `layer` and `head` count from 0 and are None if not applicable. `site` is the name of a head's
    attention sublayer, which is a single component if `head` is None. A head may be split by the
    key that it read from: `key`.
    """

    kind: Kind
    stream: Stream
    layer: int | None = None
    site: str = ""
    head: int | None = None
    key: int | None = None


def array(tensor: torch.Tensor) -> Float[np.ndarray, "..."]:
    """A weight as a float64 array, from any device."""
    return outside(tensor.detach()).double().numpy()


class FrozenNorm:
    """A norm of the model split into its scale for a vector and the remaining linear map."""

    def __init__(self, module: nn.Module) -> None:
        assert isinstance(module, Norm)
        self.weight = array(module.weight)
        self.bias = np.zeros_like(self.weight) if module.bias is None else array(module.bias)
        self._module = module

    def scale(self, x: Float[np.ndarray, "*rest d"]) -> Float[np.ndarray, "*rest 1"]:
        """The divisor of the centred x."""
        with torch.inference_mode():
            return self._module.scale(self._module.centred(torch.tensor(x))).numpy()

    def centred(self, x: Float[np.ndarray, "*rest d"]) -> Float[np.ndarray, "*rest d"]:
        """x minus its mean, if the norm subtracts it."""
        return self._module.centred(torch.tensor(x)).numpy()

    def divided(
        self, x: Float[np.ndarray, "*rest d"], scale: Float[np.ndarray, "*at 1"]
    ) -> Float[np.ndarray, "*rest d"]:
        """weight * centred(x) / scale: linear in x. The bias is left out."""
        return self.weight * (self.centred(x) / scale)


@dataclass(eq=False)
class Ledger:
    """Vectors at some positions as sums over components; the first component is always "bias".

    `pieces` [writer, pos, d] add up to `whole` [pos, d]. `without` [writer, pos, d] is the whole as
    it would be if the component had written nothing and every later norm had recomputed its scale;
    the output of other sublayers is held fixed. Every method changes the ledger in place.
    """

    writers: list[Writer]
    pieces: Float[np.ndarray, "writer pos d"]
    without: Float[np.ndarray, "writer pos d"]
    whole: Float[np.ndarray, "pos d"]

    @classmethod
    def of(cls, writers: Sequence[Writer], pieces: Float[np.ndarray, "writer pos d"]) -> "Ledger":
        """A ledger with these pieces, the first of which is the bias."""
        whole = pieces.sum(0)
        return cls(list(writers), pieces, whole - pieces, whole)

    def join(self, branch: "Ledger") -> None:
        """Add a sublayer's output; the constants of both become one piece."""
        self.without += branch.whole
        self.without[0] += branch.without[0] - branch.whole
        self.pieces[0] += branch.pieces[0]
        self.writers += branch.writers[1:]
        self.pieces = np.concatenate((self.pieces, branch.pieces[1:]))
        self.without = np.concatenate((self.without, self.whole + branch.without[1:]))
        self.whole = self.whole + branch.whole

    def norm(self, norm: FrozenNorm) -> None:
        """Apply a norm to the sum; the pieces use the frozen scale of the whole."""
        frozen = norm.scale(self.whole)
        self.pieces = norm.divided(self.pieces, frozen)
        self.without = norm.divided(self.without, norm.scale(self.without))
        self.whole = norm.divided(self.whole, frozen)
        self._constant(norm.bias)

    def linear(
        self, weight: Float[np.ndarray, "out d"], bias: Float[np.ndarray, " out"] | None
    ) -> None:
        """x W^T + b; b is added to the bias."""
        self.pieces, self.without, self.whole = (
            vectors @ weight.T for vectors in (self.pieces, self.without, self.whole)
        )
        if bias is not None:
            self._constant(bias)

    def pick(self, features: slice) -> None:
        """Keep only these features, for example one head's."""
        self.pieces, self.without, self.whole = (
            vectors[..., features] for vectors in (self.pieces, self.without, self.whole)
        )

    def turn(self, rotation: Rotation) -> None:
        """Rotate the vectors by the angles of their positions (RoPE); see `positions.rotate`.

        `rotation` covers the ledger's positions, [1, 1, pos, pair].
        """
        self.pieces, self.without, self.whole = (
            rotate(torch.tensor(vectors)[None], rotation)[0].numpy()
            for vectors in (self.pieces, self.without, self.whole[None])
        )
        self.whole = self.whole[0]

    def gate(self, activation: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Apply an activation f, frozen as a gate: each piece is multiplied by f(x) / x.

        Every activation of the library is x times a gate (0 or 1 for ReLU, Phi(x) for GELU).
        """
        through, lone = (
            activation(torch.tensor(vectors)).numpy() for vectors in (self.whole, self.without)
        )
        gates = np.divide(through, self.whole, out=np.zeros_like(through), where=self.whole != 0)
        self.pieces, self.without, self.whole = self.pieces * gates, lone, through

    def _constant(self, bias: Float[np.ndarray, " d"]) -> None:
        self.pieces[0] += bias
        self.whole = self.whole + bias
        self.without[1:] += bias


@dataclass(frozen=True)
class Components:
    """A component, or (`writer` None) all the remaining ones; `members` are their indices."""

    writer: Writer | None
    members: tuple[int, ...]

    def of(self, values: Float[np.ndarray, "writer *rest"]) -> Float[np.ndarray, "*rest"]:
        """The sum of the members' values."""
        return np.asarray(values[list(self.members)].sum(0))


def largest(
    writers: Sequence[Writer], values: Float[np.ndarray, " writer"], most: int
) -> tuple[Components, ...]:
    """The components in descending order of |value|; those beyond `most` form one group.

    Biases that are exactly 0, as in a model without any, are left out.
    """
    order = [
        at
        for at in np.argsort(-np.abs(values), kind="stable").tolist()
        if writers[at].kind != "bias" or values[at] != 0
    ]
    alone = order if len(order) <= most else order[: most - 1]
    groups = [Components(writers[at], (at,)) for at in alone]
    rest = tuple(order[len(alone) :])
    return (*groups, Components(None, rest)) if rest else tuple(groups)
