"""What the Decoding page computes, cached by `engine.caching`."""

from collections.abc import Callable

from explorer.analysis.decoding import caching, labels, one_pass, speculation, tree
from explorer.engine import cache
from explorer.engine.cache import generate as generate
from explorer.engine.caching import cached
from explorer.runs import generation
from explorer.runs.edits import Edit
from explorer.runs.generation import Generation
from explorer.runs.inputs import given_tokens
from explorer.runs.speculative import first_layers
from models.strategies import Beam, Greedy, Sample


@cached
def cache_of(made: Generation) -> caching.CacheComparison:
    """The KV cache during a decoding, and the deviation of the logits from those without a
    cache."""
    return caching.cached_and_not(cache.open_model(made.model), made)


@cached
def tree_of(
    model: str,
    text: str,
    beam: Beam,
    sample: Sample,
    edits: tuple[Edit, ...],
    limit: int,
    ruled: bool = True,
) -> tree.Tree:
    """Greedy, beam search and sampling in one tree. Raises InputProblem."""
    others: dict[tree.Line, Generation] = {
        "greedy": generate(model, text, Greedy(), edits, limit, (), ruled),
        "sample": generate(model, text, sample, edits, limit, (), ruled),
    }
    loaded = cache.open_model(model)
    rules = loaded.asked.rules if ruled else None
    return tree.grow(loaded, text, beam, others, limit, edits, rules)


@cached
def pass_of(
    made: Generation, *, progress: Callable[[int, int], None] | None = None
) -> one_pass.OnePass:
    """The steps of a decoding compared with one pass over all of them."""
    return one_pass.one_pass(cache.open_model(made.model), made, progress or (lambda *_: None))


@cached
def labels_of(model: str, lines: tuple[str, ...]) -> labels.LabelledBatch:
    """A training batch of these lines with its losses. Raises InputProblem."""
    return labels.labelled_batch(
        cache.open_model(model), lines, lambda line: cache.translation(model, line)[0]
    )


@cached
def speculation_of(
    model: str, text: str, draft: str, ahead: int, limit: int
) -> speculation.Speculation:
    """Speculative decoding of a text, up to the length limits of both models. Raises
    InputProblem."""
    loaded = cache.open_model(model)
    kept = speculation.layers_of(draft)
    other = loaded if kept else cache.open_model(draft)
    drafting = first_layers(loaded.model, kept) if kept else other.model
    most = min(limit, generation.room(loaded, text), generation.room(other, text))
    return speculation.speculation(loaded, drafting, given_tokens(loaded, text), ahead, most)
