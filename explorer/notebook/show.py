"""`show`: attention from any source, in the linked view of all heads."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from explorer.components.heads_payload import HeadsSelection
from explorer.components.heads_view import pack_heads_view
from explorer.components.standalone import Block, Component, Paragraph
from explorer.exhibits.pictured import picture_axis
from explorer.exhibits.reasons import BLOCKERS, blocker_codes
from explorer.exports.picture import Axes, site_svg
from explorer.library import LoadedModel
from explorer.notebook.captured import Attention, Captured
from explorer.notebook.given import Patterns, as_array, checked, image_axis, layers_of, tokens_for
from explorer.notebook.masks import read_mask
from explorer.notebook.opening import opened, worded
from explorer.notebook.picture import Picture, Table, joined, places
from explorer.runs.trace import Trace, trace as run_trace
from explorer.text import family, model_name, t
from models.hooks import Role

ROLES: tuple[Role, ...] = ("encoder", "decoder", "cross")
_CROSS = re.compile(r"cross|encoder_attn|multihead_attn|enc_dec|src_attn", re.IGNORECASE)


@worded
def attention(
    what: Any,
    tokens: str | Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    *,
    target: str | None = None,
    mask: Any = None,
    batch: int = 0,
    image: Any = None,
    grid: tuple[int, int] | None = None,
    title: str | None = None,
    lang: str = "en",
) -> Picture:
    """All heads in one linked view; takes the arguments of `show`, except for exhibits.

    Raises ValueError and IndexError as documented in `explorer.render.notebook.show`.
    """
    if image is not None and isinstance(what, str | Path | LoadedModel | Trace | Captured):
        raise ValueError("an image needs attention weights: show(weights, image=…)")
    what = traced_of(what, "show", tokens, target)
    if isinstance(what, Trace):
        named = model_name(what.model, lang=lang)
        name = title or t("export.title", lang=lang, model=named)
        return _picture(
            name, [*_of_trace(what, lang)], filter(None, (what.text, what.output)), lang
        )
    if what is None or callable(what):
        raise ValueError(
            f"nothing to show in {type(what).__name__}: give a model's name or attention. "
            "For a module: `with capture() as seen: module(batch)`, then `show(seen, tokens)`"
        )
    if isinstance(tokens, str):
        raise ValueError("tokens are one string; give a list of tokens")
    name = title or t("notebook.title", lang=lang)
    if isinstance(what, Captured):
        return _picture(name, *_of_capture(what, tokens, key_tokens, batch, lang), lang)
    weights, notes = layers_of(what, batch, lang)
    weights, odd = checked(weights, lang)
    n_query, n_key = weights.shape[2:]
    axis = None
    if image is not None:
        axis, names = image_axis(image, grid, n_query, n_key)
        tokens = names if tokens is None and n_query == n_key else tokens
        key_tokens = names if key_tokens is None else key_tokens
    rows = tokens_for(tokens, n_query, "query")
    if key_tokens is None and n_key == n_query:
        key_tokens = rows
    columns = tokens_for(key_tokens, n_key, "key")
    allowed, how = (None, []) if mask is None else _fitting(mask, weights.shape, lang)
    notes += [*odd, *how]
    part = Patterns(name, weights, rows, columns, mask=allowed, notes=notes, picture=axis)
    return _picture(name, [part], [], lang)


def traced_of(what: Any, name: str, tokens: Any, target: str | None = None, pads: int = 0) -> Any:
    """The Trace of a model, whose text are the `tokens`; anything else as it is."""
    if not isinstance(what, str | Path | LoadedModel):
        return what
    if not isinstance(tokens, str):
        raise ValueError(f"a model needs a text: {name}(model, text)")
    return run_trace(opened(what), tokens, target, (), pads)


def _fitting(mask: Any, shape: tuple[int, ...], lang: str) -> tuple[np.ndarray, list[str]]:
    allowed, notes = read_mask(mask, lang)
    try:
        return np.broadcast_to(allowed, shape), notes
    except ValueError:
        raise ValueError(f"the mask has shape {allowed.shape}, the weights {shape}") from None


def _of_trace(traced: Trace, lang: str) -> Iterator[Patterns]:
    words = [t(f"blockers.{name}", lang=lang) if name else "" for name in BLOCKERS]
    for role in ROLES:
        sites = traced.sites_of(role)
        if sites:
            codes = np.stack([blocker_codes(traced, site.name) for site in sites])
            yield Patterns(
                t(f"kinds.{role}", lang=lang),
                np.stack([traced.pattern(site.name) for site in sites]),
                traced.query_tokens(sites[0].name),
                traced.key_tokens(sites[0].name),
                mask=np.stack([traced.mask(site.name) for site in sites]),
                whys=np.array(words, dtype=object)[codes],
                query_stream=sites[0].query_stream,
                key_stream=sites[0].key_stream,
                picture=picture_axis(traced, sites[0]),
            )


def _of_capture(
    seen: Captured,
    tokens: Sequence[str] | None,
    key_tokens: Sequence[str] | None,
    batch: int,
    lang: str,
) -> tuple[list[Patterns], list[str]]:
    unseen = t("notebook.unseen", lang=lang, names=", ".join(seen.unseen)) if seen.unseen else ""
    if not seen.calls:
        raise ValueError(
            "no attention was captured: nothing called scaled_dot_product_attention or "
            f"nn.MultiheadAttention, or multiplied a softmax by values. {unseen}".strip()
        )
    groups: dict[tuple[str, tuple[int, ...]], list[Attention]] = {}
    for call in seen:
        kind = re.sub(r"\d+", "#", call.name)
        groups.setdefault((kind, tuple(call.pattern.shape[1:])), []).append(call)
    lists = [each for each in (tokens, key_tokens) if each is not None]
    used: set[int] = set()
    parts = []
    for (kind, (_, n_query, n_key)), calls in groups.items():
        n_batch = min(call.pattern.shape[0] for call in calls)
        if not 0 <= batch < n_batch:
            raise IndexError(f"batch is {batch}, but {kind} has {n_batch} sequences")
        weights, notes = checked(np.stack([as_array(call.pattern[batch]) for call in calls]), lang)
        if n_batch > 1:
            notes.insert(0, t("notebook.batch", lang=lang, index=batch + 1, count=n_batch))
        mask = None
        if any(call.mask is not None for call in calls):
            mask = np.stack([_mask_of(call, batch, weights.shape[1:]) for call in calls])
        # Self-attention uses one token list; in an encoder, that of the cross-attention keys.
        cross = n_query != n_key or _CROSS.search(kind) is not None
        first, last = (lists[:1], lists[-1:]) if cross else (lists, lists)
        if not cross and "encoder" in kind.lower():
            first, last = lists[::-1], lists[::-1]
        rows = []
        for axis, given, length in (("query", first, n_query), ("key", last, n_key)):
            fitting = next((each for each in given if len(each) == length), None)
            used |= {id(fitting)}
            rows.append(tokens_for(fitting, length, axis))
        title = kind if len(calls) == 1 else kind.replace("#", f"0–{len(calls) - 1}", 1)
        parts.append(Patterns(title, weights, rows[0], rows[1], mask=mask, notes=notes))
    for each in lists:
        if id(each) not in used:
            lengths = sorted({n for part in parts for n in part.weights.shape[2:]})
            raise ValueError(f"{len(each)} tokens match no axis; the axes have lengths {lengths}")
    return parts, [unseen] if unseen else []


def _mask_of(call: Attention, batch: int, shape: tuple[int, ...]) -> np.ndarray:
    mask = np.array(True) if call.mask is None else as_array(call.mask)
    if mask.ndim == 4:
        mask = mask[batch if mask.shape[0] > 1 else 0]
    return np.broadcast_to(mask, shape)


def _picture(title: str, parts: Sequence[Patterns], said: Iterable[str], lang: str) -> Picture:
    opening = [Paragraph(words) for words in said]

    def blocks(grain: int) -> Iterator[Block]:
        yield from opening
        for part in parts:
            if len(parts) > 1:
                yield Paragraph(part.title, is_reading=True)
            yield from map(Paragraph, part.notes)
            yield Component("heads_view", _packed(part, grain, lang))

    def still() -> str:
        """The first head of each part, which is open at the start."""
        return parts_svg("", [part.only_first() for part in parts], lang)

    arrays = {part.title: part.weights for part in parts}
    drawn = partial(parts_svg, title, parts, lang)
    return Picture(title, blocks, lang, arrays, lambda: cells_table(parts), drawn, still)


def _packed(part: Patterns, grain: int, lang: str) -> bytes:
    whys = part.whys
    return pack_heads_view(
        part.weights,
        query_tokens=part.query_tokens,
        key_tokens=part.key_tokens,
        mask=part.mask,
        blocked_by=None if whys is None else lambda layer, head: whys[layer, head],
        selection=HeadsSelection(opened=(0, 0)),
        alone=True,
        grain=grain,
        picture=part.picture,
        words=family("components.heads_view", lang=lang),
        **axis_titles(part, lang),
    )


def axis_titles(part: Patterns, lang: str) -> dict[str, Any]:
    """Titles and sequences ("src", "tgt") of a view's axes."""
    titles = {}
    for axis, stream in (("query", part.query_stream), ("key", part.key_stream)):
        titles[f"{axis}_stream"] = stream
        titles[f"{axis}_title"] = t(f"components.heads_view.{axis}", lang=lang)
        if stream is not None:
            named = t(f"streams.{stream}", lang=lang)
            titles[f"{axis}_title"] = t(f"streams.{axis}", lang=lang, stream=named)
    return titles


def cells_table(parts: Sequence[Patterns]) -> Table:
    """One row per cell: view, layer, head, query, key (from 1), their tokens, weight, allowed."""
    return joined(map(_cells, parts))


def _cells(part: Patterns) -> dict[str, Any]:
    at = places(part.weights.shape, "layer", "head", "query", "key")
    tokens = {
        f"{axis}_token": np.array(names, dtype=object)[at[axis] - 1]
        for axis, names in (("query", part.query_tokens), ("key", part.key_tokens))
    }
    numbers = {"weight": part.weights.ravel(), "allowed": part.allowed.ravel()}
    return {"view": part.title, **at, **tokens, **numbers}


def parts_svg(title: str, parts: Sequence[Patterns], lang: str) -> str:
    """All heads of all parts, one part below the other; each is named if there are several."""
    words = family("export", lang=lang)
    drawn = []
    for part in parts:
        n_layers, n_heads, n_query, n_key = part.weights.shape
        places = [divmod(at, n_heads) for at in range(n_layers * n_heads)]
        streams: Any = part.query_stream or "tgt", part.key_stream or "tgt"
        drawn.append(
            site_svg(
                part.weights.reshape(-1, n_query, n_key),
                part.allowed.reshape(-1, n_query, n_key),
                Axes.of(part.query_tokens, part.key_tokens, streams, words),
                title=" · ".join(filter(None, (title, part.title))) if len(parts) > 1 else title,
                names=[f"L{layer + 1}·H{head + 1}" for layer, head in places],
                words=words,
            )
        )
    return below(drawn)


def below(svgs: Sequence[str]) -> str:
    """Stack SVGs of `site_svg` vertically in one SVG."""
    if len(svgs) == 1:
        return svgs[0]
    width, height, placed = 0.0, 0.0, []
    for svg in svgs:
        size = re.search(r'width="([\d.e+]+)" height="([\d.e+]+)"', svg)
        assert size is not None
        placed.append(svg.replace("<svg ", f'<svg y="{height:g}" ', 1))
        width, height = max(width, float(size[1])), height + float(size[2])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}">\n{"".join(placed)}</svg>\n'
    )
