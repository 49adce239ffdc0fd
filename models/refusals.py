"""Why a folder, a file or a config cannot be used: by a key, with the English words for it.

An error says its English words as any other does. Whoever speaks another language looks the key up
in `words` and fills in the same values. One may be a refusal itself: that of a file's contents.
"""

import json
import string
import tomllib
from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from typing import Any


def words(lang: str) -> dict[str, str]:
    """What is said in a language, "en" or "zh", by key."""
    return tomllib.loads(files("models").joinpath(f"refusals.{lang}.toml").read_text("utf8"))


REFUSALS = words("en")  # the words of each key, whose placeholders are its values


class Numbers(string.Formatter):
    """Fills placeholders; `{count:token|tokens}` is "token" where the count, as shown, is 1."""

    def format_field(self, value: Any, spec: str) -> str:
        one, bar, many = spec.partition("|")
        if not bar:
            return str(super().format_field(value, spec))
        return one if str(value) == "1" else many


class Refusal(ValueError):  # noqa: N818 (of what was given; nothing here has failed)
    """Something cannot be used: `key` says what is wrong with it, `values` say where and how much.

    Another library's error among the values is kept as its words. KeyError: unknown key or values.
    """

    def __init__(self, key: str, **values: "str | int | float | BaseException") -> None:
        self.key = key
        self.values: Mapping[str, str | int | float | Refusal] = {
            name: _cut(name, _said(value) if isinstance(value, BaseException) else value)
            for name, value in values.items()
        }
        super().__init__(Numbers().vformat(REFUSALS[key], (), self.values))

    def alone(self) -> "Refusal":
        """The same without the calls that led to it, which would keep alive what they held."""
        return Refusal(self.key, **self.values)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), self.key, **self.values), ()


_WHOLE = ("command", "known", "allowed")
_MOST = 300  # characters of a value


def _cut(name: str, value: "str | int | float | Refusal") -> "str | int | float | Refusal":
    """A value without the middle of a very long text, unless a reader needs all of it."""
    long = isinstance(value, str | int) and name not in _WHOLE and len(text := str(value)) > _MOST
    return f"{text[: _MOST // 2]}…{text[-_MOST // 2 :]}" if long else value


def _said(error: BaseException) -> "str | Refusal":
    if isinstance(error, Refusal):
        return error.alone()
    if isinstance(error, json.JSONDecodeError):
        at = {"line": error.lineno, "column": error.colno, "char": error.pos}
        return Refusal("json_syntax", said=error.msg, **at)
    return str(error)
