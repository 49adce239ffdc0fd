"""`mask`, `film` and `positions`: standalone views."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from explorer.analysis.positions.encoding import gram, model_table
from explorer.components.film import pack_film
from explorer.components.mask_matrix import MAX_RULES, pack_mask_matrix
from explorer.components.standalone import Block, Component, Paragraph, Plot
from explorer.exhibits.reasons import RULES, rule_numbers
from explorer.exports.film import How, film_of
from explorer.figures.positions import encoding as figures
from explorer.library import LoadedModel
from explorer.notebook.given import Patterns, tokens_for
from explorer.notebook.masks import for_queries, n_queries, read_mask
from explorer.notebook.opening import opened, worded
from explorer.notebook.picture import Picture, Table, joined, places
from explorer.notebook.show import ROLES, axis_titles, cells_table, parts_svg, traced_of
from explorer.runs.generation import Generation, generate
from explorer.runs.trace import Trace
from explorer.text import family, model_name, t
from models.strategies import Beam, Greedy, Sample, Strategy

_NAMES: dict[str, tuple[How, Strategy]] = {
    "greedy": ("greedy", Greedy()),
    "beam": ("beam", Beam(4)),
    "sample": ("sample", Sample()),
}

MOST_POSITIONS = 2048


@worded
def mask(
    what: Any,
    tokens: str | Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    *,
    why: Any = None,
    target: str | None = None,
    pads: int = 0,
    layer: int = 0,
    head: int = 0,
    title: str | None = None,
    lang: str = "en",
) -> Picture:
    """Masks as matrices, queries down and keys across, with the reason for every blocked cell.

    `what` is a model (name, folder or opened) with a text, a Trace, or your own mask [query, key];
    `layer` and `head` select from leading axes. A model shows one matrix per kind of attention, for
    its `layer` and `head`, with `pads` padding tokens appended.

    Your own mask may be Bool (True = may attend), 0 and 1 of any dtype (1 = may attend), or numbers
    added to the scores (0 = may attend, -inf or another number of -5,000 or less = blocked). The
    picture notes how numbers were interpreted, and if the mask looks inverted. A padding mask [key]
    or [1, 1, 1, key] is broadcast to the number of `tokens`. `why` [query, key] may give a reason
    as text for each blocked cell, at most six different ones.
    Raises ValueError for numbers that block nothing, and if shapes and token lists do not match.
    """
    what = traced_of(what, "mask", tokens, target, pads)
    words = family("components.mask_matrix", lang=lang)
    name = title or t("notebook.masks", lang=lang)
    notes: list[str] = []
    if isinstance(what, Trace):
        masked = [*_masks_of(what, layer, head, lang)]
        rules = [t(f"blockers.{rule}", lang=lang) for rule in RULES]
    else:
        if isinstance(tokens, str):
            raise ValueError("tokens are one string; give a list of tokens")
        allowed, notes = read_mask(what, lang)
        allowed, more = for_queries(allowed, n_queries(allowed, tokens, key_tokens), lang)
        notes += more
        allowed = _chosen(allowed, layer, head)
        if key_tokens is None and allowed.shape[0] == allowed.shape[1]:
            key_tokens = tokens
        rows = tokens_for(tokens, allowed.shape[0], "query")
        columns = tokens_for(key_tokens, allowed.shape[1], "key")
        number, rules = _reasons(allowed, why, words["blocked"])
        masked = [(_part(name, allowed, rows, columns), number)]
    parts = [part for part, _ in masked]

    def blocks(_: int) -> Iterator[Block]:
        yield from map(Paragraph, notes)
        for part, number in masked:
            if len(masked) > 1:
                yield Paragraph(part.title, is_reading=True)
            packed = pack_mask_matrix(
                part.allowed[0, 0],
                number,
                title=part.title,
                rules=rules,
                query_tokens=part.query_tokens,
                key_tokens=part.key_tokens,
                words=words,
                **axis_titles(part, lang),
            )
            yield Component("mask_matrix", packed)

    def table() -> Table:
        columns = dict(cells_table(parts))
        del columns["layer"], columns["head"], columns["weight"]
        said = np.array(["", *rules], dtype=object)
        return columns | {"why": said[np.concatenate([number.ravel() for _, number in masked])]}

    arrays = {part.title: part.allowed[0, 0] for part in parts}
    drawn = partial(parts_svg, name, parts, lang)
    return Picture(name, blocks, lang, arrays, table, drawn, still=drawn)


def _part(title: str, allowed: np.ndarray, queries: Any, keys: Any, **streams: Any) -> Patterns:
    """A mask as a pattern of zero weights, for tables and SVGs."""
    weights = np.zeros((1, 1, *allowed.shape), np.float32)
    return Patterns(title, weights, queries, keys, allowed[None, None], **streams)


def _masks_of(
    traced: Trace, layer: int, head: int, lang: str
) -> Iterator[tuple[Patterns, np.ndarray]]:
    """The mask of each kind of attention, and the rule that blocks each cell."""
    for role in ROLES:
        sites = traced.sites_of(role)
        if sites:
            site = sites[_index("layer", layer, len(sites))]
            _index("head", head, site.n_heads)
            part = _part(
                t(f"kinds.{role}", lang=lang),
                traced.mask(site.name)[head],
                traced.query_tokens(site.name),
                traced.key_tokens(site.name),
                query_stream=site.query_stream,
                key_stream=site.key_stream,
            )
            yield part, rule_numbers(traced, site.name)[head]


def _index(name: str, index: int, count: int) -> int:
    if not 0 <= index < count:
        raise ValueError(f"{name} is {index}, but there are {count}; they count from 0")
    return index


def _chosen(given: np.ndarray, layer: int, head: int) -> np.ndarray:
    if not 2 <= given.ndim <= 4 or 0 in given.shape:
        raise ValueError(f"the mask has shape {list(given.shape)}, expected [query, key]")
    for name, index in (("layer", layer), ("head", head))[4 - given.ndim :]:
        given = given[_index(name, index, len(given)) if len(given) > 1 else 0]
    return given


def _reasons(allowed: np.ndarray, why: Any, blocked: str) -> tuple[np.ndarray, list[str]]:
    """For each cell 0 if it is open, else the number of its reason, from 1; and the reasons."""
    if why is None:
        return (~allowed).astype(np.uint8), [blocked]
    given = np.asarray(why, dtype=object)
    if given.shape != allowed.shape:
        raise ValueError(f"why has shape {given.shape}, the mask {allowed.shape}")
    cells = zip(given.flat, allowed.flat, strict=True)
    said = ["" if may else str(word or blocked) for word, may in cells]
    rules = [word for word in dict.fromkeys(said) if word]
    if len(rules) > MAX_RULES:
        raise ValueError(f"{len(rules)} different reasons, at most {MAX_RULES} can be told apart")
    number = {word: at for at, word in enumerate(["", *rules])}
    return np.array([number[word] for word in said], np.uint8).reshape(allowed.shape), rules


@worded
def film(
    model: str | Path | LoadedModel,
    text: str,
    *,
    strategy: str | Strategy = "greedy",
    max_new_tokens: int = 64,
    begin: str = "",
    title: str | None = None,
    lang: str = "en",
) -> Picture:
    """Decoding, step by step, as an animation: tokens, candidates and attention of each step.

    `strategy` is "greedy", "beam" (4 hypotheses), "sample", or one of `models.strategies` with your
    own parameters. `begin` is a forced prefix of the output. Arrays: "self" and, for a translator,
    "cross", each [layer, head, step, key]. The table has one row per step and candidate.
    Raises ValueError for an unknown strategy, for a text or model that cannot be used, and if no
    token is generated.
    """
    loaded = opened(model)
    how, chosen = _strategy(strategy)
    made = generate(loaded, text, chosen, max_new_tokens, forced=begin)
    if not made.steps:
        raise ValueError("nothing was generated: max_new_tokens leaves no room for a token")
    shown = film_of(made, loaded.sites, loaded.config.fills, how, partial(t, lang=lang))
    found = {"self": shown["own"], "cross": shown["cross"]}
    arrays = {name: array for name, array in found.items() if array is not None}
    words = family("components.film", lang=lang)
    words |= {} if "cross" in arrays else {"tgt": t("streams.text", lang=lang)}

    def blocks(grain: int) -> Iterator[Block]:
        yield from map(Paragraph, (text, made.text))
        yield Component("film", pack_film(**shown, grain=grain, words=words))

    def svg() -> str:
        name, kind = ("cross", "cross") if "cross" in arrays else ("self", "decoder")
        mean = arrays[name].mean((0, 1), keepdims=True)
        keys = made.src_str_tokens if name == "cross" else shown["row"][: mean.shape[-1]]
        written = tuple(step.chosen_str for step in made.steps)
        part = Patterns(t(f"kinds.{kind}", lang=lang), mean, written, tuple(keys))
        return parts_svg(head, [part], lang)

    head = title or t("notebook.film", lang=lang, model=model_name(loaded.name, lang=lang))
    return Picture(head, blocks, lang, arrays, lambda: _candidates(made), svg, still=svg)


def _strategy(given: str | Strategy) -> tuple[How, Strategy]:
    if isinstance(given, str):
        if given not in _NAMES:
            raise ValueError(f"strategy is {given!r}, expected one of {', '.join(_NAMES)}")
        return _NAMES[given]
    kinds: dict[type, How] = {Beam: "beam", Sample: "sample"}
    return kinds.get(type(given), "greedy"), given


def _candidates(made: Generation) -> Table:
    rows = [(step, each) for step in made.steps for each in step.candidates]
    return {
        "step": [step.index + 1 for step, _ in rows],
        "token": [each.str_token for _, each in rows],
        "id": [each.token for _, each in rows],
        "logprob": [each.logprob for _, each in rows],
        "prob": [each.prob for _, each in rows],
        "kept": [each.kept for _, each in rows],
        "chosen": [each.token == step.chosen for step, each in rows],
        "forced": [step.forced for step, _ in rows],
    }


@worded
def positions(
    model: str | Path | LoadedModel,
    n_positions: int = 64,
    *,
    title: str | None = None,
    lang: str = "en",
) -> Picture:
    """The position vectors that a model adds to its embeddings, and their dot products.

    Arrays, for every sequence ("src", "tgt"): "… table" [pos, d_model] and "… dot" [pos, pos], the
    dot products of all pairs of positions. A model that adds none (rotary or relative positions)
    has no arrays, and the picture says so. Raises ValueError if `n_positions` is not from 1 to
    2,048, or if the model cannot be used.
    """
    loaded = opened(model)
    if not isinstance(n_positions, int) or not 1 <= n_positions <= MOST_POSITIONS:
        raise ValueError(f"n_positions is {n_positions}, expected 1 to {MOST_POSITIONS}")
    added = {stream: model_table(loaded, n_positions, stream) for stream in loaded.model.reads}
    tables = {stream: table for stream, table in added.items() if table is not None}
    grams = {stream: gram(table) for stream, table in tables.items()}
    named = model_name(loaded.name, lang=lang)
    head = title or t("notebook.positions", lang=lang, model=named)
    nothing = t("notebook.nothing_added", lang=lang, model=named)
    words = family("figures.positions", lang=lang)

    def blocks(_: int) -> Iterator[Block]:
        if not tables:
            yield Paragraph(nothing)
        for stream in tables:
            name = t(f"streams.{stream}" if "src" in added else "streams.text", lang=lang)
            for values, draw, axis in (
                (tables[stream], figures.table, words["dimension"]),
                (grams[stream], figures.gram, words["other_position"]),
            ):
                said = f"{name}: {words['position']} × {axis}"
                light, dark = (draw(values, dark=dark, words=words) for dark in (False, True))
                yield Paragraph(said, is_reading=True)
                yield Plot(light, said, dark=dark)

    def table() -> Table:
        axes = ("position", "dimension")
        rows = [
            {"stream": stream}
            | {axis: at - 1 for axis, at in places(values.shape, *axes).items()}
            | {"value": values.ravel()}
            for stream, values in tables.items()
        ]
        return joined(rows or [dict.fromkeys(("stream", *axes, "value"), np.zeros(0))])

    def svg() -> str:
        """Cosine similarity of positions, clipped at 0."""
        if not tables:
            raise ValueError(nothing)
        parts = []
        for stream, dots in grams.items():
            size = np.sqrt(np.diag(dots)).clip(1e-12)
            alike = (dots / size / size[:, None]).clip(0, 1)[None, None].astype(np.float32)
            labels = tuple(map(str, range(len(dots))))
            parts.append(Patterns(f"{stream} dot, cosine", alike, labels, labels))
        return parts_svg(head, parts, lang)

    arrays: dict[str, np.ndarray] = {}
    for stream in tables:
        arrays |= {f"{stream} table": tables[stream], f"{stream} dot": grams[stream]}
    return Picture(head, blocks, lang, arrays, table, svg, still=svg if tables else None)
