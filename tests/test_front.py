"""The HTML that the server sends for a link, and the picture that it names."""

import asyncio
import io
import re
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from urllib.parse import urlencode

import pytest
from PIL import Image
from starlette.types import Message, Receive, Scope, Send

from explorer import front
from explorer.exports.preview import drawable
from models.training.home import data

TEXT = 'I like "dogs" <script>alert(1)</script>'


def asked(
    place: str, host: str = "example.org", language: str = ""
) -> tuple[dict[str, str], bytes]:
    """The headers, with the status, and the body of the answer to one request."""
    answer: list[Message] = []

    async def other(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "other", "status": 0, "headers": []})

    async def send(message: Message) -> None:
        answer.append(message)

    path, _, query = place.partition("?")
    named = [(b"host", host.encode()), (b"accept-language", language.encode())]
    scope = {"type": "http", "method": "GET", "path": path, "headers": named, "scheme": "https"}
    scope["query_string"] = query.encode()

    async def receive() -> Message:
        return {"type": "http.request"}

    with ThreadPoolExecutor(1) as thread:  # this one may run a browser's event loop already
        thread.submit(asyncio.run, front.Front(other)(scope, receive, send)).result()
    said = {name.decode(): value.decode() for name, value in answer[0]["headers"]}
    return said | {"status": str(answer[0]["status"])}, b"".join(m.get("body", b"") for m in answer)


def tags(html: str) -> dict[str, str]:
    found = re.findall(r'<meta (?:name|property)="([a-z:]+)" content="([^"]*)" />', html)
    return {name: unescape(value) for name, value in found}


def test_the_first_page_by_its_name_leads_to_the_root_with_its_choices() -> None:
    said, body = asked("/start?lang=zh&text=%E6%88%91")
    assert (said["status"], said["location"], body) == ("307", "./?lang=zh&text=%E6%88%91", b"")
    assert asked("/start")[0]["location"] == "./"
    assert asked("/starts")[0]["status"] == "200"


def test_a_links_page_has_the_styles_and_names_its_own_picture() -> None:
    link = urlencode({"lang": "en", "text": TEXT, "theme": "dark", "head": "2"})
    said, body = asked(f"/masks?{link}")
    html = body.decode()
    assert said["status"] == "200"
    assert said["cache-control"] == "no-cache"
    style = data("explorer.ui", "page.css").read_text(encoding="utf-8")
    assert html.index(style) > html.index(
        '<div id="root">'
    )  # after Streamlit's, which it overrides
    assert "<title>Masks · Headlight</title>" in html
    assert 'data-hl-theme="dark"' in html
    assert "<script>alert" not in html
    named = tags(html)
    assert named["og:title"] == f"{TEXT} · Masks · Headlight"
    assert named["twitter:card"] == "summary_large_image"
    assert "mask" in named["og:description"]
    query = urlencode({"lang": "en", "text": TEXT, "head": "2"})
    assert named["og:image"] == f"https://example.org/preview.png?{query}"
    assert '<html lang="zh"' in asked("/", language="zh-CN,zh;q=0.9")[1].decode()


@pytest.mark.parametrize(
    ("link", "host"),
    [
        ({"text": "a" * 301}, "example.org"),
        ({"model": "mine~0123456789abcdef"}, "example.org"),
        ({"edits": "x" * 2000}, "example.org"),
        ({"text": "I like dogs."}, 'e.org"><script>'),
    ],
)
def test_a_link_that_is_not_drawn_names_no_picture(link: dict[str, str], host: str) -> None:
    html = asked(f"/heads?{urlencode(link)}", host)[1].decode()
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
def test_the_picture_is_at_a_configured_name(
    host: str, origin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["*", "https://own.example:8443", "second.example"]
    monkeypatch.setattr(front, "configured", lambda: names)
    html = asked("/heads?text=a", host)[1].decode()
    assert tags(html)["og:image"].startswith(f"{origin}/preview.png?")


def test_all_else_is_answered_by_the_app() -> None:
    for path in ("/_stcore/health", "/static/js/x.js", "/media/a.png", "/masks/x", "//x"):
        assert asked(path)[0]["status"] == "0"


def test_a_links_picture_shows_its_sentence() -> None:
    pictures = []
    for text in ("I like dogs.", "I like dogs and cats.", "我喜欢狗。"):
        said, body = asked(f"/preview.png?{urlencode({'text': text, 'site': 'cross'})}")
        assert said["content-type"] == "image/png"
        pictures.append(Image.open(io.BytesIO(body)).convert("RGB"))
    assert {each.size for each in pictures} == {(1200, 630)}
    assert len({each.tobytes() for each in pictures}) == 3
    lines = [each.crop((48, 30, 1152, 150)) for each in pictures]  # the sentence, and the output
    assert len({each.tobytes() for each in lines}) == 3
    for query in ("model=none", "text=%20", "model=a~b", f"text={'a' * 301}"):
        assert asked(f"/preview.png?{query}")[0]["status"] == "404"
    assert drawable("dogs")
    assert not drawable("\U0010fffd")  # no font has it, so it is left out and not drawn as a box


def test_pictures_are_drawn_once_and_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(front, "drawn_for", lambda query: (drawn.append(query), b"png")[1])

    async def test() -> list[int]:
        pictures = front.Pictures()
        same = await asyncio.gather(*(pictures.of("text=a&unknown=1") for _ in range(5)))
        for query in ("text=a", "text=a&layer=99999999999", "text=a&lang=xx&site=cross"):
            same.append(await pictures.of(query))
        assert drawn == ["lang=en&text=a"]
        assert set(same) == {(200, b"png")}
        return [(await pictures.of(f"text={n}"))[0] for n in range(front.PER_MINUTE)]

    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(asyncio.run, test()).result()
    assert found == [200] * (front.PER_MINUTE - 1) + [503]
