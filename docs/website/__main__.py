"""Build the project's website: `python -m docs.website FOLDER`, or `make site`.

Static files for any web space: a start page per language with the translator running in it, three
models that run in the browser, pictures of the ten pages, and the documents. Nothing in it is
fetched from elsewhere.
"""

import re
import sys
from collections.abc import Mapping
from html import escape
from itertools import pairwise
from pathlib import Path
from shutil import copyfile
from urllib.parse import quote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from playwright.sync_api import Browser

from explorer.figures.theme import FONT
from explorer.library import open_model
from explorer.live.site import write_live
from explorer.pages import HOME, MENU
from explorer.text import LANGUAGES, model_name, t
from models.training.home import asset
from tests.browser.app import LOOKS, PATIENCE, SETTLED, chromium, running_app

ROOT = Path(__file__).parents[2]
LIVE = ("en-zh", "stories", "reader")
"""The models that run on the website; the first on its start page."""
DOCS = {"en": ROOT / "docs", "zh": ROOT / "docs" / "zh"}
SOURCES = [
    path
    for path in sorted(DOCS["en"].rglob("*.*"))
    if path.name != "README.md" and not {"serving", "website"} & set(path.parts)
]
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; frame-src 'self'; script-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)
STYLE = Path(__file__).with_name("style.css")
SIZE = {"width": 1280, "height": 800}


def file_of(lang: str) -> str:
    """The start page of a language."""
    return "index.html" if lang == LANGUAGES[0] else f"{lang}.html"


def page(title: str, body: str, lang: str, to_top: str = "") -> str:
    """A page of the website; `to_top` is the path from it to the top folder."""
    return f"""<!doctype html>
<html lang="{"zh-CN" if lang == "zh" else lang}">
<head>
<meta charset="utf-8">
<meta http-equiv="content-security-policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="{to_top}icon.svg">
<link rel="stylesheet" href="{to_top}style.css">
</head>
<body>
{body}
</body>
</html>
"""


def start_page(lang: str, documents: Mapping[str, str]) -> str:
    """The start page; `documents` are titles by file name."""

    def words(key: str) -> str:
        return escape(t(key, lang=lang))

    def link(to: str, label: str) -> str:
        return f'<a href="{quote(to, safe="/?=#")}">{escape(label)}</a>'

    others = " ".join(
        link(file_of(each), t("languages", each, lang=each)) for each in LANGUAGES if each != lang
    )
    live = " · ".join(
        link(f"{name}/index.html?lang={lang}", model_name(name, lang=lang)) for name in LIVE
    )
    of_docs = "docs" if lang == LANGUAGES[0] else f"docs/{lang}"
    cards = "\n".join(
        f'<a class="card" href="{of_docs}/pages.html#{quote(slug(title))}">'
        f'<img src="pictures/{group.name}-{lang}.jpg" alt="" loading="lazy" '
        f'width="{SIZE["width"]}" height="{SIZE["height"]}"><span>{escape(title)}</span></a>'
        for group in MENU
        for title in [t("menu", group.name, lang=lang)]
    )
    listed = "\n".join(f"<li>{link(to, title)}</li>" for to, title in documents.items())
    body = f"""<header><h1>Headlight</h1><nav>{others}</nav></header>
<p class="lead">{words("website.lead")}</p>
<iframe src="{LIVE[0]}/index.html?embed=1&view=start" title="{words("website.live")}"></iframe>
<script src="{LIVE[0]}/frame.js"></script>
<p>{words("website.open")} {live}</p>
<h2>{words("website.pages")}</h2>
<div class="cards">
{cards}
</div>
<h2>{words("website.run")}</h2>
<pre>cd headlight
make run</pre>
<p>{words("website.run_note")}</p>
<h2>{words("website.docs")}</h2>
<ul>
{listed}
</ul>"""
    return page(f"Headlight: {t('website.title', lang=lang)}", body, lang)


def slug(title: str) -> str:
    """The address of a heading."""
    return "-".join("".join(c if c.isalnum() else " " for c in title.lower()).split())


def document(source: Path, lang: str, to_top: str) -> tuple[str, str]:
    """The title of a Markdown file, and the file as a page. A link to a file that is not on the
    website becomes its text."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    written = re.sub("<!--.*?-->", "", source.read_text(encoding="utf-8"))
    tokens = parser.parse(written)
    titles = [
        (opening, inside.content)
        for opening, inside in pairwise(tokens)
        if opening.type == "heading_open"
    ]
    for opening, content in titles:
        opening.attrSet("id", slug(content))
    for each in tokens:
        if align := str(each.attrs.pop("style", "")).removeprefix("text-align:"):
            each.attrSet("class", align)  # the policy allows no style in an element
        _relink(each.children or [], source)
    home = f'<nav><a href="{to_top}{file_of(lang)}">Headlight</a></nav>\n'
    body = home + parser.renderer.render(tokens, parser.options, {})
    return titles[0][1], page(f"Headlight: {titles[0][1]}", body, lang, to_top)


def _relink(tokens: list[Token], source: Path) -> None:
    dropped = False
    for each in tokens:
        if each.type == "link_open":
            to = urlsplit(str(each.attrGet("href")))
            target = (source.parent / to.path).resolve()
            dropped = bool(to.scheme) or (to.path != "" and target not in SOURCES)
            if to.path:
                each.attrSet("href", to._replace(path=to.path.replace(".md", ".html")).geturl())
        if each.type in ("link_open", "link_close"):
            each.hidden = dropped


def write_docs(folder: Path) -> dict[str, dict[str, str]]:
    """Write all documents and their pictures; the titles by address of each language's."""
    found: dict[str, dict[str, str]] = {lang: {} for lang in LANGUAGES}
    for source in SOURCES:
        inner = source.relative_to(DOCS["en"])
        target = folder / "docs" / inner
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            lang = "zh" if source.is_relative_to(DOCS["zh"]) else "en"
            title, made = document(source, lang, "../" * len(inner.parts))
            target.with_suffix(".html").write_text(made, encoding="utf-8")
            if source.parent == DOCS[lang]:
                found[lang][f"docs/{inner.with_suffix('.html').as_posix()}"] = title
        else:
            copyfile(source, target)
    return found


def take_pictures(browser: Browser, address: str, folder: Path) -> None:
    """A picture of each entry of the menu, in each language."""
    window = browser.new_page(viewport=SIZE)
    for lang in LANGUAGES:
        for group in MENU:
            name = "" if group.views[0] == HOME else group.views[0]
            window.goto(f"{address}/{name}?lang={lang}&theme=light")
            window.wait_for_function(SETTLED, timeout=PATIENCE, polling=LOOKS)
            path = folder / f"{group.name}-{lang}.jpg"
            window.screenshot(path=path, type="jpeg", quality=80)


def write(folder: Path, models: tuple[str, ...] = LIVE) -> None:
    """Write everything except the pictures of the pages."""
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    for name in models:
        write_live(open_model(name), folder / name)
    documents = write_docs(folder)
    for lang in LANGUAGES:
        made = start_page(lang, documents[lang])
        (folder / file_of(lang)).write_text(made, encoding="utf-8")
    style = STYLE.read_text(encoding="utf-8").replace("FONT", FONT)
    (folder / "style.css").write_text(style, encoding="utf-8")
    copyfile(asset("icon.svg"), folder / "icon.svg")


def main() -> None:
    folder = Path(sys.argv[1])
    write(folder)
    with chromium() as browser, running_app() as address:
        take_pictures(browser, address, folder / "pictures")
    print(folder / "index.html")


if __name__ == "__main__":
    main()
