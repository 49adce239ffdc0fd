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
from models.training.home import data

MOST_PACKED = 1 << 20
"""Payloads up to this many bytes are compressed; for larger ones, decompression takes too long."""


@dataclass(frozen=True)
class Paragraph:
    """Plain text between the pictures; `is_reading` marks the sentence with the result."""

    words: str
    is_reading: bool = False


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


Block = Paragraph | Component | Plot | Markup


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
    has_charts = any(isinstance(block, Plot) for block in blocks)
    if used or has_charts:
        scripts.append(f"<script>{_script('standalone.js')}</script>")
    if has_charts:
        scripts.append(f"<script>{_safe(_plotly_script())}</script>")
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


_DRAWN: dict[type, Callable[..., str]] = {
    Paragraph: _text,
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
    scripts = ["window.views = {};"]
    for name in names:
        script = link(FOLDER, f"{name}.js").replace("export default", "const $view =", 1)
        scripts.append(f'views["{name}"] = (() => {{\n{script}\nreturn $view;\n}})();')
    return "\n".join([*scripts, _script("mount.js")])


def _script(file: str) -> str:
    text = data("explorer.ui", file).read_text(encoding="utf-8")
    return text.replace("INK", LIGHT.ink).replace("PAPER", LIGHT.paper)


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
{data("explorer.ui", "standalone.css").read_text("utf-8").replace("FONT", FONT)}"""
