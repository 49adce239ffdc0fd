"""Numbers worked by hand: patterns are written into a Trace, and the answers onto paper first."""

from dataclasses import replace

import numpy as np
import pytest
from foreign import byte_level
from numpy.typing import ArrayLike

from explorer.analysis.heads.aligned import align, gathered
from explorer.analysis.heads.compare import compare, token_diff
from explorer.analysis.heads.measures import (
    KeyWeight,
    entropy,
    head_measures,
    measure_maps,
    measure_names,
    top_keys,
)
from explorer.analysis.heads.words import Words, by_word, mask_by_word, words_of
from explorer.labels import SpecialToken, str_tokens
from explorer.runs.edits import HeadOff
from explorer.runs.passes import walked
from explorer.runs.trace import Trace, trace
from models.foreign.tokens import ForeignTokenizer

CROSS, SELF = "decoder.blocks.1.cross_attn", "decoder.blocks.0.attn"
ENCODER = "encoder.blocks.1.attn"
TEXTS = ("The cat ran.", "I love you.")


def with_pattern(traced: Trace, site: str, head: int, rows: ArrayLike) -> Trace:
    """The trace with one head's pattern replaced."""
    name = f"{site}.hook_pattern"
    pattern = traced.activations[name].copy()
    pattern[head] = rows
    return replace(traced, activations=traced.activations | {name: pattern})


def test_entropy_in_bits_and_the_heaviest_keys_of_a_row() -> None:
    rows = np.array([[1, 0, 0, 0], [0.25, 0.25, 0.25, 0.25], [0.5, 0.25, 0.25, 0], [0, 0, 0, 0]])
    assert entropy(rows).tolist() == [0, 2, 1.5, 0]
    assert str(entropy(np.array([1.0, 0.0]))) == "0.0"
    tokens = ("The", "cat", "ran", "</s>")
    row = np.array([0.125, 0.5, 0.375, 0])
    assert top_keys(row, tokens, n=2) == (KeyWeight(1, "cat", 0.5), KeyWeight(2, "ran", 0.375))
    assert entropy(row) == pytest.approx(0.125 * 3 + 0.5 + 0.375 * np.log2(8 / 3))
    assert [key.key for key in top_keys(np.full(4, 0.25), tokens)] == [0, 1, 2]  # ties in order
    assert top_keys(np.zeros(4), tokens) == ()
    assert [key.key for key in top_keys(np.array([0, 0.5, 0.5, 0]), tokens, n=9)] == [1, 2]


def test_measures_of_a_head_and_of_even_attention(traced) -> None:
    previous = [[1, 0, 0, 0], [1, 0, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5]]
    found = head_measures(with_pattern(traced, ENCODER, 3, previous), ENCODER)
    assert {name: values[3] for name, values in found.items()} == pytest.approx(
        {
            "entropy": 0.5,  # (0 + 0 + 1 + 1) / 4
            "information": 1.25,  # the mean row is (4, 1, 2, 1) / 8: 1.75 bits, less those 0.5
            "distance": 0.5,  # (0 + 1 + 0.5 + 0.5) / 4
            "previous": 2 / 3,  # (1 + 0.5 + 0.5) / 3
            "diagonal": 0.5,  # (1 + 0 + 0.5 + 0.5) / 4
            "first": 0.5,
            "end_mark": 0.125,
            "alignment": np.nan,
        },
        nan_ok=True,
    )
    encoder = head_measures(traced, ENCODER, even=True)
    expected = {"entropy": 2, "information": 0, "distance": 1.25, "previous": 0.25, "first": 0.25}
    assert {name: encoder[name][3] for name in expected} == pytest.approx(expected, abs=1e-6)
    causal = head_measures(traced, SELF, even=True)  # rows 1; 1/2, 1/2; a third each
    assert causal["diagonal"][0] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert causal["previous"][0] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert causal["entropy"][0] == pytest.approx((1 + np.log2(3)) / 3)


def test_measures_leave_out_padding_and_empty_rows(translator) -> None:
    text, target = "The cat ran", "我爱你猫"
    alone, padded = trace(translator, text, target), trace(translator, text, target, pads=3)
    for site in alone.sites:
        of_padded = head_measures(padded, site.name)
        for name, values in head_measures(alone, site.name).items():
            np.testing.assert_allclose(of_padded[name], values, atol=1e-5, err_msg=name)
    cross = head_measures(alone, CROSS)
    assert all(np.isnan(cross[name]).all() for name in ("previous", "diagonal", "distance"))
    assert np.isnan(head_measures(alone, SELF)["end_mark"]).all()
    no_end = replace(alone, marks=replace(alone.marks, end=None))
    assert np.isnan(head_measures(no_end, ENCODER)["end_mark"]).all()
    dark = with_pattern(alone, CROSS, 0, [[0.0] * 4] * 3)
    assert head_measures(dark, CROSS)["information"][0] == 0


@pytest.mark.parametrize(
    ("rows", "bits", "share"),
    [
        ([[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0]], np.log2(3), 1),
        ([[0, 0, 0, 1]] * 3, 0, 0),  # sharp, but always on the end mark
        ([[0.5, 0.5, 0, 0]] * 3, 0, 0),  # no row differs from another
        # Two keys for three rows: H(1/3, 2/3) of the log2(3) bits that three rows can tell.
        ([[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0]], np.log2(3) - 2 / 3, 1 - 2 / 3 / np.log2(3)),
        ([[0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]], 0, np.nan),  # a single row
    ],
)
def test_information_tells_an_alignment_from_a_head_stuck_at_one_key(
    traced, rows, bits, share
) -> None:
    found = head_measures(with_pattern(traced, CROSS, 2, rows), CROSS)
    assert found["information"][2] == pytest.approx(bits)
    assert found["alignment"][2] == pytest.approx(share, nan_ok=True)


def test_comparing_tokens_runs_and_models(translator, traced, tiny) -> None:
    edit = HeadOff(SELF, 0)
    edited = trace(translator, "The cat ran", "我爱你狗坐", [edit])
    n = 2  # the start mark and 我爱你
    both = compare(traced, edited)
    assert both.words[:2] == (("我爱你", "same"), ("猫", "gone"))
    assert {status for _, status in both.words[2:]} == {"new"}
    assert both.sites[ENCODER].whole
    assert both.sites[ENCODER].most == 0
    cross = both.sites[CROSS]
    assert (cross.n_query, cross.n_key, cross.whole) == (n, 4, False)
    expected = edited.pattern(CROSS)[:, :n] - traced.pattern(CROSS)[:, :n]
    assert both.most >= cross.most == np.abs(expected).max() > 0
    other = tiny("other", seed=7, n_layers=1, n_encoder_layers=3)
    both = compare(traced, trace(other, "The cat ran", "我爱你猫"))
    assert "decoder.blocks.1.attn" not in both.sites
    assert both.most > 0
    fewer_heads = tiny("fewer", n_heads=2)
    assert compare(traced, trace(fewer_heads, "The cat ran", "我爱你猫")).sites == {}
    assert token_diff(["a", "b", "c", "d"], ["a", "x", "c", "d", "e"]) == (
        ("a", "same"),
        ("b", "gone"),
        ("x", "new"),
        ("c", "same"),
        ("d", "same"),
        ("e", "new"),
    )
    assert token_diff([], []) == ()


def test_a_map_holds_every_head_of_a_kind(traced, writer) -> None:
    for kind, shape in {"encoder": (3, 4), "decoder": (2, 4), "cross": (2, 4)}.items():
        site = traced.sites_of(kind)[1].name
        maps = walked(measure_maps(traced, kind))
        assert len([*measure_maps(traced, kind)]) == shape[0], "a step for each layer"
        for name, values in head_measures(traced, site).items():
            if np.isnan(values).all():
                assert name not in maps
            else:
                assert maps[name].shape == shape
                np.testing.assert_array_equal(maps[name][1], values)
    with pytest.raises(ValueError, match="'encoder'"):
        walked(measure_maps(trace(writer, "The cat ran"), "encoder"))
    runs = [(traced, kind) for kind in ("encoder", "decoder", "cross")]
    for run, kind in (*runs, (trace(writer, "a"), "decoder")):
        assert measure_names(run, kind) == tuple(walked(measure_maps(run, kind)))


ROW = words_of(["un", "·able", "."])


def row(text: str) -> list[str]:
    """Tokens between blanks; one that ends with ^ is a special token."""
    return [SpecialToken(each[:-1]) if each.endswith("^") else each for each in text.split()]


@pytest.mark.parametrize(
    ("text", "labels", "starts"),
    [
        ("<s>^ un ·b ·el re - read ·s </s>^", "<s> unbel re - reads </s>", (0, 1, 4, 5, 6, 8)),
        ("<s>^ ·b", "<s> ·b", (0, 1)),  # special tokens join nothing
        ("a ·^", "a ·", (0, 1)),
        ("a ·", "a ·", (0, 1)),  # a point that was typed
        ("a ␣ </s>^", "a ␣ </s>", (0, 1, 2)),
    ],
)
def test_pieces_inside_a_word_belong_to_it(text, labels, starts) -> None:
    tokens = row(text)
    words = words_of(tokens)
    assert (words.labels, words.starts) == (tuple(labels.split()), starts)
    of = [words.of(token) for token in range(len(tokens))]
    assert of == [sum(start <= token for start in starts) - 1 for token in range(len(tokens))]


def test_a_character_in_several_tokens_and_the_blank_before_a_word_are_no_words() -> None:
    tokenizer = ForeignTokenizer(byte_level())
    row = str_tokens(tokenizer, tokenizer.encode("We 我爱 cafés, x₂ при"))
    assert row[3:9] == ["我₁", "我₂", "我₃", "爱₁", "爱₂", "爱₃"]
    assert words_of(row).labels == ("We", "我", "爱", "cafés", ",", "x", "₂", "при")
    assert words_of(row).starts[:4] == (0, 2, 6, 9)


def test_weights_and_masks_between_words() -> None:
    pattern = np.array([[[1.0, 0.0, 0.0], [0.25, 0.5, 0.25], [0.125, 0.125, 0.75]]], np.float32)
    # Keys: [1, 0], [0.75, 0.25], [0.25, 0.75]; the first two queries are one word.
    expected = [[[0.875, 0.125], [0.25, 0.75]]]
    np.testing.assert_array_equal(by_word(pattern, ROW, ROW), expected)
    assert by_word(pattern, ROW, ROW).dtype == np.float32
    alone = Words(("a", "b", "c"), (0, 1, 2))
    np.testing.assert_array_equal(by_word(pattern, alone, alone), pattern)
    causal = np.tril(np.ones((3, 3), bool))
    np.testing.assert_array_equal(mask_by_word(causal, ROW, ROW), [[True, False], [True, True]])
    pattern = np.array([[1.0, 0.0, 0.0], [0.25, 0.5, 0.25], [0.125, 0.125, 0.75]])
    found = gathered(pattern, [(0,), (1, 2)], [(1, 2)])
    # Row 0: nothing on the piece; rows 1 and 2: 0.75 and 0.875, on average 0.8125.
    np.testing.assert_allclose(found, [[0.0, 1.0], [0.8125, 0.1875]])


@pytest.mark.parametrize(
    ("one", "other", "labels", "tokens", "others"),
    [
        ("un ·believ ·able !", "unbel ·ievable !", "unbelievable !", "012 3", "01 2"),
        # Case and accents are ignored, and the special tokens of one model are left out.
        ("Café there", "[CLS]^ cafe there </s>^", "Café there", "0 1", "1 2"),
        ("<s>^ a", "<s> a", "a", "1", "1"),  # its name typed as text
        ("我 爱₁ 爱₂ 爱₃ 你", "我 爱你", "我 爱你", "0 1234", "0 1"),
        ("the cat", "the big cat", "the cat", "0 1", "0 2"),
        ("我", "cat", "", "", ""),
        ("a ␣ b", "a b", "a b", "0 2", "0 1"),
        ("<s>^ un ·able", "<s>^ un ·able", "<s> un ·able", "0 1 2", "0 1 2"),
    ],
)
def test_tokens_between_common_boundaries_are_one_piece(one, other, labels, tokens, others) -> None:
    here, there = (
        tuple(tuple(map(int, piece)) for piece in each.split()) for each in (tokens, others)
    )
    one, other = row(one), row(other)
    pieces = align(one, other)
    assert (pieces.labels, pieces.one, pieces.other) == (tuple(labels.split()), here, there)
    assert pieces.whole == (len(here) == len(one) == len(other))
    assert [type(label) for label in pieces.labels] == [type(one[at]) for (at, *_) in here]
    first = {token: to[0] for of, to in zip(here, there, strict=True) for token in of}
    across = [pieces.across(token) for token in range(len(one))]
    assert across == [first.get(token) for token in range(len(one))]
    back = [pieces.across(to[0], back=True) for to in there]
    assert back == [of[0] for of in here]
