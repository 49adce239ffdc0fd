"""A natural text far beyond the training length: read in full, or only its end."""

from functools import partial

from explorer.analysis.positions.beyond import Beyond, beyond, perplexity
from explorer.exhibits import Exhibit, View, block as b, saying
from explorer.exhibits.positions.story import reader_of
from explorer.figures.curves import lines
from explorer.library import LoadedModel
from explorer.text import long_story, model_name

WAYS = ("whole", "windowed")


def compute(
    loaded: LoadedModel, shelf: tuple[str, ...], story: str | None
) -> tuple[LoadedModel, Beyond] | None:
    """The reader and both losses; None if no model can read on. Raises InputProblem."""
    reader = reader_of(loaded, shelf)
    return None if reader is None else (reader, beyond(reader, story or long_story()))


def show(answer: tuple[LoadedModel, Beyond] | None, view: View) -> b.Blocks:
    """Both losses along the text, and the perplexities beyond the training length."""
    if answer is None:
        return
    reader, found = answer
    if found.unknown:
        yield b.Note(saying.unknown_words(view, reader, found.unknown))
    middles, losses = found.curves
    sizes = {"limit": found.n_ctx, "window": found.window}
    name, read = model_name(reader.name, lang=view.lang), len(found.whole)
    places = {"read": read, "total": found.n_tokens, "width": found.width}
    yield b.Note(view.t("positions.natural_note", name=name, limit=found.n_ctx, **places))
    ways = [view.t(f"positions.natural_{way}", window=found.window) for way in WAYS]
    titles = view.axes("positions.natural_axis", "positions.loss")
    draw = partial(lines, middles, losses, ways, marked_x=found.n_ctx, points=True, **titles)
    yield b.Chart("positions.natural", draw, view.t("positions.natural"))
    inside, outside = slice(found.window, found.n_ctx), slice(found.n_ctx, None)
    means = {way: f"{perplexity(getattr(found, way)[outside]):.1f}" for way in WAYS}
    yield b.Sentence("natural", view.t("positions.natural_reading", **means, **sizes))
    gap, error = found.difference, found.error
    state = "hurts" if gap > 2 * error else "helps" if gap < -2 * error else "same"
    means = {f"{way}_inside": f"{perplexity(getattr(found, way)[inside]):.1f}" for way in WAYS}
    means |= {"gap": f"{abs(gap):.2f}", "error": f"{error:.2f}"}
    yield b.Prose(view.t(f"positions.natural_{state}", count=read - found.n_ctx, **means, **sizes))
    yield b.Code((beyond,))
    columns = dict(zip(ways, losses.round(3).tolist(), strict=True))
    yield b.Numbers(lambda: {titles["x_title"]: middles.tolist(), **columns})


EXHIBIT = Exhibit(compute, show)
