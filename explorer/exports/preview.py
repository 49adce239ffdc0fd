"""The picture in a link's preview: a sentence, what came out, and its attention, as a PNG.

The sentence is untrusted, so a process with limits draws it: it runs this module.
"""

import base64
import io
import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from explorer.figures.frame import Floats
from explorer.figures.theme import LIGHT, bare, show
from explorer.sandbox.apart import ask_once
from explorer.sandbox.bounds import answer_one

SIZE = 1200, 630
"""Pixels; the proportion at which sites that show previews do not crop."""
MARGIN, TOP = 48, 218
"""Pixels around the picture, and above the heads."""
MOST_LINE = 66
"""Most Latin letters of the sentence; a Chinese character is as wide as two."""
ROOM = 200_000_000
"""Memory limit in bytes, a hundred times the picture."""
SECONDS, PATIENCE = 3, 10.0
"""CPU seconds, of which a preview takes about 0.05, and seconds until the app gives up."""
_FONTS = (
    *Path("/usr/share/fonts").glob("**/NotoSansCJK-Regular.ttc"),
    Path("/System/Library/Fonts/Hiragino Sans GB.ttc"),
    Path("C:/Windows/Fonts/msyh.ttc"),
)


@cache
def _font(size: int) -> Any:
    """A font of the system that has Chinese characters; else Pillow's own, which is Latin."""
    file = next((path for path in _FONTS if path.is_file()), None)
    return ImageFont.truetype(str(file), size) if file else ImageFont.load_default(size)


@cache
def _missing() -> bytes:
    return bytes(_font(20).getmask("\U0010fffe"))


def drawable(text: str) -> bool:
    """Whether the font has all characters of the text; it draws the others as boxes."""
    return all(c.isspace() or bytes(_font(20).getmask(c)) != _missing() for c in set(text))


def _line(text: str, most: int = MOST_LINE) -> str:
    """The beginning of a text that fits into `most` Latin letters; "" if it cannot be drawn."""
    text, width = " ".join(text.split()), 0
    text = bare(show(text)) if text else ""
    for at, character in enumerate(text):
        width += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if width > most:
            text = text[: at - 1] + "…"
            break
    return text if drawable(text) else ""


def preview_png(
    patterns: Sequence[Floats], chosen: tuple[int, int], said: tuple[str, str], title: str
) -> bytes:
    """A sentence and all heads of one kind, a row per layer, as a PNG of `SIZE`.

    `patterns` are [head, query, key], one array per layer; the head `chosen`, (layer, head), is
    framed. `said` is the sentence and what the model made of it, "" for nothing. Text is drawn, and
    never interpreted; a text whose characters no font has is left out. b"" if it takes more than
    its time or memory.
    """
    weights = [each.astype(np.float32) for each in patterns]
    layers = [(each.shape, base64.b64encode(each.tobytes()).decode()) for each in weights]
    asked = {"layers": layers, "chosen": chosen, "said": said, "title": title}
    answer = ask_once("exports.preview", asked, PATIENCE)
    return base64.b64decode(answer["png"]) if answer else b""


def answered(
    layers: Sequence[tuple[Sequence[int], str]],
    chosen: Sequence[int],
    said: Sequence[str],
    title: str,
) -> dict[str, str]:
    """The preview as base64. A layer is the shape of its patterns, and their float32 as base64."""
    patterns = [
        np.frombuffer(base64.b64decode(weights), np.float32).reshape(shape)
        for shape, weights in layers
    ]
    image = Image.new("RGB", SIZE, LIGHT.paper)
    pen = ImageDraw.Draw(image)
    colours = (LIGHT.source, LIGHT.target) if said[1] else (LIGHT.ink, LIGHT.target)
    for text, top, colour in zip(said, (40, 98), colours, strict=True):
        pen.text((MARGIN, top), _line(text), colour, _font(34))
    pen.text((MARGIN, 160), title, LIGHT.muted, _font(22))
    pen.text((SIZE[0] - MARGIN, 160), "Headlight", LIGHT.accent, _font(22), anchor="ra")
    across, down = SIZE[0] - 2 * MARGIN, SIZE[1] - MARGIN - TOP
    step = min(across / max(map(len, patterns)), down / len(patterns))
    size = max(1, round(step * 0.9))
    for row, heads in enumerate(patterns):
        for column, pattern in enumerate(heads):
            left, top = round(MARGIN + column * step), round(TOP + row * step)
            image.paste(_painted(pattern, size), (left, top))
            if [row, column] == [*chosen]:
                frame = left - 3, top - 3, left + size + 2, top + size + 2
                pen.rectangle(frame, outline=LIGHT.accent, width=3)
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=3)  # half the time of 6 for a seventh more bytes
    return {"png": base64.b64encode(file.getvalue()).decode()}


def _painted(pattern: Floats, size: int) -> Image.Image:
    """The weights 0 to 1 in the colours of attention, as a square."""
    stops = np.array([[int(c[at : at + 2], 16) for at in (1, 3, 5)] for c in LIGHT.attention])
    places = np.linspace(0, 1, len(stops))
    shades = np.stack([np.interp(pattern, places, stops[:, at]) for at in range(3)], -1)
    # Of more cells than pixels, the mean is drawn.
    how = Image.Resampling.NEAREST if max(pattern.shape) <= size else Image.Resampling.BOX
    return Image.fromarray(shades.round().astype(np.uint8)).resize((size, size), how)


if __name__ == "__main__":
    answer_one(answered, ROOM, SECONDS)
