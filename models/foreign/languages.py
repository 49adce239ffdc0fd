"""Translators of many languages: NLLB, M2M-100, mBART. A special token stands for each language.

One such code stands at the source, and the decoder is made to write another one first.
"""

import re
from collections.abc import Mapping
from typing import Any

from models.foreign.tokens import ForeignTokenizer
from models.rows import Stream

Frame = tuple[tuple[int, ...], tuple[int, ...]]  # the tokens before a text, and those behind it
Codes = Mapping[str, int]  # codes of languages, and their tokens

CODE = r"[a-z]{2,3}_[A-Z][A-Za-z]{1,3}|__[a-z]{2,3}__"
_PAIR = re.compile(rf"(.+)@({CODE})-({CODE})")
OF_MANY = ("m2m_100", "mbart")
PREFERRED = ("zho_Hans", "zh_CN", "__zh__", "fra_Latn", "fr_XX", "__fr__")


def split_languages(name: str) -> tuple[str, tuple[str, str] | None]:
    """Of "nllb@eng_Latn-zho_Hans", the model's name and the pair; None: the one it opens with."""
    found = _PAIR.fullmatch(name)
    return (found[1], (found[2], found[3])) if found else (name, None)


def languages_of(tokenizer: ForeignTokenizer) -> Codes:
    """The codes among its special tokens, in alphabetical order."""
    specials = tokenizer.specials()
    return {name: specials[name] for name in sorted(specials) if re.fullmatch(CODE, name)}


def frames(
    codes: Codes, around: Frame, start: int, source: str, target: str
) -> dict[Stream, Frame]:
    """What stands around both texts for a pair of languages.

    The source's code takes the place of the one that the tokenizer puts there. `start` begins the
    decoder's text, unless it is itself a code: then the target's replaces it.
    """
    ids = set(codes.values())
    before, behind = (
        tuple(codes[source] if token in ids else token for token in side) for side in around
    )
    first = () if start in ids else (start,)
    return {"src": (before, behind), "tgt": ((*first, codes[target]), ())}


def usual_pair(codes: Codes, around: Frame, said: Mapping[str, Any]) -> tuple[str, str]:
    """The pair that a folder opens with: the tokenizer's own source, and the target of the config,
    or one of a few large languages that is not the source."""
    names = {token: name for name, token in codes.items()}
    placed = (names[token] for side in around for token in side if token in names)
    source = next(placed, next(iter(codes)))
    keys = ("forced_bos_token_id", "decoder_start_token_id")
    targets = (names[said[key]] for key in keys if said.get(key) in names)
    others = [name for name in (*PREFERRED, *codes) if name in codes and name != source]
    return source, next(targets, others[0])
