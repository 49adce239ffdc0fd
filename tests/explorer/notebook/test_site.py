"""The folder of static pages: one a sentence and language, linked, small, its text escaped."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from explorer.__main__ import main
from explorer.analysis.certificate.certify import Certificate, examine_text
from explorer.components.standalone import Paragraph
from explorer.library import open_model
from explorer.notebook import site as module
from explorer.notebook.site import write_site
from explorer.problems import InputProblem
from explorer.runs.inputs import limit
from explorer.runs.trace import trace
from explorer.text import LANGUAGES, t

NASTY = '<b>a</b> & "c"'


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    write_site(open_model("copy"), ["b a", NASTY], folder)
    return folder


def test_every_sentence_has_a_page_in_every_language_and_every_link_leads_somewhere(
    site: Path,
) -> None:
    names = {path.name for path in site.iterdir()}
    for lang in LANGUAGES:
        assert {f"01-b-a.{lang}.html", f"02-b-a-b-c.{lang}.html", f"index.{lang}.html"} <= names
        for path in site.glob(f"*.{lang}.html"):
            page = path.read_text(encoding="utf-8")
            links = {unquote(link) for link in re.findall(r'<a href="([^"]*)"', page)}
            assert links
            assert links <= names, path.name
    assert (site / "index.html").exists()


def test_a_page_shows_heads_masks_film_and_mask_tests_in_its_language(site: Path) -> None:
    for lang in LANGUAGES:
        path = site / f"01-b-a.{lang}.html"
        page = path.read_text(encoding="utf-8")
        for name in ("heads", "masks", "decoding", "certificate"):
            assert f"<h2>{t(f'{name}.title', lang=lang)}</h2>" in page
        for view in ("heads_view", "mask_matrix", "film"):
            assert f'headlight("{view}"' in page
        assert page.count('headlight("mask_matrix"') == 2 * 3  # as they are, and with a rule off
        assert '<script src="headlight.js"></script><script src="01-b-a.js"></script>' in page
    sizes = [path.stat().st_size for path in site.glob("01-b-a*")]
    assert len(sizes) == 3
    assert sum(sizes) < 200_000


@pytest.fixture(scope="module")
def tested() -> Certificate:
    return examine_text(open_model("copy"), "b").certificate()


def test_weights_are_rounded_as_far_as_the_pages_need_to_stay_small(
    tested: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = open_model("copy")
    traced = trace(loaded, " ".join("abcdefgh" * 2))

    def size() -> int:
        return sum(map(len, module._files(loaded, traced, tested, "01").values()))

    usual = size()
    monkeypatch.setattr(module, "MOST_BYTES", usual - 500)
    assert size() <= usual - 500


def test_a_text_that_leaves_no_room_to_write_says_so_in_place_of_the_film(
    tested: Certificate,
) -> None:
    loaded = open_model("stories")
    n = limit(loaded)
    traced = trace(loaded, " ".join(["the"] * (n - 1)))  # and the start token
    blocks = list(module._blocks(loaded, traced, tested, "en"))
    said = [block.words for block in blocks if isinstance(block, Paragraph)]
    assert any(f"The text has {n} tokens" in words for words in said)


def test_what_somebody_typed_is_text(site: Path) -> None:
    for path in site.glob("*.html"):
        body = path.read_text(encoding="utf-8").split("<body>")[1]
        assert "<b>a</b>" not in body


def test_a_sentence_that_cannot_be_used_is_named_and_left_out(tmp_path: Path) -> None:
    said: list[str] = []
    kept = write_site(open_model("copy"), ["a " * 200, "b a"], tmp_path, said.append)
    assert [path.name for path in kept] == ["02-b-a.en.html", "02-b-a.zh.html"]
    assert len(said) == 2
    assert said[0].startswith("a a a")
    with pytest.raises(InputProblem):
        write_site(open_model("copy"), ["a " * 200], tmp_path)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.txt").write_text("b a\n", encoding="utf-8")
    asked = ["export", "--model", "copy", "--site", str(tmp_path / "site")]
    assert main([*asked, "--sentences", str(tmp_path / "s.txt")]) == 0
    assert (tmp_path / "site" / "index.html").exists()
    assert main(asked) == 2
    assert "--sentences FILE" in capsys.readouterr().err
    assert main([*asked, "--sentences", str(tmp_path / "none.txt")]) == 2
    assert main(["export", "--model", "copy", "--text", "b a"]) == 2
    assert "--out" in capsys.readouterr().err
