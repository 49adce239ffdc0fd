"""Generation as in `transformers`: its rules (logits processors) and its beam search.

Rules forbid, force or penalise tokens: they change the scores [row, vocab] before a token is
chosen. Keskar et al. 2019 (repetition penalty); Paulus et al. 2018 (n-grams). They
are read from the settings of `generation_config.json`; the names of all others are listed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from models.foreign.json_files import read_object
from models.strategies import Beam, Hypothesis, by_score


@dataclass(frozen=True)
class GenerationRules:
    """Rules for generation.

    `forced_first` is the first token, `forced_last` the last one at the length limit. `forbidden`
    are sequences that are not generated; `never` are tokens that are not generated, even if forced.
    `not_first` are tokens that may not begin an output. `no_ngram` n > 0: no n-gram of a row may be
    repeated.
    """

    repetition_penalty: float = 1.0
    no_ngram: int = 0
    forbidden: tuple[tuple[int, ...], ...] = ()
    never: tuple[int, ...] = ()
    not_first: tuple[int, ...] = ()
    forced_first: int | None = None
    forced_last: int | None = None
    min_new_tokens: int = 0

    def __bool__(self) -> bool:
        """Whether any rule is set."""
        return self != GenerationRules()

    def applied(
        self,
        scores: Float[Tensor, "row vocab"],
        rows: Int[Tensor, "row pos"],
        prompt: int,
        limit: int,
        ends: tuple[int, ...],
    ) -> Float[Tensor, "row vocab"]:
        """The scores under these rules; -inf for tokens that may not follow.

        The first `prompt` tokens of each row were given, and at most `limit` are generated; `ends`
        are the ids that end an output. A row without any allowed token keeps its scores.
        """
        result, written = scores.clone(), rows.shape[1] - prompt
        if self.repetition_penalty != 1:
            seen = result.gather(1, rows)
            penalised = torch.where(
                seen < 0, seen * self.repetition_penalty, seen / self.repetition_penalty
            )
            result = result.scatter(1, rows, penalised)
        for row, tokens in enumerate(rows.tolist()):
            result[row, self._blocked(tokens)] = -math.inf
        if written < self.min_new_tokens:
            result[:, list(ends)] = -math.inf
        # One token only: the start token of a translator, since a prompt is longer.
        if self.forced_first is not None and rows.shape[1] == 1:
            result = _only(result, self.forced_first)
        if self.forced_last is not None and written == limit - 1:
            result = _only(result, self.forced_last)
        result[:, list(self.never)] = -math.inf
        first = 1 if self.forced_first is not None and prompt == 1 else 0
        if written == first:
            result[:, list(self.not_first)] = -math.inf
        return torch.where(result.isneginf().all(1, keepdim=True), scores, result)

    def _blocked(self, tokens: list[int]) -> list[int]:
        """Tokens that would complete a forbidden sequence or repeat an n-gram."""
        n, written = self.no_ngram, len(tokens)
        completions = [
            run[-1]
            for run in self.forbidden
            if tuple(tokens[max(0, written - len(run) + 1) :]) == run[:-1]
        ]
        if n and len(tokens) >= n - 1:
            begun = tokens[len(tokens) - n + 1 :]
            places = range(len(tokens) - n + 1)
            completions += [tokens[at + n - 1] for at in places if tokens[at : at + n - 1] == begun]
        return completions


def _only(scores: Tensor, token: int) -> Tensor:
    """Scores that allow only one token."""
    return torch.full_like(scores, -math.inf).index_fill(1, scores.new_tensor([token]).long(), 0.0)


@dataclass(frozen=True)
class RefillingBeam(Beam):
    """The beam search of `transformers` (5.24, `_beam_search`), with the same answers.

    It differs from `Beam` in three ways:
    1. The beam is always `width` wide: the next live hypothesis replaces a finished one. A finished
       one counts as an answer only if it is among the best `width` extensions of its step.
    2. The best `width` answers are kept; a better one replaces the worst.
    3. With `early_stopping` True, the search ends as soon as there are `width` answers. With False,
       it ends when the best live hypothesis, scored at its current length, is no better than the
       worst answer; "never" scores it at the maximum length if the length penalty is above 0. At
       the limit the best live ones are answers too.

    Padding is treated like any other token. Raises ValueError as `Beam` does.
    """

    may_pad: ClassVar[bool] = True
    early_stopping: bool | Literal["never"] = False

    def room(self, n_finished: int, n_ends: int = 1) -> int:
        return max(2, 1 + n_ends) * self.width

    def settle(
        self, hypotheses: Sequence[Hypothesis], ended: Sequence[Hypothesis], left: int
    ) -> tuple[list[Hypothesis], list[Hypothesis]]:
        among = [
            hypothesis for hypothesis in hypotheses[: self.width] if hypothesis.finished or not left
        ]
        answers = sorted([*ended, *among], key=by_score)[: self.width]
        live = (
            [hypothesis for hypothesis in hypotheses if not hypothesis.finished][: self.width]
            if left
            else []
        )
        if live and len(answers) == self.width and self._is_over(live[0], answers[-1], left):
            live = []
        return live, answers

    def _is_over(self, best: Hypothesis, worst: Hypothesis, left: int) -> bool:
        if self.early_stopping is True:
            return True
        farthest = self.early_stopping == "never" and self.length_penalty > 0
        length = len(best.tokens) + (left if farthest else 0)
        return self.score(best.total, length) <= worst.score


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
