"""A value in a link that cannot be used is named and left out; the rest holds."""

import pytest
from shown import Open, words_of
from streamlit.testing.v1 import AppTest

from explorer.text import LANGUAGES


def messages(at: AppTest) -> str:
    return "\n".join(str(each.value) for each in at.warning)


def shown(at: AppTest) -> str:
    return "\n".join(words_of(each) for each in at.markdown)


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("site", "everywhere"),
        ("layer", "zero"),
        ("layer", "0"),
        ("head", "-1"),
        ("row", "x"),
        ("instead", "2.5"),
        ("pins", "1.1_1.1"),
        ("pins", "0.1"),
        ("measure", "length"),
        ("by_measure", "2"),
        ("scale", "cubic"),
        ("step", "1e3"),
        ("pads", "99"),
        ("pads", "0" * 9 + "99"),
        ("edits", "causal-maybe"),
        ("strategy", "beam-0-9"),
        ("strategy", "sample-nan-0-1-1"),
        ("base", "1"),
        ("width", "١٢"),
    ],
)
def test_a_bad_value_in_a_link_is_reported_and_left_out(
    open_page: Open, lang: str, name: str, value: str
) -> None:
    at = open_page("heads", lang=lang, text="I like you.", **{name: value})
    assert not at.exception
    assert len(at.warning) == 1
    assert f"{name} = " in messages(at)
    assert name not in at.query_params
    assert "I like you" in shown(at)  # the rest of the link holds
    at.selectbox(key="heads.measure").select("entropy").run()
    assert not at.warning
