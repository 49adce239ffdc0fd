"""Speculative decoding of one text: drafted tokens, accepted tokens, and the savings.

A draft model has only read the model's own output, up to its first wrong token. So whether it is
right at a token does not depend on how many tokens it drafts at once: one pass of the draft over
the finished text gives `agree`, and `passes` counts the passes for any number of drafted tokens.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool

from explorer.engine import cache
from explorer.exhibits import Exhibit, View, block as b
from explorer.exhibits.decoding.choices import MOST_DRAFTED, DecodingChoices
from explorer.exhibits.decoding.draft import draft_of, layers_of
from explorer.exhibits.decoding.one_pass import is_open
from explorer.exhibits.decoding.spared import multiply_adds
from explorer.exhibits.escape import escape
from explorer.figures.curves import lines
from explorer.library import LoadedModel
from explorer.numbers import fixed, percent
from explorer.runs import generation
from explorer.runs.inputs import given_tokens
from explorer.runs.passes import timed
from explorer.runs.speculative import Round, first_layers, speculate
from models.config import ModelConfig
from models.decoding import best, decode
from models.pictures.patches import as_tensor
from models.strategies import Greedy
from models.transformer import Model

Progress = Callable[[int, int], object]
MOST_ROWS, MOST_TALL = 10, 400
"""A table of more rows scrolls in a box of this height in pixels."""
RUNS = 3


@dataclass(frozen=True, eq=False)
class Speculation:
    """Speculative decoding of one text compared with greedy decoding.

    `rounds` hold token ids; `drafted` and `written` are the same tokens as displayed. `same`: the
    text equals the greedy output. `agree` [token]: whether the draft, given the tokens before
    a token of the text, ranks that token first. `adds` are multiply-adds in the decoders: of greedy
    decoding (with a cache), of the model in the rounds, of the draft. `seconds`: for each of RUNS
    tries, greedy decoding and the rounds.
    """

    rounds: tuple[Round, ...]
    drafted: tuple[tuple[str, ...], ...]
    written: tuple[tuple[str, ...], ...]
    same: bool
    agree: Bool[np.ndarray, " token"]
    adds: tuple[int, int, int]
    seconds: tuple[tuple[float, ...], tuple[float, ...]]

    @property
    def n_written(self) -> int:
        """Tokens generated, which is also the number of passes of greedy decoding."""
        return sum(len(each.written) for each in self.rounds)

    @property
    def n_drafted(self) -> int:
        """Tokens drafted, which is also the number of passes of the draft."""
        return sum(len(each.drafted) for each in self.rounds)

    @property
    def n_accepted(self) -> int:
        """Drafted tokens that were accepted."""
        return sum(each.accepted for each in self.rounds)


def speculation(
    loaded: LoadedModel,
    draft: Model,
    given: tuple[int, ...],
    n_drafted: int,
    limit: int,
    progress: Progress = lambda *_: None,
) -> Speculation:
    """Decode the continuation of `given` with `n_drafted` draft tokens per round, and greedily.

    `progress(done, total)` is called once per timed decoding. Generates at most `limit` tokens,
    which must fit both models. Raises ValueError as `speculate`.
    """
    model, src = loaded.model, as_tensor([given])
    rounds = tuple(speculate(model, draft, src, n_drafted, limit))
    output = tuple(token for each in rounds for token in each.written)
    drafted, written, n = [], [], 0
    for each in rounds:
        drafted.append(_shown(loaded, output[:n], each.drafted))
        written.append(_shown(loaded, output[:n], each.written))
        n += len(each.written)
    n_start, n_src = model.begin(src).tgt.shape[1], len(given)
    return Speculation(
        rounds=rounds,
        drafted=tuple(drafted),
        written=tuple(written),
        same=best(decode(model, src, Greedy(), limit))[0].tokens == output,
        agree=agreement(draft, src, output),
        adds=(
            adds(model.config, draft.config, n_src, n_start, _one_by_one(n))[0],
            *adds(model.config, draft.config, n_src, n_start, rounds),
        ),
        seconds=_seconds(model, draft, src, n_drafted, limit, progress),
    )


def _shown(
    loaded: LoadedModel, before: tuple[int, ...], tokens: tuple[int, ...]
) -> tuple[str, ...]:
    return tuple(loaded.str_tokens([*before, *tokens])[len(before) :])


def _one_by_one(n: int) -> tuple[Round, ...]:
    """The rounds of greedy decoding, without drafted tokens."""
    return (Round((), (0,), 0),) * n


@torch.inference_mode()
def agreement(
    draft: Model, given: torch.Tensor, output: tuple[int, ...]
) -> Bool[np.ndarray, " token"]:
    """Whether each token of `output` is the draft's best after the tokens before it."""
    begin = draft.begin(given)
    row = torch.cat((begin.tgt, torch.tensor([output[:-1]], dtype=torch.long)), dim=1)
    chosen = draft.read(replace(begin, tgt=row))[0, -len(output) :].argmax(-1)
    agree: np.ndarray = (chosen == torch.tensor(output)).numpy()
    return agree


def passes(agree: Bool[np.ndarray, " token"], n_drafted: int) -> int:
    """Rounds for a text with `n_drafted` tokens per round: each is a right run and one token."""
    n, rounds = 0, 0
    while n < len(agree):
        run = agree[n : n + n_drafted]
        n += (len(run) if run.all() else int(run.argmin())) + 1
        rounds += 1
    return rounds


def adds(
    model: ModelConfig, draft: ModelConfig, n_src: int, n_start: int, rounds: tuple[Round, ...]
) -> tuple[int, int]:
    """Multiply-adds (`multiply_adds`) of the model and of the draft for these rounds.

    `n_start` tokens precede the output. Both models use a cache, and read the tokens after the
    first wrong one again.
    """
    of_model = of_draft = in_model = in_draft = n = 0
    for each in rounds:
        for i in range(len(each.drafted)):
            length = n_start + n + i
            of_draft += multiply_adds(draft, n_src, in_draft, length - in_draft)
            in_draft = length
        length = n_start + n + len(each.drafted)
        of_model += multiply_adds(model, n_src, in_model, length - in_model)
        right = n_start + n + each.accepted
        in_model, in_draft = right, min(in_draft, right)
        n += len(each.written)
    return of_model, of_draft


def _seconds(
    model: Model, draft: Model, given: torch.Tensor, n_drafted: int, limit: int, progress: Progress
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The times of the loop without drafting and with `n_drafted` tokens, alternating."""
    taken: tuple[list[float], list[float]] = ([], [])
    for run in range(RUNS):
        for at, (k, times) in enumerate(zip((0, n_drafted), taken, strict=True)):
            progress(2 * run + at, 2 * RUNS)
            times.append(sum(_times_of(speculate(model, draft, given, k, limit))))
    return tuple(taken[0]), tuple(taken[1])


def _times_of(rounds: Iterator[Round]) -> Iterator[float]:
    """The seconds of each round; yields to other sessions between rounds."""
    while True:
        seconds, one = timed(lambda: next(rounds, None))
        if one is None:
            return
        yield seconds


def compute(
    loaded: LoadedModel, text: str, draft: str, ahead: int, limit: int, progress: Progress
) -> Speculation | None:
    """Up to the length limits of both models; None without a draft. Raises InputProblem."""
    if not draft:
        return None
    kept = layers_of(draft)
    other = loaded if kept else cache.open_model(draft)
    drafting = first_layers(loaded.model, kept) if kept else other.model
    most = min(limit, generation.room(loaded, text), generation.room(other, text))
    return speculation(loaded, drafting, given_tokens(loaded, text), ahead, most, progress)


def show(found: Speculation | None, view: View) -> b.Blocks:
    """The rounds, the saved passes, and tokens per pass by number of draft tokens."""
    if found is None:
        return
    yield _rounds(view, found)
    yield b.Sentence("speculation", _reading(view, found))
    yield from _by_number(view, found)
    yield b.Formula.of(
        view.t("speculation.formula"),
        r"o_i = \arg\max_y\; p(y \mid x,\, y_{<t},\, d_1 \ldots d_i), \qquad "
        r"n = \min\{\, i : d_{i+1} \neq o_i \,\}, \qquad y_t \ldots y_{t+n} = o_0 \ldots o_n",
        r"\mathbb{E}[n + 1] = \frac{1 - \alpha^{k+1}}{1 - \alpha}",
    )
    yield b.Code((speculate, first_layers, speculation))
    yield b.Numbers(
        lambda: {
            view.t("speculation.round"): list(range(1, len(found.rounds) + 1)),
            view.t("speculation.drafted"): [" ".join(each) for each in found.drafted],
            view.t("speculation.accepted"): [each.accepted for each in found.rounds],
            view.t("speculation.written"): [" ".join(each) for each in found.written],
        }
    )


def _rounds(view: View, found: Speculation) -> b.Pane:
    """One line per round: the draft's tokens, accepted or struck out, and the model's own token."""
    rows, n = [], 0
    for index, each in enumerate(found.rounds):
        drafted, written = found.drafted[index], found.written[index]
        right = [f":green[{escape(token)}]" for token in drafted[: each.accepted]]
        wrong = [f":gray[~~{escape(token)}~~]" for token in drafted[each.accepted :]]
        own = [f":orange[**{escape(token)}**]" for token in written[each.accepted :]]
        n += len(written)
        rows.append((str(index + 1), " ".join([*right, *wrong]), " ".join(own), str(n)))
    names = ("speculation.round", "speculation.drafted", "speculation.own", "speculation.so_far")
    head = [view.t(name) for name in names]
    return b.Pane(
        (b.Table(head, rows, "rllr"),), height=MOST_TALL if len(rows) > MOST_ROWS else None
    )


def _reading(view: View, found: Speculation) -> str:
    greedy, model, draft = found.adds
    slow, quick = (min(each) for each in found.seconds)
    words = view.t(
        "speculation.reading" if found.same else "speculation.reading_differs",
        written=found.n_written,
        passes=len(found.rounds),
        rate=fixed(found.n_written / len(found.rounds)),
        drafted=found.n_drafted,
        accepted=found.n_accepted,
        share=percent(found.n_accepted / max(found.n_drafted, 1)),
    )
    cost = view.t(
        f"speculation.{_pace(*found.seconds)}",
        adds=fixed((model + draft) / greedy),
        times=fixed(max(slow, quick) / min(slow, quick)),
        tries=RUNS,
        rate=percent(1 / math.comb(2 * RUNS, RUNS)),
        slow=f"{1000 * slow:.0f}",
        quick=f"{1000 * quick:.0f}",
    )
    return f"{words} {cost}"


def _pace(greedy: tuple[float, ...], rounds: tuple[float, ...]) -> str:
    """Whether speculative decoding was faster or slower in all runs than greedy decoding in any."""
    if max(rounds) < min(greedy):
        return "faster"
    return "slower" if min(rounds) > max(greedy) else "alike"


def _by_number(view: View, found: Speculation) -> b.Blocks:
    """Tokens per pass for each number of draft tokens, measured and by the formula."""
    numbers = np.arange(1, MOST_DRAFTED + 1)
    counted = [len(found.agree) / passes(found.agree, int(k)) for k in numbers]
    chance = float(found.agree.mean())
    curve = [sum(chance**i for i in range(int(k) + 1)) for k in numbers]
    title = view.t("speculation.by_number")
    yield b.Note(title)
    draw = partial(
        lines,
        numbers,
        np.array([counted, curve]),
        [view.t("speculation.counted"), view.t("speculation.expected", share=percent(chance))],
        **view.axes("speculation.ahead", "speculation.rate"),
        marked_x=float(view.choices(DecodingChoices).ahead),
        height=280,
    )
    yield b.Chart("speculation.by_number", draw, title)


EXHIBIT = Exhibit(
    compute,
    show,
    inputs={"draft": draft_of},
    open=is_open,
    after="decoding.film",
    working="speculation.working",
)
