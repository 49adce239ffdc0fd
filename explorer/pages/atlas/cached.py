"""What the Atlas page computes, cached by `engine.caching`."""

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
"""Number of sentences used to measure a model without an atlas."""


@dataclass(frozen=True)
class Which:
    """Identifies an atlas: the file next to a model, with `stamp` for its modification times; or,
    with `texts`, one measured now over these, including ablation costs if `ablate`."""

    model: str
    stamp: tuple[tuple[str, int], ...] = ()
    texts: tuple[Text, ...] = ()
    ablate: bool = True


def found_for(model: str) -> tuple[Found, Which]:
    """The atlas file of a model, and the atlas to show: without a file, one measured over available
    sentences. Raises InputProblem if there is no such model."""
    stamp = finding.stamp(cache.open_model(model))
    found = _found(model, stamp)
    return found, Which(model, stamp) if found.atlas else Which(model, texts=texts_for(model))


@cached
def _found(model: str, stamp: tuple[tuple[str, int], ...]) -> Found:
    """The file; `stamp` is part of the cache key."""
    return finding.find_atlas(cache.open_model(model))


@cached
def atlas(which: Which, *, progress: Progress = None) -> Atlas:
    """Load or measure an atlas. Raises InputProblem `nothing_measured`."""
    stored = _found(which.model, which.stamp).atlas if not which.texts else None
    if stored is not None:
        return stored
    loaded = cache.open_model(which.model)
    small = loaded.n_parameters <= library.SMALL
    return here.measured(loaded, which.texts, ablate=which.ablate and small, progress=progress)


@cached
def texts_for(model: str) -> tuple[Text, ...]:
    """Sentences for a model without an atlas: from the first shipped atlas that it can read, in the
    language of its examples; if there is none, its examples, each word in every typeface.
    """
    loaded = cache.open_model(model)
    examples = [s for group in examples_of(model).values() for s in group]
    paired, language = "src" in loaded.model.reads, reads_language(model)
    for name in cache.models():
        path = library.CHECKPOINTS / name / "atlas" / file_of("")
        if not path.is_file():
            continue
        try:
            texts = read_atlas(path).texts
        except InputProblem:  # that model's own page shows the error
            continue
        same = script(" ".join(text.source for text in texts[:20])) == language
        if bool(texts and texts[0].target) == paired and same and finding.readable(loaded, texts):
            return texts[:MOST_TEXTS]
    shown = loaded.tokenizer.renderings
    return tuple(Text(each) for sentence in examples for each in shown(sentence))


@cached
def one_by_one(which: Which, texts: tuple[Text, ...]) -> here.OneByOne:
    """The measures of every head for each text separately."""
    return here.one_by_one(cache.open_model(which.model), texts, atlas(which).rare)


def numbers_to_search(which: Which) -> tuple[int, ...]:
    """The indices of the searched texts, in order."""
    return searching.texts_to_search(atlas(which).best)


@cached
def searched(which: Which, role: Role, *, progress: Progress = None) -> searching.Searched:
    """The patterns of every head of a role on the sentences of an atlas, for the search."""
    shown = atlas(which)
    texts = [shown.texts[number] for number in numbers_to_search(which)]
    steps = searching.search(cache.open_model(which.model), texts, role, shown.rare)
    return jobs.walked(steps, progress)


def reads_language(model: str) -> str | None:
    """The language of a model's examples, as detected by `script`."""
    return script(" ".join(s for group in examples_of(model).values() for s in group))


def turned(texts: tuple[Text, ...], model: str) -> tuple[Text, ...]:
    """Pairs in a model's direction: swapped if its source language is their target language."""
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
    """The sentences for comparing two models: the top sentence of each head of an atlas."""
    shown = atlas(which)
    numbers = searching.texts_to_search(shown.best, MOST_TEXTS)
    return tuple(shown.texts[number] for number in numbers)


@cached
def moments(asked: tuple[Which, ...], *, progress: Progress = None) -> tuple[Atlas, ...]:
    """The atlases of several training steps over the same sentences, without ablation."""
    found = []
    for done, which in enumerate(asked, 1):
        found.append(here.measured(cache.open_model(which.model), which.texts, ablate=False))
        if progress is not None:
            progress(done, len(asked))
    return tuple(found)
