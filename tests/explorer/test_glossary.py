"""The glossary, and the check of the wording that reads it."""

import re

import pytest

from explorer.glossary import linked, terms
from explorer.pages import PAGES
from explorer.text import LANGUAGES
from tests import wording


@pytest.mark.parametrize("lang", LANGUAGES)
def test_each_term_has_one_name_a_meaning_and_a_page(lang: str) -> None:
    names = [term.name for term in terms(lang)]
    assert len(names) == len(set(names)) > 30
    assert all(term.means.endswith((".", "。")) for term in terms(lang))
    assert {term.page for term in terms(lang)} <= {page.name for page in PAGES}


def test_terms_are_found_in_the_order_of_their_use() -> None:
    def found(text: str, lang: str) -> list[str]:
        return re.findall(r"\[(.*?)\]\(glossary", linked(text, lang, set()))

    words = "A causal mask hides keys; each head has queries."
    assert found(words, "en") == ["causal mask", "keys", "head", "queries"]
    assert found("归纳头关注键", "zh") == ["归纳头", "键"]
    assert found("A keyboard, a headline.", "en") == []


def test_the_wording_of_app_and_documents_passes() -> None:
    assert list(wording.findings()) == []


def test_the_check_finds_what_it_looks_for() -> None:
    assert list(wording.too_long("a.md", "x\n" * 3, 2)) == ["a.md: 3 lines, at most 2"]
    assert list(wording.releases("## 1.0\n" + "- x\n" * 21)) == [
        "docs/CHANGELOG.md: 1.0: 21 bullets"
    ]
    assert len(list(wording.long_lead("a.lead", "word " * 26))) == 1
    assert not list(wording.long_lead("a.lead", "{some value} " + "word " * 24))
    assert list(wording.banned("a", "Whoever asks")) == ["a: “whoever”; write “name the subject”"]
    assert len(list(wording.avoided("en", "a", "This brings back the answer."))) == 1
    assert len(list(wording.avoided("zh", "a", "带回答案"))) == 1


def test_the_first_use_of_a_term_links_to_its_meaning() -> None:
    shown = {"query"}
    words = "Queries, “head”, `key` and key/value heads: a **key** and a head, another key."
    assert linked(words, "en", shown) == (
        "Queries, “head”, `key` and key/value [heads](glossary?lang=en "
        '"One attention computation with its own queries. A layer runs its heads in '
        'parallel."): a [**key**](glossary?lang=en "The vector that a query is compared with; a '
        'column of the attention pattern.") and a head, another key.'
    )
    assert shown == {"query", "head", "key"}
    assert linked("关键：键值缓存", "zh", {"键值缓存"}) == "关键：键值缓存"
    assert not any(mark in term.means for term in (*terms("en"), *terms("zh")) for mark in '"\\')


def test_a_bold_term_stays_bold_between_chinese_characters() -> None:
    """Markdown takes the asterisks of "的**[" there as text; `controls` once showed them."""
    whole = linked("往上加的**残差流**，以及", "zh", set())
    assert whole.startswith("往上加的[**残差流**](glossary?")
    shown: set[str] = set()
    longer = "加的**残差流向量**"
    assert linked(longer, "zh", shown) == longer
    assert not shown, "the next text links it"
