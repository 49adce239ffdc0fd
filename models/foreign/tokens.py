"""Tokenizers of other libraries: the text of their tokens, and the roles of special tokens.

This library reads tokenizer.json alone. Most classes of `transformers` build the tokenizer anew
from it and tokenizer_config.json, and give other tokens if one contradicts the other.
"""

import codecs
import copy
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from models.checkpoint import CheckpointError
from models.foreign.json_files import read_json
from models.foreign.prompts import LINE_END, Template
from models.marks import Marks, flags_of
from models.refusals import Refusal
from models.tokenizer import BLANK, Piece, Tokenizer, marks_by_name, refusing

MAKING = (
    'python -c "import transformers as t; '
    "t.AutoTokenizer.from_pretrained('.').save_pretrained('.')\""
)
_AS_WRITTEN = ("PreTrainedTokenizerFast", "TokenizersBackend")
"""Classes that read tokenizer.json alone."""
_NULL_IS_FALSE = ("Albert", "Camembert", "XLMRoberta")
"""Classes for which a null flag is false; for others it is their default."""


def require_one_tokenizer(
    folder: Path,
    id_of: Callable[[str], int | None],
    flags: Mapping[str, bool | None],
    marks: Mapping[str, str],
) -> None:
    """Raise Refusal if a folder's tokenizer_config.json contradicts its tokenizer.json.

    `id_of` gives the id of a token, None if that file lacks it. `flags` are the settings that the
    file shows (`models.marks.flags_of`). `marks` are the special tokens that it puts around a text,
    and the unknown one of a unigram model, by the settings that name them.
    """
    path = folder / "tokenizer_config.json"
    settings = read_json(path) if path.is_file() else None
    if not isinstance(settings, dict) or settings.get("tokenizer_class") in _AS_WRITTEN:
        return
    kind = str(settings.get("tokenizer_class"))
    null_is_false = kind.startswith(_NULL_IS_FALSE)
    if kind.startswith("Albert"):  # others ignore these, if the file does neither
        flags = {"do_lower_case": False, "keep_accents": True} | dict(flags)
    for name, written in flags.items():
        value = settings.get(name, written)
        if value is None and name != "strip_accents":
            value = False if null_is_false else written
        if value != written:
            value, other = repr(value), repr(written)
            raise Refusal("tokenizer_setting", name=name, value=value, other=other, command=MAKING)
    for name, mark in marks.items():
        value = settings.get(name, "")
        text = value.get("content") if isinstance(value, dict) else value
        ignored = text == "" or (text is None and name != "unk_token")
        if not ignored and id_of(str(text)) is None:
            value, other = repr(text), repr(mark)
            raise Refusal("tokenizer_setting", name=name, value=value, other=other, command=MAKING)


MOST_NAMED = 20  # characters in a refusal
ANY, ANY_ID = "text", 2**32 - 1
ANY_TEXT = tokenizers.Tokenizer(tokenizers.models.WordLevel({ANY: ANY_ID}, unk_token=ANY))
"""Encodes any text as one token outside every vocabulary, to probe a post-processor."""

PAIR = "[SEP]"
"""Typed between two texts, it makes them a pair in every encoder that reads pairs."""

NUMBERED = "headlight.numbered"
"""Error handler (`errors` of `bytes.decode`) that writes invalid bytes as <E4>."""


def _numbered(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(f"<{byte:02X}>" for byte in error.object[error.start : error.end]), error.end


codecs.register_error(NUMBERED, _numbered)


def byte_alphabet() -> dict[str, int]:
    """The character of each byte in byte-level tokenizers. Radford et al. 2019, `encoder.py`.

    Printable bytes map to themselves, all others to the characters from U+0100 on.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {
        **{chr(byte): byte for byte in printable},
        **{chr(256 + i): byte for i, byte in enumerate(others)},
    }


ALPHABET = byte_alphabet()


class ForeignTokenizer(Tokenizer):
    """A tokenizer from another library's `tokenizer.json`, or built from a GGUF file."""

    source: "ForeignTokenizer | None" = None

    def __init__(
        self,
        tokenizer: tokenizers.Tokenizer,
        marks: Marks | None = None,
        template: Template | None = None,
    ) -> None:
        super().__init__(tokenizer, marks)
        self.template = template
        parts = json.loads(tokenizer.to_str())
        model = parts["model"]
        if model.get("dropout"):
            raise Refusal("cut_at_random", dropout=model["dropout"])
        self._byte_level = "ByteLevel" in json.dumps([parts["normalizer"], parts["pre_tokenizer"]])
        self._flags = flags_of(parts)
        self._unigram = model["type"] == "Unigram"
        self._inside = model.get("continuing_subword_prefix") or ""  # "##" in BERT
        self._behind = model.get("end_of_word_suffix") or ""  # "</w>" in CLIP
        self._byte_fallback = bool(model.get("byte_fallback"))
        if (unknown := _unknown(tokenizer, model)) is not None:  # whatever the folder calls it
            self.marks = replace(self.marks, unknown=unknown)
        added = tokenizer.get_added_tokens_decoder().items() if self._byte_level else ()
        self._as_written = {token: entry.content for token, entry in added}
        self.between: tuple[int, ...] | None = None
        """The special tokens between two texts, typed as PAIR; None: it reads only single texts."""
        self.beyond: Mapping[int, str] = {}
        """Tokens beyond the model's vocabulary; a text that contains one is refused."""

    def fit(self, vocab_size: int) -> None:
        """Store the tokens with ids from `vocab_size` on in `beyond`, and remove them from `marks`.

        Raises Refusal unless all of them are added tokens, such as an image token, and if two
        tokens share an id.
        """
        vocabulary = self._tokenizer.get_vocab()
        if len(named := {i: text for text, i in vocabulary.items()}) < len(vocabulary):
            one = next(text for text, i in vocabulary.items() if named[i] != text)
            raise Refusal("one_id", one=one, other=named[vocabulary[one]], id=vocabulary[one])
        beyond = {token: text for text, token in vocabulary.items() if token >= vocab_size}
        ordinary = beyond.keys() - self._tokenizer.get_added_tokens_decoder().keys()
        if ordinary:
            raise Refusal("other_tokenizer", largest=max(beyond), size=vocab_size)
        for token in (*self.around()[0], *self.around()[1]):
            if token >= vocab_size:
                raise Refusal("mark_beyond", token=self.piece(token), size=vocab_size)
        lacking: Any = {name: None for name, mark in vars(self.marks).items() if mark in beyond}
        self.marks = replace(self.marks, **lacking)
        self.beyond = beyond

    def require_settings_of(self, folder: Path) -> None:
        """Raise Refusal if the folder's tokenizer_config.json contradicts this tokenizer."""
        before, behind = ([self.piece(token) for token in side] for side in self.around())
        marks = dict.fromkeys(("bos_token", "cls_token"), before[0]) if before else {}
        marks |= dict.fromkeys(("eos_token", "sep_token"), behind[-1]) if behind else {}
        if self._unigram and self.marks.unknown is not None:
            marks["unk_token"] = self.piece(self.marks.unknown)
        flags = self._flags | {"legacy_behaviour": not before}  # of NLLB: the language comes last
        require_one_tokenizer(folder, self._tokenizer.token_to_id, flags, marks)

    def specials(self) -> dict[str, int]:
        """The special tokens and their ids."""
        added = self._tokenizer.get_added_tokens_decoder().items()
        return {token.content: i for i, token in added if token.special}

    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The special tokens that the tokenizer's post-processor adds before and after a text.
        Raises Refusal if it fails or changes the text itself."""
        processor = self._tokenizer.post_processor
        if processor is None:
            return (), ()
        with refusing("around_fails"):
            whole = processor.process(ANY_TEXT.encode(ANY)).ids
        if whole.count(ANY_ID) != 1:
            raise Refusal("text_left_out")
        at = whole.index(ANY_ID)
        return tuple(whole[:at]), tuple(whole[at + 1 :])

    def pair(self, n_types: int) -> tuple[int, ...] | None:
        """The special tokens that the post-processor puts between two texts.

        None if it treats pairs unlike a model with `n_types` token types, whose second text begins
        after the first end token.
        """
        (before, behind), processor = self.around(), self._tokenizer.post_processor
        if processor is None or not behind:
            return None
        with refusing("around_fails"):
            encoding = processor.process(ANY_TEXT.encode(ANY), ANY_TEXT.encode(ANY))
        first, second = (at for at, token in enumerate(encoding.ids) if token == ANY_ID)
        whole = (*before, ANY_ID, *(between := encoding.ids[first + 1 : second]), ANY_ID, *behind)
        types = [min(encoding.ids[:at].count(behind[0]), n_types - 1) for at in range(len(whole))]
        fits = (
            tuple(encoding.ids) == whole
            and between
            and (n_types == 1 or encoding.type_ids == types)
        )
        return tuple(between) if fits else None

    def encode(self, text: str) -> list[int]:
        """As in `Tokenizer`; PAIR between two texts makes them a pair, if the model reads pairs."""
        if self.between is None or PAIR not in text:
            return super().encode(text)
        texts = [part for part in map(str.strip, text.split(PAIR, 1)) if part]
        if len(texts) < 2:
            return super().encode(" ".join(texts))
        first, second = map(super().encode, texts)
        return [*first, *self.between, *second]

    def _cut(self, text: str) -> list[Piece]:
        """As in `Tokenizer`; a text in the model's chat template is tokenized as a prompt.

        In a prompt, special tokens that are spelled out are recognised, and LINE_END is a line end.
        """
        for token in self.beyond.values():
            if token in text:
                raise Refusal("token_beyond", token=token)
        if self.is_prompt(text):
            read = self._of_prompts.encode(text.replace(LINE_END, "\n"), add_special_tokens=False)
            pieces = list(zip(read.ids, read.offsets, strict=True))
        else:
            pieces = super()._cut(text)
        for id_, _ in pieces:  # some match more than their own text, such as several blanks
            if id_ in self.beyond:
                raise Refusal("token_beyond", token=self.beyond[id_])
        return pieces

    def is_prompt(self, text: str) -> bool:
        """Whether a text is in the model's chat template."""
        return self.template is not None and self.template.is_in(text)

    def _tokens(self, text: str) -> list[int]:
        """As in `Tokenizer`; the Refusal names the characters that cannot be encoded."""
        try:
            return super()._tokens(text)
        except Refusal as error:
            characters = [c for c in dict.fromkeys(text) if not c.isspace() and self._fails(c)]
            if characters:
                shown = " ".join(characters[:MOST_NAMED])
                raise Refusal("characters_fail", characters=shown) from error
            raise

    def _fails(self, character: str) -> bool:
        with suppress(Refusal), refusing("text_fails"):
            self._cut(character)
            return False
        return True

    def unknown(self, text: str) -> list[str]:
        """The parts of a text that the vocabulary lacks, in order: distinct characters, or a whole
        unknown word. They are read as the unknown token, or dropped."""
        unknowns: dict[str, None] = {}
        words = text if self.between is None else text.replace(PAIR, " ", 1)
        for part in self._between_masks(words):
            unknowns |= dict.fromkeys(self._lacked(part))
        if self.is_prompt(text):
            unknowns.pop(LINE_END, None)
        return list(unknowns)

    def _lacked(self, text: str) -> list[str]:
        """`unknown` for a text without masks."""
        with suppress(Refusal), refusing("text_fails"):
            pieces = self._cut(text)
            spans = [text[slice(*span)] for token, span in pieces if token == self.marks.unknown]
            written = b"".join(self.bytes_of(token) for token, _ in pieces)
            at = {c: text.index(c) for c in text if not c.isspace() and self._is_lost(c, written)}
            for span in spans:
                alone = [c for c in span if not c.isspace() and not self.drops(c)]
                words = alone if 0 < len(alone) < len("".join(span.split())) else [span.strip()]
                at |= {word: text.index(word) for word in words}
            return sorted(at, key=at.__getitem__)
        return []

    def _is_lost(self, character: str, written: bytes) -> bool:
        """Whether encoding dropped this character from a text; `written` is the decoded text.

        Characters that the normalizer removes on purpose, such as accents, do not count.
        """
        ids = self.encoded(character)
        if self.marks.unknown in ids or _is_text(b"".join(map(self.bytes_of, ids)).strip()):
            return False
        normal = self._normal(character).strip().encode("utf-8", "replace")
        return bool(normal) and normal not in written

    def _normal(self, text: str) -> str:
        """A text after the tokenizer's normalizer."""
        normalizer = self._tokenizer.normalizer
        if normalizer is None:
            return text
        with suppress(Refusal), refusing("text_fails"):
            return str(normalizer.normalize_str(text)).replace(BLANK, " ")
        return text

    @cached_property
    def _of_prompts(self) -> tokenizers.Tokenizer:
        """A copy of the tokenizer that recognises special tokens in a text."""
        tokenizer = copy.deepcopy(self._tokenizer)
        tokenizer.encode_special_tokens = False
        return tokenizer

    def decode(self, ids: Sequence[int]) -> str:
        """As the library, blanks and line ends included; bytes that are not valid UTF-8 are written
        as <E4>."""
        text = self._decoded(ids)
        if "\ufffd" not in text and not any(map(self._is_misread, ids)):
            return text
        written = (self.bytes_of(token) for token in ids if not self.is_special(token))
        joined = b"".join(written).decode(errors=NUMBERED)
        return joined if text.startswith(" ") else joined.lstrip(" ")

    def _is_misread(self, token: int) -> bool:
        """Whether the library wrongly decodes an added token's letters as bytes, e.g. "đem"."""
        text = self._as_written.get(token, "")
        return not text.isascii() and all(char in ALPHABET for char in text)

    def bytes_of(self, token: int) -> bytes:
        piece = self.piece(token)
        if token in self._as_written:
            return piece.encode("utf-8", "replace")
        end = " " if self._behind and piece.endswith(self._behind) else ""
        piece = piece.removesuffix(self._behind) if end else piece
        if self._byte_level and all(char in ALPHABET for char in piece):
            return bytes(ALPHABET[char] for char in piece) + end.encode()
        if self._byte_fallback and len(piece) == 6 and piece.startswith("<0x"):
            return bytes([int(piece[3:5], 16)])
        if self._inside:
            inside = piece.startswith(self._inside) and piece != self._inside
            piece = piece.removeprefix(self._inside) if inside else f" {piece}"
        return (piece.replace(BLANK, " ") + end).encode("utf-8", "replace")


def _is_text(data: bytes) -> bool:
    """Whether bytes are valid UTF-8 and not empty."""
    try:
        return bool(data.decode())
    except UnicodeDecodeError:
        return False


def _unknown(tokenizer: tokenizers.Tokenizer, model: Mapping[str, Any]) -> int | None:
    """The unknown token of a tokenizer's own model, if any."""
    name = model.get("unk_token")
    token = model.get("unk_id") if name is None else tokenizer.token_to_id(name)
    return None if token is None else int(token)


def largest_in(path: Path) -> tuple[int, int]:
    """The largest ids in a tokenizer.json: of all tokens, and of those that are not added tokens.

    Parsing the JSON only takes a tenth of the time of building the tokenizer.
    Raises CheckpointError if it has no tokens.
    """
    contents = read_json(path)
    try:
        vocab = contents["model"]["vocab"]
        added = {token["id"] for token in contents.get("added_tokens") or ()}
        listed = set(vocab.values() if isinstance(vocab, dict) else range(len(vocab)))
        return int(max(added | listed)), int(max(listed - added, default=0))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError("tokenizer", file=path.name, reason=Refusal("no_tokens")) from error


def named_tokens(folder: Path) -> dict[str, str]:
    """The names of special tokens by role, from the tokenizer's config files."""
    tokens: dict[str, str] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        path = folder / name
        if path.is_file():
            values = read_json(path)
            for key, value in values.items() if isinstance(values, dict) else ():
                text = value.get("content") if isinstance(value, dict) else value
                if key.endswith("_token") and isinstance(text, str):
                    tokens[key] = text
    return tokens


def marks_of(
    tokenizer: tokenizers.Tokenizer, named: Mapping[str, str], config: Mapping[str, Any]
) -> Marks:
    """The roles of the special tokens: from their names in the folder, else from the config's ids,
    else from the usual names. Each of several end tokens ends an output."""
    usual = marks_by_name(tokenizer)
    known = set(tokenizer.get_vocab().values())
    eos = config.get("eos_token_id")
    ends = [i for i in (eos if isinstance(eos, list) else [eos]) if i in known]

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
