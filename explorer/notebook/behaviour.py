"""Run any Transformer on padded and modified ids and check which logits stay the same.

The callable is a black box: ids in, logits out. Ids are Int64 [batch, pos] on one device.
"""

import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from inspect import signature
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from explorer.analysis.mask_tests.certify import OF_WEIGHTS
from explorer.analysis.mask_tests.examiner import (
    COPIES,
    N_PADS,
    Examiner,
    LeftOut,
    OtherPads,
    Sentence,
)
from explorer.analysis.mask_tests.sites import Worst
from explorer.notebook.captured import Captured
from explorer.notebook.diagnosis import SHARE, CapturedSite, Recording
from models.rows import Rows, Stream, padded

TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-4}
"""Relative to the spread of the logits; 3e-2 in half precision."""

Forward = Callable[..., Any]
Step = Callable[..., Any]
Row = Sequence[int] | Tensor


class Behaviour(Examiner):
    """One callable and one sentence. Raises ValueError if they cannot be tested."""

    outcome = "logits"
    pads_changed = 0
    refuses_constants = True

    def __init__(
        self,
        forward: Forward,
        src: Row | None,
        tgt: Row,
        pad_id: int | None,
        step: Step | None = None,
        causal: bool = True,
        window: int | None = None,
    ) -> None:
        self.forward, self.pad_id, self.step = forward, pad_id, step
        self.causal, self.window = causal, window
        self.n_pads = 0 if pad_id is None else N_PADS
        self.device = _device(forward, src, tgt)
        self.captures: list[tuple[Captured, list[CapturedSite]]] = []
        own = () if src is None else _ids("src", src, pad_id)
        super().__init__(own, _ids("tgt", tgt, pad_id))
        whole = self.batch([self.sentence])
        try:
            result = self._result(whole)
        except Exception as error:  # user code may raise anything: report it
            raise ValueError(_refused(error, _given(whole))) from error
        logits = self._checked(result, whole)
        self.plain = {self.outcome: logits}
        again = self.logits(whole)
        spread = (logits - logits.mean(-1, keepdim=True)).abs()
        self.scale = float(spread[torch.isfinite(spread)].max().clamp(min=1e-30))
        self.tolerance = TOLERANCES.get(logits.dtype, 3e-2)
        if float(self.moved(again[0], logits[0]).max()) > self.tolerance:
            raise ValueError(
                "the same ids give other logits at the second run; switch dropout off with "
                "model.eval(), or fix the randomness"
            )

    # How to run it.

    def batch(self, sentences: Sequence[Sentence], left: int = 0, right: int = 0) -> Rows:
        """Source and target differ in width if there is padding: attention kinds are told apart by
        shape, and nn.MultiheadAttention may add two keys."""
        sources, targets = zip(*sentences, strict=True)
        tgt, tgt_valid = padded(targets, self.pad_id, left, right)
        rows = Rows(tgt, tgt_valid)
        if self.sentence[0]:
            more = 0
            width = max(map(len, sources)) + left + right - tgt.shape[1]
            while left + right and abs(width + more) <= 2:
                more += 1
            left, right = (left + more, right) if left else (left, right + more)
            rows = Rows(tgt, tgt_valid, *padded(sources, self.pad_id, left, right))
        return rows.to(self.device)

    def logits(self, rows: Rows) -> Tensor:
        """The logits [batch, tgt, vocab]. Raises ValueError for any other shape."""
        return self._checked(self._result(rows), rows)

    def run(self, rows: Rows) -> dict[str, Tensor]:
        return {self.outcome: self.logits(rows)}

    def _result(self, rows: Rows) -> Any:
        with torch.no_grad(), _Plain():
            return self.forward(*_given(rows))

    def _checked(self, result: Any, rows: Rows) -> Tensor:
        logits = _logits(result)
        if logits.ndim != 3 or logits.shape[:2] != rows.tgt.shape:
            raise ValueError(
                f"forward returned shape {list(logits.shape)} for target ids of shape "
                f"{list(rows.tgt.shape)}; expected [batch, tgt, vocab]"
            )
        return logits.detach()

    def moved(self, after: Tensor, before: Tensor) -> Tensor:
        """Relative to the spread of the logits."""
        same = after == before  # includes equal infinities
        return (after - before).masked_fill(same, 0.0).abs().amax(-1) / self.scale

    def another(self, token: Tensor, stream: Stream) -> int:
        """Another id of the target, or of the vocabulary if the target has only one."""
        n_vocab = self.plain[self.outcome].shape[-1]
        return next(
            other
            for other in (*self.sentence[1], *range(n_vocab))
            if other not in (int(token), self.pad_id)
        )

    def other_pads(self, left: int) -> Iterator[OtherPads]:
        """Nothing if no lookup of the ids is seen (`F.embedding`, which `nn.Embedding` calls)."""
        rows = self.batch([self.sentence] * COPIES, left, N_PADS - left)
        before = self.run(rows)
        with _OtherPads(self.pad_id, rows) as mode:
            after = self.run(rows)
        if mode.seen:
            yield OtherPads(rows, before, after, 0 if left else len(self.sentence[1]))

    def steps(self, rows: Rows, sizes: Sequence[int]) -> Iterator[Tensor]:
        assert self.step is not None
        cache, begin = None, 0
        for end in accumulate(sizes):
            with torch.no_grad(), _Plain():
                src = () if rows.src is None else (rows.src,)
                result = self.step(*src, rows.tgt[:, begin:end], cache)
            logits, cache = _logits(result), _cache(result)
            yield logits[:, None] if logits.ndim == 2 else logits
            begin = end

    def cached_rows(self) -> Iterator[Rows]:
        """The sentence and its reverse in one batch."""
        yield self.batch([self.sentence, self.reversed])

    @property
    def reversed(self) -> Sentence:
        src, tgt = self.sentence
        return src[::-1], tgt[::-1]

    # The attention of padded rows.

    @property
    def sites(self) -> list[CapturedSite]:
        """The captured attention whose shape identifies its queries and keys.

        It is recorded with padding on the right, on the left, and of different lengths. After an
        error, which is raised once, what was recorded before it remains.
        """
        if not self.captures:
            alike, n = [self.sentence] * COPIES, self.n_pads
            runs = [(alike, 0, n), (alike, n, 0), (self.mixed(), 0, n)][: 3 if n else 1]
            for sentences, left, right in runs:
                rows = self.batch(sentences, left, right)
                with warnings.catch_warnings(), Recording(sequences=len(rows)) as seen:
                    # While recording, a compiled module is run uncompiled.
                    warnings.filterwarnings("ignore", "Using `torch.compile")
                    self.run(rows)
                sites = [CapturedSite.of(call, rows, self.causal, self.window) for call in seen]
                self.captures.append((seen, [site for site in sites if site is not None]))
        return [site for _, sites in self.captures for site in sites]

    def needle(self) -> Worst | None:
        """Not proven if captured attention gives an open cell a weight below rounding."""
        worst = super().needle()
        is_broken = worst is not None and worst.deviation > 0
        return None if is_broken and self.captures and any(map(_is_sharp, self.sites)) else worst

    @property
    def masks(self) -> dict[str, np.ndarray]:
        """With padding on the right; nothing without a capture."""
        first = self.captures[0][1] if self.captures else []
        return {site.name: site.visible[0].cpu().numpy() for site in first}

    @property
    def has_unread(self) -> bool:
        """Whether any attention was computed that could not be read."""
        return self.has_unseen or any(len(sites) < len(seen) for seen, sites in self.captures)

    @property
    def has_unseen(self) -> bool:
        """Whether the pattern of any attention could not be recorded."""
        return any(seen.unseen for seen, _ in self.captures)

    def unproven(self, name: str) -> LeftOut:
        if name == "pad_content":
            return "no_embedding"
        if name == "needle":
            return "too_weak"
        return "unread" if self.has_unread else "no_site"

    def tolerance_of(self, name: str) -> float:
        is_share = name in OF_WEIGHTS and self.plain[self.outcome].dtype in TOLERANCES
        return SHARE if is_share else self.tolerance

    # Further facts.

    def fused_path_is_nan(self) -> bool:
        """Whether left padding gives NaN only on torch's fused inference path.

        There a query without visible keys, such as a PAD before the text under a causal mask, is
        NaN, and so is everything from the next layer on.
        """
        rows = self.batch([self.sentence] * COPIES, left=N_PADS)
        flags = []
        for mode in (_Plain(), nullcontext()):
            with torch.no_grad(), mode:
                flags.append(bool(_logits(self.forward(*_given(rows))).isnan().any()))
        return flags == [False, True]

    def rows_see_each_other(self) -> bool:
        """Whether another sentence of the same length changes this one's logits in a batch."""
        worst = Worst()
        try:
            for at in (0, 1):
                rows = [self.sentence] * 2
                before = self.logits(self.batch(rows))[at]
                rows[1 - at] = self.reversed
                self._see(worst, self.outcome, self.logits(self.batch(rows))[at], before)
        except (RuntimeError, ValueError, IndexError, TypeError):  # a finding already
            return False
        return worst.deviation > self.tolerance

    def predicts_its_input(self) -> bool:
        """Whether the model predicts its own input token at nearly every position (90 %)."""
        read = torch.tensor(self.sentence[1], device=self.device)
        same = self.plain[self.outcome][0].argmax(-1) == read
        return len(read) > 2 and float(same.double().mean()) >= 0.9


def _is_sharp(site: CapturedSite) -> bool:
    """Whether a cell that no mask closes has a weight below rounding error."""
    is_open = site.allowed if site.mask is None else site.allowed & site.visible
    return bool((is_open & (site.weights < torch.finfo(site.weights.dtype).eps)).any())


def _given(rows: Rows) -> tuple[Tensor, ...]:
    """The positional arguments for the callable."""
    return (rows.tgt,) if rows.src is None else (rows.src, rows.tgt)


def _logits(result: Any) -> Tensor:
    logits = getattr(result, "logits", result)
    if isinstance(logits, tuple | list) and logits:
        logits = logits[0]
    if not isinstance(logits, Tensor) or not logits.is_floating_point():
        raise ValueError(f"forward returned {type(result).__name__}, expected a tensor of logits")
    return logits


def own_step(forward: Forward, src: Row | None) -> Step | None:
    """A cached step for a module with Hugging Face's cache arguments in `forward`; else None."""
    if src is not None or not isinstance(forward, nn.Module):
        return None
    if not {"past_key_values", "use_cache"} <= set(signature(forward.forward).parameters):
        return None
    return lambda tgt, cache: forward(tgt, past_key_values=cache, use_cache=True)


def _cache(made: Any) -> Any:
    """The cache that a step returned with its logits."""
    cache = getattr(made, "past_key_values", None)
    if cache is None and isinstance(made, tuple | list) and len(made) > 1:
        cache = made[1]
    if cache is None:
        raise ValueError(f"the step returned {type(made).__name__}, expected (logits, cache)")
    return cache


class _Plain(TorchFunctionMode):
    """A mode that changes nothing, but makes torch avoid its fused inference path."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


class _OtherPads(TorchFunctionMode):
    """Embeds padding as other tokens in every lookup; the ids do not change."""

    def __init__(self, pad_id: int | None, rows: Rows) -> None:
        super().__init__()
        self.seen = False
        self._pad_id = pad_id
        self._rows = [ids for ids in (rows.src, rows.tgt) if ids is not None]

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func is not F.embedding:
            return result
        ids = args[0] if args else kwargs["input"]
        weight = args[1] if len(args) > 1 else kwargs["weight"]
        for rows in self._rows:
            for known in (rows, rows.t()):
                if ids.shape == known.shape and torch.equal(ids, known):
                    self.seen = True
                    pads = (ids == self._pad_id)[..., None]
                    # A different vector for every position, as large as those of words.
                    others = weight.detach().flip(0)[
                        ids.new_tensor(range(ids.numel())) % len(weight)
                    ]
                    strange = others.view_as(result) + weight.detach().std()
                    return torch.where(pads, strange.to(result.dtype), result)
        return result


def _ids(name: str, given: Any, pad_id: int | None) -> tuple[int, ...]:
    try:
        ids = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name}: expected a row of token ids ({error})") from None
    if ids.ndim == 2 and len(ids) == 1:
        ids = ids[0]
    if ids.ndim != 1 or not len(ids) or ids.is_floating_point():
        raise ValueError(f"{name} has shape {list(ids.shape)}, expected a row of token ids")
    if pad_id is not None and bool((ids == pad_id).any()):
        raise ValueError(f"{name} holds the padding id {pad_id}; give it without padding")
    return tuple(map(int, ids))


def _device(forward: Forward, *rows: Any) -> torch.device:
    for row in rows:
        if isinstance(row, Tensor):
            return row.device
    owner = forward if isinstance(forward, nn.Module) else getattr(forward, "__self__", None)
    if isinstance(owner, nn.Module):
        for parameter in owner.parameters():
            return parameter.device
    return torch.device("cpu")


def _refused(error: Exception, given: tuple[Tensor, ...]) -> str:
    """The message for a callable that raised: its arguments, the error, and the line."""
    names = ("src", "tgt")[-len(given) :]
    asked = " and ".join(
        f"{name} ids {list(ids.shape)} from {int(ids.min())} to {int(ids.max())}"
        for name, ids in zip(names, given, strict=True)
    )
    library = str(Path(torch.__file__).parent)
    own = [
        at
        for at in traceback.extract_tb(error.__traceback__)
        if at.filename != __file__ and not at.filename.startswith((library, "<"))
    ]
    where = f" in {Path(own[-1].filename).name}, line {own[-1].lineno}," if own else ""
    return (
        f"forward({', '.join(names)}) raised {type(error).__name__}: {error}{where} when it was "
        f"called with the sentence itself, {asked}, Int64, on {given[0].device}; are all ids in "
        "the model's vocabulary?"
    )
