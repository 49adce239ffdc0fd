"""A batch of token rows: what a model of any family reads, and which of the tokens are real."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

Stream = Literal["src", "tgt"]
Tokens = Int[Tensor, "batch pos"]
Valid = Bool[Tensor, "batch pos"]  # True at real tokens, False at padding


@dataclass(frozen=True, eq=False)
class Rows:
    """Token ids of a batch; `…_valid` is True at real tokens, False at padding (None: no padding).

    `tgt` is the stream that the logits belong to, or the one text of a decoder or encoder alone;
    `src` the other one that a translator reads. In a cached step `tgt` holds the new tokens only,
    and `tgt_valid` covers all that were read, they last.
    """

    tgt: Int[Tensor, "batch tgt"]
    tgt_valid: Bool[Tensor, "batch past_and_tgt"] | None = None
    src: Int[Tensor, "batch src"] | None = None
    src_valid: Bool[Tensor, "batch src"] | None = None

    @classmethod
    def of(
        cls,
        tgt: Sequence[Sequence[int]],
        src: Sequence[Sequence[int]] | None = None,
        pad_id: int | None = None,
        left: int = 0,
        right: int = 0,
    ) -> "Rows":
        """Lists of token ids side by side, as `padded`; `src` None for a model of one text."""
        source = () if src is None else padded(src, pad_id, left, right)
        return cls(*padded(tgt, pad_id, left, right), *source)

    def __len__(self) -> int:
        return len(self.tgt)

    def tokens(self, stream: Stream) -> Int[Tensor, "batch pos"]:
        """The ids of one stream. Raises ValueError for a source that these rows do not have."""
        tokens = self.src if stream == "src" else self.tgt
        if tokens is None:
            raise ValueError("these rows have no source: they are of a model that reads one text")
        return tokens

    def valid(self, stream: Stream) -> Bool[Tensor, "batch pos"]:
        """Which tokens of one stream are real. Raises ValueError as `tokens`."""
        tokens = self.tokens(stream)
        valid = self.src_valid if stream == "src" else self.tgt_valid
        return torch.ones_like(tokens, dtype=torch.bool) if valid is None else valid

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Rows":
        held = {name: each for name, each in vars(self).items() if each is not None}
        return Rows(**{name: change(each) for name, each in held.items()})

    def select(self, rows: Sequence[int] | Tensor) -> "Rows":
        """These rows of the batch, in this order; a row may be taken several times."""
        index = torch.as_tensor(rows, device=self.tgt.device)
        return self._each(lambda tensor: tensor[index])

    def to(self, device: torch.device) -> "Rows":
        """The same rows on another device."""
        return self._each(lambda tensor: tensor.to(device))


def padded(
    rows: Sequence[Sequence[int]], pad_id: int | None = None, left: int = 0, right: int = 0
) -> tuple[Int[Tensor, "batch pos"], Bool[Tensor, "batch pos"]]:
    """Rows of ids padded on the right to the longest, and by `left` and `right`: (ids, valid).

    Without a `pad_id` padding is written as 0: no model reads it, since `valid` is False there.
    """
    width = left + max(map(len, rows)) + right
    tokens = torch.full((len(rows), width), 0 if pad_id is None else pad_id)
    valid = torch.zeros(len(rows), width, dtype=torch.bool)
    for row, ids in enumerate(rows):
        tokens[row, left : left + len(ids)] = torch.tensor(ids, dtype=torch.long)
        valid[row, left : left + len(ids)] = True
    return tokens, valid
