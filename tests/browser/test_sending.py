"""Elements that a fragment's rerun does not send again stay, and no others do."""

import re

from playwright.sync_api import expect

from tests.browser.app import running_app
from tests.browser.trees import N_TREES, lines

LABELS = "[data-testid=stMain] :is(.stMarkdown, summary p, .stButton)"


def test_a_fragment_shows_what_it_draws(browser):
    page, errors = browser.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    with running_app("tests/browser/trees.py") as address:
        page.goto(address)
        for number in range(N_TREES):
            page.get_by_text(f"tree {number}", exact=True).wait_for()
            page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()
            assert not errors
            shown = [label for _, kind, label in lines(number) if kind != "box"]
            labels = page.locator(LABELS).filter(has_text=re.compile(r"\w \d"))
            expect(labels, f"tree {number}").to_have_text(shown)
            if number == 3:  # a refused choice is set back each time
                for _ in range(2):
                    page.get_by_text("refused").click()
                    expect(page.get_by_role("switch")).not_to_be_checked()
            page.get_by_role("button", name="next").click()
