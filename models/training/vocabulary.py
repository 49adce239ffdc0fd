"""Training a vocabulary: byte-pair encoding with the `tokenizers` library and this project's rules.

All languages of a model share one vocabulary (Sennrich et al. 2016, joint BPE). A text that begins
with an alphabetic script gets a leading blank, so that a word is the same token at the start and
in the middle. Chinese has no spaces and gets none.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from models.tokenizer import BLANK, SPECIAL_TOKENS, Tokenizer

# CJK ideographs, kana and full-width punctuation: scripts written without spaces.
_UNSPACED = r"\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef“”‘’…—"


MIN_FREQUENCY = 2
"""How often a character or a pair must occur to be included in the vocabulary."""


def train_tokenizer(
    texts: Iterable[str], vocab_size: int, special_tokens: Sequence[str] = SPECIAL_TOKENS
) -> Tokenizer:
    """Learn merges from `texts`; characters seen fewer than `MIN_FREQUENCY` times become <unk>.

    Each digit is a token of its own, and punctuation is never merged with letters.
    `special_tokens` get the first ids and must include "<unk>".
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
    # The blank before a word is a character too, which a text of one word has only here.
    counts = Counter(chain.from_iterable(map(tokenizer.normalizer.normalize_str, texts)))
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=MIN_FREQUENCY,
        special_tokens=list(special_tokens),
        limit_alphabet=sum(count >= MIN_FREQUENCY for count in counts.values()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return Tokenizer(tokenizer)


def characters(
    texts: Iterable[str], vocab_size: int, special_tokens: Sequence[str] = SPECIAL_TOKENS
) -> Tokenizer:
    """A vocabulary of single characters, without merges and without leading spaces.

    The `vocab_size` most frequent characters of `texts`, special tokens included.
    """
    counts = Counter(chain.from_iterable(texts))
    room = vocab_size - len(special_tokens)
    pieces = [*special_tokens, *sorted(c for c, _ in counts.most_common(room))]
    vocab = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab, [], unk_token="<unk>"))
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(list(special_tokens))
    return Tokenizer(tokenizer)
