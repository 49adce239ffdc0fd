"""Cached analyses of models: atlas, behaviour of the heads, ranking of cross-attention heads.

python -m explorer.engine.models    # writes chance levels and rankings of the shipped models
"""

import json
from itertools import chain
from pathlib import Path

import numpy as np

from explorer import library
from explorer.analysis.alignment import stored, study
from explorer.analysis.alignment.study import Study, other_direction
from explorer.analysis.atlas.make import (
    Found,
    OneByOne,
    find_atlas,
    one_by_one,
    over_texts,
    weights_digest,
)
from explorer.analysis.atlas.store import Atlas, Text, read_atlas
from explorer.analysis.circuits import behaviour as behaving
from explorer.analysis.circuits.by_hand import NAME, by_hand
from explorer.analysis.circuits.chance import COPIES, Chance
from explorer.analysis.circuits.rows import random_twice, said_twice
from explorer.engine import cache
from explorer.engine.caching import cached
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.passes import Steps, walked
from explorer.text import script
from models.training.home import asset

MOST_TEXTS = 96
"""Number of sentences used to measure a model without an atlas."""
CHANCES = asset("chances.json")
"""For each shipped model the digest of its weights, and the best scores of its shuffled copies."""


@cached
def atlas_file(model: str, stamp: int) -> Found:
    """The file of a model's atlas. Every draw asks for it, and reading it takes 0.1 s."""
    return find_atlas(cache.open_model(model))


@cached
def atlas(model: str, stamp: int) -> Steps[Atlas]:
    """Load or measure an atlas. Raises InputProblem `nothing_measured`."""
    stored = atlas_file(model, stamp).atlas
    if stored is not None:
        return stored
    loaded = cache.open_model(model)
    small = loaded.n_parameters <= library.SMALL
    return (yield from over_texts(loaded, texts_for(model), ablate=small))


def texts_for(model: str) -> tuple[Text, ...]:
    """Sentences for a model without an atlas: from the first shipped atlas that it can read, in the
    language of its examples; if there is none, its examples, each word in every typeface."""
    loaded = cache.open_model(model)
    examples = [*chain.from_iterable(cache.examples_of(model).values())]
    paired, language = loaded.config.reads_source, script(" ".join(examples))
    for name in cache.models():
        path = library.CHECKPOINTS / name / "atlas" / "atlas.json"
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


def readable(loaded: LoadedModel, texts: tuple[Text, ...]) -> bool:
    """Whether a model's vocabulary has the characters of these sentences. A picture has none."""
    if loaded.config.picture is not None:
        return False
    unknown, reader = loaded.marks.of("src").unknown, loaded.tokenizer.of("src")
    ids = [token for text in texts[:20] for token in reader.encoded(text.source)]
    return bool(ids) and (unknown is None or ids.count(unknown) <= len(ids) // 50)


def alone(model: str, stamp: int, texts: tuple[Text, ...]) -> OneByOne:
    """The measures of every head for each text separately."""
    return one_by_one(cache.open_model(model), texts, atlas(model, stamp).rare)


def opened(model: str) -> LoadedModel:
    """A model of the shelf, or the one built by hand."""
    return by_hand() if model == NAME else cache.open_model(model)


@cached
def head_behaviour(model: str, text: str | None = None) -> behaving.HeadScores:
    """The behaviour of every head on synthetic sequences, or on a text repeated twice. Raises
    InputProblem."""
    loaded = opened(model)
    if text is None:
        return behaving.behaviour(loaded)
    return behaving.looked(loaded, said_twice(loaded, text)[0])


def work_of_chance(loaded: LoadedModel) -> int:
    """The cost of `chance_level` in tokens times parameters."""
    rows = random_twice(loaded).rows
    n_tokens = sum(rows.tokens(stream).numel() for stream in loaded.model.reads)
    return COPIES * n_tokens * loaded.n_parameters


@cached
def chance_level(model: str) -> Steps[Chance]:
    """The best head's score by chance on synthetic sequences, from the file if that is of these
    weights: computed, this takes ten seconds."""
    loaded, stored = opened(model), json.loads(CHANCES.read_text("utf-8")).get(model)
    if stored is None or stored["weights"] != weights_digest(loaded):
        return (yield from behaving.best_by_chance(loaded))
    return Chance({name: np.array(scores) for name, scores in stored["best"].items()})


@cached
def ranking(model: str, back: str | None) -> Steps[Study]:
    """The ranking of all heads, and the chosen aligner, from its file if that is of these inputs.
    Raises InputProblem; ValueError as in `analysis`."""
    models, texts = ranking_inputs(model, back)
    stored_study = stored.read(ranking_file(model), stored.digest_of(models, texts))
    return stored_study or (yield from ranked(models, texts))


def ranking_inputs(model: str, back: str | None) -> tuple[list[LoadedModel], list[tuple[str, ...]]]:
    """What a ranking is computed from: the model, the reverse model if there is one, and their
    sentences, once if they are the same."""
    names = [model, *([] if back is None else [back])]
    texts = (tuple(chain.from_iterable(cache.examples_of(name).values())) for name in names)
    return [cache.open_model(name) for name in names], [*dict.fromkeys(texts)]


def ranked(models: list[LoadedModel], texts: list[tuple[str, ...]]) -> Steps[Study]:
    """The ranking of all heads, computed now."""
    return study.study(models[0], models[1] if len(models) > 1 else None, *texts)


def ranking_file(model: str) -> Path:
    """The file of the ranking of a shipped model."""
    return asset("alignments", f"{model}.json")


def write() -> None:
    """Compute the chance levels and the rankings of the shipped models, and write their files."""
    chances = {}
    for model in cache.models():
        loaded = opened(model)
        best = walked(behaving.best_by_chance(loaded)).best
        scores = {name: copies.tolist() for name, copies in best.items()}
        chances[model] = {"weights": weights_digest(loaded), "best": scores}
    CHANCES.write_text(f"{json.dumps(chances)}\n", encoding="utf-8")
    shelf = cache.translators(cache.models())
    for model in shelf:
        models, texts = ranking_inputs(model, other_direction(model, shelf))
        record = stored.to_json(walked(ranked(models, texts)), stored.digest_of(models, texts))
        ranking_file(model).write_text(f"{record}\n", encoding="utf-8")


if __name__ == "__main__":
    write()
