"""Reverse search: the features by which a pattern is compared with all heads and sentences.

Sentences differ in length, so patterns are compared by where their weight lies: at which distance,
on the first and last key, on punctuation, rare and repeated words, and how spread out it is. Each
pattern becomes such a vector, a mean over rows. All heads have much in common, so the mean over all
heads is subtracted, and each feature is divided by its spread within one head.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from explorer.analysis.atlas.measures import read_attention
from explorer.analysis.atlas.reading import KINDS, batches, encode, keys_of
from explorer.analysis.atlas.store import Text
from explorer.analysis.roles import OFFSETS, AttentionRows, SequenceKeys
from explorer.engine import cache
from explorer.engine.caching import cached
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.atlas.measured import WHICH, Which, atlas, known_of, lines_of_texts
from explorer.library import LoadedModel
from explorer.runs.passes import Steps
from models.hooks import AttentionSite, Role
from models.rows import Rows

FEATURES = OFFSETS + len(KINDS) + 3
"""Distances; last key, punctuation, rare words; first key, same token, spread."""
LEAST_SPREAD = 0.01
"""Added to each spread, so that a nearly constant feature does not dominate."""
MOST_TEXTS = 240
"""Sentences that are searched: the atlas's, taken in turn from each head."""


@dataclass(frozen=True, eq=False)
class HeadFeatures:
    """Features of every head of a `role`, [text, head, feature]; `texts` are the indices of the
    texts that the model could read."""

    role: Role
    texts: tuple[int, ...]
    features: Float[np.ndarray, "text head feature"]

    def scaled(self, features: Float[np.ndarray, "*some feature"]) -> np.ndarray:
        """Features minus the mean of all heads, divided by their spread within one head."""
        spread = np.sqrt(self.features.var(axis=0).mean(axis=0)) + LEAST_SPREAD
        scaled: np.ndarray = (features - self.features.mean(axis=(0, 1))) / spread
        return scaled

    def of_heads(self, wanted: Float[np.ndarray, " feature"]) -> Float[np.ndarray, " head"]:
        """The similarity of each head's mean over all texts to the wanted features, -1 to 1."""
        return alike(self.scaled(self.features.mean(axis=0)), self.scaled(wanted))

    def of_texts(self, wanted: Float[np.ndarray, " feature"]) -> Float[np.ndarray, "text head"]:
        """The similarity of each head in each text to the wanted features, -1 to 1."""
        return alike(self.scaled(self.features), self.scaled(wanted))


def features_of(
    site: AttentionSite, rows: AttentionRows, keys: SequenceKeys
) -> Float[Tensor, "batch head feature"]:
    """The features of each sentence and head: where the weight of its mean row lies."""
    shares = rows.by_key(keys.kinds)
    nothing = torch.zeros_like(shares["first"].weight)
    repeats = rows.repeats(keys, causal=False) if site.kind == "self" else {}
    weights = [shares[name].weight for name in (*KINDS, "first")]
    weights.append(repeats["repeat"].weight if repeats else nothing)
    most = keys.n.clamp_min(2).to(rows.pattern.dtype).log2()[:, None]
    weights.append(rows.entropies.sum(-1) / most)
    features = torch.cat([rows.by_offset[..., :-1], torch.stack(weights, -1)], -1)
    return features / rows.n_rows.clamp_min(1)[..., None]


def painted_features(
    loaded: LoadedModel,
    site: AttentionSite,
    rows: Rows,
    pattern: Float[np.ndarray, "query key"],
    rare: np.ndarray,
) -> Float[np.ndarray, " feature"]:
    """The features of a pattern over one sentence; rows without weight are ignored, and the others
    are normalized to sum to 1."""
    weights = torch.from_numpy(pattern.astype(np.float32))[None, None]
    total = weights.sum(-1)
    shares = weights / total.clamp_min(1e-12)[..., None]
    chosen = AttentionRows.of(shares, weights > 0, total > 0)
    keys = keys_of(rows, site.key_stream, known_of(loaded, rare))
    return features_of(site, chosen, keys)[0, 0].double().numpy()


def search(
    loaded: LoadedModel, texts: Sequence[Text], role: Role, rare: np.ndarray
) -> Steps[HeadFeatures]:
    """Compute the features of every head of a role, text by text; yields (done, total) in texts."""
    known = known_of(loaded, rare)
    sites = [site for site in loaded.sites if site.role == role]
    encoded, _ = encode(loaded, lines_of_texts(texts))
    of_batches, numbers = [], []
    for batch in batches(loaded, encoded):
        attention = read_attention(loaded, batch.rows, sites)
        of_sites = [
            features_of(site, attention[site.name], keys_of(batch.rows, site.key_stream, known))
            for site in sites
        ]
        of_batches.append(torch.cat(of_sites, dim=1).double().numpy())
        numbers += batch.lines.tolist()
        yield len(numbers), len(encoded)
    n_heads = sum(site.n_heads for site in sites)
    features = np.concatenate(of_batches) if of_batches else np.zeros((0, n_heads, FEATURES))
    return HeadFeatures(role, tuple(numbers), features)


def alike(
    features: Float[np.ndarray, "*some feature"], wanted: Float[np.ndarray, " feature"]
) -> Float[np.ndarray, "*some"]:
    """The cosine similarity of each one with the wanted features."""
    lengths = np.linalg.norm(features, axis=-1) * np.linalg.norm(wanted)
    cosines: np.ndarray = (features @ wanted) / np.maximum(lengths, 1e-12)
    return cosines


def in_sentence(
    patterns: Float[np.ndarray, "head query key"], wanted: Float[np.ndarray, "query key"]
) -> Float[np.ndarray, " head"]:
    """The cosine similarity of each head's pattern with the wanted one, cell by cell, over the
    wanted pattern's rows that have weight."""
    rows = wanted.sum(1) > 0
    flat = patterns[:, rows].reshape(len(patterns), -1).astype(np.float64)
    return alike(flat, wanted[rows].ravel().astype(np.float64))


def texts_to_search(best: Sequence[Sequence[int]], most: int = MOST_TEXTS) -> tuple[int, ...]:
    """The indices of the atlas's texts: the first one of each head, then the second of each."""
    chosen: dict[int, None] = {}
    for at in range(max(map(len, best), default=0)):
        for of_head in best:
            if at < len(of_head) and len(chosen) < most:
                chosen.setdefault(of_head[at])
    return tuple(chosen)


def numbers_to_search(which: Which) -> tuple[int, ...]:
    """The indices of the searched texts, in order."""
    return texts_to_search(atlas(which).best)


@cached
def searched(which: Which, kind: Role) -> Steps[HeadFeatures]:
    """The features of every head of a role on the sentences of an atlas. Raises InputProblem."""
    whole = yield from atlas.steps(which)
    texts = [whole.texts[number] for number in numbers_to_search(which)]
    return (yield from search(cache.open_model(which.model), texts, kind, whole.rare))


def show(head_features: HeadFeatures | None, view: View) -> b.Blocks:
    """Whether there is anything to search."""
    if head_features is not None and not head_features.texts:
        yield b.Hint(view.t("atlas.search_nothing"), "search_off")


EXHIBIT = Exhibit(
    searched, show, inputs=WHICH, wait=Wait("atlas.searching", after="atlas.measured")
)
