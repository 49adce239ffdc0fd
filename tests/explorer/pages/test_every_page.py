"""Every part of every page for every kind of model, in both languages, with what explains it."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import pytest
from cores import every
from designs import VISITS, Visit
from foreign import OWN
from new_kinds import KINDS, registered
from shown import WHOLE, everything, formulas, has_picture, payload, with_titles
from streamlit import file_util
from torch import nn

from explorer import library
from explorer.analysis.cases import BUGS, CLAIMS
from explorer.analysis.cases.case import inputs
from explorer.pages import PAGES
from explorer.text import LANGUAGES, has, t
from models import config
from models.blocks import Block
from models.foreign.placing import DTYPE_VARIABLE
from models.rows import Rows, Tokens, Valid
from models.transformer import FAMILIES, DecoderOnly, Model, Stack

OWN_TESTS = {"cases": "case", "tour": "lesson"}
"""What each of these pages has many of, drawn by its own tests."""
PARTS = [
    visit
    for visits in VISITS.values()
    for visit in visits
    if OWN_TESTS.get(visit[0]) not in visit[1] and "claim" not in visit[1]
]
FIRST = {page: asked for page, asked in reversed(PARTS)}
FILL_IN = "She reads a [MASK] every morning."
sweep = pytest.mark.sweep


def in_turn(visits, *models):
    """Each visit with one of these models in turn; with the others only in the sweep."""
    return [
        pytest.param(page, asked, model, marks=() if at % len(models) == turn else sweep)
        for at, (page, asked) in enumerate(visits)
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
    model = ("en-zh", "writer")[turn]
    at = open_page(page, lang=lang, model=model, **WHOLE.get(page, {}) | asked)
    assert not at.warning
    assert [title.value for title in at.title] == [t(f"{page}.title", lang=lang)]
    assert t(f"{page}.lead", lang=lang) in everything(at)
    assert t(f"{page}.lead", lang=other) not in everything(at)
    if asked == FIRST[page]:
        assert has_picture(at) == (page != "alignment" or model == "en-zh")
    if turn == 0:
        check_explained(at, page, lang, asked == FIRST[page])


KATEX = next((Path(file_util.get_static_dir()) / "static" / "js").glob("katex.*.js"))
COMMANDS = set(re.findall(r"\\\\([A-Za-z]+)", KATEX.read_text(encoding="utf-8")))
"""Those of LaTeX that draw something in Streamlit."""


def check_explained(at, page, lang, is_first):
    """Formula, code and numbers are there when asked for."""
    more = f"{page}.more"
    if more not in [each.key for each in at.segmented_control]:
        assert not is_first
        return
    latex, shown, tables = (len(kind) for kind in (at.latex, at.code, at.dataframe))
    at.segmented_control(key=more).set_value("more").run()
    assert len(at.latex) > latex
    assert set(re.findall(r"\\([A-Za-z]+)", formulas(at))) <= COMMANDS
    words = re.findall(r"\\text\{([^{}]*)\}", formulas(at))
    assert not [word for word in words if lang == "zh" and re.search("[A-Za-z]", word)]
    assert len(at.code) > shown
    assert len(at.dataframe) > tables
    assert max(len(each.value) for each in at.dataframe) > is_first


ODD = [
    ("heads", {"text": "I"}, "writer"),
    ("circuits", {"text": "a"}, "writer"),
    ("start", {"text": "I like you. " * 12}, "writer"),
    ("score", {"key": "900", "goal": "900000", "stage": "5"}, "en-zh"),
    ("positions", {"text": "kind"}, "en-zh"),
    ("positions", {"text": "a"}, "en-zh"),
    ("positions", {"part": "head", "change": "swap-700-2", "row": "900", "key": "900"}, "en-zh"),
    ("positions", {"part": "rotary", "key": "900"}, "en-zh"),
    ("patching", {"cell": "decoder-9-9"}, "writer"),
    ("heads", {"with": "x" * 300}, "en-zh"),
    ("alignment", {"back": "x" * 300}, "en-zh"),
    ("model", {"sizes": "x" * 300}, "en-zh"),
    ("attribution", {"part": "writes", "word": "999999", "rival": "99999", "taken": "99"}, "en-zh"),
]
"""Texts too short for what a page asks, places beyond the sentence, names longer than a file's."""
OTHERS = [
    ("card", {}),
    ("mask_tests", {"tested": "1"}),
    ("masks", {"edits": "pad_keys-off"}),
    ("heads", {"measure": "needed"}),
    ("heads", {"edits": "head-blocks.0.attn-1"}),
]
QUICK = [
    ("cases", {"part": "claims", "claim": claim.id, "guess": "true"})
    for claim in CLAIMS
    if inputs(claim.measure, True, True)
]
TEXTS = {"reader": FILL_IN, "headless": FILL_IN, "my-bert": "We love the [MASK], 我 too."}


@pytest.mark.parametrize(
    ("page", "asked", "model"),
    [
        *ODD,
        *in_turn([*PARTS, *OTHERS], "reader"),
        *in_turn([*FIRST.items(), OTHERS[0]], "headless"),
        *in_turn(QUICK, "reader", "headless"),
        *in_turn([*PARTS, OTHERS[0]], *(f"my-{name}" for name in OWN)),
        *((page, {}, "my-marian-headless") for page in ("alignment", "atlas")),
        *(pytest.param(page, {}, "my-marian-headless", marks=sweep) for page in FIRST),
    ],
    ids=named,
)
def test_it_opens_without_an_error(open_page, request, page, asked, model):
    """Also with encoders, one of them without a head, and with models of other libraries.

    A translator without an output reads the text itself in its decoder: nothing is written.
    """
    if model.startswith("my-"):
        request.getfixturevalue("add_own")
        asked = {"text": TEXTS.get(model, "We love you, 我 too."), **asked}
    elif model in TEXTS:
        asked = {"text": TEXTS[model], **asked}
    at = open_page(page, model=model, **asked)
    assert not at.error


@pytest.mark.parametrize("page", ["heads", "score", "masks", "cases", "blocks", "model"])
def test_a_page_opens_in_half_precision(open_page, add_own, page, monkeypatch):
    """No page reads a weight or a tensor without asking for it in float32."""
    monkeypatch.setenv(DTYPE_VARIABLE, "bfloat16")
    at = open_page(page, model="my-marian", text="We went to the park, 我 too.")
    assert not at.error


# Encoders alone, with a head and without: what they are asked, every bug and quick claim.


def test_without_a_mask_there_is_nothing_to_decode_and_the_page_says_so(open_page):
    at = open_page("decoding", model="reader", text="She reads a book.")
    shown = [str(each.value) for each in (*at.error, *at.warning)]
    assert any(t("problems.nothing_to_fill", lang="en") in each for each in shown), shown
    at = open_page("decoding", model="headless", text="She reads a book.")
    assert t("needs.output", lang="en") in [each.value for each in at.info]
    assert not [each for each in at.segmented_control if each.key.startswith("decoding.")]


def test_without_an_output_no_head_is_measured_by_its_effect_on_it(open_page):
    at = open_page("heads", model="headless", text=FILL_IN, measure="needed")
    assert "matter" not in payload(at, "heads.view")[0]["bar"]
    assert t("heads.measures.needed", lang="en") not in at.selectbox(key="heads.measure").options
    assert t("heads.matter.title", lang="en") not in with_titles(at)


@pytest.mark.parametrize("page", ["masks", "decoding", "attribution", "circuits", "cases"])
def test_a_model_without_an_output_is_not_said_to_write(open_page, page):
    words = everything(open_page(page, model="headless"))
    for part in ("lead", "try"):
        own = f"silent.{page}.{part}"
        if has(own, lang="en"):
            assert t(own, lang="en") in words
            assert t(f"{page}.{part}", lang="en") not in words
    false = r"before it generates|generates \*\*one token|it can predict the second half"
    assert not re.search(false, words)


@pytest.mark.parametrize(("bug", "model"), every(3, product(BUGS, ("reader", "headless"))))
def test_every_pitfall_opens_and_a_causal_bug_is_none_of_a_model_that_reads_both_ways(
    open_page, bug, model
):
    words = everything(open_page("cases", model=model, text=FILL_IN, case=bug.id))
    for key in ("cases.writes", "cases.writes_nothing"):  # an encoder writes nothing
        assert t(key, lang="en") not in words
    if bug.needs == "causal":
        assert t("cases.absent.causal", lang="en") in words
        assert t("cases.fixed", lang="en") in words
        assert t("cases.unchanged", lang="en") not in words


# A further family and further kinds of positions, norms and networks, as ARCHITECTURE.md says.
class Tower(Model):
    """A language model whose only stack has a name of its own, which ends every text it reads."""

    reads = ("tgt",)
    surrounded: ClassVar = {"tgt": (True, True)}

    def __init__(self, config: config.ModelConfig) -> None:
        super().__init__()
        embed = nn.Embedding(config.vocab_size, config.d_model)
        self.tower = Stack(config, Block, config.n_layers, embed, causal=True)
        self.complete(config)

    @property
    def last_stack(self) -> Stack:
        return self.tower

    def begin(self, given: Tokens, valid: Valid | None = None) -> Rows:
        return DecoderOnly.begin(self, given, valid)


ADDED: dict[str, dict[str, Any]] = {
    "tower": {"family": "tower", "positions": "kerple", "norm": "maxnorm", "ffn": "relu2"},
    "en-zh": {"positions": "spiral", "ffn": "reglu", "apart": True},
    "ramp": {"family": "encoder-only", "positions": "ramp", "norm": "maxnorm", "ffn": "reglu"},
}
PRE = {"norm_placement": "pre", "final_norm": True}
ADDED_VISITS: list[Visit] = [
    *((page.name, {}) for page in PAGES),
    *(each for name in ("positions", "score", "model") for each in VISITS[name]),
]


@pytest.fixture(scope="module")
def shelf_of_added(save_small, tmp_path_factory) -> Iterator[Path]:
    shelf = tmp_path_factory.mktemp("added")
    with registered(*KINDS), pytest.MonkeyPatch.context() as patch:
        patch.setitem(FAMILIES, "tower", Tower)
        patch.setitem(config.CHOICES, "family", tuple(FAMILIES))
        for name, design in ADDED.items():
            save_small(shelf / name, **design, **(PRE if name != "en-zh" else {}))
        yield shelf


@pytest.mark.parametrize(
    ("page", "choices", "model"),
    every(7, ((*visit, model) for visit in ADDED_VISITS for model in ADDED)),
)
def test_every_page_opens_for_what_was_added(
    shelf_of_added, open_page, page, choices, model, monkeypatch
):
    monkeypatch.setattr(library, "CHECKPOINTS", shelf_of_added)
    sentence = f"She reads a {'<mask>' if model == 'ramp' else 'book'} every morning."
    at = open_page(page, model=model, text=sentence, **choices)
    assert not at.error


def test_what_was_added_is_named(shelf_of_added, open_page, monkeypatch):
    monkeypatch.setattr(library, "CHECKPOINTS", shelf_of_added)
    facts = everything(open_page("card", model="tower"))
    assert all(name in facts for name in ("Kerple", "Maxnorm", "Relu2"))
    at = open_page("training")
    for field, kinds in (("positions", ["Kerple", "Ramp", "Spiral"]), ("norm", ["Maxnorm"])):
        assert {*kinds} <= {*at.selectbox(key=f"training.set.{field}").options}
