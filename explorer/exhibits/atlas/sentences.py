"""The open head's best sentences, filtered."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
from jaxtyping import Float, Int

from explorer.analysis.atlas.store import Text
from explorer.analysis.roles import MEASURES, Measure
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.atlas.choices import AtlasChoices
from explorer.exhibits.atlas.measured import WHICH, Which, alone, atlas
from explorer.exhibits.atlas.shown import kind_words, opened
from explorer.exhibits.block import escape
from explorer.exhibits.picking import slider
from explorer.numbers import percent
from models.hooks import Role

LIST = 140
"""Height of the list of sentences in pixels; it scrolls."""
LISTED = 160
"""Most characters of a text in the list."""


@dataclass(frozen=True, eq=False)
class Best:
    """The sentences that best show what a head does, by `measure`: its share in each, and the
    tokens of each."""

    measure: Measure
    texts: tuple[Text, ...]
    shares: Float[np.ndarray, " text"]
    tokens: Int[np.ndarray, " text"]


def compute(which: Which, kind: Role, layer: int, head: int) -> Best:
    """Raises InputProblem as `atlas`."""
    whole = atlas(which)
    number = opened(whole, kind, layer, head).number
    measure = whole.names[number].nearest
    texts = tuple(whole.texts[at] for at in whole.best[number])
    of_texts = alone(which, texts)
    shares = of_texts.weight[:, number, MEASURES.index(measure)]
    return Best(measure, texts, shares, of_texts.tokens)


def show(best: Best | None, view: View) -> b.Blocks:
    """The list and its filters."""
    if best is None:
        return
    yield b.Title(view.t("atlas.sentences"), large=True)
    count = len(best.texts)
    if not count:
        yield b.Note(view.t("atlas.sentences_none"))
        return
    kind = kind_words(view, best.measure)
    yield b.Note(view.t(f"atlas.sentences_{how(best.measure)}", kind=kind, count=count))
    yield _filters(view)
    kept = kept_of(best, view)
    if not kept:
        yield b.Hint(view.t("atlas.filtered_none", count=count), "filter_alt")
        return
    picked = b.Pick(
        "atlas.sentence",
        view.t("atlas.sentences"),
        {at: said(view, best.texts[at], float(best.shares[at])) for at in kept},
        open_of(kept, view),
        lambda at: b.choose(sentence=at + 1),
        "list",
        b.Display(quiet=True),
    )
    yield b.Pane((picked,), height=LIST)


def kept_of(best: Best, view: View) -> list[int]:
    """The indices of the sentences that pass the filters."""
    choices, measured = view.choices(AtlasChoices), zip(best.tokens, best.shares, strict=True)
    numbers = [(int(tokens), float(share)) for tokens, share in measured]
    return [at for at, text in enumerate(best.texts) if passes(choices, text, *numbers[at])]


def open_of(kept: list[int], view: View) -> int:
    """The open sentence; the first that passes if the chosen one does not."""
    chosen = view.choices(AtlasChoices).sentence - 1
    return chosen if chosen in kept else kept[0]


def how(measure: Measure) -> str:
    """The meaning of the number before a sentence."""
    return measure if measure in ("spread", "alignment") else "weight"


def said(view: View, text: Text, share: float) -> str:
    """A sentence in the list: its share, its text, its translation."""
    number = f"{percent(share)} · " if np.isfinite(share) else ""
    target = f" ⟶ {escape(beginning(text.target))}" if text.target else ""
    return f"{number}{escape(beginning(text.source))}{target}"


def beginning(text: str) -> str:
    """A text shortened for the list; the open one is shown in full."""
    return text if len(text) <= LISTED else f"{text[:LISTED].rstrip()} …"


def passes(choices: AtlasChoices, text: Text, tokens: int, share: float) -> bool:
    """Whether a sentence passes the filters: length, a word in it (* matches any letters), and the
    head's share in it."""
    if choices.shortest and tokens < choices.shortest:
        return False
    if choices.longest and tokens > choices.longest:
        return False
    if choices.least and not 100 * share >= choices.least:
        return False
    word = choices.containing.strip().casefold()
    if not word:
        return True
    both = f"{text.source} {text.target}".casefold()
    if "*" in word or "?" in word:
        return any(fnmatchcase(term.strip(".,;:!?\"'。，！？“”"), word) for term in both.split())
    return word in both


def _filters(view: View) -> b.Row:
    chosen = view.choices(AtlasChoices)
    boxes = [
        slider(
            view,
            f"atlas.{field}",
            b.Span(0, limit),
            getattr(chosen, field),
            typed=True,
            display=b.Display(150),
        )
        for field, limit in (("shortest", 9999), ("longest", 9999), ("least", 100))
    ]
    word = b.TextBox(
        "atlas.containing",
        view.t("atlas.word"),
        chosen.containing,
        b.sets("containing"),
        most=60,
        display=b.Display(220, view.t("atlas.word_help")),
    )
    return b.Row((*boxes, word))


EXHIBIT = Exhibit(compute, show, inputs=WHICH, wait=Wait(after="atlas.measured"))
