"""Change every key of whole CLIP, SigLIP and Gemma 3 models and of every picture processor.

As `every_key`, for what is inside another config or file: the keys of the part that is read, those
around it, and the settings of `preprocessor_config.json`, by which both libraries prepare pictures.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from PIL import Image

from benchmarks import parity
from benchmarks.every_key import ABSENT, OUTCOMES, Counts, Sweep, changed, row
from benchmarks.foreign_models import PROCESSORS
from explorer.sandbox.picturing import prepared
from models.foreign.vision import PROCESSOR
from models.pictures.processing import Processing
from models.refusals import Refusal

WHOLE = {
    "clip": ("CLIPModel", "vision_config", "clip_vision_model"),
    "siglip": ("SiglipModel", "vision_config", "siglip_vision_model"),
    "gemma3": ("Gemma3ForConditionalGeneration", "text_config", "gemma3_text"),
}
"""The class of a whole model, the key of the part that is read, and that part alone."""
TEXT = {"hidden_size": 24, "intermediate_size": 28, "num_hidden_layers": 1, "vocab_size": 61}
TEXT |= {"num_attention_heads": 2, "max_position_embeddings": 20}
AROUND: dict[str, dict[str, Any]] = {
    "vision_config": {"text_config": TEXT},
    "text_config": {
        "vision_config": TEXT | {"image_size": 28, "patch_size": 14},
        "mm_tokens_per_image": 4,
        "pad_token_id": 0,
    },
}
"""The rest of a whole config."""
SIZES = [(23, 41), (16, 16)]
STEPS = {
    *("size", "resample", "rescale_factor", "image_mean", "image_std", "crop_size", "do_pad"),
    *("do_resize", "do_rescale", "do_normalize", "do_center_crop", "do_convert_rgb"),
    *("use_square_size", "default_to_square", "pad_size", "do_sample", "data_format"),
}


class WholeSweep(Sweep):
    """A part inside a whole model; if `outer`, the keys around the part are changed."""

    def __init__(self, name: str, place: Path, outer: bool) -> None:
        kind, self.inner, alone = WHOLE[name]
        self.outer = False
        super().__init__(alone, place)
        self.whole = getattr(hf, kind)
        head = {"model_type": name, "architectures": [kind]}
        self.around = head | AROUND[self.inner]
        self.part = self.full
        if outer:
            self.outer, self.cls, self.full = True, self.whole, self.around

    def built(self, config: dict[str, Any]) -> torch.nn.Module:
        part = self.part if self.outer else config
        around = config if self.outer else self.around
        model = self.written(self.whole, around | {self.inner: part})
        return model.vision_model if self.inner == "vision_config" else model  # type: ignore


def whole(name: str) -> Iterator[tuple[str, Counts]]:
    """The part of a whole model, and what is around it."""
    for outer in (False, True):
        counts = Counts()
        with tempfile.TemporaryDirectory() as made:
            sweep = WholeSweep(name, Path(made), outer)
            keys = {k: each for k, each in sweep.keys().items() if not k.endswith("_config")}
            usual = sweep.theirs(sweep.full)
            changed(sweep, "saved", sweep.full, keys, usual, counts)
        yield f"{name} ({'around' if outer else sweep.inner})", counts


def processor(name: str) -> Counts:
    """The settings of a processor."""
    counts, cls = Counts(), getattr(hf, f"{PROCESSORS[name][0]}Pil")
    random = np.random.Generator(np.random.PCG64(0))
    images = [
        Image.fromarray(random.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in SIZES
    ]
    with tempfile.TemporaryDirectory() as made:
        file = Path(made, PROCESSOR)
        parity.processor(name).save_pretrained(made)
        saved = json.loads(file.read_text())
        for key in {*saved, *STEPS} - {"image_processor_type"}:
            for value in (ABSENT, *tried(saved.get(key))):
                said = {each: saved[each] for each in saved if each != key}
                said |= {} if value is ABSENT else {key: value}
                file.write_text(json.dumps(said))
                try:
                    theirs = [cls.from_pretrained(made)(each).pixel_values[0] for each in images]
                except Exception:  # whatever transformers refuses
                    continue
                counts.keys.add(key)
                outcome = prepares(said, images, theirs)
                counts.outcomes[outcome] += 1
                if outcome == "wrong":
                    counts.wrong.append(f"{name}: {key} = {value}")
                    print(f"    {counts.wrong[-1]}", flush=True)
    return counts


def tried(value: Any) -> list[Any]:
    """Other values of a setting."""
    sides: list[Any] = [14, [14, 18], {"height": 14, "width": 18}, {"shortest_edge": 15}]
    sides += [{"longest_edge": 15}, {"shortest_edge": 12, "longest_edge": 20}]
    numbers: list[Any] = [0, 1, 2, 3, 4, 5, 0.5, [0.1, 0.2, 0.3], [0.5]]
    kinds: dict[type, list[Any]] = {bool: [not value], dict: sides, list: numbers[-2:]}
    return [None, *kinds.get(type(value), [True, *numbers, *sides])]


def prepares(said: dict[str, Any], images: list[Any], theirs: list[np.ndarray]) -> str:
    """Whether this library prepares pictures as `transformers`."""
    try:
        steps = Processing.of(said)
    except Refusal:
        return "refused"
    mean, std = (np.array(each)[:, None, None] for each in (steps.mean, steps.std))
    for image, expected in zip(images, theirs, strict=True):
        levels = prepared(image, steps.size, steps.crop, steps.resample).transpose(2, 0, 1)
        ours = (levels * steps.factor - mean) / std
        most = max(1.0, np.abs(expected).max())
        if ours.shape != expected.shape or np.abs(ours - expected).max() > 1e-4 * most:
            return "wrong"
    return "equal"


def main() -> int:
    """Sweep all; exit status 1 if any value is wrong in silence."""
    hf.logging.set_verbosity(50)
    hf.logging.disable_progress_bar()
    torch.set_num_threads(1)
    print("| part | keys | " + " | ".join(OUTCOMES) + " |", flush=True)
    parts = [each for name in WHOLE for each in whole(name)]
    parts += [(f"{PROCESSORS[name][0]} ({name})", processor(name)) for name in PROCESSORS]
    for name, counts in parts:
        print(row(name, counts), flush=True)
    return int(any(counts.wrong for _, counts in parts))


if __name__ == "__main__":
    sys.exit(main())
