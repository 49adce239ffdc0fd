"""What the Atlas page computes, kept as `engine.caching` says."""

from collections.abc import Callable
from dataclasses import dataclass

from explorer import library
from explorer.analysis.atlas import finding, here, searching
from explorer.analysis.atlas.finding import Found
from explorer.analysis.atlas.make import file_of
from explorer.analysis.atlas.store import Atlas, Text, read_atlas
from explorer.engine import cache, jobs
from explorer.engine.caching import cached
from explorer.exhibits.view import examples_of
from explorer.problems import InputProblem
from explorer.text import script
from models.hooks import Role

Progress = Callable[[int, int], object] | None
MOST_TEXTS = 96
"""Sentences over which a model without an atlas is measured here."""


@dataclass(frozen=True)
class Which:
    """An atlas: the file beside a model, as `stamp` says when it was written; or, with `texts`, one
    that is measured over them now, with what each head costs if `ablate`."""

    model: str
    stamp: tuple[tuple[str, int], ...] = ()
    texts: tuple[Text, ...] = ()
    ablate: bool = True


def found_for(model: str) -> tuple[Found, Which]:
    """The file that belongs to a model, and the atlas that is shown: without a file, one over
    sentences at hand. Raises InputProblem for no such model."""
    stamp = finding.stamp(cache.open_model(model))
    found = _found(model, stamp)
    return found, Which(model, stamp) if found.atlas else Which(model, texts=texts_for(model))


@cached
def _found(model: str, stamp: tuple[tuple[str, int], ...]) -> Found:
    """The file, as it was when `stamp` was taken."""
    return finding.find_atlas(cache.open_model(model))


@cached
def atlas(which: Which, *, progress: Progress = None) -> Atlas:
    """The atlas that is meant. Raises InputProblem `nothing_measured`."""
    stored = _found(which.model, which.stamp).atlas if not which.texts else None
    if stored is not None:
        return stored
    loaded = cache.open_model(which.model)
    small = sum(each.numel() for each in loaded.model.parameters()) <= library.SMALL
    return here.measured(loaded, which.texts, ablate=which.ablate and small, progress=progress)


@cached
def texts_for(model: str) -> tuple[Text, ...]:
    """Sentences for a model without an atlas: of the first shipped atlas whose sentences it reads,
    in the language of its examples; where there is none, its examples."""
    loaded = cache.open_model(model)
    examples = [s for group in examples_of(model).values() for s in group]
    paired, language = "src" in loaded.model.reads, reads_language(model)
    for name in cache.models():
        path = library.CHECKPOINTS / name / "atlas" / file_of("")
        if not path.is_file():
            continue
        try:
            texts = read_atlas(path).texts
        except InputProblem:  # that model's own page says what is wrong with it
            continue
        same = script(" ".join(text.source for text in texts[:20])) == language
        if bool(texts and texts[0].target) == paired and same and finding.readable(loaded, texts):
            return texts[:MOST_TEXTS]
    return tuple(Text(sentence) for sentence in examples)


@cached
def one_by_one(which: Which, texts: tuple[Text, ...]) -> here.OneByOne:
    """What every head does in each text by itself."""
    return here.one_by_one(cache.open_model(which.model), texts, atlas(which).rare)


def numbers_to_search(which: Which) -> tuple[int, ...]:
    """The numbers of the texts that are searched, in their order."""
    return searching.texts_to_search(atlas(which).best)


@cached
def searched(which: Which, role: Role, *, progress: Progress = None) -> searching.Searched:
    """Where every head of a role looks, in the sentences of an atlas."""
    shown = atlas(which)
    texts = [shown.texts[number] for number in numbers_to_search(which)]
    steps = searching.search(cache.open_model(which.model), texts, role, shown.rare)
    return jobs.walked(steps, progress)


def reads_language(model: str) -> str | None:
    """The language of a model's examples, as `script` tells it."""
    return script(" ".join(s for group in examples_of(model).values() for s in group))


def turned(texts: tuple[Text, ...], model: str) -> tuple[Text, ...]:
    """Pairs as a model reads them: the other way round where its source is their translation."""
    if not texts or not texts[0].target:
        return texts
    language = reads_language(model)
    there, back = (
        script(" ".join(s)) for s in zip(*((t.source, t.target) for t in texts), strict=True)
    )
    if there == language or back != language:
        return texts
    return tuple(Text(text.target, text.source, text.credit) for text in texts)


def texts_of(which: Which) -> tuple[Text, ...]:
    """Sentences of an atlas over which two models are compared: the first of each head's."""
    shown = atlas(which)
    numbers = searching.texts_to_search(shown.best, MOST_TEXTS)
    return tuple(shown.texts[number] for number in numbers)


@cached
def moments(asked: tuple[Which, ...], *, progress: Progress = None) -> tuple[Atlas, ...]:
    """The atlases of several moments over the same sentences; heads stay on."""
    found = []
    for done, which in enumerate(asked, 1):
        found.append(here.measured(cache.open_model(which.model), which.texts, ablate=False))
        if progress is not None:
            progress(done, len(asked))
    return tuple(found)
