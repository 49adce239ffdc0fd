"""The trained models on disk: listing them, and opening one."""

import copy
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import nn

from explorer.labels import SpecialToken, str_tokens
from explorer.once import once
from explorer.problems import InputProblem
from explorer.text import TRAINED
from models.checkpoint import CONFIG, SOURCE_TOKENIZER, TOKENIZER, WEIGHTS
from models.config import ModelConfig
from models.fast import lay_out_for_decoding, speed_up
from models.foreign import Placing, few, found, open_folder, reads_source, revision
from models.foreign.classes import Classifier
from models.foreign.elsewhere import Settings
from models.foreign.finding import VARIABLE
from models.foreign.json_files import read_object
from models.foreign.languages import Codes, frames, languages_of, split_languages
from models.foreign.placing import shown
from models.foreign.prompts import Template
from models.foreign.tokens import ForeignTokenizer
from models.hooks import AttentionSite, StackSite
from models.marks import Marks
from models.pictures import PictureTokenizer, places
from models.refusals import Refusal
from models.rows import PatchToken, Stream
from models.tokenizer import Tokenizer
from models.training.home import asset
from models.training.saving import SNAPSHOTS, snapshot_name, snapshots as kept_snapshots
from models.transformer import Model

CHECKPOINTS = asset("checkpoints")
OWN_TEXTS = ("filling", "silent", "pictured")
"""Tables of texts under the usual keys: for masked language models, models without an LM head, and
models of pictures."""
SMALL = 50_000_000
"""Parameters up to which a model is repacked for decoding, which takes up to twice its memory."""


@dataclass(frozen=True)
class StoredWeights:
    """The weights of a model on disk: their bytes, and their data types."""

    n_bytes: int
    dtypes: tuple[str, ...]

    @classmethod
    def at(cls, path: Path) -> "StoredWeights":
        """The weights of a folder's safetensors, all together, or of one GGUF file."""
        if path.is_file():
            return cls(path.stat().st_size, ("GGUF",))
        weights = sorted(path.glob("*.safetensors"))
        kinds = {dtype for weight in weights for dtype in _dtypes(weight)}
        return cls(sum(weight.stat().st_size for weight in weights), tuple(sorted(kinds)))


def _dtypes(path: Path) -> set[str]:
    try:
        with safe_open(path, framework="np") as file:
            return {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError):  # an unrelated file next to the model's own
        return set()


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model with its tokenizer, ready to be run and shared: eval mode, never modified."""

    name: str
    model: Model
    tokenizer: Tokenizer
    config: ModelConfig
    folder: Path
    was_stored: StoredWeights | None = None  # used if the folder is gone
    not_shown: tuple[str, ...] = ()  # stored tensors that have no effect here: other heads
    asked: Settings = field(default_factory=Settings)  # how it is run in other libraries
    classifier: Classifier | None = None  # its classification head

    @property
    def stored(self) -> StoredWeights:
        """Its weights on disk."""
        return self.was_stored or StoredWeights.at(self.folder)

    def part(self, path: str) -> nn.Module:
        """A module whose weights may be read: on the CPU, and not in half precision."""
        return shown(self.model.get_submodule(path))

    @property
    def marks(self) -> Marks:
        """The roles of its tokenizer's special tokens."""
        return self.tokenizer.marks

    @once
    def n_parameters(self) -> int:
        """The number of its weights."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    @once
    def languages(self) -> Codes:
        """The codes of the languages that it can translate; empty unless there are several."""
        if not isinstance(self.tokenizer, ForeignTokenizer) or "tgt" not in self.model.framed:
            return {}
        return languages_of(self.tokenizer)

    @property
    def pair(self) -> tuple[str, str]:
        """The source and target language, among its `languages`."""
        names = {token: name for name, token in self.languages.items()}
        framed = (self.model.framed[stream] for stream in ("src", "tgt"))
        source, target = (
            next(names[token] for token in (*before, *behind) if token in names)
            for before, behind in framed
        )
        return source, target

    def speaking(self, source: str, target: str) -> "LoadedModel":
        """The same weights for another language pair. Raises InputProblem `unknown_model`."""
        name, codes = in_languages(self.name, source, target), self.languages
        if not {source, target} <= codes.keys():
            raise InputProblem("unknown_model", name=name, available=", ".join(codes))
        model, (first, *_) = copy.copy(self.model), self.model.framed["tgt"][0]
        framed = self.model.framed["src"]
        model.framed = frames(codes, framed, first, source, target)
        return replace(self, name=name, model=model)

    @property
    def foreign(self) -> bool:
        """Whether it was made with another library, so that little is known of its training."""
        return isinstance(self.tokenizer, ForeignTokenizer)

    def stack(self, stream: str) -> StackSite:
        """The stack that reads a sequence. Raises StopIteration if none does."""
        return next(stack for stack in self.stacks if stack.stream == stream)

    @property
    def continues(self) -> bool:
        """Whether its output continues the text that it reads."""
        return self.config.generates and not self.config.reads_source

    @property
    def fills_in(self) -> bool:
        """Whether it predicts the masked tokens of its text."""
        return self.config.fills and self.marks.mask is not None

    @property
    def reads_pairs(self) -> bool:
        """Whether it reads two texts as a pair, with PAIR between them."""
        return isinstance(self.tokenizer, ForeignTokenizer) and self.tokenizer.between is not None

    @property
    def like(self) -> str:
        """A shipped model with which it shares example texts; "": one of the same name or none."""
        return "masked-en" if self.fills_in else "reader" if self.config.picture else ""

    @once
    def own_texts(self) -> tuple[str, ...]:
        """The tables of texts in which it has its own, where the usual ones would be wrong."""
        config = self.config
        holds = (config.fills, not config.lm_head, config.picture is not None)
        return tuple(table for table, is_own in zip(OWN_TEXTS, holds, strict=True) if is_own)

    @property
    def template(self) -> Template | None:
        """Its chat template, if it is a chat model."""
        return self.tokenizer.template if isinstance(self.tokenizer, ForeignTokenizer) else None

    @property
    def lacks_tokens(self) -> bool:
        """Whether most of its vocabulary has no token: the tokenizer may be another model's."""
        return few(self.tokenizer.vocab_size, self.config.vocab_size)

    @once
    def stacks(self) -> tuple[StackSite, ...]:
        """Every stack of blocks of the model, in its own order."""
        return self.model.stacks()

    @once
    def sites(self) -> tuple[AttentionSite, ...]:
        """Every attention sublayer of the model, in its own order."""
        return self.model.attention_sites()

    def str_tokens(self, ids: Sequence[int], stream: Stream = "tgt") -> list[str]:
        """The label of each token of a sequence: see `explorer.labels`."""
        if isinstance(self.tokenizer, PictureTokenizer) and ids and isinstance(ids[0], PatchToken):
            marks = map(SpecialToken, self.tokenizer.names)
            pads = [SpecialToken("<pad>")] * len(ids)
            names = [*marks, *places(self.tokenizer.picture), *pads]
            return names[: len(ids)]
        return str_tokens(self.tokenizer.of(stream), ids)

    def site(self, name: str) -> AttentionSite:
        """The site with this name. Raises KeyError for an unknown name."""
        for site in self.sites:
            if site.name == name:
                return site
        raise KeyError(f"{self.name} has no attention site {name!r}")


def list_models(folder: Path = CHECKPOINTS) -> tuple[str, ...]:
    """The names of the checkpoints in `folder`, sorted, and of those that HEADLIGHT_MODELS adds.

    A model from HEADLIGHT_MODELS with the name of a shipped one is not listed.
    """
    # os.path: a page asks four times, and `Path.glob` takes a millisecond.
    names = os.listdir(folder) if os.path.isdir(folder) else ()
    shipped = sorted(name for name in names if os.path.isfile(f"{folder}/{name}/config.json"))
    return tuple(dict.fromkeys([*shipped, *(found() if os.environ.get(VARIABLE) else ())]))


def translators(names: Sequence[str], folder: Path = CHECKPOINTS) -> tuple[str, ...]:
    """The models among these that read a source, according to their configs."""
    return tuple(name for name in names if reads_source(_folder(split_step(name)[0], folder)))


def snapshots(name: str, folder: Path = CHECKPOINTS) -> tuple[int, ...]:
    """The training steps of a model's saved snapshots, in rising order; usually none."""
    base, _ = split_step(name)
    path = _folder(base, folder)
    if not os.path.isdir(f"{path}/{SNAPSHOTS}") or base not in list_models(folder):
        return ()
    return kept_snapshots(path)


def split_step(name: str) -> tuple[str, int | None]:
    """ "reverse@40" is the model "reverse" after 40 steps of training: ("reverse", 40).

    The language pair of a translator is removed from its name.
    """
    if "@" not in name:
        return name, None
    name, _ = split_languages(name)
    base, _, step = name.partition("@")
    return (base, int(step)) if step.isascii() and step.isdecimal() else (name, None)


def at_step(name: str, step: int | None) -> str:
    """The name of a model at a training step; None: the final model."""
    base, _ = split_step(name)
    return base if step is None else f"{base}@{step}"


def in_languages(name: str, source: str, target: str) -> str:
    """The name that opens a multilingual model for this pair: MODEL@SOURCE-TARGET."""
    return f"{split_languages(name)[0]}@{source}-{target}"


def _folder(name: str, folder: Path) -> Path:
    """The folder of a listed model: the shipped one, or the one found in HEADLIGHT_MODELS."""
    path = folder / name
    return path if os.path.isdir(path) else found().get(name, path)  # never raises, unlike Path


def same_vocabulary(name: str, folder: Path = CHECKPOINTS) -> tuple[str, ...]:
    """The other models, and snapshots, with the same tokenizer files, vocabulary and family."""
    own = _vocabulary(_folder(split_step(name)[0], folder))
    bases = [model for model in list_models(folder) if _vocabulary(_folder(model, folder)) == own]
    names = [at_step(model, step) for model in bases for step in (None, *snapshots(model, folder))]
    return tuple(model for model in names if model != name) if own is not None else ()


def _vocabulary(path: Path) -> tuple[list[bytes], list[Any]] | None:
    """The tokenizers of a checkpoint, the sizes of its vocabularies, and its family (None: of
    another library). None for a folder without these, whose problem is reported when it is opened.
    """
    try:
        path = revision(path)
        config = read_object(path / CONFIG)
        apart = config.get("src_vocab_size")
        files = (TOKENIZER, *([SOURCE_TOKENIZER] if apart else []))
        held = [(path / name).read_bytes() for name in files]
        return held, [config["vocab_size"], apart, config.get("family")]
    except (OSError, ValueError, KeyError):
        return None


def open_model(
    name: str | Path, folder: Path = CHECKPOINTS, placing: Placing | None = None
) -> LoadedModel:
    """Load a checkpoint: a str is the name of a listed one, a Path is a checkpoint's folder.

    A name can ask for a snapshot of the training, as in "reverse@40". A str is never taken as a
    path, since it may come from a link. `placing` says where it computes; None: as the environment
    does. Raises InputProblem with `unknown_model`, `gone_model` or `broken_model`.
    """
    step = None
    if isinstance(name, str) and (pair := split_languages(name))[1] is not None:
        return open_model(pair[0], folder, placing).speaking(*pair[1])
    if isinstance(name, str):
        available = list_models(folder)
        base, step = (name, None) if name in available else split_step(name)
        if base not in available or (step is not None and step not in snapshots(base, folder)):
            if (own := TRAINED.sub("", name)) != name:
                raise InputProblem("gone_model", name=own)
            raise InputProblem("unknown_model", name=name, available=", ".join(available))
        path = _folder(base, folder)
    else:
        path, base = name, name.name
        if not os.path.exists(path):  # unlike Path, accepts a name that is too long
            available = list_models(folder)
            raise InputProblem("unknown_model", name=str(path), available=", ".join(available))
    try:
        weights = WEIGHTS if step is None else f"{SNAPSHOTS}/{snapshot_name(step)}"
        checkpoint = open_folder(path, weights, placing or Placing.asked())
    except Refusal as error:  # from the folder, or from the device that the environment names
        raise InputProblem("broken_model", name=base, reason=error) from error
    small = sum(parameter.numel() for parameter in checkpoint.model.parameters()) <= SMALL
    (lay_out_for_decoding if small else speed_up)(checkpoint.model)
    return LoadedModel(
        name=base if step is None else at_step(base, step),
        model=checkpoint.model,
        tokenizer=checkpoint.tokenizer,
        config=checkpoint.config,
        folder=checkpoint.folder,
        not_shown=checkpoint.not_shown,
        asked=checkpoint.asked or Settings(),
        classifier=checkpoint.classifier,
    )
