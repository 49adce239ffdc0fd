"""Positions: kinds that bias scores break no part and no other page."""

import pytest
from shown import Open, everything

from explorer.exhibits.positions.choices import PositionsChoices
from explorer.pages import PAGES
from explorer.text import t


@pytest.mark.parametrize("part", PositionsChoices.parts)
@pytest.mark.parametrize(("model", "lang"), [("alibi", "en"), ("t5", "zh")])
def test_a_kind_that_biases_scores_breaks_no_part(
    open_page: Open, model: str, lang: str, part: str
) -> None:
    at = open_page("positions", part=part, lang=lang, model=model)
    assert not at.exception
    assert not at.warning
    if part == "sum":  # nothing is added, so there is no sum to draw
        assert [each.value for each in at.info] == [t("sums.nothing_added", lang=lang)]
    else:
        assert at.get("plotly_chart")
    said = t(f"positions.model_{model}", lang=lang, width=24, limit=64)
    assert said in everything(at)


@pytest.mark.parametrize("page", [page.name for page in PAGES if page.name != "positions"])
def test_a_kind_that_biases_scores_breaks_no_page(open_page: Open, page: str) -> None:
    at = open_page(page, model="t5", site="decoder")
    assert not at.exception
    if page == "cell":
        metrics = {metric.label: metric.value for metric in at.metric}
        shares = [metrics[label] for label in ("÷ √6", t("cell.bias", lang="en"))]
        score = sum(float(value.replace("−", "-")) for value in shares)
        assert score == pytest.approx(
            float(metrics[t("cell.score", lang="en")].replace("−", "-")), abs=0.011
        )
