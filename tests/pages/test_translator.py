"""Every page of a translator, in both languages."""

import pytest
from shown import Open, check_drawn

from explorer.pages import LESSONS
from explorer.text import LANGUAGES


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("page", [page.name for page in LESSONS])
def test_each_page_is_drawn_in_each_language(open_page: Open, page: str, lang: str) -> None:
    check_drawn(open_page, page, lang, model="en-zh")
