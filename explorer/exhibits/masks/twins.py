"""The effect of training without the causal mask: two models that differ only in it."""

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.engine import cache
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.exhibit import TEXTS
from explorer.exhibits.masks.choices import MasksChoices
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.edits import Edit, MaskSwitch
from explorer.runs.generation import translate
from explorer.runs.inputs import given_tokens
from explorer.runs.interventions import rules_in_force
from explorer.runs.rerun import token_logprobs, written_tokens
from explorer.runs.trace import trace

NO_CAUSAL: tuple[Edit, ...] = (MaskSwitch("causal", False),)
RIGHT, CHEAT = "twin-right", "twin-no-causal"
"""Shipped twins: the same data, seed and steps, with and without the causal mask."""
LONGEST = 22
"""Characters of the longest sentence that they were trained on, from their recipes."""


@dataclass(frozen=True)
class Twin:
    """One twin on one sentence: mean loss per token (nats) on given words, and its own output, both
    with the masks that it was trained with."""

    name: str
    loss: float
    writes: str


def twins(
    right: LoadedModel, cheat: LoadedModel, text: str, words: str | None = None
) -> tuple[Twin, Twin]:
    """Both twins read `words` (None: the output of the correct twin) and then generate freely.

    Raises InputProblem as `trace`.
    """
    writes = _writes(right, text, ())
    words = words or writes
    return (
        Twin(right.name, _loss(right, text, words, ()), writes),
        Twin(cheat.name, _loss(cheat, text, words, NO_CAUSAL), _writes(cheat, text, NO_CAUSAL)),
    )


def _writes(loaded: LoadedModel, text: str, masks: Sequence[Edit]) -> str:
    return loaded.tokenizer.decode(translate(loaded, given_tokens(loaded, text), masks)[0])


def _loss(loaded: LoadedModel, text: str, words: str, masks: Sequence[Edit]) -> float:
    read = trace(loaded, text, words, masks)
    return -float(token_logprobs(read.logits, written_tokens(read)).mean())


def compute(text: str, target: str | None) -> tuple[Twin, Twin] | None:
    """The twins on this sentence; None if it is too long for them: the page is about another model,
    so this is no error."""
    try:
        return twins(cache.open_model(RIGHT), cache.open_model(CHEAT), text, target)
    except InputProblem:
        return None


def is_offered(view: View) -> bool:
    """Whether the causal mask is switched off in a translator, and there are twins to compare."""
    is_off = not rules_in_force(view.trace.edits)["causal"]
    return is_off and "cross" in view.kinds and {RIGHT, CHEAT} <= {*cache.models()}


def is_open(view: View) -> bool:
    """Whether it is requested, or shown outside the app."""
    is_requested = view.choices(MasksChoices).effect == "twins" or not view.asks
    return is_requested and is_offered(view)


def show(found: tuple[Twin, Twin] | None, view: View) -> b.Blocks:
    """Both twins' losses on given words and their outputs, with a link to the twin that copies."""
    yield b.Title(view.t("masks.twins"))
    if found is None:
        yield b.Offer("twins")
        return
    right, cheat = found
    yield b.Prose(view.t("masks.twins_lead"))
    rows = [
        (view.t(key), f"{twin.loss:.2f}", escape(twin.writes) or view.t("masks.twins_nothing"))
        for key, twin in (("masks.twins_right", right), ("masks.twins_cheat", cheat))
    ]
    yield b.Table(
        [*map(view.t, ("masks.twins_model", "masks.twins_loss", "masks.twins_writes"))], rows, "lrl"
    )
    yield b.Prose(view.t("masks.twins_why"))
    if len(view.text) > LONGEST:
        yield b.Offer("twins")
    if view.loaded.name != CHEAT:
        there = b.choose(elsewhere=True, model=CHEAT, edits=NO_CAUSAL, text=view.text, step=None)
        yield b.Button("masks.twins", view.t("masks.twins_open"), there)


EXHIBIT = Exhibit(compute, show, needs=TEXTS, open=is_open)
