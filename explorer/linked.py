"""The pictures of a link, drawn on request and limited in number: the preview that sites show, and
the first picture of a page, which the server sends before the app is there.

    python -m explorer.linked

writes the first pictures of a first visit, in each language, into `assets/first/`: they are there
before torch is imported.
"""

import asyncio
import base64
import json
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from explorer.text import LANGUAGES, has, t
from models.training.home import asset

if TYPE_CHECKING:
    from explorer.exhibits.exhibit import PageChoices
    from explorer.exhibits.view import View

FIRST = {"": "start", "heads": "heads", "masks": "masks", "decoding": "decoding"}
"""The subjects of the pages that are sent with their first picture, by address."""
TABLES = {"": "start", "models": "shelf"}
"""The text table of a page, if it is not named like its address."""
NO_CHOICES = frozenset({"lang", "theme", "embed"})
"""What a link says of the page, and not of its picture."""
_SHARED = NO_CHOICES | {"model", "text", "beamer", "edits"}
FIRST_CHOICES = {
    "": _SHARED,
    "heads": _SHARED | {"site", "layer", "head", "row"},
    "masks": _SHARED,
    "decoding": _SHARED,
}
"""A link to such a page has a first picture if it makes no other choices."""
NAMES = ("lang", "model", "text", "target", "site", "layer", "head", "edits")
"""What of a link determines its picture."""
MOST_QUERY, MOST_TEXT = 2000, 300
"""Characters of a link, and of each of its texts, that is drawn; a longer one has no picture."""
MOST_KEPT = 16_000_000
"""Bytes of pictures that are kept, of each of the two kinds."""
MOST_DRAWN, PER_MINUTE = 4, 30
MOST_FIRST, FIRST_PER_MINUTE, THREADS = 64, 120, 16
"""Previews and first pictures that wait to be drawn at the same time, and that are drawn per
minute, of which a further one is refused; and the threads for each kind: a class's sentences are
translated in one batch."""


def canonical(query: str) -> str:
    """What of a link determines its picture, in one order; "" for a link without a picture."""
    params = dict(parse_qsl(query[: MOST_QUERY + 1]))
    choices = {name: params[name] for name in NAMES if params.get(name)}
    own = "~" in choices.get("model", "")  # it belongs to its session
    long = any(len(choices.get(name, "")) > MOST_TEXT for name in ("text", "target"))
    if own or long or len(query) > MOST_QUERY:
        return ""
    return urlencode(choices)


def normal(query: str) -> str:
    """`canonical` as the app would write it, without invalid values and defaults, nor a layer or
    head that its model lacks; "" if there is no such model. Only headers of files are read."""
    query = canonical(query)
    if not query:
        return ""
    from explorer.exhibits.links import Links  # imports torch, which starts up later
    from explorer.exhibits.view import default_model
    from explorer.library import split_step
    from explorer.shelf import survey

    links, listed = Links(), {each.name: each for each in survey()}
    state = links.read(dict(parse_qsl(query)))[0]
    model = listed.get(split_step(state.model or default_model(tuple(listed)))[0])
    if model is None:
        return ""
    sizes = {"layer": model.n_layers, "head": model.n_heads}
    lacking = {name: None for name, size in sizes.items() if (getattr(state, name) or 0) >= size}
    return urlencode(links.write(links.change(state, **lacking)))


class Pictures:
    """The pictures of links: drawn by `draw` in threads of their own, kept, and limited in number.

    At most `most_drawn` wait to be drawn at the same time, and `per_minute` are drawn a minute.
    Links of which `key` returns the same have one picture, "" none.
    """

    def __init__(
        self,
        draw: Callable[[str], bytes],
        most_drawn: int,
        per_minute: int,
        key: Callable[[str], str] = str,
    ) -> None:
        self._draw, self._key, self._most, self._rate = draw, key, most_drawn, per_minute
        self._made: OrderedDict[str, bytes] = OrderedDict()
        self._drawing: dict[str, asyncio.Future[bytes]] = {}
        self._left, self._since = float(per_minute), time.monotonic()
        self._threads = ThreadPoolExecutor(min(most_drawn, THREADS), "picture")

    async def of(self, link: str) -> tuple[int, bytes]:
        """The status and picture of a link: 404 if it has none, 503 while too many are asked."""
        link = await asyncio.to_thread(self._key, link) if link else ""
        if not link:
            return 404, b""
        picture = self.kept(link)
        if not picture and link not in self._made:
            if link not in self._drawing:
                if not self._may():
                    return 503, b""
                loop = asyncio.get_running_loop()
                drawn = loop.run_in_executor(self._threads, self._draw, link)
                self._drawing[link] = drawn
                drawn.add_done_callback(lambda _: self._drawing.pop(link))
            picture = self._made[link] = await asyncio.shield(self._drawing[link])
            while sum(map(len, (*self._made, *self._made.values()))) > MOST_KEPT:
                self._made.popitem(last=False)
        return (200 if picture else 404), picture

    def kept(self, link: str) -> bytes:
        """The picture of a link that has been drawn; else b""."""
        if link in self._made:
            self._made.move_to_end(link)
        return self._made.get(link, b"")

    def _may(self) -> bool:
        """Take one of the pictures that may be drawn now (a token bucket)."""
        now = time.monotonic()
        gained = (now - self._since) * self._rate / 60
        self._left, self._since = min(self._rate, self._left + gained), now
        if self._left < 1 or len(self._drawing) >= self._most:
            return False
        self._left -= 1
        return True


def preview_of(query: str) -> bytes:
    """The preview of a link as PNG; empty if its text, model or edits cannot be used."""
    from explorer.engine.turns import computing
    from explorer.exhibits.links import Links
    from explorer.exhibits.view import build
    from explorer.exports.preview import preview_png
    from explorer.problems import InputProblem

    with computing():
        try:
            view = build(Links().read(dict(parse_qsl(query)))[0], dark=False)
            sites = view.sites_of(view.kind)
            patterns = [view.trace.pattern(site.name) for site in sites]
        except InputProblem:
            return b""
    title = (
        f"{view.t('kinds', view.kind)} · {view.t('place.layer')} {view.layer + 1} · "
        f"{view.t('place.head')} {view.head + 1}"
    )
    said = view.trace.text, view.trace.output or ""
    return preview_png(patterns, (view.layer, view.head), said, title)  # while others compute


def words_above(page: str, lang: str) -> dict[str, str]:
    """The `title` and the plain `lead` of a page, "" for none, and the name of its `sentence`."""
    keys = {name: f"{TABLES.get(page, page)}.{name}" for name in ("title", "lead")}
    said = {name: t(key, lang=lang) if has(key, lang=lang) else "" for name, key in keys.items()}
    said["lead"] = re.sub(r"\[([^\]]*)\]\([^)]*\)|[*`$]", r"\1", said["lead"])
    return said | {"sentence": t("sidebar.sentence", lang=lang)}


def first_link(page: str, params: Mapping[str, str], lang: str) -> str:
    """What of a link determines its first picture, in one order; "" for a link without one."""
    sentence = params.get("text", "")
    if (
        page not in FIRST
        or not {lang, params.get("lang", lang)} <= {*LANGUAGES}
        or params.keys() - FIRST_CHOICES[page]
        or "~" in params.get("model", "")  # it belongs to its session
        or len(sentence) > MOST_TEXT
        or not sentence.isprintable()  # several lines: the app has another text box for them
    ):
        return ""
    names = sorted(FIRST_CHOICES[page] - NO_CHOICES)
    chosen = {name: params[name] for name in names if params.get(name)}
    return urlencode({"page": page, "lang": lang, **chosen})


def first_of(link: str) -> bytes:
    """A first picture as JSON: the packed picture and what is above it, or the `problem` of the
    text. Empty if the page begins with something else, such as a picture that the model reads.
    """
    from explorer.engine.turns import computing
    from explorer.exhibits.block import plain
    from explorer.exhibits.links import OF_VIEW
    from explorer.exhibits.saying import message
    from explorer.exhibits.view import build
    from explorer.pages import PAGES
    from explorer.problems import InputProblem
    from explorer.shell import LINKS, first_state

    params = dict(parse_qsl(link, keep_blank_values=True))
    page = params.pop("page")
    state, refused = LINKS.read(params)
    if not params.keys() - OF_VIEW:
        state = first_state(state.lang)
    with computing():
        try:
            (shown,) = (each for each in PAGES if each.name == FIRST[page])
            view = build(state, dark=False, usual_pads=shown.usual_pads)
            if refused or view.notes or view.loaded.config.picture:
                return b""
            if first := _top(shown.choices, view):
                first["said"] = words_above(page, state.lang)
        except InputProblem as problem:
            first = {"problem": plain(message(problem, state.lang))}
    return json.dumps(first).encode() if first else b""


def _top(choices: "type[PageChoices]", view: "View") -> dict[str, Any]:
    """The first picture of a page with the sentence, the changes and the reading above it; {} if
    there is anything else above it."""
    from explorer.components.heads_view import pack_heads_view
    from explorer.exhibits import block as b
    from explorer.exhibits.exhibit import exhibits_of
    from explorer.exhibits.saying import SENTENCE_END, file_name, reading_notes, unbroken
    from explorer.shell import LINKS
    from explorer.ui.controls import changes_of, is_long

    def address(change: b.Change) -> str:
        left = LINKS.elsewhere(view.state) if change.elsewhere else view.state
        chosen: Any = change.choices(view.state)
        return f"{change.visit}?{urlencode(LINKS.write(LINKS.change(left, **chosen)))}"

    first: dict[str, Any] = {"model": view.loaded.name, "text": view.text}
    view = choices.opens(view)
    for exhibit in exhibits_of(next(iter(choices.parts.values())), view):
        if exhibit.needs is not None and not exhibit.needs.met(view.loaded):
            continue
        for block in b.inside(exhibit.show(exhibit.answer(view), view)):
            if isinstance(block, b.SentenceLine):
                output = view.trace.output if block.output is None else b.plain(block.output)
                translates = bool(view.sites_of("cross"))
                is_cut = block.output is None and not view.trace.finished
                more = view.loaded.classifier or reading_notes(view, view.text, view.trace.unknown)
                if is_cut or more or (translates and not output):
                    return {}
                first |= {"output": output if translates else "", "note": b.plain(block.note)}
                first["long"] = is_long(f"{view.text}{first['output']}")
            elif isinstance(block, b.Changes) and view.edits:
                if view.trace.ignored_edits or view.state.pads:
                    return {}
                first |= {"changes": _parts(changes_of(view)), "undo": view.t("edits.reset")}
            elif isinstance(block, b.Sentence):
                reading = SENTENCE_END.split(unbroken(block.words), maxsplit=1)[0]
                first["reading"] = b.plain(reading)
            if isinstance(block, b.Picture):
                file = b.picture_file(file_name(view, exhibit.subject), block.name)
            if isinstance(block, b.AllHeads):
                payload = pack_heads_view(block.grid, file=file, **block.options)
            elif isinstance(block, b.Matrices):
                payload = block.canvas(view).payload(file)
            elif isinstance(block, b.Canvas):
                payload = block.payload(file, address)
            elif isinstance(block, b.Note | b.Prose | b.Hint) and choices.asks:
                return {}
            if isinstance(block, b.Picture):
                first["key"] = block.name.replace(".", "-")
                return first | {"payload": base64.b64encode(payload).decode()}
    return {}


def _parts(words: str) -> list[tuple[str, str]]:
    """Markdown as HTML elements and their texts: removed words, bold ones, and all others."""
    from explorer.exhibits.block import plain

    bare = re.sub(r":[a-z-]+\[((~~|\*\*).*?\2)\]", r"\1", words)
    parts = re.split(r"(~~.*?~~|\*\*.*?\*\*)", bare)
    return [({"~~": "del", "**": "b"}.get(part[:2], "span"), plain(part)) for part in parts]


def of_first_visit(page: str, lang: str) -> str:
    """The first picture of a visit that chooses nothing, from its file; "" without its model."""
    first = _stored(page, lang).read_text(encoding="utf-8")
    return first if asset("checkpoints", json.loads(first)["model"]).is_dir() else ""


def _stored(page: str, lang: str) -> Path:
    return asset("first", f"{FIRST[page]}.{lang}.json")


if __name__ == "__main__":
    for page in FIRST:
        for lang in LANGUAGES:
            _stored(page, lang).write_bytes(first_of(first_link(page, {}, lang)) + b"\n")
