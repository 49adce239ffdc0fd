"""One head, key by key: the contribution of each key, as vocabulary words and as logits."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from explorer.analysis.attribution import writes as logits
from explorer.analysis.attribution.ledger import array
from explorer.analysis.attribution.writers import output, per_key
from explorer.analysis.attribution.writes import N_WORDS, Writes, without_head
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.attribution.place import pick_row
from explorer.exhibits.attribution.words import position_of, token_name
from explorer.exhibits.exhibit import OUTPUT
from explorer.exhibits.picking import pick_place
from explorer.exhibits.saying import quoted, quoted_at
from explorer.library import LoadedModel
from explorer.numbers import fixed, percent, signed
from explorer.runs.passes import Steps
from explorer.runs.rerun import require_same_model
from explorer.runs.trace import Trace
from models.foreign.placing import outside
from models.hooks import AttentionSite

MOST_KEYS = 12
"""Keys whose values are projected onto the vocabulary: those with the largest weights."""


@dataclass(frozen=True, eq=False)
class Pushes:
    """The words that a head promotes and suppresses at one query, in total and by key.

    Row 0 is the head as a whole, row i the key `keys[i - 1]`. `pushed` and `held` are ids,
    strongest first; `up` and `down` are their logit changes relative to the vocabulary mean.
    `direct` is True if this reaches the logits directly; otherwise it only shows the direction of
    the vector (the output of an encoder head reaches the logits through cross-attention only).
    """

    keys: tuple[int, ...]
    weights: Float[np.ndarray, " key"]
    pushed: Int[np.ndarray, "row word"]
    up: Float[np.ndarray, "row word"]
    held: Int[np.ndarray, "row word"]
    down: Float[np.ndarray, "row word"]
    direct: bool


def pushes(
    loaded: LoadedModel, traced: Trace, site: AttentionSite, head: int, query: int
) -> Steps[Pushes]:
    """Project a head's output at a query onto the vocabulary, key by key.

    Raises ValueError for a model without logits, IndexError for a head or query out of range.
    """
    require_same_model(loaded, traced)
    if not traced.config.lm_head:
        raise ValueError(f"{loaded.name} has no LM head")
    weights = traced.pattern(site.name)[head][query].astype(np.float64)
    keys = tuple(np.argsort(-weights, kind="stable")[:MOST_KEYS].tolist())
    direct = site.query_stream == traced.stacks[-1].stream
    if direct:
        ledger = yield from output(loaded, traced, [query], (site.name, head))
        of_key = {w.key: at for at, w in enumerate(ledger.writers) if w.key is not None}
        vectors = ledger.pieces[[of_key[key] for key in range(len(weights))], 0]
    else:
        w_o = array(loaded.part(f"{site.name}.w_o").get_parameter("weight"))
        own = w_o.reshape(len(w_o), site.n_heads, -1)[:, head]
        vectors = per_key(traced, site, head, [query])[:, 0] @ own.T
    unembed = outside(loaded.model.unembed.weight)
    rows = torch.tensor(np.stack([vectors.sum(0), *vectors[list(keys)]]), dtype=unembed.dtype)
    with torch.inference_mode():
        brought = rows @ unembed.T
        brought = brought - brought.mean(-1, keepdim=True)
        n = min(N_WORDS, brought.shape[-1])
        up, down = brought.topk(n), brought.topk(n, largest=False)
    return Pushes(
        keys=keys,
        weights=weights[list(keys)],
        pushed=up.indices.numpy(),
        up=up.values.numpy(),
        held=down.indices.numpy(),
        down=down.values.numpy(),
        direct=direct,
    )


KEYS = 8
"""Most keys in the table."""
LEAST = 0.005
"""Smallest weight of a key in the table."""


@dataclass(frozen=True, eq=False)
class HeadOutput:
    """The output of a head on the vocabulary, its part of the logits by key (None: it is no part of
    them), and their difference without it (None: one word only)."""

    whole: Writes
    found: Pushes
    split: Writes | None
    after: float | None
    query: int


def compute(
    loaded: LoadedModel, trace: Trace, writes: Writes, site: AttentionSite, head: int, query: int
) -> Steps[HeadOutput]:
    """The head's part of the logits that `writes` decomposes."""
    pushed = yield from pushes(loaded, trace, site, head, query)
    split, after = None, None
    if pushed.direct:
        words = writes.position, writes.word, writes.other
        split = yield from logits.writes(loaded, trace, *words, (site.name, head))
    if writes.compares:
        after = without_head(loaded, trace, writes, site, head, query)
    return HeadOutput(writes, pushed, split, after, query)


def query_of(view: View) -> int:
    """The query: where the word is predicted, unless the head reads another sequence."""
    return position_of(view)[0] if view.site.query_stream == "tgt" else view.row


def show(one: HeadOutput | None, view: View) -> b.Blocks:
    """The keys with the highest weights, and the experiment without the head."""
    if one is None:
        return
    yield b.Title(view.t("attribution.head_title"), large=True)
    row = () if view.site.query_stream == "tgt" else (pick_row(view),)
    yield b.Row((*pick_place(view, "attribution"), *row))
    query = quoted_at(view, view.trace.query_tokens(view.site.name), one.query)
    lead = "attribution.head_lead" if one.found.direct else "attribution.head_lead_indirect"
    yield b.Prose(view.t(lead, query=query))
    yield b.Pane((_table(view, one),), key="attribution-keys")
    if one.after is not None:
        before = fixed(one.whole.between(one.whole.logits), 3)
        after = fixed(one.after, 3)
        yield b.Prose(view.t("attribution.head_without", query=query, before=before, after=after))
    yield b.Code((pushes,))


def _table(view: View, one: HeadOutput) -> b.Table:
    """The whole head, then its keys with the highest weights."""
    effects, whole, split = one.found, one.whole, one.split
    tokens = view.trace.key_tokens(view.site.name)
    head, parts = [view.t("attribution.key"), view.t("attribution.weight_of")], np.zeros((0, 0))
    of_key: dict[int, int] = {}
    if split is not None:
        titles = {"attribution.to_word": (whole.word, split.shares)}
        if whole.compares:
            titles["attribution.minus_word"] = whole.other, split.differences
        for title, (of_word, _) in titles.items():
            word = quoted(view, token_name(view.loaded, of_word))
            head.append(view.t(title, word=word))
        parts = np.array([values for _, values in titles.values()])
        of_key = {w.key: at for at, w in enumerate(split.writers) if w.key is not None}
    align = "l" + "r" * (len(head) - 1) + "ll"
    head += [view.t("attribution.pushed"), view.t("attribution.held_down")]

    def numbers(keys: list[int]) -> list[str]:
        sums = parts[:, [of_key[key] for key in keys if key in of_key]].sum(1)
        return [signed(float(total), 3) for total in sums]

    bold = f"**{view.t('attribution.whole_head')}**"
    rows = [(bold, "", *numbers([*of_key]), *_words(view, effects, 0))]
    for at in [at for at in range(len(effects.keys)) if effects.weights[at] >= LEAST][:KEYS]:
        token, weight = quoted_at(view, tokens, effects.keys[at]), float(effects.weights[at])
        words = _words(view, effects, at + 1)
        rows.append((token, percent(weight), *numbers([effects.keys[at]]), *words))
    return b.Table(head, rows, align)


def _words(view: View, effects: Pushes, row: int) -> tuple[str, str]:
    """The words that one row promotes and suppresses, as Markdown."""
    sides = []
    for tokens, values in ((effects.pushed, effects.up), (effects.held, effects.down)):
        words = [
            f"{quoted(view, token_name(view.loaded, token))}\u00a0{signed(value)}"
            for token, value in zip(tokens[row].tolist(), values[row].tolist(), strict=True)
        ]
        sides.append(" ".join(words).replace("|", "\\|"))
    return sides[0], sides[1]


EXHIBIT = Exhibit(
    compute,
    show,
    OUTPUT,
    inputs={"query": query_of},
    wait=Wait("attribution.working", after="attribution.writes"),
)
