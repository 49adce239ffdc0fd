"""Cached analyses of runs: thumbnails of heads, two models compared, a second sentence, a head."""

from explorer.analysis.heads import versus as comparing
from explorer.analysis.heads.versus import Versus
from explorer.analysis.heads.words import cells_by_word, words_of
from explorer.analysis.patching.pair import other_text
from explorer.analysis.start.flow import OpenHead, head_of_flow
from explorer.components.heads_payload import HeadGrid, joined, pooled, step_of
from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached
from explorer.runs.generation import Generation
from explorer.runs.passes import Steps
from explorer.text import exchanges
from models.hooks import Role


@cached
def thumbnails(run: Run, kind: Role, by_words: bool) -> Steps[HeadGrid]:
    """Thumbnails of all heads of one kind of attention, layer by layer, then of the aggregates.
    Raises InputProblem."""
    trace, extras = cache.trace(run), cache.aggregates(run, kind)
    sites = trace.sites_of(kind)
    tokens = trace.query_tokens(sites[0].name), trace.key_tokens(sites[0].name)
    words = (words_of(tokens[0]), words_of(tokens[1])) if by_words else None
    n_query, n_key = map(len, tokens if words is None else (axis.starts for axis in words))
    step, parts = step_of(n_query, n_key), []
    for done, site in enumerate(sites):
        yield done, len(sites)
        cells = trace.pattern(site.name), trace.mask(site.name)
        parts.append(pooled(cells if words is None else cells_by_word(cells, words), step))
    for extra in extras:
        cells = extra.pattern[None], extra.mask[None]
        parts.append(pooled(cells if words is None else cells_by_word(cells, words), step))
    return joined((len(sites), sites[0].n_heads, n_query, n_key), step, parts)


@cached
def versus(run: Run, other: Run, kind: Role) -> Versus | None:
    """One kind of attention compared between a run and another model's run. Raises InputProblem."""
    return comparing.versus(cache.trace(run), cache.trace(other), kind)


@cached
def closest(
    run: Run, other: Run, kind: Role, layer: int, head: int
) -> tuple[tuple[int, int], float] | None:
    """The other run's head whose pattern is most similar to this one's. Raises InputProblem."""
    compared = versus(run, other, kind)
    if compared is None:
        return None
    return comparing.closest(cache.trace(run), cache.trace(other), compared, layer, head)


@cached
def offered(run: Run) -> Steps[str | None]:
    """A run's sentence with one word replaced, such that the answer changes, found in up to
    `MOST_TRIED` runs. Raises InputProblem."""
    loaded, traced = cache.open_model(run.model), cache.trace(run)
    return (yield from other_text(loaded, traced, exchanges(), run.target))


@cached
def open_head(plain: Run, generation: Generation | None, site: str, head: int) -> OpenHead:
    """One head of the flow with its numbers; another head must not play the picture again. Raises
    InputProblem."""
    loaded, traced = cache.open_model(plain.model), cache.trace(plain)
    return head_of_flow(loaded, traced, generation, plain.edits, site, head)
