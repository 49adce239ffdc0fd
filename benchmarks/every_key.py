"""Change every key of every family's config in turn, and compare with `transformers`.

The keys, types and defaults come from the config class of `transformers`; keys that its models or
this library read besides are added. Each gets several other values. For each value, `transformers`
and this library open the same folder with random weights, and read the same texts. Logits and
patterns must be equal, or the value must be refused with the name of its key.
"""

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import transformers as hf

from benchmarks import parity
from benchmarks.foreign_models import MODELS, PROCESSORS
from benchmarks.key_values import GENERIC, others
from explorer.runs.run import run
from models.foreign import FAMILIES, open_folder, opening
from models.foreign.plan import Keys
from models.pictures import keep
from models.refusals import Refusal
from models.rows import Rows, as_tensor

TOLERANCE = 1e-4  # of the largest value
ABSENT = object()
WIDTHS = {"hidden_size", "n_embd", "d_model", "dim"}
"""Keys whose defaults would make a large model."""
ODD = (3, 0, 5, 1, 2, 9, 0, 5, 17, 1, 60, 5)
"""A text with the ids of special tokens inside."""


@dataclass
class Counts:
    """What became of the changed values of one model."""

    keys: set[str] = field(default_factory=set)
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class Read(dict[str, Any]):
    """A config that notes which of its keys are read."""

    names: ClassVar[set[str]] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.names.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.names.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.names.add(str(key))
        return super().__contains__(key)


class NotedKeys(Keys):
    """`Keys` that notes which keys are read, nested ones too."""

    def __init__(self, values: Mapping[str, Any], *rest: Any) -> None:
        super().__init__(Read(values), *rest)

    def of(self, values: Mapping[str, Any]) -> Keys:
        return NotedKeys(values, self.names, self._alike)


class Sweep:
    """One tiny model, and the folders of its changed configs."""

    def __init__(self, name: str, place: Path) -> None:
        self.name, self.place = name, place
        self.filled: dict[str, torch.Tensor] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        kind, sizes = MODELS[name]
        self.cls = getattr(hf, kind)
        self.sizes = {"pad_token_id": 0} | ({} if name in PROCESSORS else {"vocab_size": 61})
        self.sizes |= sizes
        self.tokens = parity.Golden.load(name)
        self.tokens.write(place)
        if name in PROCESSORS:
            parity.processor(name).save_pretrained(place)
        config = self.cls.config_class(**self.sizes)
        config.architectures = [kind]
        config.save_pretrained(place)
        self.full = json.loads((place / "config.json").read_text())
        self.translates = config.is_encoder_decoder and self.cls.__name__ != "T5EncoderModel"
        ids = parity.texts(name) if name not in PROCESSORS else {}
        self.ids = {
            text: (ids[f"{text}.tgt"], ids[f"{text}.src"]) for text in parity.TEXTS if ids
        } | {"odd": (torch.tensor([ODD]), torch.tensor([ODD[::-1]]))}

    def built(self, config: dict[str, Any]) -> torch.nn.Module:
        """The model of a config with random weights, which are also in the folder.

        The weights follow from their names and shapes, so they are written only if these change.
        """
        return self.written(self.cls, config)

    def written(self, cls: Any, config: dict[str, Any]) -> torch.nn.Module:
        """The model of this class, whose folder is written."""
        (self.place / "config.json").write_text(json.dumps(config))
        said = cls.config_class.from_pretrained(self.place)
        model = cls._from_config(said, attn_implementation="eager").eval()
        tensors = dict(model.named_parameters()) | dict(model.named_buffers())
        computed = re.compile("|".join(model._keys_to_ignore_on_save or ["-"]))  # sinusoids
        names = [name for name in model.state_dict() if not computed.search(name)]
        stored = {name: tensors[name] for name in names if name in tensors}
        shapes = {name: tuple(tensor.shape) for name, tensor in stored.items()}
        for name, shape in shapes.items():
            if name not in self.filled or self.filled[name].shape != shape:
                self.filled[name] = parity.weights(name, shape) if shape else torch.ones(())
            stored[name].data.copy_(self.filled[name])
        if shapes != self.shapes:
            self.shapes = shapes
            model.save_pretrained(self.place)
            (self.place / "config.json").write_text(json.dumps(config))
        return model

    def theirs(self, config: dict[str, Any]) -> dict[str, np.ndarray]:
        """What `transformers` computes for a config, whose folder is written."""
        model = self.built(config)
        arrays: dict[str, np.ndarray] = {}
        for text, given in self._inputs():
            with torch.no_grad():
                out = model(**given, output_attentions=True, return_dict=True)
            shown = out.get("logits")
            if "PreTraining" in type(model).__name__ and "Electra" in type(model).__name__:
                shown = None
            if shown is not None:
                arrays[f"{text}/logits"] = shown[0].numpy()
            elif "last_hidden_state" in out and "clip" not in self.name:  # without its last norm
                arrays[f"{text}/hidden"] = out.last_hidden_state[0].numpy()
            for key in ("attentions", "decoder_attentions", "cross_attentions"):
                for layer, pattern in enumerate(out.get(key) or ()):
                    arrays[f"{text}/{key}.{layer}"] = pattern[0].numpy()
        return arrays

    def _inputs(self) -> Iterator[tuple[str, dict[str, Any]]]:
        if self.name in PROCESSORS:
            for text, levels in self._pictures():
                given = parity.processor(self.name)(
                    parity.Image.fromarray(levels),
                    do_resize=False,
                    do_center_crop=False,
                    return_tensors="pt",
                )
                yield text, {"pixel_values": given.pixel_values}
            return
        for text, (tgt, src) in self.ids.items():
            if self.translates:
                yield text, {"input_ids": src, "decoder_input_ids": tgt, "use_cache": False}
            else:
                yield text, {"input_ids": tgt}

    def _pictures(self) -> Iterator[tuple[str, np.ndarray]]:
        sides = self._sides()
        for text in parity.TEXTS:
            random = np.random.Generator(np.random.PCG64(ord(text[0])))
            yield text, random.integers(0, 256, (*sides, 3)).astype(np.uint8)

    def _sides(self) -> tuple[int, int]:
        kept = parity.PROCESSORS[self.name][1]
        cut = kept.get("crop_size") or kept["size"]
        return cut["height"], cut["width"]

    def ours(self, wanted: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What this library computes for the folder."""
        opened = open_folder(self.place)
        model, labels = opened.model, opened.classifier
        arrays: dict[str, np.ndarray] = {}
        for text in {key.partition("/")[0]: None for key in wanted}:
            if self.name in PROCESSORS:
                height, width = opened.tokenizer.picture[:2]
                levels = np.ascontiguousarray(dict(self._pictures())[text][:height, :width])
                tokens = model.with_marks("tgt", opened.tokenizer.encode(keep(levels)))
                rows = Rows(as_tensor([tokens]), None, None)
            else:
                tgt, src = self.ids[text]
                rows = Rows(tgt, None, src if "src" in model.reads else None)
            with torch.inference_mode():
                x = model.last_stack.run(rows, model.memory_of(rows))
                if labels is not None:
                    arrays[f"{text}/logits"] = labels(x, rows.valid("tgt"), rows.tgt)[0].numpy()
                if f"{text}/hidden" in wanted:
                    arrays[f"{text}/hidden"] = x[0].numpy()
            found = run(model, rows, lambda name: name == "hook_logits" or "hook_pattern" in name)
            if labels is None and model.config.lm_head:
                arrays[f"{text}/logits"] = found["hook_logits"][0].numpy()
            for hook, tensor in found.items():
                if "pattern" not in hook or hook.startswith("encoder."):
                    continue
                layer = int(hook.partition("blocks.")[2].partition(".")[0])
                kind = "cross_attentions" if "cross" in hook else "decoder_attentions"
                kind = kind if hook.startswith("decoder.") else "attentions"
                arrays[f"{text}/{kind}.{layer}"] = tensor[0].numpy()
        return arrays

    def keys(self) -> dict[str, Any]:
        """The keys to change, and their present values."""
        cls = self.cls.config_class
        found = {each.name: self.full.get(each.name, each.default) for each in fields(cls)}
        self.types = {each.name: str(each.type) for each in fields(cls)}
        found = {key: each if _is_plain(each) else None for key, each in found.items()}
        found |= {key: self.full.get(key) for key in (*cls.attribute_map, *GENERIC)}
        Read.names = set()
        self.built(self.full)
        opening.Keys = NotedKeys  # type: ignore[misc]
        self.d_head = open_folder(self.place).config.d_head
        opening.Keys = Keys  # type: ignore[misc]
        read = {key for key in Read.names if key.isidentifier()} - ROTATION
        found |= {key: self.full.get(key) for key in sorted(read - found.keys())}
        asked = sorted(self._asked() - found.keys() - ROTATION)
        self.types |= dict.fromkeys(asked, "asked")
        found |= dict.fromkeys(asked)
        found.pop("model_type", None)
        return found

    def _asked(self) -> set[str]:
        """The keys that `transformers` reads although its config class does not list them, such as
        `is_causal`."""
        cls, names = self.cls.config_class, set[str]()
        usual = cls.__getattribute__

        def noted(config: Any, name: str) -> Any:
            names.add(name)
            return usual(config, name)

        cls.__getattribute__ = noted
        try:
            self.theirs(self.full)
        finally:
            cls.__getattribute__ = usual
        return {name for name in names if not name.startswith("_") and not hasattr(cls, name)}


ROTATION = {"type", "rope_type", "factor", "full_attention", "sliding_attention", "auto_map"}


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | list | dict)


def same(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> str:
    """What differs; empty if all arrays are equal.

    Each text has an array of each kind. The error is a share of the kind's largest value: a text's
    only logit may be near zero.
    """
    largest: Counter[str] = Counter()
    for name, expected in theirs.items():
        largest[Path(name).name] = max(largest[Path(name).name], np.abs(expected).max())
    for name, expected in theirs.items():
        if name not in ours:
            return f"{name} is not computed"
        if ours[name].shape != expected.shape:
            return f"{name} {ours[name].shape} {expected.shape}"
        size = largest[Path(name).name] or 1.0
        if not np.abs(ours[name] - expected).max() <= TOLERANCE * size:
            return f"{name} off {np.abs(ours[name] - expected).max() / size:.1e}"
    if extra := [name for name in ours if name.endswith("logits") and name not in theirs]:
        return f"{extra[0]} is computed, but transformers has none"
    return ""


def swept(name: str) -> Counts:
    """Change every key of one model in turn."""
    counts = Counts()
    with tempfile.TemporaryDirectory() as made:
        sweep = Sweep(name, Path(made))
        keys = sweep.keys()
        usual = sweep.theirs(sweep.full)
        minimal = {"model_type": sweep.full["model_type"], **sweep.sizes}
        minimal["architectures"] = sweep.full["architectures"]
        bases = {"saved": sweep.full} | ({"minimal": minimal} if name in FAMILIES else {})
        for base, config in bases.items():
            outcome, why = tried_one(sweep, "", config, usual)
            if outcome not in ("equal", "no effect"):
                counts.outcomes[outcome] += 1
                print(f"    {name} ({base}): {outcome} before any change: {why}", flush=True)
                continue
            changed(sweep, base, config, keys, usual, counts)
    return counts


def changed(
    sweep: Sweep,
    base: str,
    config: dict[str, Any],
    keys: Mapping[str, Any],
    usual: Mapping[str, np.ndarray],
    counts: Counts,
) -> None:
    """Try the other values of every key in one config."""
    skipped = {"rope_parameters": "minimal", "rope_scaling": "saved"}
    skipped |= {key: "minimal" for key in keys if "act" in key or key.endswith("_token_id")}
    skipped |= {key: "minimal" for key, kind in sweep.types.items() if kind == "asked"}
    for key, present in keys.items():
        if skipped.get(key) == base or ("rope" in key and sweep.name not in FAMILIES):
            continue
        tried = [] if key in WIDTHS or base == "minimal" or key == "architectures" else [ABSENT]
        kind = sweep.types.get(key, "bool int")
        done = [config[key]] if key in config else [ABSENT]
        for value in (*tried, *others(key, present, kind, sweep.d_head, "layer_types" in keys)):
            if any(value is each or value == each for each in done):
                continue
            done.append(value)
            more = {} if value is ABSENT else {key: value}
            other = {name: each for name, each in config.items() if name != key} | more
            shown = "absent" if value is ABSENT else json.dumps(value)
            outcome, why = tried_one(sweep, key, other, usual)
            counts.outcomes[outcome] += 1
            if outcome != "invalid":
                counts.keys.add(key)
            if outcome in ("wrong", "unnamed", "error"):
                counts.wrong.append(f"{sweep.name} ({base}): {key} = {shown}: {outcome}: {why}")
                print(f"    {counts.wrong[-1]}", flush=True)


def tried_one(
    sweep: Sweep, key: str, config: dict[str, Any], usual: Mapping[str, np.ndarray]
) -> tuple[str, str]:
    """What becomes of one changed config: the outcome, and the reason."""
    try:
        theirs = sweep.theirs(config)
        if any(not np.isfinite(each).all() for each in theirs.values()):
            return "invalid", ""
    except Exception as error:  # whatever transformers refuses
        return "invalid", str(error)
    acts = bool(same(theirs, usual) or same(usual, theirs))
    try:
        ours = sweep.ours(theirs)
    except Refusal as refused:
        aliases = {v: k for k, v in sweep.cls.config_class.attribute_map.items()}
        names = {key, aliases.get(key, key), sweep.cls.config_class.attribute_map.get(key, key)}
        if isinstance(config.get(key), dict) and isinstance(sweep.full.get(key), dict):
            was = sweep.full[key]
            names |= {each for each, value in config[key].items() if was.get(each) != value}
        if key in ("rope_parameters", "rope_scaling"):
            names |= {"rotation", "rope_", "partial_rotary_factor", "factor"}
        names |= sweep.full.keys() - {"architectures", "dtype"}
        nested = [each for each in sweep.full.values() if isinstance(each, dict)]
        names |= {each for values in nested for each in values}
        if key == "tie_word_embeddings":
            names.add("lm_head.weight")
        if key == "share_encoder_decoder_embeddings":
            names.add("target")
        if any(each in str(refused) for each in names):
            return ("refused" if acts else "refused without effect"), str(refused)
        return "unnamed", str(refused)
    except ValueError as error:
        return ("refused" if "n_ctx" in str(error) else "error"), repr(error)
    except Exception as error:  # a fault of this library
        return "error", repr(error)
    if why := same(ours, theirs):
        return "wrong", f"{why} ({'acts' if acts else 'no effect in transformers'})"
    return ("equal" if acts else "no effect"), ""


OUTCOMES = ("no effect", "equal", "refused", "refused without effect", "wrong", "unnamed", "error")


def row(name: str, counts: Counts) -> str:
    """The row of one model."""
    numbers = (str(counts.outcomes[each]) for each in OUTCOMES)
    return f"| {name} | {len(counts.keys)} | {' | '.join(numbers)} |"


def put(found: Mapping[str, Counts]) -> None:
    """Write the counts of all families into the table's document, two families in a row."""
    cells = []
    for name, counts in found.items():
        if name in FAMILIES:
            outcomes = counts.outcomes
            same = outcomes["equal"] + outcomes["no effect"]
            refused = outcomes["refused"] + outcomes["refused without effect"]
            cells.append(
                f"| {name} | {len(counts.keys)} | {same} | {refused} | {len(counts.wrong)} "
            )
    pairs = zip_longest(cells[::2], cells[1::2], fillvalue="| | | | | ")
    table = [
        "| family | keys | equal | refused | wrong " * 2 + "|",
        "| --- | --: | --: | --: | --: " * 2 + "|",
    ]
    table += [f"{left}{right}|" for left, right in pairs]
    before = parity.TABLE.read_text(encoding="utf-8").partition(parity.KEYS)[0]
    text = "\n".join([parity.KEYS, "", *ABOUT, "", *table, ""])
    parity.TABLE.write_text(before + text, encoding="utf-8")


ABOUT = (
    "Each key of each config class, by its name, type and default in `transformers`, and each key",
    "that its models read besides, gets other values in turn. Both libraries open the folder with",
    "the changed config and random weights. A value is counted as equal if logits and patterns",
    "are, whether or not it has an effect, and as refused if the message names a key. Values that",
    "`transformers` refuses are not counted. `python -m benchmarks.every_key` writes this table.",
    "Models with a classification head, whole CLIP, SigLIP and Gemma 3 models, and the settings of",
    "picture processors (`every_part`) and tokenizers (`every_token`) are changed alike, and not",
    "listed: `make parity` fails if any is wrong.",
)


def main() -> int:
    """Sweep all or the named models; exit status 1 if any value is wrong in silence."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*MODELS, []])
    args = parser.parse_args()
    hf.logging.set_verbosity(50)
    hf.logging.disable_progress_bar()
    torch.set_num_threads(1)
    print("| model | keys | " + " | ".join(OUTCOMES) + " |", flush=True)
    names = [each for each in MODELS if not each.endswith("-pair")]
    found: dict[str, Counts] = {}
    for name in args.names or names:
        found[name] = swept(name)
        print(row(name, found[name]), flush=True)
    if not args.names:
        put(found)
    return int(any(counts.wrong for counts in found.values()))


if __name__ == "__main__":
    sys.exit(main())
