"""The self-check: every promise of the certificate in its quick form, on a few tokens.

What the full certificate does on the visitor's sentence, in a copy of the model in float64 and one
attention site after the other, this does on at most N_TOKENS tokens, in the shared model's own
precision, and at all sites at once: some forty short passes, whatever the number of layers. A fault
that shows only on longer texts (a window, say) or below the rounding of float32 is left to it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from explorer.analysis.certificate.certify import Examination
from explorer.analysis.certificate.probe import Interference, Probe, Subject, marked
from explorer.library import LoadedModel
from explorer.text import examples
from models.config import ModelConfig
from models.hooks import AttentionSite, Change
from models.rows import Rows

N_TOKENS = 4
"""Tokens besides the marks: enough for a future of several tokens and a row between two others."""


@dataclass(frozen=True)
class SelfCheck:
    """How many promises were put to the test, and the names of those that are broken."""

    tested: int
    broken: tuple[str, ...]

    @property
    def kept(self) -> int:
        """How many promises were kept."""
        return self.tested - len(self.broken)


class QuickProbe(Probe):
    """A probe of the shared model itself, which recovers the weights of all sites in one run.

    Values are replaced at every site and add nothing to the stream, so later sites read one that no
    sentence gives. What the certificate demands of weights holds for any stream.
    """

    def __init__(
        self, model: Subject, config: ModelConfig, interference: Interference | None = None
    ) -> None:
        super().__init__(model, config, interference, exact=False)
        if isinstance(model, nn.Module):
            self.precision = next(model.parameters()).dtype
        self._of_all: dict[bool, dict[str, Tensor]] = {}

    def weights(self, site: AttentionSite, rows: Rows, zero_queries: bool = False) -> Tensor:
        if zero_queries not in self._of_all:
            self._of_all[zero_queries] = self._weights(rows, zero_queries)
        n_key = rows.valid(site.key_stream).shape[1]
        return self._of_all[zero_queries][site.name][..., :n_key]

    def _weights(self, rows: Rows, zero_queries: bool) -> dict[str, Tensor]:
        longest = max(rows.valid(site.key_stream).shape[1] for site in self.sites)
        hooks = {site.hook("z"): site.name for site in self.sites}
        parts: dict[str, list[Tensor]] = {name: [] for name in hooks.values()}
        for first in range(0, longest, self.config.d_head):
            changes: dict[str, Change] = {}
            for site in self.sites:
                changes[site.hook("v")] = marked(first)
                # Nothing that stands for values may reach the stream: where a run cannot hold the
                # marks of all keys, a later site must have the same weights in the next one.
                out = "attn_out" if site.kind == "self" else "cross_attn_out"
                changes[site.block_hook(out)] = torch.zeros_like
                if zero_queries:
                    changes[site.hook("q")] = torch.zeros_like
            for hook, z in self.record(rows, hooks.__contains__, changes).items():
                parts[hooks[hook]].append(z)
        return {name: torch.cat(found, dim=-1) for name, found in parts.items()}


def self_check(
    loaded: LoadedModel,
    interference: Interference | None = None,
    step: Callable[[], None] = lambda: None,
) -> SelfCheck:
    """Put every promise of a model to the test, quickly. `interference` plants edits in each run.

    The model is not changed, and may be used by others meanwhile. `step` is called before each
    promise.
    """
    ids = _tokens(loaded)
    model = loaded.model
    src = model.with_marks("src", ids) if "src" in model.reads else ()
    tgt = model.with_marks("tgt", ids)
    examination = Examination(model, loaded.config, src, tgt, interference, probe=QuickProbe)
    for name in examination.names:
        step()
        examination.finding(name)
    findings = examination.certificate().findings
    return SelfCheck(len(findings), tuple(each.name for each in findings if not each.passed))


def _tokens(loaded: LoadedModel) -> list[int]:
    """The first tokens of the model's own example; where it makes none of it, any ordinary ones."""
    sentence = next(iter(examples(loaded.name).values()))[0]
    found = [
        token
        for token in loaded.tokenizer.encoded(sentence)
        if not loaded.tokenizer.is_special(token)
    ]
    every = (token for token in range(loaded.config.vocab_size) if token not in loaded.marks)
    return found[:N_TOKENS] or [token for token, _ in zip(every, range(N_TOKENS), strict=False)]
