"""One step of the guided tour: its question, its picture, and the page for further exploration."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeVar, cast

from explorer.engine import cache
from explorer.engine.cache import Run
from explorer.engine.caching import cached
from explorer.exhibits import View, block as b
from explorer.exhibits.tour.found import LONGEST, Missing
from explorer.library import LoadedModel
from explorer.runs.trace import Trace

MOST_OPTIONS = 4
Found = TypeVar("Found")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def _checksum(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


@dataclass(frozen=True, eq=False)
class Question:
    """Options in words (Markdown), all different, one of them right.

    They are ordered by a checksum of their names: deterministic, without a preferred position of
    the right one. `names` are the same in every language; `mark` is a short identifier of this
    question.
    """

    options: tuple[str, ...]
    right: int
    names: tuple[str, ...]

    @property
    def answer(self) -> str:
        """The right option."""
        return self.options[self.right]

    @property
    def mark(self) -> str:
        """Four letters or digits, a short hash of the question."""
        number, letters = _checksum("\n".join((*self.names, self.names[self.right]))), ""
        for _ in range(4):
            number, digit = divmod(number, len(_DIGITS))
            letters += _DIGITS[digit]
        return letters


class AlikeError(Exception):
    """Fewer than two options would be wrong."""


def question(
    step: str, right: str, wrong: Sequence[str], names: Mapping[str, str] | None = None
) -> Question:
    """A question with the first of `wrong` that differ from `right` and from each other.

    `names` are language-independent names of the options. Raises AlikeError if there are fewer than
    two wrong options.
    """
    others = [each for each in dict.fromkeys(wrong) if each != right][: MOST_OPTIONS - 1]
    if len(others) < 2:
        raise AlikeError
    named = {each: (names or {}).get(each, each) for each in (right, *others)}
    options = sorted(named, key=lambda each: _checksum(f"{step} {named[each]}"))
    return Question(tuple(options), options.index(right), tuple(named[each] for each in options))


@dataclass(frozen=True, eq=False)
class PosedStep:
    """A step on one run.

    `values` fill its words; `picture(answered)` is the picture, without what would reveal the
    answer until `answered`; `place` are the choices with which its page opens. `told` selects the
    explanation if a step has several.
    """

    question: Question
    values: Mapping[str, object]
    picture: Callable[[bool], Iterable[b.Block]]
    place: Mapping[str, Any]
    told: str = "told"


@dataclass(frozen=True)
class Step:
    """One step: `find` computes it (see `path.found`), `pose` turns the result into a question
    and a picture. `page` is the page for further exploration, `formula` LaTeX, `telling` the lesson
    of `assets/lessons/telling.toml` whose sentences show it ("": the default sentence does).

    Its words are at `path.steps.<id>`: title, lead, ask and told.
    """

    id: str
    page: str
    find: Callable[[LoadedModel, Trace], Any]
    pose: Callable[[View, Any], PosedStep]
    formula: str
    told: tuple[str, ...] = ("told",)
    telling: str = ""


def step(
    name: str,
    page: str,
    find: Callable[[LoadedModel, Trace], Found | Missing],
    pose: Callable[[View, Found], PosedStep],
    formula: str,
    told: tuple[str, ...] = ("told",),
    telling: str = "",
) -> Step:
    """Make a step whose `pose` takes the result of its `find`; `told` are its possible
    explanations."""
    posed = cast(Callable[[View, Any], PosedStep], pose)
    return Step(name, page, find, posed, formula, told, telling)


@cached
def found(run: Run, find: Callable[[LoadedModel, Trace], Any], needs_logits: bool) -> Any:
    """What a step's `find` returns for a run. Raises InputProblem."""
    trace = cache.trace(run)
    if max(len(trace.src_tokens), len(trace.tgt_tokens)) > LONGEST:
        return Missing("long")
    if needs_logits and not trace.config.lm_head:
        return Missing("no_logits")
    return find(cache.open_model(run.model), trace)


def found_by(run: Run, one: Step) -> Any:
    """What a step finds in a run, or `Missing`. Raises InputProblem."""
    return found(run, one.find, one.page == "decoding")


def asked(view: View, one: Step, answer: Any) -> PosedStep | Missing:
    """A step with this answer of `found_by`, in the user's language."""
    if isinstance(answer, Missing):
        return answer
    try:
        return one.pose(view, answer)
    except AlikeError:
        return Missing("alike")
