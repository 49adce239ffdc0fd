"""Pictures as a source: the patches of a picture take the place of a text's tokens.

A token of a picture is a patch: the grey levels of its pixels, 0 (paper) to 255 (ink). So that a
picture can be passed wherever a text can, it is written as text: a word to be drawn, optionally
with the name of a typeface ("hello @serif"), or the picture itself ("picture:…").
"""

import base64
import binascii
import math
import zlib
from collections import OrderedDict
from hashlib import blake2b
from pathlib import Path

import numpy as np

from models.pictures.faces import FACES, drawn_word, split_face
from models.pictures.patches import Picture
from models.pictures.processing import Processing
from models.refusals import Refusal
from models.rows import PatchToken, Stream
from models.tokenizer import Tokenizer

ADDRESS = "picture:"
KEPT = "picture:kept-"
"""What comes before the name of a picture that is too large for a link (`keep`)."""
LEVELS = 16
"""Grey levels of a picture written as text, to keep links short."""


def patches_of(grey: np.ndarray, picture: Picture) -> np.ndarray:
    """The patches of pictures, [..., height, width] -> [..., patch, pixel].

    Column by column, each from top to bottom, so that the patches are in the order of reading.
    Those of colours, [..., height, width, channel], go row by row, each patch channel by channel.
    """
    height, width, high, wide = picture[:4]
    if len(picture) == 5:
        cut = grey.reshape(*grey.shape[:-3], height // high, high, width // wide, wide, -1)
        cut = np.moveaxis(cut, (-3, -1), (-4, -3))  # [..., row, column, channel, high, wide]
        return cut.reshape(*grey.shape[:-3], -1, math.prod(picture[2:]))
    cut = grey.reshape(*grey.shape[:-2], height // high, high, width // wide, wide)
    cut = np.moveaxis(cut, -2, -4)  # [..., column, row, high, wide]
    return cut.reshape(*grey.shape[:-2], -1, high * wide)


def grid_of(picture: Picture) -> tuple[int, int]:
    """The numbers of rows and columns of patches."""
    height, width, high, wide = picture[:4]
    return height // high, width // wide


def order_of(picture: Picture) -> list[int]:
    """The cell of each patch, row * columns + column, in the model's order."""
    rows, columns = grid_of(picture)
    cells = np.arange(rows * columns).reshape(rows, columns)
    return (cells if len(picture) == 5 else cells.T).ravel().tolist()


def places(picture: Picture) -> list[str]:
    """The label of each patch: its row and column, counted from 1."""
    columns = grid_of(picture)[1]
    return [f"{cell // columns + 1},{cell % columns + 1}" for cell in order_of(picture)]


def written(grey: np.ndarray) -> str:
    """A picture, uint8 [height, width], as text, with 16 grey levels."""
    codes = np.rint(grey.astype(np.float64) * (LEVELS - 1) / 255).astype(np.uint8).ravel()
    packed = zlib.compress((16 * codes[0::2] + codes[1::2]).astype(np.uint8).tobytes(), 9)
    return ADDRESS + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def read_written(text: str, picture: Picture) -> np.ndarray:
    """The inverse of `written`. Raises Refusal `no_picture` for any other text."""
    height, width = picture[:2]
    code = text.removeprefix(ADDRESS)
    try:
        opened = zlib.decompressobj()
        data = opened.decompress(base64.urlsafe_b64decode(code + "=" * (-len(code) % 4)), 2**16)
    except (ValueError, binascii.Error, zlib.error) as error:
        raise Refusal("no_picture") from error
    if 2 * len(data) != height * width or not opened.eof:
        raise Refusal("no_picture")
    packed = np.frombuffer(data, np.uint8)
    codes = np.stack((packed // 16, packed % 16), -1).reshape(height, width)
    return (codes.astype(np.int64) * 255 // (LEVELS - 1)).astype(np.uint8)


def picture_of(text: str, picture: Picture) -> np.ndarray:
    """The picture that a text stands for, uint8 [height, width], 255 where the ink is; of colours
    [height, width, 3].

    Raises Refusal `no_picture`, `no_face`, `long_word` or `no_glyph`.
    """
    if text.startswith(KEPT):
        return kept_picture(text, picture)
    if text.startswith(ADDRESS):
        return read_written(text, picture)
    grey = drawn_word(text, picture[0], picture[1])[0]
    return np.repeat(255 - grey[..., None], picture[4], -1) if len(picture) == 5 else grey


_kept: OrderedDict[str, np.ndarray] = OrderedDict()
MOST_KEPT = 200
"""Coloured pictures held at a time, each 150 KB at 224 x 224; the oldest is dropped."""


def keep(levels: np.ndarray) -> str:
    """The text that stands for a picture of colours, uint8 [height, width, 3], in this process."""
    name = KEPT + blake2b(levels.tobytes(), digest_size=8).hexdigest()
    _kept[name] = levels
    _kept.move_to_end(name)
    while len(_kept) > MOST_KEPT:
        _kept.popitem(last=False)
    return name


def kept_picture(text: str, picture: Picture) -> np.ndarray:
    """The inverse of `keep`. Raises Refusal `picture_gone`, also for one of another size."""
    pixels = _kept.get(text)
    if pixels is None or pixels.shape != (*picture[:2], *picture[4:]):
        raise Refusal("picture_gone")
    return pixels


def shown_picture(text: str, picture: Picture) -> np.ndarray:
    """`picture_of` as colours, uint8 [height, width, 3], black on white if it is grey."""
    levels = picture_of(text, picture)
    return levels if levels.ndim == 3 else np.repeat(255 - levels[..., None], 3, -1)


def as_text(levels: np.ndarray, picture: Picture) -> str:
    """The text of a picture as it is shown: the inverse of `shown_picture`."""
    return keep(levels) if len(picture) == 5 else written(255 - levels[..., 0])


def letter_patches(text: str, picture: Picture) -> np.ndarray:
    """Which patches each character of a drawn word touches, bool [character, patch]: every patch
    of the columns between the two ends of its box. No rows if `text` is not a word to draw."""
    rows, columns = grid_of(picture)
    if text.startswith(ADDRESS):
        return np.zeros((0, rows * columns), bool)
    boxes = np.array(drawn_word(text, *picture[:2])[1])  # [character, end]
    left = picture[3] * np.arange(columns)
    touched = (left < boxes[:, 1:]) & (left + picture[3] > boxes[:, :1])
    return np.repeat(touched, rows, axis=1)


class PictureTokenizer(Tokenizer):
    """Cuts a picture into patches; the output is text, in the vocabulary of `tokenizer`.

    `names` label the learned tokens before the patches, `processing` what is done to a
    picture first (None: its writing is cut out).
    """

    names: tuple[str, ...] = ()
    processing: Processing | None = None

    def __init__(self, tokenizer: Tokenizer, picture: Picture) -> None:
        super().__init__(tokenizer._tokenizer, tokenizer.marks)
        self.picture, self._writer = picture, tokenizer

    def of(self, stream: Stream) -> Tokenizer:
        """Itself for the picture, and the tokenizer of the text that a translator writes."""
        return self if stream == "src" else self._writer

    def is_special(self, token: int) -> bool:
        pixels = getattr(token, "pixels", None)
        return super().is_special(token) if pixels is None else pixels[0] < 0

    @property
    def framing(self) -> tuple[PatchToken, ...]:
        """The learned tokens before the patches."""
        n_pixels = math.prod(self.picture[2:])
        return tuple(PatchToken([-1 - mark] * n_pixels) for mark in range(len(self.names)))

    def encode(self, text: str) -> list[int]:
        """The patches of the picture that `text` stands for. Raises Refusal as `picture_of`."""
        patches = patches_of(picture_of(text, self.picture), self.picture)
        return [PatchToken(patch) for patch in patches.tolist()]

    def renderings(self, text: str) -> list[str]:
        return [text] if ADDRESS in text else [f"{split_face(text)[0]} @{face}" for face in FACES]

    def unknown(self, text: str) -> list[str]:
        """The characters of a word that the model cannot write; none of a picture."""
        return (
            []
            if text.startswith(ADDRESS) or self.processing
            else self._writer.unknown(split_face(text)[0])
        )


def read_pictures(path: Path, picture: Picture) -> list[tuple[np.ndarray, str]]:
    """Pairs of patches and text, from an .npz with `pictures` [n, height, width] and `texts`."""
    with np.load(path) as held:
        return list(zip(patches_of(held["pictures"], picture), held["texts"].tolist(), strict=True))
