"""The logit lens: the model's prediction if it stopped after a sublayer (nostalgebraist 2020).

The stream after each sublayer goes through the final norm, if there is one, and the unembedding, as
if no sublayer followed. After the last sublayer this is the model's own prediction. Earlier
readings may mislead: the model was not trained to be read there, and the stream may have another
scale or basis. So each depth is compared with the prediction by KL(answer || lens) in nats, next to
the KL of the uniform distribution over all words.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from explorer.analysis.attribution.writers import points
from explorer.engine import cache
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.attribution.choices import AttributionChoices
from explorer.exhibits.attribution.place import opening
from explorer.exhibits.attribution.words import position_of, token_name
from explorer.exhibits.exhibit import OUTPUT
from explorer.exhibits.picking import pick_one, titled, toggle
from explorer.exhibits.saying import message, quoted, quoted_at
from explorer.figures.attribution import depths
from explorer.figures.curves import lines
from explorer.figures.frame import Figure
from explorer.figures.matrix import Axis
from explorer.labels import SpecialToken
from explorer.library import LoadedModel
from explorer.numbers import digits, fixed, percent
from explorer.problems import InputProblem
from explorer.runs.edits import Edit
from explorer.runs.generation import Generation
from explorer.runs.interventions import edit_functions
from explorer.runs.passes import Steps
from explorer.runs.rerun import require_same_model
from explorer.runs.run import run
from explorer.runs.trace import Trace
from models.foreign.placing import inside
from models.hooks import StackSite
from models.rows import Rows, as_tensor, as_tokens
from models.strategies import Greedy
from models.transformer import Stack

N_WORDS = 5
MOST_LOGITS = 16_000_000
"""Logits computed together, so that a large unembedding is read from memory only once."""
What = Literal["embedding", "attn", "cross", "ffn"]


@dataclass(frozen=True)
class Depth:
    """A point of the stream: after which sublayer of which layer (None: before the first)."""

    what: What
    layer: int | None = None


@dataclass(frozen=True, eq=False)
class Lens:
    """The lens at each depth, for some positions of a text.

    `tokens` and `probs` [depth, place, word] are the most probable words, in descending order.
    `answer` [place] is the model's own top word; `ranks` and `shares` are its rank (from 1) and
    probability at each depth. `kl` is KL(answer || lens) in nats, `blind` [place] the KL of the
    uniform distribution; `sizes` [depth, place] is the stream's root mean square before any final
    norm.
    """

    depths: tuple[Depth, ...]
    tokens: Int[np.ndarray, "depth place word"]
    probs: Float[np.ndarray, "depth place word"]
    answer: Int[np.ndarray, " place"]
    ranks: Int[np.ndarray, "depth place"]
    shares: Float[np.ndarray, "depth place"]
    kl: Float[np.ndarray, "depth place"]
    blind: Float[np.ndarray, " place"]
    sizes: Float[np.ndarray, "depth place"] = field(repr=False)

    @property
    def misleads(self) -> tuple[int, ...]:
        """The depths at which the lens is, on average over positions, further from the prediction
        than the uniform distribution."""
        worse = self.kl.mean(1) > self.blind.mean()
        return tuple(np.flatnonzero(worse).tolist())

    @property
    def agree(self) -> Int[np.ndarray, " depth"]:
        """The number of positions at which the lens ranks the predicted word first."""
        return (self.ranks == 1).sum(1)

    def settled(self, place: int) -> int:
        """The depth from which on the predicted word stays first at this position."""
        others = np.flatnonzero(self.ranks[:, place] > 1)
        return int(others[-1]) + 1 if len(others) else 0


def lens(loaded: LoadedModel, traced: Trace) -> Steps[Lens]:
    """The lens at every real position of the sequence that the logits belong to.

    Raises ValueError for a model without logits, and for another model's Trace.
    """
    require_same_model(loaded, traced)
    _require_logits(loaded)
    stack, n_real = traced.stacks[-1], int(traced.tgt_valid.sum())
    hooks = points(loaded, stack)
    streams = (torch.tensor(traced.activations[hook][:n_real]) for hook in hooks)
    return (yield from _read(loaded, stack, streams))


def film(loaded: LoadedModel, generation: Generation) -> Steps[Lens]:
    """The lens at every decoding step, at the position where its word was predicted.

    A causal model cannot attend to later tokens, so one pass over the whole output covers every
    step. If an edit lets it, or if masked words are filled in, each step is a row of its own.
    Raises ValueError for a model without logits.
    """
    _require_logits(loaded)
    stack = loaded.stacks[-1]
    hooks = points(loaded, stack)
    rows, row, places = _rows(loaded, generation)
    changes = edit_functions(loaded.sites, generation.edits, rows.src_valid, rows.tgt_valid)
    seen = run(loaded.model, rows, set(hooks), changes)
    return (yield from _read(loaded, stack, (seen[hook][row, places] for hook in hooks)))


def _require_logits(loaded: LoadedModel) -> None:
    if not loaded.config.lm_head:
        raise ValueError(f"{loaded.name} has no LM head")


def depths_of(loaded: LoadedModel, stack: StackSite) -> tuple[Depth, ...]:
    """The depths of a stack's stream, in the order of `points`."""
    whats: tuple[What, ...] = ("attn", "cross", "ffn") if stack.reads_too else ("attn", "ffn")
    behind = [Depth(what, layer) for layer in range(stack.n_layers) for what in whats]
    return Depth("embedding"), *behind


def _rows(loaded: LoadedModel, generation: Generation) -> tuple[Rows, list[int], list[int]]:
    """The rows to read for the steps of a decoding, and each step's row index and position."""
    inputs, output = generation.given, generation.tokens
    begun = loaded.model.begin(as_tensor([inputs]))
    first, steps = begun.tgt[0].tolist(), range(len(output))
    if loaded.config.fills:
        texts = [loaded.model.whole(inputs, output[:step]) for step in steps]
        places = [generation.steps[step].position for step in steps]
    elif generation.edits:
        texts = [(*first, *output[:step]) for step in steps]
        places = [len(text) - 1 for text in texts]
    else:
        texts, places = [(*first, *output[:-1])], [len(first) - 1 + step for step in steps]
    source = None if begun.src is None else [as_tokens(begun.src[0].tolist())] * len(texts)
    row = list(steps) if len(texts) > 1 else [0] * len(places)
    return Rows.of(texts, source, loaded.marks), row, places


def _read(
    loaded: LoadedModel, stack: StackSite, streams: Iterable[Float[Tensor, "place d_model"]]
) -> Steps[Lens]:
    """Compute the lens from the streams of all depths; the last depth gives the prediction."""
    module = cast(Stack, loaded.model.get_submodule(stack.name))
    depths = depths_of(loaded, stack)
    at_depth, steps = [], 2 * len(depths)
    for stream in streams:  # may be recomputed on each iteration
        at_depth.append(stream)
        yield len(at_depth), steps

    def log_probs(stream: Tensor) -> Tensor:
        """[depth, place, d_model] -> [depth, place, word]."""
        read = module.final_norm(inside(loaded.model, stream))
        return loaded.model.logits_of(read).float().log_softmax(-1)

    read_out: list[tuple[np.ndarray, ...]] = []
    with torch.inference_mode():
        prediction = log_probs(at_depth[-1][None])[0]
        answer, chances = prediction.argmax(-1, keepdim=True), prediction.exp()
        entropy = -(chances * prediction).sum(-1)
    together = max(1, MOST_LOGITS // prediction.numel())
    for first in range(0, len(depths), together):
        with torch.inference_mode():
            part = torch.stack(at_depth[first : first + together])
            here = log_probs(part)
            if first + together >= len(depths):
                here[-1] = prediction  # equal up to the rounding of another matrix product
            of_answer = here.gather(-1, answer.expand(len(here), -1, 1))
            best = here.topk(min(N_WORDS, here.shape[-1]), sorted=True)
            kl = (chances * (prediction - here)).sum(-1).clamp(min=0)
            rank = 1 + (here > of_answer).sum(-1)
            size = part.double().pow(2).mean(-1).sqrt()
            kept = best.indices, best.values.exp(), rank, of_answer[..., 0].exp(), kl.double(), size
            read_out.append(tuple(tensor.numpy() for tensor in kept))
        yield len(depths) + min(first + together, len(depths)), steps
    joined = [np.concatenate(parts) for parts in zip(*read_out, strict=True)]
    tokens, probs, ranks, shares, kl_of, sizes = joined
    blind = float(np.log(prediction.shape[-1])) - entropy.double().numpy()
    answers = answer[:, 0].numpy()
    return Lens(depths, tokens, probs, answers, ranks, shares, kl_of, blind, sizes)


COLOURS = ("chance", "ranked", "distance")
N_FILM = 24
"""Tokens generated for the lens over decoding steps."""


@dataclass(frozen=True, eq=False)
class LensTable:
    """A lens, with the tokens of its positions or steps; `place` is the open one."""

    found: Lens
    columns: tuple[str, ...]
    place: int = 0


def compute(
    loaded: LoadedModel, trace: Trace, text: str, edits: tuple[Edit, ...], filmed: bool
) -> Steps[LensTable | InputProblem]:
    """The lens at every position of the text, or at every step of greedy decoding; the problem if
    there is nothing to decode."""
    if not filmed:
        n_real = int(trace.tgt_valid.sum())
        return LensTable((yield from lens(loaded, trace)), trace.tgt_str_tokens[:n_real])
    try:
        generation = yield from cache.generate.steps(loaded.name, text, Greedy(), edits, N_FILM)
    except InputProblem as problem:
        return problem
    columns = tuple(step.chosen_str for step in generation.steps)
    return LensTable((yield from film(loaded, generation)), columns)


def _controls(view: View) -> b.Blocks:
    """What the lens is read from, and what its colours mean."""
    yield from opening(view)
    now, on = view.one_of("picture", COLOURS), view.choices(AttributionChoices).filmed
    filmed = toggle(view, "attribution.filmed", on, help=view.t("attribution.filmed_help"))
    yield b.Row((pick_one(view, "attribution.colour", COLOURS, now, "picture"), filmed))


def show(seen: LensTable | InputProblem, view: View) -> b.Blocks:
    """The grid of predictions, one position in detail, and all depths."""
    yield from _controls(view)
    if isinstance(seen, InputProblem):
        yield b.Hint(message(seen, view.lang), "info", warns=True)
        return
    filmed, readout = view.choices(AttributionChoices).filmed, seen.found
    place = min(view.step, len(seen.columns) - 1) if filmed else position_of(view)[0]
    here = replace(seen, place=place)
    yield from _pick_place(view, here)
    yield b.Hero((b.Sentence("lens", _reading(view, here)), _grid(view, here)))
    numbers = {"count": len(readout.misleads), "all": len(readout.depths) - 1}
    blind = fixed(float(readout.blind.mean()), 1)
    yield b.Prose(view.t("attribution.misleads", blind=blind, **numbers))
    if view.trace.src_tokens:
        yield b.Note(view.t("attribution.lens_source"))
    yield from _one_place(view, here)
    yield from _by_depth(view, readout)
    yield b.Formula.of(
        view.t("attribution.lens_formula"),
        r"p_d = \mathrm{softmax}\big(W_U\,\mathrm{Norm}(x_d)\big)",
        r"\mathrm{KL}(p \,\Vert\, p_d) = \sum_w p_w \ln \frac{p_w}{p_{d,w}}",
    )
    yield b.Code((film if filmed else lens, points, depths_of))
    yield b.Numbers(lambda: _numbers(view, readout))


def _pick_place(view: View, here: LensTable) -> Iterator[b.Control]:
    columns = here.columns
    if view.choices(AttributionChoices).filmed:
        if len(columns) > 1:
            yield b.Slider(
                "attribution.step",
                view.t("attribution.step"),
                b.Span(1, len(columns)),
                here.place + 1,
                lambda step: b.choose(step=step - 1),
            )
        return

    key, change = "attribution.place", b.sets(position_of(view)[1])
    places = {place: f"{place} {token}" for place, token in enumerate(columns)}
    yield b.Pick(key, view.t(key), places, here.place, change, "menu", b.Display(220))


def depth_name(view: View, depth: Depth) -> str:
    """The short name of a depth, for the axis."""
    layer = 0 if depth.layer is None else depth.layer + 1
    what = "self" if depth.what == "attn" else depth.what
    return view.t("attribution.depths", what, layer=layer)


def _grid(view: View, here: LensTable) -> b.Matrices:
    readout, kind = here.found, view.one_of("picture", COLOURS)
    first = readout.tokens[..., 0].tolist()
    words = [[token_name(view.loaded, token) for token in row] for row in first]
    values = {
        "chance": readout.probs[..., 0].astype(np.float64),
        "ranked": readout.ranks.astype(np.float64),
        "distance": readout.kl,
    }[kind]
    filmed = view.choices(AttributionChoices).filmed
    title = view.t("attribution.steps" if filmed else "attribution.read_at")
    rows = [depth_name(view, depth) for depth in readout.depths]
    for at in readout.misleads:
        rows[at] = SpecialToken(rows[at])
    drawn = depths(
        words,
        values,
        (Axis(rows, view.t("figures.attribution.depth")), Axis(here.columns, title, "tgt")),
        kind=kind,
        title=view.t("attribution.colours", kind),
        selected=here.place,
        n_shown=here.place + 1 if filmed else len(here.columns),
    )
    panel = (view.t("attribution.lens_alt"), drawn)
    return b.Matrices("attribution.lens", (panel,), captioned=False)


def _reading(view: View, here: LensTable) -> str:
    readout, place = here.found, here.place
    values = {
        "answer": quoted(view, token_name(view.loaded, int(readout.answer[place]))),
        "chance": percent(float(readout.shares[-1, place])),
        "depth": depth_name(view, readout.depths[readout.settled(place)]),
    }
    if view.choices(AttributionChoices).filmed:
        return view.t("attribution.read_film", step=place + 1, **values)
    token = quoted_at(view, here.columns, place)
    return view.t("attribution.read_lens", token=token, **values)


def _one_place(view: View, here: LensTable) -> b.Blocks:
    """The five most probable words at each depth, at one position."""
    readout, place = here.found, here.place
    token = quoted_at(view, here.columns, place)
    yield b.Title(view.t("attribution.place_title", token=token))
    rows = []
    for at, depth in enumerate(readout.depths):
        guesses = zip(
            readout.tokens[at, place].tolist(), readout.probs[at, place].tolist(), strict=True
        )
        words = " ".join(
            f"{quoted(view, token_name(view.loaded, token))} {percent(chance)}".replace(
                " ", "\u00a0"
            )
            for token, chance in guesses
        ).replace("|", "\\|")
        rank = f"{int(readout.ranks[at, place]):,}"
        rows.append((depth_name(view, depth), words, rank, digits(float(readout.kl[at, place]))))
    titles = ("attribution.depth", "attribution.said", "attribution.rank_of", "attribution.kl")
    yield b.Pane((b.Table([*map(view.t, titles)], rows, "llrr"),), key="attribution-said")


def _by_depth(view: View, readout: Lens) -> b.Blocks:
    """The distance of the lens from the answer at each depth, compared with the uniform
    baseline."""
    places = np.arange(len(readout.depths))
    blind = np.full(len(places), float(readout.blind.mean()))
    names = [depth_name(view, depth) for depth in readout.depths]

    def draw(dark: bool) -> Figure:
        figure = lines(
            places,
            np.stack([readout.kl.mean(1), blind]),
            [view.t("attribution.kl_lens"), view.t("attribution.kl_blind")],
            **view.axes("attribution.depth", "attribution.kl"),
            height=280,
            dark=dark,
        )
        every = max(1, len(names) // 14)
        ticks = {"tickvals": places[::every].tolist(), "ticktext": names[::every]}
        figure["layout"]["xaxis"] |= ticks
        return figure

    yield from titled(view, "attribution.by_depth", draw)
    first, *_, last = (digits(float(size)) for size in readout.sizes.mean(1))
    yield b.Prose(view.t("attribution.scale", first=first, last=last))


def _numbers(view: View, readout: Lens) -> dict[str, list[object]]:
    return {
        view.t("attribution.depth"): [depth_name(view, depth) for depth in readout.depths],
        view.t("attribution.kl"): np.round(readout.kl.mean(1), 4).tolist(),
        view.t("attribution.first_at"): readout.agree.tolist(),
        view.t("attribution.size"): np.round(readout.sizes.mean(1), 4).tolist(),
    }


EXHIBIT = Exhibit(compute, show, OUTPUT, wait=Wait("attribution.working", blocks=_controls))
