"""Uploaded pictures: what a separate process decodes, and what it refuses."""

import io
import struct
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from foreign import Golden
from PIL import Image
from torch import from_numpy

from explorer.exhibits.links import Links
from explorer.exhibits.saying import message, reading_notes
from explorer.exhibits.view import build
from explorer.library import open_model
from explorer.numbers import percent
from explorer.problems import InputProblem
from explorer.runs.trace import trace
from explorer.sandbox.apart import MOST_AT_ONCE, Apart
from explorer.sandbox.picturing import answered, levels_of
from explorer.text import LANGUAGES, t
from explorer.uploads import MOST_PICTURE, open_picture
from models.pictures import picture_of
from models.pictures.faces import drawn_word

SIZES = (24, 96, 12, 6)


def saved(image: Image.Image, form: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def page(mode: str = "L", size: tuple[int, int] = (40, 20)) -> Image.Image:
    image = Image.new(mode, size)
    image.paste(Image.new(mode, (9, 9), "white" if mode != "I;16" else 60000), (5, 5))
    return image


def claiming(width: int, height: int) -> bytes:
    """A PNG whose header claims a size that it does not have."""
    data = bytearray(saved(page()))
    data[16:24] = struct.pack(">II", width, height)
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    return bytes(data)


FRAMES = [page(), page().transpose(Image.Transpose.FLIP_LEFT_RIGHT)]
LEVELS = (np.arange(800) % 256).astype(np.uint8).reshape(20, 40)
DEEP = np.stack([LEVELS.astype("u2") * 256 + 255] * 3, -1).astype(">u2")


def sixteen_bits_of_rgb() -> bytes:
    """A PNG with 16 bits per channel, which Pillow reads but does not write."""
    rows = b"".join(b"\0" + row.tobytes() for row in DEEP)
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", 40, 20, 16, 2, 0, 0, 0))]
    chunks += [(b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    made = [
        struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(made)


def turned(image: Image.Image) -> bytes:
    """The image on its side, with the note in its file that it is to be turned to the right."""
    exif = Image.Exif()
    exif[0x0112] = 6
    return saved(image.transpose(Image.Transpose.ROTATE_90), exif=exif)


MOVING: dict[str, Any] = {"save_all": True, "append_images": FRAMES[1:]}
BAD: dict[str, tuple[str, Callable[[], bytes]]] = {
    "gif": ("picture_kind", lambda: saved(FRAMES[0], "GIF", **MOVING)),
    "moving": ("picture_moves", lambda: saved(FRAMES[0], **MOVING)),
    "moving WebP": ("picture_moves", lambda: saved(FRAMES[0], "WEBP", **MOVING)),
    "text": ("picture_kind", lambda: b"hello"),
    "nothing": ("picture_kind", lambda: b""),
    "1 x 1": ("picture_small", lambda: saved(Image.new("L", (1, 1)))),
    "100 megapixels": ("picture_large", lambda: claiming(10_000, 10_000)),
    "4 gigapixels": ("picture_large", lambda: claiming(2**16, 2**16)),
    "cut": ("picture_damaged", lambda: saved(page("RGB"), "JPEG")[:-60]),
    "cut PNG": ("picture_damaged", lambda: saved(page("RGB", (400, 200)))[:-80]),
    "blank": ("picture_blank", lambda: saved(Image.new("RGB", (40, 20), "white"))),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_picture_is_refused_in_words(name, tmp_path):
    key, made = BAD[name]
    (tmp_path / "x.png").write_bytes(made())
    with pytest.raises(InputProblem) as refused:
        answered(str(tmp_path / "x.png"), *SIZES[:2])
    assert refused.value.key == key
    problem = InputProblem(key, **{"name": "scan", **refused.value.values})
    for lang in LANGUAGES:
        assert "scan" in message(problem, lang)


PAGE, CLEAR = np.asarray(page()), Image.merge("LA", (page(), Image.fromarray(LEVELS)))
FADED = 255 - np.rint((255 - PAGE) * (LEVELS / 255))
READ: dict[str, tuple[Callable[[], bytes], np.ndarray, int]] = {
    "16 bits of grey": (lambda: saved(Image.fromarray(DEEP[..., 0].astype("u2"))), LEVELS, 0),
    "16 bits of RGB": (sixteen_bits_of_rgb, LEVELS, 0),
    "CMYK": (lambda: saved(page().convert("CMYK"), "JPEG", quality=95), PAGE, 12),
    "two in a JPEG": (lambda: saved(page(), "MPO", quality=95, **MOVING), PAGE, 12),
    "a turned photo": (lambda: turned(page()), PAGE, 0),
    "WebP": (lambda: saved(page(), "WEBP", lossless=True), PAGE, 0),
    "a clear PNG": (lambda: saved(CLEAR), FADED, 1),
}
"""Files, the grey levels that they are read as, and by how much they may differ."""


@pytest.mark.parametrize("name", READ)
def test_every_kind_of_picture_is_read_as_its_own_colours(name, tmp_path):
    made, levels, off = READ[name]
    (tmp_path / "x.png").write_bytes(made())
    processing = {"size": None, "crop": None, "resample": 0}
    read = levels_of(tmp_path / "x.png", 20, 40, processing)
    assert abs(read.astype(int) - levels[..., None]).max() <= off


def read_from(image: Image.Image, form: str = "PNG") -> str:
    """What the reader reads in an uploaded picture."""
    loaded = open_model("reader")
    text = open_picture("a", io.BytesIO(saved(image, form)), loaded.tokenizer)
    return trace(loaded, text).output


def test_a_scan_is_read_in_any_polarity_and_out_of_memory_is_no_damage(tmp_path, monkeypatch):
    ink = drawn_word("Brown @serif", 96, 384)[0]
    scan = np.pad(255 - ink, 60, constant_values=255)
    for grey, form in ((scan, "PNG"), (255 - scan, "JPEG")):
        assert read_from(Image.fromarray(grey).convert("RGB"), form) == "Brown"
    (tmp_path / "x.png").write_bytes(saved(page()))
    for error in (MemoryError(), OSError("out of memory error when reading image file")):

        def load(self: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr("PIL.ImageFile.ImageFile.load", load)
        with pytest.raises(InputProblem, match="picture_heavy"):
            answered(str(tmp_path / "x.png"), *SIZES[:2])


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_a_photo_of_twelve_megapixels_is_read(form):
    ink = drawn_word("Brown @serif", 96, 384)[0]
    photo = Image.new("RGB", (4032, 3024), "white")
    photo.paste(Image.fromarray(255 - ink).resize((3000, 750)), (500, 1100))
    assert read_from(photo, form) == "Brown"


LIGHTS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "from the right": lambda x, y: 0.35 + 0.65 * x,
    "from a corner": lambda x, y: 0.3 + 0.35 * (x + y),
    "from a lamp": lambda x, y: 0.3 + 0.7 * np.exp(-6 * ((x - 0.3) ** 2 + (y - 0.4) ** 2)),
    "shadow": lambda x, y: np.where(x > 0.6, 0.45, 1.0),
}


@pytest.mark.parametrize("light", LIGHTS)
def test_uneven_light_is_no_ink(light):
    ink = np.pad(drawn_word("Brown @serif", 96, 384)[0], ((120, 120), (200, 200)))
    y, x = np.mgrid[: ink.shape[0], : ink.shape[1]] / np.array(ink.shape)[:, None, None]
    grey = 10 + 235 * LIGHTS[light](x, y) * (1 - 0.85 * ink / 255)
    assert read_from(Image.fromarray(grey.astype(np.uint8))) == "Brown"


@pytest.mark.parametrize(("text", "letters"), [("cl0O @serif", "O"), ("hello @sans", "")])
def test_doubtful_letters_are_named(text, letters):
    view = build(Links().read({"model": "reader", "text": text, "lang": "en"})[0], dark=False)
    chances = from_numpy(view.trace.logits.copy()).softmax(-1)
    written = view.trace.tgt_tokens[1:]
    read = [float(row[token]) for token, row in zip(written, chances, strict=False)]
    low = [percent(chance) for chance in read if chance < 0.8]
    listed = ", ".join(f"“{each}” {chance}" for each, chance in zip(letters, low, strict=True))
    said = t("place.doubted", lang="en", letters=listed, limit="80 %") if letters else ""
    assert reading_notes(view, view.text, []) == said


@pytest.mark.sweep
def test_a_jpeg_of_thousands_of_scans_is_stopped():
    data = saved(Image.effect_noise((2000, 1500), 10), "JPEG", progressive=True, quality=5)
    last = data.rindex(b"\xff\xda")
    scans = data[:-2] + data[last:-2] * 20_000 + data[-2:]
    with pytest.raises(InputProblem, match="picture_heavy"):
        open_picture("a", io.BytesIO(scans[:MOST_PICTURE]), open_model("reader").tokenizer)


def test_few_pictures_are_read_at_once(monkeypatch):
    tokenizer, counts, running = open_model("reader").tokenizer, list[int](), list[object]()
    together = threading.Barrier(MOST_AT_ONCE, timeout=60)

    def exchange(self: Apart, unsent: bytearray, reply: bytearray, until: float) -> bool:
        running.append(self)
        counts.append(len(running))
        together.wait()
        running.remove(self)
        return True

    monkeypatch.setattr(Apart, "_started", lambda self: None)
    monkeypatch.setattr(Apart, "_exchange", exchange)

    def read(_: int) -> None:
        with pytest.raises(InputProblem, match="picture_heavy"):
            open_picture("a", io.BytesIO(saved(page())), tokenizer)

    with ThreadPoolExecutor(12) as threads:
        list(threads.map(read, range(12)))
    assert max(counts) == MOST_AT_ONCE


def test_a_photograph_is_prepared_as_its_model_wants_it_or_refused_by_its_size(
    tmp_path, monkeypatch
):
    """In colours, resized and cut, and the same each time; too long a strip is refused."""
    loaded = open_model(Golden.load("dinov2").write(tmp_path / "dinov2"))
    levels = np.random.Generator(np.random.PCG64(3)).integers(0, 256, (18, 40, 3), dtype=np.uint8)
    file = io.BytesIO(saved(Image.fromarray(levels)))
    text = open_picture("a", file, loaded.tokenizer)
    assert (picture_of(text, loaded.config.picture) == levels[1:17, 12:28]).all()
    strip = saved(Image.new("RGB", (400_000, 8)))
    with pytest.raises(InputProblem) as caught:
        open_picture("a", io.BytesIO(strip), loaded.tokenizer)
    assert caught.value.key == "picture_heavy"
    monkeypatch.setattr("explorer.uploads.MOST_PICTURE", 10)
    monkeypatch.setattr("explorer.uploads.ask_once", None)
    with pytest.raises(InputProblem) as caught:
        open_picture("a.png", io.BytesIO(bytes(11)), open_model("reader").tokenizer)
    assert caught.value.key == "picture_bytes"
