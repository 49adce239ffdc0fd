"""Opening a standard Hugging Face folder: config.json, model.safetensors, tokenizer.json.

Code that comes with a model is never run.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import starmap, takewhile
from operator import eq
from pathlib import Path
from typing import Any

import torch

from models.checkpoint import (
    CONFIG,
    TOKENIZER,
    WEIGHTS,
    Checkpoint,
    CheckpointError,
    load_checkpoint,
)
from models.config import ModelConfig
from models.foreign.classes import Classifier, head_of, tensors_of
from models.foreign.elsewhere import asked_in
from models.foreign.families import FAMILIES, LACKING, Family, own_names
from models.foreign.finding import unreadable
from models.foreign.gguf_file import GGUF, architecture
from models.foreign.gguf_header import gguf_in, header
from models.foreign.json_files import read_object, read_text
from models.foreign.languages import OF_MANY, frames, languages_of, usual_pair
from models.foreign.placing import USUAL, Placing, place
from models.foreign.plan import Keys, Plan
from models.foreign.prompts import template_of
from models.foreign.rotation import TABLES, same_angles
from models.foreign.sentencepieces import SOURCE, MarianTokenizer
from models.foreign.tokens import MAKING, ForeignTokenizer, largest_in, marks_of, named_tokens
from models.foreign.vision import VisionTokenizer, prepared
from models.foreign.weights import INDEX, Safetensors, fill, require_no_adapter, shaped
from models.marks import Marks, library_of
from models.refusals import Refusal
from models.tokenizer import PANICS, refusing
from models.transformer import Model

GENERATION = "generation_config.json"
_BESIDE = re.compile(r"lm_head|cls\.|embed_out|final_logits_bias|vocab_")
"""Heads, which are outside the base model, so that their names have no prefix."""
_WRAPPERS = re.compile(
    r"^(module\.|_forward_module\.|pretrained_model\.)+|"
    r"\b(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\."
)
"""Prefixes added by torch.compile, DataParallel, DeepSpeed, FSDP, activation checkpointing and TRL.
"""
_OTHER_HEADS = re.compile(
    r"(score|v_head|value_head|reward_head|regression_head|classification_head|(pre_)?classifier|"
    r"qa_outputs|pooler|cls\.seq_relationship|summary|multiple_choice_head)\..+"
)
"""Heads of other tasks, which do not affect the numbers shown here."""
OURS = frozenset(field.name for field in fields(ModelConfig))


def open_folder(folder: Path, weights: str = WEIGHTS, placing: Placing = USUAL) -> Checkpoint:
    """Open the model in a folder, in the format of this library or of Hugging Face.

    `weights` is as in `load_checkpoint`; `placing` is the device and dtype it computes in.
    Raises CheckpointError, with the file's name and the reason, if the model cannot be opened.
    """
    try:
        folder = revision(Path(folder))
        _require_no_dead_links(folder)
        require_no_adapter(folder)
        if not (folder / CONFIG).is_file() and (file := gguf_in(folder)) is not None:
            return _open_gguf(file, placing)
        values = read_object(folder / CONFIG) if (folder / CONFIG).is_file() else {}
        if not values or _is_ours(values):
            return _of_ours(load_checkpoint(folder, weights), placing)
        return _open(folder, values, placing)
    except Refusal as error:
        if str(error).startswith(f"{folder.name}: "):
            raise
        raise CheckpointError("within", file=folder.name, reason=error) from error
    except OSError as error:  # no permission, or circular links
        why = unreadable(error, folder)
        raise CheckpointError("within", file=folder.name, reason=why) from error
    except BaseException as error:
        if type(error).__module__ != PANICS:
            raise
        why = CheckpointError("no_tokenizer", file=TOKENIZER, reason=error)
        raise CheckpointError("within", file=folder.name, reason=why) from error


def _require_no_dead_links(folder: Path) -> None:
    """Raise CheckpointError if the folder or a file is a dead or circular link."""
    for path in (folder, *(folder / name for name in (CONFIG, WEIGHTS, INDEX, TOKENIZER))):
        if path.is_symlink() and not path.exists():
            raise CheckpointError("dead_link", file=path.name)


def revision(folder: Path) -> Path:
    """The folder with the model's files, which in the hub's cache is one of several snapshots.

    For `models--org--name` it is the snapshot named by `refs/main`, or else the newest one.
    """
    kept = folder / "snapshots"
    if (folder / CONFIG).exists() or not kept.is_dir():
        return folder
    main = folder / "refs" / "main"
    if main.is_file() and (kept / (name := main.read_text().strip())).is_dir():
        return kept / Path(name).name
    versions = sorted(kept.iterdir(), key=lambda path: path.stat().st_mtime)
    return versions[-1] if versions else folder


def _is_ours(values: Mapping[str, Any]) -> bool:
    """Whether a config is one of this library: it has no `model_type`, and more than half of its
    keys are fields of `ModelConfig`."""
    return "model_type" not in values and 2 * len(OURS.intersection(values)) > len(values)


def reads_source(folder: Path) -> bool:
    """Whether a folder's model has a source encoder, from its config only; False without config."""
    try:
        config = read_object(revision(folder) / CONFIG)
    except (OSError, ValueError):
        return False
    return config.get("family") == "encoder-decoder" or bool(config.get("is_encoder_decoder"))


def _of_ours(checkpoint: Checkpoint, placing: Placing) -> Checkpoint:
    size = sum(parameter.numel() for parameter in checkpoint.model.parameters())
    place(checkpoint.model, placing, placing.dtype_for(size))
    return checkpoint


def _open_gguf(path: Path, placing: Placing) -> Checkpoint:
    stored = GGUF(path)
    family = FAMILIES[stored.values["model_type"]]
    plan = _plan(family, Keys(stored.values, stored.named), stored.named, path.name, path.name)
    with refusing("within", file=path.name):
        tokenizer = fitted(stored.tokenizer(), plan, path.name)
    model = fill(plan.config, plan.rows, stored, stored.real_name, placing)
    give_marks(model, tokenizer)
    return Checkpoint(model, tokenizer, plan.config, path)


def _plan(family: Family, keys: Keys, named: Mapping[str, str], config: str, weights: str) -> Plan:
    """The plan of a config. Raises CheckpointError, also if it leaves stored tensors unused."""
    try:
        of_any = keys.of({**keys.values, **keys.object("text_config")})  # which any family may have
        of_any.only("per_layer_config", None, {})
        plan = replace(family.plan(keys), labels=head_of(keys))
        of_any.only("head_dim", None, plan.config.d_head)
        if plan.config.is_causal:
            of_any.only("is_causal", True)
    except CheckpointError:  # raised while comparing tensors
        raise
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
        raise CheckpointError("within", file=config, reason=error) from error
    if plan.starts_with is not None and plan.starts_with >= (size := plan.config.vocab_size):
        name, value = "decoder_start_token_id", plan.starts_with
        why = Refusal("at_most", name=name, value=value, most=size - 1)
        raise CheckpointError("within", file=config, reason=why)
    _all_are_used(plan, named, weights)
    return plan


@dataclass(frozen=True)
class Look:
    """A summary of the model in a folder, from its config and file headers.

    `family` is the `model_type` of another library, or our own family. `parameters` is the number
    of stored parameters used, `half` their half-precision dtype, if any. `n_tokens` is the size of
    the tokenizer's vocabulary (0 if unknown before opening), `vocab_size` that of the model.
    """

    family: str
    n_layers: int
    n_heads: int
    d_model: int
    parameters: int
    half: torch.dtype | None = None
    vocab_size: int = 0
    n_tokens: int = 0

    @classmethod
    def at(
        cls, family: str, config: ModelConfig, stored: Safetensors, used: Iterable[str]
    ) -> "Look":
        """The summary from a config and the stored tensors that are used."""
        parameters = sum(math.prod(stored.shapes[name]) for name in used)
        sizes = config.n_layers, config.n_heads, config.d_model
        return cls(family, *sizes, parameters, stored.half, config.vocab_size)


def look(folder: Path) -> Look:
    """Summarise a model without opening it: no tensor is read.

    Raises CheckpointError if the config, the headers or the vocabulary size show that the model
    cannot be opened (NaN, for example, is only detected when opening it), and OSError if a file
    cannot be read.
    """
    folder = revision(Path(folder))
    _require_no_dead_links(folder)
    require_no_adapter(folder)
    if not (folder / CONFIG).is_file() and (file := gguf_in(folder)) is not None:
        stored_there = header(file, arrays=False)
        metadata = stored_there.values
        kind = architecture(metadata, file.name)
        keys = ("block_count", "attention.head_count", "embedding_length")
        sizes = (metadata.get(f"{kind}.{key}") for key in keys)
        n_layers, n_heads, d_model = (entry if isinstance(entry, int) else 0 for entry in sizes)
        return Look(f"{kind} (GGUF)", n_layers, n_heads, d_model, stored_there.total)
    if not (folder / CONFIG).is_file():
        raise CheckpointError("missing_file", file=CONFIG)
    values = read_object(folder / CONFIG)
    if _is_ours(values):
        try:
            config = ModelConfig.from_json(read_text(folder / CONFIG))
        except ValueError as error:
            raise CheckpointError("within", file=CONFIG, reason=error) from error
        stored = Safetensors(folder)
        return Look.at(config.family, config, stored, stored.shapes)
    plan, named, stored = _planned(folder, values, compare=False)
    if not plan.pictures:
        _require_tokenizer(folder)
    shaped(plan.config, plan.rows, stored, partial(_real_name, named))
    _of_labels(plan, named, stored)
    used = [named[entry] for entry in {entry for row in plan.rows for entry in row.theirs}]
    for name in used:
        stored.require_floats(name)
    seen = Look.at(str(values["model_type"]), plan.config, stored, used)
    if (folder / TOKENIZER).is_file() and not plan.pictures:
        largest, ordinary = largest_in(folder / TOKENIZER)
        if ordinary >= (size := plan.config.vocab_size):
            why = Refusal("other_tokenizer", largest=largest, size=size)
            raise CheckpointError("within", file=TOKENIZER, reason=why)
        seen = replace(seen, n_tokens=largest + 1)
    return seen


def _planned(
    folder: Path, values: Mapping[str, Any], compare: bool = True
) -> tuple[Plan, dict[str, str], Safetensors]:
    """The plan of a folder, a map from the plan's names to the stored names, and the tensors.

    With `compare`, copies of tensors are compared; otherwise equal shapes count as equal tensors.
    """
    family = _family(values)
    stored = Safetensors(folder)
    named: dict[str, str] = {}
    for name in stored.shapes:
        first = named.setdefault(_plain(name, family.prefixes), name)
        if first != name and compare and not torch.equal(stored.read(first), stored.read(name)):
            raise CheckpointError("twice", file=stored.name, tensor=name, other=first)

    def alike(one: str, other: str) -> bool:
        names = [named.get(one, one), named.get(other, other)]
        shapes = [stored.shapes.get(key) for key in names]
        if not compare or shapes[0] != shapes[1]:
            return shapes[0] == shapes[1]
        return torch.equal(*(stored.read(key) for key in names))

    keys = Keys({**own_names(str(values["model_type"]), values), **prepared(folder)}, named, alike)
    plan = _plan(family, keys, named, CONFIG, stored.name)
    for name in filter(re.compile("|".join(TABLES)).fullmatch, named if compare else ()):
        if not same_angles(stored.read(named[name]), plan.config):
            raise CheckpointError("rope_angles", file=stored.name, tensor=named[name])
    return plan, named, stored


def _open(folder: Path, values: Mapping[str, Any], placing: Placing) -> Checkpoint:
    plan, named, stored = _planned(folder, values)
    pictured = plan.pictures is not None
    tokenizer = VisionTokenizer.planned(plan) if pictured else _tokenizer(folder, values, plan)
    model = fill(plan.config, plan.rows, stored, partial(_real_name, named), placing)
    give_marks(model, tokenizer)
    if isinstance(tokenizer, VisionTokenizer):
        model.framed = {"tgt": (tokenizer.framing, ())}
    codes = languages_of(tokenizer) if values.get("model_type") in OF_MANY else {}
    if len(codes) > 1 and plan.starts_with is not None:
        pair = usual_pair(codes, tokenizer.around(), values)
        model.framed = frames(codes, tokenizer.around(), plan.starts_with, *pair)
    asked = asked_in(folder, values, plan.config.vocab_size)
    of_labels = _of_labels(plan, named, stored)
    classifier = None
    if plan.labels is not None:
        tensors = {name: stored.read(key) for name, key in of_labels.items()}
        classifier = Classifier(plan.labels, tensors, plan.config.norm_eps)
    of_others = {key for name, key in named.items() if _OTHER_HEADS.fullmatch(name)}
    not_shown = tuple(sorted(of_others.difference(of_labels.values())))
    return Checkpoint(model, tokenizer, plan.config, folder, not_shown, asked, classifier)


def _of_labels(plan: Plan, named: Mapping[str, str], stored: Safetensors) -> dict[str, str]:
    """The stored names of the classification head, by its own names; empty without one."""
    if plan.labels is None:
        return {}
    return tensors_of(plan.labels, plan.config.d_model, stored, partial(_real_name, named))


def _family(values: Mapping[str, Any]) -> Family:
    """The family of a config. Raises CheckpointError if it cannot be reproduced exactly."""
    kind = values.get("model_type")
    if values.get("auto_map"):
        raise CheckpointError("own_code", file=CONFIG)
    if values.get("quantization_config"):
        raise CheckpointError("quantised", file=CONFIG)
    known = ", ".join(FAMILIES)
    if kind is None:
        raise CheckpointError("no_family", file=CONFIG, known=known)
    if isinstance(kind, str) and kind in LACKING:
        raise CheckpointError(LACKING[kind], file=CONFIG, value=repr(kind))
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise CheckpointError("unknown_family", file=CONFIG, value=repr(kind), known=known)
    return FAMILIES[kind]


def _plain(name: str, prefixes: tuple[str, ...]) -> str:
    """A stored name without prefix, with the current names of norm parameters.

    Names added by training wrappers (`_WRAPPERS`) are removed too.
    """
    name = _WRAPPERS.sub("", name)
    for prefix in prefixes:
        if name.startswith(prefix):
            name = name.removeprefix(prefix)
            break
    name = re.sub(r"(?<=LayerNorm\.)gamma$", "weight", name)
    return re.sub(r"(?<=LayerNorm\.)beta$", "bias", name)


def _real_name(named: Mapping[str, str], name: str) -> str:
    """The stored name of a tensor that a plan uses; for a missing tensor, the likely name.

    `named` maps names without prefix to stored names. A missing tensor gets the most common prefix
    of the names that share the most leading parts with it, or of all names if none do.
    """
    if name in named or not named:
        return named.get(name, name)
    pairs = {key: zip(name.split("."), key.split("."), strict=False) for key in named}
    common = {key: sum(takewhile(bool, starmap(eq, pair))) for key, pair in pairs.items()}
    nearest = max(common.values())
    if not nearest and _BESIDE.match(name):
        return name
    beside = [key for key in named if common[key] == nearest]
    prefixes = Counter(named[key].partition(key)[0] for key in beside if key in named[key])
    prefix = max(prefixes, key=prefixes.__getitem__, default="")
    return f"{prefix}{name}"


def _all_are_used(plan: Plan, named: Mapping[str, str], file_name: str) -> None:
    """Raise CheckpointError for a stored tensor that is not used, except other tasks' heads."""
    used = {name for row in plan.rows for name in row.theirs}
    ignored = re.compile("|".join((*plan.ignored, _OTHER_HEADS.pattern)))
    left = sorted(name for name in named if name not in used and not ignored.fullmatch(name))
    if left:
        raise CheckpointError("has_another", file=file_name, tensor=named[left[0]], count=len(left))


def _tokenizer(folder: Path, values: Mapping[str, Any], plan: Plan) -> ForeignTokenizer:
    path, apart = folder / TOKENIZER, plan.config.src_vocab_size is not None
    with refusing("no_tokenizer", file=TOKENIZER):
        if apart or (not path.is_file() and (folder / SOURCE).is_file()):
            tokenizer: ForeignTokenizer = MarianTokenizer.of_folder(folder, apart)
        else:
            _require_tokenizer(folder)
            raw = library_of(read_text(path))
            named = named_tokens(folder)
            marks = marks_of(raw, named, {**values, "eos_token_id": _ends(folder, values)})
            tokenizer = ForeignTokenizer(raw, marks, template_of(folder, named))
    tokenizer = fitted(tokenizer, plan, SOURCE if tokenizer.source else path.name)
    tokenizer.require_settings_of(folder)
    return tokenizer


def _require_tokenizer(folder: Path) -> None:
    if not (folder / TOKENIZER).is_file() and not (folder / SOURCE).is_file():
        raise CheckpointError("no_tokenizer_file", file=TOKENIZER, command=MAKING)


def _ends(folder: Path, values: Mapping[str, Any]) -> list[Any]:
    """The ids that end an output, from generation_config.json, or else from the config."""
    path = folder / GENERATION
    eos = read_object(path).get("eos_token_id") if path.is_file() else None
    ids = values.get("eos_token_id") if eos is None else eos
    return ids if isinstance(ids, list) else [ids]


def fitted(tokenizer: ForeignTokenizer, plan: Plan, file: str) -> ForeignTokenizer:
    """The tokenizer with its special tokens adapted to the model; `file` is used in messages.

    Raises CheckpointError if the tokenizer does not fit the model.
    """
    try:
        if tokenizer.source:
            tokenizer.source.fit(plan.config.src_vocab_size or plan.config.vocab_size)
            tokenizer.reading(tokenizer.source)
        tokenizer.fit(plan.config.vocab_size)
        tokenizer.marks = _placed(tokenizer.marks, tokenizer, plan)
    except Refusal as error:
        raise CheckpointError("within", file=file, reason=error) from error
    return tokenizer


def _placed(marks: Marks, tokenizer: ForeignTokenizer, plan: Plan) -> Marks:
    """The special tokens, with start and end as they surround a text of this model."""
    before, behind = tokenizer.around()
    if plan.starts_with is None and (len(before) > 1 or len(behind) > 1):
        raise Refusal("several_around", before=len(before), behind=len(behind))
    if plan.starts_with is not None:
        return replace(marks, start=plan.starts_with, end=behind[0] if behind else marks.end)
    start = before[0] if before else None
    end = marks.end if plan.config.is_causal else (*behind, None)[0]
    return replace(marks, start=start, end=end)


def give_marks(model: Model, tokenizer: ForeignTokenizer) -> None:
    """Make a model add the same special tokens around a text as the tokenizer's post-processor.

    No token is added after a decoder's prompt, which would end the text. A translator's decoder has
    its own start token, so the tokens around its source are stored separately.
    """
    if model.reads[0] == "src":
        model.framed = {"src": (tokenizer.source or tokenizer).around()}
    if not model.config.is_causal:
        tokenizer.between = tokenizer.pair(model.config.n_types)
    model.marks = tokenizer.marks
    before, behind = (bool(side) for side in tokenizer.around())
    stream = model.reads[0]
    ends = behind and (stream == "src" or not model.config.is_causal)
    model.surrounded = {"tgt": (True, False), stream: (before, ends)}  # type: ignore[misc]
