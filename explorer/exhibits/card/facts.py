"""A model's card: facts counted, measured or read from its files, and its author's text.

The text is CARD.md in our checkpoints, else README.md. It is untrusted, of any length and encoding,
and nothing in it is interpreted: from the YAML block at the top (the Hub's front matter) the
licence and languages are read line by line; the rest is text.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal, get_args

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.positions.opening import positions_said
from explorer.exhibits.saying import placement
from explorer.library import LoadedModel, split_step
from explorer.text import script
from models.hooks import Role
from models.training.home import asset

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
        member.name: (getattr(marks, member.name),)
        for member in fields(marks)
        if member.name != "source"
    }
    ids["end"] += ids.pop("further_ends")[0]
    return ModelFacts(
        kind=_kind(loaded),
        layers={stack.role: stack.n_layers for stack in model.stacks()},
        parameters=sum(member.numel() for member in model.parameters()),
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
    counts = Counter(script(tokenizer.decode([token])) for token in ordinary)
    return {lang: n for lang, n in counts.most_common() if lang is not None}


MOST_CHARS = 40_000
"""Characters that are read of a card; a longer one is truncated."""
_MOST_VALUES, _MOST_LETTERS = 12, 60
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$\n?", re.DOTALL | re.MULTILINE)
_ENTRY = re.compile(r"(\w+):[ \t]*(.*)")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)")


@dataclass(frozen=True)
class CardWords:
    """A card as Markdown, without front matter; "" if there is none.

    `lang` is the language of the text, None if it cannot be determined; `licence` and `languages`
    are taken from its front matter verbatim.
    """

    markdown: str
    lang: str | None
    licence: str
    languages: tuple[str, ...]
    is_cut: bool


def card_words(folder: Path, lang: str) -> CardWords:
    """The card in a model's folder, in this language if available, else as it is.

    The Chinese version of CARD.md is CARD.zh.md; of README.md it is README.zh.md or README_zh.md.
    Bytes that are not UTF-8 become U+FFFD. Raises nothing: an unreadable file counts as no card.
    """
    stems = "CARD", "README"
    own = [folder / f"{stem}{by}{lang}.md" for stem in stems for by in "._"]
    for path in (*own, *(folder / f"{stem}.md" for stem in stems)):
        text, is_cut = _beginning(path)
        if text.strip():
            break
    values, markdown = front_matter(text)
    licence = values.get("license", [])
    if licence in ([], ["other"]):
        licence = values.get("license_name", licence)
    return CardWords(
        markdown,
        lang if path in own else script(markdown),
        ", ".join(licence),
        tuple(values.get("language", [])),
        is_cut,
    )


def _beginning(path: Path) -> tuple[str, bool]:
    """The first MOST_CHARS characters of a file, and whether it has more."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            text = file.read(MOST_CHARS + 1)
    except OSError:
        return "", False
    return text.removeprefix("\ufeff")[:MOST_CHARS], len(text) > MOST_CHARS


def front_matter(text: str) -> tuple[dict[str, list[str]], str]:
    """The entries of the YAML block at the top of a card, each as a list, and the text below it.

    Only `key: value`, `key: [a, b]` and lists of `- item` lines are supported; other lines are
    skipped. A block without its closing line is treated as text.
    """
    block = _FRONT.match(text)
    if block is None:
        return {}, text
    values: dict[str, list[str]] = {}
    key = ""
    for line in block[1].splitlines():
        if entry := _ENTRY.fullmatch(line):
            key, listed = entry.groups()
            items = map(_plain, listed.strip("[] ").split(","))
            values[key] = [item for item in items if item]
        elif (item := _ITEM.fullmatch(line)) and key:
            values[key].append(_plain(item[1]))
    return {key: value[:_MOST_VALUES] for key, value in values.items()}, text[block.end() :]


def _plain(value: str) -> str:
    return value.strip().strip("\"'")[:_MOST_LETTERS]


def compute(loaded: LoadedModel, lang: str) -> tuple[ModelFacts, CardWords]:
    """The facts, and the description in the user's language if available, else as it is."""
    return facts(loaded), card_words(loaded.folder, lang)


def show(card: tuple[ModelFacts, CardWords], view: View) -> b.Blocks:
    """A table of properties, then the description."""
    known, written = card
    properties = (*_sizes(view, known), *_design(view), *_files(view, known, written))
    yield b.Title(view.t("card.facts"), large=True)
    rows = [(view.t(key), value) for key, value in properties]
    yield b.Table((view.t("card.property"), view.t("card.value")), rows, "ll")
    yield from _description(view, written)


def _description(view: View, written: CardWords) -> b.Blocks:
    """The author's text, and its language if it is another one.

    Of a model that is not shipped it is shown as it is: nobody knows what its Markdown would load.
    """
    if not written.markdown.strip():
        yield b.Hint(view.t("card.none"), "info")
        return
    if written.lang not in (None, view.lang):
        yield b.Hint(view.t("card.only", written.lang), "translate")
    is_shipped = view.loaded.folder.parent == asset("checkpoints")
    yield b.Document("card", written.markdown) if is_shipped else b.Verbatim(written.markdown)
    if written.is_cut:
        yield b.Note(view.t("card.cut"))


def _sizes(view: View, facts: ModelFacts) -> Iterator[tuple[str, str]]:
    config = view.loaded.config
    name, step = split_step(view.loaded.name)
    yield "card.name", f"{_code(name)}"
    if step is not None:
        yield "card.snapshot", view.t("sidebar.moment_step", step=step)
    yield "card.kind", view.t("card.kinds", facts.kind)
    layers = (view.t("card.stacks", role, count=n) for role, n in facts.layers.items())
    yield "card.layers", " · ".join(layers)
    shared = "card.heads_shared" if config.kv_heads < config.n_heads else "card.heads_own"
    heads = {"heads": config.n_heads, "kv_heads": config.kv_heads, "features": config.d_head}
    yield "card.heads", view.t(shared, **heads)
    yield "card.width", f"{config.d_model:,}"
    yield "card.parameters", f"{facts.parameters:,}"
    sizes = [view.t("card.tokens", count=f"{config.vocab_size:,}")]
    for lang, count in facts.written_in.items():
        sizes.append(view.t("card.written_in", lang, count=f"{count:,}"))
    if config.src_vocab_size:
        sizes.append(view.t("card.tokens_source", count=f"{config.src_vocab_size:,}"))
    if facts.without_piece:
        sizes.append(view.t("card.without_piece", count=f"{facts.without_piece:,}"))
    yield "card.vocabulary", " · ".join(sizes)


def _design(view: View) -> Iterator[tuple[str, str]]:
    config = view.loaded.config
    limit = f"{config.n_ctx:,}"
    yield "card.length", view.t("card.tokens", count=limit)
    yield "card.positions", positions_said(view)
    last = "card.with_last" if config.final_norm else "card.without_last"
    norm = view.t("designs.norm", config.norm)
    yield "card.norm", " · ".join((norm, placement(view), view.t(last)))
    ffn = view.t("designs.ffn", config.ffn)
    many = "" if config.n_experts == 1 else f" · {view.t('card.experts', n=config.n_experts)}"
    yield "card.ffn", f"{ffn} · {view.t('card.wide', width=f'{config.d_ff:,}')}{many}"
    tied = "card.output_tied" if config.tie_embeddings else "card.output_own"
    yield "card.output", view.t(tied if config.lm_head else "card.output_none")


def _files(view: View, facts: ModelFacts, written: CardWords) -> Iterator[tuple[str, str]]:
    marks = (f"{view.t('card.marks', name)} {_code(token)}" for name, token in facts.marks.items())
    yield "card.marks_row", " · ".join(marks) or view.t("card.no_marks")
    size = f"{facts.bytes_stored / 1e6:,.1f}"
    yield "card.stored", view.t("card.megabytes", size=size, dtypes=", ".join(facts.dtypes))
    if view.loaded.not_shown:
        yield "card.not_shown", " · ".join(map(_code, view.loaded.not_shown))
    if written.languages:
        yield "card.languages", escape(" · ".join(written.languages))
    if written.licence:
        yield "card.licence", escape(written.licence)


def _code(text: str) -> str:
    """A name as inline code; with a backtick in it, as plain text."""
    return escape(text) if "`" in text or "|" in text else f"`{text}`"


EXHIBIT = Exhibit(compute, show)
