"""An exhibit, or a part of a page, as a picture in a notebook."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from explorer.components.standalone import Block as Drawn
from explorer.engine import cache
from explorer.exhibits import blocks as b
from explorer.exhibits.exhibit import choices_of, exhibit_of
from explorer.exhibits.links import Links, State
from explorer.exhibits.shared import PartChoices, ScreenChoices
from explorer.exhibits.view import View, build
from explorer.library import LoadedModel, list_models
from explorer.notebook.opening import opened, worded
from explorer.notebook.picture import Picture, Table
from explorer.notebook.show import attention, below
from explorer.render import html, paper
from explorer.runs.edits import parse_edits
from explorer.text import model_name


@worded
def show(
    what: Any,
    tokens: str | Path | LoadedModel | Sequence[str] | None = None,
    key_tokens: str | Sequence[str] | None = None,
    *,
    target: str | None = None,
    mask: Any = None,
    batch: int = 0,
    title: str | None = None,
    lang: str = "en",
    **chosen: Any,
) -> Picture:
    """All heads in one linked view: hover, lock, open, zoom, scales, keyboard.

    `what` is one of

    - a shipped model's name, a model's folder, or what `open_model` returned; `tokens` is then the
      text, and `target` a translation to be read instead of the model's own;
    - a Trace;
    - attention weights [layer, head, query, key] as array, tensor or list, on any device and in any
      precision, with `tokens` of the queries and `key_tokens` (the same, where None, for as many
      keys as queries). Leading axes may be left out. With a batch it is [layer, batch, head, query,
      key], or a list of [batch, head, query, key], one a layer, and `batch` chooses the sequence.
      `mask`, of any kind that `mask` reads, is broadcastable to the weights;
    - what `capture` saw, of the sequence `batch`. Attention of the same kind is one view, its
      calls the layers. A list of tokens belongs to the axes that have its length;
    - the name of an exhibit, with a model and a text: `show("masks.fills", "en-zh", text)`. A page
      of exhibits ("masks") shows all those of its `part`. Choices are given by the names that they
      have in the app's links, `way="twice"` say; `layer` and `head` count from 0.

    Rows that do not sum to 1 are drawn, with a note. `lang` is "en" or "zh".
    Raises ValueError for weights outside 0 to 1 (scores, say), for shapes or token lists that do
    not fit, for a capture that saw nothing and for a text or model that cannot be used; IndexError
    for a sequence that is not in the batch.
    """
    rows: Any = (tokens, key_tokens)
    given: dict[str, Any] = {"target": target, "title": title, "lang": lang}
    if isinstance(what, str) and isinstance(key_tokens, str):
        if not is_shown(what) or not isinstance(tokens, str | Path | LoadedModel):
            raise ValueError(f"no exhibit {what!r}, or no model: show(exhibit, model, text)")
        return exhibit(what, opened(tokens), key_tokens, **given, **chosen)
    if chosen:
        raise ValueError(f"only exhibits have choices: {', '.join(chosen)}")
    return attention(what, *rows, mask=mask, batch=batch, **given)


def is_shown(address: str) -> bool:
    """Whether an exhibit or a page of exhibits has this address."""
    try:
        subject, _, one = address.partition(".")
        return bool(choices_of(subject)) and (not one or bool(exhibit_of(address)))
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

    `chosen` are choices by the names that a link has for them, with their own values: `layer` and
    `head` count from 0, `edits` are as in links. Raises InputProblem as the app does, ValueError
    for a choice that there is not and for a value that it cannot have.
    """
    view = build(_state(address, loaded, text, lang, chosen), dark=False)
    subject, _, one = address.partition(".")
    if one:
        names: tuple[str, ...] = (address,)
    else:
        parts = choices_of(subject).parts
        names = tuple(parts[view.one_of("part", tuple(parts))])
    blocks = [
        block for each in map(exhibit_of, names) for block in each.show(each.answer(view), view)
    ]
    named = f"{view.t(f'{subject}.title')} · {model_name(view.loaded.name, lang=lang)}"
    return _picture(title or named, blocks, view)


def _state(
    address: str, loaded: LoadedModel, text: str, lang: str, chosen: dict[str, Any]
) -> State:
    links = Links(ScreenChoices, PartChoices, choices_of(address.partition(".")[0]))
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
    """The name under which the engine opens this model: another one where a listed model has it."""
    for number in count(1):
        name = loaded.name if number == 1 else f"{loaded.name} ({number})"
        listed = name.partition("@")[0] in list_models()
        if not listed and not cache.open_model.is_kept(name):
            cache.open_model.keep(replace(loaded, name=name), name)
        found = cache.open_model(name)
        if found.model is loaded.model or (listed and found.folder == loaded.folder):
            break
    return name


def _picture(title: str, blocks: list[b.Block], view: View) -> Picture:
    numbers = [block.columns() for block in blocks if isinstance(block, b.Numbers)]
    svgs = list(paper.stills(blocks, view))

    def drawn(_: int) -> list[Drawn]:
        return list(html.kept(blocks, html.Reader(view, "headlight", html.DRAWN)))

    def svg() -> str:
        if not svgs:
            raise ValueError(f"{title} has no still picture; save it as .html")
        return below(svgs)

    def table() -> Table:
        return numbers[0] if numbers else {}

    arrays = {name: np.array(column) for name, column in table().items()}
    return Picture(title, drawn, view.lang, arrays, table, svg, still=svg if svgs else None)
