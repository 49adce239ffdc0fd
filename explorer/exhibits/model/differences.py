"""Implementation differences: each variant of a design choice, applied to the loaded model."""

from explorer.analysis.cases import Result
from explorer.analysis.cases.design import DESIGN, P
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.cases.outcome import print_of, table_of, words_of
from explorer.exhibits.model.choices import ModelChoices
from explorer.library import SMALL
from explorer.numbers import percent


def show(result: Result, view: View) -> b.Blocks:
    """What each option changes, choice by choice."""
    yield b.Prose(view.t("cases.design.lead"))
    if not view.trace.config.lm_head:
        yield b.Hint(view.t("swaps.no_logits"))
        return
    if not result.rows:
        yield b.Hint(view.t("cases.design.too_large", limit=f"{SMALL:,}"))
        return
    yield from table_of(view, result)
    fresh = "" if view.loaded.config.final_norm else view.t("cases.design.norm_note")
    yield b.Note(f"{view.t('cases.design.dropout_note', p=percent(P))} {fresh}")
    yield b.Sentence("cases", words_of(view, DESIGN.id, result))
    yield from print_of(view, DESIGN, result)


EXHIBIT = Exhibit(
    DESIGN.measure,
    show,
    open=lambda view: view.choices(ModelChoices).further == "differences",
    wait=Wait("cases.design.working"),
)
