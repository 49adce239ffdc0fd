"""The HTML that the server sends for a link, and the picture that it names."""

import asyncio
import base64
import io
import json
import re
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlencode

import numpy as np
import pytest
from asgi import Answer, asked as asked_of, in_a_thread
from payloads import unpack
from PIL import Image

from explorer import front
from explorer.exhibits.block import plain
from explorer.exhibits.exhibit import exhibit_of
from explorer.exhibits.links import State
from explorer.exhibits.saying import message
from explorer.exhibits.view import build
from explorer.exports.preview import drawable
from explorer.linked import FIRST, Pictures, first_link, first_of, normal
from explorer.pages import PAGES
from explorer.problems import InputProblem
from explorer.scripts import script
from explorer.shell import LINKS, first_state
from explorer.text import EARLIER, LANGUAGES
from models.training.home import data


def asked(place: str, host: str = "example.org", language: str = "") -> Answer:
    return asked_of(front.Front, place, {"host": host, "accept-language": language})


TEXT = 'I like "dogs" <script>alert(1)</script>'


def tags(html: str) -> dict[str, str]:
    found = re.findall(r'<meta (?:name|property)="([a-z:]+)" content="([^"]*)" />', html)
    return {name: unescape(value) for name, value in found}


def test_the_first_page_by_its_name_leads_to_the_root_and_others_to_the_app():
    root = asked("/start?lang=zh&text=%E6%88%91")
    location = root.headers["location"]
    assert (root.status, location, root.body) == (307, "./?lang=zh&text=%E6%88%91", b"")
    assert asked("/start").headers["location"] == "./"
    assert asked("/starts").status == 200
    for path in ("/_stcore/health", "/static/js/x.js", "/media/a.png", "/masks/x", "//x"):
        assert asked(path).body == b"other"


@pytest.mark.parametrize("earlier", EARLIER)
def test_an_earlier_address_leads_to_the_page_with_its_choices(earlier):
    page, _, part = earlier.partition("?")
    query = "&".join(filter(None, (part, "lang=zh&layer=2")))
    answer = asked(f"/{page}?{query}")
    present = EARLIER[earlier]
    assert answer.headers["location"] == f"./{present}{'&' if '?' in present else '?'}{query}"
    assert answer.status == 307
    assert asked("/" + answer.headers["location"][2:]).status == 200


def test_a_links_page_has_the_styles_and_names_its_own_picture():
    link = urlencode({"lang": "en", "text": TEXT, "theme": "dark", "head": "2"})
    page = asked(f"/masks?{link}")
    html = page.body.decode()
    assert page.status == 200
    assert page.headers["cache-control"] == "no-cache"
    style = data("explorer.ui", "page.css").read_text(encoding="utf-8")
    # After Streamlit's, which it overrides.
    assert html.index(style) > html.index('<div id="root">')
    assert "<title>Masks · Headlight</title>" in html
    assert 'data-hl-theme="dark"' in html
    assert "<script>alert" not in html
    assert (
        f'<link rel="modulepreload" crossorigin href="./components/{script("matrices")[1]}">'
        in html
    )
    named = tags(html)
    assert named["og:title"] == f"{TEXT} · Masks · Headlight"
    assert named["twitter:card"] == "summary_large_image"
    assert "mask" in named["og:description"]
    query = urlencode({"lang": "en", "text": TEXT, "head": "2"})
    assert named["og:image"] == f"https://example.org/preview.png?{query}"
    assert '<html lang="zh"' in asked("/", language="zh-CN,zh;q=0.9").body.decode()
    for name, view in front.FIRST_VIEWS.items():
        assert f"/{script(view)[1]}" in asked(f"/{name}").body.decode()
    assert {*front.FIRST_VIEWS} <= {"", *(page.name for page in PAGES)}


@pytest.mark.parametrize(
    ("link", "host"),
    [
        ({"text": "a" * 301}, "example.org"),
        ({"model": "mine~0123456789abcdef"}, "example.org"),
        ({"target": "a" * 301}, "example.org"),
        ({"edits": "x" * 2000}, "example.org"),
        ({"text": "I like dogs."}, 'e.org"><script>'),
    ],
)
def test_a_link_that_is_not_drawn_names_no_picture(link, host):
    html = asked(f"/heads?{urlencode(link)}", host).body.decode()
    assert "og:image" not in html
    assert host == "example.org" or host not in html


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("forged.example", "https://own.example:8443"),
        ('"><script>', "https://own.example:8443"),
        ("own.example:8443", "https://own.example:8443"),
        ("second.example", "https://second.example"),
    ],
)
def test_the_picture_is_at_a_configured_name(host, origin, monkeypatch):
    names = ["*", "https://own.example:8443", "second.example"]
    monkeypatch.setattr(front, "configured", lambda: names)
    html = asked("/heads?text=a", host).body.decode()
    assert tags(html)["og:image"].startswith(f"{origin}/preview.png?")


def test_a_links_picture_shows_its_sentence_and_is_drawn_once(monkeypatch):
    pictures = []
    for text in ("I like dogs.", "I like dogs and cats.", "我喜欢狗。"):
        drawn = asked(f"/preview.png?{urlencode({'text': text, 'site': 'cross'})}")
        assert drawn.headers["content-type"] == "image/png"
        pictures.append(Image.open(io.BytesIO(drawn.body)).convert("RGB"))
    assert {each.size for each in pictures} == {(1200, 630)}
    assert len({each.tobytes() for each in pictures}) == 3
    lines = [each.crop((48, 30, 1152, 150)) for each in pictures]  # the sentence, and the output
    assert len({each.tobytes() for each in lines}) == 3
    for query in ("model=none", "text=%20", "model=a~b", f"text={'a' * 301}"):
        assert asked(f"/preview.png?{query}").status == 404
    assert drawable("dogs")
    assert not drawable("\U0010fffd")  # no font has it, so it is left out and not drawn as a box
    drawn: list[str] = []

    def draw(query: str) -> bytes:
        drawn.append(query)
        return b"png"

    async def test() -> list[int]:
        pictures = Pictures(draw, 4, 30, normal)
        same = await asyncio.gather(*(pictures.of("text=a&unknown=1") for _ in range(5)))
        for more in ("", "&layer=99999999999", "&layer=9&head=99", "&lang=xx&site=cross"):
            same.append(await pictures.of(f"text=a{more}"))
        assert await pictures.of("text=a&model=none") == (404, b"")
        assert drawn == ["lang=en&text=a"]
        assert set(same) == {(200, b"png")}
        return [(await pictures.of(f"text={n}"))[0] for n in range(30)]

    assert in_a_thread(test) == [200] * 29 + [503]


def first_of_page(place: str) -> dict[str, str] | None:
    """The attributes of the first picture in a page, and the address of the app's script."""
    html = asked(place).body.decode()
    tag = re.search(r'<main id="hl-first" ([^>]*)>', html)
    if tag is None:
        assert '<template id="hl-app">' not in html
        return None
    head, app = html.split('<template id="hl-app">')
    assert "/static/" not in head  # the picture waits for nothing of the app
    assert re.search(r'<script type="module"[^>]* src="\./static/js/index', app)
    return {name: unescape(value) for name, value in re.findall(r'([\w-]+)="([^"]*)"', tag[1])}


WIDE = {"own": "<u2", "cross": "<u2", "exact": "<f2", "sums": "<f8"}
"""Numbers of several bytes, by the name of their array in a picture."""


def texts_and_floats(picture: bytes) -> tuple[Any, list[float]]:
    """The head of a packed picture without its floats, and these."""
    floats: list[float] = []
    text = picture[4 : 4 + int.from_bytes(picture[:4], "little")]
    return json.loads(text, parse_float=lambda digits: floats.append(float(digits))), floats


@pytest.mark.parametrize("page", FIRST)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_first_visit_has_its_picture_in_the_page(page, lang):
    """The shipped file is what the model gives: `python -m explorer.linked`. Another processor
    sums in another order, so that numbers may differ in their last digits."""
    sent = first_of_page(f"/{page}?lang={lang}&theme=dark")
    first = json.loads(first_of(first_link(page, {}, lang)))
    shipped = json.loads(sent["data-first"])
    ours, fresh = (base64.b64decode(picture.pop("payload")) for picture in (shipped, first))
    assert shipped == first
    (head, floats), (fresh_head, fresh_floats) = map(texts_and_floats, (ours, fresh))
    assert head == fresh_head
    assert floats == pytest.approx(fresh_floats, rel=1e-4, abs=1e-6)
    for name, array in unpack(ours)[1].items():
        kind = WIDE.get(name, "u1")
        near = (1e-3, 1e-4) if "f" in kind else (0, 1)
        same = unpack(fresh)[1][name].view(kind)
        np.testing.assert_allclose(1.0 * array.view(kind), 1.0 * same, *near)
    assert sent["data-view"] == front.FIRST_VIEWS[page]
    view = build(first_state(lang), dark=False)
    assert first["text"] == view.text
    assert first.get("output", view.trace.output) == view.trace.output
    assert ("reading" in first) == (page in ("heads", "masks"))
    assert asked(f"/{page}", language=lang).body == asked(f"/{page}?", language=lang).body


def test_another_links_picture_is_drawn_without_a_session_and_then_in_the_page():
    link = urlencode({"lang": "en", "text": 'I like "dogs" & cats.', "edits": "causal-off"})
    server = front.Front(lambda *_: None)

    def answer(place: str) -> Answer:
        return asked_of(lambda _: server, place)

    sent = re.search(r'data-src="([^"]*)"', answer(f"/?{link}").body.decode())
    address = unescape(sent[1])
    assert dict(parse_qsl(address.partition("?")[2])) == dict(parse_qsl(link))
    picture = json.loads(answer(address[1:]).body)
    head = unpack(base64.b64decode(picture["payload"]))[0]
    view = build(LINKS.read(dict(parse_qsl(link)))[0], dark=False)
    exhibit = exhibit_of("start.picture")
    canvas = next(iter(exhibit.show(exhibit.answer(view), view))).blocks[0]
    assert head["said"] == unpack(canvas.payload(""))[0]["said"]
    assert picture["text"] == view.text
    assert dict(parse_qsl(head["links"]["heads"].partition("?")[2]))["edits"] == "causal-off"
    assert 'data-first="' in answer(f"/?{link}").body.decode()  # it has been drawn


@pytest.mark.parametrize(
    "link",
    ["head=2", "door=head", "text=a%0Ab", f"text={'a' * 301}", "model=a~b", "lang=xx", "pads=2"],
)
def test_a_link_whose_page_begins_otherwise_has_no_first_picture(link):
    for page in ("", "masks", "decoding", "score"):
        assert first_of_page(f"/{page}?{link}") is None
        assert asked(f"/picture?page={page}&lang=en&{link}").status == 404


@pytest.mark.parametrize("link", ["model=reader", "edits=nothing"])
def test_what_only_the_model_shows_is_found_out_when_it_is_drawn(link):
    """A model that reads pictures, and edits that are refused, with words above the picture."""
    assert asked(f"/picture?page=&lang=en&{link}").status == 204


def test_a_text_that_is_refused_says_why():
    answer = asked(f"/picture?{urlencode({'page': '', 'lang': 'zh', 'text': ' '})}")
    with pytest.raises(InputProblem) as refused:
        build(State(lang="zh", text=" "), dark=False)
    assert json.loads(answer.body) == {"problem": plain(message(refused.value, "zh"))}
