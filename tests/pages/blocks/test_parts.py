"""Every part of the Blocks page in both languages."""

import pytest
from shown import Open

from explorer.exhibits.blocks.choices import BlocksChoices
from explorer.text import LANGUAGES


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("part", [part for part in BlocksChoices.parts if part != "experts"])
@pytest.mark.parametrize("model", ["en-zh", "modern"])
def test_every_part_in_each_language(open_page: Open, model: str, part: str, lang: str) -> None:
    at = open_page("blocks", part=part, lang=lang, model=model, depth="2")
    assert not at.exception
    assert not at.warning
    assert at.get("plotly_chart")
    for more in ("formula", "code", "numbers"):
        at.segmented_control(key="blocks.more").set_value(more).run()
        assert not at.exception
    assert len(at.dataframe[-1].value) > 1
