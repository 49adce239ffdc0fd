"""Heads that share keys and values: the size of the KV cache, and what sharing would change."""

from dataclasses import dataclass
from functools import partial

import torch

from explorer.analysis.score.steps import attended, averaged
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.choices import PartChoices
from explorer.exhibits.picking import slider
from explorer.exhibits.saying import in_a_row
from explorer.exhibits.score.place import is_open
from explorer.figures.score import groups
from explorer.numbers import percent
from explorer.runs.trace import Trace
from models.hooks import AttentionSite


@dataclass(frozen=True, eq=False)
class Grouped:
    """A site whose query heads share keys and values in `n_kv_heads` groups.

    `group_of[i]` is the kv head that query head i reads. `cache_bytes` is the KV-cache size per
    token in all layers of this kind of attention, in float32. `moved` is the largest change of any
    weight (0 to 1) if the model's own keys are averaged into that many heads, and `tiled` the same
    if the heads are then repeated in the wrong order (`repeat` instead of `repeat_interleave`).
    Both are None if the model itself has no more kv heads than that.
    """

    n_kv_heads: int
    group_of: tuple[int, ...]
    cache_bytes: int
    moved: float | None
    tiled: float | None


def possible_groups(site: AttentionSite) -> tuple[int, ...]:
    """The numbers of kv heads that divide the heads of a site evenly."""
    return tuple(n for n in range(1, site.n_heads + 1) if site.n_heads % n == 0)


def grouped(trace: Trace, site: AttentionSite, n_kv_heads: int) -> Grouped:
    """What sharing keys and values would change here. Raises ValueError for an uneven number.

    Averaging the heads of a group is the first step of Ainslie et al. 2023 (§2.1) for turning a
    trained model into one with fewer kv heads; they then continue training, which is not done here.
    """
    if n_kv_heads not in possible_groups(site):
        raise ValueError(f"{site.n_heads} heads cannot share {n_kv_heads} kv heads evenly")
    group = site.n_heads // n_kv_heads
    n_layers = sum(layer.kind == site.kind and layer.stack == site.stack for layer in trace.sites)
    k = torch.tensor(trace.activations[site.hook("k")])
    own = torch.tensor(trace.pattern(site.name))
    moved = tiled = None
    if len(k) > n_kv_heads:
        shared = averaged(k[None], n_kv_heads)
        moved, tiled = (
            float((attended(trace, site, k=keys, v=keys)[1][0] - own).abs().max())
            for keys in (shared, shared.repeat(1, group, 1, 1))
        )
    return Grouped(
        n_kv_heads=n_kv_heads,
        group_of=tuple(head // group for head in range(site.n_heads)),
        cache_bytes=2 * n_layers * n_kv_heads * trace.config.d_head * 4,
        moved=moved,
        tiled=tiled,
    )


def groups_of(view: View) -> int:
    """The chosen number of key/value heads, by default the model's own."""
    asked = view.choices(PartChoices).kv_heads
    return asked if asked in possible_groups(view.site) else view.loaded.config.kv_heads


def show(grouping: Grouped, view: View) -> b.Blocks:
    """The number of groups, which head reads which, the size of the cache, and the changes."""
    yield b.Prose(view.t("score.groups_lead"))
    options, chosen = possible_groups(view.site), grouping.n_kv_heads
    if len(options) > 1:
        yield slider(view, "score.kv_heads", options, chosen, display=b.Display(320))
    draw = partial(groups, grouping.group_of, words=view.words("figures.score"))
    yield b.Chart("score.groups", draw, view.t("score.asides.groups"))
    most = grouping.cache_bytes // chosen * view.site.n_heads
    values = {
        "bytes": f"{grouping.cache_bytes:,}",
        "most": f"{most:,}",
        "heads": view.site.n_heads,
        "kv": chosen,
        "own": view.loaded.config.kv_heads,
    }
    words = [view.t("score.groups_reading", **values)]
    if grouping.moved is not None and grouping.tiled is not None:
        moved, tiled = percent(grouping.moved), percent(grouping.tiled)
        words.append(view.t("score.groups_moved", kv=chosen, moved=moved, tiled=tiled))
    yield b.Sentence("aside", in_a_row(words))
    yield b.Code((grouped,), first=True)


EXHIBIT = Exhibit(grouped, show, inputs={"n_kv_heads": groups_of}, open=partial(is_open, "groups"))
