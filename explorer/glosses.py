"""Glosses: the usual translation of a token, for a reader of the other language.

`assets/glosses.tsv` was counted in the training pairs of the translators (`recipes/glossing.py`).
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from models.training.home import asset


@cache
def _table() -> dict[str, str]:
    lines = asset("glosses.tsv").read_text(encoding="utf-8").splitlines()
    rows = (line.split("\t") for line in lines if not line.startswith("#"))
    return {token: gloss for token, gloss, _ in rows}


def gloss_of(token: str, lang: str) -> str:
    """The gloss of a token's label for readers of a language; "" if it is in that language, or if
    no translation is sure."""
    return "" if (lang == "en") == token.isascii() else _table().get(token.lower(), "")


def glosses_in(head: Mapping[str, Any]) -> dict[str, str]:
    """The glosses of all labels in a payload's head; the browser shows those that its reader
    needs."""
    table = _table()
    labels = _texts([value for name, value in head.items() if name not in ("words", "glosses")])
    return {label: table[label.lower()] for label in labels if label.lower() in table}


def _texts(value: Any) -> Iterator[str]:
    """All strings in JSON data; of lists, numbers alone are not looked through."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list | tuple) and not (value and isinstance(value[0], int | float)):
        for part in value:
            yield from _texts(part)
