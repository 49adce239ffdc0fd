"""What the Heads page computes, cached by `engine.caching`."""

from collections.abc import Callable, Iterable, Iterator

from explorer import library
from explorer.analysis.heads import ablation as ablating
from explorer.analysis.heads import aggregates, attribution
from explorer.analysis.heads import versus as comparing
from explorer.analysis.heads.words import Words, by_word, flow_by_word, mask_by_word, words_of
from explorer.components import Cells, Grid, grid
from explorer.components.payload import Bools, Floats
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached
from models.hooks import Role


@cached
def aggregates_of(run: Run, kind: Role) -> tuple[aggregates.Aggregate, ...]:
    """Means, rollout and flow of one kind of attention. Raises InputProblem."""
    return aggregates.aggregates_of(cache.trace(run), kind)


@cached
def grid_of(
    run: Run, kind: Role, by_words: bool, *, progress: Callable[[int, int], None] | None = None
) -> Grid:
    """Thumbnails of all heads of one kind of attention, then of the aggregates; `progress(done,
    total)` is called per layer. Raises InputProblem."""
    trace, behind = cache.trace(run), aggregates_of(run, kind)
    sites = trace.sites_of(kind)
    tokens = trace.query_tokens(sites[0].name), trace.key_tokens(sites[0].name)
    words = tuple(map(words_of, tokens)) if by_words else None
    n_query, n_key = map(len, tokens if words is None else (each.starts for each in words))

    def parts() -> Iterator[Cells]:
        further = [(each.pattern[None], each.mask[None], each.name == "flow") for each in behind]
        for done, site in enumerate(sites):
            if progress is not None:
                progress(done, len(sites))
            yield from _merged([(trace.pattern(site.name), trace.mask(site.name), False)], words)
        yield from _merged(further, words)

    return grid((len(sites), sites[0].n_heads, n_query, n_key), parts(), len(behind))


def _merged(
    given: Iterable[tuple[Floats, Bools, bool]], words: tuple[Words, ...] | None
) -> Iterator[Cells]:
    """Weights and masks by token or by word; some are flows, not shares."""
    for weights, mask, flows in given:
        if words is None:
            yield weights, mask
            continue
        merged = flow_by_word(weights[0], *words)[None] if flows else by_word(weights, *words)
        yield merged, mask_by_word(mask, *words)


@cached
def ablation(run: Run, *, progress: Callable[[int, int], None] | None = None) -> ablating.Ablation:
    """Ablate every head of a run, one at a time; `progress(done, total)` is called while it runs.

    Raises InputProblem; ValueError if no token was predicted.
    """
    return ablating.ablate(cache.open_model(run.model), cache.trace(run), progress=progress)


@cached
def attribute(run: Run, position: int) -> attribution.Attribution:
    """Four measures for the token after a position, using the run's ablation. Raises
    InputProblem."""
    loaded = cache.open_model(run.model)
    return attribution.attribute(loaded, cache.trace(run), position, ablation=ablation(run))


@cached
def alike(model: str, shelf: tuple[str, ...]) -> tuple[str, ...]:
    """The models on the shelf with the same tokenization as this one, and their snapshots."""
    found = library.same_vocabulary(model, library.CHECKPOINTS)
    return tuple(each for each in found if library.split_step(each)[0] in shelf)


@cached
def versus(run: Run, other: Run, kind: Role) -> comparing.Versus | None:
    """One kind of attention compared between a run and another model's run. Raises InputProblem."""
    return comparing.versus(cache.trace(run), cache.trace(other), kind)


@cached
def closest(
    run: Run, other: Run, kind: Role, layer: int, head: int
) -> tuple[tuple[int, int], float] | None:
    """The head of the other run with the pattern most similar to this one's. Raises
    InputProblem."""
    compared = versus(run, other, kind)
    if compared is None:
        return None
    return comparing.closest(cache.trace(run), cache.trace(other), compared, layer, head)
