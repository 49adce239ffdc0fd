"""The public names: few, described, loaded only when used; docs/api says what they say."""

import ast
import json
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from foreign import Golden

import explorer as hl
from docs.website import api
from explorer.analysis.cases.fills import filled
from explorer.library import LoadedModel, open_model
from explorer.pages import PAGES
from explorer.runs.trace import trace
from explorer.text import t

ROOT = Path(__file__).parents[3]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def test_the_pages_are_made_from_the_docstrings() -> None:
    for path, written in api.pages().items():
        assert (ROOT / path).read_text("utf-8") == written, "run python -m docs.website.api"
    assert {name for _, names in api.PAGES.values() for name in names} == set(hl.__all__)


class OfTransformers(torch.nn.Module):
    """A decoder called as `GPT2LMHeadModel`: masks and positions come from its caller."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.embed, self.places = torch.nn.Embedding(20, 16), torch.nn.Embedding(32, 16)
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.blocks = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = torch.nn.Linear(16, 20)

    def forward(self, input_ids: Any, attention_mask: Any, position_ids: Any) -> Any:
        later = torch.ones(2 * input_ids.shape[1:], dtype=torch.bool).triu(1)
        x = self.embed(input_ids) + self.places(position_ids)
        x = self.blocks(x, mask=later, src_key_padding_mask=attention_mask == 0)
        return SimpleNamespace(logits=self.out(x))


@pytest.mark.parametrize("name", ["gpt", "encoder_decoder", "hugging_face", "compiled"])
def test_the_examples_of_mask_tests_pass_and_can_fail(name, monkeypatch) -> None:
    stand_in = SimpleNamespace(GPT2Config=SimpleNamespace, GPT2LMHeadModel=OfTransformers)
    monkeypatch.setitem(sys.modules, "transformers", stand_in)
    test = runpy.run_path(str(ROOT / "examples" / "test_masks.py"))[f"test_{name}"]
    test()
    no_mask = lambda mask, diagonal: torch.zeros_like(mask)  # noqa: E731
    monkeypatch.setattr(torch.Tensor, "triu", no_mask)
    torch.compiler.reset()
    with pytest.raises(AssertionError, match="No look-ahead"):
        test()


def test_there_are_twenty_names_at_most_and_all_are_described() -> None:
    assert len(hl.__all__) <= 20
    for name in hl.__all__:
        assert getattr(hl, name).__doc__, name
        assert name in dir(hl)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = hl.nothing


LIBRARIES_WHEN_USED = """
import sys, explorer as hl
assert not {'torch', 'numpy', 'streamlit'} & set(sys.modules)
import numpy as np
shown = hl.show(np.eye(3))
shown.html(), shown.svg(), shown.numpy()
assert not {'streamlit', 'pandas', 'plotly'} & set(sys.modules)
shown.dataframe()
assert 'pandas' in sys.modules
"""
COMPILER_NAMED_WHEN_FIRST_USED = """
import torch, explorer as hl
with hl.capture() as seen:
    attend = torch.compile(lambda x: (x @ x.mT).softmax(-1) @ x, backend='eager')
    attend(torch.randn(1, 2, 3, 4))
assert seen.unseen == ['torch.compile (first used while capturing)'], seen.unseen
"""


@pytest.mark.parametrize(
    "code",
    [
        LIBRARIES_WHEN_USED,
        # Importing torch's compiler takes five seconds.
        pytest.param(COMPILER_NAMED_WHEN_FIRST_USED, marks=pytest.mark.sweep),
    ],
)
def test_in_a_process_of_its_own(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def _cells(path: Path) -> Iterator[str]:
    notebook = json.loads(path.read_text("utf-8"))
    assert notebook["nbformat"] == 4
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "kept without outputs"
            yield "".join(cell["source"])


def _run(source: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does: the value of a last expression is returned."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch) -> None:
    folder = Golden.load("gpt2").write(tmp_path, kind="byte_level")
    monkeypatch.setenv("MY_MODEL", str(folder))
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = [_run(source, names) for source in _cells(path)]
    pictures = [each for each in shown if hasattr(each, "_repr_html_")]
    assert pictures
    assert all(each._repr_html_() for each in pictures)


@pytest.fixture(scope="module")
def copier() -> LoadedModel:
    return hl.open_model("copy")


def test_tables_of_runs_attributions_captures_and_certificates(copier) -> None:
    traced = hl.trace(copier, "b a")
    table = hl.table(traced)
    site = traced.sites_of("cross")[0]
    here = table[(table["view"] == "Cross-attention") & (table.layer == 1) & (table["head"] == 2)]
    assert np.array_equal(here.weight, traced.pattern(site.name)[1].ravel())
    assert np.array_equal(here.allowed, traced.mask(site.name)[1].ravel())
    logits = hl.table(traced, "logits")
    second = logits[(logits["position"] == 2) & (logits["id"] == 3)]
    assert second.logit.item() == traced.logits[1, 3]
    assert second.token.item() == traced.tgt_str_tokens[1]
    ablation = hl.ablate(copier, traced)
    table = hl.table(ablation)
    for site in ablation.sites:
        here = table[(table.site == site.name) & (table["head"] == 1)]
        assert np.array_equal(here.delta, ablation.token_deltas[site.name][0])
        assert list(here.token_id) == list(ablation.tokens)
    found = hl.attribute(copier, traced, 0, ablation)
    table = hl.table(found)
    site = found.sites[-1]
    last = table[(table.site == site.name) & (table["head"] == site.n_heads)]
    assert np.array_equal(last.gradient, found.gradient[site.name][-1].ravel())
    assert set(last.layer) == {site.layer + 1}
    attention = torch.nn.MultiheadAttention(4, 2).eval()
    with hl.capture() as seen:
        attention(*[torch.randn(3, 1, 4)] * 3)
    assert np.array_equal(hl.table(seen).weight, seen.patterns[0].numpy().ravel())
    result = hl.certify(lambda ids: torch.eye(9)[ids].cumsum(1), None, [1, 2, 3], pad_id=None)
    table = hl.table(result)
    assert list(table["name"]) == [finding.name for finding in result.findings]
    with pytest.raises(TypeError, match="no table of int"):
        hl.table(3)


# Exhibits in a notebook: which names are theirs, which choices, and what is refused.
TEXT = "She reads a book."


def test_choices_are_those_of_links_and_the_numbers_those_of_the_analysis() -> None:
    chosen = {"site": "decoder", "layer": 1, "head": 2, "row": 1, "way": "twice"}
    found = hl.show("masks.fills", "en-zh", TEXT, **chosen).numpy()
    loaded = open_model("en-zh")
    run = trace(loaded, TEXT)
    site = run.sites_of("decoder")[1]
    scores, mask = run.activations[site.hook("scores")][2], run.mask(site.name)[2]
    expected = [row.values[1] for row in filled(scores, mask, 1, "twice").rows]
    np.testing.assert_allclose(found["Weight on blocked keys"], expected, atol=5e-5)


def test_what_the_notebook_shows_of_a_page_and_an_exhibit() -> None:
    made = hl.show("masks", "en-zh", TEXT, part="fills", pads=2).html()
    assert "finfo.min" in made
    assert "Subtract from all scores" not in re.sub(r"<script>.*?</script>", "", made, flags=re.S)
    made = hl.show("cell", "en-zh", TEXT, stage=3, aside="raw")  # its earlier name
    assert "softmax denominator" in made.html()
    raw, backend = (t(key, lang="en")[:20] for key in ("score.raw_lead", "cases.backend.lead"))
    assert raw in made.html()
    assert backend not in made.html()
    assert backend in hl.show("cases", "en-zh", TEXT, part="choices", option="backend").html()
    weights = np.array(made.numpy()["weight"])
    assert abs(weights.sum() - 1) < 1e-3
    drawn = hl.show("masks.matrices", "en-zh", TEXT).svg()
    assert drawn.count("<g transform") > 2
    with pytest.raises(ValueError, match="no still picture"):
        hl.show("positions.order", "en-zh", TEXT).svg()


@pytest.mark.parametrize("earlier", ["claims", "claims.finding", "bugs", "bugs.pitfall"])
def test_earlier_addresses_show_the_same_case(earlier: str) -> None:
    chosen = {"claim": "gelu_tanh", "guess": "false"} if "claims" in earlier else {}
    shown = hl.show(earlier, "en-zh", TEXT, **chosen).html()
    assert ("minimum of GELU" in shown) == bool(chosen)
    assert ("Easy to miss" in shown) != bool(chosen)


def test_a_model_that_is_not_listed_is_shown_under_its_own_name(tmp_path) -> None:
    """Two folders of one name are two models."""
    shelf = open_model("twin-right").folder.parent
    texts = []
    for number, model in enumerate(("twin-right", "twin-no-causal")):
        folder = tmp_path / str(number) / "mine"
        folder.parent.mkdir()
        folder.symlink_to(shelf / model)
        shown = hl.show("masks.effect", hl.open_model(folder), "Tom is here.")
        texts.append(re.sub(r"<script>.*?</script>", "", shown.html(), flags=re.S))
    assert texts[0] != texts[1]


def test_what_the_app_computes_only_when_asked_for_is_computed_at_once(
    translator, monkeypatch
) -> None:
    monkeypatch.setattr("explorer.exhibits.patching.map.AT_ONCE", 0)
    assert hl.show("patching.map", translator, "We went to the park.").numpy()
    shown = hl.show("heads.matter", translator, "We went to the park.")
    assert 'headlight("matrices"' in shown.html()


@pytest.mark.parametrize(
    ("name", "asked", "said"),
    [
        ("masks.fills", {"wey": "twice"}, "no choice 'wey'"),
        ("masks.fills", {"way": "often"}, "way cannot be 'often'"),
        ("masks.fills", {"pads": 99}, "pads cannot be '99'"),
        ("masks.holes", {}, "no exhibit 'masks.holes'"),
    ],
)
def test_what_cannot_be_chosen_is_said(name, asked, said) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        hl.show(name, "en-zh", TEXT, **asked)
    with pytest.raises(ValueError, match="only exhibits have choices: way"):
        hl.show("en-zh", TEXT, way="twice")


OPEN = [
    # The first part of each page; `test_each_part_is_drawn` draws the others in the app.
    pytest.param(page.name, part, marks=[pytest.mark.sweep] if page.name == "atlas" or at else [])
    for page in PAGES
    if isinstance(parts := getattr(page.choices, "parts", None), Mapping)
    for at, part in enumerate(parts)
]


@pytest.mark.parametrize(("page", "part"), OPEN)
def test_every_part_of_every_page_of_exhibits_is_drawn(page, part, translator) -> None:
    made = hl.show(page, translator, TEXT, **({"part": part} if part else {}))
    assert made.title in made.html()
