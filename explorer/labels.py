"""Token labels: what is displayed for each token of a sequence.

A token is a sequence of bytes. Its label consists of the characters that these bytes belong
to, so a Chinese character that a byte-level tokenizer split into several tokens appears in each of
them, with a subscript that counts them: 你₁ 你₂.
"""

import unicodedata
from collections.abc import Sequence
from itertools import pairwise

from models.foreign.prompts import LINE_END
from models.tokenizer import Tokenizer

CONTINUED = "·"  # precedes a piece that continues a word, in scripts with spaces
BLANK = "␣"  # displayed for a token that is a single blank
UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "BOPOMOFO", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
"""Scripts without spaces between words, as prefixes of their Unicode character names."""
NUMBERS = "₀₁₂₃₄₅₆₇₈₉"
SUBSCRIPTS = str.maketrans("0123456789", NUMBERS)


class SpecialToken(str):
    """The label of a special token, which no text contains, whatever its name.

    It reads like any label. The attribute `special` distinguishes it from the same characters typed
    by a user, which are text.
    """

    __slots__ = ()
    special = True


class WithinCharacter(str):
    """The label of a token that begins inside a character, which the token before it began."""

    __slots__ = ()
    within = True


def str_tokens(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """The label of each token: the characters that its bytes belong to.

    "·" precedes a piece inside a word, and subscripts count the tokens that share one character.
    Bytes that form no character are displayed as numbers: <E4>. The label of a special token is a
    `SpecialToken`.
    """
    special = [tokenizer.is_special(token) for token in ids]
    pieces = [
        b"" if no_text else tokenizer.bytes_of(token)
        for token, no_text in zip(ids, special, strict=True)
    ]
    starts = [0]
    for piece in pieces:
        starts.append(starts[-1] + len(piece))
    characters, of_byte = _characters(b"".join(pieces))
    shared = _shared(starts, of_byte)
    shown: list[str] = []
    for index, token in enumerate(ids):
        if special[index]:
            shown.append(SpecialToken(tokenizer.piece(token)))
            continue
        numbers = dict.fromkeys(of_byte[starts[index] : starts[index + 1]])
        text = "".join(
            characters[n] + str(shared.get((n, index), "")).translate(SUBSCRIPTS) for n in numbers
        )
        place = of_byte[starts[index] - 1] if starts[index] else -1
        before = characters[place] if starts[index] else " "
        follows = index > 0 and not special[index - 1]
        if follows and place in numbers:
            shown.append(WithinCharacter(text))
        elif follows and _spaced(text[:1]) and _spaced(before):
            shown.append(f"{CONTINUED}{text.rstrip()}")
        else:
            shown.append(text.strip() or _blank(text))
    return shown


def _spaced(character: str) -> bool:
    """Whether it is a letter of a script with spaces between words."""
    return character.isalpha() and (
        character.isascii() or not unicodedata.name(character, "").startswith(UNSPACED)
    )


def _blank(text: str) -> str:
    """The label of a token that consists of white space."""
    return LINE_END if "\n" in text else BLANK if text else "∅"


def _characters(text: bytes) -> tuple[list[str], list[int]]:
    """The characters of some bytes, and for each byte the index of its character.

    A byte that belongs to no character counts as its own character, displayed as a number.
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
    """(character, token) -> its index among the character's tokens; unsplit ones are absent."""
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
