"""`show`: attention from any source, in the linked view of all heads."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from explorer.components.heads_payload import HeadsSelection, whole_grid
from explorer.components.heads_view import pack_heads_view
from explorer.components.standalone import Block, Component, Paragraph
from explorer.exhibits.pictured import picture_axis
from explorer.exhibits.reasons import BLOCKERS, blocker_codes
from explorer.library import LoadedModel
from explorer.notebook.captured import Attention, Captured, calls_of_steps, kind_of
from explorer.notebook.given import (
    Patterns,
    as_array,
    checked,
    image_axis,
    layers_of,
    steps_stacked,
    tokens_for,
)
from explorer.notebook.masks import read_mask
from explorer.notebook.opening import opened, worded
from explorer.notebook.picture import Picture, axes_of_part, cells_table, parts_svg
from explorer.runs.trace import Trace, trace as run_trace
from explorer.text import family, model_name, t
from models.hooks import ROLES

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
    heads: int | None = None,
    image: Any = None,
    grid: tuple[int, int] | None = None,
    title: str | None = None,
    lang: str = "en",
) -> Picture:
    """All heads in one linked view; takes the arguments of `show`, except for exhibits.

    Raises ValueError and IndexError as documented in `explorer.render.notebook.show`.
    """
    if image is not None and isinstance(what, str | Path | LoadedModel | Trace | Captured):
        name = "seen.patterns" if isinstance(what, Captured) else "weights"
        raise ValueError(f"an image needs attention weights: show({name}, image=…)")
    if isinstance(what, str | Path | LoadedModel):
        if not isinstance(tokens, str):
            raise ValueError("a model needs a text: show(model, text)")
        what = run_trace(opened(what), tokens, target)
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
        calls = [call if heads is None else call.with_heads(heads) for call in what]
        parts = _of_capture(calls, tokens, key_tokens, batch, lang)
        return _picture(name, parts, _unread(what, lang), lang)
    if heads is not None:
        raise ValueError("heads= is for a capture: show(seen, heads=…)")
    what, written = steps_stacked(what)
    mask = written if mask is None else mask
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


def _fitting(mask: Any, shape: tuple[int, ...], lang: str) -> tuple[np.ndarray, list[str]]:
    allowed, notes = read_mask(mask, lang)
    try:
        return np.broadcast_to(allowed, shape), notes
    except ValueError:
        raise ValueError(f"the mask has shape {allowed.shape}, the weights {shape}") from None


def _of_trace(traced: Trace, lang: str) -> Iterator[Patterns]:
    words = [t("blockers", name, lang=lang) if name else "" for name in BLOCKERS]
    for role in ROLES:
        sites = traced.sites_of(role)
        if sites:
            codes = np.stack([blocker_codes(traced, site.name) for site in sites])
            yield Patterns(
                t("kinds", role, lang=lang),
                np.stack([traced.pattern(site.name) for site in sites]),
                traced.query_tokens(sites[0].name),
                traced.key_tokens(sites[0].name),
                mask=np.stack([traced.mask(site.name) for site in sites]),
                whys=np.array(words, dtype=object)[codes],
                query_stream=sites[0].query_stream,
                key_stream=sites[0].key_stream,
                picture=picture_axis(traced, sites[0]),
            )


def _unread(seen: Captured, lang: str) -> list[str]:
    """What was computed and is not drawn. Raises ValueError if nothing is."""
    named = {"notebook.unseen": seen.unseen, "notebook.others": seen.others}
    sentences = [t(key, lang=lang, names=", ".join(names)) for key, names in named.items() if names]
    if not seen.calls:
        nothing = "nothing called scaled_dot_product_attention or nn.MultiheadAttention, and no "
        nothing += "softmax was multiplied by values"
        raise ValueError(f"no attention was captured: {' '.join(sentences) or nothing}")
    return sentences


def _of_capture(
    calls: Sequence[Attention],
    tokens: Sequence[str] | None,
    key_tokens: Sequence[str] | None,
    batch: int,
    lang: str,
) -> list[Patterns]:
    for call in calls:
        if call.axes == "doubtful":
            raise ValueError(
                f"{call.name or 'outside a module'}: the first axis ({len(call.pattern)}) may be "
                "heads, sequences, or both; give the number of heads: show(seen, heads=…)"
            )
    groups: dict[tuple[str, tuple[int, ...]], list[Attention]] = {}
    for call in calls_of_steps(calls):
        groups.setdefault((kind_of(call.name), tuple(call.pattern.shape[1:])), []).append(call)
    kinds = Counter(kind for kind, _ in groups)
    lists = [labels for labels in (tokens, key_tokens) if labels is not None]
    used: set[int] = set()
    parts = []
    for (kind, (_, n_query, n_key)), calls in groups.items():
        n_batch = min(call.pattern.shape[0] for call in calls)
        if not 0 <= batch < n_batch:
            raise IndexError(f"batch is {batch}, but {kind} has {n_batch} sequences")
        weights, notes = checked(np.stack([as_array(call.pattern[batch]) for call in calls]), lang)
        if n_batch > 1:
            by_order = any(call.axes == "order" for call in calls)
            key = "notebook.axis" if by_order else "notebook.batch"
            notes.insert(0, t(key, lang=lang, index=batch + 1, count=n_batch))
        mask = None
        if any(call.mask is not None for call in calls):
            mask = np.stack([_mask_of(call, batch, weights.shape[1:]) for call in calls])
        # Self-attention uses one token list; in an encoder, that of the cross-attention keys.
        cross = n_query != n_key or _CROSS.search(kind) is not None
        first, last = (lists[:1], lists[-1:]) if cross else (lists, lists)
        if not cross and "encoder" in kind.lower():
            first, last = lists[::-1], lists[::-1]
        rows = []
        for axis, candidates, length in (("query", first, n_query), ("key", last, n_key)):
            fitting = next((labels for labels in candidates if len(labels) == length), None)
            used |= {id(fitting)}
            rows.append(tokens_for(fitting, length, axis))
        title = kind if len(calls) == 1 else kind.replace("#", f"0–{len(calls) - 1}", 1)
        if kinds[kind] > 1:
            title += f" ({n_query} × {n_key})"
        parts.append(Patterns(title, weights, rows[0], rows[1], mask=mask, notes=notes))
    for labels in lists:
        if id(labels) not in used:
            lengths = sorted({n for part in parts for n in part.weights.shape[2:]})
            raise ValueError(f"{len(labels)} tokens match no axis; the axes have lengths {lengths}")
    return parts


def _mask_of(call: Attention, batch: int, shape: tuple[int, ...]) -> np.ndarray:
    mask = np.array(True) if call.mask is None else as_array(call.mask)
    if mask.ndim == 4:
        mask = mask[batch if mask.shape[0] > 1 else 0]
    return np.broadcast_to(mask, shape)


def _picture(title: str, parts: Sequence[Patterns], said: Iterable[str], lang: str) -> Picture:
    blocks: list[Block] = [Paragraph(words) for words in said]
    for part in parts:
        if len(parts) > 1:
            blocks.append(Paragraph(part.title, is_reading=True))
        blocks += map(Paragraph, part.notes)
        blocks.append(Component("heads_view", _packed(part, lang)))

    def still() -> str:
        """The first head of each part, which is open at the start."""
        return parts_svg("", [part.only_first() for part in parts], lang)

    arrays = {part.title: part.weights for part in parts}
    drawn = partial(parts_svg, title, parts, lang)
    return Picture(title, blocks, lang, arrays, lambda: cells_table(parts), drawn, still)


def _packed(part: Patterns, lang: str) -> bytes:
    whys = part.whys
    thumbnails, cells_of = whole_grid(part.weights, part.allowed)
    return pack_heads_view(
        thumbnails,
        axes_of_part(part, lang),
        cells_of=cells_of,
        blocked_by=None if whys is None else lambda layer, head: whys[layer, head],
        selection=HeadsSelection(opened=(0, 0)),
        alone=True,
        picture=part.picture,
        words=family("components.heads_view", lang=lang),
    )
