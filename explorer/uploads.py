"""What comes with a stranger's model or picture, read by separate processes within limits.

One decodes a picture (`sandbox/picturing.py`); one renders a chat template
(`sandbox/templating.py`).
"""

import base64
import os
import shutil
import tempfile
from contextlib import nullcontext
from typing import Any, BinaryIO

import numpy as np

from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.sandbox.apart import Away, ask_once, prefix
from models.foreign.tokens import ForeignTokenizer
from models.pictures import PictureTokenizer, as_text
from models.tokenizer import Tokenizer

MOST_PICTURE = 8_000_000
"""Maximum size of a picture file in bytes."""
PATIENCE = 120.0
"""Seconds to wait for a low-priority process on a busy machine."""


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
