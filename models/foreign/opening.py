"""A folder as people have it, opened: config.json, model.safetensors, tokenizer.json.

Nothing but these files is read, and no code that comes with them is run.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import tokenizers
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
from models.foreign.adapters import require_no_adapter
from models.foreign.families import FAMILIES, Family
from models.foreign.finding import unreadable
from models.foreign.generation import asked_in
from models.foreign.gguf_file import GGUF, architecture
from models.foreign.gguf_header import gguf_in, header
from models.foreign.json_files import read_object, read_text
from models.foreign.languages import OF_MANY, frames, languages_of, usual_pair
from models.foreign.placing import USUAL, Placing, place
from models.foreign.plan import Keys, Plan
from models.foreign.prompts import prompt_of
from models.foreign.sentencepieces import SOURCE, MarianTokenizer
from models.foreign.tokens import ForeignTokenizer, largest_in, marks_of, named_tokens
from models.foreign.weights import INDEX, Safetensors, fill, shaped
from models.marks import Marks
from models.refusals import Refusal
from models.tokenizer import PANICS, made_of, refusing
from models.transformer import Model

GENERATION = "generation_config.json"
MAKING = (
    'python -c "import transformers as t; '
    "t.AutoTokenizer.from_pretrained('.').save_pretrained('.')\""
)
_BESIDE = re.compile(r"lm_head|cls\.|embed_out|final_logits_bias|vocab_")
"""What stands beside a model, so that its name has no prefix: heads."""
_WRAPPERS = re.compile(
    r"^(module\.|_forward_module\.|pretrained_model\.)+|"
    r"\b(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\."
)
"""torch.compile, DataParallel, DeepSpeed, FSDP, activation checkpointing, TRL's value head."""
_OTHER_HEADS = re.compile(
    r"(score|v_head|value_head|reward_head|regression_head|classification_head|(pre_)?classifier|"
    r"qa_outputs|pooler|cls\.seq_relationship|summary|multiple_choice_head)\..+"
)
"""Heads of other tasks, which read what the model computes and change none of it."""
OURS = frozenset(field.name for field in fields(ModelConfig))


def open_folder(folder: Path, weights: str = WEIGHTS, placing: Placing = USUAL) -> Checkpoint:
    """The model in a folder, whether it is ours or another library's.

    `weights` is as in `load_checkpoint`; `placing` says where and in which floats it computes.
    Raises CheckpointError, with the file's name and the reason, for whatever cannot be opened.
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
    except OSError as error:  # no rights, or a circle of links
        why = unreadable(error, folder)
        raise CheckpointError("within", file=folder.name, reason=why) from error
    except BaseException as error:
        if type(error).__module__ != PANICS:
            raise
        why = CheckpointError("no_tokenizer", file=TOKENIZER, reason=error)
        raise CheckpointError("within", file=folder.name, reason=why) from error


def _require_no_dead_links(folder: Path) -> None:
    """Raise CheckpointError for a folder, or a file, that is a link to nothing, or to itself."""
    for path in (folder, *(folder / name for name in (CONFIG, WEIGHTS, INDEX, TOKENIZER))):
        if path.is_symlink() and not path.exists():
            raise CheckpointError("dead_link", file=path.name)


def revision(folder: Path) -> Path:
    """The folder of the files themselves: in the hub's cache a folder holds several versions.

    Of `models--org--name` it is the snapshot that `refs/main` names, else the newest one.
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
    """Whether a config is one of this library: others say their `model_type`, and where that is
    lost, most of their keys are others."""
    return "model_type" not in values and 2 * len(OURS.intersection(values)) > len(values)


def reads_source(folder: Path) -> bool:
    """Whether a folder's model reads a source, by its config alone; False for what has none."""
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
    """What a config means, every stored tensor being used. Raises CheckpointError."""
    try:
        plan = family.plan(keys)
    except CheckpointError:  # of a tensor that was compared
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
    """What a folder's config and the headers of its files say of the model in it.

    `family` is the `model_type` of another library, or our own family. `parameters` are the stored
    numbers that it uses, `half` the half precision that they are stored in, if they are; `n_tokens`
    of a vocabulary of `vocab_size` are those of the tokenizer, 0 where only opening it tells.
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
        """What a config and these of the stored tensors say."""
        parameters = sum(math.prod(stored.shapes[name]) for name in used)
        sizes = config.n_layers, config.n_heads, config.d_model
        return cls(family, *sizes, parameters, stored.half, config.vocab_size)


def look(folder: Path) -> Look:
    """Look at a model without opening it: no tensor is read.

    Raises CheckpointError for what cannot be opened, as far as the config, the headers and the size
    of the vocabulary tell (NaN, say, is found by reading all weights alone), and OSError for what
    cannot be read.
    """
    folder = revision(Path(folder))
    _require_no_dead_links(folder)
    require_no_adapter(folder)
    if not (folder / CONFIG).is_file() and (file := gguf_in(folder)) is not None:
        said, parameters = header(file)
        kind = architecture(said, file.name)
        keys = ("block_count", "attention.head_count", "embedding_length")
        sizes = (said.get(f"{kind}.{key}") for key in keys)
        n_layers, n_heads, d_model = (each if isinstance(each, int) else 0 for each in sizes)
        return Look(f"{kind} (GGUF)", n_layers, n_heads, d_model, parameters)
    if not (folder / CONFIG).is_file():
        raise CheckpointError("missing_file", file=CONFIG)
    values = read_object(folder / CONFIG)
    if _is_ours(values):
        config, stored = _own_config(folder), Safetensors(folder)
        return Look.at(config.family, config, stored, stored.shapes)
    plan, named, stored = _planned(folder, values, compare=False)
    _require_tokenizer(folder)
    shaped(plan.config, plan.rows, stored, partial(_real_name, named))
    used = [named[each] for each in {each for row in plan.rows for each in row.theirs}]
    for name in used:
        stored.require_floats(name)
    seen = Look.at(str(values["model_type"]), plan.config, stored, used)
    if (folder / TOKENIZER).is_file():
        largest, ordinary = largest_in(folder / TOKENIZER)
        if ordinary >= (size := plan.config.vocab_size):
            why = Refusal("other_tokenizer", largest=largest, size=size)
            raise CheckpointError("within", file=TOKENIZER, reason=why)
        seen = replace(seen, n_tokens=largest + 1)
    return seen


def _own_config(folder: Path) -> ModelConfig:
    try:
        return ModelConfig.from_json(read_text(folder / CONFIG))
    except ValueError as error:
        raise CheckpointError("within", file=CONFIG, reason=error) from error


def _planned(
    folder: Path, values: Mapping[str, Any], compare: bool = True
) -> tuple[Plan, dict[str, str], Safetensors]:
    """The plan of a folder, the stored names by those that the plan uses, and the tensors.

    With `compare`, copies of tensors are read; otherwise those of one shape count as equal.
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
        shapes = [stored.shapes.get(each) for each in names]
        if not compare or shapes[0] != shapes[1]:
            return shapes[0] == shapes[1]
        return torch.equal(*(stored.read(each) for each in names))

    keys = Keys(values, named, alike)
    return _plan(family, keys, named, CONFIG, stored.name), named, stored


def _open(folder: Path, values: Mapping[str, Any], placing: Placing) -> Checkpoint:
    plan, named, stored = _planned(folder, values)
    tokenizer = _tokenizer(folder, values, plan)
    model = fill(plan.config, plan.rows, stored, partial(_real_name, named), placing)
    give_marks(model, tokenizer)
    codes = languages_of(tokenizer) if values.get("model_type") in OF_MANY else {}
    if len(codes) > 1 and plan.starts_with is not None:
        pair = usual_pair(codes, tokenizer.around(), values)
        model.framed = frames(codes, tokenizer.around(), plan.starts_with, *pair)
    asked = asked_in(folder, values, plan.config.vocab_size)
    return Checkpoint(model, tokenizer, plan.config, folder, _not_shown(named), asked)


def _family(values: Mapping[str, Any]) -> Family:
    """The family of a config. Raises CheckpointError for one that cannot be opened exactly."""
    kind = values.get("model_type")
    if values.get("auto_map"):
        raise CheckpointError("own_code", file=CONFIG)
    if values.get("quantization_config"):
        raise CheckpointError("quantised", file=CONFIG)
    known = ", ".join(FAMILIES)
    if kind is None:
        raise CheckpointError("no_family", file=CONFIG, known=known)
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise CheckpointError("unknown_family", file=CONFIG, value=repr(kind), known=known)
    return FAMILIES[kind]


def _plain(name: str, prefixes: tuple[str, ...]) -> str:
    """A stored name without its prefix, and with the names that norms have today.

    What training wrapped around the model or its parts leaves names too: `_WRAPPERS`.
    """
    name = _WRAPPERS.sub("", name)
    for prefix in prefixes:
        if name.startswith(prefix):
            name = name.removeprefix(prefix)
            break
    return re.sub(r"(LayerNorm)\.(gamma|beta)$", _today, name)


def _real_name(named: Mapping[str, str], name: str) -> str:
    """The stored name of a tensor that a plan uses; of a missing one, as its neighbours have it.

    `named` are the stored names by those without a prefix. The neighbours are those that begin with
    most of the same parts, or, for a tensor that stands alone in the model itself, all of it.
    """
    if name in named or not named:
        return named.get(name, name)
    pairs = {each: zip(name.split("."), each.split("."), strict=False) for each in named}
    common = {each: sum(1 for _ in takewhile(_same, pair)) for each, pair in pairs.items()}
    nearest = max(common.values())
    if not nearest and _BESIDE.match(name):
        return name
    beside = [each for each in named if common[each] == nearest]
    prefixes = Counter(named[each].partition(each)[0] for each in beside if each in named[each])
    prefix = max(prefixes, key=prefixes.__getitem__, default="")
    return f"{prefix}{name}"


def _same(parts: tuple[str, str]) -> bool:
    return parts[0] == parts[1]


def _today(old: re.Match[str]) -> str:
    return f"{old[1]}.{'weight' if old[2] == 'gamma' else 'bias'}"


def _not_shown(named: Mapping[str, str]) -> tuple[str, ...]:
    """The heads among stored tensors that are no part of what is shown, as the file names them."""
    return tuple(sorted(named[name] for name in named if _OTHER_HEADS.fullmatch(name)))


def _all_are_used(plan: Plan, named: Mapping[str, str], file_name: str) -> None:
    """Raises CheckpointError for a stored tensor that nothing here reads, heads aside."""
    used = {name for row in plan.rows for name in row.theirs}
    ignored = re.compile("|".join((*plan.ignored, _OTHER_HEADS.pattern)))
    left = sorted(name for name in named if name not in used and not ignored.fullmatch(name))
    if left:
        raise CheckpointError("has_another", file=file_name, tensor=named[left[0]], count=len(left))


def _tokenizer(folder: Path, values: Mapping[str, Any], plan: Plan) -> ForeignTokenizer:
    path = folder / TOKENIZER
    with refusing("no_tokenizer", file=TOKENIZER):
        if not path.is_file() and (folder / SOURCE).is_file():
            tokenizer: ForeignTokenizer = MarianTokenizer.of_folder(folder)
        else:
            _require_tokenizer(folder)
            raw = made_of(path, lambda path: tokenizers.Tokenizer.from_str(read_text(path)))
            raw.no_padding()
            raw.no_truncation()
            said = {**values, "eos_token_id": _ends(folder, values)}
            marks = marks_of(raw, named_tokens(folder), said)
            tokenizer = ForeignTokenizer(raw, marks, prompt_of(folder))
    return fitted(tokenizer, plan, path.name if path.is_file() else SOURCE)


def _require_tokenizer(folder: Path) -> None:
    if not (folder / TOKENIZER).is_file() and not (folder / SOURCE).is_file():
        raise CheckpointError("no_tokenizer_file", file=TOKENIZER, command=MAKING)


def _ends(folder: Path, values: Mapping[str, Any]) -> list[Any]:
    """The ids that end an output, by the config and by the settings of generation beside it."""
    path = folder / GENERATION
    listed: list[Any] = []
    for said in (values, read_object(path) if path.is_file() else {}):
        ids = said.get("eos_token_id")
        listed += ids if isinstance(ids, list) else [ids]
    return listed


def fitted(tokenizer: ForeignTokenizer, plan: Plan, file: str) -> ForeignTokenizer:
    """A tokenizer with the marks of this model; `file` is where it stands.

    Raises CheckpointError where it does not fit.
    """
    try:
        tokenizer.fit(plan.config.vocab_size)
        tokenizer.marks = _placed(tokenizer.marks, tokenizer, plan)
    except Refusal as error:
        raise CheckpointError("within", file=file, reason=error) from error
    return tokenizer


def _placed(marks: Marks, tokenizer: ForeignTokenizer, plan: Plan) -> Marks:
    """The marks, the start and the end being those that stand around a text of this model."""
    before, behind = tokenizer.around()
    if plan.starts_with is None and (len(before) > 1 or len(behind) > 1):
        raise Refusal("several_around", before=len(before), behind=len(behind))
    if plan.starts_with is not None:
        return replace(marks, start=plan.starts_with, end=behind[0] if behind else marks.end)
    start = before[0] if before else None
    end = behind[0] if behind and not plan.config.is_causal else marks.end
    return replace(marks, start=start, end=end)


def give_marks(model: Model, tokenizer: ForeignTokenizer) -> None:
    """Let a model put around a text what the tokenizer's own post-processor does.

    Behind the prompt of a decoder nothing is put: there would be nothing to continue. The decoder
    of a translator begins with a mark of its own, so the source's are named apart.
    """
    if model.reads[0] == "src":
        model.framed = {"src": tokenizer.around()}
    model.marks = tokenizer.marks
    before, behind = (bool(each) for each in tokenizer.around())
    given = model.reads[0]
    ends = behind and (given == "src" or not model.config.is_causal)
    model.surrounded = {"tgt": (True, False), given: (before, ends)}  # type: ignore[misc]
