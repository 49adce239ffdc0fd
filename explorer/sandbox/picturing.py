"""The process that decodes an uploaded picture: one line of JSON in, one out.

Decoders are the part of a server that a stranger's file attacks first, so they run here, under the
limits of `bounds`, and only for FORMATS. Sizes are checked before any pixel is decoded.
"""

import base64
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageFilter, ImageOps, UnidentifiedImageError

from explorer.problems import InputProblem
from explorer.sandbox.bounds import answer_one

ROOM = 400_000_000
"""Memory limit in bytes: the largest picture as RGBA is 64 MB, and is copied a few times."""
SECONDS = 5
"""CPU seconds: a photo takes less than one; a JPEG with thousands of scans would take minutes."""
MOST_PIXELS = 16_000_000
MOST_READ = 4_000_000
"""Maximum number of pixels in which writing is looked for; larger pictures are halved first."""
LEAST_SIDE = 8
FORMATS = ("PNG", "JPEG", "WEBP")
MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "I;16", "I;16B")
INK = 96
"""Grey level from which a pixel counts as ink, after the contrast was stretched to 0 to 255."""
UNEVEN, EDGE_PARTS = 40, 8
"""Difference of the paper's grey levels at the edge from which the light is evened, each level the
median of an eighth of one side."""
MEDIAN_SIDE = 192
"""Pixels of the longer side of the picture in which the paper is estimated."""
FILLED = 0.7
"""Share of the height that the writing fills; the words trained on have this size."""


def levels_of(
    file: Path, height: int, width: int, processing: dict[str, Any] | None = None
) -> np.ndarray:
    """The picture in a file, uint8 [height, width, 3]: `prepared` by the arguments `processing`, or
    without these its writing alone, black on white and centred.

    Raises InputProblem `picture_…`.
    """
    Image.MAX_IMAGE_PIXELS = None  # the limit below is lower, and refuses instead of warning
    try:
        with Image.open(file, formats=[*FORMATS, "GIF", "BMP", "TIFF"]) as image:
            _check(image)
            if processing is not None:
                image.load()
                return prepared(image, **processing)
            grey = _grey(image)
    except InputProblem:
        raise
    except UnidentifiedImageError as error:
        raise InputProblem("picture_kind", found="?") from error
    except Exception as error:  # each decoder has its own errors
        heavy = isinstance(error, MemoryError) or "memory" in str(error)
        raise InputProblem("picture_heavy" if heavy else "picture_damaged") from error
    return np.repeat(255 - fitted(grey, height, width)[..., None], 3, -1)


def _check(image: Any) -> None:
    """Raise InputProblem for a picture that is not decoded."""
    is_photo = image.format in (
        "JPEG",
        "MPO",
    )  # MPO: several JPEGs, as phones write; the first is read
    if not is_photo and image.format not in FORMATS:
        raise InputProblem("picture_kind", found=image.format)
    if not is_photo and getattr(image, "is_animated", False):
        raise InputProblem("picture_moves")
    if image.width * image.height > MOST_PIXELS:
        size = f"{image.width:,} × {image.height:,}"
        raise InputProblem("picture_large", size=size, limit=MOST_PIXELS // 10**6)
    if min(image.size) < LEAST_SIDE:
        size = f"{image.width} × {image.height}"
        raise InputProblem("picture_small", size=size, limit=LEAST_SIDE)
    if image.mode not in MODES:
        raise InputProblem("picture_colours", found=image.mode)


def _grey(image: Any) -> np.ndarray:
    """Grey levels, 255 where the ink is: dark on light, or light on dark, whatever the paper is."""
    read = _on_paper(image)
    grey = np.asarray(read).astype(np.float64)
    edges = (grey[0], grey[-1], grey[:, 0], grey[:, -1])
    ink = np.abs(grey - np.median(np.concatenate(edges)))
    parts = [float(np.median(part)) for edge in edges for part in np.array_split(edge, EDGE_PARTS)]
    if max(parts) - min(parts) > UNEVEN:
        ink = _in_even_light(read, grey)
    if ink.max() < 16:
        raise InputProblem("picture_blank")
    return np.asarray(255 * ink / ink.max())


def _in_even_light(read: Any, grey: np.ndarray) -> np.ndarray:
    """How much darker or lighter than the paper around it each pixel is, 0 to 255.

    The paper is the median of a large window: it follows a shadow, but no stroke. Light multiplies,
    so the difference is relative to the paper.
    """
    scale = MEDIAN_SIDE / max(read.size)
    few = read.resize([max(1, round(scale * side)) for side in read.size], Image.Resampling.NEAREST)
    paper = few.filter(ImageFilter.MedianFilter(MEDIAN_SIDE // 4 | 1))
    under = np.asarray(paper.resize(read.size, Image.Resampling.BILINEAR)).astype(np.float64)
    darker, lighter = np.maximum(under - grey, 0), np.maximum(grey - under, 0)
    is_light = np.square(darker).sum() >= np.square(lighter).sum()
    ink = darker / np.maximum(under, 32) if is_light else lighter / np.maximum(255 - under, 32)
    return np.asarray(255 * ink)


def _on_paper(image: Any) -> Any:
    """The picture on white paper, upright, as grey levels of at most MOST_READ pixels."""
    if image.width * image.height > MOST_READ:
        image.draft(image.mode, (image.width // 2, image.height // 2))  # a JPEG is decoded halved
    image.load()
    grey = upright(image).convert("L")
    return grey.reduce(2) if grey.width * grey.height > MOST_READ else grey


def upright(image: Any) -> Any:
    """A PIL image in RGB, turned as its file says.

    Transparency is white, as the processors of `transformers` read it; grey of 16 bits is scaled to
    8, which they clip.
    """
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I;16"):
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.has_transparency_data:
        paper = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(paper, image.convert("RGBA"))
    return image.convert("RGB")


def prepared(image: Any, size: Any, crop: Any, resample: int) -> np.ndarray:
    """An image as `transformers` prepares it, uint8 [height, width, 3].

    It is resized to `size` (an int: its shorter side), then `crop` is cut from its middle.
    """
    image = upright(image)
    if isinstance(size, int):
        short, long = sorted(image.size)
        longer = int(size * long / short)
        if longer * size > MOST_PIXELS:
            raise InputProblem("picture_heavy")
        wide = image.width > image.height
        image = image.resize((longer, size) if wide else (size, longer), resample)
    elif size is not None:
        image = image.resize(size[::-1], resample)
    return np.asarray(image) if crop is None else cropped(np.asarray(image), *crop)


def cropped(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """The middle of an array [height, width, channel]; a smaller one is padded with zeros."""
    had = np.array(image.shape[:2])
    asked = np.array([height, width])
    grown = np.maximum(had, asked)
    before = -((had - grown) // 2)  # half of the padding, rounded up
    page = np.zeros((*grown, image.shape[2]), image.dtype)
    page[before[0] : before[0] + had[0], before[1] : before[1] + had[1]] = image
    top, left = (had - asked) // 2 + before
    return page[top : top + height, left : left + width]


def fitted(ink: np.ndarray, height: int, width: int) -> np.ndarray:
    """The part of a picture with ink, as large as fits into [height, width], in the middle."""
    rows, columns = (np.flatnonzero((ink >= INK).any(axis)) for axis in (1, 0))
    cut = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    scale = min(FILLED * height / cut.shape[0], (width - 6) / cut.shape[1])
    size = tuple(max(1, round(scale * side)) for side in cut.shape[::-1])
    small = Image.fromarray(cut.astype(np.uint8)).resize(size, Image.Resampling.BOX)
    page = Image.new("L", (width, height), 0)
    page.paste(small, ((width - small.width) // 2, (height - small.height) // 2))
    return np.asarray(page)


def answered(file: str, *asked: Any, **more: Any) -> dict[str, str]:
    """The levels of a picture file (`levels_of`) as base64. Raises InputProblem."""
    levels = levels_of(Path(file), *asked, **more)
    return {"levels": base64.b64encode(levels.tobytes()).decode()}


if __name__ == "__main__":
    answer_one(answered, ROOM, SECONDS)
