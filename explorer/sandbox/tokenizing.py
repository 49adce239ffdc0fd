"""The tokenizer of a stranger's file: made and asked in a process of its own (`cutter`).

`read_apart` gives what the library's own tokenizer would be to `models.tokenizer`: its tokens are
kept here, as plain data; texts are cut there, within a limit of time and memory for each.
"""

import json
import tempfile
import threading
import weakref
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

from explorer.problems import InputProblem
from explorer.sandbox.apart import SOON, Apart, Away
from explorer.sandbox.cutter import ANY, ROOM
from models.refusals import Refusal

READING, CUTTING = 8, 1
"""Seconds of its own that a process may take for a file, and for one text."""
MOST_PROCESSES = 4
"""Processes that are kept: the one that was asked longest ago ends first, and starts again."""
PATIENCE = 60.0
"""Seconds for an answer, on a machine that is busy with other things."""


@dataclass(frozen=True)
class Encoding:
    """A text cut: the ids of its tokens, what they are called, and where in it each was."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]


class _Processes:
    """Those that are kept, the one that was asked last at the end."""

    def __init__(self) -> None:
        self._guard = (
            threading.RLock()
        )  # `end` may be called by the garbage collection inside `use`
        self._kept: list[Apart] = []

    def use(self, process: Apart) -> None:
        """It is about to be asked: end others that nobody asks, if there are too many."""
        with self._guard:
            others = [each for each in self._kept if each is not process and each.is_there]
            self._kept = [*others, process]
            for idle in others[: max(0, len(self._kept) - MOST_PROCESSES)]:
                if idle.lock.acquire(blocking=False):
                    idle.end()
                    idle.lock.release()

    def end(self, process: Apart) -> None:
        """Its tokenizer is no longer kept."""
        with self._guard:
            self._kept = [each for each in self._kept if each is not process]
        process.end()


_PROCESSES = _Processes()


class _Served:
    """A file, and the process that reads it; it goes when nobody keeps this any more."""

    def __init__(self, path: Path, away: Away) -> None:
        self._name, self._content = path.name, zlib.compress(path.read_bytes(), 1)
        self._away = away
        self._process = Apart("cutter")
        weakref.finalize(self, _PROCESSES.end, self._process)

    def tables(self) -> dict[str, Any]:
        """What it says of the file. Raises Refusal if it takes too much, ValueError as it does."""
        with self._alone():
            reply = self._read()
        if reply is None:
            raise Refusal("tokenizer_heavy", seconds=READING, megabytes=ROOM // 1_000_000)
        said: dict[str, Any] = json.loads(reply)
        if "error" in said:
            raise ValueError(said["error"])
        return said

    def ask(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """An answer to a question.

        Raises InputProblem: `heavy_tokenizer`, and ValueError where the library fails.
        """
        with self._alone():
            found = None
            if self._process.is_there or self._read() is not None:
                found = self._asked({**asked, "seconds": CUTTING})
        if found is None:
            raise InputProblem("heavy_tokenizer", limit=CUTTING, megabytes=ROOM // 1_000_000)
        answer: dict[str, Any] = json.loads(found)
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else asks meanwhile. Who has to wait for it lets others compute."""
        lock = self._process.lock
        if not lock.acquire(timeout=SOON):
            with self._away():
                lock.acquire()
        try:
            _PROCESSES.use(self._process)
            yield
        finally:
            lock.release()

    def _read(self) -> bytes | None:
        with tempfile.TemporaryDirectory(prefix="headlight-") as place:
            path = Path(place) / self._name
            path.write_bytes(zlib.decompress(self._content))
            return self._asked({"file": str(path), "seconds": READING})

    def _asked(self, said: Mapping[str, Any]) -> bytes | None:
        return self._process.ask(json.dumps(said).encode(), PATIENCE, self._away)


@dataclass(frozen=True)
class _Normalizer:
    served: _Served

    def normalize_str(self, text: str) -> str:
        return str(self.served.ask({"normal": text})["text"])


@dataclass(frozen=True)
class _PostProcessor:
    """What the tokenizer puts around a text, asked once."""

    said: Mapping[str, Any]

    def process(self, text: tokenizers.Encoding) -> Encoding:
        if "error" in self.said:
            raise ValueError(self.said["error"])
        ids = [text.ids[0] if each == ANY else each for each in self.said["ids"]]
        return Encoding(ids, [], [])


class LibraryApart:
    """What `models.tokenizer` asks of a `tokenizers.Tokenizer`, with the same names."""

    def __init__(self, path: Path, away: Away = nullcontext) -> None:
        self._served = _Served(path, away)
        said = self._served.tables()
        self._vocab: dict[str, int] = said["vocab"]
        self._pieces = {token: piece for piece, token in self._vocab.items()} | dict(said["named"])
        special = set(said["special"])
        self._added = {
            token: tokenizers.AddedToken(self._pieces[token], special=token in special)
            for token in said["added"]
        }
        self._parts = json.dumps(said["parts"])
        self.normalizer = _Normalizer(self._served) if said["normalizes"] else None
        self.post_processor = _PostProcessor(said["around"]) if said["around"] else None
        self.encode_special_tokens = False
        try:
            self.encode("a")  # one that cuts no text in time is refused now
        except InputProblem:
            raise
        except ValueError:  # it has no token for this text, and may well for others
            return

    def __deepcopy__(self, memo: object) -> "LibraryApart":
        return copy(self)  # nothing but `encode_special_tokens` is ever changed

    def no_padding(self) -> None:
        """`cutter` never pads."""

    def no_truncation(self) -> None:
        """`cutter` never cuts a text off."""

    def to_str(self) -> str:
        """As JSON, the kinds of its parts alone."""
        return self._parts

    def get_vocab(self) -> dict[str, int]:
        """The ids of all tokens, by what they are called."""
        return self._vocab

    def get_vocab_size(self) -> int:
        """How many tokens there are."""
        return len(self._vocab)

    def get_added_tokens_decoder(self) -> dict[int, tokenizers.AddedToken]:
        """The tokens that were added to the model's own, by their ids."""
        return self._added

    def token_to_id(self, token: str) -> int | None:
        """The id of a token; None for none."""
        return self._vocab.get(token)

    def id_to_token(self, token: int) -> str | None:
        """What a token is called; None for an id that none has."""
        return self._pieces.get(token)

    def encode(self, text: str, add_special_tokens: bool = True) -> Encoding:
        """A text cut. Raises as `_Served.ask`."""
        asked = {"text": text, "marked": add_special_tokens}
        said = self._served.ask({**asked, "special_is_text": self.encode_special_tokens})
        places = [(start, end) for start, end in said["offsets"]]
        return Encoding(said["ids"], said["tokens"], places)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of ids. Raises as `_Served.ask`."""
        text: str = self._served.ask({"ids": list(ids)})["text"]
        return text


def read_apart(path: Path, away: Away = nullcontext) -> LibraryApart:
    """The tokenizer of a `tokenizer.json` or an `.spm` file, in a process of its own.

    Inside `away` others compute, whenever an answer takes long. Raises ValueError for a file that
    the library cannot read, and Refusal for one that takes too much time or memory.
    """
    return LibraryApart(path, away)
