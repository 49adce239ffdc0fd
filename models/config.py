"""`ModelConfig`: a model's architecture as an immutable dataclass, validated on creation."""

import json
import math
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args, no_type_check

from models.feedforward import FEEDFORWARDS
from models.norms import NORMS
from models.pictures.patches import is_cut
from models.positions import POSITIONS, Positions, Scaling
from models.refusals import Refusal

Family = Literal["encoder-decoder", "decoder-only", "encoder-only"]
NormPlacement = Literal["post", "pre", "sublayer"]

CHOICES: dict[str, Collection[str]] = {
    "family": get_args(Family),
    "norm": NORMS,
    "norm_placement": get_args(NormPlacement),
    "positions": POSITIONS,
    "ffn": FEEDFORWARDS,
}

LARGEST = 2**24  # the largest width, vocabulary or number of layers
MOST = 1e30  # the largest absolute value of any other number; float32 overflows at 3e38

Layers = tuple[int, ...]  # indices of blocks
FORMER_MARKS = ("pad_id", "bos_id", "eos_id")  # of older checkpoints; now the tokenizer has them


def _of_json(value: Any) -> Any:
    """Convert lists to tuples and objects with exactly the fields of `Scaling` to a `Scaling`."""
    if isinstance(value, dict) and value.keys() == {member.name for member in fields(Scaling)}:
        return Scaling(**{name: _of_json(member) for name, member in value.items()})
    return tuple(value) if isinstance(value, list) else value


def _is_size(value: Any) -> bool:
    return type(value) is int and 1 <= value <= LARGEST


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MOST


def _is_scaling(value: Any) -> bool:
    if not isinstance(value, Scaling) or (value.n_ctx is None) == bool(value.far or value.growth):
        return False
    numbers = [*(value.divisors or ()), *(value.far or ()), value.growth or 1, value.n_ctx or 1]
    return all(_is_finite(number) and number > 0 for number in numbers)


def _is_layers(value: Any) -> bool:
    return isinstance(value, tuple) and all(type(layer) is int and layer >= 0 for layer in value)


KINDS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    bool: (lambda value: isinstance(value, bool), "flag"),
    int: (_is_size, "bad_size"),
    float: (_is_finite, "number"),
    Layers: (_is_layers, "layers"),
    Scaling: (_is_scaling, "scaling"),
}
"""Per field type: the validity check, and the key of the error message if it fails."""


@no_type_check  # the run-time type checker would report before __post_init__ can say what is wrong
@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Sizes and choices. Raises ValueError, naming the field and its value, if one is invalid.

    For `norm_placement` see `models.blocks`; "pre" and "sublayer" need `final_norm`, since nothing
    else bounds the input of the LM head.
    """

    family: Family = "encoder-decoder"
    vocab_size: int
    src_vocab_size: int | None = None  # of the source's own vocabulary; None: all share one
    d_model: int = 256
    d_embed: int | None = None  # features of an embedding, mapped to d_model; None: d_model
    n_layers: int = 3  # decoder blocks
    n_encoder_layers: int | None = None  # encoder blocks; None: as many as n_layers
    n_heads: int = 8
    n_kv_heads: int | None = None  # key/value heads; None: as many as n_heads
    head_dim: int | None = None  # features per head; None: d_model / n_heads
    d_ff: int = 1024
    n_ctx: int = 256  # maximum number of tokens per sequence
    n_types: int = (
        1  # vectors added to an encoder's learned positions: that of the second text (BERT)
    )
    unplaced: Layers | None = None  # ids that take no position (padding inside a text, RoBERTa)
    picture: Layers | None = None  # height and width in pixels, of patches; channels, if several
    n_marks: int | None = None  # learned tokens before the patches: class token, registers
    norm: str = "layernorm"
    norm_placement: NormPlacement = "post"
    final_norm: bool = False
    norm_eps: float = 1e-5
    positions: str = "sinusoidal"
    rope_base: float = 10000.0  # base of the angles, also of the sinusoidal table
    near_layers: Layers | None = None  # layers with local attention: see the next two fields
    near_rope_base: float | None = None  # their base of the angles (Gemma 3); None: `rope_base`
    window: int | None = None  # their sliding window in tokens, the query included; None: all
    still_layers: Layers | None = None  # layers that RoPE does not rotate (SmolLM3)
    rope_scaling: Scaling | None = None  # see `positions.stretched`
    rotary_dim: int | None = None  # how many first features per head are rotated; None: all
    ffn: str = "relu"
    n_experts: int = 1  # feed-forward networks of a block, d_ff wide each, under a router
    n_active: int = 1  # the experts of each token
    experts_sum: bool = False  # their weights sum to 1
    d_shared: int | None = None  # hidden units of one more expert, for every token (Qwen2-MoE)
    dropout: float = 0.1
    attention_dropout: float | None = None  # of the attention pattern; None: as dropout
    bias: bool = True
    qk_norm: bool = False  # RMSNorm over the features of each query and key, before any rotation
    qk_norm_joint: bool = False  # one such norm for all heads together (OLMo 2)
    out_norms: bool = False  # an additional norm on each sublayer's output (Gemma)
    parallel: bool = False  # attention and FFN read the same input; both are added (GPT-NeoX)
    score_divisor: float | None = None  # divisor of q . k; None: sqrt(d_head)
    score_cap: float | None = None  # scores x become cap tanh(x / cap)
    logit_cap: float | None = None  # a cap on logits, as on scores
    shared_layers: bool = False  # all blocks of a stack have the same weights (ALBERT)
    embed_norm: bool = False  # a norm on the embeddings, before the first block
    first_norm: bool = True  # False: no norm at the first block's attention (ModernBERT)
    tie_embeddings: bool = True  # output and embeddings of one vocabulary share one matrix
    scale_embeddings: bool = True  # times sqrt(d_model), to match the scale of the positions
    lm_head: bool = True  # False: no logits
    head_net: bool = False  # linear map, the FFN's activation and a norm before the LM head
    unembed_bias: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name in CHOICES:
                known = tuple(CHOICES[field.name])
                self._require(field.name, known.__contains__, "one_of", allowed=", ".join(known))
            else:
                kind = (*get_args(field.type), field.type)[0]  # of `int | None`: int
                self._require(field.name, *KINDS[kind], most=LARGEST)
        heads = f"n_heads = {self.n_heads}"
        if self.head_dim is None:
            self._require("d_model", lambda v: v % self.n_heads == 0, "multiple", of=heads)
        if self.lm_head and self.width != self.d_model and not self.head_net:
            raise Refusal("narrow_head", width=self.width, d_model=self.d_model)
        self._require("n_active", lambda v: v <= self.n_experts, "at_most", most=self.n_experts)
        self._require("picture", is_cut, "picture")
        reads_text = self.reads_source and not self.picture
        self._require("src_vocab_size", lambda _: reads_text, "no_source")
        self._require("n_kv_heads", lambda v: self.n_heads % v == 0, "divides", of=heads)
        self._require("rotary_dim", lambda v: v <= self.d_head, "at_most", most=self.d_head)
        self._require("rope_scaling", self._has_divisors, "divisors", pairs=self.n_turned // 2)
        widths = {"d_model": self.d_model, "d_head": self.n_turned}
        paired = self.position_type.pairs
        if paired and widths[paired] % 2:
            raise Refusal("odd_width", name=paired, value=widths[paired], positions=self.positions)
        self._require("dropout attention_dropout", lambda v: 0 <= v < 1, "fraction")
        positive = "norm_eps score_divisor score_cap logit_cap"
        self._require(positive, lambda v: v > 0, "above", least=0)
        self._require("rope_base near_rope_base", lambda v: v > 1, "above", least=1)

    def _require(
        self, names: str, fits: Callable[[Any], bool], key: str, **values: str | int
    ) -> None:
        """Refuse a field whose value does not fit; None is allowed if it is the default."""
        for name in names.split():
            value = getattr(self, name)
            may_be_none = getattr(type(self), name, 0) is None  # a default is a class attribute
            if not (value is None and may_be_none) and not fits(value):
                raise Refusal(key, name=name, value=repr(value), **values)

    @property
    def d_head(self) -> int:
        """Features per head."""
        return self.head_dim or self.d_model // self.n_heads

    @property
    def width(self) -> int:
        """Features of an embedding, and of what positions add to it."""
        return self.d_embed or self.d_model

    def n_tokens(self, stream: str) -> int:
        """The size of the vocabulary of a sequence, "src" or "tgt"."""
        return (self.src_vocab_size if stream == "src" else None) or self.vocab_size

    @property
    def ffn_width(self) -> int:
        """Hidden units of a block, those of all experts together."""
        return self.n_experts * self.d_ff + (self.d_shared or 0)

    @property
    def n_turned(self) -> int:
        """Features per head that RoPE rotates."""
        return self.rotary_dim or self.d_head

    def _has_divisors(self, scaling: Scaling) -> bool:
        lists = (scaling.divisors, scaling.far)
        return all(member is None or len(member) == self.n_turned // 2 for member in lists)

    @property
    def divisor(self) -> float:
        """The divisor of q . k, with the default filled in."""
        return self.score_divisor or math.sqrt(self.d_head)

    def looks_near(self, layer: int) -> bool:
        """Whether a layer uses local attention (`near_layers`)."""
        return layer in (self.near_layers or ())

    def turns(self, layer: int) -> bool:
        """Whether positions rotate the queries and keys of a layer's self-attention."""
        return self.position_type.acts == "turns" and layer not in (self.still_layers or ())

    @property
    def kv_heads(self) -> int:
        """Key/value heads, with the default filled in."""
        return self.n_kv_heads or self.n_heads

    @property
    def position_type(self) -> type[Positions]:
        """The class that implements the positional encoding."""
        return POSITIONS[self.positions]

    @property
    def longest(self) -> int | None:
        """Maximum number of tokens of a sequence; None if positions are unbounded."""
        return self.n_ctx if self.position_type.bounded else None

    @property
    def cacheable(self) -> float:
        """Longest sequence whose cached keys stay valid; beyond it RoPE scaling changes them."""
        return (self.rope_scaling and self.rope_scaling.n_ctx) or math.inf

    @property
    def pattern_dropout(self) -> float:
        """Dropout of the attention pattern, with the default filled in."""
        return self.dropout if self.attention_dropout is None else self.attention_dropout

    @property
    def encoder_layers(self) -> int:
        """Encoder blocks, with the default filled in; 0 without an encoder."""
        return (self.n_encoder_layers or self.n_layers) if self.reads_source else 0

    @property
    def cross_layers(self) -> int:
        """Decoder blocks with cross-attention: all of them, or none."""
        return self.n_layers if self.reads_source else 0

    @property
    def reads_source(self) -> bool:
        """Whether the model has a source encoder and cross-attention."""
        return self.family == "encoder-decoder"

    @property
    def is_causal(self) -> bool:
        """Whether the logits of a position are independent of later positions."""
        return self.family != "encoder-only"

    @property
    def generates(self) -> bool:
        """Whether the model generates text token by token, each from all tokens before it."""
        return self.lm_head and self.is_causal

    @property
    def fills(self) -> bool:
        """Whether a position's logits predict its own token, as of a masked language model."""
        return self.lm_head and not self.is_causal

    def to_json(self) -> str:
        """All fields as indented JSON."""
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "ModelConfig":
        """Parse the output of `to_json`. Raises ValueError if it is not JSON with these fields."""
        try:
            values: Any = json.loads(text)
        except json.JSONDecodeError as error:
            raise Refusal("config_not_json", reason=error) from error
        if not isinstance(values, dict):
            raise Refusal("config_no_object")
        values = {name: value for name, value in values.items() if name not in FORMER_MARKS}
        unknown = sorted(set(values) - {field.name for field in fields(cls)})
        if unknown:
            raise Refusal("config_fields", names=", ".join(unknown))
        if "vocab_size" not in values:
            raise Refusal("config_vocab_size")
        return cls(**{name: _of_json(value) for name, value in values.items()})
