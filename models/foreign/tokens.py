"""Tokenizers of other libraries: how their tokens are shown, and what their special ones are for.

A token is a piece of a text in bytes. What is shown for it are the characters that its bytes belong
to, so a Chinese character that a byte-level tokenizer cut into several tokens stands in each of
them, with a small number that counts them: 你₁ 你₂.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import tokenizers

from models.marks import Marks
from models.tokenizer import BLANK, CONTINUED, MASK, SpecialToken, Tokenizer, marks_by_name

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
CONTINUES_WORD = "##"  # WordPiece


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

    def __init__(self, tokenizer: tokenizers.Tokenizer, marks: Marks | None = None) -> None:
        super().__init__(tokenizer, marks)
        parts = json.loads(tokenizer.to_str())
        kinds = json.dumps([parts.get("pre_tokenizer"), parts.get("decoder")])
        self._byte_level = "ByteLevel" in kinds
        self._word_pieces = parts["model"].get("type") == "WordPiece"
        self._byte_fallback = bool(parts["model"].get("byte_fallback"))

    @property
    def largest(self) -> int:
        """The largest id of a token."""
        return max(self._tokenizer.get_vocab().values())

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
        if self.marks.mask is None or MASK not in text:
            ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
            return ids
        # The blank behind a mask belongs to the word after it, as it does behind any word.
        first, *others = text.split(MASK)
        ids = self.encode(first.rstrip()) if first.strip() else []
        for part in others:
            ids = [*ids, self.marks.mask, *(self.encode(part.rstrip()) if part.strip() else [])]
        return ids

    def str_tokens(self, ids: Sequence[int]) -> list[str]:
        """What is shown for each token: the characters that its bytes belong to.

        "·" stands before a piece inside a word, and small numbers count the tokens that share one
        character. Bytes that make no character are shown as numbers: <E4>.
        """
        pieces = [b"" if self.is_special(token) else self._bytes(token) for token in ids]
        starts = [0]
        for piece in pieces:
            starts.append(starts[-1] + len(piece))
        characters, of_byte = _characters(b"".join(pieces))
        shared = _shared(starts, of_byte)
        shown: list[str] = []
        for index, token in enumerate(ids):
            if self.is_special(token):
                shown.append(SpecialToken(self._piece(token)))
                continue
            numbers = dict.fromkeys(of_byte[starts[index] : starts[index + 1]])
            text = "".join(
                characters[n] + str(shared.get((n, index), "")).translate(SUBSCRIPTS)
                for n in numbers
            )
            before = characters[of_byte[starts[index] - 1]] if starts[index] else " "
            follows = index > 0 and not self.is_special(ids[index - 1])
            inside = follows and text[:1].isascii() and text[:1].isalpha() and before.isalpha()
            shown.append(f"{CONTINUED}{text}" if inside else text.strip() or ("␣" if text else "∅"))
        return shown

    def _piece(self, token: int) -> str:
        return self._tokenizer.id_to_token(token) or f"<{token}>"  # ids that no token has

    def _bytes(self, token: int) -> bytes:
        """The text of a token in bytes, its blank included."""
        piece = self._piece(token)
        if self._byte_level and all(char in ALPHABET for char in piece):
            return bytes(ALPHABET[char] for char in piece)
        if self._byte_fallback and len(piece) == 6 and piece.startswith("<0x"):
            return bytes([int(piece[3:5], 16)])
        if self._word_pieces:
            inside = piece.startswith(CONTINUES_WORD) and piece != CONTINUES_WORD
            piece = piece[len(CONTINUES_WORD) :] if inside else f" {piece}"
        return piece.replace(BLANK, " ").encode("utf-8", "replace")


def _characters(text: bytes) -> tuple[list[str], list[int]]:
    """The characters of some bytes, and for each byte the number of its character.

    A byte that belongs to no character is one of its own, shown as its number.
    """
    characters: list[str] = []
    of_byte: list[int] = []
    start = 0
    while start < len(text):
        for size in (1, 2, 3, 4):
            try:
                character = text[start : start + size].decode()
                break
            except UnicodeDecodeError:
                continue
        else:
            size, character = 1, f"<{text[start]:02X}>"
        of_byte += [len(characters)] * len(text[start : start + size])
        characters.append(character)
        start += size
    return characters, of_byte


def _shared(starts: Sequence[int], of_byte: Sequence[int]) -> dict[tuple[int, int], int]:
    """(character, token) -> its place among the character's tokens; whole ones are absent."""
    tokens: dict[int, list[int]] = {}
    for index, (first, last) in enumerate(pairwise(starts)):
        for number in dict.fromkeys(of_byte[first:last]):
            tokens.setdefault(number, []).append(index)
    return {
        (number, index): place
        for number, several in tokens.items()
        if len(several) > 1
        for place, index in enumerate(several, 1)
    }


def named_tokens(folder: Path) -> dict[str, str]:
    """The names of special tokens by their purpose, as tokenizer_config.json has them."""
    found: dict[str, str] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        path = folder / name
        if path.is_file():
            values = json.loads(path.read_text(encoding="utf-8"))
            for key, value in values.items() if isinstance(values, dict) else ():
                text = value.get("content") if isinstance(value, dict) else value
                if key.endswith("_token") and isinstance(text, str):
                    found[key] = text
    return found


def marks_of(
    tokenizer: tokenizers.Tokenizer, named: Mapping[str, str], config: Mapping[str, Any]
) -> Marks:
    """What the special tokens are for: by their names in the folder, else by the config's ids.

    Where neither says anything, by the usual names. Of several end tokens the first one counts.
    """
    usual = marks_by_name(tokenizer)
    known = set(tokenizer.get_vocab().values())

    def one(purpose: str, key: str, usual_id: int | None) -> int | None:
        by_name = tokenizer.token_to_id(named[f"{key}_token"]) if f"{key}_token" in named else None
        by_id = config.get(f"{key}_token_id")
        by_id = by_id[0] if isinstance(by_id, list) and by_id else by_id
        if by_name is not None:
            return by_name
        return by_id if isinstance(by_id, int) and by_id in known else usual_id

    return Marks(
        pad=one("pad", "pad", usual.pad),
        start=one("start", "bos", usual.start),
        end=one("end", "eos", usual.end),
        mask=one("mask", "mask", usual.mask),
        separator=one("separator", "sep", usual.separator),
        unknown=one("unknown", "unk", usual.unknown),
    )
