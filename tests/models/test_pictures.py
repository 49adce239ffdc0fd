"""Pictures as a source: patches in the order of reading, and texts that stand for pictures."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from foreign import ODD, PREPARED, Golden
from PIL import Image
from safetensors.torch import load_file, save_file

from explorer.library import open_model
from explorer.runs.run import run
from explorer.runs.trace import trace
from explorer.sandbox.picturing import prepared as prepared_by
from models import ModelConfig, build_model
from models.decoding import best, decode
from models.foreign import look, open_folder
from models.foreign.vision import PROCESSOR
from models.marks import OUR_MARKS
from models.pictures import (
    keep,
    letter_patches,
    patches_of,
    picture_of,
    places,
    read_written,
    written,
)
from models.pictures.faces import FACES, drawn_word
from models.pictures.processing import Processing
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


def test_pictures_are_prepared_as_their_processors_do():
    with np.load(PREPARED) as file:
        prepared = dict(file)
    for name, (kind, said) in json.loads(bytes(prepared["settings"])).items():
        processing = Processing.of({"image_processor_type": kind, **said})
        mean, std = (np.array(each)[:, None, None] for each in (processing.mean, processing.std))
        for at, (mode, _) in enumerate(ODD):
            image = Image.fromarray(prepared[f"{at}/given"]).convert(mode)
            steps = processing.size, processing.crop, processing.resample
            ours = prepared_by(image, *steps).transpose(2, 0, 1) * processing.factor
            theirs = prepared[f"{at}/{name}"]
            np.testing.assert_allclose((ours - mean) / std, theirs, atol=1e-6, err_msg=name)


def test_what_is_to_be_done_and_is_null_is_not_done():
    """As in `transformers` 5.24; other keys that are null have their default."""
    said = {"image_processor_type": "DeiTImageProcessor", "size": {"height": 9, "width": 9}}
    steps = ("do_center_crop", "do_rescale", "do_normalize")
    made = Processing.of(said | dict.fromkeys((*steps, "image_mean", "resample")))
    assert made == Processing.of(said | dict.fromkeys(steps, False))
    assert (made.crop, made.factor, made.resample, made.mean) == (None, 1.0, 3, (0.0,) * 3)


def test_the_class_token_and_registers_stand_before_the_patches(tmp_path):
    folder = Golden.load("dinov2_with_registers").write(tmp_path / "dino")
    assert look(folder).family == "dinov2_with_registers"
    loaded = open_model(folder)
    seen = trace(loaded, "a @serif")
    assert seen.tgt_str_tokens[:6] == ("[CLS]", "[REG 1]", "[REG 2]", "[REG 3]", "1,1", "1,2")
    special = [loaded.tokenizer.is_special(token) for token in seen.tgt_tokens]
    assert special == [True] * 4 + [False] * 16
    assert loaded.foreign
    assert picture_of("a @serif", loaded.config.picture).shape == (16, 16, 3)
    levels = np.random.Generator(np.random.PCG64(1)).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    again = trace(loaded, keep(levels))
    assert not np.allclose(again.pattern(seen.sites[0].name), seen.pattern(seen.sites[0].name))


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_the_vision_tower_of_a_whole_model_opens(name, tmp_path):
    golden = Golden.load(f"{name}_vision_model")
    folder = golden.write(tmp_path / "tiny")
    path, hook = folder / "model.safetensors", "blocks.1.attn.hook_pattern"
    tensors = {f"vision_model.{key}": each for key, each in load_file(path).items()}
    text = {"text_model.final_layer_norm.bias": torch.ones(1), "logit_scale": torch.zeros(1)}
    save_file(tensors | text, path)
    whole = {"model_type": name, "vision_config": golden.config}
    (folder / "config.json").write_text(json.dumps(whole))
    settings = json.loads((folder / PROCESSOR).read_text())
    (folder / PROCESSOR).unlink()
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": settings}))
    model = open_folder(folder).model
    rows = Rows(torch.from_numpy(golden.arrays["first.tgt"][None].astype(np.int64)))
    ours = run(model, rows, {hook})[hook][0]
    np.testing.assert_allclose(ours.numpy(), golden.arrays[f"first/{hook}"], atol=1e-5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (None, "preprocessor_config.json is missing"),
        ({"size": {"height": 24, "width": 24}}, "do not fit image_size"),
        ({"image_processor_type": "DetrImageProcessor"}, "must be one of ViTImageProcessor"),
        ({"do_resize": False}, "do_resize .* not supported"),
        ({"do_resize": None}, "do_resize .* not supported"),
        ({"size": {"longest_edge": 9}}, "size .* not supported"),
        ({"image_std": [0, 1, 1]}, "image_std .* not supported"),
        ({"image_mean": "dark"}, "image_mean .* not supported"),
        (
            {"image_processor_type": "CLIPImageProcessor", "use_square_size": True},
            "use_square_size",
        ),
    ],
)
def test_other_ways_to_prepare_pictures_are_refused(change, words, tmp_path):
    folder = Golden.load("vit").write(tmp_path / "vit")
    said = json.loads((folder / PROCESSOR).read_text())
    (folder / PROCESSOR).unlink()
    if change is not None:
        (folder / PROCESSOR).write_text(json.dumps(said | change))
    with pytest.raises(Refusal, match=words):
        open_folder(folder)


def test_a_picture_that_is_not_kept_is_refused():
    with pytest.raises(Refusal, match="no longer"):
        picture_of("picture:kept-0", (16, 16, 4, 4, 3))
    name = keep(np.zeros((8, 8, 3), np.uint8))
    with pytest.raises(Refusal, match="no longer"):
        picture_of(name, (16, 16, 4, 4, 3))
    assert torch.tensor(picture_of(name, (8, 8, 4, 4, 3))).sum() == 0
