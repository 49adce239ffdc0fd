"""The user's setup of a training run: task, architecture, training and fault.

In a link it is written as the settings that differ from the defaults, `n_heads-2~norm-rmsnorm`.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Annotated, Any, Literal, get_args, no_type_check

from explorer.analysis.score.initial import INITS, Init
from explorer.problems import InputProblem
from models.config import CHOICES, ModelConfig
from models.fast import without_numbers
from models.refusals import Refusal
from models.training.settings import Optimizer, Schedule, TrainingConfig
from models.transformer import build_model

Task = Literal["copy", "reverse", "sort", "add", "brackets", "sentences", "own"]
TASKS: tuple[Task, ...] = get_args(Task)
Fault = Literal[
    "no_causal",
    "pad_visible",
    "labels_unshifted",
    "no_zero_grad",
    "double_softmax",
    "no_warmup",
    "rate_high",
]
FAULTS: tuple[Fault, ...] = get_args(Fault)
"""Possible faults, at the start of a run or during it."""
AT_START: frozenset[Fault] = frozenset({"no_warmup"})
"""Faults of the first steps, which would have no effect later."""
Scores = Literal["sqrt", "none", "d_head"]
Vocabularies = Literal["shared", "apart"]

MOST_PARAMETERS = 1_000_000
MOST_SECONDS = 600
"""Seconds of computing after which a run is ended."""
LONGEST = {"sentences": 48, "own": 64}
"""Maximum tokens per sequence, for tasks with text."""
N_CTX = 32
"""`n_ctx` of models for the toy tasks: longer than their training sequences."""


@no_type_check  # values come from links: __post_init__ says what is wrong
@dataclass(frozen=True, kw_only=True)
class Setup:
    """One training run. Raises ValueError, naming the field, for an invalid value.

    `batch` is in tokens of the longer stream, padding included. `n_kv_heads` 0: as many as heads.
    `scores` is the divisor of q . k: sqrt(d_head), nothing, or d_head. `fault` is planted from
    `from_step` on. `text` are the user's own pairs, as pasted; links never contain them. A number
    is annotated with its minimum and maximum, other settings with their options.
    """

    task: Annotated[Task, TASKS] = "reverse"
    n_layers: Annotated[int, (1, 6)] = 2
    d_model: Annotated[int, (8, 128)] = 64
    n_heads: Annotated[int, (1, 16)] = 4
    n_kv_heads: Annotated[int, (0, 16)] = 0
    d_ff: Annotated[int, (8, 512)] = 128
    norm_placement: Annotated[str, CHOICES["norm_placement"]] = "pre"
    norm: Annotated[str, CHOICES["norm"]] = "layernorm"
    positions: Annotated[str, CHOICES["positions"]] = "sinusoidal"
    ffn: Annotated[str, CHOICES["ffn"]] = "relu"
    scores: Annotated[Scores, get_args(Scores)] = "sqrt"
    init: Annotated[Init, INITS] = "ours"
    dropout: Annotated[float, (0.0, 0.5)] = 0.0
    bias: bool = True
    qk_norm: bool = False
    parallel: bool = False
    out_norms: bool = False
    embed_norm: bool = False
    vocabularies: Annotated[Vocabularies, get_args(Vocabularies)] = "shared"
    tie_embeddings: bool = True
    scale_embeddings: bool = True
    unembed_bias: bool = False
    steps: Annotated[int, (10, 3000)] = 400
    batch: Annotated[int, (64, 2048)] = 512
    rate: Annotated[float, (1e-5, 0.3)] = 3e-3
    warmup: Annotated[int, (1, 1000)] = 50
    schedule: Annotated[Schedule, get_args(Schedule)] = "cosine"
    optimizer: Annotated[Optimizer, get_args(Optimizer)] = "adamw"
    smoothing: Annotated[float, (0.0, 0.5)] = 0.0
    weight_decay: Annotated[float, (0.0, 1.0)] = 0.0
    clip: Annotated[float, (0.01, 1000.0)] = 1.0
    seed: Annotated[int, (1, 999)] = 1
    fault: Annotated[str, ("", *FAULTS)] = ""
    from_step: Annotated[int, (0, 3000)] = 0
    text: str = ""

    def __post_init__(self) -> None:
        for name, options in OPTIONS.items():
            if getattr(self, name) not in options:
                raise ValueError(f"{name} is {getattr(self, name)!r}")
        for name, (low, high) in RANGES.items():
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} is {getattr(self, name)}: {low:g} to {high:g}")

    def config(self, vocab_size: int, src_vocab_size: int | None = None) -> ModelConfig:
        """The model's config. Raises Refusal if no such model can be built.

        Pre-norm and sublayer-norm get a final norm, since nothing else bounds the input of the
        unembedding.
        """
        values = {
            name: getattr(self, name)
            for name in ARCHITECTURE
            if name not in ("n_kv_heads", "scores", "init", "vocabularies")
        }
        return ModelConfig(
            **values,
            vocab_size=vocab_size,
            src_vocab_size=src_vocab_size,
            n_kv_heads=self.n_kv_heads or None,
            n_ctx=LONGEST.get(self.task, N_CTX),
            final_norm=self.norm_placement != "post",
            score_divisor=self._divisor(),
        )

    def _divisor(self) -> float | None:
        head = max(1, self.d_model // self.n_heads)
        return {"sqrt": None, "none": 1.0, "d_head": float(head)}[self.scores]

    def training(self) -> TrainingConfig:
        """The training config; `no_warmup` is a warm-up of one step."""
        return TrainingConfig(
            epochs=1,
            optimizer=self.optimizer,
            max_tokens=self.batch,
            learning_rate=self.rate,
            warmup=1 if self.fault == "no_warmup" else self.warmup,
            schedule=self.schedule,
            weight_decay=self.weight_decay,
            clip=self.clip,
            seed=self.seed,
            precision="float32",
        )

    @property
    def planted_from(self) -> int:
        """The step at which its fault is planted: the first one for a fault of the first steps."""
        return 0 if self.fault in AT_START else self.from_step

    def changes(self) -> dict[str, Any]:
        """The settings that differ from the default setup, by name; own text is left out."""
        usual = Setup()
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name != "text" and getattr(self, field.name) != getattr(usual, field.name)
        }

    def as_json(self) -> dict[str, Any]:
        """All fields, for the process that trains it."""
        return asdict(self)


_NAMES = tuple(Setup.__dataclass_fields__)
_STEPS = _NAMES.index("steps")
ARCHITECTURE, TRAINING = _NAMES[1:_STEPS], _NAMES[_STEPS : _NAMES.index("fault")]
_ANNOTATED = {
    name: (hint.__origin__, *hint.__metadata__)
    for name, hint in Setup.__annotations__.items()
    if hasattr(hint, "__metadata__")
}
RANGES: dict[str, tuple[float, float]] = {
    name: ends for name, (kind, ends) in _ANNOTATED.items() if kind in (int, float)
}
"""The minimum and maximum of each number."""
OPTIONS: dict[str, Collection[Any]] = {
    name: options for name, (_, options) in _ANNOTATED.items() if name not in RANGES
}


def check(setup: Setup, vocab_size: int, src_vocab_size: int | None = None) -> int:
    """The number of parameters of its model.

    Raises InputProblem: `training_model` for an architecture that cannot work, with the library's
    reason; `training_large` for one with more than MOST_PARAMETERS.
    """
    try:
        count = _parameters(setup.config(vocab_size, src_vocab_size))
    except Refusal as refused:
        raise InputProblem("training_model", reason=refused.alone()) from refused
    if count > MOST_PARAMETERS:
        raise InputProblem("training_large", count=count, limit=MOST_PARAMETERS)
    return count


@lru_cache(maxsize=256)
def _parameters(config: ModelConfig) -> int:
    with without_numbers():
        model = build_model(config)
    return sum(parameter.numel() for parameter in model.parameters())


def format_setup(setup: Setup) -> str:
    """The settings that differ from the defaults: `n_heads-2~norm-rmsnorm`; "" for none."""
    return "~".join(f"{name}-{_written(value)}" for name, value in setup.changes().items())


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def parse_setup(text: str) -> Setup:
    """Inverse of `format_setup`. Raises ValueError for anything else."""
    usual, changes = Setup(), {}
    for part in filter(None, text.split("~")):
        name, _, value = part.partition("-")
        if name == "text" or name not in Setup.__dataclass_fields__:
            raise ValueError(f"no setting {name!r}")
        changes[name] = _read(getattr(usual, name), value)
    return replace(usual, **changes)


def _read(usual: Any, text: str) -> Any:
    if isinstance(usual, bool):
        if text not in ("0", "1"):
            raise ValueError(f"{text!r} is neither 0 nor 1")
        return text == "1"
    return type(usual)(text)
