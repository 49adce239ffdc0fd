"""Masks under test in real Chromium with the shipped translator: certificate, clinic, lab."""

import pytest

from explorer.text import t
from tests.browser.conftest import Visitor

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_shipped_model_keeps_every_promise_and_changed_masks_do_not(
    visitor: Visitor, lang: str
) -> None:
    visitor.open("certificate", lang=lang)
    visitor.page.get_by_role("button", name=t("certificate.run", lang=lang, count=12)).click()
    kept = t("certificate.kept", lang=lang, count=12, largest="").split("。")[0].split(".")[0]
    visitor.shows(kept)
    visitor.page.locator("canvas").first.wait_for()
    visitor.page.wait_for_url("**tested=1**")
    visitor.open("certificate", lang=lang, tested="1", edits="causal-off")
    visitor.shows(t("certify.future_leak.broken", lang=lang)[:20])
    assert visitor.page.get_by_text(kept).count() == 0


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_fault_of_the_clinic_shows_its_figure(visitor: Visitor, lang: str) -> None:
    visitor.open("clinic", lang=lang, case="no_mask")
    visitor.shows(t("clinic.no_mask.title", lang=lang))
    visitor.page.locator(".js-plotly-plot .heatmaplayer").first.wait_for(state="attached")
    visitor.shows(t("clinic.figures.first_row_self", lang=lang))
    visitor.page.get_by_text(t("clinic.groups.fills", lang=lang), exact=True).click()
    visitor.shows(t("clinic.small_fill.title", lang=lang))
    visitor.page.get_by_text(t("clinic.empty_row_nan.title", lang=lang), exact=True).first.click()
    visitor.page.wait_for_url("**case=empty_row_nan**")
    visitor.page.locator(".js-plotly-plot .annotation", has_text="NaN").first.wait_for()
