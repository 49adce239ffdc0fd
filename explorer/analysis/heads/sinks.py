"""Attention sinks: keys on which a head puts weight that it does not need.

A softmax must put its weight somewhere. A head with nothing to do puts it on keys whose values are
almost zero: the first token, an end mark, punctuation (Kobayashi et al. 2020; Xiao et al. 2024). A
large weight alone shows no sink: a head may attend to a full stop and use its value.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Float

from explorer.labels import NUMBERS
from explorer.library import LoadedModel
from explorer.runs.trace import Trace
from models.hooks import AttentionSite
from models.rows import Stream

KeyClass = Literal["first", "end", "special", "punctuation", "pad"]
CLASSES: tuple[KeyClass, ...] = get_args(KeyClass)
MANY, SMALL = 3, 1 / 3
"""A sink has at least MANY times the weight of another key, and values at most SMALL times as long.
Models with random weights have none."""


@dataclass(frozen=True, eq=False)
class Sinks:
    """The sinks of each head of a site, with the evidence by class of keys.

    `share` is the mean weight on a class in the rows that may attend to it and to something else,
    `chance` the same under uniform attention, `length` the mean ||v W_O|| of its keys as a multiple
    of the other keys'. NaN without such rows or keys; `length` also if no weight is large.
    `left_out` are the keys of all classes that are sinks, and `weight` the part of all of a head's
    weight that is on them.
    """

    share: Float[np.ndarray, "class head"]
    chance: Float[np.ndarray, "class head"]
    length: Float[np.ndarray, "class head"]
    is_sink: Bool[np.ndarray, "class head"]
    left_out: Bool[np.ndarray, "head key"]
    weight: Float[np.ndarray, " head"]


def key_classes(traced: Trace, stream: Stream) -> Bool[np.ndarray, "class key"]:
    """Which tokens of a sequence are of which class, each of at most one: padding, the first one,
    end marks, other special tokens such as a language mark, tokens without a letter or digit."""
    is_source, labels = stream == "src", traced.str_tokens(stream)
    tokens = traced.src_tokens if is_source else traced.tgt_tokens
    valid = traced.src_valid if is_source else traced.tgt_valid
    ends = traced.marks.of(stream).all_ends
    classes = np.zeros((len(CLASSES), len(tokens)), bool)
    for place, (token, label) in enumerate(zip(tokens, labels, strict=True)):
        if not valid[place]:
            name: KeyClass = "pad"
        elif place == 0:
            name = "first"
        elif token in ends:
            name = "end"
        elif getattr(label, "special", False):
            name = "special"
        elif not any(map(str.isalnum, label.rstrip(NUMBERS))):
            name = "punctuation"
        else:
            continue
        classes[CLASSES.index(name), place] = True
    return classes


def sinks_of(loaded: LoadedModel, traced: Trace, site: AttentionSite) -> Sinks:
    """The sinks of the heads of a site. Values are read only if a weight is large."""
    classes = key_classes(traced, site.key_stream)
    pattern, mask = traced.pattern(site.name).astype(np.float64), traced.mask(site.name)
    real = traced.src_valid if site.query_stream == "src" else traced.tgt_valid
    open_to = np.broadcast_to(mask, pattern.shape) & real[:, None]
    n_open, n_such = open_to.sum(-1, keepdims=True), open_to @ classes.T.astype(int)
    counts = (n_such > 0) & (n_such < n_open)  # [head, query, class]
    n_rows = np.where(counts.any(1), counts.sum(1), np.nan)
    share = ((pattern @ classes.T) * counts).sum(1) / n_rows
    chance = (n_such / np.maximum(n_open, 1) * counts).sum(1) / n_rows
    is_heavy = (n_rows > 1) & (share * (1 - chance) >= MANY * chance * (1 - share))
    length = np.full(share.shape, np.nan)
    if is_heavy.any():
        lengths = written_lengths(loaded, traced, site, "v")
        others = ~classes & ~classes[CLASSES.index("pad")]
        for at in np.flatnonzero(is_heavy.any(0) & others.any(1)):
            length[:, at] = lengths[:, classes[at]].mean(1) / lengths[:, others[at]].mean(1)
    is_sink = is_heavy & (length <= SMALL)
    left_out = is_sink @ classes
    weight = (pattern * left_out[:, None]).sum((1, 2)) / np.maximum(pattern.sum((1, 2)), 1e-12)
    return Sinks(share.T, chance.T, length.T, is_sink.T, left_out, weight)


def written_lengths(
    loaded: LoadedModel, traced: Trace, site: AttentionSite, what: Literal["v", "z"]
) -> Float[np.ndarray, "head pos"]:
    """||v W_O|| of each key, or ||z W_O|| of each query, by head."""
    w_o = loaded.part(f"{site.name}.w_o").get_parameter("weight")  # [d_model, head * d_head]
    slices = w_o.detach().numpy().reshape(len(w_o), site.n_heads, -1)  # [d_model, head, d_head]
    vectors = traced.activations[site.hook(what)]
    vectors = np.repeat(vectors, site.n_heads // len(vectors), axis=0)  # a copy per shared value
    return np.asarray(np.linalg.norm(np.einsum("hpd,mhd->hpm", vectors, slices), axis=-1))


def renormalised(
    pattern: Float[np.ndarray, "head query key"], left_out: Bool[np.ndarray, "head key"]
) -> Float[np.ndarray, "head query key"]:
    """A pattern without some keys of some heads, the rest of their rows scaled to add up to 1; a
    row with nothing left is 0."""
    rest = np.where(left_out[:, None], np.float32(0), pattern)
    total, has_some = rest.sum(-1, keepdims=True), left_out.sum(-1)[:, None, None] > 0
    return np.divide(rest, total, out=rest, where=has_some & (total > 0))


def without_sinks(loaded: LoadedModel, traced: Trace) -> Trace:
    """The run with `renormalised` patterns, without the sinks of each head; all else, masks and
    outputs too, as the model computed it. A long text, whose patterns are not stored, as it is."""
    patterns = {}
    for site in traced.sites if traced.patterns_kept else ():
        left_out = sinks_of(loaded, traced, site).left_out
        if left_out.any():
            patterns[site.hook("pattern")] = renormalised(traced.pattern(site.name), left_out)
    if not patterns:
        return traced
    return replace(traced, activations=traced.activations | patterns, without_sinks=True)
