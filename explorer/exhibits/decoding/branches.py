"""A second output with a prefix chosen by the user, compared with the first."""

from functools import partial
from itertools import zip_longest

from explorer.components.token_strip import pack_token_strip
from explorer.engine import cache
from explorer.exhibits import Exhibit, View, Wait, block as b
from explorer.exhibits.decoding.choices import DecodingChoices, Strategy
from explorer.exhibits.decoding.film import name_place, place_of, stacked
from explorer.exhibits.decoding.one_pass import is_open
from explorer.exhibits.decoding.strategy import beam_settings, sample_settings
from explorer.exhibits.picking import pick_one
from explorer.exhibits.saying import message, site_axes
from explorer.figures.matrix import change, weights
from explorer.library import LoadedModel
from explorer.numbers import fixed
from explorer.problems import InputProblem
from explorer.runs.edits import Edit
from explorer.runs.generation import Generation, forced_tokens, room
from explorer.runs.passes import Steps, StoppedError
from models.hooks import Role

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
    yield b.Prose(view.t("decoding.branches.lead"))
    yield from _type(view, second or first)
    if second is not None:
        yield from _two_lines(view, first, second)
        yield from _compare(view, (first, second))
    yield b.Title(view.t("decoding.branches.tree"), large=True)
    yield b.Prose(view.t("decoding.branches.tree_lead"))
    settings = (*beam_settings(view, "branches"), *sample_settings(view, "branches"))
    label = view.t("decoding.branches.settings")
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
        view.t("decoding.branches.type", step=step + 1),
        typed,
        forced,
        display=b.Display(320, hint=view.t("decoding.branches.type_hint")),
    )
    close = b.Button(
        "branches.close", view.t("decoding.branches.close"), b.choose(fork=()), icon="call_merge"
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
    for name, generation in (("first", first), ("second", second)):
        title = view.t("decoding.branches", name, logprob=fixed(generation.logprob))
        selected = apart if apart < len(generation.steps) else None
        pack = partial(_strip, view, generation, title, selected)
        yield b.Canvas(f"branches.{name}", "token_strip", pack)
    words = view.t("decoding.branches", "same" if same else "apart", step=apart + 1)
    yield b.Sentence("branches", words)


def _strip(
    view: View, generation: Generation, title: str, selected: int | None, file: str
) -> bytes:
    tokens, words = (
        [step.chosen_str for step in generation.steps],
        view.words("components.token_strip"),
    )
    return pack_token_strip(tokens, stream="tgt", title=title, selected=selected, words=words)


def _compare(view: View, both: tuple[Generation, Generation]) -> b.Blocks:
    """The attention of both outputs, side by side or as a difference, by step."""
    kind: Role = "cross" if view.sites_of("cross") else view.own_role
    sites = [site for site in view.sites_of(kind) if site.name in both[0].steps[0].rows]
    shown = view.one_of("picture", DecodingChoices.pictures)
    pictures = DecodingChoices.pictures
    label, said = "decoding.branches.picture", "decoding.branches.pictures"
    yield pick_one(view, "branches.picture", pictures, shown, said=said, label=label)
    layer, head = place_of(view, len(sites), sites[0].n_heads)
    yield b.Note(f"{view.t('kinds', kind)} · {name_place(view, layer, head)}")
    patterns = []
    for generation in both:
        rows = stacked(generation, sites)
        rows = rows.mean(0) if layer is None else rows[layer]
        patterns.append(rows.mean(0) if head is None else rows[head])
    queries = [tuple(step.input_tokens[-1] for step in generation.steps) for generation in both]
    keys = [
        generation.src_str_tokens if kind == "cross" else generation.steps[-1].input_tokens
        for generation in both
    ]
    names = [view.t("decoding.branches", name) for name in ("the_first", "the_second")]
    words = view.words("figures.heatmap")
    if shown == "difference":
        n_query, n_key = (min(matrix.shape[axis] for matrix in patterns) for axis in (0, 1))
        named = [
            one if one == other else f"{one} | {other}"
            for one, other in zip(*(row[:n_query] for row in queries), strict=True)
        ]
        words |= {"before": names[0], "after": names[1]}
        first, second = (matrix[:n_query, :n_key] for matrix in patterns)
        axes = site_axes(view, sites[0], tokens=(named, keys[1][:n_key]))
        drawn = change(first, second, axes, words=words)
        yield b.Matrices(
            "branches.difference", ((view.t("decoding.branches.pictures.difference"), drawn),)
        )
        return
    panels = []
    for name, pattern, *tokens in zip(names, patterns, queries, keys, strict=True):
        axes = site_axes(view, sites[0], tokens=(tokens[0], tokens[1]))
        panels.append((name, weights(pattern, None, axes, words=words)))
    yield b.Matrices("branches.both", panels)


EXHIBIT = Exhibit(compute, show, open=is_open, wait=Wait("decoding.working", after="decoding.film"))
