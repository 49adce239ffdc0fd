"""The controls for the decoding strategy, its settings, and the token limit."""

import random
from dataclasses import replace
from functools import partial
from typing import Any

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.block import escape
from explorer.exhibits.choices import ScreenChoices
from explorer.exhibits.decoding.choices import MOST_NEW, STOPS, DecodingChoices, Strategy, rule_of
from explorer.exhibits.links import State
from explorer.exhibits.picking import pick_one, slider
from explorer.library import LoadedModel
from models.foreign.elsewhere import RefillingBeam, Settings
from models.strategies import Beam, Greedy, Sample

NAMES: dict[str, type[Strategy]] = {"greedy": Greedy, "beam": Beam, "sample": Sample}
MOST_SEED = 9999
OURS = "narrowing"
RULES = (OURS, *STOPS)


def strategy_name(strategy: Strategy) -> str:
    """ "greedy", "beam" or "sample"."""
    return next(name for name, kind in NAMES.items() if isinstance(strategy, kind))


def beam_of(view: View) -> Beam:
    """The current beam search settings: the film's, else the stored ones."""
    choices = view.choices(DecodingChoices)
    return choices.strategy if isinstance(choices.strategy, Beam) else choices.beam


def sample_of(view: View) -> Sample:
    """The current sampling settings: the film's, else the stored ones."""
    choices = view.choices(DecodingChoices)
    return choices.strategy if isinstance(choices.strategy, Sample) else choices.sample


def compute(loaded: LoadedModel) -> Settings:
    """The decoding settings in the model's folder."""
    return loaded.asked


def show(asked: Settings, view: View) -> b.Blocks:
    """The user's changes to the model, the strategy with its settings, and the limit."""
    yield b.Changes("decoding.reset")
    strategy = view.choices(DecodingChoices).strategy
    settings: tuple[b.Control, ...] = ()
    if isinstance(strategy, Beam):
        settings = beam_settings(view, "decoding")
    elif isinstance(strategy, Sample):
        settings = sample_settings(view, "decoding")
    yield b.Row((_pick(view), *settings, _limit(view)), gap="medium")
    if not view.choices(ScreenChoices).beamer:
        yield b.Note(view.t("decoding.notes", strategy_name(strategy)))
    yield from _elsewhere(view, asked)


def _pick(view: View) -> b.Pick:
    choices = view.choices(DecodingChoices)
    kinds: dict[str, Strategy] = {
        "greedy": Greedy(),
        "beam": choices.beam,
        "sample": choices.sample,
    }
    more = b.More(change=lambda name: b.choose(strategy=kinds[name], step=None))
    names, now = tuple(NAMES), strategy_name(choices.strategy)
    return pick_one(view, "decoding.strategy", names, now, said="decoding.strategies", **more)


def _limit(view: View) -> b.Slider:
    now, display = view.choices(DecodingChoices).limit, b.Display(130)
    return slider(view, "decoding.limit", b.Span(0, MOST_NEW), now, typed=True, display=display)


def _elsewhere(view: View, asked: Settings) -> b.Blocks:
    """The settings in the model's folder: rules, which can be disabled, and all others."""
    if asked.rules and view.trace.config.generates:
        yield b.Toggle(
            "decoding.ruled",
            view.t("decoding.ruled", settings=escape(", ".join(asked.applied))),
            view.choices(DecodingChoices).ruled,
            lambda on: b.choose(ruled=on, step=None),
            help=view.t("decoding.ruled_help"),
        )
    notes = {"decoding.asked_chosen": asked.chosen, "decoding.asked_ignored": asked.ignored}
    for key, settings in notes.items():
        if settings:
            yield b.Note(view.t(key, settings=escape(", ".join(settings))))


def rule(beam: Beam) -> str:
    """The name of a beam's rule, one of RULES."""
    return rule_of(beam.early_stopping) if isinstance(beam, RefillingBeam) else OURS


def with_rule(beam: Beam, name: str) -> Beam:
    """A beam of the same width and length penalty with another rule."""
    sizes = {"width": beam.width, "length_penalty": beam.length_penalty}
    return Beam(**sizes) if name == OURS else RefillingBeam(**sizes, early_stopping=STOPS[name])  # type: ignore[arg-type]


def beam_settings(view: View, place: str) -> tuple[b.Control, ...]:
    """Controls for width, length penalty and rule of the current beam search."""
    beam = beam_of(view)
    more = b.More(form="menu", width=230, help=view.t("decoding.rule_help"))
    more |= {"label": "decoding.rule", "said": "decoding.rules"}
    more["change"] = lambda name: _replaced(with_rule(beam, name))
    return (
        pick_one(view, f"{place}.rule", RULES, rule(beam), **more),
        _setting(view, place, beam, "width", b.Span(1, 8)),
        _setting(view, place, beam, "length_penalty", b.Span(0.0, 2.0, 0.1)),
    )


def sample_settings(view: View, place: str) -> tuple[b.Control, ...]:
    """Controls for the cut-offs and seed of the current sampling, with a button for another
    seed."""
    sample = sample_of(view)

    def other_draw(state: State) -> dict[str, Any]:
        seed = (sample.seed + random.randint(1, MOST_SEED)) % (MOST_SEED + 1)
        return _with(state, replace(sample, seed=seed))

    seed = _setting(view, place, sample, "seed", b.Span(0, MOST_SEED))
    return (
        _setting(view, place, sample, "temperature", b.Span(0.0, 3.0, 0.1)),
        _setting(view, place, sample, "top_k", b.Span(0, 100)),
        _setting(view, place, sample, "top_p", b.Span(0.0, 1.0, 0.05)),
        replace(seed, typed=True, display=b.Display(120, view.t("decoding.seed_help"))),
        b.Button(f"{place}.again", view.t("decoding.again"), b.Change(other_draw), "casino"),
    )


def _setting(
    view: View, place: str, strategy: Beam | Sample, field: str, scale: b.Span
) -> b.Slider:
    key, label, now = (
        f"{place}.{field}",
        view.t("decoding.settings", field),
        getattr(strategy, field),
    )
    change = partial(_changed, strategy, field)
    return b.Slider(key, label, scale, now, change, display=b.Display(140))


def _changed(strategy: Beam | Sample, field: str, value: float) -> b.Change:
    if isinstance(value, float):
        value = round(value, 2)  # a slider's steps of 0.1 accumulate rounding errors
    changed: Any = {field: value}
    return _replaced(replace(strategy, **changed))


def _replaced(strategy: Beam | Sample) -> b.Change:
    return b.Change(lambda state: _with(state, strategy))


def _with(state: State, strategy: Beam | Sample) -> dict[str, Any]:
    """New settings, also for the film if it uses this strategy."""
    name = strategy_name(strategy)
    if strategy_name(state.of(DecodingChoices).strategy) == name:
        return {"strategy": strategy, "step": None, name: strategy}
    return {name: strategy}


EXHIBIT = Exhibit(compute, show)
