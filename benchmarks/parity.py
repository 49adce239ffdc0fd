"""Compare numbers with `transformers`, with tiny models of every supported family.

`make parity` builds each model with `transformers` (eager attention, float32), with random norms
and biases, since the initial 1 and 0 hide bugs. It saves the model, opens the folder here and
compares the logits, the residual stream of every layer and every pattern, at all positions. It then
compares the last layer with padding on either side and token by token with a cache, and the greedy
outputs. The Makefile creates the environment for it. A run over all models writes docs/parity.md;
`--write` writes the golden files that the tests compare with.
"""

import argparse
import io
import json
import math
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from PIL import Image
from safetensors.torch import load_file, save_file

from benchmarks.foreign_models import EXTRA, MODELS, PROCESSORS, Small
from explorer.runs.run import run
from models.cache import KVCache
from models.decoding import best, decode
from models.foreign import open_folder
from models.foreign.vision import PROCESSOR
from models.pictures import PictureTokenizer, keep
from models.rows import Rows, as_tensor
from models.strategies import Greedy
from models.transformer import Model

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from foreign import (
    CHINESE,
    COPIED,
    COPIES,
    CORPUS,
    GOLDEN,
    ODD,
    PREPARED,
    TEXTS,
    TO_CUT,
    VOCABULARY,
    Golden,
    family_list,
    own_numbers,
    weights,
)

DOCS = {"en": Path("docs/own-models.md"), "zh": Path("docs/zh/own-models.md")}
TABLE = Path("docs/parity.md")
KEYS = "## Every key of every config"
WRITTEN = 8  # tokens
SECOND = 7  # where the second text of a pair begins
LENGTHS = {"first": (14, 13), "second": (12, 12)}  # of tgt, of src


def built(name: str, folder: Path) -> torch.nn.Module:
    """The model of `transformers`, saved to `folder` and read from there."""
    kind, sizes = MODELS[name]
    cls = getattr(hf, kind)
    usual = {} if name in PROCESSORS else {"vocab_size": VOCABULARY, "pad_token_id": 0}
    config = cls.config_class(**{**usual, **sizes})
    cls(config).save_pretrained(folder)
    if name in PROCESSORS:
        processor(name).save_pretrained(folder)
    path = folder / "model.safetensors"
    shapes = {key: tuple(tensor.shape) for key, tensor in load_file(path).items()}
    shapes |= EXTRA.get(name, {})
    stored = {key: weights(key, shape) for key, shape in shapes.items()}
    save_file(stored, path, metadata={"format": "pt"})
    return cls.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()


def processor(name: str) -> Any:
    """What prepares pictures for a model, from `transformers`."""
    kind, settings = PROCESSORS[name]
    return getattr(hf, f"{kind}Pil")(**settings)


def pictures(name: str, folder: Path) -> dict[str, torch.Tensor]:
    """Two pictures as tokens of our model, and as `transformers` normalises them (`.pixels`)."""
    loaded = open_folder(folder)
    tokenizer, found = loaded.tokenizer, {}
    assert isinstance(tokenizer, PictureTokenizer)
    for text, color in zip(TEXTS, "RGB", strict=False):
        random = np.random.Generator(np.random.PCG64(ord(color)))
        assert tokenizer.processing is not None
        levels = random.integers(0, 256, (*tokenizer.processing.sides, 3)).astype(np.uint8)
        plain = {"do_resize": False, "do_center_crop": False, "return_tensors": "pt"}
        found[f"{text}.pixels"] = processor(name)(Image.fromarray(levels), **plain).pixel_values
        height, width = tokenizer.picture[:2]  # whole patches
        kept = keep(np.ascontiguousarray(levels[:height, :width]))
        tokens = loaded.model.with_marks("tgt", tokenizer.encode(kept))
        found[f"{text}.tgt"] = as_tensor([tokens])
        found[f"{text}.src"] = torch.zeros(1, 12, dtype=torch.long)  # not read
    return found


def texts(name: str) -> dict[str, torch.Tensor]:
    """The ids of two texts, and of their sources."""
    random = np.random.Generator(np.random.PCG64(7))
    ids = {
        f"{text}.{stream}": torch.tensor(random.integers(4, VOCABULARY, (1, length)))
        for text, lengths in LENGTHS.items()
        for stream, length in zip(("tgt", "src"), lengths, strict=True)
    }
    for text in TEXTS if name.endswith("-pair") else ():
        ids[f"{text}.tgt"][0, [SECOND - 1, -1]] = 3  # the separator
    for text in TEXTS if name.endswith("-padded") else ():
        stream = "src" if "m2m" in name else "tgt"
        ids[f"{text}.{stream}"][0, [2, 6, 7]] = 1  # the padding, inside the text
    return ids


def layers(model: Any) -> dict[str, list[torch.nn.Module]]:
    """The blocks of a `transformers` model, by our name of their stack."""
    found: dict[str, list[torch.nn.Module]] = {}
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.ModuleList) and name.rpartition(".")[2] in (
            "h",
            "layers",
            "layer",
            "block",
            "blocks",
        ):
            whole = name.split(".")
            stack = next((s for s in ("encoder", "decoder") if s in whole[:2]), "")
            if len(module) == 2 and not any(part.isdecimal() for part in whole):
                found[stack if model.config.is_encoder_decoder else ""] = list(module)
    return found


def computed(model: Any, ids: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Logits, streams and patterns of every text, by our names."""
    arrays: dict[str, np.ndarray] = {}
    for text in TEXTS:
        tgt, src = ids[f"{text}.tgt"], ids[f"{text}.src"]
        handles = []

        def keep(name: str) -> Callable[..., None]:
            def hook(module: Any, args: Any, output: Any) -> None:
                arrays[name] = (output[0] if isinstance(output, tuple | list) else output)[
                    0
                ].numpy()

            return hook

        for stack, blocks in layers(model).items():
            for layer, block in enumerate(blocks):
                path = ".".join(filter(None, (stack, f"blocks.{layer}.hook_resid_post")))
                handles.append(block.register_forward_hook(keep(f"{text}/{path}")))
        pixels = ids.get(f"{text}.pixels")
        given = {"input_ids": tgt} if pixels is None else {"pixel_values": pixels}
        if model.config.is_encoder_decoder:
            given = {"input_ids": src, "decoder_input_ids": tgt}
        if pixels is None and int(tgt[0, SECOND - 1]) == int(tgt[0, -1]) == 3:
            given["token_type_ids"] = (torch.arange(tgt.shape[1]) >= SECOND).long()[None]
        with torch.no_grad():
            more = {} if layers(model) else {"output_hidden_states": True}  # ALBERT has one block
            cached = {"use_cache": False} if pixels is None else {}
            out = model(**given, output_attentions=True, **cached, **more)
        for handle in handles:
            handle.remove()
        for layer, x in enumerate(out.hidden_states[1:] if more else ()):
            arrays[f"{text}/blocks.{layer}.hook_resid_post"] = x[0].numpy()
        if "Classification" in type(model).__name__:
            arrays[f"{text}/labels"] = out.logits[0].numpy()
        elif "logits" in out and out.logits.ndim == 3:  # ELECTRA's discriminator has one per token
            arrays[f"{text}/hook_logits"] = out.logits[0].numpy()
        patterns = {"": "attentions"}
        if model.config.is_encoder_decoder:
            patterns = {
                "encoder.": "encoder_attentions",
                "decoder.": "decoder_attentions",
                "decoder.cross": "cross_attentions",
            }
        for prefix, key in patterns.items():
            stack, _, cross = prefix.partition(".")
            for layer, pattern in enumerate(out[key]):
                site = f"blocks.{layer}.{'cross_attn' if cross else 'attn'}.hook_pattern"
                path = f"{stack}.{site}" if stack else site
                arrays[f"{text}/{path}"] = pattern[0].numpy()
    return arrays


def off(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, relative to the largest value."""
    assert ours.shape == theirs.shape
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def padded_and_cached(
    model: Model, ids: dict[str, torch.Tensor], theirs: dict[str, np.ndarray]
) -> Small:
    """The largest difference in the last layer if both texts share a batch with padding on either
    side, and if one is read token by token with a cache (an encoder has none)."""
    by_stream = {
        stream: [ids[f"{text}.{stream}"][0].tolist() for text in TEXTS] for stream in ("tgt", "src")
    }
    source = by_stream["src"] if "src" in model.reads else None
    rows = Rows.of(by_stream["tgt"], source, left=3, right=2)
    stack = next(stack for stack in model.stacks() if stack.stream == "tgt")
    last = stack.block_hook(stack.n_layers - 1, "resid_post")
    name = "hook_logits" if model.config.lm_head else last
    found = run(model, rows, {name})[name].numpy()
    worst = {"padded": 0.0, "cached": 0.0}
    for row, text in enumerate(TEXTS):
        expected = theirs[f"{text}/{name}"]
        worst["padded"] = max(worst["padded"], off(found[row, 3 : 3 + len(expected)], expected))
    longest = ids["first.tgt"].shape[1]
    if not model.config.generates or longest > model.config.cacheable:
        return worst | {"cached": math.nan}
    tgt, src = ids["first.tgt"], ids["first.src"] if source else None
    cache, steps = KVCache(model.config.n_layers), []
    with torch.inference_mode():
        memory = model.memory_of(Rows(tgt, None, src))
        for at in range(tgt.shape[1]):
            steps.append(model.read(Rows(tgt[:, at : at + 1], None, src), memory, cache))
    return worst | {"cached": off(torch.cat(steps, 1)[0].numpy(), theirs["first/hook_logits"])}


def written(model: Any, ids: dict[str, torch.Tensor]) -> list[int] | None:
    """The greedy continuation of the second text by `transformers`; None if it cannot generate."""
    if not model.can_generate() or "MaskedLM" in type(model).__name__:
        return None
    given, start = ids["second.tgt"], None
    if model.config.is_encoder_decoder:
        given, start = ids["second.src"], model.config.decoder_start_token_id
    never = [start] if start is not None and start == model.config.pad_token_id else None
    model.generation_config = hf.GenerationConfig()  # without forced tokens and end tokens
    settings = hf.GenerationConfig(
        max_new_tokens=WRITTEN,
        do_sample=False,
        use_cache=False,  # so that our cache is compared with full passes
        pad_token_id=0,
        decoder_start_token_id=start,
        suppress_tokens=never,
    )
    made = model.generate(given, settings, attention_mask=torch.ones_like(given))
    return made[0, -WRITTEN:].tolist()


def writes_the_same(model: Model, ids: dict[str, torch.Tensor], expected: list[int]) -> bool:
    """Whether our greedy decoding, with a cache, gives these tokens."""
    model.marks = replace(model.marks, end=None, further_ends=())
    given = ids["second.src" if "src" in model.reads else "second.tgt"]
    (output,) = best(decode(model, given, Greedy(), WRITTEN))
    return list(output.tokens) == expected


def differences(folder: Path, ids: dict[str, torch.Tensor], theirs: dict[str, np.ndarray]) -> Small:
    """The largest difference of each kind, relative to its largest value."""
    opened = open_folder(folder)
    model, labels = opened.model, opened.classifier
    reads = model.config.lm_head or labels
    worst = {"logits": 0.0 if reads else math.nan, "stream": 0.0, "pattern": 0.0}
    for text in TEXTS:
        src = ids[f"{text}.src"] if "src" in model.reads else None
        names = [key.partition("/")[2] for key in theirs if key.startswith(f"{text}/")]
        rows = Rows(ids[f"{text}.tgt"], None, src)
        ours = run(model, rows, names)
        if labels is not None:
            ours["labels"] = labels(model.last_stack.run(rows), rows.valid("tgt"), rows.tgt)
        for name in names:
            expected = theirs[f"{text}/{name}"]
            kind = next((k for k in worst if k in name.replace("labels", "logits")), "stream")
            worst[kind] = max(worst[kind], off(ours[name][0].numpy(), expected))
    return worst | padded_and_cached(model, ids, theirs)


def main() -> int:
    """Compare all or the named models; exit status 1 if any is off by more than 1e-4."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*MODELS, []])
    parser.add_argument("--write", action="store_true", help="write the golden files of the tests")
    args = parser.parse_args()
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    print(f"transformers {hf.__version__}, torch {torch.__version__}, float32, eager\n")
    lines = ["| model | logits | streams | patterns | padded | cached | greedy |"]
    lines.append("| --- | --: | --: | --: | --: | --: | --- |")
    print("\n".join(lines))
    if args.write and not args.names:
        write_pieces()
        write_copies()
        write_pictures()
    failed = False
    for name in args.names or MODELS:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            model = built(name, folder)
            ids = pictures(name, folder) if name in PROCESSORS else texts(name)
            theirs = computed(model, ids)
            if args.write:
                write(name, folder, ids, theirs)
            Golden.load(name).write(folder)  # the same folder, with a tokenizer
            worst = differences(folder, ids, theirs)
            expected, greedy = written(model, ids), "–"
            if expected is not None:
                same = writes_the_same(open_folder(folder).model, ids, expected)
                failed, greedy = failed or not same, "equal" if same else "differs"
        numbers = ("–" if math.isnan(value) else f"{value:.1e}" for value in worst.values())
        lines.append(f"| {name} | {' | '.join(numbers)} | {greedy} |")
        print(lines[-1], flush=True)
        failed = failed or any(value > 1e-4 for value in worst.values())
    if not args.names:
        about, _, after = TABLE.read_text(encoding="utf-8").partition("\ntransformers ")
        keys = "".join(after.partition(KEYS)[1:])  # written by `every_key`
        versions = f"transformers {hf.__version__}, torch {torch.__version__}:"
        TABLE.write_text("\n".join([about, versions, "", *lines, "", keys]), encoding="utf-8")
        for lang, file in DOCS.items():
            put(file, "families", [family_list(lang)])
    return int(failed)


def put(file: Path, name: str, lines: list[str]) -> None:
    """Put these lines between the comments that mark the place `name` in a document."""
    text = file.read_text(encoding="utf-8")
    first, last = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, found, rest = text.partition(first)
    _, ended, after = rest.partition(last)
    assert found, f"{file} has no place for {name}"
    assert ended, f"{file} has no end of {name}"
    file.write_text(before + first + "\n".join(["", *lines, "", last]) + after, encoding="utf-8")


def write_copies() -> None:
    """The logits of models whose file has a tensor that usually copies another one, and differs."""
    logits = {}
    for name, tensor, copied in COPIES:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            cls = type(built(name, folder))
            path = folder / "model.safetensors"
            stored = load_file(path)
            stored[tensor] = own_numbers(tensor, stored[copied])
            save_file(stored, path, metadata={"format": "pt"})
            model = cls.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
            found = computed(model.eval(), texts(name))
        logits[f"{name}/{tensor}"] = found["first/hook_logits"].astype(np.float32)
    np.savez_compressed(COPIED, **logits)


def write_pictures() -> None:
    """Pictures of odd sizes and every mode, as the processors of `transformers` prepare them."""
    made = {"settings": np.frombuffer(json.dumps(PROCESSORS).encode(), np.uint8)}
    for at, (mode, size) in enumerate(ODD):
        random = np.random.Generator(np.random.PCG64(at))
        levels = random.integers(0, 256, (*size, 4), dtype=np.uint8)
        image = Image.fromarray(levels).convert(mode)
        made[f"{at}/given"] = np.asarray(image.convert("RGBA"))
        for name in PROCESSORS:
            pixels = processor(name)(image, do_convert_rgb=True).pixel_values[0]
            made[f"{at}/{name}"] = np.asarray(pixels, np.float32)
    np.savez_compressed(PREPARED, **made)


def write_pieces() -> None:
    """Two small SentencePiece models, and how `sentencepiece` itself cuts texts with them."""
    import sentencepiece

    cut = {}
    for side, lines, size in (("source", CORPUS, 90), ("target", CHINESE, 60)):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            vocab_size=size,
            hard_vocab_limit=False,
            normalization_rule_name="identity",  # the usual table has 240 KB
            minloglevel=2,
        )
        (GOLDEN / f"{side}.spm").write_bytes(model.getvalue())
        pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        cut[side] = {text: pieces.encode(text, out_type=str) for text in TO_CUT}
    text = json.dumps(cut, ensure_ascii=False, indent=1)
    (GOLDEN / "pieces.json").write_text(text + "\n", encoding="utf-8")


def write(
    name: str, folder: Path, ids: dict[str, torch.Tensor], theirs: dict[str, np.ndarray]
) -> None:
    """Write the golden file of one model: config, names and shapes, ids, and results."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    stored = load_file(folder / "model.safetensors")
    said = {"config": config, "shapes": {key: list(t.shape) for key, t in stored.items()}}
    if name in PROCESSORS:
        said["processor"] = json.loads((folder / PROCESSOR).read_text(encoding="utf-8"))
    described = np.frombuffer(json.dumps(said).encode(), dtype=np.uint8)
    inputs = {key: t[0].numpy() for key, t in ids.items() if not key.endswith(".pixels")}
    if name in PROCESSORS:
        inputs = {key: tokens.astype(np.int16) for key, tokens in inputs.items()}
    arrays = {key: array.astype(np.float32) for key, array in theirs.items()}
    if name.startswith("labels/"):  # what comes before the head is compared without it
        arrays = {key: array for key, array in arrays.items() if key.endswith("/labels")}
    np.savez_compressed(GOLDEN / f"{name}.npz", described=described, **inputs, **arrays)


if __name__ == "__main__":
    sys.exit(main())
