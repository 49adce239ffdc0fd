"""Sanitizes untrusted Markdown: supported syntax is rewritten, everything else is shown as text.

Headings, paragraphs, lists, quotations, tables, code, emphasis and http(s) links are supported.
Everything else (HTML, images, formulas, Streamlit's `:red[…]`) becomes text with all markup
characters escaped (`ui.escape`). Nothing is executed and nothing is loaded.

No pattern nests unbounded repetitions, so the time is linear in the length.
"""

import html
import re
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import quote

from explorer.exhibits.escape import escape

# Without names that are also special tokens, which a card may mention: <s>, <mask>, <pad>.
_NAMES = (
    "a|abbr|article|audio|b|blockquote|br|button|center|code|dd|del|details|div|dl|dt|em|figcaption"
    "|figure|font|footer|form|h[1-6]|header|hr|i|iframe|img|input|kbd|li|link|meta|nav|object|ol|p"
    "|picture|pre|samp|section|small|source|span|strong|sub|summary|sup|svg|table|tbody|td|tfoot|th"
    "|thead|tr|tt|u|ul|video"
)
_HTML = re.compile(
    r"<!--.{0,1000}?-->"
    r"|<(?P<whole>script|style)\b.{0,1000}?(?:</(?P=whole)\s{0,9}>|\Z)"
    rf"|</?(?:{_NAMES})(?=[\s/>])[^<>]{{0,1000}}>",
    re.DOTALL | re.IGNORECASE,
)
_FENCE = re.compile(r" *(`{3,}|~{3,}) *([\w+-]*)[^`]*")
_HEADING = re.compile(r" {0,3}(#{1,6}) (.*)")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,}) *")
_RULE = re.compile(r" {0,3}([-*_])(?: *\1){2,} *")
_ITEM = re.compile(r"( *)(?:[-*+]|(\d{1,9})[.)]) +(.*)")
_QUOTATION = re.compile(r" {0,3}> ?(.*)")
_DELIMITERS = re.compile(r"\|?(?: *:?-+:? *\|)+(?: *:?-+:?)?")
_IMAGE = r"!\[[^\[\]]{0,500}\](?:\([^()]{0,2000}\)|\[[^\[\]]{0,200}\])"
_CODE = r"(?<!`)(?P<ticks>`{1,5})(?!`)(?P<code>.{1,500}?)(?<!`)(?P=ticks)(?!`)"
_CODE_OR_HTML = re.compile(f"(?P<span>{_CODE})|{_HTML.pattern}", _HTML.flags)
_LEFT_OUT = re.compile(f"(?P<span>{_CODE})|(?P<left>{_IMAGE}|{_HTML.pattern})", _HTML.flags)
_INLINE = re.compile(
    rf"{_CODE}"
    r"|!\[(?P<alt>[^\[\]]{0,500})\](?:\([^()]{0,2000}\)|\[[^\[\]]{0,200}\])"
    rf"|\[(?P<words>(?:[^\[\]!]|{_IMAGE}|!){{0,500}})\]"
    r"\( {0,9}<?(?P<to>(?:[^\s<>()]|\([^\s<>()]{0,100}\)){0,1000})>?"
    r"(?: {1,9}(?:\"[^\"]{0,500}\"|'[^']{0,500}'))? {0,9}\)"
    r"|<?(?P<url>https?://[\w.~:/?#@!&+,;=%-]{0,2000}[\w/#=&%~-])>?"
    r"|\*\*(?P<strong>[^\s*](?:[^*]{0,2000}[^\s*])?)\*\*"
    r"|\*(?P<em>[^\s*](?:[^*]{0,2000}[^\s*])?)\*"
    r"|(?<!\w)__(?P<strong_>[^\s_](?:[^_]{0,2000}[^\s_])?)__(?!\w)"
    r"|(?<!\w)_(?P<em_>[^\s_](?:[^_]{0,2000}[^\s_])?)_(?!\w)"
    r"|\\(?P<literal>[!-/:-@\[-`{-~])"
)
_WIDE = r"[\u2e80-\u9fff\uff00-\uffef“”‘’…]"
_WIDE_BREAK = re.compile(rf"(?<={_WIDE})\n(?={_WIDE})")  # Chinese has no blank between lines
_DEEPEST = 4


def sections(markdown: str, below: int = 0) -> tuple[str, list[tuple[str, str]]]:
    """Return `markdown` as safe Markdown: the part before its first heading of level 2, and
    title and text of each section from there.

    Its headings are moved down by `below` levels, below the headings of the page.
    """
    mark = f"{'#' * (2 + below)} "
    parts: list[tuple[str, list[str]]] = [("", [])]
    for block in _safe(markdown, below):
        if block.startswith(mark):
            parts.append((block.removeprefix(mark), []))
        else:
            parts[-1][1].append(block)
    (_, before), *rest = [(title, "\n\n".join(blocks)) for title, blocks in parts]
    return before, rest


def _safe(markdown: str, below: int) -> list[str]:
    """The safe blocks of `markdown`."""
    blocks: list[str] = []
    for language, lines in _parts(markdown.expandtabs(4).splitlines()):
        if language is not None:
            blocks.append(_code(lines, language))
        else:
            text = _CODE_OR_HTML.sub(lambda found: found["span"] or "", "\n".join(lines))
            blocks += _blocks(text.splitlines(), below)
    return blocks


def has_more(markdown: str) -> bool:
    """Whether it has images or HTML, which `sections` reduces to their text."""
    plain = ("\n".join(lines) for name, lines in _parts(markdown.splitlines()) if name is None)
    return any(found["left"] for text in plain for found in _LEFT_OUT.finditer(text))


def _parts(lines: Sequence[str]) -> Iterator[tuple[str | None, list[str]]]:
    """Yield the lines outside and inside fences alternately; inside, with the language name."""
    part: list[str] = []
    fence = language = None
    for line in lines:
        found = _FENCE.fullmatch(line)
        if fence is None and found is not None:
            yield None, part
            part, fence, language = [], found[1], found[2]
        elif fence is not None and line.strip().startswith(fence) and not line.strip(f" {fence}"):
            yield language, part
            part, fence, language = [], None, None
        else:
            part.append(line)
    yield language, part


def _blocks(lines: Sequence[str], below: int, depth: int = 0) -> Iterator[str]:
    """Yield the blocks of lines without fences, rewritten."""
    at = 0
    while at < len(lines):
        line, start = lines[at], at
        at += 1
        if not line.strip():
            continue
        if line.startswith("    "):
            at = _end(lines, at, lambda each: each.startswith("    ") or not each.strip())
            yield _code([each[4:] for each in lines[start:at]])
        elif _RULE.fullmatch(line):
            yield "---"
        elif heading := _HEADING.fullmatch(line):
            yield _heading(len(heading[1]), heading[2].rstrip(" #"), below)
        elif _is_table(lines[start : start + 2]):
            at = _end(lines, at, lambda each: "|" in each)
            yield _table(lines[start:at])
        elif _ITEM.fullmatch(line):
            at = _end(lines, at, lambda each: each.startswith(" ") or not _begins(each, but=_ITEM))
            yield "\n".join(_items(lines[start:at]))
        elif _QUOTATION.fullmatch(line) and depth < _DEEPEST:
            at = _end(lines, at, lambda each: _QUOTATION.fullmatch(each) is not None)
            inner = [_QUOTATION.sub(r"\1", each) for each in lines[start:at]]
            quoted = "\n\n".join(_blocks(inner, below, depth + 1))
            yield "\n".join(f"> {each}" for each in quoted.splitlines())
        else:
            at = _end(lines, at, lambda each: not _begins(each))
            words = lines[start:at]
            under = _UNDERLINE.fullmatch(lines[at]) if at < len(lines) else None
            at += under is not None
            if under is None:
                yield _inline(_joined(words))
            else:
                yield _heading(1 if under[1][0] == "=" else 2, _joined(words), below)


def _end(lines: Sequence[str], at: int, goes_on: Callable[[str], bool]) -> int:
    """The end of the run of lines from `at` for which `goes_on` is true."""
    return next((index for index in range(at, len(lines)) if not goes_on(lines[index])), len(lines))


def _begins(line: str, but: re.Pattern[str] | None = None) -> bool:
    """Whether a line ends the paragraph before it; lines that match `but` do not."""
    kinds = (_UNDERLINE, _RULE, _HEADING, _ITEM, _QUOTATION)
    if (item := _ITEM.fullmatch(line)) and item[2] not in (None, "1") and but is None:
        return False  # a number at the beginning of a line: "2015. Then …"
    return not line.strip() or any(kind.fullmatch(line) for kind in kinds if kind is not but)


def _code(lines: Sequence[str], language: str = "") -> str:
    text = "\n".join(lines).rstrip()
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _heading(level: int, words: str, below: int) -> str:
    return f"{'#' * min(6, level + below)} {_inline(words)}"


def _is_table(lines: Sequence[str]) -> bool:
    head, *more = (each.strip() for each in lines)
    return "|" in head and bool(more) and _DELIMITERS.fullmatch(more[0]) is not None


def _table(lines: Sequence[str]) -> str:
    head, rules, *rows = (_cells(line) for line in lines)
    sides = [f"{':' * r.startswith(':')}--{':' * r.endswith(':')}" for r in rules]
    sides = (sides + ["--"] * len(head))[: len(head)]
    body = [
        [_inline(cell).replace("|", r"\|") for cell in row[: len(head)]] for row in (head, *rows)
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in (body[0], sides, *body[1:]))


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", inner)]


def _items(lines: Sequence[str]) -> Iterator[str]:
    """Yield the items of a list; lines without a marker belong to the item before them."""
    items: list[tuple[str, list[str]]] = []
    for line in lines:
        if item := _ITEM.fullmatch(line):
            mark = f"{item[2]}." if item[2] else "-"
            items.append((f"{item[1][:12]}{mark} ", [item[3]]))
        else:
            items[-1][1].append(line)
    return (f"{mark}{_inline(_joined(words))}" for mark, words in items)


def _joined(lines: Sequence[str]) -> str:
    """The lines of a paragraph as one line."""
    return _WIDE_BREAK.sub("", "\n".join(line.strip() for line in lines)).replace("\n", " ")


def _inline(text: str, depth: int = 0) -> str:
    """One line of text as Markdown, keeping emphasis, code and links."""
    done, at = [], 0
    for found in _INLINE.finditer(text) if depth < _DEEPEST else ():
        before, after = text[found.start() - 1 : found.start()], text[found.end() : found.end() + 1]
        done += [_text(text[at : found.start()]), _marked(found, before, after, depth)]
        at = found.end()
    return "".join([*done, _text(text[at:])]).strip()


def _marked(found: re.Match[str], before: str, after: str, depth: int) -> str:
    """The replacement of one markup match between the characters `before` and `after`."""
    part = found.groupdict()
    if part["code"] is not None:
        return f"{part['ticks']}{part['code']}{part['ticks']}"
    if part["alt"] is not None:
        return _text(part["alt"])
    if part["words"] is not None:
        words, to = _inline(part["words"], depth + 1), part["to"]
        return f"[{words}]({_address(to)})" if _is_link(to) and words else words
    if part["url"] is not None:
        return f"[{_text(part['url'])}]({_address(part['url'])})"
    if part["literal"] is not None:
        return _text(part["literal"])
    for mark, name in (("**", "strong"), ("**", "strong_"), ("*", "em"), ("*", "em_")):
        if part[name] is not None:
            inner, words = part[name], _inline(part[name], depth + 1)
            # In CommonMark, a marker between a letter and punctuation faces the other way.
            sticks = (before.isalnum() and not inner[0].isalnum()) or (
                after.isalnum() and not inner[-1].isalnum()
            )
            return words if sticks else f"{mark}{words}{mark}"
    raise AssertionError(f"no group of the pattern matched in {found[0]!r}")


def _is_link(address: str) -> bool:
    return address.startswith(("https://", "http://"))


def _address(url: str) -> str:
    """A link's address with all Markdown characters escaped."""
    return f"<{quote(html.unescape(url), safe='/:?#@!+,;=%&~.-_').replace('&', '&amp;')}>"


def _text(text: str) -> str:
    """Escaped text, with leading and trailing space preserved as one space."""
    text = html.unescape(text)
    lead, end = (" " if each.isspace() else "" for each in (text[:1], text[-1:]))
    return f"{lead}{escape(text)}{end if text.strip() else ''}"
