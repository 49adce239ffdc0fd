"""A new exhibit is one file and its words: the example of docs/CONTRIBUTING.md, added to Masks."""

import html as markup
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shown import charts, numbers, reading

import explorer as hl
from explorer import text
from explorer.exhibits import masks
from explorer.exhibits.exhibit import exhibit_of
from explorer.exhibits.links import State
from explorer.exhibits.masks.choices import MasksChoices
from explorer.exhibits.view import View, build
from explorer.library import open_model
from explorer.render import html, paper

ROOT = Path(__file__).parents[2]
WORDS = {
    "masks.entropy": "Entropy in bits",
    "masks.entropy_most": "The row of {token} is the most even: **{bits} bits**.",
    "masks.entropy_formula": "0 bits: all weight is on one key.",
}
SENTENCE = "She reads a book every morning."
CHOSEN = {"site": "decoder", "layer": 1, "head": 2}


@pytest.fixture(autouse=True)
def _added(tmp_path, monkeypatch):
    """The file beside those of Masks, its address among the parts, and its words."""
    described = (ROOT / "docs/CONTRIBUTING.md").read_text(encoding="utf-8")
    code = re.findall(r'```python\n("""How evenly.*?)```', described, re.DOTALL)
    assert len(code) == 1
    (tmp_path / "entropy.py").write_text(code[0], encoding="utf-8")
    monkeypatch.setattr(masks, "__path__", [*masks.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "explorer.exhibits.masks.entropy", raising=False)
    shown = (*MasksChoices.parts["matrices"], "masks.entropy")
    monkeypatch.setitem(MasksChoices.parts, "matrices", shown)
    for key, words in WORDS.items():
        monkeypatch.setitem(text.words("en"), key, words)


@pytest.fixture
def view(app) -> View:
    return build(State(model="en-zh", text=SENTENCE, **CHOSEN), dark=False)


def by_hand(view: View) -> list[float]:
    rows = view.trace.pattern(view.site.name)[view.head].tolist()
    return [-sum(p * math.log2(p) for p in row if p > 0) for row in rows]


def test_app_notebook_page_and_paper_show_the_same_numbers(open_page, view, shelf):
    asked = {"site": "decoder", "layer": "2", "head": "3", "pads": "0"}
    at = open_page("masks", model="en-zh", text=SENTENCE, **asked)
    expected = by_hand(view)
    assert f"**{max(expected):.2f} bits**" in reading(at, "is the most even")
    (chart,) = charts(at, "masks.entropy")
    np.testing.assert_allclose(numbers(chart["data"][0]["y"]), expected, atol=1e-6)
    at.segmented_control(key="masks.more").set_value("more").run()
    (table,) = (each.value for each in at.dataframe if "Entropy in bits" in each.value)
    np.testing.assert_allclose(table["Entropy in bits"], expected, atol=1e-4)
    picture = hl.show("masks.entropy", open_model("en-zh", shelf), SENTENCE, **CHOSEN)
    np.testing.assert_allclose(picture.numpy()["Entropy in bits"], expected, atol=1e-4)
    assert f"{max(expected):.2f} bits" in picture.html()
    exhibit = exhibit_of("masks.entropy")
    blocks = list(exhibit.show(exhibit.answer(view), view))
    for made in (html.page("Masks", blocks, view), paper.report("Masks", blocks, view)):
        said = [float(cell) for cell in re.findall(r"<td>(\d\.\d+)</td>", markup.unescape(made))]
        np.testing.assert_allclose(said, expected, atol=1e-4)
        assert WORDS["masks.entropy_formula"] in made


def test_one_that_needs_another_is_shown_after_it(open_page, tmp_path):
    file = tmp_path / "entropy.py"
    code = (
        file.read_text(encoding="utf-8")
        .replace(
            "EXHIBIT = Exhibit(row_entropy, show)",
            "def later(found: np.ndarray | None, view: View) -> b.Blocks:\n"
            "    yield b.Sentence('entropy', 'not yet' if found is None else 'answered')\n\n\n"
            "EXHIBIT = Exhibit(row_entropy, later, wait=Wait(after='masks.largest'))",
        )
        .replace("import Exhibit, View", "import Exhibit, View, Wait")
    )
    assert "masks.largest" in code
    file.write_text(code, encoding="utf-8")
    at = open_page("masks", model="en-zh", text=SENTENCE, pads="0")
    assert "answered" in [each.value for each in at.markdown]


def test_a_misspelt_input_fails_as_soon_as_it_is_imported(tmp_path):
    file = tmp_path / "entropy.py"
    code = file.read_text(encoding="utf-8").replace("head: int", "haed: int")
    file.write_text(code.replace("[head]", "[haed]"), encoding="utf-8")
    with pytest.raises(TypeError, match=r"masks\.entropy: nothing gives haed"):
        exhibit_of("masks.entropy")


# A package of another author adds a page and a part of a page, with words in both languages.
EXAMPLE = ROOT / "examples/headlight-entropy"
DRIVEN = """
import math
from shown import everything
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash
import explorer as hl
from explorer.exhibits.exhibit import exhibit_of
from explorer.exhibits.links import State
from explorer.exhibits.view import build
from explorer.pages import MENU
from explorer.shell import LINKS

TEXT = "She reads a book every morning."
assert "entropy" in next(item.views for item in MENU if item.name == "attention")
state, refused = LINKS.read({"entropy_floor": "5", "site": "decoder", "layer": "2", "text": TEXT})
assert not refused
assert LINKS.write(state)["entropy_floor"] == "5"

view = build(state, dark=False)
found = exhibit_of("entropy.rows").answer(view)
for row, weights in enumerate(view.trace.pattern(view.site.name)[view.head].tolist()):
    counted = [weight for weight in weights if weight >= 0.05]
    shares = [weight / sum(counted) for weight in counted]
    assert abs(found[row] + sum(share * math.log2(share) for share in shares)) < 1e-6

for lang, words in (("en", "is the most even"), ("zh", "这一行最均匀")):
    for page, part in (("entropy", ""), ("masks", "entropy")):
        at = AppTest.from_file("app.py", default_timeout=120)
        at._page_hash = calc_hash(page)
        for name, value in {"lang": lang, "text": TEXT, "part": part}.items():
            at.query_params[name] = value
        at.run()
        assert not at.exception, at.exception
        assert words in everything(at), (page, lang)
        assert at.get("plotly_chart")
    said = hl.show("entropy", "en-zh", TEXT, lang=lang, entropy_floor=5).html()
    assert words in said
"""


def test_an_installed_package_adds_a_page_and_a_part_without_a_patch(tmp_path):
    source = shutil.copytree(EXAMPLE, tmp_path / "source")  # a build writes beside it
    packages = tmp_path / "packages"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
         "--no-build-isolation", "--disable-pip-version-check", "--target", packages, source],
        check=True,
    )  # fmt: skip
    path = os.pathsep.join(map(str, (packages, ROOT, ROOT / "tests")))
    driven = subprocess.run(
        [sys.executable, "-c", DRIVEN],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert driven.returncode == 0, driven.stderr[-2000:]
