"""Views and charts outside the app: HTML that needs no server and no network.

They use the same scripts. Messages to Python (such as a request for another head's exact cells) are
dropped; hovering, locking and playing work.
"""

import base64
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from typing import Any

import numpy as np

from explorer.figures.theme import DARK, FONT, LIGHT, css
from explorer.scripts import FOLDER, link

MOST_PACKED = 1 << 20
"""Payloads up to this many bytes are compressed; for larger ones, decompression takes too long."""


@dataclass(frozen=True)
class Paragraph:
    """Plain text between the pictures; `is_reading` marks the sentence with the result."""

    words: str
    is_reading: bool = False


@dataclass(frozen=True)
class Heading:
    """A heading."""

    words: str


@dataclass(frozen=True)
class Component:
    """One of this folder's views, and its payload."""

    name: str
    payload: bytes


@dataclass(frozen=True, eq=False)
class Plot:
    """A Plotly figure, its description, and the name of its picture file.

    `dark` is the figure for a dark page; without it, the figure keeps its own background.
    """

    figure: dict[str, Any]
    alt: str
    file: str = "headlight"
    dark: dict[str, Any] | None = None


@dataclass(frozen=True)
class Markup:
    """Raw HTML; the caller must have escaped untrusted text."""

    html: str


Block = Paragraph | Heading | Component | Plot | Markup


def page(title: str, blocks: Sequence[Block], lang: str, no_script: str = "") -> str:
    """All blocks as one HTML page, in the reader's light or dark theme.

    `no_script` is shown if scripts are disabled.
    """
    body = [f"<h1>{escape(title)}</h1>"]
    if no_script:
        body.append(f"<noscript><p>{escape(no_script)}</p></noscript>")
    body += [_DRAWN[type(block)](block, f"b{number}") for number, block in enumerate(blocks)]
    used = sorted({block.name for block in blocks if isinstance(block, Component)})
    scripts = [f"<script>{_safe(views_script(used))}</script>"] if used else []
    if scripts or any(isinstance(block, Plot) for block in blocks):
        scripts.append(f"<script>{_PRINTING}</script>")
    if any(isinstance(block, Plot) for block in blocks):
        scripts.append(f"<script>{_safe(_plotly_script())}</script>")
        scripts.append(f"<script>{_CHARTS}</script>")
    return f"""<!doctype html>
<html lang="{escape(lang)}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_style(used)}</style>
</head>
<body>
{"".join(scripts)}
{"".join(body)}
</body>
</html>
"""


def _text(block: Paragraph, _: str) -> str:
    kind = ' class="reading"' if block.is_reading else ""
    return f"<p{kind}>{escape(block.words)}</p>"


def _title(block: Heading, _: str) -> str:
    return f"<h2>{escape(block.words)}</h2>"


def _view(block: Component, name: str) -> str:
    is_packed = len(block.payload) <= MOST_PACKED
    data = zlib.compress(block.payload) if is_packed else block.payload
    sent = f'"{base64.b64encode(data).decode()}", {json.dumps(is_packed)}'
    # A form per view: radio buttons of the same name exclude each other within a form.
    return (
        f'<form id="{name}" class="in-{block.name}" onsubmit="return false">'
        '<div class="hl"></div></form>'
        f'<script>headlight("{block.name}", "{name}", {sent})</script>'
    )


def _chart(block: Plot, name: str) -> str:
    figure = block.figure
    figures = _safe(json.dumps([figure, block.dark], default=_numbers))
    kept = _safe(json.dumps({"format": "png", "scale": 3, "filename": block.file}))
    colours = DARK if figure["layout"].get("font", {}).get("color") == DARK.ink else LIGHT
    ground = "" if block.dark else f' style="background: {colours.paper}"'
    return (
        f'<div id="{name}" role="img" aria-label="{escape(block.alt, quote=True)}"{ground}></div>'
        f'<script>headlightChart("{name}", {figures}, {kept})</script>'
    )


def _numbers(array: np.ndarray) -> Any:
    """An array as JSON: base64 bytes for the types that Plotly.js supports."""
    if array.dtype.str not in ("<f4", "<f8"):
        return array.tolist()
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": array.dtype.str[1:], "bdata": data, "shape": ", ".join(map(str, array.shape))}


# Printing is always light: scripts redraw for it and restore afterwards (a print style sheet
# affects text only).
_PRINTING = """
(() => {
  const { style } = document.documentElement;
  const light = { color: "INK", background: "PAPER" };
  [light["--st-text-color"], light["--st-background-color"]] = Object.values(light);
  let before = null;
  const wear = (colours) => {
    for (const [name, value] of Object.entries(colours)) style.setProperty(name, value);
    window.dispatchEvent(new Event("headlight-theme"));
  };
  window.addEventListener("beforeprint", () => {
    const names = Object.keys(light);
    before ??= Object.fromEntries(names.map((name) => [name, style.getPropertyValue(name)]));
    wear(light);
  });
  window.addEventListener("afterprint", () => {
    if (before) wear(before);
    before = null;
  });
})();
""".replace("INK", LIGHT.ink).replace("PAPER", LIGHT.paper)

_CHARTS = """
function headlightChart(place, [light, dark], toImageButtonOptions) {
  const options = { ...toImageButtonOptions, format: "svg", scale: 1 };
  const click = (chart) => Plotly.downloadImage(chart, options);
  const svg = { name: "SVG", icon: Plotly.Icons.disk, click };
  const modeBarButtons = [["toImage", svg]];
  const config = { displaylogo: false, responsive: true, toImageButtonOptions, modeBarButtons };
  const draw = () => {
    const style = getComputedStyle(document.documentElement);
    const paper = style.getPropertyValue("--st-background-color").trim();
    const isDark = parseInt(paper.slice(1), 16) < 0x808080;
    Plotly.react(place, Object.assign({}, dark && isDark ? dark : light, { config }));
  };
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  window.addEventListener("headlight-theme", draw);
}
"""

_DRAWN: dict[type, Callable[..., str]] = {
    Paragraph: _text,
    Heading: _title,
    Component: _view,
    Plot: _chart,
    Markup: lambda block, _: block.html,
}


def _safe(script: str) -> str:
    """Escape a script so that it cannot close its own element."""
    return script.replace("</", "<\\/").replace("<!--", "<\\u0021--")


@cache
def _plotly_script() -> str:
    """The Plotly script, 4.8 MB."""
    return (resources.files("plotly") / "package_data" / "plotly.min.js").read_text("utf-8")


def views_script(names: Sequence[str]) -> str:
    """The scripts of these views, each in its own scope, and the function that mounts them."""
    scripts = []
    for name in names:
        script = link(FOLDER, f"{name}.js").replace("export default", "const $view =", 1)
        scripts.append(f'views["{name}"] = (() => {{\n{script}\nreturn $view;\n}})();')
    return (
        "const views = {};\n"
        + "\n".join(scripts)
        + """
async function unpacked(sent, isPacked) {
  const letters = atob(sent);
  const data = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at += 1) data[at] = letters.charCodeAt(at);
  if (!isPacked) return data;
  const inflated = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(inflated).arrayBuffer());
}
async function headlight(view, place, sent, isPacked) {
  const data = await unpacked(sent, isPacked);
  const parentElement = document.getElementById(place);
  const draw = () => views[view]({ parentElement, data, setTriggerValue: () => {}, plays: true });
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  window.addEventListener("headlight-theme", draw);
}
"""
    )


def sheet_of(names: Sequence[str]) -> str:
    """The style sheet of these views, each scoped to the view, as in the app."""

    def sheet(file: str) -> str:
        return (FOLDER / file).read_text(encoding="utf-8")

    of_views = "\n".join(f":where(.in-{name}) {{\n{sheet(f'{name}.css')}\n}}" for name in names)
    return f"{css()}\n{sheet('shared.css')}\n{of_views}\n"


def _style(names: Sequence[str]) -> str:
    def ground(selector: str, ink: str, paper: str) -> str:
        return (
            f"{selector} {{ --st-text-color: {ink}; --st-background-color: {paper};"
            f" color: {ink}; background: {paper}; }}"
        )

    return f"""{sheet_of(names)}
{ground(":root", LIGHT.ink, LIGHT.paper)}
@media (prefers-color-scheme: dark) {{ {ground(":root", DARK.ink, DARK.paper)} }}
@media print {{ {ground(":root", LIGHT.ink, LIGHT.paper)} }}
a {{ color: inherit; }}
body {{ margin: 1rem auto; max-width: 90rem; padding: 0 1rem; font: 16px/1.5 {FONT}; }}
p.reading {{ font-size: 1.15rem; font-weight: 600; }}
p, h1 {{ overflow-wrap: anywhere; white-space: pre-wrap; }}
@media print {{ h2 {{ break-before: page; }} }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
td, th {{ padding: 0.15rem 0.6rem; border-bottom: 1px solid #8884; text-align: left; }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; }}
p.note {{ opacity: 0.75; font-size: 0.9rem; }}
.row {{ display: flex; flex-wrap: wrap; gap: 1rem 2rem; }}
.row > * {{ flex: 1 1 16rem; min-width: 0; }}
figure {{ margin: 1rem 0; overflow-x: auto; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1rem; }}
dd {{ margin: 0; }}
.hl .down {{ display: none; }} /* no page to go on to */
"""
