"""An atlas as one JSON file: computed from the sums, written and read; and a one-word name for what
a head mostly does, derived from its numbers."""

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from explorer.analysis.atlas.measures import COUNTS, Sums
from explorer.analysis.roles import LACKING, MEASURES, OFFSETS, Measure
from explorer.numerics import student
from explorer.once import once
from explorer.problems import InputProblem
from models.hooks import ROLES, AttentionSite, Role

Kind = Literal[Measure, "mixed"]
MOSTLY = 0.5
"""A head is named after what it does in at least this share of the rows."""
ALIGNED = 0.4
"""A cross-attention head aligns if queries and keys share at least this much of the possible
information; 1 would require a different key for every query."""
EVER = 50
"""Minimum number of rows with a repeated token, rare token or punctuation mark to judge by."""
BEYOND = 1.5
"""A name from SOMETIMES needs this many times the weight of uniform attention."""
SOMETIMES: tuple[Measure, ...] = ("induction", "repeat", "punctuation", "rare")
"""Measures for which many rows have no key; they name a head only if nothing else does."""


@dataclass(frozen=True)
class Name:
    """A head's name and its score.

    `share` is the share of the rows with such a key in which it is the heaviest one (`alignment`:
    of the possible information, `spread`: of all rows). `mixed`: no measure reaches half of them,
    and `nearest` comes closest.
    """

    kind: Kind
    nearest: Measure
    share: float


def name_of(
    role: Role,
    share: Float[np.ndarray, " measure"],
    rows: Int[np.ndarray, " measure"],
    chance: Float[np.ndarray, " measure"],
) -> Name:
    """The name of a head, from its `strengths` and the number of rows in which each is possible.

    Measures possible in every row take precedence over those possible in some rows only. Among
    several the largest share wins; ties go to the first of MEASURES.

    A name possible in some rows only must also be BEYOND times the uniform baseline `chance`: if
    most words are rare, attending to rare ones is not a characteristic.
    """
    able = [name for name in MEASURES if name not in LACKING[role]]
    value = {name: float(share[MEASURES.index(name)]) for name in able}
    count = {name: int(rows[MEASURES.index(name)]) for name in able}
    always = [name for name in able if name not in SOMETIMES and count[name]]
    sometimes = [
        name
        for name in able
        if name in SOMETIMES
        and count[name] >= EVER
        and value[name] >= BEYOND * float(chance[MEASURES.index(name)])
    ]
    for group in (always, sometimes):
        reached = [n for n in group if value[n] >= (ALIGNED if n == "alignment" else MOSTLY)]
        if reached:
            best = max(reached, key=lambda name: value[name])
            return Name(best, best, value[best])
    compared = [name for name in (*always, *sometimes) if name != "alignment"]
    if not compared:
        return Name("mixed", "first", 0.0)
    nearest = max(compared, key=lambda name: value[name])
    return Name("mixed", nearest, value[nearest])


FORMAT = 1
FILE = "atlas.json"
BEST = 20
"""Sentences stored per head: those in which it is strongest."""
NEAREST = 5
DIGITS = 4
NORMAL = 1.96
"""Standard errors on each side of a mean in a file: the 95 % interval of a single head."""
RATE = 0.05
"""The rate, at most, at which an interval of some head does not contain its true cost."""
MOST_BYTES = 64_000_000
"""Largest file that is read; the atlas of a model with 1,024 heads is a tenth of this."""


@dataclass(frozen=True)
class About:
    """The source of the numbers: the model, the hash of its weights, the corpus."""

    model: str
    weights: str
    corpus: str
    digest: str
    credit: str = ""
    reverse: bool = False


@dataclass(frozen=True)
class Text:
    """A sentence of the corpus, its translation if it has one, and its credit."""

    source: str
    target: str = ""
    credit: str = ""


@dataclass(frozen=True)
class Head:
    """One head: `number` counts over all sites of the model; layer and head count within a role."""

    number: int
    role: Role
    layer: int
    head: int


@dataclass(frozen=True, eq=False)
class Atlas:
    """What each head of a model does over a corpus; NaN where a number is undefined.

    `share` is the share of rows whose heaviest key is of the kind measured, `weight` the mean
    weight on such keys, `rows` the number of rows with such a key, and `chance` the mean weight on
    it under uniform attention. `entropy` and its standard deviation `spread` over rows are in bits,
    `distance` in tokens. `by_offset` is the mean weight at a distance over rows with a key there.
    `cost` is the mean loss in
    log-probability per token when the head is ablated; `low` and `high` are its 95 % interval over
    `cost_sentences` sentences, for this head alone (`ends`: for all heads together). `near` are the
    NEAREST heads of the same role, padded with -1, and `alike` the cosine of their patterns.
    `best` are the indices of the `texts` that best show what the head's name says, in descending
    order. `rare` marks the tokens of the vocabulary that are rare in the corpus.
    """

    about: About
    heads: tuple[Head, ...]
    counts: Mapping[str, int]
    share: Float[np.ndarray, "head measure"]
    weight: Float[np.ndarray, "head measure"]
    rows: Int[np.ndarray, "head measure"]
    chance: Float[np.ndarray, "head measure"]
    entropy: Float[np.ndarray, " head"]
    spread: Float[np.ndarray, " head"]
    distance: Float[np.ndarray, " head"]
    by_offset: Float[np.ndarray, "head offset"]
    cost: Float[np.ndarray, " head"]
    low: Float[np.ndarray, " head"]
    high: Float[np.ndarray, " head"]
    cost_sentences: int
    near: Int[np.ndarray, "head near"]
    alike: Float[np.ndarray, "head near"]
    best: tuple[tuple[int, ...], ...]
    texts: tuple[Text, ...]
    rare: Bool[np.ndarray, " token"]

    @once
    def names(self) -> tuple[Name, ...]:
        """The name of every head."""
        return tuple(
            name_of(h.role, self.strengths[h.number], self.rows[h.number], self.chance[h.number])
            for h in self.heads
        )

    @once
    def ends(self) -> tuple[Float[np.ndarray, " head"], Float[np.ndarray, " head"]]:
        """The ends of the costs' intervals that hold for all heads together in 95 % of samples:
        Student's t, corrected for the number of heads (Bonferroni)."""
        measured = int(np.isfinite(self.low).sum())
        if not measured:
            return self.low, self.high
        wider = student(RATE / measured, max(1, self.cost_sentences - 1)) / NORMAL
        return self.cost - wider * (self.cost - self.low), self.cost + wider * (
            self.high - self.cost
        )

    @property
    def strengths(self) -> Float[np.ndarray, "head measure"]:
        """`share`; for alignment, a measure of whole sentences, the mean weight."""
        return strengths(self.share, self.weight)

    def of(self, role: Role, layer: int, head: int) -> Head | None:
        """The head at this layer and index; None if the model of this atlas has none."""
        place = (role, layer, head)
        return next((h for h in self.heads if (h.role, h.layer, h.head) == place), None)


def strengths(share: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The shares; for alignment, the mean weight."""
    at = MEASURES.index("alignment")
    values = share.copy()
    values[..., at] = weight[..., at]
    return values


def heads_of(sites: Sequence[AttentionSite]) -> tuple[Head, ...]:
    """All heads of a model, numbered over its sites."""
    places = [(site.role, site.layer, head) for site in sites for head in range(site.n_heads)]
    return tuple(Head(number, *place) for number, place in enumerate(places))


def numbers_of(sums: Sums, sites: Sequence[AttentionSite]) -> dict[str, Any]:
    """The arrays of an Atlas: sums divided by their counts."""
    heads = heads_of(sites)
    of_site = np.repeat(np.arange(len(sites)), [site.n_heads for site in sites])
    rows, n_rows = sums.rows[of_site], sums.n_rows[of_site]
    has = sums.has_offset[of_site]
    entropy = _over(sums.entropy[:, 0], n_rows)
    square = _over(sums.entropy[:, 1], n_rows) - np.square(entropy)
    is_self = np.array([sites[int(at)].kind == "self" for at in of_site])
    share, weight = _over(sums.top, rows), _over(sums.weight, rows)
    for head in heads:
        lacking = [MEASURES.index(name) for name in LACKING[head.role]]
        share[head.number, lacking] = weight[head.number, lacking] = np.nan
    n, total, squares = sums.cost.T
    cost = _over(total, n)
    error = np.sqrt(np.maximum(0.0, _over(squares, n) - np.square(cost)) / np.maximum(n - 1, 1))
    error = np.where(n > 1, error, np.nan)
    near, alike = _nearest(sums.gram, heads)
    return {
        "share": share,
        "weight": weight,
        "rows": rows,
        "chance": _over(sums.chance[of_site], rows),
        "entropy": entropy,
        "spread": np.sqrt(np.maximum(0.0, square)),
        "distance": np.where(is_self, _over(sums.distance, n_rows), np.nan),
        "by_offset": _over(sums.by_offset, has),
        "cost": cost,
        "low": cost - NORMAL * error,
        "high": cost + NORMAL * error,
        "cost_sentences": int(n.max(initial=0)),
        "near": near,
        "alike": alike,
    }


def atlas_of(
    sums: Sums,
    sites: Sequence[AttentionSite],
    about: About,
    rare: Bool[np.ndarray, " token"],
    text_at: Mapping[int, Text] | None = None,
) -> tuple[Atlas, tuple[int, ...]]:
    """The Atlas of these sums, and the offsets of the lines whose texts it quotes, in order.

    `text_at` gives the texts by offset, if they are already known.
    """
    numbers = numbers_of(sums, sites)
    heads = heads_of(sites)
    power = strengths(numbers["share"], numbers["weight"])
    offsets: dict[int, int] = {}
    best = []
    for head in heads:
        n = head.number
        kind = name_of(head.role, power[n], numbers["rows"][n], numbers["chance"][n]).nearest
        at = MEASURES.index(kind)
        value = sums.best_value[head.number, at]
        lines = sums.best_line[head.number, at][np.isfinite(value) & (value > 0)][:BEST]
        best.append(tuple(offsets.setdefault(int(line), len(offsets)) for line in lines))
    texts = tuple((text_at or {}).get(offset, Text("")) for offset in offsets)
    counts = {name: sums.count(name) for name in COUNTS}
    atlas = Atlas(about, heads, counts, **numbers, best=tuple(best), texts=texts, rare=rare)
    return atlas, tuple(offsets)


def _over(total: np.ndarray, n: np.ndarray) -> np.ndarray:
    """total / n; NaN where n is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio: np.ndarray = np.where(np.asarray(n) > 0, total / np.asarray(n, np.float64), np.nan)
    return ratio


def _nearest(gram: np.ndarray, heads: Sequence[Head]) -> tuple[np.ndarray, np.ndarray]:
    """For each head, the heads of its role with the largest pattern cosine, and these cosines."""
    length = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    cosine = gram / length[:, None] / length
    roles = np.array([ROLES.index(head.role) for head in heads])
    cosine[roles[:, None] != roles] = -1.0
    np.fill_diagonal(cosine, -1.0)
    n = min(NEAREST, max(0, len(heads) - 1))
    order = np.argsort(-cosine, axis=1, kind="stable")[:, :n]
    alike = np.take_along_axis(cosine, order, axis=1)
    return np.where(alike >= 0, order, -1), np.where(alike >= 0, alike, np.nan)


_ARRAYS = (
    "share", "weight", "rows", "chance", "entropy", "spread", "distance", "by_offset",
    "cost", "low", "high", "near", "alike",
)  # fmt: skip
_WHOLE = ("rows", "near")


def to_json(atlas: Atlas) -> str:
    """The file's text: deterministic, four decimals."""
    record = {
        "format": FORMAT,
        "about": vars(atlas.about),
        "counts": dict(atlas.counts),
        "heads": [[head.role, head.layer, head.head] for head in atlas.heads],
        "measures": MEASURES,
        "cost_sentences": atlas.cost_sentences,
        **{name: _plain(getattr(atlas, name), name in _WHOLE) for name in _ARRAYS},
        "best": atlas.best,
        "tokens": len(atlas.rare),
        "rare": base64.b64encode(np.packbits(atlas.rare).tobytes()).decode(),
        "texts": [[text.source, text.target, text.credit] for text in atlas.texts],
    }
    lines = [
        f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}"
        for name, value in record.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _plain(array: np.ndarray, whole: bool) -> Any:
    """Nested lists; NaN becomes null."""
    if array.ndim > 1:
        return [_plain(row, whole) for row in array]
    if whole:
        return [int(value) for value in array]
    return [None if math.isnan(v) else round(float(v), DIGITS) + 0.0 for v in array]


def read_atlas(path: Path) -> Atlas:
    """Read an untrusted `atlas.json`. Raises InputProblem `broken_atlas`."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES // 1_000_000} MB")
        return _atlas(json.loads(path.read_text(encoding="utf-8")))
    except _UNREADABLE as error:
        raise InputProblem("broken_atlas", name=path.name, reason=str(error)) from error


_UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    OverflowError,
    RecursionError,  # non-finite numbers and nested lists
)


def _atlas(record: dict[str, Any]) -> Atlas:
    if record["format"] != FORMAT or tuple(record["measures"]) != MEASURES:
        raise ValueError(f"format {record['format']!r}")
    heads = tuple(
        Head(number, ROLES[ROLES.index(role)], int(layer), int(head))
        for number, (role, layer, head) in enumerate(record["heads"])
    )
    arrays = {
        name: np.array(record[name], np.int64 if name in _WHOLE else np.float64) for name in _ARRAYS
    }
    for name, array in arrays.items():
        wanted = (len(heads), *_width(name, arrays))
        if array.shape != wanted:
            raise ValueError(f"{name}: {array.shape}, {wanted}")
    texts = tuple(Text(*map(str, text)) for text in record["texts"])
    best = tuple(tuple(int(at) for at in row) for row in record["best"])
    if len(best) != len(heads) or any(not 0 <= at < len(texts) for row in best for at in row):
        raise ValueError("best")
    bits = np.frombuffer(base64.b64decode(record["rare"]), np.uint8)
    tokens = int(record["tokens"])
    if not 0 <= tokens <= 8 * len(bits):
        raise ValueError(f"tokens: {tokens}, {8 * len(bits)}")
    rare = np.unpackbits(bits, count=tokens).astype(bool)
    if arrays["near"].size and not -1 <= arrays["near"].min() <= arrays["near"].max() < len(heads):
        raise ValueError("near")
    return Atlas(
        About(**record["about"]),
        heads,
        {name: int(record["counts"][name]) for name in COUNTS},
        **arrays,
        cost_sentences=int(record["cost_sentences"]),
        best=best,
        texts=texts,
        rare=rare,
    )


def _width(name: str, arrays: Mapping[str, np.ndarray]) -> tuple[int, ...]:
    """The shape of this field for one head; () for a scalar."""
    if name in ("share", "weight", "rows", "chance"):
        return (len(MEASURES),)
    if name == "by_offset":
        return (OFFSETS,)
    return arrays["near"].shape[1:2] if name in ("near", "alike") else ()
