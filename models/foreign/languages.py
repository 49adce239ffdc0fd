"""Multilingual translators (NLLB, M2M-100, mBART), with a special token as code of each language.

The source text includes its language's code, and the decoder starts with the target's code.
"""

import re
from collections.abc import Mapping
from typing import Any

from models.foreign.tokens import ForeignTokenizer
from models.rows import Stream

Frame = tuple[tuple[int, ...], tuple[int, ...]]  # the tokens before and after a text
Codes = Mapping[str, int]  # language code -> token id

CODE = r"[a-z]{2,3}_[A-Z][A-Za-z]{1,3}|__[a-z]{2,3}__"
_PAIR = re.compile(rf"(.+)@({CODE})-({CODE})")
OF_MANY = ("m2m_100", "mbart")
PREFERRED = ("zho_Hans", "zh_CN", "__zh__", "fra_Latn", "fr_XX", "__fr__")


def split_languages(name: str) -> tuple[str, tuple[str, str] | None]:
    """Split "nllb@eng_Latn-zho_Hans" into the model's name and the pair; None: the default pair."""
    parts = _PAIR.fullmatch(name)
    return (parts[1], (parts[2], parts[3])) if parts else (name, None)


def languages_of(tokenizer: ForeignTokenizer) -> Codes:
    """The language codes among a tokenizer's special tokens, in alphabetical order."""
    specials = tokenizer.specials()
    return {name: specials[name] for name in sorted(specials) if re.fullmatch(CODE, name)}


def frames(
    codes: Codes, around: Frame, start: int, source: str, target: str
) -> dict[Stream, Frame]:
    """The tokens around source and target for a pair of languages.

    The source's code replaces the one that the tokenizer adds. The target begins with `start` and
    its code; if `start` is itself a language code, with its code only.
    """
    ids = set(codes.values())
    before, behind = (
        tuple(codes[source] if token in ids else token for token in side) for side in around
    )
    first = () if start in ids else (start,)
    return {"src": (before, behind), "tgt": ((*first, codes[target]), ())}


def usual_pair(codes: Codes, around: Frame, said: Mapping[str, Any]) -> tuple[str, str]:
    """The default pair of a folder: the tokenizer's source language and the config's target, or
    else a preferred language other than the source."""
    names = {token: name for name, token in codes.items()}
    placed = (names[token] for side in around for token in side if token in names)
    source = next(placed, next(iter(codes)))
    keys = ("forced_bos_token_id", "decoder_start_token_id")
    targets = (names[said[key]] for key in keys if said.get(key) in names)
    others = [name for name in (*PREFERRED, *codes) if name in codes and name != source]
    return source, next(targets, others[0])
