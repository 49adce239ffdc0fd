"""Thumbnails of all heads of a run, its aggregates, and the ablation of every head."""

from collections.abc import Callable, Iterable, Iterator

from explorer.analysis.heads import ablation as ablating, aggregates
from explorer.analysis.heads.words import Words, by_word, flow_by_word, mask_by_word, words_of
from explorer.components import Cells, HeadGrid, grid
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
) -> HeadGrid:
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
