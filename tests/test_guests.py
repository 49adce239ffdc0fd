"""A package of another author adds a page and a part of a page, with words in both languages."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
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
