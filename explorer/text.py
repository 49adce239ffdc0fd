"""All user-visible text, from `assets/text/<language>.toml`, and the example sentences.

A key is a path of tables, written in the code as in the file: `t("heads.title", lang="en")`. If a
table has an entry for each name of a registry, the name follows the table: the title of a case, in
`[cases.ID]`, is `t("cases", case.id, "title", lang="en")`. Text may contain placeholders, filled by
keyword: `t("place.of_head", lang="zh", layer=2, head=5)`. A placeholder with two words selects one
of them by a number: `{count} {count:step|steps}` becomes "1 step" or "2 steps".
"""

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from explorer.guests import guests
from models import refusals
from models.refusals import PluralFormatter, Refusal
from models.training.home import asset

LANGUAGES: tuple[str, ...] = ("en", "zh")
TRAINED = re.compile(r"~(?:[A-Za-z0-9_-]{16})?\Z")
"""The suffix that `ui.trained` adds to the name of a model trained in the app."""
EARLIER = {
    "atlas": "circuits?part=heads",
    "blocks": "model?part=norms",
    "bugs": "cases?part=bugs",
    "claims": "cases?part=claims",
    "cell": "score",
    "certificate": "cases?part=tests",
    "clinic": "cases?part=bugs",
    "decoding?part=pass": "masks?part=pass",
    "mask_tests": "cases?part=tests",
    "machine": "model",
    "causes": "attribution",
    "path": "tour",
    "workshop": "exercises",
}
"""Earlier names of pages, and one part that moved, which old links and notebooks still use, and the
present ones, with the choices that open the same view."""
MOST_SAID = 240
"""Maximum characters of one value of a refusal: enough for a command to copy."""
_IN_FORMULA = re.compile(r"\\text\{([^{}]*)\}")


_FILLED = PluralFormatter()


def _flatten(table: dict[str, Any], prefix: str = "") -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = str(value)
    return flat


@cache
def words(lang: str) -> dict[str, str]:
    """All text of one language, by key. Raises KeyError for an unknown language."""
    if lang not in LANGUAGES:
        raise KeyError(f"no language {lang!r}; there are {', '.join(LANGUAGES)}")
    texts: dict[str, str] = {}
    for path in (
        *(guest.folder / f"{lang}.toml" for guest in guests()),
        asset("text", f"{lang}.toml"),
    ):
        texts |= _flatten(tomllib.loads(path.read_text("utf-8")))
    return texts | {f"refusals.{key}": word for key, word in refusals.words(lang).items()}


@cache
def _tables(lang: str) -> dict[str, dict[str, str]]:
    """All text of one language by table and last name."""
    tables: dict[str, dict[str, str]] = {}
    for key, value in words(lang).items():
        table, _, name = key.rpartition(".")
        tables.setdefault(table, {})[name] = value
    return tables


def t(key: str, /, *names: str, lang: str, **values: object) -> str:
    """The text at `key`, or of its entry at `names`, with its placeholders filled.

    Raises KeyError for a missing key and for a placeholder without a value: a gap in the text is
    a bug, which a test must find before a user does.
    """
    texts, key = words(lang), ".".join((key, *names))
    if key not in texts:
        raise KeyError(f"assets/text/{lang}.toml has no {key!r}")
    return _FILLED.vformat(texts[key], (), values)


LARGE_UNITS = {"en": (1e9, 1e6), "zh": (1e8, 1e4)}
"""The factors of the two words at `units`: billion and million; 亿 and 万."""


def in_units(count: int, /, *, lang: str) -> str:
    """A large count in words: 7,600,000 as "7.6 million" or "760 万"."""
    large, usual = LARGE_UNITS[lang]
    if count < usual:
        return f"{count:,}"
    unit, scale = ("large", large) if count >= large else ("usual", usual)
    value = count / scale
    return t("units", unit, lang=lang, value=f"{value:,.0f}" if value >= 100 else f"{value:,.1f}")


def problem(key: str, values: Mapping[str, object], /, *, lang: str) -> str:
    """The text of an InputProblem."""
    fillings = {
        name: refusal(value, lang=lang) if isinstance(value, Refusal) else value
        for name, value in values.items()
    }
    return t("problems", key, lang=lang, **fillings)


def refusal(refused: Refusal, /, *, lang: str) -> str:
    """Why the library refuses a folder, a file or a config, with the names and numbers in it.

    Very long strings from untrusted files are shortened, and not escaped.
    """
    values = {
        name: refusal(value, lang=lang)
        if isinstance(value, Refusal)
        else shorten(value, MOST_SAID)
        if isinstance(value, str)
        else value
        for name, value in refused.values.items()
    }
    return t("refusals", refused.key, lang=lang, **values)


def shorten(text: str, limit: int = 60) -> str:
    """The beginning of a long text, with "…" where it was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def formula(latex: str, /, *, lang: str) -> str:
    """LaTeX with its words in one language.

    Every `\\text{…}` contains a key of the table `formulas`, in English: `\\text{feed-forward}`
    becomes `\\text{前馈网络}`, the text at `formulas.feed_forward`. Names that no language
    translates (softmax, d_model) are in `\\mathrm`. Raises KeyError for an unknown word.
    """
    return _IN_FORMULA.sub(
        lambda found: rf"\text{{{t('formulas', word_key(found[1]), lang=lang)}}}", latex
    )


def word_key(word: str) -> str:
    """The key of a word in a formula: "feed-forward" → "feed_forward"."""
    return re.sub(r"\W+", "_", word).strip("_").lower()


def has(key: str, /, *names: str, lang: str) -> bool:
    """Whether there is text at `key`, or for its entry at `names`."""
    return ".".join((key, *names)) in words(lang)


def family(table: str, *own: str, lang: str) -> dict[str, str]:
    """All text directly under a table, by last name: the form that figures and components take.

    What is in the same table under one of `own` replaces it, the last one first. Raises KeyError
    for a table without text.
    """
    texts = dict(_tables(lang).get(table, {}))
    if not texts:
        raise KeyError(f"assets/text/{lang}.toml has no words under {table!r}")
    for kind in own:
        texts |= _tables(lang).get(f"{kind}.{table}", {})
    return texts


def model_name(name: str, *, lang: str) -> str:
    """The display name of a shipped model; a user's own model keeps its folder or file name."""
    return _tables(lang)["models"].get(name, TRAINED.sub("", name))


def in_order(names: Iterable[str], *, lang: str) -> tuple[str, ...]:
    """Models in the order of their display names (the table `models`), then the others.

    So each language has its own order: first the translator for its speakers.
    """
    every, order = {*names}, _tables(lang)["models"]
    known = sorted(every & order.keys(), key=[*order].index)
    return (*known, *sorted(every - order.keys()))


def script(text: str) -> str | None:
    """The likely language of a text: "zh" if Chinese characters outnumber the words in Latin
    letters, "en" if they do not, None without either of them."""
    chinese = len(re.findall(r"[\u3400-\u9fff]", text))
    latin = len(re.findall(r"[A-Za-z]+", text))
    if not chinese and not latin:
        return None
    return "zh" if chinese > latin else "en"


@cache
def telling(lesson: str, model: str) -> str | None:
    """A sentence that shows a lesson with this model, from `assets/lessons/telling.toml`.

    None if there is none: for a user's own models, and for models without that lesson.
    """
    with asset("lessons", "telling.toml").open("rb") as file:
        sentence: str | None = tomllib.load(file)[lesson].get(model)
    return sentence


@cache
def exchanges() -> dict[str, tuple[tuple[str, ...], ...]]:
    """Words that may replace each other, by language, from `assets/lessons/exchanges.toml`."""
    with asset("lessons", "exchanges.toml").open("rb") as file:
        return {lang: tuple(map(tuple, groups)) for lang, groups in tomllib.load(file).items()}


@cache
def examples(model: str, *, like: str = "") -> dict[str, tuple[str, ...]]:
    """Example sentences for a model, grouped by what they show: {group: sentences}.

    They come from `assets/sentences/<model>.toml`, else from the file of the model's source
    language or family (the part of its name before the first "-"), else from `en.toml`; or from
    those of the model `like`. A training snapshot ("reverse@40") uses
    the sentences of its model. The text of a group is at `sentences.<group>`. The first sentence is
    shown on a first visit.
    """
    name = model.partition("@")[0]
    others = (like,) if like else (name.split("-")[0], "en")
    for stem in (name, *others):
        path = asset("sentences", f"{Path(stem).name}.toml")
        if os.path.isfile(path):  # `Path.is_file` raises if a name is too long
            with path.open("rb") as file:
                return {name: tuple(group) for name, group in tomllib.load(file).items()}
    raise FileNotFoundError(f"no example sentences in {asset('sentences')}")
