"""Every part of the Positions page in both languages, for every family of models."""

import pytest
from shown import Open, check_part

from explorer.exhibits.positions.choices import PositionsChoices
from explorer.text import LANGUAGES


@pytest.mark.parametrize("model", ["en-zh", "writer", "turner"])
@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("part", PositionsChoices.parts)
def test_every_part_in_each_language(open_page: Open, part: str, lang: str, model: str) -> None:
    check_part(open_page, part, lang, model=model)
