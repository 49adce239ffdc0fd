"""Position figures, curves and bars by their data."""

import re
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from explorer.figures import bars, curves
from explorer.figures.effect_map import EffectBlock, effect_map
from explorer.figures.head_map import GAP, head_map
from explorer.figures.order import moved
from explorer.figures.outcomes import outcomes, written_mask
from explorer.figures.positions import encoding
from explorer.figures.positions.turning import arrows
from explorer.figures.scores import scores
from explorer.figures.theme import DARK, LIGHT, clipped, css, escape, is_special, palette, show
from explorer.labels import str_tokens
from explorer.text import family
from models.training.vocabulary import train_tokenizer

BARS, POSITIONS = (family(f"figures.{name}", lang="en") for name in ("bars", "positions"))
TABLE = np.array([[0.0, 1.0, 0.0], [0.5, -0.5, 2.0]], np.float32)
TURNING_WORDS = family("figures.turning", lang="en")
HEATMAP: Any = {
    "words": family("figures.heatmap", lang="en"),
    "query_title": "query",
    "key_title": "key",
}
WORDS = family("figures.head_map", lang="en")
CELL_WORDS = {"recovered": "back", "head": "head", "nothing": "none"}
ONE = np.array([[-2.0, 0.5], [0.0, 0.1]])
OTHER = np.array([[1.0, -0.5]])


def test_table_is_drawn_row_by_position_around_zero() -> None:
    trace = encoding.table(TABLE, words=POSITIONS)["data"][0]
    np.testing.assert_array_equal(trace["z"], TABLE)
    assert (trace["zmin"], trace["zmax"]) == (-2, 2)


def test_gram_must_be_square() -> None:
    with pytest.raises(ValueError, match=r"values has shape \(2, 3\), expected \(2, 2\)"):
        encoding.gram(TABLE, words=POSITIONS)


def test_wavelengths_stand_on_a_log_axis_with_the_longest_text() -> None:
    figure = encoding.wavelengths(
        np.array([6.28, 6.28, 628.3]), n_ctx=128, marked=(2,), words=POSITIONS
    )
    assert figure["layout"]["yaxis"]["type"] == "log"
    assert figure["layout"]["shapes"][0]["y0"] == 128
    np.testing.assert_array_equal(figure["data"][0]["marker"]["size"], [5, 5, 11])
    with pytest.raises(ValueError, match="but there are 3 dimensions"):
        encoding.wavelengths(np.ones(3), marked=(3,), words=POSITIONS)


def test_waves_are_columns_of_the_table() -> None:
    figure = encoding.waves(TABLE, (2, 0), words={**POSITIONS, "dimension": "维度"})
    assert [trace["name"] for trace in figure["data"]] == ["维度 2", "维度 0"]
    np.testing.assert_array_equal(figure["data"][0]["y"], [0, 2])
    with pytest.raises(ValueError, match="but the table has 3 dimensions"):
        encoding.waves(TABLE, (3,), words=POSITIONS)


def test_curves_differ_without_colour_and_escape_their_names() -> None:
    ys = np.arange(12.0).reshape(6, 2)
    figure = curves.lines(np.arange(2), ys, ["<i>"] * 6, x_title="x", y_title="y", marked_x=1)
    assert len({trace["line"]["dash"] for trace in figure["data"]}) == 6
    assert figure["data"][0]["name"] == "&lt;i&gt;"
    assert figure["layout"]["shapes"][0]["x0"] == 1
    with pytest.raises(ValueError, match=r"ys has shape \(6, 2\), expected \(1, 2\)"):
        curves.lines(np.arange(2), ys, ["one"], x_title="x", y_title="y")


def test_row_shows_weights_and_hatches_what_is_blocked() -> None:
    figure = bars.row(
        ("a", "b", "<pad>"),
        np.array([0.4, 0.6, 0.0], np.float32),
        allowed=np.array([True, True, False]),
        stream="src",
        title="key",
        words=BARS,
    )
    [bar] = figure["data"]
    np.testing.assert_allclose(bar["y"], [40, 60, 66], rtol=1e-5)
    assert bar["text"].tolist() == ["40.0 %", "60.0 %", "blocked"]
    assert bar["marker"]["pattern"]["shape"].tolist() == ["", "", "/"]
    assert figure["layout"]["xaxis"]["title"]["font"]["color"] == LIGHT.source


@pytest.mark.parametrize("shape", [(2, 3), (2,)])
def test_row_refuses_weights_that_are_not_one_per_token(shape) -> None:
    with pytest.raises(ValueError, match=rf"weights has shape {re.escape(str(shape))}, expected"):
        bars.row(("a", "b", "c"), np.ones(shape), title="key", words=BARS)


def test_bars_of_a_shuffled_row_share_their_tokens() -> None:
    values = np.array([[0.5, 0.25, 0.1], [0.0, 1e-7, 0.0]])
    figure = moved(
        ["a", "a", "<b>"], values, ["with", "without"], y_title="y", x_title="x", stream="src"
    )
    with_, without = figure["data"]
    np.testing.assert_allclose(with_["y"], [50, 25, 10])
    assert list(without["text"]) == ["0", "0", "0"]
    assert list(with_["text"]) == ["", "", ""]
    assert len(set(with_["x"])) == 3
    assert "&lt;b&gt;" in with_["x"][2]
    assert with_["marker"]["color"] != without["marker"]["color"]
    with pytest.raises(ValueError, match="distances"):
        moved(["a"], values, ["with", "without"], y_title="y", x_title="x", stream="src")


def test_scores_diverge_and_blocked_cells_have_none() -> None:
    values = np.array([[-3.0, 9.0], [1.0, 2.0]])
    mask = np.array([[True, False], [True, True]])
    figure = scores(values, mask, ["a", "b"], ["c", "d"], title="scores", **HEATMAP)
    trace = figure["data"][0]
    assert (trace["zmin"], trace["zmax"]) == (-3.0, 3.0)
    assert np.isnan(trace["z"][0, 1])
    assert trace["z"][1, 1] == 2.0
    assert trace["text"][0, 0] == "−3.00"
    assert trace["text"][0, 1] == "blocked"
    shared = scores(values, mask, ["a", "b"], ["c", "d"], title="scores", top=7.5, **HEATMAP)
    assert shared["data"][0]["zmax"] == 7.5


def test_arrows_begin_at_their_circle_and_keep_their_direction() -> None:
    q = np.array([[3.0, 4.0], [0.0, 1.0]])
    k = np.array([[1.0, 0.0], [0.0, -1.0]])
    figure = arrows(
        q,
        k,
        -q,
        k,
        wavelengths=np.array([6.28, 628.0]),
        contributions=np.array([0.5, -0.5]),
        words=TURNING_WORDS,
    )
    _, bare_q, _, turned_q, _, spots = figure["data"]
    assert bare_q["x"][0] == turned_q["x"][0] == 0.0
    # The longest arrow (5) is the radius; one of length 1 is drawn sqrt(1 / 5) long.
    np.testing.assert_allclose([bare_q["x"][1], bare_q["y"][1]], [0.6, 0.8])
    np.testing.assert_allclose([turned_q["x"][1], turned_q["y"][1]], [-0.6, -0.8])
    np.testing.assert_allclose(bare_q["y"][4] - bare_q["y"][3], (1 / 5) ** 0.5)
    assert [note["text"] for note in figure["layout"]["annotations"]] == ["λ 6.3", "λ 628"]
    np.testing.assert_allclose(spots["customdata"][:, 2], [0.5, -0.5])
    with pytest.raises(ValueError, match="k has shape"):
        arrows(
            q, k[:1], q, k, wavelengths=np.ones(2), contributions=np.ones(2), words=TURNING_WORDS
        )


@pytest.mark.parametrize("dark", [False, True])
def test_each_level_has_its_colour_and_each_case_its_words(dark) -> None:
    figure = outcomes(
        [["good", "loud"], ["silent", "good"]],
        [["right", "NaN"], ["leaks\n<10 %", "0"]],
        ["a", "b"],
        ["x", "y"],
        selected=(1, 0),
        dark=dark,
    )
    trace = figure["data"][0]
    assert trace["z"].tolist() == [[0, 1], [2, 0]]
    assert trace["text"][1][0] == "leaks<br>&lt;10 %"
    edges = [edge for edge, _ in trace["colorscale"]]
    assert edges == pytest.approx([0, 1 / 3, 1 / 3, 2 / 3, 2 / 3, 1])
    assert trace["colorscale"][-1][1] == palette(dark).diverging[1]
    (box,) = figure["layout"]["shapes"]
    assert (box["x0"], box["y1"]) == (-0.5, 1.5)


def test_sizes_that_disagree_are_named() -> None:
    with pytest.raises(ValueError, match=r"texts has shape \(1, 1\), expected \(1, 2\)"):
        outcomes([["good", "good"]], [["a"]], ["r"], ["x", "y"])
    with pytest.raises(ValueError, match="texts"):
        written_mask(np.ones((2, 2), bool), np.full((2, 3), "1"))


def test_values_of_a_mask_are_written_while_there_is_room() -> None:
    keep = np.tril(np.ones((4, 4), bool))
    assert written_mask(keep, np.full((4, 4), "−1e9"))["data"][0]["texttemplate"] == "%{text}"
    keep = np.tril(np.ones((9, 9), bool))
    assert written_mask(keep, np.full((9, 9), "−1e9"))["data"][0]["texttemplate"] == ""
    figure = written_mask(keep, np.full((9, 9), "T"))["data"][0]
    assert figure["texttemplate"] == "%{text}"
    np.testing.assert_array_equal(figure["z"] == 0, keep)


def draw(**more: Any) -> dict[str, Any]:
    return head_map([ONE, OTHER], ["Encoder", "<b>Cross</b>"], words=WORDS, **more)


def test_kinds_stand_below_each_other_on_one_scale_around_zero() -> None:
    one, other, points = draw()["data"]
    np.testing.assert_array_equal(one["z"], ONE.astype(np.float32))
    assert (one["zmin"], one["zmax"], other["zmax"]) == (-2, 2, 2)
    from_zero = draw(top=0.5)["data"][0]
    assert (from_zero["zmin"], from_zero["zmax"]) == (0, 0.5)
    assert (one["y0"], other["y0"]) == (0, 2 + GAP)
    assert one["showscale"] != other["showscale"]
    np.testing.assert_allclose(points["y"], [0, 0, 1, 1, 2 + GAP, 2 + GAP])
    np.testing.assert_array_equal(points["x"], [0, 1, 0, 1, 0, 1])


def test_a_point_says_its_head_and_its_number_and_names_cannot_speak_html() -> None:
    said = draw(off=[(1, 0, 0)])["data"][-1]["customdata"]
    assert said[0] == "<b>Encoder</b><br>layer 1, head 1: −2.00"
    assert said[3] == "<b>Encoder</b><br>layer 2, head 2: +0.10"
    assert said[4] == "<b>&lt;b&gt;Cross&lt;/b&gt;</b><br>layer 1, head 1: ablated"
    assert draw(top=0.5)["data"][-1]["customdata"][3].endswith("head 2: 0.10")


def test_a_head_that_is_off_is_crossed_out_and_the_selected_one_outlined() -> None:
    figure = draw(off=[(0, 1, 0)], selected=(1, 0, 1))
    assert figure["data"][-1]["text"].tolist() == ["", "", "✕", "", "", ""]
    (shape,) = figure["layout"]["shapes"]
    assert (shape["x0"], shape["y0"]) == (0.5, pytest.approx(2 + GAP - 0.5))
    assert shape["line"]["color"] == LIGHT.accent
    assert "shapes" not in draw()["layout"]


def test_layers_are_counted_within_their_kind_below_its_name() -> None:
    layout = draw()["layout"]
    assert layout["yaxis"]["ticktext"] == ["1", "2", "1"]
    names = [(note["text"], note["y"]) for note in layout["annotations"]]
    assert names == [
        ("Encoder", pytest.approx(-0.5 - GAP / 2)),
        ("&lt;b&gt;Cross&lt;/b&gt;", pytest.approx(1.5 + GAP / 2)),
    ]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="2 maps, but 1 names"):
        head_map([ONE, OTHER], ["Encoder"], words=WORDS)
    with pytest.raises(ValueError, match=r"the map of Cross has shape \(1, 3\), expected \(1, 2\)"):
        head_map([ONE, np.zeros((1, 3))], ["Encoder", "Cross"], words=WORDS)


def blocks() -> list[EffectBlock]:
    upper = np.array([[0.5, np.nan, 1.5], [-2.0, 0.0, 0.004]])
    lower = np.array([[0.25]])
    return [
        EffectBlock("up", upper, ["0", "1"], ["<a>", "b", "b"], "src"),
        EffectBlock("down", lower, ["0"], ["c"], "tgt"),
    ]


def test_every_cell_has_a_point_in_reading_order_and_says_its_share() -> None:
    figure = effect_map(blocks(), selected=(1, 0, 0), words=CELL_WORDS)
    points = figure["data"][-1]
    assert points["x"].tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert points["y"].tolist() == pytest.approx([0, 0, 0, 1, 1, 1, 2.7])
    assert points["text"].tolist() == ["50", "", "150", "−200", "", "", "25"]
    assert "back 50 %" in points["customdata"][0]
    assert "0 &lt;a&gt;" in points["customdata"][0]
    assert "none" in points["customdata"][1]
    assert np.nanmax(figure["data"][0]["z"]) == 1  # the scale ends at all of it
    (outline,) = figure["layout"]["shapes"]
    assert (outline["y0"], outline["x0"]) == (pytest.approx(2.2), -0.5)
    below = [each["text"] for each in figure["layout"]["annotations"]]
    assert below == ["c"]
    assert figure["layout"]["yaxis"]["ticktext"] == ["<b>up</b> · 0", "1", "<b>down</b> · 0"]


def test_heads_are_counted_and_sizes_must_agree() -> None:
    figure = effect_map(
        [EffectBlock("heads", np.zeros((2, 3)), ["1", "2"])], title="head", words=CELL_WORDS
    )
    assert figure["layout"]["xaxis"]["ticktext"] == ["1", "2", "3"]
    with pytest.raises(ValueError, match=r"the values of heads.*\(2, 3\)"):
        effect_map([EffectBlock("heads", np.zeros((2, 3)), ["1"])], words=CELL_WORDS)


# The palette reads well in both themes, and no token can speak Plotly's HTML.


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb, WCAG 2.2."""
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_colours_have_the_contrast_of_readable_text(colours) -> None:
    for name in ("ink", "muted", "source", "target", "accent"):
        assert contrast(getattr(colours, name), colours.paper) >= 4.5, name
    for soft in (colours.source_soft, colours.target_soft):
        assert contrast(colours.ink, soft) >= 7


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_attention_moves_steadily_away_from_the_paper(colours) -> None:
    steps = [contrast(colour, colours.paper) for colour in colours.attention]
    assert steps == sorted(steps)
    assert steps[0] < 1.2
    assert steps[-1] > 9


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_hatching_is_visible_on_its_own_ground(colours) -> None:
    assert contrast(colours.hatch, colours.blocked) > 1.5
    for ground, mark in zip(colours.rules, colours.rule_marks, strict=True):
        assert contrast(mark, ground) > 2.5


def test_css_carries_every_colour_of_both_palettes() -> None:
    light, dark = css().split("\n")
    for text, colours in ((light, LIGHT), (dark, DARK)):
        for field in fields(colours):
            value = getattr(colours, field.name)
            for colour in (value,) if isinstance(value, str) else value:
                assert f": {colour};" in text
    assert "--hl-source-soft: #d7f0ec;" in light
    assert "--hl-attention-4: #dcdeff;" in dark
    assert dark.startswith(".hl[data-dark]")


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("dog", "dog"),
        ("", "∅"),
        (" ", "␣"),
        ("  a b ", "␣␣a b␣"),
        ("\n", "↵"),
        ("\u202eabc", "[U+202E]abc"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("狗", "狗"),
        ("\ud800", "[U+D800]"),
        ("كتاب", "\u2068كتاب\u2069"),
        ("·ספר", "\u2068·ספר\u2069"),
        ("\u2068dog\u2069", "[U+2068]dog[U+2069]"),  # what nobody needs is named
        ("\u2067كتاب", "\u2068[U+2067]كتاب\u2069"),
    ],
)
def test_nothing_in_a_shown_token_is_invisible(token, shown) -> None:
    assert show(token) == shown


def test_right_to_left_writing_is_isolated_once_and_stays_closed_where_it_is_cut() -> None:
    for token in ("كتاب", "ספר", "3 كتاب", "٣"):
        assert show(show(token)) == show(token)
        assert show(token).strip("\u2068\u2069") == token
    assert show(f"2 {show('كتاب')} → dog") == "2 \u2068كتاب\u2069 → dog"
    assert clipped(show("كتابكتاب"), 4) == "\u2068كتا…\u2069"
    assert clipped("elephant", 4) == "ele…"
    assert clipped(show("كتاب"), 4) == show("كتاب")


def test_escape_leaves_no_markup() -> None:
    assert escape('<a href="x">&lt;') == '&lt;a href="x"&gt;&amp;lt;'


def test_an_end_mark_is_special_and_one_that_was_typed_is_text() -> None:
    tokenizer = train_tokenizer(["a cat </s> </s>"] * 9, 60)
    typed = str_tokens(tokenizer, tokenizer.encode("</s>"))
    assert "".join(typed).replace("·", "").replace("␣", "") == "</s>"
    assert not any(map(is_special, typed))
    end = next(label for label in str_tokens(tokenizer, range(9)) if label == "</s>")
    assert is_special(end)
