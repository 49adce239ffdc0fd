"""Which of a model's own continuations a reader prefers, and the objective that follows from it.

A reader marked, in texts that a model wrote after the beginnings of stories, the first sentence
that breaks sense. Of two texts with the same beginning, the one that keeps sense longer is the
better one. Direct preference optimization (Rafailov et al. 2023, arXiv 2305.18290, eq. 7) makes it
the likelier one, measured from where the model stood before; the better one's own likelihood is
kept up beside that (Pang et al. 2024, Iterative Reasoning Preference Optimization, arXiv
2404.19733, eq. 1).
"""

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.home import data
from models.tokenizer import Tokenizer
from models.training.data import Batch, pad
from models.training.forcing import forward
from models.training.loss import preference_loss
from models.transformer import DecoderOnly

JUDGED = data("models.training", "judged")
LEAD = 8  # tokens: by so many the better one keeps sense longer
LIKELIHOOD = 0.2  # what a nat per token of the better one counts beside the preference
PAIRS = 16  # of one step, over all processes


@dataclass(frozen=True)
class Judged:
    """What a model wrote after the first `given` tokens of a story, as far as it was judged."""

    story: int  # in the training file, from 0: the text itself is not ours to keep
    given: int
    kept: str  # the sentences that keep sense, exactly as they follow what was given
    broken: str  # the first one that does not; empty where all of them do


@dataclass(frozen=True)
class Preference:
    """Two continuations of one beginning in token ids (no bos): the first keeps sense longer."""

    given: tuple[int, ...]
    better: tuple[int, ...]
    worse: tuple[int, ...]


def read_judged(name: str) -> list[Judged]:
    """The judgements of that name, or of a file: one JSON object a line, the fields of `Judged`.

    Raises ValueError where there are none.
    """
    path = JUDGED / f"{name}.jsonl"
    if not path.is_file():
        path = Path(name)
    if not path.is_file():
        known = ", ".join(sorted(path.stem for path in JUDGED.glob("*.jsonl")))
        raise ValueError(f"no judgements {name!r}: it must be a file, or one of {known}")
    return [Judged(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def preferences_of(
    judged: Sequence[Judged], texts: Sequence[str], tokenizer: Tokenizer
) -> list[Preference]:
    """Every two texts of one beginning of which one keeps sense clearly longer (`LEAD`).

    And the story itself is better than the text that breaks first: so that what the model never
    writes has a chance too, and not only its own best habits. Each ends where its judgement does:
    the better one with its last sentence that keeps sense, the worse one with the sentence that
    breaks it, the story with a sentence after as much. Raises ValueError for a judgement of a
    story, or of more of its tokens, than `texts` has.
    """
    read: dict[tuple[int, tuple[int, ...]], list[tuple[list[int], list[int]]]] = defaultdict(list)
    for one in judged:
        ids = tokenizer.encode(texts[one.story]) if one.story < len(texts) else []
        if len(ids) < one.given:
            raise ValueError(
                f"{one.given} tokens of story {one.story} were judged with what follows them, but "
                f"this text has {len(texts)} stories, and {len(ids)} tokens there: it must be the "
                "text that was judged"
            )
        given = tuple(ids[: one.given])
        kept = tokenizer.decode(given) + one.kept
        good, whole = tokenizer.encode(kept), tokenizer.encode(kept + one.broken)
        # Cut within a word, a text can go on in pieces that its whole is not read in.
        if tuple(good[: one.given]) == given == tuple(whole[: one.given]):
            read[one.story, given].append((good[one.given :], whole[one.given :]))
    pairs = []
    for (story, start), rows in read.items():
        broken = [(good, whole) for good, whole in rows if len(whole) > len(good)]
        pairs += [
            (start, better, worse)
            for better, _ in rows
            for good, worse in broken
            if len(better) >= len(good) + LEAD
        ]
        if broken:
            first = min(broken, key=lambda row: len(row[0]))[1]
            itself = tokenizer.encode(texts[story])[len(start) :]
            if itself:
                pairs.append((start, _to_sentence_end(itself, len(first), tokenizer), first))
    return [Preference(start, tuple(better), tuple(worse)) for start, better, worse in pairs]


def _to_sentence_end(ids: list[int], least: int, tokenizer: Tokenizer) -> list[int]:
    """The first `least` of these tokens, and as many more as the sentence goes on."""
    for n in range(least, len(ids)):
        if tokenizer.decode(ids[:n]).endswith((".", "!", "?", '"')):
            return ids[:n]
    return ids


def pairs_of_step(
    pairs: Sequence[Preference], step: int, seed: int, share: tuple[int, int] = (0, 1)
) -> list[Preference]:
    """The `PAIRS` of a step, each as often as the others in the long run.

    They follow from step and seed alone, as a resumed run needs it. `share` (i, n) gives the i-th
    of n processes its part.
    """
    part, n_parts = share
    places = range(step * PAIRS + part, (step + 1) * PAIRS, n_parts)
    orders: dict[int, list[int]] = {}
    for turn in {place // len(pairs) for place in places}:
        orders[turn] = list(range(len(pairs)))
        random.Random(f"{seed}/{turn}").shuffle(orders[turn])
    return [pairs[orders[place // len(pairs)][place % len(pairs)]] for place in places]


def preference_objective(
    model: nn.Module, reference: DecoderOnly, pairs: Sequence[Preference]
) -> Float[Tensor, ""]:
    """The preference loss of the pairs and `LIKELIHOOD` of the better ones' mean loss, summed.

    `reference` is the model as it was before this training; no gradient reaches it. Both should be
    in eval mode: what dropout does to a text's likelihood says nothing about the text.
    """
    config = reference.config
    rows = [(config.bos_id, *pair.given, *pair.better) for pair in pairs]
    rows += [(config.bos_id, *pair.given, *pair.worse) for pair in pairs]
    tokens, valid = pad([row[: config.n_ctx + 1] for row in rows], config.pad_id)
    n_given = torch.tensor([len(pair.given) for pair in pairs] * 2)
    written = valid[:, 1:] & (torch.arange(valid.shape[1] - 1) >= n_given[:, None])
    batch = Batch(
        None, None, tokens[:, :-1], valid[:, :-1], tokens[:, 1:], written, int(written.sum())
    ).to(next(reference.parameters()).device)

    def log_likelihood(of: nn.Module) -> Tensor:
        log_p = forward(of, batch).float().log_softmax(-1)
        return (log_p.gather(-1, batch.labels[..., None])[..., 0] * batch.loss_mask).sum(1)

    with torch.no_grad():
        before = log_likelihood(reference)
    now = log_likelihood(model)
    better, worse = (now - before).chunk(2)
    of_better = slice(0, len(pairs))
    mean_loss = -now[of_better] / batch.loss_mask[of_better].sum(1)
    return preference_loss(better, worse) + LIKELIHOOD * mean_loss.sum()
