"""Draw a word with one of the project's typefaces, none of which was used in training."""

import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from models.refusals import Refusal

FONTS = Path(__file__).parent / "fonts"
FACES = {
    "sans": "OpenSans-Regular.ttf",
    "serif": "Caladea-Regular.ttf",
    "bold": "Caladea-Bold.ttf",
    "antique": "Fanwood-Italic.otf",
    "comic": "ComicNeue-Regular.otf",
    "round": "Jura-Regular.otf",
    "typewriter": "CourierPrime-Regular.otf",
}
"""Files by the names under which a text asks for them; the first is the default."""
CHINESE = {"serif": "ZCOOLXiaoWei-Regular.ttf", "bold": "NotoSansSC-Bold.otf"} | dict.fromkeys(
    ("antique", "comic"), "HeadlightKai-Regular.ttf"
)
"""The same for a word with Chinese characters; all others are Noto Sans SC."""
HAN = re.compile("[\u4e00-\u9fff]+")
"""A run of Chinese characters."""
LONGEST = 24
"""Characters of a word to draw; the model was trained on up to 9, of Chinese on up to 6."""
Box = tuple[float, float]
"""Where a letter is drawn: its left and right end in pixels."""


def split_face(text: str) -> tuple[str, str]:
    """A word and the name of its face: "hello @serif" is ("hello", "serif").

    Raises Refusal `no_face`.
    """
    word, at, face = text.rpartition(" @")
    if not at:
        return text, next(iter(FACES))
    if face not in FACES:
        raise Refusal("no_face", name=face[:40], known=", ".join(FACES))
    return word, face


def file_of(word: str, face: str) -> str:
    """The file of a face that has the characters of a word."""
    return CHINESE.get(face, "NotoSansSC-Regular.otf") if HAN.search(word) else FACES[face]


@cache
def _font(file: str, size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.truetype(str(FONTS / file), size)


def drawn_word(text: str, height: int, width: int) -> tuple[np.ndarray, list[Box]]:
    """A word in the middle of a picture, uint8 [height, width], and the box of each character.

    Raises Refusal `no_face`, `long_word` for more than LONGEST characters, and `no_glyph` for
    characters that the face lacks.
    """
    from PIL import Image, ImageDraw

    word, face = split_face(" ".join(text.split()))
    if len(word) > LONGEST:
        raise Refusal("long_word", count=len(word), limit=LONGEST)
    file = file_of(word, face)
    font = _font(file, max(44, height))
    missing = bytes(font.getmask("\u0fff"))
    lacking = [c for c in dict.fromkeys(word) if c != " " and bytes(font.getmask(c)) == missing]
    if lacking:
        raise Refusal("no_glyph", characters=" ".join(lacking))
    _, top, _, bottom = font.getbbox("Hgjpl" if file == FACES[face] else "我")
    long = max(1.0, font.getlength(word))
    down = 0.84 * height / (bottom - top)
    across = min(down, (width - 6) / long)
    down = min(down, across / 0.72)
    flat = Image.new("L", (round(long) + 16, bottom - top + 16), 0)
    ImageDraw.Draw(flat).text((8, 8 - top), word, font=font, fill=255)
    size = max(1, round(flat.width * across)), max(1, round(flat.height * down))
    small = flat.resize(size, Image.Resampling.BOX)
    left = (width - size[0]) // 2
    page = Image.new("L", (width, height), 0)
    page.paste(small, (left, (height - size[1]) // 2))
    ends = [left + across * (8 + font.getlength(word[:n])) for n in range(len(word) + 1)]
    return np.asarray(page), list(pairwise(ends))
