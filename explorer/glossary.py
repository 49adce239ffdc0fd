"""The terms of the app: one name per concept in each language (assets/glossary.toml)."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache

from models.training.home import asset


@dataclass(frozen=True)
class Term:
    """A term in one language: its name, its meaning in one or two sentences, and the page that
    shows it; `avoid` are other names for it, which the app's texts must not use.
    """

    name: str
    means: str
    page: str
    avoid: tuple[str, ...]


@cache
def terms(lang: str) -> tuple[Term, ...]:
    """All terms, in file order. Raises KeyError for a language that the file lacks."""
    found = tomllib.loads(asset("glossary.toml").read_text(encoding="utf-8"))["term"]
    return tuple(
        Term(each[lang], each[f"means_{lang}"], each["page"], tuple(each.get(f"avoid_{lang}", ())))
        for each in found
    )


def terms_in(text: str, lang: str) -> tuple[Term, ...]:
    """The terms that occur in a text, in the order of their first use."""
    places = []
    for term in terms(lang):
        name = re.escape(term.name)
        plural = rf"(?:{name}s?|{name[:-1]}ies)" if name.endswith("y") else rf"{name}(?:e?s)?"
        pattern = name if lang == "zh" else rf"\b{plural}\b"
        if found := re.search(pattern, text, re.IGNORECASE):
            places.append((found.start(), term))
    return tuple(term for _, term in sorted(places, key=lambda place: place[0]))
