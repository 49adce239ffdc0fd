"""What holds for the files of the repository: none is large, and all speak of one version."""

import subprocess
from pathlib import Path

import pytest

from explorer import __version__

ROOT = Path(__file__).parents[1]
LARGEST = 1_000_000  # bytes: every version of a file stays in the history, and so in a clone
MAY_BE_LARGE = ("assets/checkpoints/", "docs/")


def files() -> list[str]:
    """The files that git knows or would add, by their paths from the top."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git repository")
    return [name for name in listed.stdout.split("\0") if name]


def too_large(names: list[str]) -> list[str]:
    """Those over the limit where no large file may be; deleted ones are not there to be large."""
    return [
        name
        for name in names
        if not name.startswith(MAY_BE_LARGE)
        and (ROOT / name).is_file()
        and (ROOT / name).stat().st_size > LARGEST
    ]


def test_no_large_file_outside_checkpoints_and_docs() -> None:
    assert too_large(files()) == []


def test_a_large_file_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.LARGEST", 500)
    found = too_large(files())
    assert "pyproject.toml" in found
    assert not [name for name in found if name.startswith("assets/checkpoints")]


def test_the_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in citation
    assert f"\n## {__version__} – " in changelog
