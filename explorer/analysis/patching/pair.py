"""Two texts run side by side, so that activations of one run can be put into the other.

Both runs get the same question: the token at one position, after the same target words if
the model generates them. Their answers are the tokens that each run finds most probable there.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import islice

import numpy as np
from jaxtyping import Float

from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.edits import Edit
from explorer.runs.inputs import continued_tokens, given_tokens
from explorer.runs.interventions import edit_functions
from explorer.runs.passes import Steps
from explorer.runs.rerun import require_same_model
from explorer.runs.run import run
from explorer.runs.trace import Trace
from models.hooks import LOGITS
from models.rows import Rows, Stream

Places = tuple[tuple[int, int], ...]
"""Aligned positions of the first text and of the second, in rising order."""
ALIKE = 1e-3
"""If the two logit differences differ by no more than this, there is nothing to recover."""
MOST_TRIED = 40
"""Second sentences that are tried before giving up."""
Groups = Mapping[str, Sequence[Sequence[str]]]


@dataclass(frozen=True)
class PairQuestion:
    """A position that can be asked about, in the first text and in the second, and the most
    probable token of each run there."""

    places: tuple[int, int]
    answers: tuple[int, int]

    @property
    def differs(self) -> bool:
        """Whether the two runs answer differently."""
        return self.answers[0] != self.answers[1]


@dataclass(frozen=True, eq=False)
class Pair:
    """Two texts, each as a batch of one, their alignment, and the question put to both.

    `rows` end at the question in a model that cannot look ahead. `places[stream]` are the aligned
    positions (first, second). `answers` are (token of the first run, token of the second);
    `logits` those of the two runs at the question. `edits` are in force in both runs.
    """

    model: str
    rows: tuple[Rows, Rows]
    str_tokens: dict[Stream, tuple[tuple[str, ...], tuple[str, ...]]]
    places: dict[Stream, Places]
    question: PairQuestion
    questions: tuple[PairQuestion, ...]
    answers: tuple[int, int]
    str_answers: tuple[str, str]
    logits: tuple[Float[np.ndarray, " vocab"], Float[np.ndarray, " vocab"]] = field(repr=False)
    edits: tuple[Edit, ...] = ()

    def gap(self, logits: Float[np.ndarray, " vocab"]) -> float:
        """The logit difference: logit of the first run's answer minus that of the second's."""
        wanted, other = self.answers
        return float(logits[wanted]) - float(logits[other])

    @property
    def gaps(self) -> tuple[float, float]:
        """The logit difference in the first run and in the second."""
        return self.gap(self.logits[0]), self.gap(self.logits[1])

    @property
    def probabilities(self) -> tuple[float, float]:
        """The probability of each run's own answer in that run."""
        first, second = (
            probability(*outcome) for outcome in zip(self.logits, self.answers, strict=True)
        )
        return first, second

    @property
    def alike(self) -> bool:
        """Whether both runs give the same answer, so that there is nothing to recover."""
        first, second = self.gaps
        return abs(first - second) < ALIKE

    @property
    def same_length(self) -> bool:
        """Whether every position of one text is aligned with the same position of the other."""
        return all(
            len(pairs) == len(first) == len(second) and all(a == b for a, b in pairs)
            for pairs, (first, second) in (
                (self.places[stream], self.str_tokens[stream]) for stream in self.places
            )
        )

    def recovered(self, gaps: Float[np.ndarray, "*cells"]) -> Float[np.ndarray, "*cells"]:
        """The recovered share of the first run's answer for given logit differences: 0 as in the
        second run, 1 as in the first. Wang et al. 2022, "Interpretability in the Wild", §2; NaN if
        both runs give the same answer."""
        first, second = self.gaps
        return np.full_like(gaps, np.nan) if self.alike else (gaps - second) / (first - second)

    def swapped(self) -> "Pair":
        """The other direction: the second run's activations go into the first."""
        return replace(
            self,
            rows=self.rows[::-1],
            str_tokens={stream: values[::-1] for stream, values in self.str_tokens.items()},
            places={
                stream: tuple((b, a) for a, b in values) for stream, values in self.places.items()
            },
            question=_turned(self.question),
            questions=tuple(map(_turned, self.questions)),
            answers=self.answers[::-1],
            str_answers=self.str_answers[::-1],
            logits=self.logits[::-1],
        )


def probability(logits: Float[np.ndarray, " vocab"], token: int) -> float:
    """softmax(logits) at one token, in float64."""
    wide = logits.astype(np.float64)
    return float(np.exp(wide[token] - np.logaddexp.reduce(wide)))


def _turned(question: PairQuestion) -> PairQuestion:
    return PairQuestion(question.places[::-1], question.answers[::-1])


def align(first: Sequence[object], second: Sequence[object]) -> Places:
    """The aligned positions of two sequences.

    Sequences of equal length are aligned position by position. Otherwise the common tokens are
    aligned in order, and of each exchanged stretch as many tokens from its end as both have.
    """
    if len(first) == len(second):
        return tuple((at, at) for at in range(len(first)))
    matched: list[tuple[int, int]] = []
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    for _, i0, i1, j0, j1 in matcher.get_opcodes():
        n = min(i1 - i0, j1 - j0)
        matched += zip(range(i1 - n, i1), range(j1 - n, j1), strict=True)
    return tuple(matched)


def checked(places: Iterable[tuple[int, int]], n_first: int, n_second: int) -> Places:
    """A manual alignment restricted to these lengths: no position twice, none out of range, sorted
    by the second text."""
    taken: dict[int, int] = {}
    for a, b in places:
        if 0 <= a < n_first and 0 <= b < n_second and b not in taken and a not in taken.values():
            taken[b] = a
    return tuple((taken[b], b) for b in sorted(taken))


def pair(
    loaded: LoadedModel,
    traced: Trace,
    second: str,
    *,
    target: str | None = None,
    place: int | None = None,
    by_hand: Places | None = None,
) -> Pair:
    """The run of a Trace paired with a run of the text `second`, under the Trace's edits.

    A translator reads both with its translation of the first text as the target; a model of one
    text reads `target` after both. `place` is the position of the first text that is asked about;
    None: the most informative one, which in a translation is the first at which the runs answer
    differently, in one text the last, in a text with mask tokens the first such mask. `by_hand`
    aligns the texts as given.

    Raises InputProblem: `no_logits`, `nothing_aligned`, as `given_tokens`; ValueError for another
    model's Trace.
    """
    require_same_model(loaded, traced)
    if not traced.config.lm_head:
        raise InputProblem("no_logits")
    own = traced.tgt_tokens[: int(traced.tgt_valid.sum())]
    if traced.src_tokens:
        source = traced.src_tokens[: int(traced.src_valid.sum())]
        inputs: dict[Stream, tuple[tuple[int, ...], tuple[int, ...]]] = {
            "src": (source, given_tokens(loaded, second)),
            "tgt": (own, own),
        }
    else:
        inputs = {"tgt": (own, continued_tokens(loaded, second, target or ""))}
    read: Stream = loaded.model.reads[0]
    alignment = (
        align(*inputs[read]) if by_hand is None else checked(by_hand, *map(len, inputs[read]))
    )
    places: dict[Stream, Places] = {
        "tgt": tuple((at, at) for at in range(len(own))),
        read: alignment,
    }
    rows = tuple(_rows({stream: tokens[at] for stream, tokens in inputs.items()}) for at in (0, 1))
    changes = edit_functions(loaded.sites, traced.edits)
    logits = traced.logits, run(loaded.model, rows[1], {LOGITS}, changes)[LOGITS][0].numpy()
    questions = _questions(traced, places["tgt"], logits)
    if not questions:
        raise InputProblem("nothing_aligned")
    question = _asked(traced, questions, place)
    ends = [at + 1 if traced.config.is_causal else None for at in question.places]
    before = own[question.places[0]]
    shown = [loaded.str_tokens((before, answer))[-1] for answer in question.answers]
    cut = {"tgt": tuple(tokens[:end] for tokens, end in zip(inputs["tgt"], ends, strict=True))}
    kept = {stream: cut.get(stream, tokens) for stream, tokens in inputs.items()}
    return Pair(
        model=loaded.name,
        rows=(
            _rows({stream: tokens[0] for stream, tokens in kept.items()}),
            _rows({stream: tokens[1] for stream, tokens in kept.items()}),
        ),
        str_tokens={
            stream: (tuple(loaded.str_tokens(a, stream)), tuple(loaded.str_tokens(b, stream)))
            for stream, (a, b) in kept.items()
        },
        places={
            stream: tuple(
                (a, b)
                for a, b in places[stream]
                if a < len(kept[stream][0]) and b < len(kept[stream][1])
            )
            for stream in inputs
        },
        question=question,
        questions=questions,
        answers=question.answers,
        str_answers=(shown[0], shown[1]),
        logits=(logits[0][question.places[0]], logits[1][question.places[1]]),
        edits=traced.edits,
    )


def _rows(tokens: dict[Stream, tuple[int, ...]]) -> Rows:
    return Rows.of([tokens["tgt"]], [tokens.get("src", ())])


def _questions(
    traced: Trace, places: Places, logits: tuple[np.ndarray, np.ndarray]
) -> tuple[PairQuestion, ...]:
    """Every position that can be asked about: only mask tokens, if a text has any."""
    masked = [place for place in places if place[0] in traced.masked]
    return tuple(
        PairQuestion((a, b), (int(logits[0][a].argmax()), int(logits[1][b].argmax())))
        for a, b in masked or places
    )


def _asked(traced: Trace, questions: tuple[PairQuestion, ...], place: int | None) -> PairQuestion:
    """The question at `place`; otherwise the most informative one."""
    chosen = [question for question in questions if question.places[0] == place]
    in_order = questions if traced.src_tokens or not traced.config.is_causal else questions[::-1]
    return [*chosen, *(question for question in in_order if question.differs), *in_order][0]


def other_text(
    loaded: LoadedModel, traced: Trace, groups: Groups, target: str | None = None
) -> Steps[str | None]:
    """The Trace's text with one word exchanged, such that it has the same number of tokens and the
    model answers it differently. None if no exchange does.

    `groups` are words that may replace each other; if they do not help, words of the text replace
    each other. The steps are attempts. Raises InputProblem `no_logits`.
    """
    first = len(given_tokens(loaded, traced.text))
    drawn = loaded.config.picture is not None
    texts = other_characters(traced.text) if drawn else exchanged(traced.text, groups)
    for done, text in enumerate(islice(texts, MOST_TRIED)):
        yield done, MOST_TRIED
        try:
            if len(given_tokens(loaded, text)) != first:
                continue
            both = pair(loaded, traced, text, target=target)
        except InputProblem as problem:
            if problem.key == "no_logits":
                raise
            continue
        if both.question.differs:
            return text
    return None


def exchanged(text: str, groups: Groups) -> Iterator[str]:
    """Texts with one word exchanged: by the groups, in their order, then by another word of the
    text itself. Capitalisation is preserved, and no text occurs twice."""
    seen = {text}
    for other in (*_by_group(text, groups), *_by_itself(text)):
        if other not in seen:
            seen.add(other)
            yield other


def other_characters(text: str) -> Iterator[str]:
    """Words to draw that differ in one character, the third one first, in the same face."""
    word, at, face = text.rpartition(" @") if " @" in text else (text, "", "")
    for index in sorted(range(len(word)), key=lambda at: abs(at - 2)):
        alike = "atnoeACHR" if word[index].isalpha() else "3578"
        for other in alike if word[index].isascii() else "天大人我好":
            if other.isupper() == word[index].isupper() and other != word[index]:
                yield f"{word[:index]}{other}{word[index + 1 :]}{at}{face}"


def _by_group(text: str, groups: Groups) -> Iterator[str]:
    for group in (group for groups in groups.values() for group in groups):
        wanted, others = group[0], group[1:]
        latin = wanted.isascii()
        pattern = rf"\b{re.escape(wanted)}\b" if latin else re.escape(wanted)
        spot = re.search(pattern, text, re.IGNORECASE)
        if spot is None:
            continue
        for other in others:
            begins = spot[0][0].isupper() and (wanted != "I" or spot.start() == 0)
            shown = other[0].upper() + other[1:] if begins else other
            yield text[: spot.start()] + shown + text[spot.end() :]


def _by_itself(text: str) -> Iterator[str]:
    """Every word replaced by every other, nearest first; characters in scripts without spaces, and
    the next letter of the alphabet if the words are letters."""
    blanks = " " in text.strip()
    words = text.split() if blanks else list(text)
    glue = " " if blanks else ""
    if words and all(len(word) == 1 and word.isascii() and word.isalpha() for word in words):
        for at in range(len(words) - 1, -1, -1):
            following = chr((ord(words[at].lower()) - ord("a") + 1) % 26 + ord("a"))
            yield glue.join([*words[:at], following, *words[at + 1 :]])
    for at in range(len(words)):
        for other in words:
            if other != words[at] and other.isalpha() and words[at].isalpha():
                yield glue.join([*words[:at], other, *words[at + 1 :]])
