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
