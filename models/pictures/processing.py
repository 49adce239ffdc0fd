"""What `transformers` does to a picture before a model reads it: resize, crop, normalise.

Resizing and cropping give whole levels, 0 to 255, and happen where a file is decoded
(`explorer.sandbox.picturing`). Normalising is linear, so it is folded into the map that embeds the
patches (`folded`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from models.refusals import Refusal

HALF = (0.5, 0.5, 0.5)
CLIP = {
    "size": {"shortest_edge": 224},
    "crop_size": {"height": 224, "width": 224},
    "do_center_crop": True,
    "image_mean": (0.48145466, 0.4578275, 0.40821073),
    "image_std": (0.26862954, 0.26130258, 0.27577711),
}
SQUARE = {"size": {"height": 224, "width": 224}}
DEFAULTS: dict[str, dict[str, Any]] = {
    "ViT": {**SQUARE, "resample": 2},
    "DeiT": {
        "size": {"height": 256, "width": 256},
        "crop_size": {"height": 224, "width": 224},
        "do_center_crop": True,
    },
    "Bit": CLIP,
    "CLIP": CLIP,
    "Siglip": SQUARE,
}
"""What a processor's class does if its file does not say: ViTImageProcessor and so on."""
ENDINGS = ("Pil", "Fast", "ImageProcessor", "FeatureExtractor")
MOST = 1024  # pixels of a side
Sides = tuple[int, int]


@dataclass(frozen=True)
class Processing:
    """Resize to `size` (an int: its shorter side) unless None, then cut `crop` from the middle.

    `mean` and `std` apply to levels times `factor`.
    """

    size: int | Sides | None
    crop: Sides | None
    resample: int
    factor: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Processing":
        """The settings of a `preprocessor_config.json`. Raises Refusal for what it cannot do."""
        named = str(values.get("image_processor_type") or values.get("feature_extractor_type"))
        kind = named
        for ending in ENDINGS:
            kind = kind.removesuffix(ending)
        if kind not in DEFAULTS:
            raise Refusal("one_of", name="image_processor_type", value=repr(named), allowed=_KNOWN)
        of_file = {
            key: value for key, value in values.items() if value is not None or key[:3] == "do_"
        }
        settings = DEFAULTS[kind] | of_file  # what is to be done and is null is not done
        size, crop = (_sides(settings, key) for key in ("size", "crop_size"))
        if isinstance(crop, int):
            crop = crop, crop
        if isinstance(size, int) and isinstance(settings["size"], int) and kind in ("ViT", "DeiT"):
            size = size, size
        means, stds = (_numbers(settings, key, HALF) for key in ("image_mean", "image_std"))
        if not settings.get("do_normalize", True):
            means, stds = (0.0,) * len(means), (1.0,) * len(means)
        factor = (
            settings.get("rescale_factor", 1 / 255) if settings.get("do_rescale", True) else 1.0
        )
        resample = settings.get("resample", 3)
        wrong = {
            "resample": resample not in range(6),
            "rescale_factor": not isinstance(factor, float | int),
            "image_std": 0 in stds,
            "use_square_size": kind == "CLIP" and settings.get("use_square_size"),
        }
        for name in filter(wrong.get, wrong):
            raise Refusal("no_processing", name=name)
        size = size if settings.get("do_resize", True) else None
        crop = crop if settings.get("do_center_crop", False) else None
        if crop is None and not isinstance(size, tuple):  # pictures would differ in size
            name = "do_resize" if size is None else "size"
            raise Refusal("no_processing", name=name)
        return cls(size, crop, resample, float(factor), means, stds)

    @property
    def sides(self) -> Sides:
        """Height and width of every picture that the model reads."""
        assert isinstance(self.size, tuple) or self.crop is not None
        return self.crop or self.size  # type: ignore[return-value]

    def folded(self, matrix: Tensor) -> Tensor:
        """Kernels [d_model, channel, high, wide] for levels / 255, as [d_model, pixels]."""
        scale = 255 * self.factor / matrix.new_tensor(self.std, dtype=matrix.double().dtype)
        return (matrix.double() * scale[:, None, None]).flatten(1).to(matrix.dtype)

    def shifted(self, matrix: Tensor, bias: Tensor | None = None) -> Tensor:
        """The bias that goes with `folded`, [d_model]."""
        mean, std = (matrix.double().new_tensor(stat) for stat in (self.mean, self.std))
        shift = -(matrix.double() * (mean / std)[:, None, None]).flatten(1).sum(1)
        return (shift if bias is None else shift + bias).to(matrix.dtype)


_KNOWN = ", ".join(f"{kind}ImageProcessor" for kind in DEFAULTS)


def _sides(said: Mapping[str, Any], key: str) -> int | Sides | None:
    """A size in pixels: one number or two. Raises Refusal for any other form."""
    value = said.get(key)
    if isinstance(value, Mapping):
        value = {name: side for name, side in value.items() if side is not None}
        if value.keys() == {"shortest_edge"}:
            value = value["shortest_edge"]
        elif value.keys() == {"height", "width"}:
            value = value["height"], value["width"]
    both = (value,) if isinstance(value, int) else value
    if both is None:
        return None
    is_size = isinstance(both, tuple) and len(both) in (1, 2)
    if not is_size or not all(type(side) is int and 1 <= side <= MOST for side in both):
        raise Refusal("no_processing", name=key)
    return both[0] if len(both) == 1 else both  # type: ignore[return-value]


def _numbers(said: Mapping[str, Any], key: str, default: tuple[float, ...]) -> tuple[float, ...]:
    value = said.get(key, default)
    is_three = isinstance(value, list | tuple) and len(value) == 3
    if not is_three or not all(isinstance(x, float | int) and abs(x) < 1e6 for x in value):
        raise Refusal("no_processing", name=key)
    return tuple(map(float, value))
