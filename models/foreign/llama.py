"""Llama and models like it: Mistral, Mixtral, SmolLM, TinyLlama, Qwen2, Qwen3, also with experts.

Touvron et al. 2023 (Llama); Jiang et al. 2023, 2024 (Mistral, Mixtral); Qwen team 2024 and 2025.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from models.config import ModelConfig
from models.foreign.folds import Fold, as_is, composed, ones, output_rows, side_by_side, zeros
from models.foreign.plan import DECODER, Keys, LMHead, Plan, PlanRow, blocks, output, weight
from models.foreign.rotation import TABLES, Turning, turning
from models.refusals import Refusal


def llama(keys: Keys) -> Plan:
    """Llama, SmolLM, TinyLlama: biases as configured."""
    attention, mlp = keys.flag("attention_bias", False), keys.flag("mlp_bias", False)
    return like_llama(keys, biased=(*("qkvo" if attention else ""), *(["ffn"] if mlp else [])))


def mistral(keys: Keys) -> Plan:
    """Llama with a sliding window in every layer."""
    return like_llama(keys, window=window(keys))


def qwen2(keys: Keys) -> Plan:
    """Llama with biases on queries, keys and values (not configurable)."""
    return like_llama(keys, tuple("qkv"), **_upper_window(keys))


def qwen3(keys: Keys) -> Plan:
    """Llama with norms on queries and keys, and 128 features per head by default."""
    biased = tuple("qkvo") if keys.flag("attention_bias", False) else ()
    d_head = keys.size("head_dim", 128)
    return like_llama(keys, biased, qk_norm=True, d_head=d_head, **_upper_window(keys))


def mixtral(keys: Keys) -> Plan:
    """Mistral with experts, whose weights sum to 1."""
    many: dict[str, Any] = {
        "n_experts": keys.size("num_local_experts", 8),
        "n_active": keys.size("num_experts_per_tok", 2),
        "experts_sum": True,
        "norm_eps": keys.number("rms_norm_eps", 1e-5),
    }
    style = Style(net={"w_gate": "w1", "w_up": "w3", "w_down": "w2"}, mlp="block_sparse_moe")
    turn = turning(keys, width(keys), base=1e6)
    return like_llama(keys, style=style, turn=turn, window=window(keys), **many)


def qwen2_moe(keys: Keys) -> Plan:
    """Qwen2 with experts in every layer, and one more that every token takes."""
    keys.only("use_sliding_window", False)
    biased = tuple("qkv") if keys.flag("qkv_bias", True) else ()
    shared = keys.size("shared_expert_intermediate_size", 5632)
    return like_llama(keys, biased, d_shared=shared, **_experts_of(keys, 60, 4, 1408))


def qwen3_moe(keys: Keys) -> Plan:
    """Qwen3 with experts in every layer; a window, if enabled, is in every layer too."""
    biased = tuple("qkvo") if keys.flag("attention_bias", False) else ()
    many = _experts_of(keys, 128, 8, 768)
    size = window(keys, 4096) if keys.flag("use_sliding_window", False) else None
    return like_llama(keys, biased, qk_norm=True, d_head=width(keys), window=size, **many)


def _experts_of(keys: Keys, n: int, active: int, d_ff: int) -> dict[str, Any]:
    """Qwen's experts, with the family's defaults."""
    keys.only("decoder_sparse_step", 1)
    keys.only("mlp_only_layers", [], None)
    return {
        "n_experts": keys.size("num_experts", n),
        "n_active": keys.size("num_experts_per_tok", active),
        "experts_sum": keys.flag("norm_topk_prob", False),
        "d_ff": keys.size("moe_intermediate_size", d_ff),
    }


def smollm3(keys: Keys) -> Plan:
    """Llama whose every fourth layer (or as listed) does not rotate; only those may slide."""
    attention, mlp = keys.flag("attention_bias", False), keys.flag("mlp_bias", False)
    every, n_layers = keys.size("no_rope_layer_interval", 4), keys.layers("num_hidden_layers")
    flags = keys.values.get("no_rope_layers")  # 1: rotates
    turns = [(layer + 1) % every for layer in range(n_layers)] if flags is None else flags
    whole = isinstance(turns, list) and all(isinstance(turn, int) for turn in turns)
    if not whole or len(turns) < n_layers:
        raise Refusal("layer_flags", name="no_rope_layers", value=repr(flags))
    still = tuple(layer for layer in range(n_layers) if not turns[layer])
    slides = keys.flag("use_sliding_window", False)
    return like_llama(
        keys,
        (*("qkvo" if attention else ""), *(["ffn"] if mlp else [])),
        turn=turning(keys, width(keys), base=2e6),
        head=output(keys, keys.flag("tie_word_embeddings", True)),
        window=window(keys),
        near=near_layers(keys, still if slides else ()),
        still_layers=still,
    )


def width(keys: Keys) -> int:
    """Features per head."""
    n_heads = keys.size("num_attention_heads")
    return keys.size("head_dim", max(1, keys.size("hidden_size") // n_heads))


def _upper_window(keys: Keys) -> dict[str, Any]:
    """Qwen's sliding window, if enabled: in the layers from `max_window_layers` on."""
    slides = keys.flag("use_sliding_window", False)
    first = keys.values.get("max_window_layers", 28)
    usual = range(first, keys.layers("num_hidden_layers")) if slides else ()
    return {"window": window(keys) if slides else None, "near": near_layers(keys, usual)}


def window(keys: Keys, usual: int | None = None) -> int | None:
    """The size of the sliding window in tokens; None without a window."""
    size = keys.values.get("sliding_window", usual)
    return None if size is None else keys.size("sliding_window", usual)


def near_layers(keys: Keys, usual: Iterable[int]) -> tuple[int, ...]:
    """The layers with a window, from `layer_types` or else `usual`, the family's default."""
    kinds = keys.values.get("layer_types")
    if kinds is None:
        return tuple(usual)
    wrong = [kind for kind in kinds if kind not in ("sliding_attention", "full_attention")]
    if wrong or len(kinds) != keys.layers("num_hidden_layers"):
        raise Refusal("layer_types", name="layer_types", value=repr(kinds))
    return tuple(layer for layer, kind in enumerate(kinds) if kind == "sliding_attention")


NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
"""Despite its name, the second one is applied *before* the feed-forward network."""

NET = {"w_gate": "gate_proj", "w_up": "up_proj", "w_down": "down_proj"}
PROJECTIONS = {name: f"{name}_proj" for name in "qkvo"}


@dataclass(frozen=True)
class Style:
    """How the tensors of a family differ from Llama's.

    `norms` and `net` map our names to stored names; both norms may be the same. LayerNorms without
    a stored bias or weight get zeros or ones; `norm_fold` converts stored ones. `fused`: queries,
    keys and values are one matrix, and so are w_gate and w_up. `mlp` is the path of the
    feed-forward network.
    """

    norms: Mapping[str, str] = field(default_factory=lambda: NORMS)
    final_norm: str = "norm"
    norm_weight: bool = True
    norm_bias: bool = False
    norm_fold: Fold = as_is
    net: Mapping[str, str] = field(default_factory=lambda: NET)
    projections: Mapping[str, str] = field(default_factory=lambda: PROJECTIONS)
    fused: bool = False
    mlp: str = "mlp"


LLAMA = Style()


def like_llama(
    keys: Keys,
    biased: tuple[str, ...] = (),
    style: Style = LLAMA,
    *,
    turn: Turning | None = None,
    head: LMHead | None = None,
    window: int | None = None,
    near: tuple[int, ...] | None = None,
    d_head: int | None = None,
    **more: Any,
) -> Plan:
    """The plan of Llama or of a similar family; `more` are `ModelConfig` fields that differ.

    `near` are the layers with the `window`; None: all. `d_head` None: as in Llama's config.
    """
    if "ffn" not in more:
        keys.activation("hidden_act", "silu")
        keys.only("hidden_act", "silu", "swish")
    d_model, n_heads = keys.size("hidden_size"), keys.size("num_attention_heads")
    d_head = d_head or keys.size("head_dim", max(1, d_model // n_heads))
    turn = turn or turning(keys, d_head)
    n_layers = keys.layers("num_hidden_layers")
    head = head or output(keys, keys.flag("tie_word_embeddings", False))
    has_key = "num_key_value_heads" in keys.values  # null: as many as heads
    kind = "" if has_key else str(keys.values.get("model_type"))
    kv_heads = KV_HEADS.get(kind, n_heads)
    settings: dict[str, Any] = {
        **DECODER,
        "vocab_size": keys.size("vocab_size"),
        "d_model": d_model,
        "n_layers": n_layers,
        "n_heads": n_heads,
        "n_kv_heads": keys.size("num_key_value_heads", kv_heads),
        "head_dim": None if d_head == d_model / n_heads else d_head,
        "d_ff": keys.size("intermediate_size"),
        "n_ctx": keys.size("max_position_embeddings"),
        "window": window,
        "near_layers": None if window is None else tuple(range(n_layers)) if near is None else near,
        "norm": "rmsnorm",
        "norm_eps": keys.number("rms_norm_eps", 1e-6) if "norm_eps" not in more else 1e-6,
        "ffn": "swiglu",
        "bias": bool(biased),
    }
    config = ModelConfig(**settings | turn.settings(d_head) | head.settings | more)
    rows = [weight("embed", "embed_tokens"), *_norm(config, style, "final_norm", style.final_norm)]
    for layer, (ours, theirs) in enumerate(blocks(config.n_layers)):
        for mine, its in style.norms.items():
            rows += _norm(config, style, f"{ours}.{mine}", f"{theirs}.{its}")
        here = turn if config.turns(layer) else replace(turn, size=1.0)
        rows += _attention(config, here, style, f"{ours}.attn", f"{theirs}.self_attn", biased)
        if config.n_experts > 1:
            rows += _experts(config, style, f"{ours}.ffn", f"{theirs}.{style.mlp}")
        for mine, its in style.net.items() if config.n_experts == 1 else ():
            n_out = config.d_model if mine == "w_down" else config.d_ff
            fold: Fold = as_is
            if style.fused and mine != "w_down":
                first = config.d_ff if mine == "w_up" else 0
                fold = output_rows(first, first + config.d_ff)
            name = f"{ours}.ffn.{mine}"
            rows += _linear(
                config, name, f"{theirs}.{style.mlp}.{its}", n_out, "ffn" in biased, fold
            )
    return Plan(config, (*rows, *head.rows), (*TABLES, *head.ignored))


KV_HEADS = {
    **dict.fromkeys(("mistral", "mixtral"), 8),
    **dict.fromkeys(("qwen2", "qwen3", "stablelm"), 32),
    **dict.fromkeys(("qwen3_moe", "smollm3"), 4),
    "qwen2_moe": 16,
    "starcoder2": 2,
}
"""Key/value heads of these families' configs that do not say; in others, as many as heads."""


def _norm(config: ModelConfig, style: Style, ours: str, theirs: str) -> Iterator[PlanRow]:
    gain = PlanRow(f"{ours}.weight", (), ones(config.d_model))
    yield weight(ours, theirs, style.norm_fold) if style.norm_weight else gain
    if config.norm == "layernorm":
        stored = (f"{theirs}.bias",) if style.norm_bias else ()
        yield PlanRow(f"{ours}.bias", stored, as_is if style.norm_bias else zeros(config.d_model))


def _attention(
    config: ModelConfig,
    turn: Turning,
    style: Style,
    ours: str,
    theirs: str,
    biased: tuple[str, ...],
) -> Iterator[PlanRow]:
    n_q, n_kv, sized = config.n_heads, config.kv_heads, not config.qk_norm
    turned: dict[str, tuple[int, Fold]] = {
        "q": (n_q, turn.fold(n_q, sized)),
        "k": (n_kv, turn.fold(n_kv, sized)),
        "v": (n_kv, as_is),
    }
    first = 0
    for name, (n_heads, fold) in turned.items():
        n_out = n_heads * config.d_head
        its = f"{theirs}.{style.projections[name]}"
        if style.fused:
            its, fold = f"{theirs}.qkv_proj", composed(output_rows(first, first + n_out), fold)
        first += n_out
        yield from _linear(config, f"{ours}.w_{name}", its, n_out, name in biased, fold)
    if config.qk_norm:
        for name, heads in (("q", n_q), ("k", n_kv)):
            fold = composed(style.norm_fold, turn.fold(heads if config.qk_norm_joint else 1))
            yield weight(f"{ours}.{name}_norm", f"{theirs}.{name}_norm", fold)
    its = f"{theirs}.{style.projections['o']}"
    yield from _linear(config, f"{ours}.w_o", its, config.d_model, "o" in biased)


def _experts(config: ModelConfig, style: Style, ours: str, theirs: str) -> Iterator[PlanRow]:
    """The router, and the matrices of all experts side by side."""
    yield weight(f"{ours}.router", f"{theirs}.gate")
    for mine, its in style.net.items():
        names = [f"{theirs}.experts.{n}.{its}.weight" for n in range(config.n_experts)]
        names += [f"{theirs}.shared_expert.{its}.weight"] if config.d_shared else []
        fold = side_by_side(1 if mine == "w_down" else 0)
        yield PlanRow(f"{ours}.{mine}.weight", tuple(names), fold)
        if config.bias:  # of attention; experts have none
            yield PlanRow(
                f"{ours}.{mine}.bias",
                (),
                zeros(config.d_model if mine == "w_down" else config.ffn_width),
            )
    if config.d_shared:
        yield weight(f"{ours}.shared_gate", f"{theirs}.shared_expert_gate")


def _linear(
    config: ModelConfig, ours: str, theirs: str, n_out: int, biased: bool, fold: Fold = as_is
) -> Iterator[PlanRow]:
    """The rows of a weight and, if the config has biases, its bias: stored, or zeros."""
    yield weight(ours, theirs, fold)
    if config.bias:
        stored = (f"{theirs}.bias",) if biased else ()
        yield PlanRow(f"{ours}.bias", stored, fold if biased else zeros(n_out))
