"""The chapters of the tour, from `assets/lessons/course.toml`; other pages need nothing else."""

import tomllib
from typing import Any

from models.training.home import asset

with asset("lessons", "course.toml").open("rb") as _file:
    CHAPTERS: dict[str, dict[str, Any]] = tomllib.load(_file)
CHAPTER_OF = {page: name for name, chapter in CHAPTERS.items() for page in chapter["pages"]}
"""The chapter that links to a page, and to which the page links back."""
