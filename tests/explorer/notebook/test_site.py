"""The folder of static pages: one a sentence and language, linked, small, its text escaped."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from explorer.__main__ import main
from explorer.library import open_model
from explorer.notebook.site import write_site
from explorer.problems import InputProblem
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


def test_a_page_shows_heads_masks_film_and_mask_tests_in_its_language_within_a_megabyte(
    site: Path,
) -> None:
    for lang in LANGUAGES:
        path = site / f"01-b-a.{lang}.html"
        page = path.read_text(encoding="utf-8")
        for name in ("heads", "masks", "decoding", "certificate"):
            assert f"<h2>{t(f'{name}.title', lang=lang)}</h2>" in page
        for view in ("heads_view", "mask_matrix", "film"):
            assert f'headlight("{view}"' in page
        assert page.count('headlight("mask_matrix"') == 2 * 3  # as they are, and with a rule off
        assert path.stat().st_size < 500_000


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
