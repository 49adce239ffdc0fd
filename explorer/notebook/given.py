"""Convert the user's attention to [layer, head, query, key] float32, with notes on anomalies."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import sqrt
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch

from explorer.components.heads_payload import PictureAxis
from explorer.numbers import whole_percent
from explorer.text import t

MOST_EXTRA = 16
"""Most tokens before the patches that are found without a `grid`: a class token, registers."""
LARGEST = 512
"""Longest side of an image in pixels; larger ones are averaged down, to keep the page small."""
SQUARE = 0.01
"""Most that a patch's height may differ from its width."""
SUM_TOLERANCE = 1e-2
"""Tolerance for row sums without a note: the rounding error of bfloat16."""


@dataclass(frozen=True, eq=False)
class Patterns:
    """`weights` [layer, head, query, key] with query and key tokens, and notes as sentences.

    `mask` [layer, head, query, key] is True for cells that may be attended to; None if nothing is
    blocked. `whys` [layer, head, query, key] is the reason why a cell is blocked, as text.
    """

    title: str
    weights: np.ndarray = field(repr=False)
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    mask: np.ndarray | None = field(default=None, repr=False)
    whys: np.ndarray | None = field(default=None, repr=False)
    query_stream: Any = None
    key_stream: Any = None
    notes: Sequence[str] = ()
    picture: PictureAxis | None = None

    @property
    def allowed(self) -> np.ndarray:
        """`mask`, or True everywhere."""
        return np.ones(self.weights.shape, bool) if self.mask is None else self.mask

    def only_first(self) -> "Patterns":
        """The first head alone."""
        return replace(self, weights=self.weights[:1, :1], mask=self.allowed[:1, :1])


def as_array(values: Any) -> np.ndarray:
    """Convert a tensor (any device, dtype, with or without gradients), array or nested list.

    Raises ValueError for anything other than real numbers of one shape.
    """
    if hasattr(values, "detach"):
        if values.is_meta:
            raise ValueError("the tensor is on the meta device and contains no numbers")
        try:
            values = values.detach().cpu()
            values = values if values.layout == torch.strided else values.to_dense()
            values = values.float() if values.dtype.is_floating_point else values
            return np.asarray(values.as_subclass(torch.Tensor).numpy())
        except (RuntimeError, TypeError) as error:  # subclass without storage
            raise ValueError(f"a {type(values).__name__} cannot be read: {error}") from None
    if isinstance(values, list | tuple) and any(hasattr(part, "detach") for part in values):
        values = [as_array(part) for part in values]
    try:
        array = np.asarray(values)
        if np.iscomplexobj(array):
            raise TypeError("they are complex numbers")
        return array if array.dtype == np.bool_ else array.astype(np.float32)
    except (ValueError, TypeError) as error:
        raise ValueError(f"expected numbers of one shape: {error}") from None


def steps_stacked(given: Any) -> tuple[Any, np.ndarray | None]:
    """The attentions of `generate`, one tuple of layers per step, as one array per layer and the
    causal mask (None for cross-attention); anything else as it is, and None.

    Raises ValueError if the steps do not share one growing cache.
    """
    nested = isinstance(given, list | tuple) and given and isinstance(given[0], list | tuple)
    if not nested or not given[0] or getattr(given[0][0], "ndim", 0) != 4:
        return given, None
    steps = [[as_array(layer) for layer in step] for step in given]
    keys = [step[0].shape[-1] for step in steps]
    read = list(accumulate(step[0].shape[-2] for step in steps))
    alike = len({(len(step), *step[0].shape[:2]) for step in steps}) == 1
    if not alike or (keys != read and len(set(keys)) > 1):
        raise ValueError(
            "these are the steps of generate(), whose caches do not grow by one token each; give "
            "the attentions of one step, or of one forward pass over the whole text"
        )
    width = [((0, 0), (0, 0), (0, 0), (0, keys[-1] - n)) for n in keys]
    layers = [
        np.concatenate([np.pad(step[at], pad) for step, pad in zip(steps, width, strict=True)], 2)
        for at in range(len(steps[0]))
    ]
    if keys != read:  # cross-attention: all keys exist at every step
        return layers, None
    return layers, np.tri(keys[-1], dtype=bool)


def layers_of(given: Any, batch: int, lang: str) -> tuple[np.ndarray, list[str]]:
    """Convert an array, or one array per layer, to [layer, head, query, key], and return notes.

    A list has one [head, query, key], or one [batch, head, query, key], per layer, like the
    `attentions` of Hugging Face models. An array is [layer, head, query, key], with a batch
    [layer, batch, head, query, key], or omits leading axes. Raises ValueError for another shape or
    for masks, IndexError if `batch` is out of range.
    """
    if hasattr(given, "attentions") or hasattr(given, "decoder_attentions"):
        raise ValueError(
            f"a {type(given).__name__} holds several results: give its .attentions "
            "(or .encoder_attentions, .decoder_attentions, .cross_attentions)"
        )
    if isinstance(given, list | tuple) and any(part is None for part in given):
        raise ValueError(
            "the attentions are None: load the model with attn_implementation='eager', or record "
            "them with hl.capture()"
        )
    notes = []
    if isinstance(given, list | tuple) and given and np.ndim(as_array(given[0])) >= 3:
        parts = [as_array(part) for part in given]
        if len(shapes := {part.shape for part in parts}) > 1:
            raise ValueError(
                "layers differ in shape: " + ", ".join(str(list(shape)) for shape in sorted(shapes))
            )
        array = np.stack(parts)
    else:
        array = as_array(given)
    if array.dtype == np.bool_:
        raise ValueError(
            "these are masks, not weights: show(mask / mask.sum(-1, keepdims=True), mask=mask)"
        )
    if not 2 <= array.ndim <= 5:
        raise ValueError(
            f"attention has shape {list(array.shape)}, expected [layer, head, query, key]"
        )
    if array.ndim == 5:
        n = array.shape[1]
        if not 0 <= batch < n:
            raise IndexError(f"batch is {batch}, but there are {n} sequences")
        if n > 1:
            notes.append(t("notebook.batch", lang=lang, index=batch + 1, count=n))
        array = array[:, batch]
    array = array.reshape((1,) * (4 - array.ndim) + array.shape)
    if 0 in array.shape:
        raise ValueError(f"there is no attention in shape {list(array.shape)}")
    return array.astype(np.float32), notes


def checked(weights: np.ndarray, lang: str) -> tuple[np.ndarray, list[str]]:
    """Weights that can be drawn, and notes on anomalies. Raises ValueError for scores."""
    notes = []
    broken = ~np.isfinite(weights)
    if broken.any():
        notes.append(t("notebook.nan", lang=lang, count=int(broken.any(-1).sum())))
        weights = np.where(broken, 0, weights)
    low, high = float(weights.min()), float(weights.max())
    if low < -1e-6 or high > 1 + SUM_TOLERANCE:
        raise ValueError(
            f"weights run from {low:.4g} to {high:.4g}, expected 0 to 1; "
            "scores need a softmax first"
        )
    sums = weights.sum(-1)
    odd = (np.abs(sums - 1) > SUM_TOLERANCE) & ~broken.any(-1)
    if odd.any():
        notes.append(
            t(
                "notebook.sums",
                lang=lang,
                count=int(odd.sum()),
                total=sums.size,
                low=whole_percent(float(sums[odd].min())),
                high=whole_percent(float(sums[odd].max())),
            )
        )
    return np.clip(weights, 0, 1), notes


def tokens_for(given: Sequence[str] | None, length: int, axis: str) -> tuple[str, ...]:
    """Tokens of an axis, or by default numbers from 1.

    Raises ValueError for a string or a list of another length.
    """
    if given is None:
        return tuple(str(index + 1) for index in range(length))
    if isinstance(given, str):
        raise ValueError(f"{axis} tokens are one string; give a list of {length} tokens")
    if len(given) != length:
        raise ValueError(f"{len(given)} {axis} tokens, but the attention has {length} of them")
    return tuple(str(token) for token in given)


def image_axis(
    image: Any, grid: tuple[int, int] | None, n_query: int, n_key: int
) -> tuple[PictureAxis, list[str]]:
    """The image whose patches are the last keys, row by row, and the labels of all keys.

    Keys before the patches are extra tokens, labelled "+1", "+2" … The queries are the same tokens
    if there are as many. Without a `grid` of (rows, columns), it is that of square patches
    (`grid_for`). Raises ValueError if there is none, or if it does not fit.
    """
    pixels, sides = pixels_of(image)
    if grid is None:
        grid = grid_for(n_key, *sides)
    if len(grid) != 2 or not all(isinstance(side, Integral) for side in grid):
        raise ValueError(f"grid={grid!r}: give (rows, columns), two whole numbers")
    rows, columns = grid
    extra = n_key - rows * columns
    if min(grid) < 1 or extra < 0:
        raise ValueError(f"a grid of {rows} x {columns} patches does not fit {n_key} keys")
    keys = [-1] * extra + list(range(rows * columns))
    labels = [f"+{at + 1}" for at in range(extra)]
    labels += [f"{row + 1},{column + 1}" for row in range(rows) for column in range(columns)]
    queries = keys if n_query == n_key else [-1] * n_query
    return PictureAxis(pixels, grid, keys, queries), labels


def grid_for(n_key: int, height: int, width: int) -> tuple[int, int]:
    """The rows and columns of square patches that cover an image and leave the fewest keys.

    At most MOST_EXTRA keys are left for other tokens. Raises ValueError if no grid or several fit.
    """
    fitting = []
    for extra in range(min(MOST_EXTRA, n_key - 1) + 1):
        n_patches = n_key - extra
        rows = min(height, max(1, round(sqrt(n_patches * height / width))))
        if n_patches % rows == 0 and _alike(height / rows, width / (n_patches // rows)):
            fitting.append((rows, n_patches // rows))
    if len(fitting) == 1 or (fitting and height == width):
        return fitting[0]
    raise ValueError(
        f"no one grid of square patches fits {n_key} keys and an image of {height} x {width} "
        "pixels: give grid=(rows, columns), as the model cuts it"
    )


def _alike(height: float, width: float) -> bool:
    """Whether a patch is square, up to the pixels that a resized image loses at its edge."""
    return abs(height / width - 1) < SQUARE


def _levels(image: Any) -> np.ndarray:
    """The pixels of a PIL image, as an uploaded one is read; of 32-bit ones, whose range is not
    known, as they are."""
    from explorer.sandbox.picturing import upright

    return np.asarray(image if image.mode in ("I", "F") else upright(image))


def pixels_of(image: Any) -> tuple[np.ndarray, tuple[int, int]]:
    """An image as uint8 [height, width, 3], at most LARGEST pixels long, and its own sides.

    Accepts an array or tensor [height, width], [height, width, 1, 3 or 4] or [1 or 3, height,
    width], of 0 to 255 or of floats 0 to 1, a PIL image, or the path of a file; of an animation the
    first frame. Transparency is white. Raises ValueError, and FileNotFoundError.
    """
    from PIL import Image

    if isinstance(image, str | Path):
        try:
            with Image.open(image) as opened:
                image = _levels(opened)
        except FileNotFoundError:
            raise
        except (OSError, SyntaxError, Image.DecompressionBombError) as error:
            raise ValueError(f"{image} cannot be read as a picture: {error}") from error
    if isinstance(image, Image.Image):
        image = _levels(image)
    whole = "uint8" in str(getattr(image, "dtype", ""))
    pixels = as_array(image).astype(np.float32)
    if pixels.ndim == 3 and pixels.shape[0] in (1, 3) and pixels.shape[2] not in (1, 3, 4):
        pixels = np.moveaxis(pixels, 0, 2)
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4) or 0 in pixels.shape:
        raise ValueError(f"the image has shape {list(pixels.shape)}: give [height, width, 3]")
    if not np.isfinite(pixels).all() or pixels.min() < 0 or pixels.max() > 255:
        raise ValueError("the image must have numbers from 0 to 255, or from 0 to 1")
    if not whole and pixels.max() <= 1:
        pixels = pixels * 255
    if pixels.shape[2] == 4:
        pixels = 255 - (255 - pixels[..., :3]) * (pixels[..., 3:] / np.float32(255))
    pixels = np.broadcast_to(pixels, (*pixels.shape[:2], 3))
    shown = Image.fromarray(np.rint(pixels).astype(np.uint8))
    shown.thumbnail((LARGEST, LARGEST), Image.Resampling.BOX)
    return np.asarray(shown), (pixels.shape[0], pixels.shape[1])
