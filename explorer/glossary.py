"""The terms of the app: one name per concept in each language (assets/glossary.toml)."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache, lru_cache

from models.training.home import asset


@dataclass(frozen=True)
class Term:
    """A term in one language: its name, its meaning in one or two sentences, and the page that
    shows it; `avoid` are other names for it, which the app's texts must not use, and `linked` is
    whether they link to it."""

    name: str
    means: str
    page: str
    avoid: tuple[str, ...]
    linked: bool


@cache
def terms(lang: str) -> tuple[Term, ...]:
    """All terms, in file order. Raises KeyError for a language that the file lacks."""
    entries = tomllib.loads(asset("glossary.toml").read_text(encoding="utf-8"))["term"]
    return tuple(
        Term(
            entry[lang],
            entry[f"means_{lang}"],
            entry["page"],
            tuple(entry.get(f"avoid_{lang}", ())),
            entry.get("linked", True),
        )
        for entry in entries
    )


_SKIPPED = r"“[^”]*”|`[^`]*`|\$[^$]*\$|!?\[[^\[\]]*\]\([^()]*\)|:[a-z-]+\[[^\[\]]*\]"
"""Where no term is looked for: quoted text, code, formulas, links and colours."""
_LONGER = {"en": r"arrow keys|\w+[_/]\w+", "zh": "关键|按键|键盘|键值"}
"""Words that only contain the name of a term."""


@cache
def _pattern(lang: str) -> re.Pattern[str]:
    """Matches a term, as a group with its number, or what is skipped, without a group."""
    numbered = [(at, term) for at, term in enumerate(terms(lang)) if term.linked]
    longest_first = sorted(numbered, key=lambda each: -len(each[1].name))
    names = "|".join(f"(?P<t{at}>{_name(term.name, lang)})" for at, term in longest_first)
    words = rf"\b(?:{_LONGER[lang]}|(?:{names})\b)" if lang == "en" else f"{names}|{_LONGER[lang]}"
    return re.compile(f"{_SKIPPED}|{words}", re.IGNORECASE)


def _name(name: str, lang: str) -> str:
    """A pattern for the name of a term; in English also for its plural."""
    escaped = re.escape(name)
    if lang == "zh":
        return f"{escaped}s?" if name.isascii() else escaped
    return rf"{escaped[:-1]}(?:ys?|ies)" if name.endswith("y") else rf"{escaped}(?:e?s)?"


@lru_cache(maxsize=4096)
def _places(text: str, lang: str) -> tuple[tuple[int, int, Term], ...]:
    """Start, end and term of the first use of each term in a text, in the order of the text."""
    places: dict[str, tuple[int, int, Term]] = {}
    for match in _pattern(lang).finditer(text):
        if match.lastgroup is not None:
            term = terms(lang)[int(match.lastgroup[1:])]
            places.setdefault(term.name, (*match.span(), term))
    return tuple(places.values())


def linked(text: str, lang: str, shown: set[str]) -> str:
    """Markdown whose terms, unless already `shown`, link to the glossary, with the meaning as the
    link's title. Adds these terms to `shown`.

    Between Chinese characters, Markdown knows no "**[" or ")**": the link of a bold term encloses
    the asterisks, and a term at one end of longer bold text is not linked.
    """
    parts, end = [], 0
    for start, stop, term in _places(text, lang):
        bold = text[:start].count("**") % 2 == 1
        ends = text.startswith("**", start - 2), text.startswith("**", stop)
        if bold and all(ends):
            start, stop = start - 2, stop + 2
        elif bold and any(ends):
            continue
        if term.name not in shown:
            shown.add(term.name)
            link = f'[{text[start:stop]}](glossary?lang={lang} "{term.means}")'
            parts += [text[end:start], link]
            end = stop
    return "".join([*parts, text[end:]])
