"""The Workshop in real Chromium with the shipped translator: type, run, put into the model."""

import pytest

from explorer.text import t
from tests.browser.conftest import Visitor

pytestmark = pytest.mark.browser


def test_a_mask_is_typed_mended_and_put_into_the_model(visitor: Visitor) -> None:
    visitor.open("workshop", lang="en")
    visitor.shows("Query 0 sees key 1: a later key.")
    editor = visitor.page.locator(".st-key-workshop-editor textarea")
    editor.fill("def may_attend(q, k):\n    return k <= q + 1")
    visitor.page.locator(".st-key-workshop-run button").click()
    visitor.shows("Each row sees one token too many")
    visitor.page.get_by_role("button", name=t("workshop.plant", lang="en")).click()
    visitor.shows(t("certify.future_leak.title", lang="en"))
    editor.fill("def may_attend(q, k):\n    return k <= q")
    visitor.page.locator(".st-key-workshop-run button").click()
    visitor.shows("Correct: all 147 values")
    visitor.shows(t("workshop.certified", lang="en", count=14))
    visitor.page.wait_for_url(lambda url: "solved=causal" in url)
