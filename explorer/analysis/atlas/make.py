"""Make an atlas over a file or a few sentences; what each head does in single ones."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from explorer.analysis.atlas.ablation import GROUP, SENTENCES, cost_sums, groups
from explorer.analysis.atlas.measures import Adding, Sums
from explorer.analysis.atlas.reading import (
    LINES,
    Corpus,
    Encoded,
    Line,
    batch_of,
    batches,
    encode,
    line_at,
    lines_of,
    vocabulary,
    vocabulary_of,
)
from explorer.analysis.atlas.store import (
    FILE,
    About,
    Atlas,
    Text,
    atlas_of,
    heads_of,
    numbers_of,
    read_atlas,
    strengths,
)
from explorer.analysis.roles import MEASURES
from explorer.library import LoadedModel, split_step
from explorer.problems import InputProblem
from explorer.runs.passes import Steps

HERE = "here"
"""The corpus name of an atlas measured on given sentences."""


def over_file(
    loaded: LoadedModel,
    corpus: Corpus,
    *,
    reverse: bool = False,
    ablate: int = SENTENCES,
    credit: str = "",
) -> Steps[Atlas]:
    """The atlas of a model over a file; yields (pieces of work done, all pieces).

    `ablate` is the number of sentences in which heads are ablated; `credit` is shown under quoted
    sentences. Raises InputProblem `nothing_measured` if no line could be read; OSError.
    """
    path, costs = corpus.path, groups(corpus.sample, ablate)
    sample = (line_at(path, at, reverse) for at in corpus.sample)
    known = vocabulary_of(loaded, filter(None, sample))
    sums, done, pieces = Sums.none(loaded.sites), 0, len(costs) + -(-corpus.n_lines // LINES)
    for offsets in costs:
        lines = filter(None, (line_at(path, at, reverse) for at in offsets))
        sums.cost[:] += _costs(loaded, encode(loaded, [*lines])[0])
        done += 1
        yield done, pieces
    for piece in lines_of(corpus, reverse):
        adding = Adding(loaded, known)
        encoded, too_long = encode(loaded, piece.read)
        for batch in batches(loaded, encoded):
            adding.add(batch)
        adding.skipped(too_long=piece.too_long + too_long, unreadable=piece.unreadable)
        sums = sums + adding.total()
        done += 1
        yield done, pieces
    if not sums.count("sentences"):
        too_long, unreadable = sums.count("too_long"), sums.count("unreadable")
        raise InputProblem(
            "nothing_measured", name=path.name, too_long=too_long, unreadable=unreadable
        )
    weights = weights_digest(loaded)
    about = About(loaded.name, weights, path.name, corpus.digest, credit, reverse)
    rare = known.rare.numpy()
    _, offsets = atlas_of(sums, loaded.sites, about, rare)
    texts = {at: _text(loaded, line) for at in offsets if (line := line_at(path, at, reverse))}
    return atlas_of(sums, loaded.sites, about, rare, texts)[0]


def over_texts(loaded: LoadedModel, texts: Sequence[Text], *, ablate: bool = True) -> Steps[Atlas]:
    """An atlas over a few texts; yields (done, total) in texts. With `ablate`, every head is
    ablated in GROUP of them. Raises InputProblem `nothing_measured`."""
    lines = _lines(texts)
    adding = Adding(loaded, vocabulary_of(loaded, lines))
    encoded, too_long = encode(loaded, lines)
    if not encoded:
        raise InputProblem("nothing_measured", name=HERE, too_long=too_long, unreadable=0)
    done, total = 0, len(encoded) + (GROUP if ablate else 0)
    for batch in batches(loaded, encoded):
        adding.add(batch)
        done += len(batch.lines)
        yield done, total
    if ablate:
        adding.sums.cost[:] = _costs(loaded, encoded[:GROUP])
        yield total, total
    adding.skipped(too_long=too_long)
    rare, about = adding.vocabulary.rare.numpy(), About(loaded.name, "", HERE, "")
    return atlas_of(adding.total(), loaded.sites, about, rare, dict(enumerate(texts)))[0]


def _costs(loaded: LoadedModel, encoded: Sequence[Encoded]) -> Float[np.ndarray, "head 3"]:
    """`cost_sums` of any number of sentences, zeros for none."""
    if not encoded:
        return np.zeros((sum(site.n_heads for site in loaded.sites), 3))
    return cost_sums(loaded, batch_of(loaded, encoded))


def _lines(texts: Sequence[Text]) -> list[Line]:
    """Texts as the lines of a corpus; their indices serve as offsets."""
    return [Line(at, text.source, text.target, text.credit) for at, text in enumerate(texts)]


def _text(loaded: LoadedModel, line: Line) -> Text:
    pair = "src" in loaded.model.reads
    return Text(line.source, line.target if pair else "", line.credit)


@dataclass(frozen=True, eq=False)
class OneByOne:
    """What every head does in each single text: the `strengths` of its measures and the mean
    `weight` on each; NaN if undefined, or for a text that cannot be read."""

    strengths: Float[np.ndarray, "text head measure"]
    weight: Float[np.ndarray, "text head measure"]


def one_by_one(loaded: LoadedModel, texts: Sequence[Text], rare: np.ndarray) -> OneByOne:
    """Read each text alone; `rare` marks the tokens that are rare in the corpus."""
    known = vocabulary(loaded, torch.tensor(rare))
    encoded, _ = encode(loaded, _lines(texts))
    shape = len(texts), sum(site.n_heads for site in loaded.sites), len(MEASURES)
    alone = OneByOne(np.full(shape, np.nan), np.full(shape, np.nan))
    for line in encoded:
        adding = Adding(loaded, known)
        adding.add(batch_of(loaded, [line]))
        numbers = numbers_of(adding.sums, loaded.sites)
        alone.strengths[line.offset] = strengths(numbers["share"], numbers["weight"])
        alone.weight[line.offset] = numbers["weight"]
    return alone


def weights_digest(loaded: LoadedModel) -> str:
    """SHA-256 of the files that make up a model: weights, config and tokenizer.

    For a training snapshot: its own weights with the folder's config and tokenizer.
    """
    folder, whole = loaded.folder, hashlib.sha256()
    if folder.is_file():
        paths = [folder]
    else:
        _, step = split_step(loaded.name)
        kinds = ("*.json", "*.spm", "*.model")
        paths = sorted(path for kind in kinds for path in folder.glob(kind))
        weights = sorted(folder.glob("*.safetensors"))
        if step is not None:
            weights = sorted(folder.glob(f"moments/*{step:06d}.safetensors"))
        paths += weights
    for path in paths:
        whole.update(path.name.encode() + b"\0")
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                whole.update(piece)
    return whole.hexdigest()


def name_for(loaded: LoadedModel) -> str:
    """The file name of a model's atlas. Atlases in one folder differ by a suffix: "@200" for a
    training snapshot, and the model's name if it is a single file, since a folder may hold
    several."""
    _, step = split_step(loaded.name)
    single = f"-{loaded.folder.stem}" if loaded.folder.is_file() else ""
    return f"{Path(FILE).stem}{single if step is None else f'@{step}'}.json"


def home_of(loaded: LoadedModel) -> Path:
    """The folder of a model's atlas: next to its weights."""
    folder = loaded.folder if loaded.folder.is_dir() else loaded.folder.parent
    return folder / "atlas"


@dataclass(frozen=True, eq=False)
class Found:
    """The file of a model's atlas. `atlas` is None if there is none, if it cannot be read
    (`problem`), or if it was made from other weights (`stale`)."""

    path: Path
    atlas: Atlas | None = None
    problem: InputProblem | None = None
    stale: bool = False


def find_atlas(loaded: LoadedModel) -> Found:
    """The atlas next to a model."""
    path = home_of(loaded) / name_for(loaded)
    if not path.is_file():
        return Found(path)
    try:
        stored = read_atlas(path)
    except InputProblem as problem:
        return Found(path, problem=problem)
    if (stored.about.weights, stored.heads) != (weights_digest(loaded), heads_of(loaded.sites)):
        return Found(path, stale=True)
    return Found(path, stored)


def stamp_of(loaded: LoadedModel) -> int:
    """The modification time of a model's atlas, 0 without one: a part of every cache key."""
    path = home_of(loaded) / name_for(loaded)
    return path.stat().st_mtime_ns if path.is_file() else 0
