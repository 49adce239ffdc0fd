"""Likely causes of a set of findings, by which properties break, which hold, and where."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from explorer.analysis.cases import BY_ID, Case
from explorer.analysis.mask_tests.certify import Finding
from explorer.notebook.captured import kind_of
from explorer.notebook.evidence import Evidence

Cause = Literal[
    "rows", "outside_future", "inverted_causal", "diagonal_open", "first_item", "first_head",
    "times_zero", "no_mask", "ahead_unseen", "after_softmax", "added_after", "inverted_padding",
    "shifted_padding", "other_row", "pad_visible", "outside_padding", "pads_unseen",
    "empty_row_nan", "left_positions", "length", "diagonal_closed", "causal_cross",
    "hides_too_much", "is_causal_cache", "cache_keys", "cache_heads", "cache_positions", "cache",
    "error", "unknown",
]  # fmt: skip
"""Texts are at `notebook.causes.*`; a cause that is the id of a common bug is illustrated by it."""

_SHOWN_BY = {"ahead_unseen": "no_mask"}
_PADDING = {"pad_content", "padding_right", "padding_left", "padding_batch"}


def bug_of(cause: Cause) -> Case | None:
    """The common bug that shows a cause in code; None if there is none."""
    return BY_ID.get(_SHOWN_BY.get(cause, cause))


def diagnose(findings: Sequence[Finding], evidence: Evidence) -> tuple[Cause, ...]:
    """The likely causes, one for each part of `_PARTS`; () if every finding passed."""
    broken = {finding.name for finding in findings if not finding.passed and not finding.error}
    kept = {finding.name for finding in findings if finding.passed}
    endless = {finding.name for finding in findings if finding.deviation == float("inf")} & broken
    if not any(not finding.passed for finding in findings):
        return ()
    if evidence.rows:
        return ("rows",)
    places = {
        finding.name: kind_of(finding.where.name)
        for finding in findings
        if finding.where is not None
    }
    case = _Case(broken, kept, endless, places, evidence)
    causes: list[Cause] = ["error"] if any(finding.error for finding in findings) else []
    for part in _PARTS:
        cause = next((cause for cause, holds in part.items() if holds(case)), None)
        if cause is not None:
            causes.append(cause)
    if not causes and "cache" in broken:
        causes.append(evidence.cache or "cache")
    return tuple(dict.fromkeys(causes)) or ("unknown",)


@dataclass(frozen=True)
class _Case:
    broken: Collection[str]
    kept: Collection[str]
    endless: Collection[str]  # NaN or infinite
    places: Mapping[str, str]  # the kind of module with the largest deviation
    evidence: Evidence

    def breaks(self, *names: str) -> bool:
        return all(name in self.broken for name in names)

    @property
    def exchanged(self) -> bool:
        """Whether one kind of module gives weight to hidden keys and blocks visible ones."""
        closed = self.places.get("open_cells") if "open_cells" in self.broken else None
        masses = ("future_mass", "pad_mass", "cross_mask")
        return any(mass in self.broken and self.places.get(mass) == closed for mass in masses)

    @property
    def of_another_row(self) -> bool:
        """Whether padding has weight, or real keys are blocked, only next to other lengths."""
        return {"padding_right", "padding_left"} <= set(self.kept) and self.breaks("padding_batch")

    @property
    def looks_ahead(self) -> bool:
        return "future_leak" in self.broken or "future_mass" in self.broken

    @property
    def sees_pads(self) -> bool:
        """Whether padding has weight, but not because all masks are missing."""
        own = "pad_mass" in self.broken and "future_mass" not in self.broken
        return own or "cross_mask" in self.broken

    @property
    def drops_weight(self) -> bool:
        """Whether rows do not sum to 1, and no hidden key has weight."""
        return "row_sums" in self.broken and not (
            {"future_mass", "pad_mass", "cross_mask"} & set(self.broken)
        )


Holds = Callable[[_Case], bool]

_AHEAD: Mapping[Cause, Holds] = {
    "added_after": lambda case: case.breaks("future_mass") and case.evidence.beyond,
    "inverted_causal": lambda case: case.breaks("future_mass") and case.evidence.inverted,
    # A batch of one is correct: `prefix` runs one sentence at a time.
    "first_item": lambda case: case.breaks("future_mass") and "prefix" in case.kept,
    "diagonal_open": lambda case: case.breaks("future_mass") and case.evidence.next_only,
    "first_head": lambda case: case.breaks("future_mass") and case.evidence.some_heads,
    "times_zero": lambda case: case.breaks("future_mass") and case.evidence.equal,
    "no_mask": lambda case: case.breaks("future_mass"),
    "after_softmax": lambda case: case.looks_ahead and case.drops_weight,
    "outside_future": lambda case: (
        case.looks_ahead and "future_mass" in case.kept and not case.evidence.unseen
    ),
    "ahead_unseen": lambda case: case.looks_ahead,
    "length": lambda case: case.breaks("prefix") and "open_cells" not in case.broken,
}

_PADS: Mapping[Cause, Holds] = {
    "added_after": lambda case: case.sees_pads and case.evidence.beyond,
    "other_row": lambda case: case.of_another_row and (case.sees_pads or case.breaks("open_cells")),
    "inverted_padding": lambda case: case.sees_pads and case.evidence.inverted_pads,
    "shifted_padding": lambda case: (
        case.sees_pads and case.exchanged and case.evidence.shifted_pads
    ),
    "first_head": lambda case: case.sees_pads and case.evidence.some_heads_pads,
    "unknown": lambda case: case.sees_pads and case.exchanged,
    "pad_visible": lambda case: case.sees_pads,
    "empty_row_nan": lambda case: "padding_left" in case.endless,
    "after_softmax": lambda case: (
        case.breaks("pad_content") and case.drops_weight and not case.looks_ahead
    ),
    "outside_padding": lambda case: (
        case.breaks("pad_content")
        and not case.looks_ahead
        and not case.evidence.unseen
        and bool({"pad_mass", "cross_mask"} & set(case.kept))
    ),
    "pads_unseen": lambda case: case.breaks("pad_content") and not case.looks_ahead,
    # The masks, which were seen, are right: only places are left.
    "left_positions": lambda case: (
        _PADDING & set(case.broken) == {"padding_left"}
        and {"open_cells", "row_sums"} <= set(case.kept)
    ),
}

_CLOSED: Mapping[Cause, Holds] = {
    "causal_cross": lambda case: (
        case.breaks("open_cells")
        and case.evidence.causal_cross
        and "padding_left" not in case.endless
    ),
    "diagonal_closed": lambda case: (
        case.breaks("open_cells", "row_sums")
        and case.evidence.only_itself
        and "padding_left" not in case.endless
    ),
    "hides_too_much": lambda case: (
        case.breaks("open_cells")
        and "row_sums" not in case.broken
        and not case.exchanged
        and not case.of_another_row
    ),
}

_PARTS = (_AHEAD, _PADS, _CLOSED)
"""Look-ahead, padding, and blocked cells: the first matching cause of each is reported."""

assert {cause for part in _PARTS for cause in part} <= set(get_args(Cause))
