"""Models that read pictures: their processors, tokens and labels, and what is refused."""

import json

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
from models.foreign import look, open_folder
from models.foreign.vision import PROCESSOR
from models.pictures import keep, picture_of
from models.pictures.processing import Processing
from models.refusals import Refusal
from models.rows import Rows


def test_pictures_are_prepared_as_their_processors_do():
    """Odd sizes and modes: resized, cut, padded, normalised."""
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
