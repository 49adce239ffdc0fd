"""A vector kept as the sum of what each writer put into it, while a model works on it.

A linear map acts on each piece by itself. A norm does too once its scale is frozen, that is, held
at the value that it had for the whole vector: LayerNorm's centring is linear, and dividing by a
number that is given is as well. So a chain of norms, as the 2017 design has it (the stream is
normalised after each sum), is a chain of linear maps, each with the scale of its own place, and
the pieces add up to the whole at every point. Elhage et al. 2021, "A Mathematical Framework for
Transformer Circuits".

What freezing hides: without one of its writers a vector has another scale. Beside each piece the
ledger therefore keeps the whole without that writer, for which every norm takes its scale anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from models.foreign.placing import outside
from models.norms import LayerNorm
from models.positions import Rotation, rotate
from models.rows import Stream

Kind = Literal["bias", "embedding", "position", "head", "ffn"]


@dataclass(frozen=True)
class Writer:
    """Who put something into a stream: its embedding, what positions add to it, a head, a
    feed-forward net, or all constants together ("bias": those of W_O, of norms, of W_Q and W_K).

    `layer` and `head` count from 0 and are None where there are none; `site` is the name of a
    head's attention sublayer, which is one writer where `head` is None. A head may be split by what
    it took from each key: `key`.
    """

    kind: Kind
    stream: Stream
    layer: int | None = None
    site: str = ""
    head: int | None = None
    key: int | None = None


def array(tensor: torch.Tensor) -> Float[np.ndarray, "..."]:
    """A weight as float64, from wherever it is."""
    return outside(tensor.detach()).double().numpy()


class FrozenNorm:
    """A norm of the model, part by part: its scale for a vector, and the linear rest."""

    def __init__(self, module: nn.Module) -> None:
        self.weight = array(module.get_parameter("weight"))
        self.centres = isinstance(module, LayerNorm)
        bias = getattr(module, "bias", None)
        self.bias = np.zeros_like(self.weight) if bias is None else array(bias)
        self.eps = float(module.eps)  # type: ignore[arg-type]

    def scale(self, x: Float[np.ndarray, "*rest d"]) -> Float[np.ndarray, "*rest 1"]:
        """What it divides by: sqrt(var(x) + eps), or sqrt(mean(x^2) + eps)."""
        x = self.centred(x)
        return np.sqrt(np.square(x).mean(-1, keepdims=True) + self.eps)

    def centred(self, x: Float[np.ndarray, "*rest d"]) -> Float[np.ndarray, "*rest d"]:
        """Without its mean, where the norm takes that away."""
        return x - x.mean(-1, keepdims=True) if self.centres else x

    def divided(
        self, x: Float[np.ndarray, "*rest d"], scale: Float[np.ndarray, "*at 1"]
    ) -> Float[np.ndarray, "*rest d"]:
        """weight * centred(x) / scale: linear in x. The bias is left out."""
        return self.weight * (self.centred(x) / scale)


@dataclass(eq=False)
class Ledger:
    """Vectors at some positions as sums over writers; the first writer is always "bias".

    `pieces` [writer, pos, d] add up to `whole` [pos, d]. `without` [writer, pos, d] is the whole
    as it would be had the writer written nothing and every norm on the way taken its scale anew;
    what sublayers wrote is held as it was. Every method changes the ledger in place.
    """

    writers: list[Writer]
    pieces: Float[np.ndarray, "writer pos d"]
    without: Float[np.ndarray, "writer pos d"]
    whole: Float[np.ndarray, "pos d"]

    @classmethod
    def of(cls, writers: Sequence[Writer], pieces: Float[np.ndarray, "writer pos d"]) -> "Ledger":
        """A sum of these pieces, the first of which is the bias."""
        whole = pieces.sum(0)
        return cls(list(writers), pieces, whole - pieces, whole)

    def join(self, branch: "Ledger") -> None:
        """Add what a sublayer wrote; the constants of both become one piece."""
        self.without += branch.whole
        self.without[0] += branch.without[0] - branch.whole
        self.pieces[0] += branch.pieces[0]
        self.writers += branch.writers[1:]
        self.pieces = np.concatenate((self.pieces, branch.pieces[1:]))
        self.without = np.concatenate((self.without, self.whole + branch.without[1:]))
        self.whole = self.whole + branch.whole

    def norm(self, norm: FrozenNorm) -> None:
        """Put the sum through a norm: the pieces by the scale of the whole, frozen."""
        frozen = norm.scale(self.whole)
        self.pieces = norm.divided(self.pieces, frozen)
        self.without = norm.divided(self.without, norm.scale(self.without))
        self.whole = norm.divided(self.whole, frozen)
        self._constant(norm.bias)

    def linear(
        self, weight: Float[np.ndarray, "out d"], bias: Float[np.ndarray, " out"] | None
    ) -> None:
        """x W^T + b; the b goes to the bias."""
        self.pieces, self.without, self.whole = (
            each @ weight.T for each in (self.pieces, self.without, self.whole)
        )
        if bias is not None:
            self._constant(bias)

    def turn(self, rotation: Rotation) -> None:
        """Turn the vectors by their positions' angles (rotary positions); see `positions.rotate`.

        `rotation` is that of the ledger's positions, [1, 1, pos, pair].
        """
        self.pieces, self.without, self.whole = (
            rotate(torch.tensor(each)[None], rotation)[0].numpy()
            for each in (self.pieces, self.without, self.whole[None])
        )
        self.whole = self.whole[0]

    def gate(self, activation: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Put the sum through an activation f, frozen as a gate: each piece times f(x) / x.

        All activations of the library are x times a gate (0 or 1 for ReLU, Phi(x) for GELU).
        """
        through, lone = (
            activation(torch.tensor(each)).numpy() for each in (self.whole, self.without)
        )
        gates = np.divide(through, self.whole, out=np.zeros_like(through), where=self.whole != 0)
        self.pieces, self.without, self.whole = self.pieces * gates, lone, through

    def _constant(self, bias: Float[np.ndarray, " d"]) -> None:
        self.pieces[0] += bias
        self.whole = self.whole + bias
        self.without[1:] += bias
