"""The words: both languages whole and alike, every key used, every used key there."""

import ast
import math
import re
import string
from pathlib import Path
from pkgutil import resolve_name
from typing import get_args

import numpy as np
import pytest

from explorer import numbers
from explorer.figures.theme import DARK, LIGHT
from explorer.glossary import linked, terms
from explorer.glosses import gloss_of, glosses_in
from explorer.pages import PAGES
from explorer.text import LANGUAGES, examples, formula, in_units, t, word_key, words
from explorer.ui.sidebar.languages import SHORT
from models.training.home import asset
from tests import wording

ROOT = Path(__file__).resolve().parents[2]
FILES = [
    path
    for folder in ("explorer", "docs/website")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
CODE = "\n".join(path.read_text(encoding="utf-8") for path in FILES)
PAGES_CODE = "\n".join(
    path.read_text(encoding="utf-8") for path in FILES if {"pages", "exhibits"} & {*path.parts}
)
IN_FORMULAS = {
    word_key(word)
    for latex in (PAGES_CODE, asset("cases", "formulas.toml").read_text("utf-8"))
    for word in re.findall(r"\\text\{([^{}]*)\}", latex)
}
DATA = [
    *(ROOT / "explorer").rglob("*.js"),
    *(path for path in (ROOT / "assets").glob("*/*.toml") if path.parent.name != "text"),
]
WRITTEN = set(re.findall(r"[^\W_]+", CODE + "".join(path.read_text("utf-8") for path in DATA)))
"""All words that code and data write out, as parts of names too."""
SHOWN_ALONE = {
    "blockers": "explorer.exhibits.reasons:BLOCKERS",
    "card.kinds": "explorer.exhibits.card.facts:KINDS",
    "cases.absent": "explorer.analysis.cases.case:Needs",
    "cases.verdicts": "explorer.analysis.cases:VERDICTS",
    "certify.left_out": "explorer.analysis.mask_tests.examiner:LeftOut",
    "designs.positions": "models.positions:POSITIONS",
    "exercises.faults": "explorer.sandbox:Kind",
    "model.boxes": "explorer.exhibits.model.boxes:What",
    "notebook.causes": "explorer.notebook.diagnosis:Cause",
    "notebook.notes": "explorer.notebook.certify:Note",
    "refusals": "models.refusals:REFUSALS",
    "training.pairs_left": "explorer.training.pairs:REASONS",
    "training.state": "explorer.training.runs:RunState",
}
"""Families of words of which a page shows one at a time, and their names: a table, or a type. A
family that a page shows in full fails there, if a word is missing."""
IN_SPECS = {"count"}  # a placeholder that stands within the words of another one
NAMES_OF_SETTINGS = {"layer", "head"}  # the view's own; the rest come with the backend's problems


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_both_languages_have_the_same_keys_and_placeholders_and_words_of_their_own():
    first, second = (set(words(lang)) for lang in LANGUAGES)
    assert first == second
    for key, english in words("en").items():
        assert placeholders(english) == placeholders(words("zh")[key]), key
    for key in words("en"):
        assert words("en")[key], key
        assert words("zh")[key], key
        assert not re.search(r"[\u4e00-\u9fff]", words("en")[key]), key
        plain = re.sub(r"\{\w+\}|[A-Za-zα0-9 =().`*:·−→-]+", "", words("zh")[key])
        untranslated = key.startswith(("settings.top_", "alignment.methods.grow")) or key in (
            "place.quoted", "place.translated", "place.prompt", "place.of_head", "heads.and",
            "score.dot", "score.scaled",
        )  # fmt: skip
        assert plain or untranslated, key


def names_in(registry: str) -> set[str]:
    names = resolve_name(registry)
    return set(get_args(names) or names) - {""}


@pytest.mark.parametrize("family", SHOWN_ALONE)
def test_each_family_has_just_the_words_it_can_show(family):
    prefix = f"{family}."
    there = {
        key.removeprefix(prefix)
        for key in words("en")
        if key.startswith(prefix) and "." not in key.removeprefix(prefix)
    }
    assert there == names_in(SHOWN_ALONE[family])


def test_every_key_is_used_and_every_used_key_exists():
    called = set(re.findall(r"""\bt\(\s*["']([a-z_.]+)["']""", CODE))
    assert called
    assert all(any(f"{key}.".startswith(f"{name}.") for key in words("en")) for name in called)
    put_together = r"""\b(?:_?t|app_text|has|axes)\(\s*(?:f["']|["'][\w.]*["'] \+|[\w.]+ \+).*"""
    assert re.findall(put_together, CODE) == [], "written out, or as an entry after its table"
    named = set(re.findall(r'checked_number\(\s*"(\w+)"', CODE))
    assert named
    have = {key.removeprefix("settings.") for key in words("en") if key.startswith("settings.")}
    assert named | NAMES_OF_SETTINGS <= have
    # By a name that code or data write out, or put together.
    own = ("settings.", "filling.", "silent.", "pictured.", "translated.")
    assert {f"translated.{code}" for code in SHORT.values()} <= set(words("en"))
    made = {f"{family}.{name}" for family, path in SHOWN_ALONE.items() for name in names_in(path)}
    last = {key: key.rpartition(".")[2] for key in {*words("en")} - made if not key.startswith(own)}
    unused = {key for key, name in last.items() if set(re.findall(r"[^\W_]+", name)) - WRITTEN}
    assert unused == set()


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("kind", ["filling", "silent", "pictured"])
def test_words_of_other_models_replace_words_of_the_same_values(lang, kind):
    replaced = {
        key: key.removeprefix(f"{kind}.") for key in words(lang) if key.startswith(f"{kind}.")
    }
    assert replaced
    for key, usual in replaced.items():
        assert placeholders(words(lang)[key]) == placeholders(words(lang)[usual]), key


def test_words_of_formulas_are_the_languages_one_is_singular_and_large_ones_have_units():
    line = r"\text{feed-forward} = \mathrm{SwiGLU}\;\text{or}\;\mathrm{ReLU}"
    assert formula(line, lang="en") == line
    assert (
        formula(line, lang="zh") == r"\text{前馈网络} = \mathrm{SwiGLU}\;\text{或}\;\mathrm{ReLU}"
    )
    with pytest.raises(KeyError, match="no_such_word"):
        formula(r"\text{no such word}", lang="en")
    assert IN_FORMULAS
    for word in IN_FORMULAS:
        assert not re.search(r"[A-Za-z]{2}", words("zh")[f"formulas.{word}"]), word
    upright = set(re.findall(r"\\mathrm\{+(\w+)", PAGES_CODE))
    assert upright & {"softmax"}
    assert not upright & IN_FORMULAS, "what has a translation is written as text"
    many = r"(tokens|steps|passes|sentences|PADs|cells|runs|labels|keys|layers)"
    for key, text in words("en").items():
        said = t(key, lang="en", **dict.fromkeys(placeholders(text) | IN_SPECS, 1))
        assert not re.search(rf"\b1\**( (?!of )[a-z/]+)? {many}\b", said), key
    assert t("decoding.result_unfinished", lang="en", count=1, logprob=0).startswith("1 step ·")
    assert t("decoding.result_unfinished", lang="en", count="2", logprob=0).startswith("2 steps ·")
    assert in_units(7_600_000, lang="en") == "7.6 million"
    assert in_units(7_600_000, lang="zh") == "760 万"
    assert in_units(135_000_000, lang="en") == "135 million"
    assert in_units(135_000_000, lang="zh") == "1.4 亿"
    assert in_units(12_345, lang="zh") == "1.2 万"
    assert in_units(12_345, lang="en") == "12,345"
    shown = numbers.percents(np.array([[0.0, 0.0004, 0.123], [0.75, 1.0, 0.0006]]))
    assert shown.tolist() == [["0.0 %", "< 0.1 %", "12.3 %"], ["75.0 %", "100.0 %", "0.1 %"]]


def test_the_words_of_a_problem_use_values_that_it_has():
    """`explorer.uploads` adds two to what its processes raise."""
    said = {key.removeprefix("problems."): text for key, text in words("en").items()}
    raised = set()
    for file in FILES:
        added = {"name", "limit"} if "sandbox" in file.parts else set()
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            match node:
                case ast.Call(ast.Name("InputProblem"), [ast.Constant(key)]):
                    names = {keyword.arg for keyword in node.keywords}
                    assert placeholders(said[key]) <= names | added, key
                    raised.add(key)
    assert len(raised) > 40
    keys = {key for key in words("en") if key.startswith("problems.")}
    assert not {key for key in keys if f'"{key.removeprefix("problems.")}"' not in CODE}


def test_a_missing_key_raises_and_examples_come_for_any_model():
    with pytest.raises(KeyError, match="no_such_key"):
        t("no_such_key", lang="en")
    with pytest.raises(KeyError, match="text"):
        t("shell.last_good", lang="en")
    with pytest.raises(KeyError, match="xx"):
        t("shell.working", lang="xx")
    for model in ("en-zh", "copy", "../../etc/passwd"):
        groups = examples(model)
        assert all(groups.values())
        assert all(sentence.strip() == sentence for group in groups.values() for sentence in group)
    for model in ("masked-en", "my-bert", "en-bert"):
        sentences = [each for group in examples(model, like="masked-en").values() for each in group]
        assert all("[MASK]" in sentence for sentence in sentences)
    assert examples("en-bert") == examples("en-zh")


def test_the_theme_of_the_app_is_the_palette():
    config = (ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8")
    for name, palette in (("light", LIGHT), ("dark", DARK)):
        section = config.split(f"[theme.{name}]")[1].split("[theme.")[0]
        for option, colour in (
            ("primaryColor", palette.accent),
            ("backgroundColor", palette.paper),
            ("textColor", palette.ink),
            ("borderColor", palette.line),
            ("greenTextColor", palette.source),
            ("greenBackgroundColor", palette.source_soft),
            ("orangeTextColor", palette.target),
            ("orangeBackgroundColor", palette.target_soft),
        ):
            assert f'{option} = "{colour}"' in section


@pytest.mark.parametrize("lang", LANGUAGES)
def test_each_term_has_one_name_a_meaning_and_a_page(lang):
    names = [term.name for term in terms(lang)]
    assert len(names) == len(set(names)) > 30
    assert all(term.means.endswith((".", "。")) for term in terms(lang))
    assert {term.page for term in terms(lang)} <= {page.name for page in PAGES}


def test_terms_link_to_their_meaning_at_first_use_in_order_and_bold():
    def found(text: str, lang: str) -> list[str]:
        return re.findall(r"\[(.*?)\]\(glossary", linked(text, lang, set()))

    assert found("A causal mask hides keys.", "en") == ["causal mask", "keys"]
    assert found("归纳头关注键", "zh") == ["归纳头", "键"]
    assert found("A keyboard, a headline.", "en") == []
    shown = {"query"}
    words = "Queries, “head”, `key` and key/value heads: a **key** and a head, another key."
    text = linked(words, "en", shown)
    assert re.findall(r"\[(.*?)\]\(glossary\?lang=en \"", text) == ["heads", "**key**"]
    assert re.sub(r"\[(.*?)\]\(.*?\"\)", r"\1", text) == words, "nothing else changes"
    assert shown == {"query", "head", "key"}
    assert linked("关键：键值缓存", "zh", {"键值缓存"}) == "关键：键值缓存"
    assert not any(mark in term.means for term in (*terms("en"), *terms("zh")) for mark in '"\\')
    # Markdown takes the asterisks of "的**[" there as text; `controls` once showed them.
    whole = linked("往上加的**残差流**，以及", "zh", set())
    assert whole.startswith("往上加的[**残差流**](glossary?")
    shown: set[str] = set()
    longer = "加的**残差流向量**"
    assert linked(longer, "zh", shown) == longer
    assert not shown, "the next text links it"


def test_the_wording_of_app_and_documents_passes():
    assert list(wording.findings()) == []


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (numbers.fixed(0.254), "0.25"),
        (numbers.fixed(math.nan), "–"),
        (numbers.signed(-0.2549, 3), "−0.255"),
        (numbers.fixed(-1e-7), "0.00"),
        (numbers.signed(-1e-7, 3), "+0.000"),
        (numbers.whole_percent(-2e-7), "0 %"),
        (numbers.percent(-2e-7), "0.0 %"),
        (numbers.digits(-0.0012345), "−0.00123"),
        (numbers.digits(0.000012345), "1.23e−05"),
        (numbers.number(1.13e-15), "1.1 · 10⁻¹⁵"),
        (numbers.number(0.0), "0"),
        (numbers.number(0.256), "0.26"),
        (numbers.number(math.inf), "NaN"),
        (numbers.tabled(-12345.0), "−12,345"),
        (numbers.tabled(0.12345), "0.123"),
        (numbers.tabled(math.nan), "–"),
        (numbers.percent(0.71), "71 %"),
        (numbers.percent(0.0949), "9.5 %"),
        (numbers.whole_percent(0.004), "0 %"),
        (numbers.share(1e-6), "0 %"),
        (numbers.share(0.002), "0.2 %"),
        (numbers.compact(63_082_496), "63.1 M"),
        (numbers.compact(0.12345), "0.123"),
        (numbers.compact(math.nan), "–"),
        (numbers.byte_size(1_300_000_000), "1.3 GB"),
        (numbers.byte_size(42_000_000), "42.0 MB"),
        (numbers.byte_size(7_500), "7.5 kB"),
        (numbers.byte_size(12), "12 B"),
    ],
)
def test_a_number_reads_as_it_should(shown, text):
    assert shown == text


def test_a_gloss_is_for_readers_of_the_other_language_only():
    assert gloss_of("猫", "en") == "cat"
    assert gloss_of("Cat", "zh") == "猫"
    assert (gloss_of("猫", "zh"), gloss_of("cat", "en")) == ("", "")
    assert gloss_of("。", "en") == gloss_of("·s", "zh") == ""
    labels = {"tokens": [["猫", "</s>"], ["。"]], "cells": [[0.5, 1]], "words": {"猫": "猫"}}
    assert glosses_in(labels) == {"猫": "cat"}
    assert glosses_in({"words": {"cat": "cat"}}) == {}
