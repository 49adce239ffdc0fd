"""`mask`, `film` and `positions`: standalone views."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from explorer.analysis.positions.encoding import gram, model_table
from explorer.components.film import pack_film
from explorer.components.mask_matrix import MAX_RULES, pack_mask_matrix
from explorer.components.standalone import Block, Chart, Text, View
from explorer.exhibits.reasons import RULES, rule_numbers
from explorer.exports.film import How, frames_of, stacked, whole_row
from explorer.figures.positions import encoding as figures
from explorer.library import LoadedModel
from explorer.notebook.given import Patterns, tokens_for
from explorer.notebook.masks import for_queries, n_queries, read_mask
from explorer.notebook.opening import opened, worded
from explorer.notebook.picture import Picture, Table, joined, places
from explorer.notebook.show import ROLES, axis_titles, cells_table, parts_svg
from explorer.runs.generation import Generation, generate
from explorer.runs.trace import Trace
from explorer.runs.trace import trace as run_trace
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
    if isinstance(what, str | Path | LoadedModel):
        if not isinstance(tokens, str):
            raise ValueError("a model needs a text: mask(model, text)")
        what = run_trace(opened(what), tokens, target, (), pads)
    words = family("components.mask_matrix", lang=lang)
    name = title or t("notebook.masks", lang=lang)
    notes: tuple[str, ...] = ()
    if isinstance(what, Trace):
        parts, numbers = _masks_of(what, layer, head, lang)
        rules = [t(f"blockers.{rule}", lang=lang) for rule in RULES]
    else:
        if isinstance(tokens, str):
            raise ValueError("tokens are one string; give a list of tokens")
        allowed, said = read_mask(what, lang)
        allowed, more = for_queries(allowed, n_queries(allowed, tokens, key_tokens), lang)
        allowed = _chosen(allowed, layer, head)
        notes = (*said, *more)
        if key_tokens is None and allowed.shape[0] == allowed.shape[1]:
            key_tokens = tokens
        rows = (
            tokens_for(tokens, allowed.shape[0], "query"),
            tokens_for(key_tokens, allowed.shape[1], "key"),
        )
        number, rules = _reasons(allowed, why, words["blocked"])
        parts, numbers = [_part(name, allowed, *rows)], [number]

    def blocks(_: int) -> list[Block]:
        made: list[Block] = [Text(note) for note in notes]
        for part, number in zip(parts, numbers, strict=True):
            if len(parts) > 1:
                made.append(Text(part.title, is_reading=True))
            assert part.mask is not None
            packed = pack_mask_matrix(
                part.mask[0, 0],
                number,
                title=part.title,
                rules=rules,
                query_tokens=part.query_tokens,
                key_tokens=part.key_tokens,
                words=words,
                **axis_titles(part, lang),
            )
            made.append(View("mask_matrix", packed))
        return made

    def table() -> Table:
        columns = dict(cells_table(parts))
        del columns["layer"], columns["head"], columns["weight"]
        said = np.array(["", *rules], dtype=object)
        return columns | {"why": said[np.concatenate([number.ravel() for number in numbers])]}

    arrays = {part.title: part.mask[0, 0] for part in parts if part.mask is not None}

    def svg() -> str:
        return parts_svg(name, parts, lang)

    return Picture(name, blocks, lang, arrays, table, svg, still=svg)


def _part(title: str, allowed: np.ndarray, queries: Any, keys: Any, **streams: Any) -> Patterns:
    """A mask as a pattern of zero weights, for tables and SVGs."""
    shape = (1, 1, *allowed.shape)
    return Patterns(
        title, np.zeros(shape, np.float32), queries, keys, allowed.reshape(shape), **streams
    )


def _masks_of(
    traced: Trace, layer: int, head: int, lang: str
) -> tuple[list[Patterns], list[np.ndarray]]:
    parts, numbers = [], []
    for role in ROLES:
        sites = traced.sites_of(role)
        if not sites:
            continue
        site = sites[_index("layer", layer, len(sites))]
        _index("head", head, site.n_heads)
        streams = {"query_stream": site.query_stream, "key_stream": site.key_stream}
        rows = traced.query_tokens(site.name), traced.key_tokens(site.name)
        allowed = traced.mask(site.name)[head]
        parts.append(_part(t(f"kinds.{role}", lang=lang), allowed, *rows, **streams))
        numbers.append(rule_numbers(traced, site.name)[head])
    return parts, numbers


def _index(name: str, index: int, count: int) -> int:
    if not 0 <= index < count:
        raise ValueError(f"{name} is {index}, but there are {count}; they count from 0")
    return index


def _chosen(given: np.ndarray, layer: int, head: int) -> np.ndarray:
    if not 2 <= given.ndim <= 4 or 0 in given.shape:
        raise ValueError(f"the mask has shape {list(given.shape)}, expected [query, key]")
    if given.ndim == 4:
        given = given[_index("layer", layer, len(given)) if len(given) > 1 else 0]
    if given.ndim == 3:
        given = given[_index("head", head, len(given)) if len(given) > 1 else 0]
    return given


def _reasons(allowed: np.ndarray, why: Any, blocked: str) -> tuple[np.ndarray, list[str]]:
    if why is None:
        return (~allowed).astype(np.uint8), [blocked]
    given = np.asarray(why, dtype=object)
    if given.shape != allowed.shape:
        raise ValueError(f"why has shape {given.shape}, the mask {allowed.shape}")
    words = [[str(word or blocked) for word in row] for row in given]
    said = np.where(allowed, "", np.array(words, dtype=object))
    rules = [str(word) for word in dict.fromkeys(said.ravel().tolist()) if word]
    if len(rules) > MAX_RULES:
        raise ValueError(f"{len(rules)} different reasons, at most {MAX_RULES} can be told apart")
    number = {"": 0} | {rule: at for at, rule in enumerate(rules, start=1)}
    return np.vectorize(lambda word: number[word], otypes=[np.uint8])(said), rules


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
    steps = made.steps[0].rows
    sites = [site for site in loaded.sites if site.name in steps]
    own = [site for site in sites if site.kind == "self"]
    across = [site for site in sites if site.kind == "cross"]
    arrays = {"self": stacked(made, own)} | ({"cross": stacked(made, across)} if across else {})
    row, places = whole_row(made, loaded.model.predicts)

    def say(key: str, **values: object) -> str:
        return t(key, lang=lang, **values)

    def blocks(grain: int) -> list[Block]:
        words = family("components.film", lang=lang)
        if not across:
            words = words | {"tgt": t("streams.text", lang=lang)}
        packed = pack_film(
            frames_of(made, how, say),
            row,
            arrays["self"],
            arrays.get("cross"),
            made.src_str_tokens,
            places=places,
            grain=grain,
            words=words,
        )
        return [Text(text), Text(made.text), View("film", packed)]

    def svg() -> str:
        name = "cross" if across else "self"
        mean = arrays[name].mean((0, 1), keepdims=True)
        keys = made.src_str_tokens if across else row[: mean.shape[-1]]
        kind = t("kinds.cross" if across else "kinds.decoder", lang=lang)
        written = tuple(step.chosen_str for step in made.steps)
        return parts_svg(head, [Patterns(kind, mean, written, tuple(keys))], lang)

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
    tables = {stream: model_table(loaded, n_positions, stream) for stream in loaded.model.reads}
    arrays: dict[str, np.ndarray] = {}
    for stream, added in tables.items():
        if added is not None:
            arrays |= {f"{stream} table": added, f"{stream} dot": gram(added)}
    named = model_name(loaded.name, lang=lang)

    def blocks(_: int) -> list[Block]:
        if not arrays:
            return [Text(t("notebook.nothing_added", lang=lang, model=named))]
        words = family("figures.positions", lang=lang)
        made: list[Block] = []
        for name, array in arrays.items():
            stream, what = name.split()
            draw, axis = {
                "table": (figures.table, words["dimension"]),
                "dot": (figures.gram, words["other_position"]),
            }[what]
            stream_name = t(f"streams.{stream}" if "src" in tables else "streams.text", lang=lang)
            said = f"{stream_name}: {words['position']} × {axis}"
            light, dark = (draw(array, dark=dark, words=words) for dark in (False, True))
            made += [Text(said, is_reading=True), Chart(light, said, dark=dark)]
        return made

    def table() -> Table:
        axes = ("position", "dimension")
        kept = {stream: added for stream, added in tables.items() if added is not None}
        rows = [
            {"stream": stream}
            | {axis: at - 1 for axis, at in places(added.shape, *axes).items()}
            | {"value": added.ravel()}
            for stream, added in kept.items()
        ]
        return joined(rows or [dict.fromkeys(("stream", *axes, "value"), np.zeros(0))])

    head = title or t("notebook.positions", lang=lang, model=named)

    def svg() -> str:
        """Cosine similarity of positions, clipped at 0."""
        parts = []
        for name, array in arrays.items():
            if name.endswith("dot"):
                size = np.sqrt(np.diag(array)).clip(1e-12)
                alike = (array / size / size[:, None]).clip(0, 1)[None, None].astype(np.float32)
                labels = tuple(str(at) for at in range(len(array)))
                parts.append(Patterns(f"{name}, cosine", alike, labels, labels))
        if not parts:
            raise ValueError(t("notebook.nothing_added", lang=lang, model=named))
        return parts_svg(head, parts, lang)

    return Picture(head, blocks, lang, arrays, table, svg, still=svg if arrays else None)
