"""The settings of `generation_config.json`: rules to apply, and the names of all others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from models.foreign.elsewhere import GenerationRules
from models.foreign.json_files import read_object

Reader = Callable[[Any, int], dict[str, Any] | None]
FILE = "generation_config.json"
CHOSEN = (
    *("do_sample", "num_beams", "length_penalty", "early_stopping"),
    *("temperature", "top_k", "top_p"),
)
"""Settings of the decoding strategy, which the user chooses."""
_NOTHING = {  # settings that change no token, or limit the length, which the user chooses
    "_from_model_config", "transformers_version", "use_cache", "cache_implementation",
    "cache_config", "return_legacy_cache", "return_dict_in_generate", "num_return_sequences",
    "output_attentions", "output_hidden_states", "output_scores", "output_logits",
    "max_length", "max_new_tokens", "max_time", "pad_token_id", "bos_token_id", "eos_token_id",
    "decoder_start_token_id", "trust_remote_code", "chat_format",
}  # fmt: skip
_USUAL: dict[str, tuple[Any, ...]] = {  # values under which a setting does nothing
    "repetition_penalty": (1.0,), "encoder_repetition_penalty": (1.0,), "diversity_penalty": (0.0,),
    "num_beams": (1,), "num_beam_groups": (1,), "length_penalty": (1.0,), "temperature": (1.0,),
    "top_k": (50, 0), "top_p": (1.0,), "min_p": (0.0,), "typical_p": (1.0,),
    "epsilon_cutoff": (0.0,), "eta_cutoff": (0.0,), "guidance_scale": (1.0,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,), "min_length": (0,), "min_new_tokens": (0,),
    "max_window_size": (0,), "renormalize_logits": (False,), "remove_invalid_values": (False,),
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """A model's generation settings: `rules`, the settings they come from (`applied`), those of the
    strategy (`chosen`), and those not applied here (`ignored`)."""

    rules: GenerationRules = field(default_factory=GenerationRules)
    applied: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


def asked_in(folder: Path, config: Mapping[str, Any], vocab_size: int) -> Settings:
    """Read the settings from generation_config.json, or from an older config.json.

    A setting with an invalid value, such as an id beyond `vocab_size`, is not applied.
    Raises CheckpointError if the file is not JSON.
    """
    path = folder / FILE
    settings = (
        read_object(path) if path.is_file() else {k: config[k] for k in _OLDER & config.keys()}
    )
    settings = {name: value for name, value in settings.items() if not _does_nothing(name, value)}
    values: dict[str, Any] = {}
    applied = []
    for name, read in _READ.items():
        if name in settings and (fields := read(settings[name], vocab_size)) is not None:
            values |= fields
            applied.append(name)
    shown = {name: f"{name} = {_short(value)}" for name, value in settings.items()}
    chosen = [name for name in CHOSEN if name in settings]
    others = sorted(settings.keys() - {*applied, *chosen})
    named = (tuple(shown[name] for name in names) for names in (applied, chosen, others))
    return Settings(GenerationRules(**values), *named)


def _does_nothing(name: str, value: Any) -> bool:
    usual = any(value == default for default in _USUAL.get(name, ()))
    return name in _NOTHING or value is None or value is False or value in ([], {}) or usual


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _penalty(value: Any, vocab_size: int) -> dict[str, Any] | None:
    right = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e6
    return {"repetition_penalty": float(value)} if right else None


def _is_token(value: Any, vocab_size: int) -> bool:
    return type(value) is int and 0 <= value < vocab_size


def _whole(field: str) -> Reader:
    return lambda value, _: {field: value} if type(value) is int and 0 <= value < 2**31 else None


def _token(field: str) -> Reader:
    def read(value: Any, vocab_size: int) -> dict[str, Any] | None:
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        return {field: value} if _is_token(value, vocab_size) else None

    return read


def _tokens(field: str) -> Reader:
    def read(value: Any, vocab_size: int) -> dict[str, Any] | None:
        right = isinstance(value, list) and all(_is_token(token, vocab_size) for token in value)
        return {field: tuple(value)} if right else None

    return read


def _runs(value: Any, vocab_size: int) -> dict[str, Any] | None:
    read = _tokens("run")
    if not isinstance(value, list) or not all(run and read(run, vocab_size) for run in value):
        return None
    return {"forbidden": tuple(map(tuple, value))}


_READ: dict[str, Reader] = {
    "repetition_penalty": _penalty,
    "no_repeat_ngram_size": _whole("no_ngram"),
    "bad_words_ids": _runs,
    "min_new_tokens": _whole("min_new_tokens"),
    "forced_bos_token_id": _token("forced_first"),
    "forced_eos_token_id": _token("forced_last"),
    "suppress_tokens": _tokens("never"),
    "begin_suppress_tokens": _tokens("not_first"),
}
"""Converts each setting to a field of `GenerationRules`; None for an invalid value."""
_OLDER = frozenset({*_READ, *CHOSEN, "min_length", "encoder_no_repeat_ngram_size"})
