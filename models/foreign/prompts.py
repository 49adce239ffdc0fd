"""Chat templates: the special tokens that a chat model expects around a message.

A folder's template is a program, and code that comes with a model is not run. Instead, the common
templates are defined here and recognised by all of their special tokens. Others are not offered.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from models.foreign.json_files import read_json, read_text

LINE_END = "↵"
"""Typed for a line end in a prompt; any other white space is one blank."""


@dataclass(frozen=True)
class Prompt:
    """The text `before` and `behind` (after) a message; `sign` is a token that identifies it."""

    sign: str
    before: str
    behind: str

    def around(self, question: str) -> str:
        """The message inside the template; a text that already contains `sign` is unchanged."""
        return question if self.sign in question else f"{self.before}{question}{self.behind}"


FORMS = (
    Prompt("<|im_start|>", "<|im_start|>user↵", "<|im_end|>↵<|im_start|>assistant↵"),
    Prompt(
        "<|start_header_id|>",
        "<|start_header_id|>user<|end_header_id|>↵↵",
        "<|eot_id|><|start_header_id|>assistant<|end_header_id|>↵↵",
    ),
    Prompt("<start_of_turn>", "<start_of_turn>user↵", "<end_of_turn>↵<start_of_turn>model↵"),
    Prompt("<|user|>", "<|user|>↵", "</s>↵<|assistant|>↵"),
    Prompt("[INST]", "[INST] ", " [/INST]"),
)
"""ChatML (Qwen, SmolLM), Llama 3, Gemma, Zephyr (TinyLlama), Mistral and Llama 2. Default system
messages, which some templates add, are not included; users can type them."""


_MARKS = re.compile(r"<[^<>\s↵]+>| ?\[/?INST\] ?")


def prompt_in(template: str, end: str = "") -> Prompt | None:
    """The known form of a chat template; None unless all its special tokens are there.

    `end` is the tokenizer's end token, which a template may call `eos_token`.
    """
    said = f"{template}{end}" if "eos_token" in template else template
    for form in FORMS:
        if all(mark in said for mark in _MARKS.findall(form.before + form.behind)):
            return form
    return None


def prompt_of(folder: Path) -> Prompt | None:
    """The form of the template in a folder, if there is one. Raises OSError."""
    path = folder / "tokenizer_config.json"
    said = read_json(path) if path.is_file() else None
    said = said if isinstance(said, dict) else {}
    end = said.get("eos_token")
    name = str(end.get("content")) if isinstance(end, dict) else str(end or "")
    alone = folder / "chat_template.jinja"
    # A list of names and templates if there are several.
    template = read_text(alone) if alone.is_file() else str(said.get("chat_template") or "")
    return prompt_in(template, name)
