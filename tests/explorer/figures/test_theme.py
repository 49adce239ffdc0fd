"""The palette reads well in both themes, and no token can speak Plotly's HTML."""

from dataclasses import fields

import pytest

from explorer.figures.theme import DARK, LIGHT, clipped, css, escape, is_special, show
from explorer.labels import str_tokens
from models.training.vocabulary import train_tokenizer


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
