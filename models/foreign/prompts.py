"""Chat templates: programs that write what a chat model expects around a message.

They are not run here. The explorer renders them in a process of its own (`explorer/uploads.py`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from models.foreign.json_files import read_json, read_text

LINE_END = "↵"
"""Read as a line end in a prompt: links of earlier versions contain it."""
_MARKS = re.compile(r"<[^<>\s'\"{}]+>|\[/?[A-Z_]+\]")


@dataclass(frozen=True)
class Template:
    """A chat template in Jinja, and the special tokens that it may use, such as `eos_token`."""

    source: str
    tokens: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def marks(self) -> frozenset[str]:
        """The marks that the source spells out, such as <|user|> and [INST]."""
        return frozenset(_MARKS.findall(self.source))

    def is_in(self, text: str) -> bool:
        """Whether a text was written by the template: it contains one of its marks."""
        return any(mark in text for mark in self.marks)


def template_of(folder: Path, tokens: Mapping[str, str]) -> Template | None:
    """The template in a folder, if there is one; of several, the default one. Raises OSError."""
    path, alone = folder / "tokenizer_config.json", folder / "chat_template.jinja"
    if alone.is_file():
        return Template(read_text(alone), tokens)
    config = read_json(path) if path.is_file() else None
    template = config.get("chat_template") if isinstance(config, dict) else None
    if isinstance(template, list):
        named = [entry for entry in template if isinstance(entry, dict)]
        template = next(
            (entry.get("template") for entry in named if entry.get("name") == "default"), None
        )
    return Template(template, tokens) if isinstance(template, str) and template else None
