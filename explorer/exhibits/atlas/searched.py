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

from explorer.analysis.atlas.measures import KINDS, SequenceKeys, by_offset, keys_of, read_patterns
from explorer.analysis.atlas.reading import batches, encode
from explorer.analysis.atlas.store import Text
from explorer.analysis.atlas.sums import OFFSETS
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
    site: AttentionSite,
    pattern: Float[Tensor, "batch head query key"],
    chosen: Tensor,  # Bool [batch, query]: the rows that count
    rows: Rows,
    keys: SequenceKeys,
) -> Float[Tensor, "batch head feature"]:
    """The features of each sentence and head: where the weight of its mean row lies."""
    pattern = pattern * chosen[:, None, :, None]
    n = chosen.sum(1).clamp_min(1)[:, None, None]
    most = keys.n.clamp_min(2).to(pattern.dtype).log2()[:, None, None]
    far = by_offset(pattern)[..., :-1]
    on = pattern.sum(2)  # [batch, head, key]
    kinds = on @ keys.kinds
    same = torch.zeros_like(on[..., :1])
    if site.kind == "self":
        ids = keys.tokens
        alike = (ids[:, :, None] == ids[:, None, :]) & keys.words[:, None]
        alike.diagonal(dim1=1, dim2=2).zero_()
        same = (pattern * alike[:, None]).sum((2, 3))[..., None]
    entropies = -(pattern * pattern.clamp_min(1e-30).log2()).sum((2, 3))[..., None]
    parts = [far, kinds, on[..., :1], same, entropies / most]
    return torch.cat(parts, dim=-1) / n


def painted_features(
    loaded: LoadedModel,
    site: AttentionSite,
    rows: Rows,
    pattern: Float[np.ndarray, "query key"],
    rare: np.ndarray,
) -> Float[np.ndarray, " feature"]:
    """The features of a pattern over one sentence; rows without weight are ignored, and the others
    are normalized to sum to 1."""
    weights = torch.from_numpy(pattern.astype(np.float32))
    total = weights.sum(1)
    chosen = total > 0
    weights = weights / total.clamp_min(1e-12)[:, None]
    keys = keys_of(rows, site.key_stream, known_of(loaded, rare))
    features = features_of(site, weights[None, None], chosen[None], rows, keys)
    return features[0, 0].double().numpy()


def search(
    loaded: LoadedModel, texts: Sequence[Text], role: Role, rare: np.ndarray
) -> Steps[HeadFeatures]:
    """Compute the features of every head of a role, text by text; yields (done, total) in texts."""
    known = known_of(loaded, rare)
    sites = [site for site in loaded.sites if site.role == role]
    encoded, _ = encode(loaded, lines_of_texts(texts))
    of_batches, numbers = [], []
    for batch in batches(loaded, encoded):
        patterns = read_patterns(loaded, batch.rows)
        of_sites = []
        for site in sites:
            keys = keys_of(batch.rows, site.key_stream, known)
            pattern, mask = patterns.patterns[site.name], patterns.masks[site.name]
            valid = batch.rows.valid(site.query_stream)
            chosen = (mask[:, 0].sum(-1) > 1) & valid
            of_sites.append(features_of(site, pattern, chosen, batch.rows, keys))
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


def show(found: HeadFeatures | None, view: View) -> b.Blocks:
    """Whether there is anything to search."""
    if found is not None and not found.texts:
        yield b.Hint(view.t("atlas.search_nothing"), "search_off")


EXHIBIT = Exhibit(
    searched, show, inputs=WHICH, wait=Wait("atlas.searching", after="atlas.measured")
)
