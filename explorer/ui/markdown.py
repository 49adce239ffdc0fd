"""Sanitizes untrusted Markdown: supported syntax is rewritten, everything else is shown as text.

markdown-it-py parses it as CommonMark with tables and without HTML. Headings, paragraphs, lists,
quotations, tables, code, emphasis and http(s) links are written again from its tree. Everything
else (images, formulas, Streamlit's `:red[…]`) becomes text with all markup characters escaped
(`exhibits.block`). Nothing is executed and nothing is loaded.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from explorer.exhibits.block import escape

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode as Node

# Without names that are also special tokens, which a card may mention: <s>, <mask>, <pad>.
_NAMES = (
    "a|abbr|article|audio|b|blockquote|br|button|center|code|dd|del|details|div|dl|dt|em|figcaption"
    "|figure|font|footer|form|h[1-6]|header|hr|i|iframe|img|input|kbd|li|link|meta|nav|object|ol|p"
    "|picture|pre|samp|section|small|source|span|strong|sub|summary|sup|svg|table|tbody|td|tfoot|th"
    "|thead|tr|tt|u|ul|video"
)
# No pattern nests unbounded repetitions, so the time is linear in the length.
_CODE_OR_HTML = re.compile(
    r"(?P<code>^[ \t>]*(?P<fence>`{3,}|~{3,})[^\n`]*\n.*?(?:^[ \t>]*(?P=fence)|\Z)"
    r"|(?<!`)(?P<ticks>`{1,5})(?!`).{1,500}?(?<!`)(?P=ticks)(?!`))"
    r"|<!--.{0,1000}?-->"
    r"|<(?P<whole>script|style)\b.{0,1000}?(?:</(?P=whole)\s{0,9}>|\Z)"
    rf"|</?(?:{_NAMES})(?=[\s/>])[^<>]{{0,1000}}>",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
_URL = re.compile(r"(https?://[\w.~:/?#@!&+,;=%-]{0,2000}[\w/#=&%~-])")
_LOOSE = re.compile(r"\*\*(\S(?:[^*]{0,2000}\S)?)\*\*")
"""Marks that CommonMark does not read, such as those of `**注意：**请`."""
_WIDE = r"[\u2e80-\u9fff\uff00-\uffef“”‘’…]"
_WIDE_BREAK = re.compile(rf"(?<={_WIDE})\n(?={_WIDE})")  # Chinese has no blank between lines


def sections(markdown: str, below: int = 0) -> tuple[str, list[tuple[str, str]]]:
    """Return `markdown` as safe Markdown: the part before its first heading of level 2, and
    title and text of each section from there.

    Its headings are moved down by `below` levels, below the headings of the page.
    """
    parts: list[tuple[str, list[str]]] = [("", [])]
    for node in _tree(markdown).children:
        if node.type == "heading" and node.tag == "h2":
            parts.append((_inline(node), []))
        else:
            parts[-1][1].append(_block(node, below))
    (_, before), *rest = [(title, "\n\n".join(blocks)) for title, blocks in parts]
    return before, rest


def has_more(markdown: str) -> bool:
    """Whether it has images or HTML, which `sections` reduces to their text."""
    has_html = any(match["code"] is None for match in _CODE_OR_HTML.finditer(markdown))
    return has_html or any(node.type == "image" for node in _tree(markdown).walk())


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # takes half a second, and only the Card page needs it

    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("text_join")
    parser.validateLink = lambda url: True  # type: ignore[method-assign]  # see `_link`
    return parser


def _tree(markdown: str) -> "Node":
    from markdown_it.tree import SyntaxTreeNode

    text = _CODE_OR_HTML.sub(lambda match: match["code"] or "", markdown.expandtabs(4))
    return SyntaxTreeNode(_parser().parse(text))


def _block(node: "Node", below: int) -> str:
    """A block as safe Markdown."""
    match node.type:
        case "heading":
            return f"{'#' * min(6, int(node.tag[1]) + below)} {_inline(node)}"
        case "hr":
            return "---"
        case "fence" | "code_block":
            return _code(node.content.rstrip(), node.info)
        case "table":
            return _table(node)
        case "blockquote":
            inner = "\n\n".join(_block(child, below) for child in node.children)
            return "\n".join(f"> {line}" for line in inner.splitlines())
        case "bullet_list" | "ordered_list":
            return "\n".join(_items(node, below))
    return _inline(node)


def _code(text: str, info: str) -> str:
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    language = re.match(r"[\w+-]*", info)
    return f"{fence}{language[0] if language else ''}\n{text}\n{fence}"


def _items(node: "Node", below: int) -> Iterator[str]:
    """The items of a list; the lines of each are indented as far as its first."""
    for number, item in enumerate(node.children, int(node.attrs.get("start", 1))):
        mark = f"{number}. " if node.type == "ordered_list" else "- "
        is_tight = all(child.hidden for child in item.children if child.type == "paragraph")
        blocks = ("\n" if is_tight else "\n\n").join(
            _block(child, below) for child in item.children
        )
        yield mark + re.sub(r"\n(?=.)", "\n" + " " * len(mark), blocks)


def _table(node: "Node") -> str:
    head, *rows = [row.children for part in node.children for row in part.children]
    sides = {"text-align:left": ":--", "text-align:right": "--:", "text-align:center": ":--:"}
    rules = [sides.get(str(cell.attrs.get("style")), "--") for cell in head]
    lines = [[_inline(cell).replace("|", r"\|") for cell in row] for row in (head, *rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (lines[0], rules, *lines[1:]))


def _inline(node: "Node", in_link: bool = False) -> str:
    """The inline content of a node on one line, keeping emphasis, code and links."""
    parts: list[str] = []
    for child in node.children:
        match child.type:
            case "text":
                parts += _words(_LOOSE.sub(r"\1", child.content), in_link)
            case "text_special":  # an escaped character
                parts.append(_text(child.content))
            case "code_inline":
                parts.append(_code_span(child.content))
            case "softbreak" | "hardbreak":
                parts.append("\n")
            case "strong":
                parts.append(f"**{_inline(child, in_link)}**")
            case "em":
                parts.append(f"*{_inline(child, in_link)}*")
            case "link":
                parts.append(_link(_inline(child, in_link=True), str(child.attrs["href"])))
            case "image":
                parts.append(_text(child.content))
            case _:
                parts.append(_inline(child, in_link))
    return _WIDE_BREAK.sub("", "".join(parts)).replace("\n", " ").strip()


def _words(text: str, in_link: bool) -> list[str]:
    """Text in which each address is a link, unless it is in one."""
    if in_link:
        return [_text(text)]
    return [
        _link(_text(part), part) if number % 2 else _text(part)
        for number, part in enumerate(_URL.split(text))
    ]


def _code_span(text: str) -> str:
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    ticks = "`" * (longest + 1)
    return f"{ticks}{space}{text}{space}{ticks}"


def _link(words: str, address: str) -> str:
    """A link if its address is of the web, else its words."""
    if not words or not address.startswith(("https://", "http://")):
        return words
    # All Markdown characters of the address are escaped.
    to = quote(address, safe="/:?#@!+,;=%&~.-_").replace("&", "&amp;")
    return f"[{words}](<{to}>)"


def _text(text: str) -> str:
    """Escaped text, with leading and trailing space preserved as one space."""
    lead, end = (" " if char.isspace() else "" for char in (text[:1], text[-1:]))
    return f"{lead}{escape(text)}{end if text.strip() else ''}"
