"""Other values for each key of a config, to change it in turn (`benchmarks/every_key.py`)."""

from collections.abc import Iterator
from typing import Any

from transformers.activations import ACT2FN

GENERIC = {"per_layer_config": [{"1": {"hidden_act": "relu"}}, {"1": {"rms_norm_eps": 0.5}}]}
"""Keys that the config classes take without listing them."""
GENERIC |= {"tie_last_hidden_states": [False], "output_attentions": [True], "num_labels": [3]}
GENERIC |= {"is_decoder": [True], "add_cross_attention": [True], "pruned_heads": [{"0": [1]}]}
GENERIC |= {"torch_dtype": ["float32"], "dtype": ["float32"], "_attn_implementation": ["sdpa"]}


def rotations(d_head: int, base: float | None) -> Iterator[dict[str, Any]]:
    """Rotations of every kind, as in `rope_parameters` and `rope_scaling`, of all or of half of the
    features of a head."""
    half = d_head // 4 * 2 / d_head + 0.01
    theta = {} if base is None else {"rope_theta": base}
    first = {"original_max_position_embeddings": 13}
    bands = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    parts: list[dict[str, Any]] = [
        {"rope_type": "linear", "factor": 3.0},
        {"rope_type": "dynamic", "factor": 3.0},
        {"rope_type": "yarn", "factor": 3.0},
        {"rope_type": "yarn", "factor": 3.0, **first},
        {"rope_type": "yarn", "factor": 3.0, "attention_factor": 1.7, "beta_slow": 2.0},
        {"rope_type": "llama3", "factor": 8.0, **bands, **first},
        {"rope_type": "proportional"},
        {"rope_type": "default"},
        {"rope_type": "default", "factor": 3.0},
        {"type": "linear", "factor": 3.0},
    ]
    for part in parts:
        yield {**theta, **part}
        yield {**theta, **part, "partial_rotary_factor": half}
    for share in (1.0, half):
        lists = [1 + at / 2 for at in range(int(d_head * share) // 2)]
        scaled = {"short_factor": lists, "long_factor": [2 * each for each in lists], **first}
        part = {} if share == 1.0 else {"partial_rotary_factor": half}
        for kind in (
            {"rope_type": "longrope"},
            {"type": "su"},
            {"rope_type": "longrope", "factor": 4.0},
        ):
            yield {**theta, **kind, **scaled, **part}


LENGTHS = ("n_positions", "max_position_embeddings", "max_seq_len", "seq_length", "n_ctx")
"""Keys for the length of a text: no value below the length of the texts is tried."""
OF_TYPES: dict[str, list[Any]] = {
    "bool": [True, False],
    "int": [1, 2, 5],
    "float": [0.5, 2.0],
    "str": ["cls", "mean"],
    "list": [[0], [1], [0, 1]],
    "dict": [{}],
    "asked": [True, False, 2, [0, 1]],
}
"""What to try for a key whose value is null, by the types that its annotation names."""


def others(key: str, value: Any, kind: str, d_head: int, kinds: bool) -> list[Any]:
    """Other values to try for a key whose type is annotated as `kind`; `kinds`: layers of two kinds
    may rotate differently."""
    half = d_head // 4 * 2 / d_head + 0.01
    if key in GENERIC:
        return GENERIC[key]
    if key in ("rope_parameters", "rope_scaling"):
        flat = [None, {}, *rotations(d_head, 500.0), *rotations(d_head, None)]
        usual = {"rope_type": "default", "rope_theta": 200.0}
        nested = [
            dict(zip(("full_attention", "sliding_attention"), pair, strict=True))
            for each in (rotations(d_head, 300.0) if kinds else ())
            for pair in ((each, usual), (usual, each))
        ]
        return [*flat, *nested]
    if "rope_theta" in key or key in ("rotary_emb_base", "rope_local_base_freq"):
        return [50.0, 1000000.0]
    if "partial_rotary" in key or key in ("rotary_pct", "rope_pct"):
        return [half, 1.0, 0.25, None]
    if key == "layer_types":
        return [
            [first, second]
            for first in ("full_attention", "sliding_attention")
            for second in ("full_attention", "sliding_attention", "attention")
        ] + [None, ["full_attention"]]
    if key.endswith("eos_token_id"):
        return [2, [2, 7], None]
    if key == "pad_token_id":
        return [0, 1, 2, 5, 60, None, -1]
    if key.endswith("_token_id"):
        return [2, 5, None]
    if key in LENGTHS:
        return [14, 20, 100, None]
    if key in ("label2id", "problem_type", "return_dict"):
        return [None]
    if key == "architectures":  # names the class that is compared
        return []
    if key == "position_embedding_type":
        return ["absolute", "relative_key", "relative_key_query"]
    if key in ("attention_types", "attention_layers"):
        return [[[["global"], 2]], [[["local"], 2]], ["local", "local"], ["local", "global"]]
    if key == "id2label":
        return [{"0": "a", "1": "b", "2": "c", "3": "d"}, {"0": "a"}]
    if isinstance(value, str) and (value in ACT2FN or "act" in key):
        return [each for each in ACT2FN if each != value]
    if key == "feed_forward_proj":
        return ["relu", "gated-gelu", "gelu", "gated-silu", "gelu_new", "silu", "gated-relu"]
    if key in ("attn_config", "ffn_config"):
        return [
            {**(value or {}), **change}
            for change in (
                {"alibi": False},
                {"alibi_bias_max": 4},
                {"attn_type": "multiquery_attention"},
                {"clip_qkv": 0.5},
                {"prefix_lm": True},
                {"qk_ln": True},
                {"softmax_scale": 0.3},
                {"attn_uses_sequence_id": True},
                {"attn_pdrop": 0.5},
                {"attn_impl": "flash"},
            )
        ]
    if isinstance(value, bool):
        return [not value, None]
    if isinstance(value, int):
        return [value + 1, value * 2, max(0, value - 1), 1, 0, None]
    if isinstance(value, float):
        return [2 * value + 0.25, 0.0, 1.0, 0.5, None]
    if isinstance(value, list):
        return [None, [], value[::-1], [*value, *value], [0], [1, 0]]
    if value is None:
        return [each for name, some in OF_TYPES.items() if name in kind for each in some]
    if isinstance(value, str):
        return ["cls", "mean", "first", "none", "", None]
    return [None]
