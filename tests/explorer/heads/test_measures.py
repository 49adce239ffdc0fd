"""Maps of measures over layers and heads."""

from dataclasses import replace

import numpy as np
import pytest

from explorer.analysis.heads.measures import (
    HEAD_MEASURES,
    HeadMeasure,
    head_measures,
    measure_maps,
    measure_names,
)
from explorer.engine.jobs import walked
from explorer.library import LoadedModel
from explorer.runs.trace import Trace, trace
from models.hooks import Role

CROSS = "decoder.blocks.1.cross_attn"


@pytest.fixture
def traced(translator: LoadedModel) -> Trace:
    """Source: 3 tokens and the end mark; decoder's row: start and 2 tokens."""
    return trace(translator, "The cat ran", "我爱你猫")


def alignment_of(traced: Trace, rows: list[list[float]]) -> float | None:
    name = f"{CROSS}.hook_pattern"
    pattern = traced.activations[name].copy()
    pattern[2] = rows
    made = replace(traced, activations=traced.activations | {name: pattern})
    return head_measures(made, CROSS)[2].alignment


def test_alignment_by_hand(traced: Trace) -> None:
    assert alignment_of(traced, [[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0]]) == pytest.approx(1)
    assert alignment_of(traced, [[0, 0, 0, 1]] * 3) == 0  # all on the end mark
    assert alignment_of(traced, [[0.5, 0.5, 0, 0]] * 3) == 0  # no row differs from another
    # Two keys for three rows: H(1/3, 2/3) of the 1 bit that two keys can tell.
    shared = 1 / 3 * np.log2(3) + 2 / 3 * np.log2(3 / 2)
    assert alignment_of(traced, [[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]]) == pytest.approx(shared)


def test_alignment_is_of_cross_attention_with_several_rows(
    translator: LoadedModel, traced: Trace
) -> None:
    assert head_measures(traced, "encoder.blocks.0.attn")[0].alignment is None
    padded = trace(translator, "The cat ran", "我爱你猫", pads=2)
    for one, other in zip(head_measures(traced, CROSS), head_measures(padded, CROSS), strict=True):
        assert one.alignment == pytest.approx(other.alignment, abs=1e-5)
    assert alignment_of(traced, [[0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]) is None


@pytest.mark.parametrize("measure", HEAD_MEASURES)
def test_a_map_holds_every_head(measure: HeadMeasure, traced: Trace) -> None:
    shapes: tuple[tuple[Role, tuple[int, int]], ...] = (
        ("encoder", (3, 4)), ("decoder", (2, 4)), ("cross", (2, 4)),
    )  # fmt: skip
    for kind, shape in shapes:
        site = traced.sites_of(kind)[1].name
        found = getattr(head_measures(traced, site)[2], measure)
        values = walked(measure_maps(traced, kind)).get(measure)
        if values is None:  # no head of this kind has it
            assert found is None
            continue
        assert values.shape == shape
        assert np.isnan(values[1, 2]) if found is None else values[1, 2] == found


def test_a_kind_that_is_not_there(writer: LoadedModel) -> None:
    with pytest.raises(ValueError, match="'encoder'"):
        walked(measure_maps(trace(writer, "The cat ran"), "encoder"))


def test_the_names_of_measures_are_known_without_computing_any(
    traced: Trace, writer: LoadedModel
) -> None:
    for kind in ("encoder", "decoder", "cross"):
        assert measure_names(traced, kind) == tuple(walked(measure_maps(traced, kind)))
    for text in ("The cat ran", ""):
        alone = trace(writer, text or "a")
        assert measure_names(alone, "decoder") == tuple(walked(measure_maps(alone, "decoder")))


def test_progress_is_told_of_every_layer(traced: Trace) -> None:
    assert [*measure_maps(traced, "encoder")] == [(1, 3), (2, 3), (3, 3)]


def test_only_measures_that_a_kind_has_are_mapped(traced: Trace) -> None:
    assert set(HEAD_MEASURES) - set(walked(measure_maps(traced, "encoder"))) == {"alignment"}
    assert set(HEAD_MEASURES) - set(walked(measure_maps(traced, "cross"))) == {
        "previous", "diagonal", "distance",
    }  # fmt: skip
