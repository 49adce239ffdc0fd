"""The trained models on disk: listing them, and opening one."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from explorer.problems import InputProblem
from models.checkpoint import CheckpointError, load_checkpoint
from models.checkpoint import snapshots as kept_snapshots
from models.config import ModelConfig
from models.fast import lay_out_for_decoding
from models.home import asset
from models.hooks import AttentionSite
from models.marks import Marks
from models.tokenizer import Tokenizer
from models.transformer import Model

CHECKPOINTS = asset("checkpoints")


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model with its tokenizer, ready to be run and shared: eval mode, never changed."""

    name: str
    model: Model
    tokenizer: Tokenizer
    config: ModelConfig
    card: str

    @property
    def marks(self) -> Marks:
        """What the special tokens of its tokenizer are for."""
        return self.tokenizer.marks

    @cached_property
    def sites(self) -> tuple[AttentionSite, ...]:
        """Every attention sublayer of the model, in its own order."""
        return self.model.attention_sites()

    def site(self, name: str) -> AttentionSite:
        """The site with this name. Raises KeyError for a name that the model does not have."""
        for site in self.sites:
            if site.name == name:
                return site
        raise KeyError(f"{self.name} has no attention site {name!r}")


def list_models(folder: Path = CHECKPOINTS) -> tuple[str, ...]:
    """The names of the checkpoints in `folder`, sorted; empty when there are none."""
    return tuple(sorted(path.parent.name for path in folder.glob("*/config.json")))


def snapshots(name: str, folder: Path = CHECKPOINTS) -> tuple[int, ...]:
    """The steps of a model's training at which it can be opened too, rising; mostly none."""
    base, _ = split_step(name)
    return kept_snapshots(folder / base) if base in list_models(folder) else ()


def split_step(name: str) -> tuple[str, int | None]:
    """ "reverse@40" is the model "reverse" after 40 steps of training: ("reverse", 40)."""
    base, _, step = name.partition("@")
    return (base, int(step)) if step.isascii() and step.isdecimal() else (name, None)


def at_step(name: str, step: int | None) -> str:
    """The name of a model at a step of its training; None: as it was at the end."""
    base, _ = split_step(name)
    return base if step is None else f"{base}@{step}"


def open_model(name: str | Path, folder: Path = CHECKPOINTS) -> LoadedModel:
    """Load a checkpoint: a str is the name of one in `folder`, a Path is a checkpoint's folder.

    A name can ask for a snapshot of the training, as in "reverse@40". A str is never taken as a
    path, since it may come from a link. Raises InputProblem with `unknown_model` or `broken_model`.
    """
    step = None
    if isinstance(name, str):
        available = list_models(folder)
        base, step = split_step(name)
        if base not in available or (step is not None and step not in snapshots(base, folder)):
            raise InputProblem("unknown_model", name=name, available=", ".join(available))
        path = folder / base
    else:
        path = name
        if not path.is_dir():
            available = list_models(folder)
            raise InputProblem("unknown_model", name=str(path), available=", ".join(available))
    try:
        checkpoint = load_checkpoint(path, step)
    except CheckpointError as error:
        raise InputProblem("broken_model", name=path.name, reason=str(error)) from error
    lay_out_for_decoding(checkpoint.model)
    return LoadedModel(
        name=at_step(path.name, step),
        model=checkpoint.model,
        tokenizer=checkpoint.tokenizer,
        config=checkpoint.config,
        card=checkpoint.card,
    )
