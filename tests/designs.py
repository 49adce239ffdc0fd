"""The shipped models, and what each page is asked of them: the sweep, and the core of it.

The sweep asks everything of every model (`make sweep`). Its core is what `make test` runs: each
visit with one model in turn, so that every model has several.
"""

from inspect import isgeneratorfunction
from typing import Any

import pytest

from explorer import library
from explorer.analysis.cases import BUGS, CLAIMS
from explorer.analysis.cases.case import inputs
from explorer.exhibits.score.choices import ASIDES
from explorer.exhibits.tour.course import STEPS as COURSE
from explorer.pages import LESSONS

Visit = tuple[str, dict[str, str]]
SHELF = library.CHECKPOINTS
MODELS = library.list_models(SHELF)


def parts_of(*pages: str) -> list[Visit]:
    """A visit of each part of these pages; of the whole page where it has none."""
    return [
        (page.name, {"part": part} if part else {})
        for page in LESSONS
        for part in getattr(page.choices, "parts", ("",))
        if page.name in pages
    ]


def claims(own: bool, slow: bool) -> list[Visit]:
    """A visit of each claim, answered: of those about the opened model or not, quick or slow."""
    return [
        ("cases", {"part": "claims", "claim": claim.id, "guess": "true"})
        for claim in CLAIMS
        if bool(inputs(claim.measure, True, True)) == own
        and isgeneratorfunction(claim.measure) == slow
    ]


STEPS: list[Visit] = [("tour", {"lesson": step}) for step in COURSE]
CASES: list[Visit] = [("cases", {"case": bug.id}) for bug in BUGS]
VISITS: dict[str, list[Visit]] = {
    "start": [("start", {}), ("start", {"door": "head"}), ("start", {"edits": "window-1"})],
    "masks": parts_of("heads", "masks"),
    "model": parts_of("model"),
    "score": [*parts_of("score"), *(("score", {"aside": aside}) for aside in ASIDES if aside)],
    "claims": [*claims(own=True, slow=False), *claims(own=True, slow=True)],
    "fixed": claims(own=False, slow=False),
    "trained": claims(own=False, slow=True),
    "bugs": [*parts_of("cases"), *CASES],
    "alignment": parts_of("alignment"),
    "circuits": parts_of("circuits"),
    "decoding": parts_of("decoding"),
    "positions": parts_of("positions"),
    "patching": parts_of("patching"),
    "exercises": parts_of("exercises"),
    "tour": [*parts_of("tour"), *STEPS],
    "attribution": [*parts_of("attribution"), ("attribution", {"part": "lens", "filmed": "1"})],
    "training": parts_of("training"),
}
"""What is asked about a subject, by its name."""
assert {page for asked in VISITS.values() for page, _ in asked} == {page.name for page in LESSONS}


def shares(visits: list[Visit], has_core: bool, name: str) -> list[Any]:
    """Each model and what it is asked, as parameters of a test; what is not core is a `sweep`."""
    cases = []
    for number, model in enumerate(MODELS):
        core: list[Visit] = []
        if has_core:  # each visit with one model, in turn
            turns = ((5 * at + len(visits)) % len(MODELS) for at in range(len(visits)))
            core = [visit for visit, turn in zip(visits, turns, strict=True) if turn == number]
        rest = [each for each in visits if each not in core]
        if core:
            cases.append(pytest.param(model, core, id=f"{name}-{model}-core"))
        if rest:
            mark = pytest.mark.sweep
            cases.append(pytest.param(model, rest, id=f"{name}-{model}-rest", marks=mark))
    return cases
