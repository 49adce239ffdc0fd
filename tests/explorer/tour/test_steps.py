"""Every step of the tour: it opens, and its answer is what another calculation gives.

The other calculation goes from the tensors of the trace (or the files' own numbers) to the words of
the right option, without the functions that the step itself uses.
"""

import math
import re
from collections.abc import Callable

import numpy as np
import pytest
import torch

from explorer import library
from explorer.exhibits.links import State
from explorer.exhibits.tour.choices import CHAPTERS
from explorer.exhibits.tour.course import STEPS, chapter_of, number_of
from explorer.exhibits.tour.posed import Missing, PosedStep, found_by, question
from explorer.exhibits.tour.steps import place_of, where_it_shows
from explorer.exhibits.view import View, build
from explorer.numbers import fixed, number, percent
from explorer.runs.generation import Generation, generate
from explorer.shell import LINKS
from explorer.ui import controls
from models.strategies import Beam, Greedy, Strategy

MODELS = library.list_models(library.CHECKPOINTS)


def seen(model: str, sentence: str | None = None) -> View:
    lang = "zh" if model == "zh-en" else "en"
    return build(State(lang=lang, model=model, text=sentence, pads=0), dark=False)


def posed(view: View, step: str) -> PosedStep | Missing:
    return found_by(view.run, view.lang, STEPS[step])


class Case:
    """A view, and what a step asks of it."""

    def __init__(self, view: View, one: PosedStep) -> None:
        self.view, self.trace, self.one, self.place = view, view.trace, one, one.place
        self.config = view.loaded.config

    @property
    def site(self):  # type: ignore[no-untyped-def]
        return self.trace.sites_of(self.place["site"])[self.place["layer"]]

    def head(self, what: str) -> np.ndarray:
        """The head's part of a tensor, float64; keys and values may be shared by heads."""
        found = self.trace.activations[self.site.hook(what)]
        return found[self.place["head"] * len(found) // self.site.n_heads].astype(np.float64)

    def of(self, what: str) -> np.ndarray:
        """The row of a tensor that the question is about, float64."""
        return self.head(what)[self.place["row"]]

    def products(self) -> np.ndarray:
        """The row of q . k, plus a positional bias, if there is one."""
        dots = self.head("k") @ self.of("q")
        return dots + self.of("bias") if self.site.hook("bias") in self.trace.activations else dots

    def key(self, at: int) -> str:
        tokens = self.trace.key_tokens(self.site.name)
        return controls.quoted_at(self.view, tokens, at)

    def told(self, value: str) -> int:
        """The key whose words are one of the step's values."""
        keys = range(len(self.trace.key_tokens(self.site.name)))
        return [self.key(at) for at in keys].index(str(self.one.values[value]))

    def written(self, most: int, strategy: Strategy | None = None) -> Generation:
        view = self.view
        return generate(view.loaded, view.text, strategy or Greedy(), most)


def times(value: float) -> str:
    return f"{value:.1f}"


def undivided(case: Case) -> str:
    dots = case.products()
    powers = np.exp(dots - dots.max()) * case.of("mask")
    return percent(float((powers / powers.sum()).max()))


def brought(case: Case) -> str:
    lengths = np.sqrt((case.head("v") ** 2).sum(-1))
    return case.key(int((case.of("pattern") * lengths).argmax()))


def left(case: Case) -> str:
    powers, allowed = np.exp(case.of("scores")), case.of("mask") > 0
    return percent(float(1 / (1 + powers[~allowed].sum() / powers[allowed].sum())))


def leaked(case: Case) -> str:
    allowed = case.of("mask") > 0
    blocked = float((~allowed).sum())
    return percent(blocked / (blocked + float(np.exp(case.of("scores"))[allowed].sum())))


def open_cells(case: Case) -> str:
    n = len(case.trace.query_tokens(case.site.name))
    causal = case.trace.mask(case.site.name)[0, 0].sum() == 1
    return str(n * (n + 1) // 2 + 3 * n if causal else (n + 3) * n)


def refused(case: Case) -> str:
    scores, names = torch.zeros(1).half(), {-1e4: "−1e4", -1e9: "−1e9", -math.inf: "−∞"}
    for value, name in names.items():
        try:
            scores.masked_fill(scores == 0, value)
        except RuntimeError:
            return name
    return ""


def rotated(case: Case) -> str:
    """The score by complex numbers, at the places before the shift."""
    q, k = (case.head(name)[:, ::2] + 1j * case.head(name)[:, 1::2] for name in "qk")
    query, key, d = case.place["row"], case.place["key"], case.config.d_head
    turns = not case.config.turns(case.site.layer)  # else q and k are rotated already
    angles = turns * case.config.rope_base ** (-np.arange(0, d, 2) / d)
    turned = q[query] * np.exp(1j * angles * (query - key)) * k[key].conj()
    return fixed(float(turned.real.sum() / case.config.divisor), 2)


def same_distance(case: Case) -> str:
    """The pair whose encodings, computed here, have the most similar dot product."""
    width = case.place["width"]
    waves = np.exp(1j * np.arange(64)[:, None] * 10_000.0 ** (-np.arange(0, width, 2) / width))

    def dot(words: str) -> float:
        first, second = map(int, re.findall(r"\d+", words))
        return float((waves[first] * waves[second].conj()).real.sum())

    wanted = dot(str(case.one.values["pair"]))
    return min(case.one.question.options, key=lambda option: abs(dot(option) - wanted))


def additions(case: Case) -> str:
    own = case.trace.sites_of(case.view.own_role)
    return str(2 * len(own) + len(case.trace.sites_of("cross")))


def row_so_far(case: Case) -> str:
    steps = case.written(12).steps
    chosen = [step.chosen_str for step in steps[: case.place["step"] + 1]]
    return str(len([*steps[0].input_tokens, *chosen]))


def chance(case: Case) -> str:
    value = math.prod(step.chosen_prob for step in case.written(8).steps)
    return percent(value) if value >= 0.001 else number(value)


def nucleus(case: Case) -> str:
    total, count = 0.0, 0
    for candidate in case.written(12).steps[case.place["step"]].candidates:
        if total >= float(str(case.one.values["p"])):
            break
        total, count = total + math.exp(candidate.logprob), count + 1
    return str(count)


def squared(case: Case) -> str:
    first, second = case.written(12).steps[case.place["step"]].candidates[:2]
    return times(math.exp(2 * (first.logprob - second.logprob)))


def best_of_both(case: Case) -> str:
    searches = (Greedy(), Beam(width=4, length_penalty=0.0))
    return fixed(max(case.written(32, search).logprob for search in searches), 2)


def wavelength(case: Case) -> str:
    base = case.config.rope_base if case.config.positions == "sinusoidal" else 10_000
    return fixed(2 * math.pi * base ** (case.place["dims"][1] / case.config.d_model), 1)


def cache_growth(case: Case) -> str:
    config, own = case.config, case.trace.sites_of(case.view.own_role)
    return f"{2 * 4 * len(own) * config.kv_heads * config.d_head:,}"


EXPECTED: dict[str, Callable[[Case], str]] = {
    "look": lambda case: case.key(int(case.of("pattern").argmax())),
    "rest": lambda case: percent(float(case.of("pattern").max())),
    "ratio": lambda case: times(
        case.of("pattern")[case.told("more")] / case.of("pattern")[case.told("less")]
    ),
    "scale": undivided,
    "values": brought,
    "heads": lambda case: f"{4 * case.config.d_model**2:,}",
    "cross": lambda case: case.view.t(
        "tour.shape", rows=len(case.trace.tgt_tokens), columns=len(case.trace.src_tokens)
    ),
    "purpose": lambda case: re.sub("[₀-₉]", "", case.key(case.place["row"] + 1)),
    "sees": lambda case: str(case.place["row"] + 1),
    "blocked": lambda case: str(math.comb(len(case.trace.tgt_tokens), 2)),
    "after": left,
    "zero": leaked,
    "padding": open_cells,
    "empty": lambda case: (
        case.view.t("cases.outcomes.nan")
        if torch.full((3,), -math.inf).softmax(0).isnan().all()
        else ""
    ),
    "half": refused,
    "bag": lambda case: "0 %",
    "waves": wavelength,
    "distance": same_distance,
    "leak": lambda case: controls.quoted_at(case.view, case.trace.tgt_str_tokens, 0),
    "rotary": rotated,
    "tenfold": lambda case: times(1.0),
    "company": lambda case: case.view.t("designs.norm.batchnorm"),
    "added": additions,
    "placement": lambda case: case.view.t("tour.placements.post"),
    "summed": lambda case: min(
        case.one.question.options, key=lambda option: float(option.split()[0])
    ),
    "given": row_so_far,
    "ended": lambda case: controls.quoted(
        case.view, case.view.loaded.str_tokens([case.view.loaded.marks.end])[0]
    ),
    "product": chance,
    "temperature": squared,
    "nucleus": nucleus,
    "beam": best_of_both,
    "passes": lambda case: "1",
    "kept": cache_growth,
}


def check(view: View, name: str) -> bool:
    """Whether the step shows here; if so, its answer and its words are checked."""
    one = posed(view, name)
    words = f"tour.steps.{name}"
    if isinstance(one, Missing):
        assert view.t(f"tour.missing.{one.why}")
        return False
    asks = one.question
    assert 3 <= len(asks.options) == len(set(asks.options)) <= 4, name
    wanted = EXPECTED[name](Case(view, one))
    answer = asks.answer.rpartition("(")[2].rstrip(")") if name == "given" else asks.answer
    assert answer == wanted, (view.loaded.name, name)
    assert view.t(f"{words}.ask", **one.values).endswith(("?", "？"))
    assert view.t(f"{words}.told", **one.values)
    before, after = ([block.name for block in one.picture(view, shown)] for shown in (False, True))
    assert before != after or (name in ("heads", "added") and before), name
    there = LINKS.change(view.state, **place_of(one))
    assert LINKS.read(LINKS.write(there)) == (there, ()), name
    return True


def test_the_course_is_whole_and_other_sentences_ask_other_questions():
    assert len(CHAPTERS) == 5
    assert all(5 <= len(chapter["steps"]) <= 8 for chapter in CHAPTERS.values())
    assert EXPECTED.keys() == STEPS.keys()
    assert number_of("purpose") == "2.1"
    assert chapter_of("kept") == "writing"
    texts = ("c a b d", "h e a d l i g h t")
    both = [posed(seen("reverse", text), "rest") for text in texts]
    assert len({one.question.mark for one in both if isinstance(one, PosedStep)}) == 2
    assert isinstance(posed(seen("reverse", " ".join("abcdefghij" * 3)), "look"), PosedStep)
    assert posed(seen("stories", "a " * 80), "look") == Missing("long")
    assert posed(seen("reader", "x"), "given") == Missing("short")


@pytest.mark.parametrize("lang", ["en", pytest.param("zh", marks=pytest.mark.sweep)])
def test_each_step_shows_on_the_sentence_that_is_offered_for_it(lang):
    for name, step in STEPS.items():
        assert check(seen(*where_it_shows(step, lang)), name), name


@pytest.mark.parametrize(
    "model",
    [pytest.param(name, marks=() if name == "masked-en" else pytest.mark.sweep) for name in MODELS],
)
def test_each_answer_is_right_for_this_model(model):
    shown = sum(check(seen(model), name) for name in STEPS)
    assert shown >= 14


def test_a_question_is_the_same_in_both_languages_by_its_words_alone():
    """So an answer still stands when somebody reads on in the other one."""
    views = [
        build(
            State(lang=lang, model="en-zh", text="She reads a book every morning.", pads=0),
            dark=False,
        )
        for lang in ("en", "zh")
    ]
    for name in ("empty", "distance", "company", "placement", "cross", "purpose", "ended"):
        both = [posed(view, name) for view in views]
        asks = [one.question for one in both if isinstance(one, PosedStep)]
        assert len(asks) == 2
        assert len({(one.mark, one.names, one.right, one.misread) for one in asks}) == 1
        assert [one.misread.index("") for one in asks] == [one.right for one in asks]
    asks = [
        question("look", [f"{at}", f"{at} b", f"{at} c", f"{at} d"], ("weaker",))
        for at in range(200)
    ]
    places = [one.right for one in asks if one is not None]
    assert len(places) == 200
    assert all(25 < places.count(place) < 75 for place in range(4))
    assert question("look", ["0", "0 d", "0 c", "0 b"], ("weaker",)).options == asks[0].options
    assert question("look", ["1", "1", "2", "2"], ("weaker",)) is None
