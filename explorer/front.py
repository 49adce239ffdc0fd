"""The HTML that the server sends for a link: the app's styles before its content, and a preview.

Streamlit's own page is an empty shell named "Streamlit", white until its scripts run, and styled
by the app only after the content has arrived. This one has the app's styles and colours, and names
the picture that sites and messengers show for a link (ogp.me): the link's own sentence in its
model, drawn here on request.
"""

import asyncio
import base64
import re
import time
from collections import OrderedDict
from functools import cache
from html import escape
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import config, file_util

from explorer import text
from explorer.figures.theme import DARK, LIGHT
from explorer.guard import configured, hostname
from explorer.scripts import SCRIPTS, script
from models.training.home import asset, data

PICTURE, BEFORE = "preview.png", "before.js"
NAMES = ("lang", "model", "text", "target", "site", "layer", "head", "edits")
"""What of a link determines its picture."""
MOST_QUERY, MOST_TEXT = 2000, 300
"""Characters of a link, and of each of its texts, that is drawn; a longer one has no picture."""
MOST_KEPT, MOST_DRAWN, PER_MINUTE = 64, 4, 30
"""Pictures kept, drawn at the same time, and drawn per minute; a further request is refused."""
_PAGE = re.compile(r"/[a-z_]*")
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")
TOLD = b"""window.__streamlit = { BACKEND_BASE_URL: new URL(".", document.currentScript.src).href };
const theme = document.documentElement.dataset.hlTheme;
if (theme) {
  const chosen = JSON.stringify(theme === "dark" ? "Dark" : "Light");
  localStorage.setItem(`stActiveTheme-${location.pathname}-v2`, chosen);
}
"""
"""Tells Streamlit, before it starts, the theme that a link asks for (frame.js), and where its
server is: it would otherwise look below the page's own address first."""
WIDGETS = (
    "BidiComponent",
    "ButtonGroup",
    "Checkbox",
    "PageLink",
    "Selectbox",
    "TextArea",
    "TextInput",
)
"""Scripts that Streamlit otherwise requests only when such a widget has arrived: until then there
is a grey box of another height."""
FIRST_VIEWS = {
    "": "start", "heads": "heads_view", "decoding": "film", "positions": "token_strip",
    "model": "machine_view", "masks": "matrices", "alignment": "matrices", "blocks": "matrices",
    "training": "matrices", "attribution": "matrices", "patching": "matrices", "tour": "matrices",
    "exercises": "matrices", "cases": "matrices", "circuits": "matrices",
}  # fmt: skip
"""The view at the top of a page, by the page's address, if there is one."""
_WORDS = {"": "start", "models": "shelf"}
"""The text table of a page, if it is not named like its address."""


class Front:
    """Answers requests for a page of the app and for a preview; passes others to `app`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        base = str(config.get_option("server.baseUrlPath") or "").strip("/")
        self._base = f"/{base}" if base else ""
        self._pictures = Pictures()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request (ASGI)."""
        answer: ASGIApp | None = None
        path = scope.get("path", "")
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            inside = path.removeprefix(self._base) if path.startswith(self._base) else ""
            answer = await self._answer(inside, scope)
        await (answer or self._app)(scope, receive, send)

    async def _answer(self, path: str, scope: Scope) -> Response | None:
        if path == f"/{_WORDS['']}":  # Streamlit serves the first page only at the root
            return _moved(scope, "")
        if path[1:] in text.EARLIER:
            return _moved(scope, text.EARLIER[path[1:]])
        headers = {"cache-control": "no-cache", "vary": "accept-language"}
        if _PAGE.fullmatch(path):
            return HTMLResponse(page(path[1:], self._base, scope), headers=headers)
        if path == f"/{BEFORE}":
            return Response(TOLD, headers=headers, media_type="text/javascript")
        if path != f"/{PICTURE}":
            return None
        status, picture = await self._pictures.of(scope["query_string"].decode("latin-1"))
        headers["cache-control"] = "public, max-age=3600" if status == 200 else "no-store"
        if status == 503:
            headers["retry-after"] = str(60 // PER_MINUTE)
        return Response(picture, status, headers, "image/png" if picture else "text/plain")


def _moved(scope: Scope, name: str) -> Response:
    """Send the browser to another page, with the same choices."""
    address, _, own = name.partition("?")
    query = "&".join(filter(None, (own, scope["query_string"].decode("latin-1"))))
    return RedirectResponse(
        f"./{address}?{query}" if query else f"./{address}", headers={"cache-control": "no-cache"}
    )


def page(name: str, base: str, scope: Scope) -> str:
    """Streamlit's page with the app's styles, and the preview of this link."""
    asked = Headers(scope=scope)
    params = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    wanted = asked.get("accept-language", "")[:2].lower()
    lang = next((word for word in (params.get("lang"), wanted) if word in text.LANGUAGES), "en")
    theme = params.get("theme", "")
    shell, styles = _shell()
    modes = [mode for mode in ("beamer", "embed") if mode in params]
    wears = ["opening", *modes, *(["sidebar"] if name and not modes else [])]
    attributes = " ".join((f'lang="{lang}"', *(f"data-hl-{word}" for word in wears)))
    if theme in ("light", "dark"):
        attributes += f' data-hl-theme="{theme}"'
    origin = own_origin(asked.get("host", ""), scope.get("scheme", "http"))
    views = filter(None, ("frame", FIRST_VIEWS.get(name)))
    asked_for = "".join(
        f'<link rel="modulepreload" crossorigin href="./{SCRIPTS}/{script(view)[1]}">'
        for view in views
    )
    return (
        shell.replace('lang="en"', attributes, 1)
        .replace("</head>", f"{asked_for}</head>", 1)
        .replace(
            "<title>Streamlit</title>", preview(name, params, lang, origin and origin + base), 1
        )
        .replace("</body>", f"{styles}</body>", 1)
    )


def own_origin(host: str, scheme: str) -> str:
    """Where the app is: at the request's `Host`, or at the first configured name if that is none of
    them. "" if neither is known: a request may contain any `Host`."""
    is_host = _HOST.fullmatch(host) is not None
    names = [name for name in configured() if _HOST.fullmatch(hostname(name) or "")]
    if names and not (is_host and hostname(host) in map(hostname, names)):
        return names[0] if "//" in names[0] else f"{scheme}://{names[0]}"
    return f"{scheme}://{host}" if is_host else ""


@cache
def _shell() -> tuple[str, str]:
    """Streamlit's page with the app's icon and without a font that no page uses; our styles."""
    shell = Path(file_util.get_static_dir(), "index.html").read_text(encoding="utf-8")
    shell = re.sub(r'<link\s+rel="preload"[^>]*as="font"[^>]*/>', "", shell)
    icon = base64.b64encode(asset("icon.svg").read_bytes()).decode()
    shell = shell.replace("./favicon.png", f"data:image/svg+xml;base64,{icon}", 1)
    scripts = "".join(
        f'<link rel="modulepreload" crossorigin href="./static/js/{name}">'
        for name in _scripts()
        if name not in shell
    )
    told = f'<script src="./{BEFORE}"></script>'
    before = (
        f":root {{ color-scheme: light dark; }} [data-hl-theme=light] {{ color-scheme: light; }} "
        f"[data-hl-theme=dark] {{ color-scheme: dark; }} "
        f"body {{ background: light-dark({LIGHT.paper}, {DARK.paper}); }}"
    )
    head = f"<style>{before}</style>{told}{scripts}</head>"
    style = data("explorer.ui", "page.css").read_text(encoding="utf-8")
    return shell.replace("</head>", head, 1), f"<style>{style}</style>"


def _scripts() -> list[str]:
    """The files of WIDGETS, with what they import."""
    folder = Path(file_util.get_static_dir(), "static", "js")
    scripts: list[str] = []
    waiting = [path.name for name in WIDGETS for path in folder.glob(f"{name}.*.js")]
    while waiting:
        name = waiting.pop()
        if name not in scripts and (folder / name).is_file():
            scripts.append(name)
            source = (folder / name).read_text(encoding="utf-8")
            waiting += re.findall(r'(?:from|import)\s*"\./([\w.-]+\.js)"', source)
    return scripts


def preview(name: str, params: dict[str, str], lang: str, origin: str) -> str:
    """The title of a page, and what sites show of its link; `origin` "" gives no picture."""
    key = _WORDS.get(name, name)
    title = "Headlight"
    if text.has(f"{key}.title", lang=lang):
        title = f"{text.t(f'{key}.title', lang=lang)} · Headlight"
    sentence = " ".join(params.get("text", "").split())
    fields = {
        "og:site_name": "Headlight",
        "og:type": "website",
        "og:title": f"{text.shorten(sentence, 80)} · {title}" if sentence else title,
        "og:description": _plain(key, lang),
    }
    query = canonical(urlencode({**params, "lang": lang}))
    if origin and query:
        fields["og:image"] = f"{origin}/{PICTURE}?{query}"
        fields |= {"og:image:width": "1200", "og:image:height": "630"}
    fields |= {"twitter:card": "summary_large_image" if "og:image" in fields else "summary"}
    tags = (
        f'<meta {"name" if field.startswith("twitter") else "property"}="{field}" '
        f'content="{escape(value)}" />'
        for field, value in fields.items()
        if value
    )
    return "\n    ".join((f"<title>{escape(title)}</title>", *tags))


def _plain(key: str, lang: str) -> str:
    """The lead of a page without its markup."""
    lead = text.t(f"{key}.lead", lang=lang) if text.has(f"{key}.lead", lang=lang) else ""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)|[*`$]", r"\1", lead)


def canonical(query: str) -> str:
    """What of a link determines its picture, in one order; "" for a link without a picture."""
    params = dict(parse_qsl(query[: MOST_QUERY + 1]))
    choices = {name: params[name] for name in NAMES if params.get(name)}
    own = "~" in choices.get("model", "")  # an upload belongs to its session
    long = any(len(choices.get(name, "")) > MOST_TEXT for name in ("text", "target"))
    if own or long or len(query) > MOST_QUERY:
        return ""
    return urlencode(choices)


def normal(query: str) -> str:
    """A canonical link as the app would write it, without invalid values and defaults, nor a layer
    or head that its model lacks; "" if there is no such model. Only headers of files are read."""
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
    """The pictures of links: drawn in a thread, kept, and limited in number."""

    def __init__(self) -> None:
        self._made: OrderedDict[str, bytes] = OrderedDict()
        self._drawing: dict[str, asyncio.Future[bytes]] = {}
        self._left, self._since = float(PER_MINUTE), time.monotonic()

    async def of(self, query: str) -> tuple[int, bytes]:
        """The status and picture of a link: 404 if it has none, 503 while too many are asked."""
        asked = canonical(query)
        key = await asyncio.to_thread(normal, asked) if asked else ""
        if not key:
            return 404, b""
        if key not in self._made:
            if key not in self._drawing:
                if not self._may():
                    return 503, b""
                drawn = asyncio.ensure_future(asyncio.to_thread(drawn_for, key))
                self._drawing[key] = drawn
                drawn.add_done_callback(lambda _: self._drawing.pop(key))
            picture = await asyncio.shield(self._drawing[key])
            self._made[key] = picture
            while len(self._made) > MOST_KEPT:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        return (200 if self._made[key] else 404), self._made[key]

    def _may(self) -> bool:
        """Take one of the pictures that may be drawn now (a token bucket)."""
        now = time.monotonic()
        gained = (now - self._since) * PER_MINUTE / 60
        self._left, self._since = min(PER_MINUTE, self._left + gained), now
        if self._left < 1 or len(self._drawing) >= MOST_DRAWN:
            return False
        self._left -= 1
        return True


def drawn_for(query: str) -> bytes:
    """The picture of a link as PNG; empty if its text, model or edits cannot be used."""
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
            allowed = view.trace.mask(view.site.name)[view.head]
        except InputProblem:
            return b""
    name = view.site.name
    title = (
        f"{view.t(f'kinds.{view.kind}')} · {view.t('place.layer')} {view.layer + 1} · "
        f"{view.t('place.head')} {view.head + 1}"
    )
    return preview_png(  # while other sessions compute
        patterns,
        allowed,
        view.site,
        view.head,
        (view.trace.query_tokens(name), view.trace.key_tokens(name)),
        (view.trace.text, view.trace.output or ""),
        title,
    )
