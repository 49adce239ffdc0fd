"""Tokenizers of other libraries: the text of their tokens, and what their special ones are for."""

import codecs
import copy
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from models.checkpoint import CheckpointError
from models.foreign.json_files import read_json
from models.foreign.prompts import LINE_END, Prompt
from models.marks import Marks
from models.refusals import Refusal
from models.tokenizer import BLANK, Tokenizer, marks_by_name

CONTINUES_WORD = "##"  # WordPiece


NUMBERED = "headlight.numbered"
"""How bytes that make no character are decoded: `errors` of `bytes.decode`."""


def _numbered(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(f"<{byte:02X}>" for byte in error.object[error.start : error.end]), error.end


codecs.register_error(NUMBERED, _numbered)


def byte_alphabet() -> dict[str, int]:
    """The characters that byte-level tokenizers write bytes as. Radford et al. 2019, `encoder.py`.

    Printable bytes stand for themselves, all others for the characters from U+0100 on.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {
        **{chr(byte): byte for byte in printable},
        **{chr(256 + i): byte for i, byte in enumerate(others)},
    }


ALPHABET = byte_alphabet()


class ForeignTokenizer(Tokenizer):
    """A `tokenizer.json` of another library, or one that was built from a GGUF file."""

    def __init__(
        self,
        tokenizer: tokenizers.Tokenizer,
        marks: Marks | None = None,
        prompt: Prompt | None = None,
    ) -> None:
        super().__init__(tokenizer, marks)
        self.prompt = prompt
        parts = json.loads(tokenizer.to_str())
        kinds = json.dumps([parts.get("pre_tokenizer"), parts.get("decoder")])
        self._byte_level = "ByteLevel" in kinds
        self._word_pieces = parts["model"].get("type") == "WordPiece"
        self._byte_fallback = bool(parts["model"].get("byte_fallback"))

    @property
    def largest(self) -> int:
        """The largest id of a token."""
        return max(self._tokenizer.get_vocab().values())

    def specials(self) -> dict[str, int]:
        """The special tokens and their ids."""
        added = self._tokenizer.get_added_tokens_decoder().items()
        return {token.content: i for i, token in added if token.special}

    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The special tokens before and behind a text, as the tokenizer's own post-processor puts
        them there."""
        plain = self._tokenizer.encode("a", add_special_tokens=False).ids
        whole = self._tokenizer.encode("a", add_special_tokens=True).ids
        for first in range(len(whole) - len(plain) + 1):
            if whole[first : first + len(plain)] == plain:
                return tuple(whole[:first]), tuple(whole[first + len(plain) :])
        return (), ()

    def encode(self, text: str) -> list[int]:
        """As `Tokenizer.encode`; a text with the model's own prompt marks is cut as a prompt is.

        There each special token that is spelled out is one, and LINE_END is a line end.
        """
        if self.prompt is None or self.prompt.sign not in text:
            return super().encode(text)
        ids: list[int] = self._of_prompts.encode(
            text.replace(LINE_END, "\n"), add_special_tokens=False
        ).ids
        return ids

    @cached_property
    def _of_prompts(self) -> tokenizers.Tokenizer:
        """The same for texts in which special tokens are no text."""
        tokenizer = copy.deepcopy(self._tokenizer)
        tokenizer.encode_special_tokens = False
        return tokenizer

    def decode(self, ids: Sequence[int]) -> str:
        """As `Tokenizer.decode`; bytes that make no character are written as numbers: <E4>."""
        text = super().decode(ids)
        if "\ufffd" not in text:
            return text
        written = (self.bytes_of(each) for each in ids if not self.is_special(each))
        return b"".join(written).decode(errors=NUMBERED).strip()

    def bytes_of(self, token: int) -> bytes:
        piece = self.piece(token)
        if self._byte_level and all(char in ALPHABET for char in piece):
            return bytes(ALPHABET[char] for char in piece)
        if self._byte_fallback and len(piece) == 6 and piece.startswith("<0x"):
            return bytes([int(piece[3:5], 16)])
        if self._word_pieces:
            inside = piece.startswith(CONTINUES_WORD) and piece != CONTINUES_WORD
            piece = piece[len(CONTINUES_WORD) :] if inside else f" {piece}"
        return piece.replace(BLANK, " ").encode("utf-8", "replace")


def largest_in(path: Path) -> int:
    """The largest id of a token in a tokenizer.json, which is read as JSON alone: a tenth of the
    time that making a tokenizer of it takes. Raises CheckpointError where it has no tokens.
    """
    said = read_json(path)
    try:
        vocab = said["model"]["vocab"]
        added = [each["id"] for each in said.get("added_tokens") or ()]
        listed = vocab.values() if isinstance(vocab, dict) else [len(vocab) - 1]
        return int(max([*added, *listed]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError("tokenizer", file=path.name, reason=Refusal("no_tokens")) from error


def few(n_tokens: int, vocab_size: int) -> bool:
    """Whether most of a model's vocabulary has no token: its tokenizer may be another model's.

    A few are often left, to make the size a round one; and a small tokenizer may have been trained
    for a model whose size nobody changed, so this is no reason to refuse it.
    """
    return 2 * n_tokens < vocab_size


def named_tokens(folder: Path) -> dict[str, str]:
    """The names of special tokens by their purpose, as tokenizer_config.json has them."""
    found: dict[str, str] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        path = folder / name
        if path.is_file():
            values = read_json(path)
            for key, value in values.items() if isinstance(values, dict) else ():
                text = value.get("content") if isinstance(value, dict) else value
                if key.endswith("_token") and isinstance(text, str):
                    found[key] = text
    return found


def marks_of(
    tokenizer: tokenizers.Tokenizer, named: Mapping[str, str], config: Mapping[str, Any]
) -> Marks:
    """What the special tokens are for: by their names in the folder, else by the config's ids.

    Where neither says anything, by the usual names. Each of several end tokens ends an output.
    """
    usual = marks_by_name(tokenizer)
    known = set(tokenizer.get_vocab().values())
    said = config.get("eos_token_id")
    # Of an ordinary token a config says so only by mistake.
    apart = tokenizer.get_added_tokens_decoder()
    ends = [i for i in (said if isinstance(said, list) else [said]) if i in apart]

    def one(purpose: str, key: str, usual_id: int | None) -> int | None:
        by_name = tokenizer.token_to_id(named[f"{key}_token"]) if f"{key}_token" in named else None
        by_id = config.get(f"{key}_token_id")
        by_id = by_id[0] if isinstance(by_id, list) and by_id else by_id
        if by_name is not None:
            return by_name
        return by_id if isinstance(by_id, int) and by_id in known else usual_id

    end = one("end", "eos", usual.end)
    return Marks(
        pad=one("pad", "pad", usual.pad),
        start=one("start", "bos", usual.start),
        end=end,
        further_ends=tuple(dict.fromkeys(i for i in ends if i != end)),
        mask=one("mask", "mask", usual.mask),
        separator=one("separator", "sep", usual.separator),
        unknown=one("unknown", "unk", usual.unknown),
    )
