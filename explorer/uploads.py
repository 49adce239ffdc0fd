"""What comes with a stranger's model or picture, read by separate processes within limits.

One unpacks the zip (`sandbox/unpacking.py`); one loads its tokenizer and tokenizes texts for as
long as the model exists (`sandbox/tokenizing.py`); one renders its chat template
(`sandbox/templating.py`). The app itself reads only weights, as safetensors, and small JSON files
of bounded size.
"""

import base64
import os
import re
import shutil
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from explorer.library import LoadedModel, open_model
from explorer.problems import InputProblem
from explorer.sandbox.apart import Away, ask_once, prefix
from explorer.sandbox.tokenizing import read_apart
from models.foreign.tokens import ForeignTokenizer
from models.pictures import PictureTokenizer, as_text
from models.tokenizer import Tokenizer, reading_by

VARIABLE = "HEADLIGHT_UPLOADS"
"""The environment variable that allows uploads: 1. Off by default."""
MOST_BYTES = 64_000_000
"""Maximum size of a zip."""
MOST_UNPACKED = 2 * MOST_BYTES
"""Maximum size of all files in it that are read. Weights hardly compress."""
MOST_PICTURE = 8_000_000
"""Maximum size of a picture file in bytes."""
PATIENCE = 120.0
"""Seconds to wait for a zip, unpacked by a low-priority process limited to 20 s of CPU time."""


def allowed() -> bool:
    """Whether this server allows uploads; never on Windows, where no process can be limited.

    Raises ValueError if the environment says neither yes (1) nor no (0).
    """
    wanted = os.environ.get(VARIABLE, "0")
    if wanted not in ("0", "1"):
        raise ValueError(f"{VARIABLE} must be 1 or 0, not {wanted!r}")
    return wanted == "1" and os.name == "posix"


def open_zip(name: str, file: BinaryIO, away: Away = nullcontext) -> LoadedModel:
    """The model in an uploaded zip, whose files are deleted once it is open.

    Its name consists of the letters, digits, - and _ of the zip's name. Other sessions compute
    inside `away`, now and whenever its tokenizer takes long. Raises InputProblem:
    `upload_too_large`, `upload_no_zip`, `upload_encrypted`, `upload_bomb`, `upload_file`,
    `upload_tensors`, `upload_heavy`, `upload_nothing`, `upload_pickle`, and `broken_model` as
    `open_model`.
    """
    called = re.sub(r"[^\w-]+", "-", Path(name).stem, flags=re.ASCII).strip("-")[:40] or "model"
    with tempfile.TemporaryDirectory(prefix=prefix(), ignore_cleanup_errors=True) as place:
        folder = Path(place) / called
        folder.mkdir()
        _unpack(name, file, folder, away)
        with reading_by(lambda path: read_apart(path, away)):
            loaded = open_model(folder)
        return replace(loaded, name=called, was_stored=loaded.stored)


def in_template(loaded: LoadedModel, question: str, away: Away = nullcontext) -> str:
    """A message in the chat template of a model that has one, without the start token if the model
    puts it before every text.

    Raises InputProblem `template_fails` and `template_heavy`.
    """
    tokenizer, template = loaded.tokenizer, loaded.template
    assert isinstance(tokenizer, ForeignTokenizer)
    assert template is not None
    asked = {"source": template.source, "tokens": dict(template.tokens), "question": question}
    answer = ask_once("sandbox.templating", asked, PATIENCE, away)
    if answer is None:
        raise InputProblem("template_heavy")
    if "text" not in answer:
        raise InputProblem("template_fails", reason=answer["reason"])
    return str(answer["text"]).removeprefix("".join(map(tokenizer.piece, tokenizer.around()[0])))


def _unpack(name: str, file: BinaryIO, folder: Path, away: Away) -> None:
    """Unpack a model's files from a zip into a folder. Raises InputProblem."""
    _require_size(name, file, "upload_too_large", MOST_BYTES)
    packed = folder.with_name("upload.zip")
    with packed.open("wb") as out:
        shutil.copyfileobj(file, out)
    asked = {"file": str(packed), "folder": str(folder), "most": MOST_UNPACKED}
    try:
        reply = ask_once("sandbox.unpacking", asked, PATIENCE, away)
    finally:
        packed.unlink()
    _require_answer(reply, "upload_heavy", name=name, limit=MOST_UNPACKED)


def open_picture(name: str, file: BinaryIO, tokenizer: Tokenizer, away: Away = nullcontext) -> str:
    """An uploaded picture as the text that stands for it, for a `PictureTokenizer`.

    Raises InputProblem `picture_…`.
    """
    assert isinstance(tokenizer, PictureTokenizer)
    picture, processing = tokenizer.picture, tokenizer.processing
    _require_size(name, file, "picture_bytes", MOST_PICTURE)
    with tempfile.NamedTemporaryFile(prefix=prefix()) as held:
        shutil.copyfileobj(file, held)
        held.flush()
        asked: dict[str, Any] = {"file": held.name, "height": picture[0], "width": picture[1]}
        if processing is not None:
            names = ("size", "crop", "resample")
            asked["processing"] = {name: getattr(processing, name) for name in names}
        reply = ask_once("sandbox.picturing", asked, PATIENCE, away)
    answer = _require_answer(reply, "picture_heavy", name=name)
    levels = np.frombuffer(base64.b64decode(answer["levels"]), np.uint8)
    sides = picture[:2] if processing is None else processing.sides
    read = levels.reshape(*sides, 3)[: picture[0], : picture[1]]  # whole patches only
    return as_text(np.ascontiguousarray(read), picture)


def _require_size(name: str, file: BinaryIO, problem: str, most: int) -> None:
    """Raise an InputProblem for a file of more than `most` bytes; rewind any other."""
    if (size := file.seek(0, os.SEEK_END)) > most:
        raise InputProblem(problem, name=name, limit=most, size=size)
    file.seek(0)


def _require_answer(reply: dict[str, Any] | None, heavy: str, **known: Any) -> dict[str, Any]:
    """The answer of a process. Raises the InputProblem that it names, or `heavy` without one."""
    answer = {"key": heavy} if reply is None else reply
    if "key" in answer:
        raise InputProblem(**known | answer)
    return answer
