"""Marian's tokenizer: a SentencePiece model for each language, and a table of ids for both or each.

The two `.spm` files are protocol buffers with pieces, scores and a normalisation table. The
`tokenizers` library computes the same segmentation from them, so neither `sentencepiece` nor a
converted file is needed. Kudo 2018 (unigram language model); Kudo & Richardson 2018.
"""

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from models.foreign.json_files import read_json
from models.foreign.tokens import ForeignTokenizer
from models.marks import Marks
from models.refusals import Refusal
from models.tokenizer import Piece

SOURCE, TARGET, VOCABULARY = "source.spm", "target.spm", "vocab.json"
TARGET_VOCABULARY = "target_vocab.json"  # if the target has a vocabulary of its own
NORMAL, UNKNOWN, USER_DEFINED = 1, 2, 4  # types of pieces that a text can contain
UNIGRAM = 1  # type of a model


class MarianTokenizer(ForeignTokenizer):
    """Encodes texts of one language. One may begin with the target's code, e.g. ">>cmn_Hans<<"."""

    def __init__(
        self,
        pieces: tokenizers.Tokenizer,
        ids: Mapping[str, int],
        end: str = "</s>",
        unknown: str = "<unk>",
    ) -> None:
        table = tokenizers.Tokenizer(models.WordLevel(dict(ids), unk_token=unknown))
        table.decoder = decoders.Metaspace()
        table.add_special_tokens([token for token in (end, unknown, "<pad>") if token in ids])
        marks = Marks(end=ids[end], unknown=ids[unknown], pad=ids.get("<pad>"))
        super().__init__(table, marks)
        self._pieces, self._ids = pieces, ids

    @classmethod
    def of_folder(cls, folder: Path, apart: bool) -> "MarianTokenizer":
        """The target's tokenizer, with the source's, from a folder's three or four files.

        `apart`: the model has two vocabularies. Raises ValueError if a file is invalid or missing.
        """
        apart = apart or (folder / TARGET_VOCABULARY).is_file()
        target = cls._side(folder, TARGET, TARGET_VOCABULARY if apart else VOCABULARY)
        target.reading(cls._side(folder, SOURCE, VOCABULARY))
        return target

    @classmethod
    def _side(cls, folder: Path, pieces: str, table: str) -> "MarianTokenizer":
        try:
            for name in (pieces, table):
                if not (folder / name).is_file():
                    raise Refusal("missing_file", file=name)
            ids = read_json(folder / table)
            if sorted(ids.values()) != list(range(len(ids))):
                raise Refusal("ids_with_gaps")
            return cls(read_unigram(folder / pieces), ids)
        except (AttributeError, TypeError, KeyError, ValueError) as error:
            raise Refusal("within", file=table, reason=error) from error

    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (), (self._ids["</s>"],)

    def _cut(self, text: str) -> list[Piece]:
        code, bracket, rest = text.partition("<<")
        if not bracket or not text.startswith(">>"):
            return self._after(text)
        code += bracket
        return [(self._id(code), (0, len(code))), *self._after(rest, len(code))]

    def _after(self, text: str, at: int = 0) -> list[Piece]:
        encoding = self._pieces.encode(text)
        places = [(at + start, at + end) for start, end in encoding.offsets]
        return list(zip(map(self._id, encoding.tokens), places, strict=True))

    def _id(self, piece: str) -> int:
        return self._ids.get(piece, self.marks.unknown or 0)


def read_unigram(path: Path) -> tokenizers.Tokenizer:
    """Read the unigram model of an `.spm` file; its ids are not used.

    Raises ValueError, with the file's name, if it is not a unigram model.
    """
    try:
        pieces, normaliser = _parsed(path.read_bytes())
        unknown = next(i for i, (_, _, kind) in enumerate(pieces) if kind == UNKNOWN)
        # Typing the name of the unknown piece must not give that piece.
        listed = [("\0" if kind == UNKNOWN else piece, score) for piece, score, kind in pieces]
        model = tokenizers.Tokenizer(models.Unigram(listed, unk_id=unknown, byte_fallback=False))
    except Refusal as error:
        raise Refusal("no_sentencepiece", file=path.name, reason=error) from error
    except (StopIteration, IndexError, struct.error, UnicodeDecodeError) as error:
        raise Refusal("no_sentencepiece", file=path.name, reason=repr(error)) from error
    # As in sentencepiece: strip blanks at the ends and merge repeated ones.
    blanks = [normalizers.Strip(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
    table = [normalizers.Precompiled(normaliser)] if normaliser else []
    model.normalizer = normalizers.Sequence([*table, *blanks])
    model.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    return model


def _parsed(data: bytes) -> tuple[list[tuple[str, float, int]], bytes]:
    """(Piece, score, type) of every piece that a text can contain, and the normalisation table."""
    pieces, table, kind_of_model = [], b"", UNIGRAM
    for number, value in _fields(data):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            piece, score, kind = "", 0.0, NORMAL
            for inner, part in _fields(value):
                if inner == 1 and isinstance(part, bytes):
                    piece = part.decode("utf-8")
                elif inner == 2 and isinstance(part, float):
                    score = part
                elif inner == 3 and isinstance(part, int):
                    kind = part
            if kind in (NORMAL, UNKNOWN, USER_DEFINED):
                pieces.append((piece, score, kind))
        elif number == 2:
            kinds = [part for inner, part in _fields(value) if inner == 3]
            kind_of_model = int(kinds[0]) if kinds else UNIGRAM
        elif number == 3:
            tables = [part for inner, part in _fields(value) if inner == 2]
            table = tables[0] if tables and isinstance(tables[0], bytes) else b""
    if kind_of_model != UNIGRAM:
        raise Refusal("not_unigram")
    return pieces, table


def _fields(data: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """(Number, value) of every field of a protocol buffer, in order.

    Wire types: 0 a varint, 2 a length and its bytes, 5 a float32, 1 a float64.
    """
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        number, wire = key >> 3, key & 7
        if wire == 0:
            yield number, varint()
        elif wire == 2:
            size = varint()
            if at + size > len(data):
                raise Refusal("ends_early")
            yield number, data[at : at + size]
            at += size
        elif wire in (1, 5):
            form, size = ("<d", 8) if wire == 1 else ("<f", 4)
            yield number, struct.unpack_from(form, data, at)[0]
            at += size
        else:
            raise Refusal("wire_type", kind=wire)
