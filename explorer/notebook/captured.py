"""What `capture` saw: the calls of attention, which show themselves and give their numbers."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

if TYPE_CHECKING:
    from pandas import DataFrame

    from explorer.notebook.picture import Picture


@dataclass(frozen=True, eq=False)
class Attention:
    """One call of attention, in the order of calls.

    `name` is the path of the module in which it happened (its class name for the outermost one).
    `pattern` is float32 [batch, head, query, key], before dropout. `mask` is Bool and broadcastable
    to it, True = may attend; None where none was applied. In plain code a mask shows by the scores
    of -5,000 or less that go into the softmax. `fill` is the largest number that stands for
    "hidden" in scores, or in a mask that is added to them; None where there is none. `query` and
    `key` are [batch, head, pos, d_head]; None for plain code. All are detached and lie on the
    module's device.
    """

    name: str
    pattern: Tensor = field(repr=False)
    mask: Tensor | None = field(default=None, repr=False)
    query: Tensor | None = field(default=None, repr=False)
    key: Tensor | None = field(default=None, repr=False)
    fill: float | None = field(default=None, repr=False)


class Captured:
    """What was seen: `calls` in order; `unseen` names what may be attention but showed no pattern.

    `patterns`, `masks`, `queries` and `keys` list the same field of every call.
    """

    def __init__(self) -> None:
        self.calls: list[Attention] = []
        self.unseen: list[str] = []

    def __len__(self) -> int:
        return len(self.calls)

    def __iter__(self) -> Iterator[Attention]:
        return iter(self.calls)

    def __getitem__(self, name: str | int) -> Attention:
        """A call by number, or the first one of a module's path. Raises KeyError, IndexError."""
        if isinstance(name, int):
            return self.calls[name]
        for call in self.calls:
            if call.name == name:
                return call
        seen = ", ".join(self.names) or "none"
        raise KeyError(f"no attention was seen in {name!r}; seen: {seen}")

    @property
    def names(self) -> list[str]:
        return [call.name for call in self.calls]

    @property
    def patterns(self) -> list[Tensor]:
        return [call.pattern for call in self.calls]

    @property
    def masks(self) -> list[Tensor | None]:
        return [call.mask for call in self.calls]

    @property
    def queries(self) -> list[Tensor | None]:
        return [call.query for call in self.calls]

    @property
    def keys(self) -> list[Tensor | None]:
        return [call.key for call in self.calls]

    def numpy(self) -> dict[str, np.ndarray]:
        """The patterns of the first sequence by kind, [call, head, query, key], as `show` has them.

        Raises ValueError where nothing was seen.
        """
        return self._picture().numpy()

    def dataframe(self) -> "DataFrame":
        """One row a cell of these. Raises ValueError as `numpy`, ImportError without pandas."""
        return self._picture().dataframe()

    def save(self, path: str | Path) -> Path:
        """Write `show(self)` as .html, .svg or .csv; `show` itself takes tokens and a sequence.

        Raises ValueError for another ending or where nothing was seen, OSError.
        """
        return self._picture().save(path)

    def _picture(self) -> "Picture":
        import explorer  # whose `show` knows this class

        picture: Picture = explorer.show(self)
        return picture

    def _repr_html_(self) -> str:
        return self._picture()._repr_html_() if self.calls else f"<pre>{escape(repr(self))}</pre>"

    def __repr__(self) -> str:
        seen = ", ".join(f"{c.name} {list(c.pattern.shape)}" for c in self.calls) or "none"
        unseen = f"; unseen: {', '.join(self.unseen)}" if self.unseen else ""
        return f"<Captured: {seen}{unseen}>"
