"""Every part of the Positions page, for every family of models and every kind of positions."""

from itertools import product

import pytest
from shown import Open, everything

from explorer import library
from explorer.exhibits.positions.choices import PositionsChoices
from explorer.text import LANGUAGES, t


@pytest.mark.parametrize(
    ("model", "lang"),
    [*product(("en-zh", "writer", "turner"), LANGUAGES), ("alibi", "en"), ("t5", "zh")],
)
@pytest.mark.parametrize("part", PositionsChoices.parts)
def test_each_part_is_drawn_and_explained(
    open_page: Open, part: str, lang: str, model: str
) -> None:
    at = open_page("positions", part=part, lang=lang, model=model)
    assert not at.exception
    assert not at.warning
    if model in ("alibi", "t5"):
        said = t(f"positions.model_{model}", lang=lang, width=24, limit=64)
        assert said in everything(at)
    acts = library.open_model(model, library.CHECKPOINTS).config.position_type.acts
    if part == "sum" and acts != "adds":  # nothing is added, so there is no sum to draw
        assert [each.value for each in at.info] == [t("sums.nothing_added", lang=lang)]
        return
    assert at.get("plotly_chart")
    group = next(name for name, inside in PositionsChoices.groups.items() if part in inside)
    assert at.segmented_control(key="positions.group").value == group
    for more in ("formula", "code", "numbers"):
        at.segmented_control(key="positions.more").set_value(more).run()
        assert not at.exception
    assert len(at.dataframe[-1].value) > 1


@pytest.mark.parametrize("page", ["heads", "cell", "causes", "patching", "circuits", "decoding"])
def test_scores_with_a_bias_break_no_page_that_reads_them(open_page: Open, page: str) -> None:
    """Every page opens for the encoders of the common shelf, whose scores have biases too."""
    at = open_page(page, model="t5", site="decoder")
    assert not at.exception
    if page == "cell":
        metrics = {metric.label: metric.value for metric in at.metric}
        shares = [metrics[label] for label in ("÷ √6", t("cell.bias", lang="en"))]
        score = sum(float(value.replace("−", "-")) for value in shares)
        assert score == pytest.approx(
            float(metrics[t("cell.score", lang="en")].replace("−", "-")), abs=0.011
        )
