"""Every part of every page for every kind of model, in both languages, with what explains it."""

import re

import pytest
from designs import VISITS
from foreign import OWN
from shown import WHOLE, everything, has_picture

from explorer.pages import LESSONS, PAGES
from explorer.text import LANGUAGES, t
from models.foreign.placing import DTYPE_VARIABLE

SOURCES = {
    "start": "def flow(",
    "tour": "def look(",
    "heads": "def attend(",
    "masks": "def causal_mask(",
    "positions": "def moved(",
    "attribution": "def why(",
    "patching": "def patch_map(",
    "blocks": "def layer_norm_forward(",
    "bugs": "demonstrate",
    "model": "def count(",
    "claims": "def variance(",
    "score": "def attend(",
    "mask_tests": "def future_leak(",
    "decoding": "class Greedy(",
    "alignment": "def read(",
    "circuits": "def behaviour(",
    "atlas": "def name_of(",
    "exercises": "def grade(",
    "training": "def backward(",
}
"""What the code of each page shows, of its first part."""
OWN_TESTS = {"claims": "claim", "bugs": "case", "tour": "lesson"}
"""What each of these pages has many of, drawn by its own tests."""
PARTS = [
    visit
    for visits in VISITS.values()
    for visit in visits
    if OWN_TESTS.get(visit[0]) not in visit[1]
]
FIRST = {page: asked for page, asked in reversed(PARTS)}
FILL_IN = "She reads a [MASK] every morning."
sweep = pytest.mark.sweep


def turns(models, *more):
    """Each part with one of these models in turn; with the others only in the sweep."""
    return [
        pytest.param(page, asked, model, marks=() if at % len(models) == turn else sweep)
        for at, (page, asked) in enumerate([*PARTS, *more])
        for turn, model in enumerate(models)
    ]


def named(value):
    return "-".join(map(str, value.values())) if isinstance(value, dict) else None


@pytest.mark.parametrize("turn", range(2), ids=["en-zh", "writer"])
@pytest.mark.parametrize("number", range(len(PARTS)), ids=[f"{p}-{named(a)}" for p, a in PARTS])
def test_each_part_is_drawn(open_page, number, turn):
    """Its heading, what it is about, a picture, no message; once its formula, code and numbers."""
    page, asked = PARTS[number]
    lang, other = LANGUAGES if (number + turn) % 2 else reversed(LANGUAGES)
    at = open_page(page, lang=lang, model=("en-zh", "writer")[turn], **WHOLE.get(page, {}) | asked)
    assert not at.warning
    assert [title.value for title in at.title] == [t(f"{page}.title", lang=lang)]
    assert t(f"{page}.lead", lang=lang) in everything(at)
    assert t(f"{page}.lead", lang=other) not in everything(at)
    if asked == FIRST[page]:
        assert has_picture(at)
    if turn == 0:
        check_explained(at, page, lang, asked == FIRST[page])


COMMANDS = re.compile(
    "Big|Delta|Leftarrow|Phi|Rightarrow|Vert|alpha|approx|arg|bar|begin|beta|big|cap|cdot"
    "|cdots|circ|cos|cup|delta|dots|ell|end|epsilon|eta|exp|frac|gamma|ge|in|infty|lVert"
    "|lambda|le|left|leftarrow|ln|log|lvert|mathbb|mathbf|mathcal|mathrm|max|mid|min|mu|nabla"
    "|ne|neg|odot|overline|partial|phi|pi|pm|prod|propto|qquad|quad|rVert|right|rvert|sigma"
    "|sim|sin|sqrt|subseteq|sum|tanh|text|tfrac|theta|times|to|top|varepsilon|varnothing"
)
"""The LaTeX commands that formulas may have."""


def check_explained(at, page, lang, is_first):
    """Formula, code and numbers are there when asked for."""
    more = f"{page}.more"
    if more not in [each.key for each in at.segmented_control]:
        assert not is_first
        return
    latex, shown, tables = (len(kind) for kind in (at.latex, at.code, at.dataframe))
    at.segmented_control(key=more).set_value("formula").run()
    assert len(at.latex) > latex
    formulas = "\n".join(str(each.value) for each in at.latex)
    assert all(map(COMMANDS.fullmatch, re.findall(r"\\([A-Za-z]+)", formulas))), formulas
    words = re.findall(r"\\text\{([^{}]*)\}", formulas)
    assert not [word for word in words if lang == "zh" and re.search("[A-Za-z]", word)]
    at.segmented_control(key=more).set_value("code").run()
    assert len(at.code) > shown
    if is_first:
        assert any(SOURCES[page] in each.value for each in at.code[shown:])
    at.segmented_control(key=more).set_value("numbers").run()
    assert len(at.dataframe) > tables
    assert len(at.dataframe[-1].value) > is_first


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("page", [page.name for page in PAGES if page not in LESSONS])
def test_a_page_that_teaches_nothing_has_its_name_as_heading(open_page, page, lang):
    at = open_page(page, lang=lang)
    assert [title.value for title in at.title] == [t(f"{page}.title", lang=lang)]


ODD = [
    ("heads", {"model": "writer", "text": "I"}),
    ("circuits", {"model": "writer", "text": "a"}),
    ("start", {"model": "writer", "text": "I like you. " * 12}),
    ("positions", {"text": "kind"}),
    ("positions", {"text": "a"}),
    ("positions", {"part": "head", "change": "swap-700-2", "row": "900", "key": "900"}),
    ("positions", {"part": "rotary", "key": "900"}),
    ("patching", {"model": "writer", "part": "paths", "receiver": "decoder-9-9"}),
]
"""Texts too short for what a page asks, and places beyond the sentence."""


@pytest.mark.parametrize(("page", "asked"), ODD, ids=named)
def test_what_this_sentence_does_not_have_is_no_error(open_page, page, asked):
    open_page(page, **asked)


OTHERS = [
    ("card", {}),
    ("mask_tests", {"tested": "1"}),
    ("masks", {"edits": "pad_keys-off"}),
    ("heads", {"measure": "needed"}),
    ("heads", {"edits": "head-blocks.0.attn-1"}),
]


@pytest.mark.parametrize(
    ("page", "asked", "model"),
    [
        *((*visit, "reader") for visit in [*PARTS, *OTHERS]),
        *((page, asked, "headless") for page, asked in [*FIRST.items(), OTHERS[0]]),
    ],
    ids=named,
)
def test_an_encoder_is_refused_nothing_as_a_part_opens(open_page, page, asked, model):
    """One that fills in masked words, and one without a head."""
    at = open_page(page, model=model, text=FILL_IN, **asked)
    assert [each.value for each in at.error] == []


@pytest.mark.parametrize(("page", "asked", "model"), turns(OWN, OTHERS[0]), ids=named)
def test_a_model_of_another_library_opens_each_part(open_page, add_own, page, asked, model):
    text = "We love the [MASK], 我 too." if model == "bert" else "We love you, 我 too."
    at = open_page(page, model=f"my-{model}", text=text, **asked)
    assert [each.value for each in at.error] == []


@pytest.mark.parametrize(
    "page",
    [pytest.param(each, marks=() if each in ("alignment", "atlas") else sweep) for each in FIRST],
)
def test_a_translator_without_an_output_opens_each_page(open_page, add_own, page):
    """Its decoder reads the text itself, since there is no translation."""
    at = open_page(page, model="my-marian-headless", text="We went to the park.")
    assert [each.value for each in at.error] == []


@pytest.mark.parametrize("page", ["heads", "score", "masks", "mask_tests", "blocks", "model"])
def test_a_page_opens_in_half_precision(open_page, add_own, page, monkeypatch):
    """No page reads a weight or a tensor without asking for it in float32."""
    monkeypatch.setenv(DTYPE_VARIABLE, "bfloat16")
    at = open_page(page, model="my-marian", text="We went to the park, 我 too.")
    assert [each.value for each in at.error] == []
