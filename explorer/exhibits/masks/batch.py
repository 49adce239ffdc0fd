"""Sentences that share a padded batch: are their numbers the same as alone?"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.block import escape
from explorer.library import LoadedModel
from explorer.numbers import number
from explorer.runs.edits import Edit
from explorer.runs.generation import translate
from explorer.runs.inputs import given_tokens, rows_of, str_tokens, target_row
from explorer.runs.interventions import edit_functions
from explorer.runs.run import run
from explorer.text import shorten
from models.rows import Rows

NOTICED = 5e-5
"""The smallest change of a weight that counts as more than float32 rounding."""


@dataclass(frozen=True, eq=False)
class Member:
    """One sentence of a batch, under the same edits alone and in it.

    `src_str_tokens` and `tgt_str_tokens` are its sequences in the batch, including padding. The
    target is the start token and the translation of the sentence alone. A model without an encoder
    has no source; its target is the text itself, and `alone` and `together` are "" instead of the
    translations. `weight_moved` is the largest change of any attention weight between real tokens.
    """

    text: str
    src_str_tokens: tuple[str, ...]
    tgt_str_tokens: tuple[str, ...]
    src_pads: int
    tgt_pads: int
    alone: str
    together: str
    weight_moved: float


def batch(
    loaded: LoadedModel, text: str, others: Sequence[str], edits: Sequence[Edit] = ()
) -> tuple[Member, ...]:
    """Put sentences into one batch, padded on the right to the longest, and read each also alone.

    Raises InputProblem: as `given_tokens` and `target_row`.
    """
    texts = (text, *others)
    alone = [_alone(loaded, text, edits) for text in texts]
    together = Rows.of(
        [row for row, _, _ in alone], [source for _, source, _ in alone], loaded.marks
    )
    whole = _run(loaded, together, edits)
    members = []
    for index, (text, (row, source, tokens)) in enumerate(zip(texts, alone, strict=True)):
        single = _run(loaded, rows_of(loaded, source or row, row), edits)
        n_pads = {
            stream: int((~together.valid(stream)[index]).sum()) for stream in loaded.model.reads
        }
        rewritten = tokens
        if source:
            # Generate each sentence by itself, with the source padding that it has in the batch:
            # finished sentences leave a decoding batch.
            rewritten, _ = translate(loaded, source, edits, n_pads["src"])
        members.append(
            Member(
                text=text,
                src_str_tokens=str_tokens(loaded, together, "src", index),
                tgt_str_tokens=str_tokens(loaded, together, "tgt", index),
                src_pads=n_pads.get("src", 0),
                tgt_pads=n_pads["tgt"],
                alone=loaded.tokenizer.decode(tokens),
                together=loaded.tokenizer.decode(rewritten),
                weight_moved=max(_moved(single[hook][0], whole[hook][index]) for hook in whole),
            )
        )
    return tuple(members)


def _alone(
    loaded: LoadedModel, text: str, edits: Sequence[Edit]
) -> tuple[tuple[int, ...], tuple[int, ...], list[int]]:
    """For one sentence: the token ids whose logits are read, its source, and its translation."""
    if not loaded.config.reads_source:
        return given_tokens(loaded, text), (), []
    source = given_tokens(loaded, text)
    tokens, _ = translate(loaded, source, edits)
    return target_row(loaded, tokens), source, tokens


def _run(loaded: LoadedModel, rows: Rows, edits: Sequence[Edit]) -> dict[str, Tensor]:
    """One forward pass of the batch: all patterns [batch, head, query, key]."""
    wanted = {site.hook("pattern") for site in loaded.sites}
    changes = edit_functions(loaded.sites, edits, rows.src_valid, rows.tgt_valid)
    return run(loaded.model, rows, wanted, changes)


def _moved(alone: Tensor, in_batch: Tensor) -> float:
    """The largest difference; padding at the end of the axes of `in_batch` is ignored."""
    for axis, size in enumerate(alone.shape):
        in_batch = in_batch.narrow(axis, 0, size)
    return float((alone - in_batch).abs().max())


def show(members: tuple[Member, ...], view: View) -> b.Blocks:
    """Each of the sentences alone and in the batch."""
    yield b.Title(view.t("masks.batch"))
    worst = max(members, key=lambda member: member.weight_moved)
    words = view.t(
        "masks.batch_moved" if worst.weight_moved >= NOTICED else "masks.batch_same",
        points=f"{100 * worst.weight_moved:.1f}",
        text=f"“{escape(shorten(worst.text, 40))}”",
        exact=number(worst.weight_moved),
    )
    yield b.Sentence("batch", words)
    yield _table(view, members)
    yield b.Code((batch,))


def _table(view: View, members: tuple[Member, ...]) -> b.Table:
    translates = bool(view.sites_of("cross"))
    names = ["sentence", "text_pads", "moved_head"]
    if translates:
        names = ["sentence", "pads", "alone", "together", "moved_head"]
    rows = []
    for member in members:
        same = member.alone == member.together
        together = escape(member.together)
        cells = [
            escape(member.text),
            f"{member.src_pads} + " * translates + str(member.tgt_pads),
            *((escape(member.alone), together if same else f"**{together}**") * translates),
            f"{100 * member.weight_moved:.1f}",
        ]
        rows.append(cells)
    head = [view.t("masks.columns", name) for name in names]
    return b.Table(head, rows, "l" * (len(names) - 1) + "r")


EXHIBIT = Exhibit(batch, show, open=lambda view: bool(view.others))
