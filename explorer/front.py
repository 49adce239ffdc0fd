"""The HTML that the server sends for a link: the app's styles before its content, and a preview.

Streamlit's own page is an empty shell named "Streamlit", white until its scripts run, and styled
by the app only after the content has arrived. This one has the app's styles and colours, and names
the picture that sites and messengers show for a link (ogp.me): the link's own sentence in its
model, drawn here on request.
"""

import base64
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from html import escape
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import config, file_util

from explorer import text
from explorer.figures.theme import DARK, LIGHT
from explorer.guard import configured, hostname, zipped
from explorer.linked import (
    FIRST as FIRST_PAGES,
    FIRST_PER_MINUTE,
    MOST_DRAWN,
    MOST_FIRST,
    NO_CHOICES,
    PER_MINUTE,
    TABLES,
    Pictures,
    canonical,
    first_link,
    first_of,
    normal,
    of_first_visit,
    preview_of,
    words_above,
)
from explorer.scripts import SCRIPTS, script
from models.training.home import asset, data

PREVIEW, PICTURE = "preview.png", "picture"
Kept = Callable[[str], bytes]
"""Returns the JSON of a link's first picture if it has been drawn, else b""."""
_PAGE = re.compile(r"/[a-z_]*")
_LATER = re.compile(
    r'<script type="module"[^>]*></script>|<link rel="(?:modulepreload|stylesheet)"[^>]*>'
)
"""What of Streamlit's page an early picture would wait for: first.js requests it afterwards."""
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")
BEFORE = """
window.__streamlit = { BACKEND_BASE_URL: new URL(".", document.baseURI).href };
const theme = document.documentElement.dataset.hlTheme;
if (theme) {
  const chosen = JSON.stringify(theme === "dark" ? "Dark" : "Light");
  localStorage.setItem(`stActiveTheme-${location.pathname}-v2`, chosen);
}
"""
"""Tells Streamlit, before it starts, the theme that a link asks for (frame.js), and where its
server is: it would otherwise look below the page's own address first."""
FIRST = data("explorer.ui", "first.js").read_text(encoding="utf-8")
INLINE = (BEFORE, FIRST)
"""The scripts inside our pages, which the content security policy allows by their hashes."""
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
MOST_IMPORTS = 65_536
"""Characters at the beginning of such a script that hold all its imports: the largest has 2 MB."""
FIRST_VIEWS = {
    "": "start", "heads": "heads_view", "decoding": "film", "model": "machine_view",
    "masks": "matrices", "alignment": "matrices",
    "training": "matrices", "attribution": "matrices", "patching": "matrices", "tour": "matrices",
    "exercises": "matrices", "cases": "matrices", "circuits": "matrices",
}  # fmt: skip
"""The view at the top of a page, by the page's address, if there is one."""


class Front:
    """Answers requests for a page of the app and for a preview; passes others to `app`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._base = _base()
        self._previews = Pictures(preview_of, MOST_DRAWN, PER_MINUTE, normal)
        self._first = Pictures(first_of, MOST_FIRST, FIRST_PER_MINUTE)
        # Reads scripts now: later, the first visitor would wait while torch is imported.
        page("", self._base, {"type": "http", "query_string": b"", "headers": []})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request (ASGI)."""
        answer: ASGIApp | None = None
        path = scope.get("path", "")
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            inside = path.removeprefix(self._base) if path.startswith(self._base) else ""
            answer = await self._answer(inside, scope)
        await (answer or self._app)(scope, receive, send)

    async def _answer(self, path: str, scope: Scope) -> Response | None:
        if path == f"/{TABLES['']}":  # Streamlit serves the first page only at the root
            return _moved(scope, "")
        chosen = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        for earlier in (path[1:], f"{path[1:]}?part={chosen.get('part', '')}"):
            if earlier in text.EARLIER:
                return _moved(scope, text.EARLIER[earlier])
        headers = {"cache-control": "no-cache", "vary": "accept-language"}
        if path == f"/{PICTURE}":
            link = first_link(chosen.pop("page", ""), chosen, chosen.get("lang", ""))
            status, picture = await self._first.of(link)
            if link and status == 404:  # its page begins with something else, which is no error
                return Response(status_code=204, headers=headers)
            fields = {**headers, "content-type": "application/json"}
            return zipped(scope, picture, fields, status=status)
        if _PAGE.fullmatch(path):
            html = page(path[1:], self._base, scope, self._first.kept)
            fields = {**headers, "content-type": "text/html; charset=utf-8"}
            return zipped(scope, html.encode(), fields)
        if path != f"/{PREVIEW}":
            return None
        status, picture = await self._previews.of(scope["query_string"].decode("latin-1"))
        headers["cache-control"] = "public, max-age=3600" if status == 200 else "no-store"
        if status == 503:
            headers["retry-after"] = str(60 // PER_MINUTE)
        return Response(picture, status, headers, "image/png" if picture else "text/plain")


def _base() -> str:
    """The configured path of the app on its server, "" or with a slash before it."""
    base = str(config.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}" if base else ""


def _moved(scope: Scope, name: str) -> Response:
    """Send the browser to another page, with the same choices."""
    address, _, own = name.partition("?")
    query = "&".join(filter(None, (own, scope["query_string"].decode("latin-1"))))
    return RedirectResponse(
        f"./{address}?{query}" if query else f"./{address}", headers={"cache-control": "no-cache"}
    )


def page(name: str, base: str, scope: Scope, kept: Kept = lambda link: b"", full: int = 0) -> str:
    """Streamlit's page with the app's styles, the preview of this link, and its first picture,
    which `kept` may return. `full`: seconds until the server has a place; until then the picture is
    all that there is."""
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
    view = FIRST_VIEWS.get(name)
    soon = _preload(view or "") if (link := first_link(name, params, lang)) else ""
    later = _preload("frame", view) if view else _preload("frame")
    first = ""
    if link:
        first = _first(name, link, params, lang, kept, full)
        later += "".join(_LATER.findall(shell))
        shell = _LATER.sub("", shell)
        first += "" if full else f'<template id="hl-app">{later}</template>'
    if full:
        soon += f'<meta http-equiv="refresh" content="{full}">'
    title = preview(name, params, lang, origin and origin + base)
    return (
        shell.replace('lang="en"', attributes, 1)
        .replace("<title>Streamlit</title>", title, 1)
        .replace("</head>", f"{soon if link else later}</head>", 1)
        .replace('<div id="root">', f'{first}<div id="root">', 1)
        .replace("</body>", f"{styles}</body>", 1)
    )


def full_page(scope: Scope, seconds: int) -> str:
    """The page of a full server, which reloads after `seconds`: the link's first picture; without
    one, words in all languages."""
    base = _base()
    if scope["type"] == "http":
        name = scope["path"].removeprefix(f"{base}/")
        params = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        if first_link(name, params, params.get("lang", text.LANGUAGES[0])):
            return page(name, base, scope, full=seconds)
    sections = []
    for lang in text.LANGUAGES:
        heading, *paragraphs = map(escape, _full(lang, seconds))
        told = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
        sections.append(f'<section lang="{lang}"><h1>{heading}</h1>{told}</section>')
    return (
        f'<!doctype html><html><head><meta charset="utf-8"><meta http-equiv="refresh" '
        f'content="{seconds}"><meta name="viewport" content="width=device-width">'
        "<title>Headlight</title><style>body{font:16px/1.5 system-ui,sans-serif;margin:15vh auto;"
        "max-width:34rem;padding:0 1rem}h1{font-size:1.4rem}</style></head><body>"
        f"{''.join(sections)}</body></html>"
    )


def _full(lang: str, seconds: int) -> tuple[str, ...]:
    keys = ("full.title", "full.said", "full.wait")
    return tuple(text.t(key, lang=lang, seconds=seconds) for key in keys)


def _preload(*views: str) -> str:
    """Links that request the scripts of views."""
    return "".join(
        f'<link rel="modulepreload" crossorigin href="./{SCRIPTS}/{script(view)[1]}">'
        for view in views
    )


def _first(
    name: str, link: str, params: Mapping[str, str], lang: str, kept: Kept, full: int
) -> str:
    """The element that becomes the first picture (first.js), with what is known of it."""
    view = FIRST_VIEWS[name]
    chooses = params.keys() - NO_CHOICES
    picture = ("" if chooses else of_first_visit(name, lang)) or kept(link).decode()
    sentence = params.get("text") or (json.loads(picture).get("text", "") if picture else "")
    told = f'data-first="{escape(picture)}"' if picture else ""
    if full:
        above = f"<p>{escape(' '.join(_full(lang, full)[1:]))}</p>"
    elif name and "embed" in params:
        above = ""
    elif name:
        above = f'<p class="lead">{escape(_said(name, lang)["lead"])}</p>'
    else:
        label = escape(_said(name, lang)["sentence"])
        above = f'<input type="text" aria-label="{label}" value="{escape(sentence)}">'
    still = escape(f"./{PREVIEW}?{canonical(urlencode({**params, 'lang': lang}))}")
    style = data("explorer.ui", "first.css").read_text(encoding="utf-8")
    return (
        f'<style>{style}</style><main id="hl-first" data-page="{TABLES.get(name, name)}" '
        f'data-view="{view}" data-script="./{SCRIPTS}/{script(view)[1]}" '
        f'data-src="./{PICTURE}?{escape(link)}" {told}>{above}<div></div>'
        f'<noscript><img alt="{escape(sentence)}" src="{still}"></noscript></main>'
        f'<script type="module" async>{FIRST}</script>'
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
    before = (
        f":root {{ color-scheme: light dark; }} [data-hl-theme=light] {{ color-scheme: light; }} "
        f"[data-hl-theme=dark] {{ color-scheme: dark; }} "
        f"body {{ background: light-dark({LIGHT.paper}, {DARK.paper}); }}"
    )
    head = f"<style>{before}</style><script>{BEFORE}</script>{scripts}</head>"
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
            with (folder / name).open(encoding="utf-8") as file:
                source = file.read(MOST_IMPORTS)
            waiting += re.findall(r'(?:from|import)\s*"\./([\w.-]+\.js)"', source)
    return scripts


def preview(name: str, params: dict[str, str], lang: str, origin: str) -> str:
    """The title of a page, and what sites show of its link; `origin` "" gives no picture."""
    said = _said(name, lang)
    title = " · ".join(filter(None, (said["title"], "Headlight")))
    sentence = " ".join(params.get("text", "").split())
    fields = {
        "og:site_name": "Headlight",
        "og:type": "website",
        "og:title": f"{text.shorten(sentence, 80)} · {title}" if sentence else title,
        "og:description": said["lead"],
    }
    query = canonical(urlencode({**params, "lang": lang}))
    if origin and query:
        fields["og:image"] = f"{origin}/{PREVIEW}?{query}"
        fields |= {"og:image:width": "1200", "og:image:height": "630"}
    fields |= {"twitter:card": "summary_large_image" if "og:image" in fields else "summary"}
    tags = (
        f'<meta {"name" if field.startswith("twitter") else "property"}="{field}" '
        f'content="{escape(value)}" />'
        for field, value in fields.items()
        if value
    )
    return "\n    ".join((f"<title>{escape(title)}</title>", *tags))


def _said(name: str, lang: str) -> Mapping[str, str]:
    """`words_above` a page; a first visit does not wait until all texts have been read."""
    kept = of_first_visit(name, lang) if name in FIRST_PAGES else ""
    said: Mapping[str, str] = json.loads(kept)["said"] if kept else words_above(name, lang)
    return said
