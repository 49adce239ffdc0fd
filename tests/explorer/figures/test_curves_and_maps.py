"""Curves and bars by their data."""

import re

import numpy as np
import pytest

from explorer.figures import bars, curves, score as cell
from explorer.figures.bars import grouped
from explorer.figures.theme import DARK, LIGHT, clipped, escape, is_special, show
from explorer.labels import str_tokens
from explorer.text import family
from models.training.vocabulary import train_tokenizer

BARS = family("figures.bars", lang="en")


def test_curves_differ_without_colour_and_shuffled_bars_share_their_tokens():
    ys = np.arange(12.0).reshape(6, 2)
    figure = curves.lines(np.arange(2), ys, ["<i>"] * 6, x_title="x", y_title="y", marked_x=1)
    assert len({trace["line"]["dash"] for trace in figure["data"]}) == 6
    assert figure["data"][0]["name"] == "&lt;i&gt;"
    assert figure["layout"]["shapes"][0]["x0"] == 1
    with pytest.raises(ValueError, match=r"ys has shape \(6, 2\), expected \(1, 2\)"):
        curves.lines(np.arange(2), ys, ["one"], x_title="x", y_title="y")
    up = curves.lines(np.arange(2), ys[:1] / 4, ["one"], x_title="x", y_title="y", log_y=True)
    assert "0.5" in up["layout"]["yaxis"]["ticktext"]
    values = np.array([[50, 25, 10], [0.0, 1e-7, 0.0]])
    more = {"title": "y", "label_title": "x", "streams": ("src",), "unit": " %", "room": 840}
    figure = grouped(["a", "a", "<b>"], values, ["with", "without"], **more)
    with_, without = figure["data"]
    np.testing.assert_allclose(with_["y"], [50, 25, 10])
    assert with_["marker"]["color"] == LIGHT.source != without["marker"]["color"]
    assert (list(with_["text"]), list(without["text"])) == ([""] * 3, ["0"] * 3)
    assert len(set(with_["x"])) == 3
    assert "&lt;b&gt;" in with_["x"][2]
    with pytest.raises(ValueError, match="with has shape"):
        grouped(["a"], values, ["with", "without"], title="y")


def test_row_shows_weights_and_hatches_what_is_blocked():
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
    for wrong in ((2, 3), (2,)):  # one weight per token
        with pytest.raises(ValueError, match=rf"weights has shape {re.escape(str(wrong))}, expect"):
            bars.row(("a", "b", "c"), np.ones(wrong), title="key", words=BARS)


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
def test_colours_have_the_contrast_of_readable_text_steps_and_hatching(colours):
    for name in ("ink", "muted", "source", "target", "accent"):
        assert contrast(getattr(colours, name), colours.paper) >= 4.5, name
    for soft in (colours.source_soft, colours.target_soft):
        assert contrast(colours.ink, soft) >= 7
    steps = [contrast(colour, colours.paper) for colour in colours.attention]
    assert steps == sorted(steps)
    assert steps[0] < 1.2
    assert steps[-1] > 9
    assert contrast(colours.hatch, colours.blocked) > 1.5
    for ground, mark in zip(colours.rules, colours.rule_marks, strict=True):
        assert contrast(mark, ground) > 2.5


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("", "∅"),
        (" ", "␣"),
        ("  a b ", "␣␣a b␣"),
        ("\n", "↵"),
        ("\u202eabc", "[U+202E]abc"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("\ud800", "[U+D800]"),
        ("كتاب", "\u2068كتاب\u2069"),
        ("·ספר", "\u2068·ספר\u2069"),
        ("\u2068dog\u2069", "[U+2068]dog[U+2069]"),  # what nobody needs is named
        ("\u2067كتاب", "\u2068[U+2067]كتاب\u2069"),
    ],
)
def test_nothing_in_a_shown_token_is_invisible(token, shown):
    assert show(token) == shown


def test_shown_text_is_isolated_clipped_escaped_and_special_only_as_a_mark():
    for token in ("كتاب", "ספר", "3 كتاب", "٣"):
        assert show(show(token)) == show(token)
        assert show(token).strip("\u2068\u2069") == token
    assert show(f"2 {show('كتاب')} → dog") == "2 \u2068كتاب\u2069 → dog"
    assert clipped(show("كتابكتاب"), 4) == "\u2068كتا…\u2069"
    assert clipped("elephant", 4) == "ele…"
    assert clipped(show("كتاب"), 4) == show("كتاب")
    assert escape('<a href="x">&lt;') == '&lt;a href="x"&gt;&amp;lt;'
    tokenizer = train_tokenizer(["a cat </s> </s>"] * 9, 60)
    typed = str_tokens(tokenizer, tokenizer.encode("</s>"))
    assert "".join(typed).replace("·", "").replace("␣", "") == "</s>"
    assert not any(map(is_special, typed))
    end = next(label for label in str_tokens(tokenizer, range(9)) if label == "</s>")
    assert is_special(end)


CELL_WORDS = family("figures.score", lang="en")


def test_blocked_bars_are_hatched():
    bars, line = cell.products(np.array([1.0, -3.0, 0.5]), words=CELL_WORDS)["data"]
    np.testing.assert_array_equal(bars["y"], [1.0, -3.0, 0.5])
    np.testing.assert_array_equal(line["y"], [1.0, -2.0, -1.5])
    figure = cell.signed(
        ["a", "b", "b"],
        np.array([1.0, -1.0, 2.0]),
        title="score",
        allowed=np.array([True, True, False]),
        marked=1,
        dark=True,
        words=CELL_WORDS,
    )
    (trace,) = figure["data"]
    assert list(trace["marker"]["pattern"]["shape"]) == ["", "", "/"]
    assert "blocked" in trace["text"][2]
    assert len(set(trace["x"])) == 3  # equal tokens are kept apart
    with pytest.raises(ValueError, match="allowed has shape"):
        cell.signed(["a"], np.ones(1), title="t", allowed=np.ones(2, bool), words=CELL_WORDS)
