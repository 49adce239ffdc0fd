"""Links whose values fit neither the model nor the sentence."""

import pytest
from shown import Open, words_of
from streamlit.testing.v1 import AppTest

from explorer.pages import PAGES
from explorer.text import t


def messages(at: AppTest) -> str:
    return "\n".join(str(each.value) for each in at.warning)


def shown(at: AppTest) -> str:
    return "\n".join(words_of(each) for each in at.markdown)


def test_a_head_or_layer_that_the_model_lacks_is_named_with_its_range(open_page: Open) -> None:
    at = open_page("heads", layer="9", head="77")
    assert not at.exception
    layer, head = (str(each.value) for each in at.warning)
    assert layer == t("problems.bad_number", lang="en", name="layer", value=9, low=1, high=2)
    assert head == t("problems.bad_number", lang="en", name="head", value=77, low=1, high=4)


def test_a_bad_language_falls_back(open_page: Open) -> None:
    at = open_page("heads", lang="xx")
    assert not at.exception
    assert "lang = xx" in messages(at)
    assert t("heads.lead", lang="en") in shown(at)


@pytest.mark.parametrize("page", [page.name for page in PAGES])
def test_edits_that_fit_nothing_are_counted_and_left_out(open_page: Open, page: str) -> None:
    at = open_page(page, edits="head-decoder.blocks.99.attn-0~cell-nowhere-all-0-0-open")
    assert not at.exception


REMOVED: list[tuple[str, dict[str, str]]] = [
    ("machine", {"further": "history"}),
    ("workshop", {"part": "paper"}),
    ("positions", {"part": "length", "story": "Once."}),
    ("decoding", {"part": "speculation", "draft": "writer", "ahead": "2"}),
    ("alignment", {"part": "without"}),
    ("alignment", {"part": "file"}),
    ("patching", {"part": "flow", "written": "2", "edge_share": "2", "how": "replace"}),
]
"""Links of earlier versions, and the page on which each opens the nearest view."""


@pytest.mark.parametrize(("page", "link"), REMOVED)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_link_to_a_removed_view_opens_the_nearest_and_says_so(
    open_page: Open, page: str, link: dict[str, str], lang: str
) -> None:
    at = open_page(page, **link, lang=lang)
    assert not at.exception
    assert [each.value for each in at.info].count(t("shell.gone", lang=lang)) == 1
    assert not at.warning
