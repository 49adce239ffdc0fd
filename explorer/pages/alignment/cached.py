"""What the Alignment page computes, cached by `engine.caching`."""

from collections.abc import Callable

from explorer import library
from explorer.analysis.alignment import removal as removing
from explorer.analysis.alignment import study as studying
from explorer.analysis.alignment.reading import Pair, Reading, read, read_back, translated
from explorer.engine import cache
from explorer.engine.caching import cached
from explorer.exhibits.view import examples_of
from explorer.runs.trace import trace

Progress = Callable[[int, int], object]


@cached
def translators(shelf: tuple[str, ...]) -> tuple[str, ...]:
    """The models of the shelf that have a source sequence."""
    return library.translators(shelf, library.CHECKPOINTS)


@cached
def study(model: str, back: str | None, *, progress: Progress | None = None) -> studying.Study:
    """The ranking of all heads, and the chosen aligner. Raises InputProblem; ValueError as in
    `analysis`."""
    own = sentences(model)
    other = () if back is None else sentences(back)
    return studying.study(
        cache.open_model(model),
        None if back is None else cache.open_model(back),
        own,
        () if other == own else other,
        progress,
    )


def sentences(model: str) -> tuple[str, ...]:
    """The example sentences of a model, in order."""
    return tuple(each for group in examples_of(model).values() for each in group)


@cached
def readings(
    model: str, back: str | None, pair: Pair, *, progress: Progress | None = None
) -> tuple[Reading, Reading | None]:
    """One pair, read in both directions; `progress` is called for each. Raises InputProblem."""
    tell = progress or (lambda done, total: None)
    n = 1 if back is None else 2
    found = read(cache.open_model(model), [pair], lambda done, total: tell(1, n))
    if back is None:
        return found[0], None
    other = read_back(cache.open_model(back), found, lambda done, total: tell(2, n))
    return found[0], other[0]


@cached
def removal(
    model: str, back: str | None, *, progress: Progress | None = None
) -> removing.Removal | None:
    """The ln p per token of the example translations without the aligning heads; None if
    there is only one head. Raises InputProblem."""
    loaded = cache.open_model(model)
    order = heads_in_order(study(model, back))
    if not removing.counts_for(len(order)):
        return None
    return removing.removal(loaded, translated(loaded, sentences(model)), order, progress)


def heads_in_order(found: studying.Study) -> tuple[int, ...]:
    """Every head once, sorted by the better of its two rows, the best first."""
    return tuple(dict.fromkeys(head for _, head in found.ranked()))


@cached
def outputs_without(
    model: str, back: str | None, text: str, *, progress: Progress | None = None
) -> tuple[tuple[int, str, str], ...]:
    """The outputs with a number of aligning heads ablated, and with as many others: (count, output,
    output). Raises InputProblem."""
    loaded, order = cache.open_model(model), heads_in_order(study(model, back))
    counts, found = removing.counts_for(len(order)), []
    for done, count in enumerate(counts):
        others = removing.drawn(len(order), count, 0, order[:count])
        texts = [
            trace(loaded, text, edits=removing.heads_off(loaded, off)).output
            for off in (order[:count], others)
        ]
        found.append((count, texts[0], texts[1]))
        if progress is not None:
            progress(done + 1, len(counts))
    return tuple(found)
