"""A second output with a prefix chosen by the user, compared with the first."""

from collections.abc import Callable
from functools import partial
from itertools import zip_longest

import numpy as np

from explorer.components.token_strip import pack_token_strip
from explorer.engine import cache
from explorer.engine.jobs import StoppedError
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.decoding.choices import DecodingChoices, Strategy
from explorer.exhibits.decoding.one_pass import is_open
from explorer.exhibits.decoding.strategy import beam_settings, sample_settings
from explorer.exhibits.picking import pick_one
from explorer.exhibits.saying import message, site_titles
from explorer.exports.film import stacked
from explorer.figures.heatmap import attention, difference
from explorer.library import LoadedModel
from explorer.numbers import fixed
from explorer.problems import InputProblem
from explorer.runs.edits import Edit
from explorer.runs.generation import Generation, forced_tokens, room
from explorer.runs.passes import Steps
from models.hooks import AttentionSite, Role

Pair = tuple[Generation, Generation | None]


def compute(
    loaded: LoadedModel,
    text: str,
    strategy: Strategy,
    edits: tuple[Edit, ...],
    limit: int,
    fork: tuple[int, ...],
    ruled: bool,
    film: Generation,
) -> Steps[Pair]:
    """The first output, and the second one, which the film shows; None without a forced prefix."""
    if not fork:
        return film, None

    key = (loaded.name, text, strategy, edits, limit, (), ruled)
    first = yield from cache.generate.steps(*key)
    if first.stopped:
        raise StoppedError
    return first, film


def show(answer: Pair | None, view: View) -> b.Blocks:
    """A text field for a custom token, both outputs, and the settings of the tree below."""
    if answer is None:
        return
    first, second = answer
    yield b.Prose(view.t("branches.lead"))
    yield from _type(view, second or first)
    if second is not None:
        yield from _two_lines(view, first, second)
        yield from _compare(view, (first, second))
    yield b.Title(view.t("branches.tree"), large=True)
    yield b.Prose(view.t("branches.tree_lead"))
    settings = (*beam_settings(view, "branches"), *sample_settings(view, "branches"))
    label = view.t("branches.settings")
    yield b.Fold(label, (b.Row(settings, gap="medium"),), inline=True, icon="tune")


def _type(view: View, shown: Generation) -> b.Blocks:
    """A text field for a custom token at the film's step."""
    step = min(view.step, len(shown.steps) - 1)
    before, typed = shown.tokens[:step], view.choices(DecodingChoices).typed_token

    def forced(text: str) -> b.Change:
        if not text.strip():
            return b.choose(typed_token="")
        try:
            return b.choose(fork=(*before, *_tokens(view, before, text)), typed_token="")
        except InputProblem:
            return b.choose(typed_token=text)

    box = b.TextBox(
        "branches.typed",
        view.t("branches.type", step=step + 1),
        typed,
        forced,
        hint=view.t("branches.type_hint"),
        width=320,
    )
    close = b.Button(
        "branches.close", view.t("branches.close"), b.choose(fork=()), icon="call_merge"
    )
    yield b.Row((box, *([close] if view.choices(DecodingChoices).fork else [])))
    try:
        _tokens(view, before, typed)
    except InputProblem as problem:
        yield b.Hint(message(problem, view.lang), "info", warns=True)


def _tokens(view: View, before: tuple[int, ...], typed: str) -> tuple[int, ...]:
    """The typed text as tokens. Raises InputProblem if they cannot be forced after `before`."""
    tokens = forced_tokens(view.loaded, typed)
    most = min(view.choices(DecodingChoices).limit, room(view.loaded, view.text))
    if len(before) + len(tokens) > most:
        raise InputProblem("target_too_long", limit=most, length=len(before) + len(tokens))
    return tokens


def _two_lines(view: View, first: Generation, second: Generation) -> b.Blocks:
    """Both outputs as chips, and the step at which they diverge."""
    same = first.tokens == second.tokens
    pairs = enumerate(zip_longest(first.tokens, second.tokens))
    apart = next((at for at, pair in pairs if len({*pair}) > 1), len(first.tokens))
    for name, made in (("first", first), ("second", second)):
        pack = partial(
            pack_token_strip,
            [step.chosen_str for step in made.steps],
            stream="tgt",
            title=view.t(f"branches.{name}", logprob=fixed(made.logprob)),
            selected=apart if apart < len(made.steps) else None,
            words=view.words("components.token_strip"),
        )
        yield _strip(f"branches.{name}", pack)
    ahead = "first" if first.logprob >= second.logprob else "second"
    words = view.t(
        "branches.apart",
        step=apart + 1,
        better=view.t(f"branches.the_{ahead}"),
        by=f"{abs(first.logprob - second.logprob):.2f}",
    )
    yield b.Sentence("branches", view.t("branches.same") if same else words)


def _strip(name: str, pack: Callable[[], bytes]) -> b.Canvas:
    return b.Canvas(name, "token_strip", lambda file: pack())


def _compare(view: View, both: tuple[Generation, Generation]) -> b.Blocks:
    """The attention of both outputs, side by side or as a difference, by step."""
    kind: Role = "cross" if view.sites_of("cross") else view.own_role
    sites = [site for site in view.sites_of(kind) if site.name in both[0].steps[0].rows]
    shown = view.one_of("picture", DecodingChoices.pictures)
    pictures = DecodingChoices.pictures
    yield pick_one(view, "branches.picture", pictures, shown, said="branches.")
    yield b.Note(_place(view, sites, kind))
    patterns = [_pattern(view, made, sites) for made in both]
    queries = [tuple(step.input_tokens[-1] for step in made.steps) for made in both]
    keys = [
        made.src_str_tokens if kind == "cross" else made.steps[-1].input_tokens for made in both
    ]
    names, titles = ("the_first", "the_second"), site_titles(view, sites[0])
    words = view.words("figures.heatmap")
    if shown == "difference":
        n_query, n_key = (min(each.shape[axis] for each in patterns) for axis in (0, 1))
        named = [
            one if one == other else f"{one} | {other}"
            for one, other in zip(*(row[:n_query] for row in queries), strict=True)
        ]
        said = {
            name: view.t(f"branches.{which}")
            for name, which in zip(("before", "after"), names, strict=True)
        }
        cut = [each[:n_query, :n_key] for each in patterns]
        draw = partial(difference, *cut, named, keys[1][:n_key], words=words | said, **titles)
        yield b.Chart("branches.difference", draw, view.t("branches.difference"))
        return
    columns = []
    for at, name in enumerate(names):
        cells = (patterns[at], None, queries[at], keys[at])
        title = view.t(f"branches.{name}")
        draw = partial(attention, *cells, words=words, **titles)
        columns.append((b.Note(title), b.Chart(f"branches.{name}", draw, title)))
    yield b.Columns(columns)


def _pattern(view: View, made: Generation, sites: list[AttentionSite]) -> np.ndarray:
    """Weights [step, key] of the film's layer and head, or of their mean."""
    rows = stacked(made, sites)
    layer, head = view.state.layer, view.state.head
    if layer is None:
        return rows.mean((0, 1))
    of_layer = rows[min(layer, len(rows) - 1)]
    return of_layer.mean(0) if head is None or head >= len(of_layer) else of_layer[head]


def _place(view: View, sites: list[AttentionSite], kind: Role) -> str:
    layer, head = view.state.layer, view.state.head
    if layer is None:
        where = view.t("branches.everywhere")
    elif head is None or head >= sites[0].n_heads:
        where = view.t("onepass.mean", layer=min(layer, len(sites) - 1) + 1)
    else:
        where = view.t("heads.large", layer=min(layer, len(sites) - 1) + 1, head=head + 1)
    return f"{view.t(f'kinds.{kind}')} · {where}"


EXHIBIT = Exhibit(compute, show, open=is_open, wait=Wait("decoding.working", after="decoding.film"))
