"""The picture in a link's preview: a sentence, what came out, and its attention, as a PNG."""

import io
import unicodedata
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from explorer.figures.frame import Bools, Floats
from explorer.figures.theme import LIGHT, bare, clipped, show
from models.hooks import AttentionSite

SIZE = 1200, 630
"""Pixels; the proportion at which sites that show previews do not crop."""
MARGIN, TOP, LABELS = 48, 218, 130
"""Pixels around the picture, above the large pattern, and of the longest label."""
MOST_LINE = 66
"""Most Latin letters of the sentence; a Chinese character is as wide as two."""
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
    patterns: Sequence[Floats],
    allowed: Bools,
    site: AttentionSite,
    head: int,
    tokens: tuple[Sequence[str], Sequence[str]],
    said: tuple[str, str],
    title: str,
) -> bytes:
    """One head large, with its tokens, and all heads of its kind small, as a PNG of `SIZE`.

    `patterns` are [head, query, key], one array per layer; `allowed` is the mask of `site`,
    [query, key]; `tokens` label its queries and keys. `said` is the sentence and what the
    model made of it, "" for nothing. Text is drawn, and never interpreted; a text whose characters
    no font has is left out.
    """
    image = Image.new("RGB", SIZE, LIGHT.paper)
    pen = ImageDraw.Draw(image)
    colours = (LIGHT.source, LIGHT.target) if said[1] else (LIGHT.ink, LIGHT.target)
    for text, top, colour in zip(said, (40, 98), colours, strict=True):
        pen.text((MARGIN, top), _line(text), colour, _font(34))
    pen.text((MARGIN, 160), title, LIGHT.muted, _font(22))
    pen.text((SIZE[0] - MARGIN, 160), "Headlight", LIGHT.accent, _font(22), anchor="ra")
    left, top = MARGIN + LABELS, TOP + 60
    high = SIZE[1] - MARGIN - top
    pattern = patterns[site.layer][head]
    n_query, n_key = pattern.shape
    wide = min(520, max(high, round(high * n_key / n_query)))
    image.paste(_painted(pattern, allowed, (wide, high)), (left, top))
    pen.rectangle((left - 1, top - 1, left + wide, top + high), outline=LIGHT.line)
    streams = LIGHT.stream(site.query_stream), LIGHT.stream(site.key_stream)
    _labels(image, tokens[0], (left - 8, top), high, streams[0], across=False)
    _labels(image, tokens[1], (left, top - 6), wide, streams[1], across=True)
    _small(image, patterns, site.layer, head, left + wide + 48)
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=3)  # half the time of 6 for a seventh more bytes
    return file.getvalue()


def _painted(pattern: Floats, allowed: Bools | None, size: tuple[int, int]) -> Image.Image:
    """The weights 0 to 1 in the colours of attention; what the mask blocks in grey."""
    stops = np.array([[int(c[at : at + 2], 16) for at in (1, 3, 5)] for c in LIGHT.attention])
    places = np.linspace(0, 1, len(stops))
    shades = np.stack([np.interp(pattern, places, stops[:, at]) for at in range(3)], -1)
    if allowed is not None:
        shades[~np.broadcast_to(allowed, pattern.shape)] = 0xEC
    # Of more cells than pixels, the mean is drawn.
    few = pattern.shape[1] <= size[0] and pattern.shape[0] <= size[1]
    how = Image.Resampling.NEAREST if few else Image.Resampling.BOX
    return Image.fromarray(shades.round().astype(np.uint8)).resize(size, how)


def _labels(
    image: Image.Image,
    tokens: Sequence[str],
    at: tuple[int, int],
    length: int,
    colour: str,
    *,
    across: bool,
) -> None:
    """The tokens along one side of the pattern, if each has at least 14 pixels."""
    space = length / len(tokens)
    if space < 14:
        return
    font = _font(min(20, round(space * 0.8)))
    for index, token in enumerate(tokens):
        text = bare(clipped(show(token), 11))
        if not drawable(text):
            continue
        box = font.getbbox(text)
        label = Image.new("L", (min(LABELS, round(box[2]) + 2), round(font.size * 1.4)), 0)
        ImageDraw.Draw(label).text((0, 0), text, 255, font)
        middle = round(space * (index + 0.5))
        if across:
            label = label.rotate(90, expand=True)
            label = label.crop((0, max(0, label.height - 84), label.width, label.height))
            place = at[0] + middle - label.width // 2, at[1] - label.height
        else:
            place = at[0] - label.width, at[1] + middle - label.height // 2
        image.paste(colour, place, label)


def _small(
    image: Image.Image, patterns: Sequence[Floats], layer: int, head: int, left: int
) -> None:
    """All heads, a row per layer, with a frame around the chosen one."""
    rows, columns = len(patterns), max(len(matrices) for matrices in patterns)
    across, down = SIZE[0] - MARGIN - left, SIZE[1] - MARGIN - TOP - 60
    step = min(across / columns, down / rows, 110)
    if step < 4:
        return
    size = max(2, round(step * 0.88))
    for row, heads in enumerate(patterns):
        for column, pattern in enumerate(heads):
            place = round(left + column * step), round(TOP + 60 + row * step)
            image.paste(_painted(pattern, None, (size, size)), place)
            if (row, column) == (layer, head):
                far = place[0] + size + 2, place[1] + size + 2
                pen = ImageDraw.Draw(image)
                pen.rectangle((place[0] - 3, place[1] - 3, *far), outline=LIGHT.accent, width=3)
