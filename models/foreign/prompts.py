"""The marks that a model which learned to chat expects around a question.

A folder says them as a program (its chat template), and no code that comes with a model is run:
what is known here are the usual forms, recognised by the marks that the template names.
"""

from dataclasses import dataclass
from pathlib import Path

from models.foreign.json_files import read_json, read_text

LINE_END = "↵"
"""How a line end is typed among prompt marks; any other white space is one blank."""


@dataclass(frozen=True)
class Prompt:
    """What stands `before` and `behind` a question; `sign` is the mark that all such texts have."""

    sign: str
    before: str
    behind: str

    def around(self, question: str) -> str:
        """The question between its marks; a text that has them already stays as it is."""
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
"""ChatML (Qwen, SmolLM), Llama 3, Gemma, Zephyr (TinyLlama), Mistral and Llama 2. A message of the
system before the question, which some templates add, is left to whoever edits the text."""


def prompt_in(template: str) -> Prompt | None:
    """The form of a chat template; None for one that is not known."""
    return next((form for form in FORMS if form.sign in template), None)


def prompt_of(folder: Path) -> Prompt | None:
    """The form of the template in a folder, if there is one. Raises OSError."""
    alone = folder / "chat_template.jinja"
    if alone.is_file():
        return prompt_in(read_text(alone))
    path = folder / "tokenizer_config.json"
    said = read_json(path) if path.is_file() else None
    # A name and a template each, where there are several.
    return prompt_in(str(said.get("chat_template") or "")) if isinstance(said, dict) else None
