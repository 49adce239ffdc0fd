"""A trace: one sentence, one run of the shared model, all data that pages show. NumPy only."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from explorer.library import LoadedModel
from explorer.runs.activations import Activations, Read, survey
from explorer.runs.edits import Edit
from explorer.runs.generation import Candidate, Generation, GenerationStep, generate, translate
from explorer.runs.inputs import (
    MAX_PADS,
    MAX_TOKENS,
    checked_number,
    continued_tokens,
    given_tokens,
    rows_of,
    target_row,
    target_tokens,
)
from explorer.runs.interventions import fits
from explorer.runs.sentences import MAX_CHARS, clean_text
from models.config import ModelConfig
from models.hooks import LOGITS, AttentionSite, Role, StackSite
from models.marks import OUR_MARKS, Marks
from models.rows import as_tokens

__all__ = [
    "MAX_CHARS",
    "MAX_PADS",
    "MAX_TOKENS",
    "Candidate",
    "Generation",
    "GenerationStep",
    "Trace",
    "generate",
    "trace",
]


@dataclass(frozen=True, eq=False)
class Trace:
    """The result of one run of a model on one sentence; read-only arrays without a batch axis.

    `tgt_tokens` is the sequence that the logits belong to: the start token, then the translation. A
    model of one text has that text there, and no source.
    `activations[hook name]`: scores, mask, pattern [head, query, key]; q, z [head, query, d_head];
    k, v [kv_head, key, d_head]; the residual stream and what is added to it [pos, d_model].
    Masks are as the model applied them, edits included. `runs.activations` decides which of them
    are stored, and which are recomputed on request.
    """

    model: str
    config: ModelConfig
    text: str
    src_tokens: tuple[int, ...]
    src_str_tokens: tuple[str, ...]
    tgt_tokens: tuple[int, ...]
    tgt_str_tokens: tuple[str, ...]
    src_valid: np.ndarray
    tgt_valid: np.ndarray
    stacks: tuple[StackSite, ...]
    sites: tuple[AttentionSite, ...]
    activations: Activations | dict[str, np.ndarray] = field(repr=False)
    output: str = ""  # the translation; "" for a decoder-only model
    edits: tuple[Edit, ...] = ()  # those in force
    ignored_edits: tuple[Edit, ...] = ()  # those that name a site, head or cell not in this run
    unknown: tuple[str, ...] = ()  # characters of the text that the vocabulary lacks
    finished: bool = True  # False: the translation was cut off before its end mark
    predicted_tokens: tuple[int, ...] = ()  # the most probable token at each position
    predicted_str_tokens: tuple[str, ...] = ()
    marks: Marks = OUR_MARKS
    without_sinks: bool = False  # patterns without sinks, renormalised (`analysis.heads.sinks`)

    @property
    def predicts(self) -> Literal["next", "same"] | None:
        """The token that a position's logits predict."""
        return "next" if self.config.generates else "same" if self.config.fills else None

    @property
    def masked(self) -> tuple[int, ...]:
        """The positions of the mask tokens that the model fills in."""
        real = range(int(self.tgt_valid.sum()) if self.config.fills else 0)
        return tuple(at for at in real if self.tgt_tokens[at] == self.marks.mask)

    @property
    def logits(self) -> np.ndarray:
        """The logits of every position of `tgt_tokens`, float32 [tgt, vocab]."""
        return self.activations[LOGITS]

    def stack(self, stream: str) -> StackSite:
        """The stack that reads a sequence. Raises StopIteration if none does."""
        return next(stack for stack in self.stacks if stack.stream == stream)

    def blocks(self, stack: StackSite) -> list[list[AttentionSite]]:
        """The attention sublayers of each block of a stack."""
        own = [site for site in self.sites if site.stack == stack.role]
        return [[site for site in own if site.layer == layer] for layer in range(stack.n_layers)]

    def site(self, name: str) -> AttentionSite:
        """The site with this name. Raises KeyError."""
        for site in self.sites:
            if site.name == name:
                return site
        raise KeyError(f"{self.model} has no attention site {name!r}")

    def sites_of(self, role: Role) -> tuple[AttentionSite, ...]:
        """The sites of one role, first layer first; empty if the model has no such role."""
        return tuple(site for site in self.sites if site.role == role)

    def pattern(self, site: str) -> np.ndarray:
        """Attention weights of a site, float32 [head, query, key], as computed by the model."""
        return self.activations[self.site(site).hook("pattern")]

    def mask(self, site: str) -> np.ndarray:
        """The mask that a site applied, bool [head, query, key], True = may attend."""
        return self.activations[self.site(site).hook("mask")]

    @property
    def patterns_kept(self) -> bool:
        """Whether all patterns are stored, or none; then each layer is recomputed on request."""
        activations = self.activations
        kept = activations.kept if isinstance(activations, Activations) else activations
        return self.sites[0].hook("pattern") in kept

    def query_tokens(self, site: str) -> tuple[str, ...]:
        """The tokens on the query axis of a site."""
        return self.str_tokens(self.site(site).query_stream)

    def key_tokens(self, site: str) -> tuple[str, ...]:
        """The tokens on the key axis of a site."""
        return self.str_tokens(self.site(site).key_stream)

    def str_tokens(self, stream: str) -> tuple[str, ...]:
        """The labels of the tokens of a sequence."""
        return self.src_str_tokens if stream == "src" else self.tgt_str_tokens


def trace(
    loaded: LoadedModel,
    text: str,
    target: str | None = None,
    edits: Sequence[Edit] = (),
    pads: int = 0,
    read: Read | None = None,
    translated: tuple[Sequence[int], bool] | None = None,
) -> Trace:
    """Run `text` through the model once.

    A translator first translates (greedily, under the same edits) unless `target` is given; the
    Trace holds one teacher-forced pass over the start token and the translation. A model
    of one text reads `text`, then `target`. A blank target counts as none. A decoder
    without an LM head reads the text itself.

    `pads` padding tokens follow the source and the decoder's input, as in a batch with
    longer sentences; the translation itself is made with the source's padding only. Edits that
    name something that this run lacks are returned in `ignored_edits`. `read` as in
    `activations.survey`. `translated` is the result of
    `generation.translate`, if it is known.

    Raises InputProblem: as `clean_text`; `too_many_tokens`, `target_too_long`, `bad_number`.
    """
    edits = tuple(edits)
    finished, output = True, ""
    if loaded.config.reads_source:
        source = given_tokens(loaded, text)
        checked_number("pads", pads, 0, MAX_PADS)
        tokens = target_tokens(loaded, target or "")
        if not tokens:
            output_tokens, finished = translated or translate(loaded, source, edits, pads)
            tokens = list(output_tokens)
        rows = rows_of(loaded, source, target_row(loaded, tokens), pads)
        output = loaded.tokenizer.decode(tokens) if loaded.config.lm_head else ""
    else:
        rows = rows_of(loaded, continued_tokens(loaded, text, target or ""), pads=pads)
    activations, predicted = survey(loaded, rows, edits, read)
    shown = {stream: as_tokens(rows.tokens(stream)[0].tolist()) for stream in loaded.model.reads}
    labels = {stream: tuple(loaded.str_tokens(ids, stream)) for stream, ids in shown.items()}
    src, tgt = shown.get("src", ()), shown["tgt"]
    fitting = tuple(e for e in edits if fits(e, loaded.sites, len(src), len(tgt)))
    return Trace(
        model=loaded.name,
        config=loaded.config,
        text=clean_text(text),
        src_tokens=tuple(src),
        src_str_tokens=labels.get("src", ()),
        tgt_tokens=tuple(tgt),
        tgt_str_tokens=labels["tgt"],
        src_valid=rows.valid("src")[0].numpy() if src else np.zeros(0, dtype=bool),
        tgt_valid=rows.valid("tgt")[0].numpy(),
        stacks=loaded.stacks,
        sites=loaded.sites,
        activations=activations,
        output=output,
        edits=fitting,
        ignored_edits=tuple(edit for edit in edits if edit not in fitting),
        unknown=tuple(loaded.tokenizer.of("src").unknown(clean_text(text))),
        finished=finished,
        predicted_tokens=predicted,
        predicted_str_tokens=tuple(loaded.str_tokens(predicted)),
        marks=loaded.marks,
    )
