"""show: what it accepts and refuses, and the page that it makes."""

import base64
import re
import zlib
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from payloads import unpack
from PIL import Image

import explorer as hl
from explorer.notebook.masks import read_mask
from explorer.text import t

NASTY = '</script><script>alert(1)</script>"><img src=x onerror=alert(1)>'


def _weights(*shape: int) -> np.ndarray:
    weights = np.random.default_rng(0).random(shape).astype(np.float32)
    return weights / weights.sum(-1, keepdims=True)


def _sent(html: str) -> list[bytes]:
    return [
        zlib.decompress(base64.b64decode(part))
        for part in re.findall(r'headlight\("\w+", "b\d+", "(.*?)", (?:true|false)\)', html)
    ]


def test_a_shipped_model_shows_its_three_kinds_of_attention_and_every_head_travels() -> None:
    shown = hl.show("en-zh", "I love you.")
    arrays = shown.numpy()
    assert list(arrays) == ["Encoder self-attention", "Decoder self-attention", "Cross-attention"]
    own = hl.trace("en-zh", "I love you.")
    site = own.sites_of("cross")[1]
    assert np.array_equal(arrays["Cross-attention"][1], own.pattern(site.name))
    assert len(_sent(shown.html())) == 3
    assert "我爱你" in shown.html()
    assert hl.show(own).html() == shown.html()
    weights = _weights(2, 3, 70, 70)
    head, arrays = unpack(_sent(hl.show(weights).html())[0])
    assert head["alone"]
    assert arrays["cells"].shape == (6, 70 * 70)
    assert arrays["exact"].shape[0] == 6  # 59 kB: few enough for 16 bits
    exact = np.frombuffer(arrays["exact"].tobytes(), "<f2").reshape(6, 70, 70)
    np.testing.assert_allclose(exact, weights.reshape(6, 70, 70), rtol=2**-10, atol=2**-24)
    head, arrays = unpack(_sent(hl.show(_weights(4, 12, 70, 70)).html())[0])
    assert arrays["exact"].shape[0] == 1  # the one that is open


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        (_weights(4, 4), (1, 1, 4, 4)),
        (_weights(3, 4, 4), (1, 3, 4, 4)),
        (_weights(2, 3, 4, 5), (2, 3, 4, 5)),
        (_weights(2, 6, 3, 4, 5), (2, 3, 4, 5)),
        (list(_weights(2, 3, 4, 5)), (2, 3, 4, 5)),
        (list(torch.tensor(_weights(2, 6, 3, 4, 5))), (2, 3, 4, 5)),
        (torch.tensor(_weights(2, 3, 4, 5)).bfloat16().requires_grad_(), (2, 3, 4, 5)),
        (_weights(2, 3, 4, 5).astype(np.float16), (2, 3, 4, 5)),
        (_weights(2, 3, 4, 5).tolist(), (2, 3, 4, 5)),
        (torch.eye(3).to_sparse(), (1, 1, 3, 3)),
    ],
)
def test_shapes_and_precisions(given, shape) -> None:
    (array,) = hl.show(given).numpy().values()
    assert array.shape == shape


def test_the_chosen_sequence_is_shown_and_a_note_where_rows_do_not_sum_to_one() -> None:
    weights = _weights(2, 6, 3, 4, 5)
    shown = hl.show(weights, batch=4)
    assert np.array_equal(shown.numpy()["Attention"], weights[:, 4])
    assert "Sequence 5 of 6 in the batch." in shown.html()
    weights = _weights(1, 1, 4, 4)
    weights[0, 0, 1] *= 0.5
    assert "1 of 4 rows does not sum to 1" in hl.show(weights).html()
    weights[0, 0, 2, 0] = np.nan
    assert "1 row contains NaN" in hl.show(weights).html()
    assert "rows do not sum" not in hl.show(_weights(1, 1, 4, 4)).html()


IMAGE = np.arange(6 * 8, dtype=np.uint8).reshape(6, 8)


@pytest.mark.parametrize(
    ("shape", "grid", "extra", "patches"),
    [
        ((2, 3, 12, 12), None, 0, (3, 4)),
        ((2, 3, 16, 16), None, 4, (3, 4)),  # a class token and three registers; 16 is a square
        ((2, 3, 14, 14), (3, 4), 2, (3, 4)),
        ((1, 1, 5, 12), (3, 4), 0, (3, 4)),  # five boxes look at twelve patches
    ],
)
def test_rows_lie_over_an_image(shape, grid, extra, patches) -> None:
    (sent,) = _sent(hl.show(_weights(*shape), image=IMAGE, grid=grid).html())
    head, arrays = unpack(sent)
    axis, count = head["picture"], patches[0] * patches[1]
    assert (axis["rows"], axis["columns"]) == patches
    assert axis["keys"] == [-1] * extra + list(range(count))
    assert axis["queries"] == (axis["keys"] if shape[2] == shape[3] else [-1] * shape[2])
    named = [*("+1", "+2", "+3", "+4")[:extra], "1,1", "1,2"]
    assert head["keys"]["tokens"][: extra + 2] == named
    assert np.array_equal(np.asarray(arrays["pixels"]).reshape(6, 8, 3)[..., 1], IMAGE)


def _pixels(image: object) -> np.ndarray:
    """The pixels that are sent, [row, column, channel], of an image six high or wide."""
    head, arrays = unpack(_sent(hl.show(_weights(1, 1, 12, 12), image=image).html())[0])
    rows, columns = head["picture"]["rows"], head["picture"]["columns"]
    return np.asarray(arrays["pixels"]).reshape(2 * rows, 2 * columns, 3)


@pytest.mark.parametrize(
    "image",
    [
        IMAGE / 255,
        Image.fromarray(IMAGE.astype(np.uint16) * 256),  # 16 bits
        torch.tensor(IMAGE / 255).expand(3, 6, 8),
        np.concatenate([np.repeat(IMAGE[..., None], 3, -1), np.full((6, 8, 1), 255, np.uint8)], -1),
    ],
)
def test_images_in_other_forms_are_the_same_pixels(image) -> None:
    assert np.array_equal(_pixels(image)[..., 0], IMAGE)


def test_a_transparent_image_is_white_and_a_photograph_turned_as_its_file_says(tmp_path) -> None:
    levels = np.zeros((6, 8, 4), np.uint8)
    levels[:3] = 255, 0, 0, 51  # red, one fifth opaque, over invisible black
    Image.fromarray(levels).save(tmp_path / "clear.png")
    for image in (levels, levels / 255, Image.fromarray(levels), tmp_path / "clear.png"):
        pixels = _pixels(image)
        assert pixels[0, 0].tolist() == [255, 204, 204]
        assert (pixels[3:] == 255).all()
    exif, file = Image.Exif(), tmp_path / "turned.png"
    exif[0x0112] = 6  # a quarter turn to the right
    Image.fromarray(IMAGE).save(file, exif=exif)
    for image in (file, Image.open(file)):
        assert np.array_equal(_pixels(image)[..., 0], np.rot90(IMAGE, -1))


def test_patches_of_an_oblong_image_are_square_and_the_reader_lies_over_its_own() -> None:
    image = np.zeros((224, 256, 3), np.uint8)  # 14 x 16 patches and a class token are 15 x 15 keys
    (sent,) = _sent(hl.show(_weights(1, 1, 225, 225), image=image).html())
    axis = unpack(sent)[0]["picture"]
    assert (axis["rows"], axis["columns"], axis["keys"][0]) == (14, 16, -1)
    parts = [unpack(each)[0]["picture"] for each in _sent(hl.show("reader", "Hi @serif").html())]
    assert [part and part["queries"][:3] for part in parts] == [[0, 16, 1], None, [-1] * 3]


def test_the_steps_of_generate_form_one_picture() -> None:
    whole = np.tril(_weights(2, 1, 3, 5, 5))
    steps = [tuple(layer[:, :, :3, :3] for layer in whole)]
    steps += [tuple(layer[:, :, n : n + 1, : n + 1] for layer in whole) for n in (3, 4)]
    shown = hl.show(steps)
    assert np.allclose(shown.numpy()["Attention"], whole[:, 0])
    assert shown.dataframe()["allowed"].sum() == 2 * 3 * 15
    crossed = [tuple(layer[:, :, n : n + 1] for layer in whole) for n in range(5)]
    assert np.allclose(hl.show(crossed).numpy()["Attention"], whole[:, 0])


@pytest.mark.parametrize(
    ("given", "more", "message"),
    [
        (_weights(1, 1, 4, 4) * 9 - 3, {}, "expected 0 to 1; scores need a softmax first"),
        (_weights(1, 1, 4, 4), {"tokens": ["a"]}, "1 query tokens, but the attention has 4"),
        (_weights(1, 1, 4, 5), {"key_tokens": ["a"]}, "1 key tokens, but the attention has 5"),
        (_weights(1, 1, 4, 4), {"tokens": "abcd"}, "give a list of tokens"),
        (_weights(4), {}, r"shape \[4\], expected"),
        (_weights(1, 1, 4, 4), {"image": IMAGE, "grid": (2, 3)}, "2 x 3 patches does not fit 4"),
        (
            _weights(1, 1, 4, 400 - 1),
            {"image": IMAGE},
            r"no one grid .* give grid=\(rows, columns\)",
        ),
        (_weights(1, 1, 9, 9), {"image": IMAGE}, "no one grid of square patches fits 9 keys"),
        ((None, None), {}, "the attentions are None: load the model with attn_implementation"),
        (SimpleNamespace(attentions=()), {}, "give its .attentions"),
        ([(_weights(1, 2, 3, 3),), (_weights(1, 2, 1, 2),)], {}, "the steps of generate"),
        (_weights(1, 1, 4, 4), {"image": IMAGE, "grid": (2.0, 2.0)}, "two whole numbers"),
        (_weights(1, 1, 4, 4), {"image": __file__}, "cannot be read as a picture"),
        (_weights(1, 1, 4, 4), {"image": np.zeros((2, 3, 5))}, r"image has shape \[2, 3, 5\]"),
        (_weights(1, 1, 4, 4), {"image": IMAGE - 3.0}, "from 0 to 255"),
        ("reader", {"tokens": "Hi", "image": IMAGE}, "an image needs attention weights"),
        (_weights(1, 1, 1, 1, 4, 4), {}, "expected \\[layer, head, query, key\\]"),
        (np.zeros((1, 0, 4, 4)), {}, "no attention in shape"),
        ([_weights(1, 4, 4), _weights(1, 5, 5)], {}, r"layers differ in shape: \[1, 4, 4\]"),
        ([], {}, "shape"),
        ("text", {}, "a model needs a text"),
        (torch.nn.Linear(2, 2), {"tokens": "a text"}, "nothing to show in Linear.*with capture"),
        (None, {}, "nothing to show in NoneType"),
        (["text"], {}, "expected numbers of one shape"),
        (np.eye(3) * 1j, {}, "they are complex"),
        (torch.empty(1, 1, 3, 3, device="meta"), {}, "contains no numbers"),
        ("no-such", {"tokens": "text"}, "There is no model"),
        ("no-such", {"tokens": "text", "lang": "zh"}, "模型"),
        ("en-zh", {"tokens": "   "}, "contains only white space"),
        (_weights(2, 6, 3, 4, 5), {"batch": 6}, "there are 6 sequences"),
        (_weights(1, 1, 4, 4), {"lang": "de"}, "lang is 'de', expected one of en, zh"),
        (np.ones((4, 4), bool), {}, "these are masks"),
        (_weights(1, 1, 4, 4), {"mask": np.ones((3, 3), bool)}, "the mask has shape"),
        (_weights(1, 1, 4, 4), {"mask": np.full((4, 4), 0.5)}, "from 0.5 to 0.5; none blocks"),
        (_weights(1, 1, 4, 4), {"mask": np.full((4, 4), np.nan)}, "the mask contains NaN"),
        (_weights(1, 1, 4, 4), {"mask": np.ones((0, 4), bool)}, "and is empty"),
    ],
)
def test_refusals(given, more, message) -> None:
    with pytest.raises((ValueError, IndexError), match=message):
        hl.show(given, **more)


def test_a_capture_takes_tokens_for_both_sides_and_says_what_it_did_not_see() -> None:
    model = torch.nn.Transformer(8, 2, 2, 2, 8, batch_first=True).eval()
    with hl.capture() as seen:
        model(torch.randn(2, 5, 8), torch.randn(2, 3, 8))
    shown = hl.show(seen, list("abc"), list("vwxyz"))
    assert {name: array.shape for name, array in shown.numpy().items()} == {
        "encoder.layers.0–1.self_attn": (2, 2, 5, 5),
        "decoder.layers.0–1.self_attn": (2, 2, 3, 3),
        "decoder.layers.0–1.multihead_attn": (2, 2, 3, 5),
    }
    heads = [unpack(payload)[0] for payload in _sent(shown.html())]
    rows = ["".join(h["queries"]["tokens"] + h["keys"]["tokens"]) for h in heads]
    assert rows == ["vwxyzvwxyz", "abcabc", "abcvwxyz"]
    with pytest.raises(ValueError, match=r"4 tokens match no axis; the axes have lengths \[3, 5\]"):
        hl.show(seen, list("abcd"))

    class MyAttention(torch.nn.Identity):
        """Hides what it does."""

    with hl.capture() as seen:
        torch.nn.Sequential(MyAttention())(torch.ones(1))
    assert seen.unseen == ["0"]
    with pytest.raises(KeyError, match="captured: none"):
        seen["0"]
    with pytest.raises(ValueError, match="was captured: No pattern was captured in: 0"):
        hl.show(seen)
    with pytest.raises(ValueError, match=r"show\(seen\.patterns, image=…\)"):
        hl.show(seen, image=IMAGE)


def test_what_users_give_is_escaped_everywhere() -> None:
    tokens = [NASTY, "b", "c", "d"]
    shown = hl.show(_weights(1, 1, 4, 4), tokens, title=NASTY)
    assert NASTY not in shown.html()
    assert NASTY not in shown.svg()
    assert "<img src=x" not in shown._repr_html_()
    assert "<script" not in shown._repr_html_()
    ElementTree.fromstring(shown.svg())


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_where_frames_are_taken_out_a_still_picture_and_what_to_do_remain(lang) -> None:
    """As JupyterLab does in a notebook that is not trusted: no frame, no style sheet, no script."""
    shown = hl.show(_weights(12, 12, 128, 128), lang=lang)
    left = re.sub(r"<(iframe|style).*?</\1>", "", shown._repr_html_(), flags=re.DOTALL)
    drawn = re.search(r'<img alt="[^"]*" src="data:image/svg\+xml;base64,([^"]*)">', left)
    assert len(drawn[1]) < 200_000
    ElementTree.fromstring(base64.b64decode(drawn[1]).decode())
    assert t("notebook.untrusted", lang=lang) in left
    assert t("notebook.no_script", lang=lang) in shown.html()


def test_saving(tmp_path) -> None:
    shown = hl.show(_weights(2, 1, 4, 4))
    assert shown.save(tmp_path / "x.html").read_text("utf-8") == shown.html()
    ElementTree.parse(shown.save(str(tmp_path / "x.svg")))
    table = hl.show(_weights(1, 1, 2, 2), ["=1+1", "猫"]).save(tmp_path / "x.csv")
    lines = table.read_bytes().decode("utf-8-sig").split("\r\n")
    assert lines[0] == "view,layer,head,query,key,query_token,key_token,weight,allowed"
    assert lines[2].startswith("Attention,1,1,1,2,'=1+1,猫,")
    assert len(lines) == 1 + 4 + 1
    with pytest.raises(ValueError, match=r"x.png: a picture is saved as .html, .svg or .csv"):
        shown.save(tmp_path / "x.png")


TRI = np.tri(3, dtype=bool)
ADDED = np.where(TRI, 0.0, -np.inf)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (TRI.astype(np.uint8), "1 = may attend"),
        (TRI.astype(np.int64).tolist(), "1 = may attend"),
        (torch.tensor(TRI).half(), "block nothing. Convert them first: mask != 0"),
        (ADDED, "−∞ = blocked"),
        (torch.tensor(ADDED).bfloat16(), "mask &gt; -5000"),
        (np.where(TRI, 0.0, -1e9), "−1e+09 = blocked"),
        (np.where(TRI, -0.5, -np.inf), "adds values of −0.5 to −0.5"),
        (np.where(TRI, [0.0, -4e3, -8e3], -np.inf), "mask &gt; -inf"),  # a bias as low as a fill
        (TRI[None, None], ""),
    ],
)
def test_masks_as_people_have_them_are_drawn_and_the_convention_is_named(given, said) -> None:
    over = hl.show(_weights(1, 1, 3, 3), mask=given)
    assert said in over.html()
    if not said:
        assert "Mask read as" not in over.html()
    assert np.array_equal(over.dataframe().allowed.to_numpy().reshape(3, 3), TRI)


def test_inverted_masks_are_noted_and_torchs_rules_written_out() -> None:
    wrong = ~TRI  # True = blocked, as nn.MultiheadAttention has it
    allowed, (note,) = read_mask(wrong, "en")
    assert np.array_equal(allowed, wrong)
    assert "If True means blocked, as in nn.MultiheadAttention" in note
    assert "If 1 means blocked" in read_mask(wrong.astype(int), "en")[1][-1]
    assert len(read_mask(np.where(TRI, -np.inf, 0.0), "en")[1]) == 1  # added: 1 means nothing
    for right in (TRI, np.tri(3, k=-1, dtype=bool), np.zeros((3, 3), bool)):
        assert read_mask(right, "en")[1] == []
    from torch.nn.attention.bias import causal_lower_right, causal_upper_left

    lower, _ = read_mask(causal_lower_right(2, 5), "en")
    assert np.array_equal(lower, np.tri(2, 5, 3, dtype=bool))
    upper, _ = read_mask(causal_upper_left(2, 5), "en")
    assert np.array_equal(upper, np.tri(2, 5, dtype=bool))
    from torch.nn.attention.flex_attention import create_block_mask

    blocks = create_block_mask(lambda b, h, q, k: q >= k, None, None, 4, 4, device="cpu")
    assert np.array_equal(read_mask(blocks, "en")[0][0, 0], np.tri(4, dtype=bool))
