"""Packages that add pages and exhibits to the app.

A package names itself in its pyproject.toml:

    [project.entry-points."headlight.exhibits"]
    entropy = "headlight_entropy"

Its folder contains subjects, as `explorer/exhibits` does, and their words in `en.toml` and
`zh.toml`. Its `__init__.py` may define `PAGES`, which maps a subject that is a page to its entry of
the menu, and `PARTS`, which maps a page and its part to addresses of exhibits that it also shows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

GROUP = "headlight.exhibits"


@dataclass(frozen=True, eq=False)
class Guest:
    """An installed package: its folder, its pages, and what it adds to others."""

    folder: Path
    pages: Mapping[str, str]
    parts: Mapping[str, Mapping[str, tuple[str, ...]]]


@cache
def guests() -> tuple[Guest, ...]:
    """All installed packages, by name. Raises any error of their import."""
    packages = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        package = entry.load()
        pages, parts = getattr(package, "PAGES", {}), getattr(package, "PARTS", {})
        packages.append(Guest(Path(package.__file__).parent, pages, parts))
    return tuple(packages)
