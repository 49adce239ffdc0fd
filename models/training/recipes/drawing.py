"""Pictures of words for `reader`, each drawn a little differently with an installed font.

Nothing is downloaded: the fonts come from the Debian packages that `CARD.md` of `reader` lists.
Faces are divided by family, so that no drawing of a held-out family is ever trained on. Drawing
needs Pillow, which Streamlit installs.
"""

import random
import string
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from models.training.data import read_pairs

HEIGHT, WIDTH = 24, 96  # of a picture in pixels
LONGEST = 9  # characters
LETTERS = string.ascii_lowercase + string.ascii_uppercase + string.digits
Split = Literal["train", "valid", "test"]

# Families that are clones of each other are held out together.
HELD_OUT: dict[Split, tuple[str, ...]] = {
    "valid": ("Oxygen", "Gentium", "Karla", "Domestic Manners", "Arapey", "Essays1743", "Hack"),
    "test": (
        *("Lato", "Carlito", "Open Sans", "Noto Sans", "Noto Mono", "Caladea", "Courier Prime"),
        *("Comic Neue", "DkgHandwriting", "Breip", "Quattrocento", "Cantarell", "Dosis"),
        *("Vollkorn", "Jura", "Clear Sans", "Rufscript", "Fanwood"),
    ),
}
UNREADABLE = (
    *("Klingon", "Futhark", "Fraktur", "Initials", "Keyboard", "Keyfont", "Symbol", "Smallcaps"),
    *("Titling", "D050000L", "Math", "STIXI", "STIXN", "STIXS", "STIXV", "Tnua", "Wargames"),
    *("Caps", "Dingbats", "Great Vibes", "Junkyard", "Marked Fool", "Penguin", "progenisis"),
    *("Balker", "Swift", "StayPuft", "flatline", "It wasn't", "Romande ADF Style", "RaviPrakash"),
)
SCRIPTS = ("Sans", "Serif", "Kufi", "Looped", "Naskh", "Nastaliq", "Rashi", "Trad")
"""After "Noto": faces of one other script each, whose Latin letters are those of Noto Sans."""


def split_of(family: str) -> Split:
    """Which part of the data may use a family of faces."""
    for split, families in HELD_OUT.items():
        if family.startswith(families):
            return split
    return "train"


def faces(folder: Path, split: Split) -> dict[str, list[Path]]:
    """The font files of each family of `split` that can tell all of `LETTERS` apart.

    A case whose letters look the same, as in a face of small capitals, is refused; capital I and
    small l may look alike.
    """
    from PIL import ImageFont

    found: dict[str, list[Path]] = {}
    seen: set[tuple[str, str]] = set()
    for path in sorted(p for p in folder.rglob("*") if p.suffix.lower() in {".ttf", ".otf"}):
        try:
            font = ImageFont.truetype(str(path), 32)
        except OSError:
            continue
        family, style = font.getname()
        family = family or path.stem
        script = family.startswith(
            tuple(f"Noto {each} " for each in SCRIPTS)
        ) and not family.endswith(("Display", "Mono"))
        if script or any(word.lower() in f"{family} {style}".lower() for word in UNREADABLE):
            continue
        if (family, style) in seen or split_of(family) != split:
            continue
        seen.add((family, str(style)))
        drawn = {letter: bytes(font.getmask(letter)) for letter in "abdeghnqrtAEGHNQRT0123456789"}
        missing = bytes(font.getmask("\u0fff"))
        if len(set(drawn.values())) == len(drawn) and missing not in drawn.values():
            found.setdefault(family, []).append(path)
    return found


def words_of(texts: Sequence[str]) -> list[str]:
    """The distinct words of texts that can be drawn, sorted."""
    letters = set(string.ascii_letters)
    words = {w.strip(string.punctuation) for text in texts for w in text.split()}
    return sorted(w.lower() for w in words if 0 < len(w) <= LONGEST and set(w) <= letters)


def some_text(draw: random.Random, words: Sequence[str]) -> str:
    """A word, or as often a random string of letters or digits, which nobody can guess."""
    kind = draw.random()
    if kind < 0.5:
        word = draw.choice(words)
        return draw.choice((word, word, word, word.capitalize(), word.upper()))
    length = draw.randint(1, LONGEST)
    if kind < 0.62:
        return "".join(draw.choices(string.digits, k=min(length, draw.randint(1, LONGEST))))
    if kind < 0.92:
        text = "".join(draw.choices(string.ascii_lowercase, k=length))
        return draw.choice((text, text, text.capitalize(), text.upper()))
    return "".join(draw.choices(LETTERS, k=length))


def drawn(text: str, font: Any, draw: random.Random) -> np.ndarray:
    """A picture of a word, uint8 [HEIGHT, WIDTH], 255 where the ink is.

    Size, width, slant, tilt, place, stroke width and blackness are sampled from `draw`.
    """
    from PIL import Image, ImageDraw, ImageFilter

    wide, high = 2 * WIDTH, 2 * HEIGHT  # drawn at twice the size
    left, top, right, bottom = font.getbbox(text)
    if draw.random() < 0.8:  # by the lines of the face; else by the ink, as a drawn word is cut out
        _, top, _, bottom = font.getbbox("Hgjpl")
    size = draw.uniform(0.62, 0.98) * high
    scale = size / max(1, bottom - top)
    stretch = draw.uniform(0.85, 1.15)
    slant = draw.gauss(0, 0.12)
    tilt = draw.gauss(0, 0.02)
    text_wide = max(1, right - left)
    lean = abs(slant) * size + abs(tilt) * high
    room = wide - 4 - lean
    across = min(scale * stretch, room / text_wide)
    down = min(scale, across / 0.72) if across < scale * 0.72 else scale
    x0 = (wide - across * text_wide) * (0.5 + draw.uniform(-0.5, 0.5) * max(0.0, 1 - lean / 40))
    x0 = min(max(2 + lean / 2, x0), max(2 + lean / 2, wide - 2 - lean / 2 - across * text_wide))
    spare = high - down * (bottom - top)
    y0 = spare * draw.uniform(0.15, 0.85) if spare > 0 else spare / 2
    flat = Image.new("L", (text_wide + 8, bottom - top + 24), 0)
    pen = ImageDraw.Draw(flat)
    pen.text((4 - left, 12 - top), text, font=font, fill=255)
    middle = high / 2
    # x_in = (x_out - x0 + slant * (y_out - middle)) / across + 4, and likewise y_in.
    bent = flat.transform(
        (wide, high),
        Image.Transform.AFFINE,
        (
            *(1 / across, slant / across, 4 - (x0 + slant * middle) / across),
            *(tilt / down, 1 / down, 12 - (y0 + tilt * wide / 2) / down),
        ),
        Image.Resampling.BILINEAR,
    )
    strokes = draw.random()
    if strokes < 0.15:
        bent = bent.filter(ImageFilter.MaxFilter(3))
    elif strokes < 0.35:
        bent = bent.filter(ImageFilter.GaussianBlur(draw.uniform(0.4, 1.3)))
    small = bent.resize((WIDTH, HEIGHT), Image.Resampling.BOX)
    ink = np.asarray(small, dtype=np.float32)
    peak = float(ink.max()) or 1.0
    return (ink * (draw.uniform(180, 255) / max(peak, 90.0))).clip(0, 255).astype(np.uint8)


def pictures(
    found: dict[str, list[Path]], words: Sequence[str], n: int, seed: int
) -> Iterator[tuple[np.ndarray, str, str]]:
    """`n` pictures with their texts and families; each family is as likely as any other.

    Raises ValueError if no face was found.
    """
    from PIL import ImageFont

    if not found:
        raise ValueError("no fonts with all letters and digits: install those that CARD.md lists")
    draw = random.Random(f"pictures/{seed}")
    families = sorted(found)
    fonts: dict[Path, Any] = {}
    for _ in range(n):
        family = draw.choice(families)
        path = draw.choice(found[family])
        if path not in fonts:
            fonts[path] = ImageFont.truetype(str(path), 44)
        text = some_text(draw, words)
        yield drawn(text, fonts[path], draw), text, family


def save_pictures(out: Path, split: Split, n: int, seed: int, fonts: Path, texts: Path) -> str:
    """Draw `n` pictures with the faces of `split` into an .npz; return a summary.

    Half of the texts are words of the first column of `texts`, a file of pairs. Raises ValueError
    if no face was found.
    """
    found = faces(fonts, split)
    words = words_of([source for source, _ in read_pairs(texts)])
    made = list(pictures(found, words, n, seed))
    grey, drawn_texts, families = (np.array(column) for column in zip(*made, strict=True))
    np.savez(out, pictures=grey, texts=drawn_texts, families=families)
    return f"{out}: {n} pictures, {sum(map(len, found.values()))} faces of {len(found)} families"
