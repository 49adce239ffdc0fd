"""Pictures of words for `reader`, each drawn a little differently with an installed font.

Nothing is downloaded: the fonts come from the packages that `CARD.md` of `reader` lists.
Faces are divided by family, so that no drawing of a held-out family is ever trained on. Drawing
needs Pillow, which Streamlit installs.
"""

import random
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from models.pictures.faces import HAN
from models.training.data import read_pairs

HEIGHT, WIDTH = 24, 96  # of a picture in pixels
LONGEST = 9  # letters or digits
LONGEST_CHINESE, N_CHINESE = 6, 500  # Chinese characters of a picture, and of the vocabulary
LETTERS = string.ascii_lowercase + string.ascii_uppercase + string.digits
Split = Literal["train", "valid", "test"]

# Families that are clones of each other are held out together.
HELD_OUT: dict[Split, tuple[str, ...]] = {
    "valid": (
        *("Oxygen", "Gentium", "Karla", "Domestic Manners", "Arapey", "Essays1743", "Hack"),
        *("HanaMin", "ZCOOL QingKe HuangYou"),
    ),
    "test": (
        *("Lato", "Carlito", "Open Sans", "Noto Sans", "Noto Mono", "Caladea", "Courier Prime"),
        *("Comic Neue", "DkgHandwriting", "Breip", "Quattrocento", "Cantarell", "Dosis"),
        *("Vollkorn", "Jura", "Clear Sans", "Rufscript", "Fanwood", "LXGW WenKai", "Smiley Sans"),
        *("ZCOOL XiaoWei", "Chocolate Classical Sans"),
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
REGIONS = ("SC", "TC", "JP", "KR", "HK", "CN", "TW", "MBE", "Mono", "Sharp")
"""In the names of families that are one Chinese design."""


class Face(NamedTuple):
    """A face of a font file, its number there, and the Chinese characters that it must draw."""

    path: Path
    number: int
    characters: str = ""


def split_of(family: str) -> Split:
    """Which part of the data may use a family of faces."""
    for split, families in HELD_OUT.items():
        if family.startswith(families):
            return split
    return "train"


def faces(folder: Path, split: Split) -> dict[str, list[Face]]:
    """The font files of each family of `split` that can tell all of `LETTERS` apart.

    A case whose letters look the same, as in a face of small capitals, is refused; capital I and
    small l may look alike.
    """
    from PIL import ImageFont

    found: dict[str, list[Face]] = {}
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
        if split == "test" and bytes(font.getmask("我")) != missing:
            continue  # the first stages were trained on the letters of some Chinese faces
        if len(set(drawn.values())) == len(drawn) and missing not in drawn.values():
            found.setdefault(family, []).append(Face(path, 0))
    return found


def chinese_faces(folder: Path, split: Split, characters: str) -> dict[str, list[Face]]:
    """The faces of each Chinese design of `split` that have at least half of `characters`."""
    from PIL import ImageFont

    found: dict[str, list[Face]] = {}
    for path in sorted(
        p for p in folder.rglob("*") if p.suffix.lower() in {".ttf", ".otf", ".ttc"}
    ):
        for number in count():
            try:
                font = ImageFont.truetype(str(path), 32, index=number)
            except OSError:
                break
            family = font.getname()[0] or path.stem
            design = " ".join(word for word in family.split() if word not in REGIONS)
            if split_of(design) != split:
                continue
            missing = bytes(font.getmask("\u0fff"))
            held = "".join(c for c in characters if bytes(font.getmask(c)) not in (missing, b""))
            if len(held) >= len(characters) / 2:
                found.setdefault(design, []).append(Face(path, number, held))
    return found


def chinese_of(texts: Sequence[str]) -> list[str]:
    """The runs of Chinese characters in texts."""
    return [run for text in texts for run in HAN.findall(text)]


def common(runs: Sequence[str]) -> str:
    """The N_CHINESE most frequent characters."""
    return "".join(c for c, _ in Counter(chain.from_iterable(runs)).most_common(N_CHINESE))


def some_chinese(draw: random.Random, runs: Sequence[str], characters: str) -> str:
    """A piece of a sentence, or as often random characters; now and then with digits.

    Only of `characters`, since a face may lack others.
    """
    length = draw.randint(1, LONGEST_CHINESE)
    if draw.random() < 0.5:
        run = draw.choice(runs)
        start = draw.randrange(len(run))
        piece = run[start : start + length]
        if set(piece) <= set(characters):
            return piece
    text = draw.choices(characters, k=length)
    if draw.random() < 0.1:
        for place in range(length):
            if draw.random() < 0.5:
                text[place] = draw.choice(string.digits)
    return "".join(text)


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
    _, above, _, below = font.getbbox("我" if HAN.search(text) else "Hgjpl")
    # The height of a line; one time in five that of the ink, to which a drawing is cropped.
    if draw.random() < 0.8 or bottom - top < (below - above) / 4:
        top, bottom = above, below
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
    latin: dict[str, list[Face]],
    chinese: dict[str, list[Face]],
    words: Sequence[str],
    runs: Sequence[str],
    share: float,
    n: int,
    seed: int,
) -> Iterator[tuple[np.ndarray, str, str]]:
    """`n` pictures with their texts and families; each family of a script is equally likely.

    `share` of them show Chinese. Raises ValueError if no face was found.
    """
    from PIL import ImageFont

    if not latin:
        raise ValueError("no fonts with all letters and digits: install those that CARD.md lists")
    if share and not chinese:
        raise ValueError("no fonts with Chinese characters: install those that CARD.md lists")
    draw = random.Random(f"pictures/{seed}")
    fonts: dict[Face, Any] = {}
    for _ in range(n):
        found = chinese if share and draw.random() < share else latin
        family = draw.choice(sorted(found))
        face = draw.choice(found[family])
        if face not in fonts:
            fonts[face] = ImageFont.truetype(str(face.path), 44, index=face.number)
        text = (
            some_chinese(draw, runs, face.characters) if face.characters else some_text(draw, words)
        )
        yield drawn(text, fonts[face], draw), text, family


def save_pictures(
    out: Path, split: Split, n: int, seed: int, fonts: Path, texts: Path, share: float = 0.0
) -> str:
    """Draw `n` pictures with the faces of `split` into an .npz; return a summary.

    Half of the texts are words of the first column of `texts`, a file of pairs; `share` of the
    pictures show the `N_CHINESE` most frequent Chinese characters of its second column. Raises
    ValueError for an invalid `share`, and if a face or a Chinese text is missing.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"chinese is {share}: it must be between 0 and 1")
    pairs = read_pairs(texts)
    runs = chinese_of([target for _, target in pairs]) if share else []
    if share and not runs:
        raise ValueError(f"no Chinese in the second column of {texts}")
    latin = faces(fonts, split)
    chinese = chinese_faces(fonts, split, common(runs)) if share else {}
    words = words_of([source for source, _ in pairs])
    made = list(pictures(latin, chinese, words, runs, share, n, seed))
    grey, drawn_texts, families = (np.array(column) for column in zip(*made, strict=True))
    np.savez(out, pictures=grey, texts=drawn_texts, families=families)
    sums = (
        f"{sum(map(len, each.values()))} faces of {len(each)} families" for each in (latin, chinese)
    )
    return f"{out}: {n} pictures, {' and '.join(sums)}"
