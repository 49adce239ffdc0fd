"""The tiny models that `benchmarks/parity.py` compares: one or more of every family."""

from typing import Any

Small = dict[str, Any]
GPT2: Small = {
    "n_embd": 24,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 32,
    "bos_token_id": 3,
    "eos_token_id": 3,
}
BLOOM: Small = {"hidden_size": 24, "n_layer": 2, "n_head": 3}
NEO: Small = {
    "hidden_size": 24,
    "num_layers": 2,
    "num_heads": 4,
    "max_position_embeddings": 32,
    "window_size": 5,
    "attention_types": [[["global", "local"], 1]],
    "bos_token_id": 3,
    "eos_token_id": 3,
}
LLAMA: Small = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 28,
    "max_position_embeddings": 64,
}

OPT: Small = {
    "hidden_size": 24,
    "word_embed_proj_dim": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "ffn_dim": 28,
    "max_position_embeddings": 40,
}
BERT: Small = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 28,
    "max_position_embeddings": 40,
}
DISTILBERT: Small = {
    "dim": 24,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 28,
    "max_position_embeddings": 40,
}
NEOX: Small = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 28,
    "max_position_embeddings": 64,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5,
    },
}
LLAMA3: Small = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 60,
}
YARN: Small = {
    "rope_type": "yarn",
    "rope_theta": 1000.0,
    "factor": 4.0,
    "beta_fast": 4.0,
    "original_max_position_embeddings": 40,
}
LONGROPE: Small = {
    "rope_type": "longrope",
    "rope_theta": 1000.0,
    "short_factor": [1.0, 1.5, 2.0],
    "long_factor": [1.0, 3.0, 9.0],
    "original_max_position_embeddings": 13,
}
DYNAMIC: Small = {"rope_type": "dynamic", "rope_theta": 1000.0, "factor": 3.0}
PARTIAL: Small = {"partial_rotary_factor": 0.5}
LINEAR: Small = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
GEMMA: Small = {"head_dim": 10, "query_pre_attn_scalar": 7}
EXPERTS: Small = {"num_experts": 5, "num_experts_per_tok": 3, "moe_intermediate_size": 12}
MODERN: Small = {
    **BERT,
    "local_attention": 6,
    "layer_types": ["full_attention", "sliding_attention"],
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 500.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 30.0},
    },
    **dict.fromkeys(("bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id"), 3),
}
ROBERTA: Small = {**BERT, "pad_token_id": 1, "type_vocab_size": 1}
LABELS: Small = {"id2label": {0: "bad", 1: "so-so", 2: "good"}}
WINDOW: Small = {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
CAPS: Small = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}
KINDS: Small = {"layer_types": ["sliding_attention", "full_attention"]}
STRETCHED: Small = {
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 8.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
    }
}
EIGHTHS: Small = {**LLAMA, "num_attention_heads": 3, "num_key_value_heads": 1}
MULTIPLIERS: Small = {
    "embedding_multiplier": 3.0,
    "logits_scaling": 2.0,
    "residual_multiplier": 0.6,
    "attention_multiplier": 0.3,
}
T5: Small = {
    "d_model": 24,
    "d_kv": 10,
    "d_ff": 28,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
GATED: Small = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
MARIAN: Small = {
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 28,
    "decoder_ffn_dim": 28,
    "max_position_embeddings": 40,
    "activation_function": "swish",
    "scale_embedding": True,
    "static_position_embeddings": True,
    "decoder_start_token_id": 0,
    "eos_token_id": 1,
    "forced_eos_token_id": 1,
}

BART: Small = {
    key: value
    for key, value in MARIAN.items()
    if key not in ("static_position_embeddings", "activation_function")
}

VIT: Small = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 28,
    "image_size": 16,
    "patch_size": 4,
}
DINO: Small = {key: each for key, each in VIT.items() if key != "intermediate_size"}
DINO = {**DINO, "mlp_ratio": 2, "image_size": 20}
SQUARE: Small = {"size": {"height": 16, "width": 16}}
CUT: Small = {"size": {"shortest_edge": 18}, "crop_size": {"height": 16, "width": 16}}

MODELS: dict[str, tuple[str, Small]] = {
    "gpt2": ("GPT2LMHeadModel", GPT2),
    "gpt2-headless": ("GPT2Model", GPT2),
    "openai-gpt": ("OpenAIGPTLMHeadModel", GPT2),
    "gpt_neo": ("GPTNeoForCausalLM", NEO),
    "bloom": ("BloomForCausalLM", BLOOM),
    "llama": ("LlamaForCausalLM", {**LLAMA, "attention_bias": True, "mlp_bias": True}),
    "llama-tied": (
        "LlamaForCausalLM",
        {
            **LLAMA,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0},
        },
    ),
    "llama-headless": ("LlamaModel", LLAMA),
    "llama3": ("LlamaForCausalLM", {**LLAMA, "rope_parameters": LLAMA3}),
    "llama-linear": ("LlamaForCausalLM", {**LLAMA, "rope_parameters": LINEAR}),
    "llama-yarn": ("LlamaForCausalLM", {**LLAMA, "rope_parameters": YARN}),
    "llama-longrope": ("LlamaForCausalLM", {**LLAMA, "rope_parameters": LONGROPE}),
    "llama-dynamic": (
        "LlamaForCausalLM",
        {**LLAMA, "rope_parameters": DYNAMIC, "max_position_embeddings": 13},
    ),
    "mistral": ("MistralForCausalLM", {**LLAMA, "sliding_window": 5}),
    "qwen2": ("Qwen2ForCausalLM", LLAMA),
    "qwen2-window": ("Qwen2ForCausalLM", {**LLAMA, **WINDOW}),
    "qwen3": ("Qwen3ForCausalLM", {**LLAMA, "head_dim": 10}),
    "qwen3-yarn": (
        "Qwen3ForCausalLM",
        {
            **LLAMA,
            "head_dim": 10,
            "rope_parameters": {**YARN, "mscale": 2.0, "mscale_all_dim": 0.5, "truncate": False},
        },
    ),
    "mixtral": ("MixtralForCausalLM", {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen2_moe": (
        "Qwen2MoeForCausalLM",
        {**LLAMA, **EXPERTS, "shared_expert_intermediate_size": 20},
    ),
    "qwen3_moe": ("Qwen3MoeForCausalLM", {**LLAMA, **EXPERTS}),
    "qwen3_moe-window": ("Qwen3MoeForCausalLM", {**LLAMA, **EXPERTS, **WINDOW}),
    "smollm3": (
        "SmolLM3ForCausalLM",
        {**LLAMA, "no_rope_layers": [1, 0], "use_sliding_window": True, "sliding_window": 5},
    ),
    "smollm3-yarn": (
        "SmolLM3ForCausalLM",
        {**LLAMA, "no_rope_layers": [1, 0], "rope_parameters": YARN},
    ),
    "gemma": ("GemmaForCausalLM", {**LLAMA, "head_dim": 10}),
    "gemma2": ("Gemma2ForCausalLM", {**LLAMA, **GEMMA, **CAPS, "sliding_window": 6}),
    "gemma3_text": ("Gemma3ForCausalLM", {**LLAMA, **GEMMA, "sliding_window": 6, **KINDS}),
    "gemma3_text-linear": (
        "Gemma3ForCausalLM",
        {**LLAMA, **GEMMA, "sliding_window": 6, **KINDS, **STRETCHED},
    ),
    "phi3": (
        "Phi3ForCausalLM",
        {**LLAMA, "rope_parameters": LONGROPE, "original_max_position_embeddings": 13},
    ),
    "phi": ("PhiForCausalLM", {**LLAMA, "num_attention_heads": 3, "num_key_value_heads": 3}),
    "starcoder2": ("Starcoder2ForCausalLM", {**LLAMA, "sliding_window": 5}),
    "granite": ("GraniteForCausalLM", {**LLAMA, **MULTIPLIERS, "attention_bias": True}),
    "granite-tied": ("GraniteForCausalLM", {**LLAMA, **MULTIPLIERS, "tie_word_embeddings": True}),
    "stablelm": ("StableLmForCausalLM", {**EIGHTHS, "use_qkv_bias": True}),
    "stablelm-parallel": ("StableLmForCausalLM", {**EIGHTHS, "use_parallel_residual": True}),
    "olmo": ("OlmoForCausalLM", LLAMA),
    "olmo2": ("Olmo2ForCausalLM", LLAMA),
    "gpt_neox": ("GPTNeoXForCausalLM", NEOX),
    "gpt_neox-in-turn": ("GPTNeoXForCausalLM", {**NEOX, "use_parallel_residual": False}),
    "gpt_neox-yarn": ("GPTNeoXForCausalLM", {**NEOX, "rope_parameters": {**YARN, **PARTIAL}}),
    "gpt_neox-linear": ("GPTNeoXForCausalLM", {**NEOX, "rope_parameters": {**LINEAR, **PARTIAL}}),
    "marian": ("MarianMTModel", MARIAN),
    "marian-headless": ("MarianModel", MARIAN),
    "marian-apart": ("MarianMTModel", {**MARIAN, "share_encoder_decoder_embeddings": False}),
    "bart": ("BartForConditionalGeneration", BART),
    "bart-headless": ("BartModel", BART),
    "mbart": ("MBartForConditionalGeneration", BART),
    "m2m_100": ("M2M100ForConditionalGeneration", {**BART, "pad_token_id": 1}),
    "m2m_100-padded": ("M2M100ForConditionalGeneration", {**BART, "pad_token_id": 1}),
    "pegasus": ("PegasusForConditionalGeneration", BART),
    "opt": ("OPTForCausalLM", {**OPT, "activation_function": "gelu"}),
    "opt-post": ("OPTForCausalLM", {**OPT, "do_layer_norm_before": False}),
    "t5": ("T5ForConditionalGeneration", T5),
    "t5-gated": ("T5ForConditionalGeneration", {**T5, **GATED}),
    "t5-encoder": ("T5EncoderModel", T5),
    "mt5": ("MT5ForConditionalGeneration", {**T5, **GATED}),
    "bert": ("BertForMaskedLM", BERT),
    "bert-pair": ("BertForMaskedLM", BERT),
    "bert-headless": ("BertModel", BERT),
    "roberta": ("RobertaForMaskedLM", ROBERTA),
    "roberta-padded": ("RobertaForMaskedLM", ROBERTA),
    "xlm-roberta": ("XLMRobertaForMaskedLM", ROBERTA),
    "camembert": ("CamembertForMaskedLM", ROBERTA),
    "electra": ("ElectraForMaskedLM", {**BERT, "embedding_size": 16}),
    "electra-wide": ("ElectraForPreTraining", {**BERT, "embedding_size": 24}),
    "albert": ("AlbertForMaskedLM", {**BERT, "embedding_size": 16, "hidden_act": "gelu_new"}),
    "albert-pair": ("AlbertForMaskedLM", {**BERT, "embedding_size": 16}),
    "distilbert": ("DistilBertForMaskedLM", DISTILBERT),
    "modernbert": ("ModernBertForMaskedLM", MODERN),
    "labels/llama": ("LlamaForSequenceClassification", {**LLAMA, **LABELS, "pad_token_id": 4}),
    "labels/bloom-tokens": ("BloomForTokenClassification", {**BLOOM, **LABELS}),
    "labels/bert": ("BertForSequenceClassification", {**BERT, **LABELS}),
    "labels/bert-tokens": ("BertForTokenClassification", {**BERT, **LABELS}),
    "labels/roberta": ("RobertaForSequenceClassification", {**ROBERTA, **LABELS}),
    "labels/electra": ("ElectraForSequenceClassification", {**BERT, **LABELS}),
    "labels/albert": ("AlbertForSequenceClassification", {**BERT, "embedding_size": 16}),
    "labels/distilbert": ("DistilBertForSequenceClassification", {**DISTILBERT, **LABELS}),
    "labels/modernbert": ("ModernBertForSequenceClassification", {**MODERN, **LABELS}),
    "labels/modernbert-mean": (
        "ModernBertForSequenceClassification",
        {**MODERN, **LABELS, "classifier_pooling": "mean"},
    ),
    "labels/modernbert-tokens": ("ModernBertForTokenClassification", {**MODERN, **LABELS}),
    "vit": ("ViTModel", {**VIT, "image_size": [12, 20], "qkv_bias": False}),
    "deit": ("DeiTModel", VIT),
    "dinov2": ("Dinov2Model", DINO),
    "dinov2_with_registers": ("Dinov2WithRegistersModel", {**DINO, "num_register_tokens": 3}),
    "clip_vision_model": ("CLIPVisionModel", VIT),
    "siglip_vision_model": ("SiglipVisionModel", VIT),
    "siglip_vision_model-cut": ("SiglipVisionModel", {**VIT, "image_size": 18}),
    "labels/vit": ("ViTForImageClassification", {**VIT, **LABELS}),
    "labels/dinov2_with_registers": (
        "Dinov2WithRegistersForImageClassification",
        {**DINO, **LABELS, "num_register_tokens": 3},
    ),
}
# What prepares the pictures of a model that reads pictures.
PROCESSORS: dict[str, tuple[str, Small]] = {
    "vit": ("ViTImageProcessor", {"size": {"height": 12, "width": 20}}),
    "deit": ("DeiTImageProcessor", {**CUT, "size": {"height": 19, "width": 19}}),
    "dinov2": ("BitImageProcessor", CUT),
    "dinov2_with_registers": ("BitImageProcessor", {**CUT, "image_std": [0.2, 0.3, 0.4]}),
    "clip_vision_model": ("CLIPImageProcessor", CUT),
    "siglip_vision_model": ("SiglipImageProcessor", {**SQUARE, "resample": 2}),
}
PROCESSORS["siglip_vision_model-cut"] = (
    "SiglipImageProcessor",
    {"size": {"height": 18, "width": 18}},
)
PROCESSORS["labels/vit"] = ("ViTImageProcessor", SQUARE)
PROCESSORS["labels/dinov2_with_registers"] = PROCESSORS["dinov2_with_registers"]


EXTRA = {"mt5": {"lm_head.weight": (61, 24)}}
"""Tensors that some published files contain and newly saved models do not."""
