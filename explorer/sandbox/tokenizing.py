"""The tokenizer of an untrusted file, loaded and used in a process of its own (`cutter`).

`read_apart` returns what `models.tokenizer` expects of the library's own tokenizer: its tokens are
stored here as plain data; texts are tokenized in the process, with limits of time and memory.
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
from types import SimpleNamespace
from typing import Any

import tokenizers

from explorer.problems import InputProblem
from explorer.sandbox.apart import PLACES, SOON, Apart, Away, prefix
from explorer.sandbox.cutter import ANY, ROOM
from models.refusals import Refusal

READING, CUTTING = 8, 1
"""CPU seconds that a process may take for a file, and for one text."""
MOST_PROCESSES = 4
"""Maximum number of processes: the least recently used is ended first, and restarts on demand."""
PATIENCE = 60.0
"""Seconds to wait for an answer, on a busy machine."""


@dataclass(frozen=True)
class Encoding:
    """A tokenized text: token ids, names, their offsets in the text, and the number of the text."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    type_ids: Sequence[int] = ()


class _Processes:
    """The running processes, most recently used last."""

    def __init__(self) -> None:
        self._guard = (
            threading.RLock()
        )  # reentrant: the garbage collector may call `end` inside `use`
        self._kept: list[Apart] = []

    def use(self, process: Apart) -> None:
        """Mark as used: end idle processes if there are too many."""
        with self._guard:
            others = [other for other in self._kept if other is not process and other.is_there]
            self._kept = [*others, process]
            for idle in others[: max(0, len(self._kept) - MOST_PROCESSES)]:
                if idle.lock.acquire(blocking=False):
                    idle.end()
                    idle.lock.release()

    def end(self, process: Apart) -> None:
        """Forget a process whose tokenizer is gone."""
        with self._guard:
            self._kept = [other for other in self._kept if other is not process]
        process.end()


_PROCESSES = _Processes()


class _Served:
    """A file, and the process that reads it; ended when the last reference to this is gone."""

    def __init__(self, path: Path, away: Away) -> None:
        self._name, self._content = path.name, zlib.compress(path.read_bytes(), 1)
        self._away = away
        self._process = Apart("sandbox.cutter", PLACES)
        weakref.finalize(self, _PROCESSES.end, self._process)

    def tables(self) -> dict[str, Any]:
        """Its data on the file. Raises Refusal if it exceeds a limit, ValueError as the process."""
        with self._alone():
            reply = self._read()
        if reply is None:
            raise Refusal("tokenizer_heavy", seconds=READING, megabytes=ROOM // 1_000_000)
        data: dict[str, Any] = json.loads(reply)
        if "error" in data:
            raise ValueError(data["error"])
        return data

    def ask(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """An answer to a request.

        Raises InputProblem: `heavy_tokenizer`, and ValueError if the library fails.
        """
        with self._alone():
            reply = None
            if self._process.is_there or self._read() is not None:
                reply = self._asked({**asked, "seconds": CUTTING})
        if reply is None:
            raise InputProblem("heavy_tokenizer", limit=CUTTING, megabytes=ROOM // 1_000_000)
        answer: dict[str, Any] = json.loads(reply)
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Exclusive use of the process. Waiting for it lets other sessions compute."""
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
        with tempfile.TemporaryDirectory(prefix=prefix()) as place:
            path = Path(place) / self._name
            path.write_bytes(zlib.decompress(self._content))
            return self._asked({"file": str(path), "seconds": READING})

    def _asked(self, said: Mapping[str, Any]) -> bytes | None:
        return self._process.ask(json.dumps(said).encode(), PATIENCE, self._away)


class LibraryApart:
    """The part of `tokenizers.Tokenizer`'s interface that `models.tokenizer` uses."""

    def __init__(self, path: Path, away: Away = nullcontext) -> None:
        self._served = _Served(path, away)
        data = self._served.tables()
        self._vocab: dict[str, int] = data["vocab"]
        self._pieces = {token: piece for piece, token in self._vocab.items()} | dict(data["named"])
        special = set(data["special"])
        self._added = {
            token: tokenizers.AddedToken(self._pieces[token], special=token in special)
            for token in data["added"]
        }
        self._parts = json.dumps(data["parts"])
        self._around: Sequence[Mapping[str, Any]] = data["around"]
        normalizer = SimpleNamespace(normalize_str=self._normalized)
        self.normalizer = normalizer if data["normalizes"] else None
        post_processor = SimpleNamespace(process=self._processed)
        self.post_processor = post_processor if self._around[0] else None
        self.encode_special_tokens = False
        try:
            self.encode("a")  # refuse a tokenizer that is too slow now
        except InputProblem:
            raise
        except ValueError:  # no token for this text, but perhaps for others
            return

    def __deepcopy__(self, memo: object) -> "LibraryApart":
        return copy(self)  # only `encode_special_tokens` is ever changed

    def _normalized(self, text: str) -> str:
        return str(self._served.ask({"normal": text})["text"])

    def _processed(self, text: tokenizers.Encoding, second: object = None) -> Encoding:
        """With what the tokenizer adds around a text or a pair, determined once."""
        output = self._around[second is not None]
        if "error" in output:
            raise ValueError(output["error"])
        ids = [text.ids[0] if token == ANY else token for token in output["ids"]]
        return Encoding(ids, [], [], output["type_ids"])

    def to_str(self) -> str:
        """As JSON, only the kinds of its parts."""
        return self._parts

    def get_vocab(self) -> dict[str, int]:
        """The ids of all tokens, by token name."""
        return self._vocab

    def get_vocab_size(self) -> int:
        """The number of tokens."""
        return len(self._vocab)

    def get_added_tokens_decoder(self) -> dict[int, tokenizers.AddedToken]:
        """The tokens that were added to the model's vocabulary, by id."""
        return self._added

    def token_to_id(self, token: str) -> int | None:
        """The id of a token; None if it is unknown."""
        return self._vocab.get(token)

    def id_to_token(self, token: int) -> str | None:
        """The name of a token; None for an unknown id."""
        return self._pieces.get(token)

    def encode(self, text: str, add_special_tokens: bool = True) -> Encoding:
        """Tokenize a text. Raises as `_Served.ask`."""
        asked = {"text": text, "marked": add_special_tokens}
        reply = self._served.ask({**asked, "special_is_text": self.encode_special_tokens})
        places = [(start, end) for start, end in reply["offsets"]]
        return Encoding(reply["ids"], reply["tokens"], places)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of ids. Raises as `_Served.ask`."""
        text: str = self._served.ask({"ids": list(ids)})["text"]
        return text


def read_apart(path: Path, away: Away = nullcontext) -> LibraryApart:
    """The tokenizer of a `tokenizer.json` or an `.spm` file, in a process of its own.

    Other sessions compute inside `away` while an answer takes long. Raises ValueError for a file
    that the library cannot read, and Refusal for one that takes too much time or memory.
    """
    return LibraryApart(path, away)
