"""The shipped atlases: small, of the shipped weights, and every sentence with its source."""

import pytest

from explorer import library
from explorer.analysis.atlas.finding import find_atlas
from explorer.analysis.atlas.store import BEST, to_json
from explorer.library import open_model

NAMES = ("en-zh", "zh-en", "stories")


def test_all_of_them_together_are_less_than_a_megabyte() -> None:
    found = sorted(library.CHECKPOINTS.glob("*/atlas/*"))
    assert {path.parent.parent.name for path in found} == set(NAMES)
    assert all(path.name == "atlas.json" for path in found)
    assert sum(path.stat().st_size for path in found) <= 1_000_000


@pytest.mark.parametrize("name", NAMES)
def test_each_is_of_the_shipped_weights_and_credits_its_sentences(name: str) -> None:
    found = find_atlas(open_model(name))
    atlas = found.atlas
    assert atlas is not None
    assert found.path is not None
    assert to_json(atlas) == found.path.read_text(encoding="utf-8")
    assert all(len(best) == BEST for best in atlas.best)
    assert "CC BY 2.0 FR" in atlas.about.credit or "CDLA-Sharing-1.0" in atlas.about.credit
    if name != "stories":
        assert all("tatoeba.org" in text.credit for text in atlas.texts)
    assert atlas.counts["sentences"] > 20_000
    assert atlas.cost_sentences == 96
