"""Running a model many times with its inputs changed on purpose: the ground under a certificate.

Nothing here reads a mask. What a query attends to is found out from the outside: replace the
values of an attention site by marks, one feature a key, and the site's output z says, weight by
weight, which keys were mixed into it. Change one token, and see how far the change travels.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from models.cache import KVCache
from models.config import ModelConfig
from models.hooks import AttentionSite, Edits, Record, visiting

Interference = Callable[["Rows"], Edits]
"""What is to be changed inside a model in a run over these rows, at its hook points."""


@runtime_checkable
class Subject(Protocol):
    """A model as `models.EncoderDecoder` or `models.DecoderOnly`, or anything that acts like one.

    Called with (src, tgt, src_valid, tgt_valid), or with (tgt, tgt_valid, cache) where the config
    says decoder-only; an encoder-decoder has `encode` and `decode` too.
    """

    def __call__(self, *args: Any) -> Tensor: ...

    def attention_sites(self) -> tuple[AttentionSite, ...]: ...


@dataclass(frozen=True, eq=False)
class Rows:
    """A batch of sentences: token ids, and which of them are real. No source: decoder-only."""

    tgt: Int[Tensor, "batch tgt"]
    tgt_valid: Bool[Tensor, "batch tgt"]
    src: Int[Tensor, "batch src"] | None = None
    src_valid: Bool[Tensor, "batch src"] | None = None

    def __len__(self) -> int:
        return len(self.tgt)

    def times(self, n: int) -> "Rows":
        """Every sentence n times, one after another."""
        return Rows(
            self.tgt.repeat_interleave(n, 0),
            self.tgt_valid.repeat_interleave(n, 0),
            None if self.src is None else self.src.repeat_interleave(n, 0),
            None if self.src_valid is None else self.src_valid.repeat_interleave(n, 0),
        )

    def with_changed(
        self, stream: str, cells: Sequence[Sequence[int]], config: ModelConfig
    ) -> "Rows":
        """A batch of one, repeated: row 0 as it is, row i + 1 with other tokens at `cells[i]`."""
        rows = self.times(len(cells) + 1)
        tokens = rows.src if stream == "src" else rows.tgt
        assert tokens is not None
        for row, places in enumerate(cells, start=1):
            for place in places:
                tokens[row, place] = another_token(int(tokens[row, place]), config)
        return rows

    def valid(self, stream: str) -> Tensor:
        """Bool [batch, pos] of one stream."""
        valid = self.src_valid if stream == "src" else self.tgt_valid
        assert valid is not None
        return valid


def another_token(token: int, config: ModelConfig) -> int:
    """A token that is neither this one nor a special one, where the vocabulary has such a token."""
    special = {config.pad_id, config.bos_id, config.eos_id}
    others = ((token + step) % config.vocab_size for step in range(1, config.vocab_size))
    ordinary = next((other for other in others if other not in special), None)
    return (token + 1) % config.vocab_size if ordinary is None else ordinary


def batch_of(
    sentences: Sequence[tuple[Sequence[int], Sequence[int]]],
    config: ModelConfig,
    left: int = 0,
    right: int = 0,
) -> Rows:
    """Sentences (source, target) side by side, with at least so many PADs on the left and right.

    Shorter ones get further PADs on the right.
    """
    tgt, tgt_valid = _padded([target for _, target in sentences], left, right, config.pad_id)
    if config.family == "decoder-only":
        return Rows(tgt, tgt_valid)
    src, src_valid = _padded([source for source, _ in sentences], left, right, config.pad_id)
    return Rows(tgt, tgt_valid, src, src_valid)


def _padded(rows: list[Sequence[int]], left: int, right: int, pad_id: int) -> tuple[Tensor, Tensor]:
    width = left + max(map(len, rows)) + right
    tokens = torch.full((len(rows), width), pad_id)
    valid = torch.zeros(len(rows), width, dtype=torch.bool)
    for row, ids in enumerate(rows):
        tokens[row, left : left + len(ids)] = torch.tensor(ids)
        valid[row, left : left + len(ids)] = True
    return tokens, valid


def stacked(first: Rows, *others: Rows) -> Rows:
    """Batches of equal width as one."""
    batches = (first, *others)

    def joined(tensors: list[Tensor | None]) -> Tensor | None:
        there = [tensor for tensor in tensors if tensor is not None]
        return torch.cat(there) if there else None

    return replace(
        first,
        tgt=torch.cat([rows.tgt for rows in batches]),
        tgt_valid=torch.cat([rows.tgt_valid for rows in batches]),
        src=joined([rows.src for rows in batches]),
        src_valid=joined([rows.src_valid for rows in batches]),
    )


class Probe:
    """A model ready to be asked. The model itself is never touched.

    Its weights are copied to float64 where that can be done: the rounding of float32, about 1e-6
    of the logits, depends on the shape of a batch, and could hide a small leak or be taken for one.
    """

    def __init__(
        self, model: Subject, config: ModelConfig, interference: Interference | None = None
    ) -> None:
        self.model: Any = model
        if isinstance(model, nn.Module):
            self.model = copy.deepcopy(model).double().eval()
        self.config = config
        self.interference = interference
        self.sites = model.attention_sites()
        # Blocks stand one step above their attention; their stream is what travels on.
        self.blocks = {
            f"{site.name.rpartition('.')[0]}.hook_resid_post": site
            for site in self.sites
            if site.kind == "self"
        }

    def stream(self, name: str) -> str:
        """Which stream's positions the tensor at this residual hook point has."""
        site = self.blocks.get(name)
        return "tgt" if site is None else site.query_stream

    def run(self, rows: Rows) -> dict[str, Tensor]:
        """The residual stream after every block, and the logits, each [batch, pos, ...]."""
        return self._record(rows, lambda name: name in self.blocks or name == "hook_logits")

    def weights(self, site: AttentionSite, rows: Rows) -> Float[Tensor, "batch head query key"]:
        """How much of each key's value reaches each query of a site: its weights, from outside.

        Value vectors are replaced by one-hot marks; z then holds the weights themselves, with no
        difference taken, so a weight of 1e-300 is told from 0.
        """
        n_key, d_head = rows.valid(site.key_stream).shape[1], self.config.d_head
        hook, parts = site.hook("z"), []
        for first in range(0, n_key, d_head):
            marks = {site.hook("v"): partial(_marked, first=first)}
            parts.append(self._record(rows, lambda name: name == hook, marks)[hook])
        return torch.cat(parts, dim=-1)[..., :n_key]

    def stepwise(self, rows: Rows) -> Float[Tensor, "batch tgt vocab"]:
        """The logits, one target position after another, with the cache."""
        cache = KVCache(self.config.n_layers)
        steps = []
        with torch.inference_mode(), visiting(self._visitor(rows, lambda name: False)):
            memory = None if rows.src is None else self.model.encode(rows.src, rows.src_valid)
            for end in range(1, rows.tgt.shape[1] + 1):
                new, valid = rows.tgt[:, end - 1 : end], rows.tgt_valid[:, :end]
                if memory is None:
                    steps.append(self.model(new, valid, cache))
                else:
                    steps.append(self.model.decode(new, memory, rows.src_valid, valid, cache))
        return torch.cat(steps, dim=1)

    def _record(
        self,
        rows: Rows,
        wants: Callable[[str], bool],
        marks: Mapping[str, Callable[[Tensor], Tensor]] | None = None,
    ) -> dict[str, Tensor]:
        record = self._visitor(rows, wants, marks)
        with torch.inference_mode(), visiting(record):
            if rows.src is None:
                self.model(rows.tgt, rows.tgt_valid)
            else:
                self.model(rows.src, rows.tgt, rows.src_valid, rows.tgt_valid)
        return record.activations

    def _visitor(
        self,
        rows: Rows,
        wants: Callable[[str], bool],
        marks: Mapping[str, Callable[[Tensor], Tensor]] | None = None,
    ) -> Record:
        functions = self.interference(rows).functions if self.interference else {}
        return Record(wants, Edits({**functions, **(marks or {})}))


def _marked(v: Tensor, first: int) -> Tensor:
    """Values [batch, kv_head, key, d_head] in which key first + i has a 1 at feature i only."""
    n_key, d_head = v.shape[2:]
    eye = torch.eye(n_key, n_key + d_head, dtype=v.dtype)
    return eye[:, first : first + d_head].expand(v.shape).contiguous()
