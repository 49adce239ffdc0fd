"""Chat templates: the special tokens that a chat model expects around a message.

A folder's template is a program, and code that comes with a model is not run. Instead, the common
templates are defined here and recognised by their special tokens.
"""

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


def prompt_in(template: str) -> Prompt | None:
    """The known form of a chat template; None if it is not recognised."""
    return next((form for form in FORMS if form.sign in template), None)


def prompt_of(folder: Path) -> Prompt | None:
    """The form of the template in a folder, if there is one. Raises OSError."""
    alone = folder / "chat_template.jinja"
    if alone.is_file():
        return prompt_in(read_text(alone))
    path = folder / "tokenizer_config.json"
    said = read_json(path) if path.is_file() else None
    # A list of names and templates if there are several.
    return prompt_in(str(said.get("chat_template") or "")) if isinstance(said, dict) else None
