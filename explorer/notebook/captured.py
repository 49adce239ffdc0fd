"""The attention calls that `capture` recorded, with their display in a notebook and exports."""

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
    """One attention call.

    `name` is the path of the calling module (its class name for the outermost one). `pattern` is
    float32 [batch, head, query, key], before dropout. `mask` is Bool and broadcastable to it,
    True = may attend; None if no mask was applied. In plain code the mask is inferred from scores
    of -5,000 or less before the softmax. `fill` is the largest number that masks a score (set in
    the scores or added to them); None if there is none. `query` and `key` are
    [batch, head, pos, d_head]; None for plain code. All tensors are detached and on the module's
    device.
    """

    name: str
    pattern: Tensor = field(repr=False)
    mask: Tensor | None = field(default=None, repr=False)
    query: Tensor | None = field(default=None, repr=False)
    key: Tensor | None = field(default=None, repr=False)
    fill: float | None = field(default=None, repr=False)


def _each(name: str) -> property:
    """One field of every call."""
    return property(lambda seen: [getattr(call, name) for call in seen.calls])


class Captured:
    """Result of `capture`: `calls` in order, and `unseen`, the modules and functions that may
    compute attention but whose pattern could not be recorded.

    `patterns`, `masks`, `queries` and `keys` list one field of every call.
    """

    def __init__(self) -> None:
        self.calls: list[Attention] = []
        self.unseen: list[str] = []

    def __len__(self) -> int:
        return len(self.calls)

    def __iter__(self) -> Iterator[Attention]:
        return iter(self.calls)

    def __getitem__(self, name: str | int) -> Attention:
        """A call by index, or the first call of a module by its path.

        Raises IndexError or KeyError if there is none.
        """
        if isinstance(name, int):
            return self.calls[name]
        for call in self.calls:
            if call.name == name:
                return call
        seen = ", ".join(self.names) or "none"
        raise KeyError(f"no attention was captured in {name!r}; captured: {seen}")

    @property
    def names(self) -> list[str]:
        return [call.name for call in self.calls]

    patterns, masks, queries, keys = map(_each, ("pattern", "mask", "query", "key"))

    def numpy(self) -> dict[str, np.ndarray]:
        """The patterns of the first sequence by kind, [call, head, query, key], as in `show`.

        Raises ValueError if no attention was recorded.
        """
        return self._picture().numpy()

    def dataframe(self) -> "DataFrame":
        """One row per cell of these patterns.

        Raises ValueError if no attention was recorded, ImportError without pandas.
        """
        return self._picture().dataframe()

    def save(self, path: str | Path) -> Path:
        """Write `show(self)` as .html, .svg or .csv; call `show` to set tokens or the sequence.

        Raises ValueError for any other file extension or if no attention was recorded, and OSError
        if the file cannot be written.
        """
        return self._picture().save(path)

    def _picture(self) -> "Picture":
        import explorer  # its `show` accepts this class

        picture: Picture = explorer.show(self)
        return picture

    def _repr_html_(self) -> str:
        return self._picture()._repr_html_() if self.calls else f"<pre>{escape(repr(self))}</pre>"

    def __repr__(self) -> str:
        seen = ", ".join(f"{c.name} {list(c.pattern.shape)}" for c in self.calls) or "none"
        unseen = f"; unseen: {', '.join(self.unseen)}" if self.unseen else ""
        return f"<Captured: {seen}{unseen}>"
