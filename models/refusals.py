"""Translatable errors: why a folder, a file or a config cannot be used.

The message of a `Refusal` is in English. For another language, look its key up in `words` and fill
in the same values. A value may itself be a refusal, such as the reason for a file's contents.
"""

import json
import string
import tomllib
from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from typing import Any


def words(lang: str) -> dict[str, str]:
    """The messages in a language, "en" or "zh", by key."""
    return tomllib.loads(files("models").joinpath(f"refusals.{lang}.toml").read_text("utf8"))


REFUSALS = words("en")  # message per key, with placeholders for the values


class PluralFormatter(string.Formatter):
    """Formats messages; `{count:token|tokens}` is "token" if the count, as displayed, is 1."""

    def format_field(self, value: Any, spec: str) -> str:
        one, bar, many = spec.partition("|")
        if not bar:
            return str(super().format_field(value, spec))
        return one if str(value) == "1" else many


class Refusal(ValueError):  # noqa: N818 (of what was given; nothing here has failed)
    """Something cannot be used: `key` selects the message, `values` fill its placeholders.

    An exception among the values is replaced by its message. Raises KeyError for an unknown key or
    missing values.
    """

    def __init__(self, key: str, **values: "str | int | float | BaseException") -> None:
        self.key = key
        self.values: Mapping[str, str | int | float | Refusal] = {
            name: _cut(name, _said(value) if isinstance(value, BaseException) else value)
            for name, value in values.items()
        }
        super().__init__(PluralFormatter().vformat(REFUSALS[key], (), self.values))

    def alone(self) -> "Refusal":
        """A copy without the traceback, which would keep local variables alive."""
        return Refusal(self.key, **self.values)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), self.key, **self.values), ()


_WHOLE = ("command", "known", "allowed")
_MOST = 300  # maximum characters of a value


def _cut(name: str, value: "str | int | float | Refusal") -> "str | int | float | Refusal":
    """Shorten a very long value in the middle, unless its name is in `_WHOLE`."""
    long = isinstance(value, str | int) and name not in _WHOLE and len(text := str(value)) > _MOST
    return f"{text[: _MOST // 2]}…{text[-_MOST // 2 :]}" if long else value


def _said(error: BaseException) -> "str | Refusal":
    if isinstance(error, Refusal):
        return error.alone()
    if isinstance(error, json.JSONDecodeError):
        at = {"line": error.lineno, "column": error.colno, "char": error.pos}
        return Refusal("json_syntax", said=error.msg, **at)
    return str(error)
