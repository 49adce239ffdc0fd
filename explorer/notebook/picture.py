"""What `show`, `mask`, `film` and `positions` return: a picture that shows and saves itself."""

import base64
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from explorer.components.standalone import Block, page
from explorer.exports.archive import to_rows
from explorer.figures.theme import DARK, LIGHT
from explorer.once import once
from explorer.text import t

if TYPE_CHECKING:
    import pandas as pd

Table = Mapping[str, Sequence[Any] | np.ndarray]

# In a notebook the page is the content of a frame. It takes over the notebook's light or dark
# theme, which need not be the system's, follows when that is switched, and tells the frame how high
# it is. In a frame of another origin (a notebook that isolates its outputs) it scrolls instead.
_IN_A_FRAME = """<script>
(() => {
  let frame = null;
  try { frame = window.frameElement; } catch { return; } // a frame of another origin, or none
  if (!frame) return;
  const style = document.documentElement.style;
  const outside = frame.ownerDocument;
  const named = "html[theme=dark], [data-theme=dark], .vscode-dark, [data-jp-theme-light=false]";
  const wear = () => {
    const colour = getComputedStyle(frame.parentElement).color;
    const [r, g, b] = (colour.match(/[\\d.]+/g) ?? []).map(Number);
    const dark = outside.querySelector(named) || 0.3 * r + 0.59 * g + 0.11 * b > 128;
    const [ink, paper] = dark ? ["INK_DARK", "PAPER_DARK"] : ["INK_LIGHT", "PAPER_LIGHT"];
    if (style.color && style.getPropertyValue("--st-text-color") === ink) return;
    for (const [name, value] of [["--st-text-color", ink], ["--st-background-color", paper],
      ["color", ink], ["background", paper]]) style.setProperty(name, value);
    window.dispatchEvent(new Event("headlight-theme"));
  };
  wear();
  const watched = new MutationObserver(() => setTimeout(wear, 200)); // its style sheets load first
  for (const node of [outside.documentElement, outside.body]) {
    watched.observe(node, { attributes: true });
  }
  style.overflowY = "hidden";
  const fit = () => { frame.style.height = document.documentElement.offsetHeight + "px"; };
  new ResizeObserver(fit).observe(document.documentElement);
})();
</script>"""
for _name, _colours in (("LIGHT", LIGHT), ("DARK", DARK)):
    _IN_A_FRAME = _IN_A_FRAME.replace(f"INK_{_name}", _colours.ink)
    _IN_A_FRAME = _IN_A_FRAME.replace(f"PAPER_{_name}", _colours.paper)

# What a reader sees where frames are taken out: in a notebook that is not trusted, or on a site
# that shows notebooks without running anything. Beside a frame a style sheet hides it.
_HIDDEN = "<style>iframe + .headlight-still { display: none }</style>"


class Picture:
    """A picture that shows itself in a notebook, saves itself, and gives its numbers.

    `html()` is a whole page that needs no network and no server, `save("x.html")` writes it (or the
    SVG or a CSV, for a name that ends so); `svg()` is the same for print; `numpy()` gives the
    arrays by name, and `dataframe()` one row a cell, which alone needs pandas.
    """

    def __init__(
        self,
        title: str,
        blocks: Callable[[int], Sequence[Block]],
        lang: str,
        arrays: Mapping[str, np.ndarray],
        table: Callable[[], Table],
        svg: Callable[[], str],
        still: Callable[[], str] | None = None,
    ) -> None:
        self.title, self.lang, self._still = title, lang, still
        self._blocks, self._arrays, self._table, self._svg = blocks, arrays, table, svg
        self._page  # noqa: B018 (what does not fit is refused here, not when it is drawn)

    @once
    def _page(self) -> str:
        asked = t("notebook.no_script", lang=self.lang)
        return page(self.title, self._blocks(0), self.lang, no_script=asked)

    def blocks(self, grain: int = 0) -> Sequence[Block]:
        """What the picture consists of, for a page of several.

        With a `grain` from 1 to 64 its weights are rounded, the more the larger it is, so that they
        take less room; the picture says so where it tells one of them.
        """
        return self._blocks(grain)

    def html(self) -> str:
        """The picture as one HTML page, which loads nothing."""
        return self._page

    def save(self, path: str | Path) -> Path:
        """Write the page, or by the name's ending the SVG (.svg) or the numbers (.csv).

        Returns the path. A PNG is kept by the button above a picture.
        Raises ValueError for another ending, OSError where it cannot be written.
        """
        path = Path(path)
        makers = {".html": self.html, ".htm": self.html, ".svg": self.svg, ".csv": self._csv}
        make = makers.get(path.suffix.lower())
        if make is None:
            raise ValueError(f"{path.name}: a picture is saved as .html, .svg or .csv")
        # What spreadsheets need to read UTF-8.
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
        import pandas as pd  # only here: nothing else needs it

        return pd.DataFrame(self._table())

    def _repr_html_(self) -> str:
        framed = self._page.replace("<body>", f"<body>\n{_IN_A_FRAME}", 1)
        title, untrusted = escape(self.title), t("notebook.untrusted", lang=self.lang)
        drawn = "" if self._still is None else base64.b64encode(self._still().encode()).decode()
        image = f'<img alt="{title}" src="data:image/svg+xml;base64,{drawn}">' if drawn else ""
        said = f"<p><b>{title}</b><br>{escape(untrusted)}</p>"
        return (
            f'{_HIDDEN}<iframe title="{title}" srcdoc="{escape(framed)}"'
            ' style="width: 100%; height: 640px; border: 0" loading="lazy"></iframe>'
            f'<div class="headlight-still">{said}{image}</div>'
        )

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name} {list(array.shape)}" for name, array in self._arrays.items())
        return f"<{self.title}: {arrays}>"
