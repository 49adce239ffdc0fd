"""Facts about a model that need no description: counted, measured, or read from its files."""

from collections import Counter
from dataclasses import dataclass, fields
from typing import Literal, get_args

from explorer.library import LoadedModel
from explorer.text import script
from models.hooks import Role

Kind = Literal["translator", "writer", "filler", "reader"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class ModelFacts:
    """`layers` per stack; `bytes_stored` of the weights on disk, and their `dtypes`.

    `written_in` counts the tokens whose letters belong to a language, by its code (`text.script`);
    others, such as digits and single bytes, are not counted. `marks` are the special tokens by
    purpose. `without_piece` is the number of the model's ids without a token in its tokenizer.
    """

    kind: Kind
    layers: dict[Role, int]
    parameters: int
    bytes_stored: int
    dtypes: tuple[str, ...]
    written_in: dict[str, int]
    marks: dict[str, str]
    without_piece: int


def facts(loaded: LoadedModel) -> ModelFacts:
    """Collect the facts about a model from its config, tokenizer and files."""
    model, marks = loaded.model, loaded.marks
    ids = {
        each.name: (getattr(marks, each.name),) for each in fields(marks) if each.name != "source"
    }
    ids["end"] += ids.pop("further_ends")[0]
    return ModelFacts(
        kind=_kind(loaded),
        layers={stack.role: stack.n_layers for stack in model.stacks()},
        parameters=sum(each.numel() for each in model.parameters()),
        bytes_stored=loaded.stored.n_bytes,
        dtypes=loaded.stored.dtypes,
        without_piece=loaded.config.vocab_size - loaded.tokenizer.vocab_size,
        written_in=_written_in(loaded),
        marks={
            name: " ".join(loaded.str_tokens([token])[0] for token in tokens if token is not None)
            for name, tokens in ids.items()
            if tokens[0] is not None
        },
    )


def _kind(loaded: LoadedModel) -> Kind:
    if loaded.config.reads_source:
        return "translator"
    return "writer" if loaded.config.generates else "filler" if loaded.config.fills else "reader"


def _written_in(loaded: LoadedModel) -> dict[str, int]:
    tokenizer = loaded.tokenizer
    ordinary = [i for i in range(tokenizer.vocab_size) if not tokenizer.is_special(i)]
    found = Counter(script(tokenizer.decode([token])) for token in ordinary)
    return {lang: n for lang, n in found.most_common() if lang is not None}
