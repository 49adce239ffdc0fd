"""The atlas of the open model: from its file, next to its weights or in the folders in
HEADLIGHT_ATLASES, or measured here over available sentences."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int

from explorer import library
from explorer.analysis.atlas.ablation import GROUP, cost_sums
from explorer.analysis.atlas.make import file_of, home_of, suffix_of, weights_digest
from explorer.analysis.atlas.measures import Adding
from explorer.analysis.atlas.reading import (
    Line,
    Vocabulary,
    batch_of,
    batches,
    encode,
    vocabulary,
    vocabulary_of,
)
from explorer.analysis.atlas.store import (
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
from explorer.engine import cache
from explorer.engine.caching import cached
from explorer.exhibits import Exhibit, Wait, block as b
from explorer.exhibits.picking import pick_place
from explorer.exhibits.saying import in_a_row, message
from explorer.exhibits.view import View, examples_of
from explorer.library import LoadedModel, snapshots, split_step
from explorer.problems import InputProblem
from explorer.runs.passes import Steps
from explorer.text import script

HERE = "here"
"""The corpus name of an atlas measured on given sentences."""
MOST_TEXTS = 96
"""Number of sentences used to measure a model without an atlas."""
VARIABLE = "HEADLIGHT_ATLASES"
"""Folders of atlases made with `--out`, separated by os.pathsep."""


@dataclass(frozen=True, eq=False)
class Found:
    """A model's atlas (None if it has none), its file, and the problem with one that was found:
    made from other weights, or unreadable."""

    atlas: Atlas | None
    path: Path | None = None
    problem: InputProblem | None = None
    stale: bool = False


def places(loaded: LoadedModel) -> Iterator[Path]:
    """Candidate paths of this model's atlas, the likeliest first."""
    name = file_of(suffix_of(loaded))
    yield home_of(loaded) / name
    for folder in map(Path, filter(None, os.environ.get(VARIABLE, "").split(os.pathsep))):
        yield folder / name
        if folder.is_dir():
            yield from sorted(path / name for path in folder.iterdir() if path.is_dir())


def find_atlas(loaded: LoadedModel) -> Found:
    """The first atlas that was made from this model's weights."""
    first = Found(None)
    digest: str | None = None
    for path in places(loaded):
        if not path.is_file():
            continue
        try:
            atlas = read_atlas(path)
        except InputProblem as problem:
            first = first if first.path else Found(None, path, problem)
            continue
        digest = digest or weights_digest(loaded)
        if atlas.about.weights == digest and atlas.heads == heads_of(loaded.sites):
            return Found(atlas, path)
        # In a shared folder, atlases of other models are not a problem to report.
        if path.parent == home_of(loaded):
            first = first if first.path else Found(None, path, stale=True)
    return first


def stamp_of(loaded: LoadedModel) -> tuple[tuple[str, int], ...]:
    """The candidate files and their modification times: the cache key of a finding."""
    return tuple((str(path), path.stat().st_mtime_ns) for path in places(loaded) if path.is_file())


def readable(loaded: LoadedModel, texts: tuple[Text, ...]) -> bool:
    """Whether a model's vocabulary has the characters of these sentences. A picture has none."""
    if loaded.config.picture is not None:
        return False
    unknown, reader = loaded.marks.of("src").unknown, loaded.tokenizer.of("src")
    ids = [token for text in texts[:20] for token in reader.encoded(text.source)]
    return bool(ids) and (unknown is None or ids.count(unknown) <= len(ids) // 50)


def lines_of_texts(texts: Sequence[Text]) -> list[Line]:
    """Texts as the lines of a corpus; their indices serve as offsets."""
    return [Line(at, text.source, text.target, text.credit) for at, text in enumerate(texts)]


def measured(loaded: LoadedModel, texts: Sequence[Text], *, ablate: bool = True) -> Steps[Atlas]:
    """An atlas over a few texts; yields (done, total) in texts. With `ablate`, every head is
    ablated in GROUP of them. Raises InputProblem `nothing_measured`."""
    lines = lines_of_texts(texts)
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
        adding.sums.cost[:] = cost_sums(loaded, batch_of(loaded, encoded[:GROUP]))
        yield total, total
    adding.skipped(too_long=too_long)
    known = dict(enumerate(texts))
    about = About(loaded.name, "", HERE, "")
    rare = adding.vocabulary.rare.numpy()
    return atlas_of(adding.total(), loaded.sites, about, rare, known)[0]


@dataclass(frozen=True, eq=False)
class OneByOne:
    """What every head does in each single text: the `strengths` of its measures and the mean
    `weight` on each (NaN if undefined), and the `tokens` of the longer sequence (0 for a text that
    cannot be read)."""

    strengths: Float[np.ndarray, "text head measure"]
    weight: Float[np.ndarray, "text head measure"]
    tokens: Int[np.ndarray, " text"]


def one_by_one(loaded: LoadedModel, texts: Sequence[Text], rare: np.ndarray) -> OneByOne:
    """Read each text alone; `rare` marks the tokens that are rare in the corpus."""
    known = known_of(loaded, rare)
    encoded, _ = encode(loaded, lines_of_texts(texts))
    shape = len(texts), sum(site.n_heads for site in loaded.sites), len(MEASURES)
    alone = OneByOne(np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(len(texts), np.int64))
    for line in encoded:
        adding = Adding(loaded, known)
        adding.add(batch_of(loaded, [line]))
        numbers = numbers_of(adding.sums, loaded.sites)
        alone.strengths[line.offset] = strengths(numbers["share"], numbers["weight"])
        alone.weight[line.offset] = numbers["weight"]
        alone.tokens[line.offset] = max(len(line.src), len(line.tgt))
    return alone


def known_of(loaded: LoadedModel, rare: np.ndarray) -> Vocabulary:
    """The properties of every token, with the rare ones as counted by an atlas."""
    return vocabulary(loaded, torch.tensor(rare))


@dataclass(frozen=True)
class Which:
    """Identifies an atlas: the file next to a model, with `stamp` for its modification times; or,
    with `texts`, one measured now over these, including ablation costs if `ablate`."""

    model: str
    stamp: tuple[tuple[str, int], ...] = ()
    texts: tuple[Text, ...] = ()
    ablate: bool = True


def which_of(view: View) -> Which:
    """The atlas of the open model: its file, else one measured over available sentences."""
    return which_for(view.loaded.name)


def which_for(model: str) -> Which:
    """The same for any model. Raises InputProblem if there is no such model."""
    stamp = stamp_of(cache.open_model(model))
    is_there = found(model, stamp).atlas is not None
    return Which(model, stamp) if is_there else Which(model, texts=texts_for(model))


@cached
def found(model: str, stamp: tuple[tuple[str, int], ...]) -> Found:
    """The file of a model; `stamp` is part of the cache key. Cached because every draw asks which
    atlas there is, and reading one takes 0.1 s."""
    return find_atlas(cache.open_model(model))


@cached
def atlas(which: Which) -> Steps[Atlas]:
    """Load or measure an atlas. Cached for all exhibits of the page; the comparison has another
    model's. Raises InputProblem `nothing_measured`."""
    stored = found(which.model, which.stamp).atlas if not which.texts else None
    if stored is not None:
        return stored
    loaded = cache.open_model(which.model)
    small = loaded.n_parameters <= library.SMALL
    return (yield from measured(loaded, which.texts, ablate=which.ablate and small))


def alone(which: Which, texts: tuple[Text, ...]) -> OneByOne:
    """The measures of every head of an atlas's model for each text separately."""
    return one_by_one(cache.open_model(which.model), texts, atlas(which).rare)


@cached
def texts_for(model: str) -> tuple[Text, ...]:
    """Sentences for a model without an atlas: from the first shipped atlas that it can read, in the
    language of its examples; if there is none, its examples, each word in every typeface. Cached
    because they are part of the key of such an atlas, which every draw asks for."""
    loaded = cache.open_model(model)
    examples = [s for group in examples_of(model).values() for s in group]
    paired, language = loaded.config.reads_source, reads_language(model)
    for name in cache.models():
        path = library.CHECKPOINTS / name / "atlas" / file_of("")
        if not path.is_file():
            continue
        try:
            texts = read_atlas(path).texts
        except InputProblem:  # that model's own page shows the error
            continue
        same = script(" ".join(text.source for text in texts[:20])) == language
        if bool(texts and texts[0].target) == paired and same and readable(loaded, texts):
            return texts[:MOST_TEXTS]
    shown = loaded.tokenizer.renderings
    return tuple(Text(form) for sentence in examples for form in shown(sentence))


def reads_language(model: str) -> str | None:
    """The language of a model's examples, as detected by `script`."""
    return script(" ".join(s for group in examples_of(model).values() for s in group))


def _about_file(view: View) -> b.Blocks:
    """The problem with the atlas file of the open model, if there is one."""
    file = found(view.loaded.name, stamp_of(view.loaded))
    if file.problem is not None:
        yield b.Hint(message(file.problem, view.lang), "info", warns=True)
    if file.stale:
        yield b.Hint(view.t("atlas.stale", path=str(file.path)), "history", warns=True)


def show(whole: Atlas, view: View) -> b.Blocks:
    """Whether it was measured here; and the place, for the moments of a training."""
    yield from _about_file(view)
    if which_of(view).texts:
        counts = whole.counts
        words = [view.t("atlas.no_file", model=view.loaded.name, count=counts["sentences"])]
        if left := counts["too_long"] + counts["unreadable"]:
            words.append(view.t("atlas.here_left", count=left))
        yield b.Hint(in_a_row(words))
    if view.chosen("part") == "compare" and snapshots(split_step(view.loaded.name)[0]):
        yield b.Row(pick_place(view, "atlas.compare"))


WHICH = {"which": which_of}
EXHIBIT = Exhibit(atlas, show, inputs=WHICH, wait=Wait("atlas.measuring", blocks=_about_file))
