"""Run any Transformer on padded and modified ids and check which logits stay the same.

The callable is a black box: ids in, logits out. Ids are Int64 [batch, pos] on one device.
"""

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from inspect import signature
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from explorer.analysis.mask_tests.examiner import Location, Worst

N_PADS = 2
TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-4}
"""Relative to the spread of the logits; 3e-2 in half precision."""
LOGITS = "logits"

Forward = Callable[..., Any]
Step = Callable[..., Any]
Row = Sequence[int] | Tensor
Sentence = tuple[list[int] | None, list[int]]
"""Ids of source and target."""


class UntestableError(ValueError):
    """The logits do not depend on the ids, so every property would hold trivially."""


@dataclass(frozen=True)
class Padded:
    """A batch: `src` (None without an encoder) and `tgt`, and how many PADs precede each."""

    src: Tensor | None
    tgt: Tensor
    src_left: int = 0
    tgt_left: int = 0

    @property
    def given(self) -> tuple[Tensor, ...]:
        """The positional arguments for the callable."""
        return (self.tgt,) if self.src is None else (self.src, self.tgt)


class Behaviour:
    """One callable and one sentence. Raises ValueError if they cannot be tested."""

    def __init__(self, forward: Forward, src: Row | None, tgt: Row, pad_id: int | None) -> None:
        self.forward, self.pad_id = forward, pad_id
        self.device = _device(forward, src, tgt)
        self.src = None if src is None else _ids("src", src, pad_id)
        self.tgt = _ids("tgt", tgt, pad_id)
        whole = self.batch([(self.src, self.tgt)])
        try:
            made = self._made(whole)
        except Exception as error:  # user code may raise anything: report it
            raise ValueError(_refused(error, whole)) from error
        self.plain = self._checked(made, whole)
        again = self.run(self.batch([(self.src, self.tgt)]))
        spread = (self.plain - self.plain.mean(-1, keepdim=True)).abs()
        self.scale = float(spread[torch.isfinite(spread)].max().clamp(min=1e-30))
        self.tolerance = TOLERANCES.get(self.plain.dtype, 3e-2)
        if float(self.moved(again[0], self.plain[0]).max()) > self.tolerance:
            raise ValueError(
                "the same ids give other logits at the second run; switch dropout off with "
                "model.eval(), or fix the randomness"
            )

    # Building batches.

    def batch(
        self,
        sentences: Sequence[Sentence],
        left: bool = False,
        pads: int = 0,
    ) -> Padded:
        """The sentences padded to one width plus `pads`; source and target differ in width."""
        tgt, tgt_left = self._rows([tgt for _, tgt in sentences], left, pads)
        sources = [src for src, _ in sentences if src is not None]
        if not sources:
            return Padded(None, tgt, 0, tgt_left)
        src, src_left = self._rows(sources, left, pads)
        # Attention kinds are told apart by shape, and nn.MultiheadAttention may add two keys.
        more = 0
        while pads and abs(src.shape[1] + more - tgt.shape[1]) <= 2:
            more += 1
        if more:
            src, src_left = self._rows(sources, left, pads + more)
        return Padded(src, tgt, src_left, tgt_left)

    def _rows(self, rows: Sequence[list[int]], left: bool, pads: int) -> tuple[Tensor, int]:
        width = max(map(len, rows)) + pads
        if self.pad_id is None:
            return torch.tensor(rows, device=self.device), 0
        fill = [[self.pad_id] * (width - len(row)) for row in rows]
        whole = [gap + row if left else row + gap for row, gap in zip(rows, fill, strict=True)]
        return torch.tensor(whole, device=self.device), len(fill[0]) if left else 0

    def other(self, token: int) -> int:
        """Another id from the target, or from the vocabulary if the target has only one."""
        for each in self.tgt:
            if each != token:
                return each
        n_vocab = self.plain.shape[-1]
        return next(each for each in range(n_vocab) if each not in (token, self.pad_id))

    # Running.

    def run(self, rows: Padded) -> Tensor:
        """The logits [batch, tgt, vocab]. Raises ValueError for any other shape."""
        return self._checked(self._made(rows), rows)

    def _made(self, rows: Padded) -> Any:
        with torch.no_grad(), _Plain():
            return self.forward(*rows.given)

    def _checked(self, made: Any, rows: Padded) -> Tensor:
        logits = self._logits(made)
        if logits.ndim != 3 or logits.shape[:2] != rows.tgt.shape:
            raise ValueError(
                f"forward returned shape {list(logits.shape)} for target ids of shape "
                f"{list(rows.tgt.shape)}; expected [batch, tgt, vocab]"
            )
        return logits.detach()

    @staticmethod
    def _logits(made: Any) -> Tensor:
        logits = getattr(made, "logits", made)
        if isinstance(logits, tuple | list) and logits:
            logits = logits[0]
        if not isinstance(logits, Tensor) or not logits.is_floating_point():
            raise ValueError(f"forward returned {type(made).__name__}, expected a tensor of logits")
        return logits

    def moved(self, after: Tensor, before: Tensor) -> Tensor:
        """Largest logit change relative to the spread: two [..., pos, vocab] -> [..., pos]."""
        same = after == before  # includes equal infinities
        return (after - before).masked_fill(same, 0.0).abs().amax(-1) / self.scale

    # Properties of the logits.

    def future(self) -> Worst:
        """Change each target token in turn: logits at earlier positions must not change."""
        n, worst = len(self.tgt), Worst()
        rows = [list(self.tgt) for _ in range(n + 1)]
        for key in range(n):
            rows[key + 1][key] = self.other(self.tgt[key])
        after = self.run(self.batch([(self.src, row) for row in rows]))
        moved = self.moved(after[1:], after[:1])
        if float(moved.nan_to_num(nan=1.0).max()) == 0.0:
            raise UntestableError("the logits do not depend on the target ids")
        before_it = torch.ones(n, n, device=self.device).tril(-1).bool()  # [changed, pos]
        worst.see(
            moved.masked_fill(~before_it, 0.0),
            lambda key, query: Location(LOGITS, None, None, query, key),
        )
        return worst

    def prefix(self) -> Worst:
        """A prefix of the target must give the same logits as one pass over the whole target."""
        worst = Worst()
        for length in range(1, len(self.tgt)):
            found = self.run(self.batch([(self.src, self.tgt[:length])]))
            self._see(worst, found[0], self.plain[0, :length])
        return worst

    def padding(self, left: bool) -> Worst:
        """Three padded copies of the sentence must each give the logits of the sentence alone."""
        worst = Worst()
        rows = self.batch([(self.src, self.tgt)] * 3, left, N_PADS)
        for found in self.run(rows):
            real = found[rows.tgt_left : rows.tgt_left + len(self.tgt)]
            self._see(worst, real, self.plain[0], rows.tgt_left)
        return worst

    def fused_path_is_nan(self) -> bool:
        """Whether left padding gives NaN only on torch's fused inference path.

        There a query without visible keys, such as a PAD before the text under a causal mask, is
        NaN, and so is everything from the next layer on.
        """
        rows = self.batch([(self.src, self.tgt)] * 3, True, N_PADS)
        found = []
        for mode in (_Plain(), nullcontext()):
            with torch.no_grad(), mode:
                made = self._logits(self.forward(*rows.given))
            found.append(bool(made.isnan().any()))
        return found == [False, True]

    def in_a_batch(self) -> Worst:
        """Sentences of different lengths in one batch: each must give the same logits as alone."""
        worst, sentences = Worst(), self.mixed()
        found = self.run(self.batch(sentences))
        for row, sentence in enumerate(sentences):
            alone = self.run(self.batch([sentence]))[0]
            self._see(worst, found[row, : len(alone)], alone)
        return worst

    def mixed(self) -> list[Sentence]:
        """The sentence between a shorter and a longer one; without padding, all equally long."""
        shorter, longer = (0, 0) if self.pad_id is None else (-1, N_PADS)
        return [self._turned(shorter), (self.src, self.tgt), self._turned(longer)]

    def rows_see_each_other(self) -> bool:
        """Whether another sentence of the same length changes this one's logits in a batch."""
        worst = Worst()
        try:
            for at in (0, 1):
                rows = [(self.src, self.tgt)] * 2
                before = self.run(self.batch(rows))[at]
                rows[1 - at] = self._turned(0)
                self._see(worst, self.run(self.batch(rows))[at], before)
        except (RuntimeError, ValueError, IndexError, TypeError):  # a finding already
            return False
        return worst.deviation > self.tolerance

    def predicts_its_input(self) -> bool:
        """Whether the model predicts its own input token at nearly every position (90 %)."""
        read = torch.tensor(self.tgt, device=self.device)
        same = self.plain[0].argmax(-1) == read
        return len(read) > 2 and float(same.double().mean()) >= 0.9

    def with_cache(self, step: Step | None) -> Worst:
        """Steps with a key/value cache must give the same logits as one pass.

        Tested: one token per step; half of the text at once (a prefill), then one token per step
        or the rest at once; and all at once. A step of several tokens may return the logits of its
        last position only.
        """
        assert step is not None
        worst, rows = Worst(), self.cached_rows()
        whole, n = self.run(rows), len(self.tgt)
        half = max(1, n // 2)
        for plan in ([1] * n, [half, *[1] * (n - half)], [half, n - half], [n]):
            sizes, end = [size for size in plan if size], 0
            for size, logits in zip(sizes, self.cached_steps(step, rows, sizes), strict=True):
                end += size
                if logits.shape[::2] != whole.shape[::2] or logits.shape[1] not in (1, size):
                    raise ValueError(
                        f"the step gave logits of shape {list(logits.shape)} for "
                        f"{size} tokens of {len(whole)} rows"
                    )
                place = end - logits.shape[1]
                worst.see(
                    self.moved(logits, whole[:, place:end]),
                    lambda *at, place=place: Location(LOGITS, None, None, at[-1] + place),
                )
        return worst

    def cached_rows(self) -> Padded:
        """The batch that is read in cached steps: the sentence, and its reverse."""
        return self.batch([(self.src, self.tgt), self._turned(0)])

    def cached_steps(self, step: Step, rows: Padded, sizes: Sequence[int]) -> Iterator[Tensor]:
        """The logits [batch, pos, vocab] of each step of so many tokens."""
        cache, begin = None, 0
        for end in accumulate(sizes):
            with torch.no_grad(), _Plain():
                src = () if rows.src is None else (rows.src,)
                made = step(*src, rows.tgt[:, begin:end], cache)
            logits, cache = self._logits(made), _cache(made)
            yield logits[:, None] if logits.ndim == 2 else logits
            begin = end

    def _turned(self, longer: int) -> Sentence:
        def turned(ids: list[int]) -> list[int]:
            return (ids[::-1] * 4)[: (len(ids) + longer) or 2]

        return None if self.src is None else turned(self.src), turned(self.tgt)

    def pad_content(self) -> Worst | None:
        """Change the embeddings of right or left padding: the real logits must not change.

        None if no lookup of the ids was seen (`F.embedding`, which `nn.Embedding` calls).
        """
        worst, seen = Worst(), False
        for left in (False, True):
            rows = self.batch([(self.src, self.tgt)] * 3, left, N_PADS)
            before = self.run(rows)
            with _OtherPads(self.pad_id, rows) as mode:
                after = self.run(rows)
            seen = seen or mode.seen
            real = slice(rows.tgt_left, rows.tgt_left + len(self.tgt))
            first = 0 if left else len(self.tgt)
            self._see(worst, after[:, real], before[:, real], rows.tgt_left, first)
        return worst if seen else None

    def _see(
        self, worst: Worst, after: Tensor, before: Tensor, left: int = 0, key: int | None = None
    ) -> None:
        worst.see(
            self.moved(after, before),
            lambda *at: Location(LOGITS, None, None, at[-1] + left, key, left),
        )


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

    def __init__(self, pad_id: int | None, rows: Padded) -> None:
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


def _ids(name: str, given: Any, pad_id: int | None) -> list[int]:
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
    return [int(each) for each in ids]


def _device(forward: Forward, *rows: Any) -> torch.device:
    for each in rows:
        if isinstance(each, Tensor):
            return each.device
    owner = forward if isinstance(forward, nn.Module) else getattr(forward, "__self__", None)
    if isinstance(owner, nn.Module):
        for parameter in owner.parameters():
            return parameter.device
    return torch.device("cpu")


def _refused(error: Exception, rows: Padded) -> str:
    """The message for a callable that raised: its arguments, the error, and the line."""
    names = ("tgt",) if rows.src is None else ("src", "tgt")
    asked = " and ".join(
        f"{name} ids {list(ids.shape)} from {int(ids.min())} to {int(ids.max())}"
        for name, ids in zip(names, rows.given, strict=True)
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
        f"called with the sentence itself, {asked}, Int64, on {rows.tgt.device}; are all ids in "
        "the model's vocabulary?"
    )
