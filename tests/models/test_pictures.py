"""Pictures as a source: patches in the order of reading, and texts that stand for pictures."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from models import ModelConfig, build_model
from models.decoding import best, decode
from models.marks import OUR_MARKS
from models.pictures import letter_patches, patches_of, picture_of, places, read_written, written
from models.pictures.faces import FACES, drawn_word
from models.refusals import Refusal
from models.rows import Rows
from models.strategies import Greedy

SIZES = (4, 6, 2, 3)


def tiny() -> ModelConfig:
    return ModelConfig(
        vocab_size=9, d_model=8, n_layers=1, n_heads=2, d_ff=8, n_ctx=8, picture=SIZES
    )


def test_patches_are_in_the_order_of_reading():
    grey = np.arange(24).reshape(4, 6)
    found = patches_of(grey, SIZES)
    assert found.tolist()[:2] == [[0, 1, 2, 6, 7, 8], [12, 13, 14, 18, 19, 20]]
    assert places(SIZES) == ["1,1", "2,1", "1,2", "2,2"]
    assert (patches_of(np.stack([grey, grey]), SIZES)[1] == found).all()


def test_a_model_reads_patches_by_a_linear_map_of_their_pixels():
    torch.manual_seed(0)
    model = build_model(tiny()).eval()
    src = torch.randint(0, 256, (2, 4, 6))
    out = best(decode(model, src, Greedy(), 3))
    assert len(out) == 2
    x, _ = model.encoder.embed_tokens(src, None)
    embed = model.encoder.embed
    by_hand = src / 255 @ embed.weight.T + embed.bias
    places_too = x - by_hand * 8**0.5
    torch.testing.assert_close(places_too[0], places_too[1], atol=1e-5, rtol=0)


def test_padding_patches_change_nothing():
    torch.manual_seed(0)
    model = build_model(tiny()).eval()
    patches = [tuple(row) for row in torch.randint(0, 256, (4, 6)).tolist()]
    rows = [Rows.of([[1, 5]], [patches], OUR_MARKS, right=pads) for pads in (0, 2)]
    short, long = (model.read(each)[0, :2] for each in rows)
    torch.testing.assert_close(short, long)
    hidden = replace(rows[0], src_valid=torch.tensor([[True, False, True, True]]))
    assert not torch.allclose(model.read(hidden)[0], short)


@pytest.mark.parametrize("face", FACES)
def test_every_face_draws_its_letters_apart_and_in_the_picture(face):
    grey, boxes = drawn_word(f"Wim @{face}", 24, 96)
    assert grey.shape == (24, 96)
    assert grey.max() > 200
    for left, right in boxes:
        assert 0 <= left < right <= 96
        assert grey[:, round(left) : round(right)].max() > 150
    assert grey[:, : int(boxes[0][0]) - 2].max(initial=0) == 0
    touched = letter_patches(f"Wim @{face}", (24, 96, 12, 6))
    assert touched.shape == (3, 32)
    assert touched.any(1).all()


def test_a_picture_survives_as_text():
    grey = picture_of("Wim", (24, 96, 12, 6))
    again = read_written(written(grey), (24, 96, 12, 6))
    assert np.abs(again.astype(int) - grey).max() <= 9


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("picture:", "no_picture"),
        ("picture:~~~", "no_picture"),
        ("picture:" + "A" * 400, "no_picture"),
        (written(np.zeros((2, 2), np.uint8)), "no_picture"),
        (written(np.zeros((2000, 2000), np.uint8)), "no_picture"),
        ("hello @papyrus", "no_face"),
        ("a" * 25, "long_word"),
        ("caf\u00e9", "no_glyph"),
        ("\u8d62 @bold", "no_glyph"),
    ],
)
def test_other_texts_are_refused(text, key):
    with pytest.raises(Refusal) as refused:
        picture_of(text, (24, 96, 12, 6))
    assert refused.value.key == key
