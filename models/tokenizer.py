"""Text to tokens and back: byte-pair encoding by the `tokenizers` library, in a thin class.

One vocabulary for all languages of a model (Sennrich et al. 2016, joint BPE). A blank is part of
the word after it, written "▁"; a text that begins with an alphabetic script is treated as if a
blank came first, so that a word is the same token at the start and in the middle. Chinese has no
blanks and gets none.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")
BLANK = "▁"
CONTINUED = "·"  # shown before a piece that goes on with a word of a script that has blanks

# CJK ideographs, kana and full-width punctuation: scripts written without blanks.
_UNSPACED = r"\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef“”‘’…—"
_LIBRARY_ERRORS = (Exception,)  # the library raises bare Exception for a file it cannot read


class SpecialToken(str):
    """The label of a special token: of one that no text contains, whatever it is called.

    It reads like any label. Who draws labels can tell it by `special`, also from the same
    characters typed by a user, which are text.
    """

    __slots__ = ()
    special = True


class Tokenizer:
    """Encodes without special tokens; who builds a model's input adds start and end itself.

    The ids of `SPECIAL_TOKENS` are `pad_id`, `bos_id`, `eos_id` and `unk_id`.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        """Raises ValueError when one of the four special tokens is missing."""
        self._tokenizer = tokenizer
        ids = [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS]
        if None in ids:
            missing = SPECIAL_TOKENS[ids.index(None)]
            raise ValueError(f"the tokenizer has no token {missing!r}")
        tokenizer.encode_special_tokens = True  # "</s>" typed by a user is text, not an end mark
        self.pad_id, self.bos_id, self.eos_id, self.unk_id = ids

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int, min_frequency: int = 2) -> "Tokenizer":
        """Learn merges from `texts`; characters seen fewer than twice become <unk>.

        Digits stand alone, and punctuation is never merged with letters.
        """
        texts = list(texts)
        tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
        tokenizer.normalizer = normalizers.Sequence(
            [
                normalizers.NFC(),
                normalizers.Replace(Regex(r"\s+"), " "),
                normalizers.Strip(),
                normalizers.Replace(Regex(f"^(?=[^{_UNSPACED}])"), " "),
            ]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Metaspace(BLANK, prepend_scheme="never"),
                pre_tokenizers.Split(
                    Regex(
                        rf"{BLANK}?\p{{N}}|{BLANK}?[\p{{L}}\p{{M}}]+"
                        rf"|{BLANK}?[^\p{{N}}\p{{L}}\p{{M}}{BLANK}]|{BLANK}"
                    ),
                    behavior="isolated",
                ),
            ]
        )
        tokenizer.decoder = decoders.Metaspace(BLANK, prepend_scheme="never")
        counts: dict[str, int] = {}
        for text in texts:
            for character in text:
                counts[character] = counts.get(character, 0) + 1
        alphabet = sum(count >= min_frequency for count in counts.values())
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            min_frequency=min_frequency,
            special_tokens=list(SPECIAL_TOKENS),
            limit_alphabet=alphabet,
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer)

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read a `tokenizer.json`. Raises ValueError, with the reason, when it is not one."""
        try:
            return cls(tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8")))
        except _LIBRARY_ERRORS as error:
            raise ValueError(f"{path.name} is not a usable tokenizer: {error}") from error

    def save(self, path: Path) -> None:
        """Write `tokenizer.json`, from which `load` makes the same tokenizer."""
        path.write_text(self._tokenizer.to_str(pretty=True), encoding="utf-8")

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special ones included."""
        return self._tokenizer.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without special tokens, even where the text spells one out."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` for many texts of a corpus at once (in parallel, in the library)."""
        return [e.ids for e in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; special tokens are left out."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text.strip()

    def str_tokens(self, ids: Sequence[int]) -> list[str]:
        """What is shown for each token: no blank marks, "·" before a piece inside a word.

        The label of a special token is a `SpecialToken`.
        """
        shown = []
        previous = ""
        for token in ids:
            piece = self._tokenizer.id_to_token(token) or "<unk>"
            text = SpecialToken(piece) if piece in SPECIAL_TOKENS else piece.removeprefix(BLANK)
            inside_word = piece[:1].isascii() and piece[:1].isalpha() and previous[-1:].isalpha()
            shown.append(f"{CONTINUED}{text}" if inside_word else text or "␣")
            previous = "" if piece in SPECIAL_TOKENS else piece
        return shown

    def unknown(self, text: str) -> list[str]:
        """The different characters of a text that the vocabulary lacks, in order."""
        characters = dict.fromkeys(c for c in text if not c.isspace())
        return [c for c in characters if self.unk_id in self.encode(c)]
