"""`Picture`, the result of `show`: display, export and numbers."""

import base64
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from explorer.components.standalone import Block, page
from explorer.exports.archive import to_rows
from explorer.exports.picture import axes_of, site_svg
from explorer.figures.matrix import Axes
from explorer.figures.theme import DARK, LIGHT
from explorer.notebook.given import Patterns
from explorer.text import family, t
from models.training.home import data

if TYPE_CHECKING:
    import pandas as pd

Table = Mapping[str, Sequence[Any] | np.ndarray]

# Hides the static picture next to a frame. Where frames are removed, in an untrusted notebook or
# on a static notebook viewer, that picture is shown instead.
_HIDDEN = "<style>iframe + .headlight-still { display: none }</style>"


@cache
def _in_frame() -> str:
    script = data("explorer.ui", "in_frame.js").read_text(encoding="utf-8")
    for name, colours in (("LIGHT", LIGHT), ("DARK", DARK)):
        script = script.replace(f"INK_{name}", colours.ink).replace(f"PAPER_{name}", colours.paper)
    return script


def places(shape: Sequence[int], *axes: str) -> dict[str, np.ndarray]:
    """The index of every number of an array along each axis, from 1, in the array's order."""
    indices = np.indices(shape).reshape(len(shape), -1) + 1
    return dict(zip(axes, indices, strict=True))


def joined(tables: Iterable[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Tables of the same columns one below the other; a single value fills its column."""
    columns: dict[str, list[np.ndarray]] = {}
    for table in tables:
        size = max(np.size(column) for column in table.values())
        for name, column in table.items():
            whole = column if np.ndim(column) else np.full(size, column, dtype=object)
            columns.setdefault(name, []).append(whole)
    return {name: np.concatenate(parts) for name, parts in columns.items()}


class Picture:
    """A picture that displays itself in a notebook and can be exported.

    `html()` is a standalone page that needs no network and no server; `svg()` is a version for
    print. `save` writes the page, the SVG or a CSV, by the file extension. `numpy()` gives the
    arrays by name, and `dataframe()` one row per cell (this needs pandas).
    """

    def __init__(
        self,
        title: str,
        blocks: Sequence[Block],
        lang: str,
        arrays: Mapping[str, np.ndarray],
        table: Callable[[], Table],
        svg: Callable[[], str],
        still: Callable[[], str] | None = None,
    ) -> None:
        self.title, self.lang, self._still = title, lang, still
        self._arrays, self._table, self._svg = arrays, table, svg
        self._page = page(title, blocks, lang, no_script=t("notebook.no_script", lang=lang))

    def html(self) -> str:
        """The picture as one self-contained HTML page."""
        return self._page

    def save(self, path: str | Path) -> Path:
        """Write the page (.html), the SVG (.svg) or the numbers (.csv), by the file extension.

        Returns the path. Save a PNG with the button above the picture.
        Raises ValueError for any other file extension, OSError if the file cannot be written.
        """
        path = Path(path)
        makers = {".html": self.html, ".htm": self.html, ".svg": self.svg, ".csv": self._csv}
        make = makers.get(path.suffix.lower())
        if make is None:
            raise ValueError(f"{path.name}: a picture is saved as .html, .svg or .csv")
        # Spreadsheets need a byte order mark to detect UTF-8.
        encoding = "utf-8-sig" if make == self._csv else "utf-8"
        path.write_text(make(), encoding=encoding, newline="")
        return path

    def _csv(self) -> str:
        columns = self._table()
        return to_rows(columns, zip(*columns.values(), strict=True))

    def svg(self) -> str:
        """The picture as SVG, in light colours."""
        return self._svg()

    def numpy(self) -> dict[str, np.ndarray]:
        """The arrays by name."""
        return dict(self._arrays)

    def dataframe(self) -> "pd.DataFrame":
        """All numbers with their tokens as a pandas table. Raises ImportError without pandas."""
        import pandas as pd  # optional dependency

        return pd.DataFrame(self._table())

    def _repr_html_(self) -> str:
        framed = self._page.replace("<body>", f"<body>\n<script>{_in_frame()}</script>", 1)
        title, untrusted = escape(self.title), t("notebook.untrusted", lang=self.lang)
        drawn = "" if self._still is None else base64.b64encode(self._still().encode()).decode()
        image = f'<img alt="{title}" src="data:image/svg+xml;base64,{drawn}">' if drawn else ""
        note = f"<p><b>{title}</b><br>{escape(untrusted)}</p>"
        return (
            f'{_HIDDEN}<iframe title="{title}" srcdoc="{escape(framed)}"'
            ' style="width: 100%; height: 640px; border: 0" loading="lazy"></iframe>'
            f'<div class="headlight-still">{note}{image}</div>'
        )

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name} {list(array.shape)}" for name, array in self._arrays.items())
        return f"<{self.title}: {arrays}>"


def axes_of_part(part: Patterns, lang: str) -> Axes:
    """The axes of a view."""
    tokens, streams = (part.query_tokens, part.key_tokens), (part.query_stream, part.key_stream)
    return axes_of(tokens, streams, lang)


def cells_table(parts: Sequence[Patterns]) -> Table:
    """One row per cell: view, layer, head, query, key (from 1), their tokens, weight, allowed."""
    return joined(map(_cells, parts))


def _cells(part: Patterns) -> dict[str, Any]:
    at = places(part.weights.shape, "layer", "head", "query", "key")
    tokens = {
        f"{axis}_token": np.array(names, dtype=object)[at[axis] - 1]
        for axis, names in (("query", part.query_tokens), ("key", part.key_tokens))
    }
    numbers = {"weight": part.weights.ravel(), "allowed": part.allowed.ravel()}
    return {"view": part.title, **at, **tokens, **numbers}


def parts_svg(title: str, parts: Sequence[Patterns], lang: str) -> str:
    """All heads of all parts, one part below the other; each is named if there are several."""
    words = family("export", lang=lang)
    drawn = []
    for part in parts:
        n_layers, n_heads, n_query, n_key = part.weights.shape
        places = [divmod(at, n_heads) for at in range(n_layers * n_heads)]
        drawn.append(
            site_svg(
                part.weights.reshape(-1, n_query, n_key),
                part.allowed.reshape(-1, n_query, n_key),
                axes_of_part(part, lang),
                title=" · ".join(filter(None, (title, part.title))) if len(parts) > 1 else title,
                names=[f"L{layer + 1}·H{head + 1}" for layer, head in places],
                words=words,
            )
        )
    return below(drawn)


def below(svgs: Sequence[str]) -> str:
    """Stack SVGs of `site_svg` vertically in one SVG."""
    if len(svgs) == 1:
        return svgs[0]
    width, height, placed = 0.0, 0.0, []
    for svg in svgs:
        size = re.search(r'width="([\d.e+]+)" height="([\d.e+]+)"', svg)
        assert size is not None
        placed.append(svg.replace("<svg ", f'<svg y="{height:g}" ', 1))
        width, height = max(width, float(size[1])), height + float(size[2])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}">\n{"".join(placed)}</svg>\n'
    )
