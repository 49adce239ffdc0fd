"""The website: every link leads to a file of it, and nothing in it comes from elsewhere."""

import re
from html import unescape
from urllib.parse import unquote, urlsplit

from docs.website import __main__ as website


def test_every_address_of_the_website_is_in_it(tmp_path, monkeypatch):
    monkeypatch.setattr(website, "LIVE", ("reverse",))
    website.write(tmp_path, website.LIVE)
    pages = {path: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    assert {"index.html", "zh.html"} <= {path.name for path in pages}
    looked_at = 0
    for path, html in pages.items():
        assert "content-security-policy" in html
        assert not re.search("<[^>]* style=|&lt;!--", html), path  # the policy forbids styles
        for address in re.findall(r'(?:href|src)="([^"]*)"', html):
            to = urlsplit(unescape(address))
            if to.scheme == "data":
                continue
            assert not to.scheme, (path, address)
            assert not to.netloc, (path, address)
            target = (path.parent / unquote(to.path)).resolve() if to.path else path
            if target.parent.name != "pictures":  # which the app draws
                assert target.is_file(), (path, address)
            if to.fragment:
                assert f'id="{unquote(to.fragment)}"' in target.read_text(encoding="utf-8")
            looked_at += 1
    assert looked_at > 100


def test_a_space_opens_the_port_that_the_image_serves():
    _, header, _ = (website.ROOT / "docs/serving/space.md").read_text("utf-8").split("---\n", 2)
    said = dict(line.split(": ", 1) for line in header.splitlines())
    image = (website.ROOT / "docs/serving/Containerfile").read_text("utf-8")
    assert said["sdk"] == "docker"
    assert f"EXPOSE {said['app_port']}\n" in image
    assert f'"--port", "{said["app_port"]}"]' in image
