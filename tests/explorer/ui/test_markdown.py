"""Other people's Markdown: what is understood stays, and nothing else acts or loads anything."""

import html
import re
import time
from pathlib import Path

import pytest

from explorer.ui.markdown import has_more, sections
from models.training.home import asset

CARDS = sorted(Path(asset("checkpoints")).glob("*/CARD*.md"))
IMAGE = "![A](https://a.example/x.png)"


def harmless(markdown: str, below: int = 0) -> str:
    before, rest = sections(markdown, below)
    heads = [f"{'#' * (2 + below)} {title}\n\n{text}".strip() for title, text in rest]
    return "\n\n".join(part for part in (before, *heads) if part)


def read(markdown: str) -> str:
    """What somebody reads of Markdown in which marks are character references."""
    return html.unescape(markdown).replace("\u2060", "")


def outside_code(markdown: str) -> str:
    return re.sub(r"(?ms)^```.*?^```$|`[^`]*`", "", markdown)


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("# Title", "# Title"),
        ("# Title ##", "# Title"),
        ("Title\n=====\nwords", "# Title\n\nwords"),
        ("Title\n---", "## Title"),
        ("one\ntwo", "one two"),
        ("一，\n二", "一，二"),
        ("one\n\ntwo", "one\n\ntwo"),
        ("- one\n- two\n  more", "- one\n- two more"),
        ("3. one\n4. two", "3. one\n4. two"),
        ("In\n2015. Then", "In 2015&#46; Then"),
        ("- one\n  1. two\n\n     three\n- four", "- one\n  1. two\n\n     three\n- four"),
        ("> one\n> two", "> one two"),
        ("***", "---"),
        ("    one\n      two\n\nthree", "```\none\n  two\n```\n\nthree"),
        ("~~~python\nx = `1`\n~~~", "```python\nx = `1`\n```"),
        ("````\n```\n````", "````\n```\n````"),
        ("```\nnever closed", "```\nnever closed\n```"),
        ("a `b* c` d", "a `b* c` d"),
        ("a `<b>` ``<i> ` c`` d", "a `<b>` ``<i> ` c`` d"),
        ("**a** *b* __c__ _d_ e_f_g", "**a** *b* **c** *d* e&#95;f&#95;g"),
        ("a**“b”**c", "a“b”c"),
        ("**注意：**请", "注意：请"),
        (r"\*a\*", "&#42;a&#42;"),
        ("[a](https://b.example/c)", "[a](<https://b.example/c>)"),
        ("[a](https://b.example/c_(d))", "[a](<https://b.example/c_%28d%29>)"),
        ("| a | b |\n|---|--:|\n| 1 | `x\\|y` |", "| a | b |\n| -- | --: |\n| 1 | `x\\|y` |"),
        # A badge is a link with the words of its picture; no mark of an address is left.
        (
            "[![Build](https://a.example/x.svg)](https://b.example/)",
            "[Build](<https://b.example/>)",
        ),
        ("[a](https://b.example/$c*[d)", "[a](<https://b.example/%24c%2A%5Bd>)"),
    ],
)
def test_what_is_understood_is_written_anew(given, made):
    assert harmless(given) == made


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("a<script>alert(1)</script>b", "ab"),
        ("<b>bold</b>", "bold"),
        ('<div\nalign="center">a</div>', "a"),
        ("<!-- a\nb -->c", "c"),
        (IMAGE, "A"),
        ("![A][badge]\n\n[badge]: https://a.example", "A"),
        ("<s> and <mask>", "<s> and <mask>"),
        ("$x^2$ and :red[a] :smile:", "$x^2$ and :red[a] :smile:"),
        ("[a](javascript:alert(1))", "a"),
        ("[a](docs/b.md)", "a"),
        ("&lt;script&gt;", "<script>"),
        ("<marquee onload=x>", "<marquee onload=x>"),
    ],
)
def test_the_rest_is_shown_and_obeyed_by_nobody(given, seen):
    made = harmless(given)
    assert read(made) == seen
    assert not re.search(r"[<>$!\[\]()]|:\w", made)


def test_bare_addresses_are_links_and_headings_stand_under_those_of_the_page():
    made = harmless("See https://a.example/b?d=1&e=2. And <https://c.example>")
    assert "(<https://a.example/b?d=1&amp;e=2>)&#46; And" in made
    assert "(<https://c.example>)" in made
    made = harmless("# a\n## b\n###### c", below=2)
    assert made == "### a\n\n#### b\n\n###### c"


@pytest.mark.parametrize("given", [IMAGE, "a<br>b", "<!-- a -->", "<script>", "![a][b]\n\n[b]: c"])
def test_pictures_and_html_are_noticed(given):
    assert has_more(given)
    assert not has_more(f"`{given}` a < b, <s>")
    assert not has_more(f"```\n{given}\n```")


@pytest.mark.parametrize("path", CARDS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_shipped_cards_are_read_whole(path):
    """All their words and numbers are there, in order; no mark is left that was meant to act."""
    given = path.read_text(encoding="utf-8")
    made = harmless(given)
    assert not has_more(given)
    words = re.compile(r"\w+")
    assert words.findall(read(re.sub(r"\]\(<[^>]*>\)", "", made))) == words.findall(
        re.sub(r"\[(\w+)\]\(https://[^)]*\)", r"\1", given)
    )
    left = read(re.sub(r"\*\*([^*]+)\*\*", r"\1", outside_code(made)))
    assert "**" not in left
    assert "`" not in left


HOSTILE = [
    *("`" * 40_000, "``a`b" * 8_000, "[" * 40_000, "[a" * 20_000, "*a" * 20_000, "**a " * 10_000),
    *("<!--" * 10_000, "<script" * 5_700, "_a" * 20_000, " -" * 20_000, "- " * 20_000),
    *("|-" * 20_000, "#" * 40_000 + "a", "# " + "#" * 39_990 + "a", ">" * 40_000, "> " * 20_000),
    *("http://" * 5_700, "<a " * 13_000, "![a](" * 8_000, "[![a](b)" * 5_000, " " * 40_000 + "x"),
    *("|a\n|-|\n" * 5_000, "a\n" * 20_000, "    a\n\n" * 6_000, "[a](<" * 8_000, "\\" * 40_000),
]


@pytest.mark.parametrize(
    "given", [each[:10_000] for each in HOSTILE], ids=lambda given: repr(given[:8])
)
def test_no_card_keeps_the_page_waiting(given):
    before = time.process_time()
    harmless(given)
    has_more(given)
    assert time.process_time() - before < 2  # a quadratic time would be many seconds
