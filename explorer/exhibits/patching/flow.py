"""The word that is traced back, chosen among the generated ones."""

from explorer.analysis.patching.words import explained
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.patching.choices import PatchingChoices
from explorer.exhibits.picking import pick_one, slider
from explorer.library import LoadedModel
from explorer.runs.trace import Trace


def compute(loaded: LoadedModel, trace: Trace) -> tuple[str, ...]:
    """The token predicted at each position, or the token at it if the model has no logits."""
    n_real = int(trace.tgt_valid.sum())
    if not trace.config.lm_head:
        return trace.tgt_str_tokens[:n_real]
    return tuple(explained(loaded, trace, at).str_token for at in range(n_real))


def show(words: tuple[str, ...], view: View) -> b.Blocks:
    """The text, and the controls for the word and the edges."""
    yield b.SentenceLine()
    now, chosen = position_of(view), view.choices(PatchingChoices).written
    more = b.More(menu=True, width=300, help=view.t("patching.word_help"))
    said = [f"{place} · {word}" for place, word in enumerate(words)].__getitem__
    word = pick_one(view, "patching.word", _places(view), now, "written", said, **more)
    yield b.Row((word, _pick_least(view)))
    if chosen not in (None, now):
        yield b.Note(view.t("patching.not_written", place=chosen))


def _places(view: View) -> list[int]:
    """Positions of generated words; of mask tokens, if the model fills in some."""
    trace = view.trace
    return list(trace.masked or range(int(trace.tgt_valid.sum())))


def position_of(view: View) -> int:
    """The position of the word: the chosen one, else the last in a text that is continued, and the
    first otherwise."""
    trace, places = view.trace, _places(view)
    usual = places[0] if trace.src_tokens or trace.config.fills else places[-1]
    chosen = view.choices(PatchingChoices).written
    return chosen if chosen in places else usual


def word_of(view: View) -> str:
    """The word."""
    return EXHIBIT.answer(view)[position_of(view)]


def _pick_least(view: View) -> b.Slider:
    now = view.choices(PatchingChoices).edge_share
    more = b.More(help=view.t("patching.least_help"), width=320, form="%d %%")
    return slider(view, "patching.least", 0, 30, now, "edge_share", **more)


EXHIBIT = Exhibit(compute, show)
