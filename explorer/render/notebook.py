"""`show`, and exhibits or parts of a page as pictures in a notebook."""

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np

from explorer.engine import cache
from explorer.exhibits import block as b
from explorer.exhibits.choices import PartChoices, ScreenChoices
from explorer.exhibits.exhibit import choices_of, choices_on, exhibit_of, exhibits_of
from explorer.exhibits.links import Links, State
from explorer.exhibits.view import View, build
from explorer.library import LoadedModel, list_models
from explorer.notebook.opening import opened, worded
from explorer.notebook.picture import Picture, Table, below
from explorer.notebook.show import attention
from explorer.render import html, paper
from explorer.runs.edits import parse_edits
from explorer.text import EARLIER, model_name


@worded
def show(
    what: Any,
    /,
    tokens: str | Path | LoadedModel | Sequence[str] | None = None,
    key_tokens: str | Sequence[str] | None = None,
    *,
    target: str | None = None,
    mask: Any = None,
    batch: int = 0,
    heads: int | None = None,
    image: Any = None,
    grid: tuple[int, int] | None = None,
    title: str | None = None,
    lang: str = "en",
    **chosen: Any,
) -> Picture:
    """All heads in one linked view, with hovering, locking, zoom, scales and keyboard control.

    `what` is one of

    - the name of a shipped model, a model's folder, or the result of `open_model`; `tokens` is then
      the text, and `target` a translation to use instead of the model's own;
    - a Trace;
    - attention weights [layer, head, query, key] as array, tensor or list (also the steps that
      `generate` of `transformers` returns), on any device and in any
      precision, with the `tokens` of the queries and `key_tokens` (by default the same, if there
      are as many keys as queries). Leading axes may be omitted. A batch is [layer, batch, head,
      query, key], or a list with one [batch, head, query, key] per layer; `batch` selects the
      sequence. `mask` must be broadcastable to the weights; it may be Bool (True = may attend), 0
      and 1 of any dtype (1 = may attend), or numbers added to the scores (0 = may attend, -inf or a
      number of -5,000 or less that lies apart from the others = blocked). The picture notes how
      numbers were interpreted, and if the mask looks inverted;
    - the result of `capture`, for the sequence `batch`. Attention calls of the same kind form one
      view, with the calls as layers, and the steps of a cached decoding one row each. A token
      list is used for the axes of its length. `heads` divides an axis that may hold heads,
      sequences or both;
    - the name of an exhibit, with a model and a text: `show("masks.fills", "en-zh", text)`. A page
      of exhibits ("masks") shows all exhibits of its `part`. Choices have the same names as in the
      app's links, for example `way="twice"`; `layer` and `head` count from 0. Maps that the app
      computes only on request are computed.

    If the keys are patches of an `image` (array, tensor, PIL image or path), each row lies over it.
    The patches are the last keys, row by row; keys before them are extra tokens, such as a class
    token or registers. `grid` counts the rows and columns of patches (None: the one grid of square
    patches that fits). The queries are the patches too if there are as many; otherwise anything,
    such as boxes or words. Images are turned as their files say; transparent parts are white.

    Rows that do not sum to 1 are drawn, with a note. `lang` is "en" or "zh".
    Raises ValueError for weights outside 0 to 1 (scores, for example), for shapes or token lists
    that do not match, for an empty capture, and for a text or model that cannot be used; IndexError
    if `batch` is out of range.
    """
    rows: Any = (tokens, key_tokens)
    options: dict[str, Any] = {"target": target, "title": title, "lang": lang}
    if isinstance(what, str) and isinstance(key_tokens, str):
        if not is_shown(what) or not isinstance(tokens, str | Path | LoadedModel):
            raise ValueError(f"no exhibit {what!r}, or no model: show(exhibit, model, text)")
        return exhibit(what, opened(tokens), key_tokens, **options, **chosen)
    if chosen:
        raise ValueError(f"only exhibits have choices: {', '.join(chosen)}")
    return attention(
        what, *rows, mask=mask, batch=batch, heads=heads, image=image, grid=grid, **options
    )


_EARLIER = {
    "atlas.measured": "atlas.map",
    "atlas.sentence": "atlas.sentences",
    "bugs.pitfall": "cases.outcome",
    "claims.claim": "cases.case?part=claims",
    "claims.finding": "cases.outcome?part=claims",
    "heads.measured": "heads.matter",
}
"""Earlier addresses of exhibits, as `EARLIER` of pages."""


def _present(address: str) -> tuple[str, str, str, dict[str, str]]:
    """The present address of an exhibit or a page; its subject, the exhibit's name or "", and the
    choices that an earlier address stands for."""
    subject, dot, one = address.partition(".")
    is_present = one and find_spec(f"explorer.exhibits.{subject}")
    page, _, choices = (subject if is_present else EARLIER.get(subject, subject)).partition("?")
    present = _EARLIER.get(address, f"{page}{dot}{one}?{choices}")
    address, _, choices = present.partition("?")
    subject, _, one = address.partition(".")
    return address, subject, one, dict(parse_qsl(choices))


def is_shown(address: str) -> bool:
    """Whether an exhibit or a page of exhibits has this address."""
    try:
        address, subject, one, _ = _present(address)
        return bool(exhibit_of(address) if one else choices_of(subject))
    except (ImportError, AttributeError):
        return False


def exhibit(
    address: str,
    loaded: LoadedModel,
    text: str,
    *,
    title: str | None = None,
    lang: str = "en",
    **chosen: Any,
) -> Picture:
    """The exhibit SUBJECT.NAME, or all exhibits of a page's part, on one text.

    `chosen` are choices by their names in links: `layer` and `head` count from 0, `edits` are
    written as in links. Raises InputProblem if the text or model cannot be used, and ValueError for
    an unknown choice, a value that it does not allow, or an exhibit with nothing to show here.
    """
    address, subject, one, implied = _present(address)
    chosen = implied | chosen
    built = replace(build(_state(address, loaded, text, lang, chosen), dark=False), asks=False)
    choices = choices_of(subject)
    view = choices.opens(built)
    names = (address,) if one else choices.parts[view.one_of("part", tuple(choices.parts))]
    exhibits = [
        piece
        for piece in exhibits_of(names, view)
        if piece.needs is None or piece.needs.met(loaded)
    ]
    if one and not exhibits:
        raise ValueError(f"{address} has nothing to show for {loaded.name} with these choices")
    blocks = [block for piece in exhibits for block in piece.show(piece.answer(view), view)]
    named = f"{view.t(subject, 'title')} · {model_name(view.loaded.name, lang=lang)}"
    return _picture(title or named, blocks, view)


def _state(
    address: str, loaded: LoadedModel, text: str, lang: str, chosen: dict[str, Any]
) -> State:
    of_page = choices_of(address.partition(".")[0])
    links = Links(ScreenChoices, PartChoices, *choices_on(of_page))
    asked = {"edits": parse_edits(chosen.pop("edits", "")), **chosen}
    try:
        state = links.change(State(lang=lang, model=_kept(loaded), text=text), **asked)
    except KeyError as unknown:
        raise ValueError(f"there is no choice {unknown} in {address}") from None
    _, refused = links.read(links.write(state))
    if refused:
        raise ValueError(", ".join(f"{key} cannot be {value!r}" for key, value in refused))
    return state


def _kept(loaded: LoadedModel) -> str:
    """Cache this model for the engine; return its name, numbered if another model has it."""
    for number in count(1):
        name = loaded.name if number == 1 else f"{loaded.name} ({number})"
        listed = name.partition("@")[0] in list_models()
        if not listed and not cache.open_model.is_kept(name):
            cache.open_model.keep(replace(loaded, name=name), name)
        entry = cache.open_model(name)
        if entry.model is loaded.model or (listed and entry.folder == loaded.folder):
            break
    return name


def _picture(title: str, blocks: list[b.Block], view: View) -> Picture:
    numbers = [block.columns() for block in blocks if isinstance(block, b.Numbers)]
    svgs = list(paper.stills(blocks, view))

    drawn = list(html.kept(blocks, html.Reader(view, "headlight", html.DRAWN)))

    def svg() -> str:
        if not svgs:
            raise ValueError(f"{title} has no still picture; save it as .html")
        return below(svgs)

    def table() -> Table:
        return numbers[0] if numbers else {}

    arrays = {name: np.array(column) for name, column in table().items()}
    return Picture(title, drawn, view.lang, arrays, table, svg, still=svg if svgs else None)
