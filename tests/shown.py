"""What a page shows, as AppTest sees it: its words, its figures, the link that leads to it."""

import base64
import json
import re
from collections.abc import Callable, Iterator
from string import Formatter
from typing import Any

import numpy as np
from payloads import unpack, unpack_matrices
from streamlit.testing.v1 import AppTest

from explorer.text import words

Open = Callable[..., AppTest]
READS = {"text": "She reads a book every morning."}  # untrained models tell its words apart
WHOLE = {"cases": {"guess": "true", "tested": "1"}, "alignment": READS, "patching": READS}
"""What a page's link needs besides, for the page to show everything that it has."""


def models_page(**params: str) -> AppTest:
    """The page of models behind a link, already drawn."""
    at = AppTest.from_function(_models, default_timeout=60)
    for key, value in params.items():
        at.query_params[key] = value
    return at.run()


def _models() -> None:
    from explorer.pages import shelf
    from explorer.shell import LINKS, show_alone
    from explorer.ui import session

    session.start(LINKS)
    show_alone("models", shelf.render)


def everything(at: AppTest) -> str:
    """All words on the page that came through Markdown."""
    others = (words_of(each) for kind in (at.caption, at.warning, at.info) for each in kind)
    return "\n".join((*texts(at), *others))


def texts(at: AppTest) -> list[str]:
    """All Markdown on the page; a reading whose rest is below the picture as one text."""
    rest = dict(_keyed(at.main, "told"))
    heads = {id(element): name for name, element in _keyed(at.main, "reading")}
    found = []
    for element in at.markdown:
        if element in rest.values():
            continue
        words, more = words_of(element), rest.get(heads.get(id(element), ""))
        if more is not None:
            words += " " * (words[-1] not in "。！？") + words_of(more)
        found.append(words)
    return found


def _keyed(block: Any, key: str) -> Iterator[tuple[str, Any]]:
    """The first Markdown of each container named KEY-NAME, by NAME."""
    for each in block.children.values():
        if hasattr(each, "children"):
            inside = re.search(rf"-{key}-(.+)", getattr(each.proto, "id", ""))
            if inside and len(each.markdown):
                yield inside[1], each.markdown[0]
            else:
                yield from _keyed(each, key)


def messages(at: AppTest) -> str:
    return "\n".join(str(each.value) for each in at.warning)


def with_titles(at: AppTest) -> str:
    """The same with the headings of the page's parts."""
    return everything(at) + "\n".join(str(each.value) for each in at.subheader)


def words_of(element: Any) -> str:
    """What a text element says, its unbreakable blanks as plain ones, without links to terms."""
    return unlinked(str(element.value)).replace("\u00a0", " ")


def unlinked(markdown: str) -> str:
    """Markdown without its links to the glossary."""
    return re.sub(r'\[([^\[\]]+)\]\(glossary\?.*?"\)', r"\1", markdown)


def reading(at: AppTest, needle: str) -> str:
    """The one Markdown text that contains `needle`."""
    found = [words for words in texts(at) if needle in words]
    assert len(found) == 1, found
    return found[0]


def filled(at: AppTest, key: str) -> dict[str, str]:
    """What stands for each placeholder of this English text, which is on the page."""
    pattern, names = "", set()
    for literal, name, plural, _ in Formatter().parse(words("en")[key]):
        pattern += re.escape(literal)
        if name is not None:
            pattern += ".+?" if plural or name in names else f"(?P<{name}>.+?)"
            names.add(name)
    found = re.search(pattern, everything(at))
    assert found, pattern
    return found.groupdict()


def payload(at: AppTest, name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What the component of this name was given: head and arrays."""
    (given,) = (each.proto.bytes for each in at.main.get("bidi_component") if each.key == name)
    return unpack(given)


def film(at: AppTest) -> dict[str, Any]:
    return payload(at, "decoding.film")[0]


def written(at: AppTest) -> list[str]:
    return [frame["tokens"][frame["chosen"]] for frame in film(at)["frames"]]


def charts(at: AppTest, name: str = "") -> list[dict[str, Any]]:
    """The charts of a page, or the one of this name."""
    return [json.loads(each.proto.spec) for each in at.get("plotly_chart") if name in each.key]


def numbers(values: Any) -> np.ndarray:
    """Those of a chart's trace, which Plotly's JSON may hold as bytes."""
    if isinstance(values, dict):
        return np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"])
    return np.array(values)


def panels(at: AppTest, key: str = "") -> list[dict[str, Any]]:
    """Of each matrix, or of those of one block, what it was sent (`unpack_matrices`)."""
    found = []
    for each in at.main.get("bidi_component"):
        if each.proto.component_name == "headlight_matrices" and each.proto.id.endswith(key):
            found += unpack_matrices(each.proto.bytes)
    return found


def code_on(at: AppTest) -> str:
    """The code on the page; the link and the reading to be copied are no code."""
    return "\n".join(each.value for each in at.code if each.language != "plaintext")


def copied(at: AppTest, needle: str) -> str:
    """What the page offers to copy and contains this: a link, the reading, a line of HTML."""
    (found,) = (each.value for each in at.code if needle in each.value)
    return found


def formulas(at: AppTest) -> str:
    return "\n".join(str(each.value) for each in at.latex)


def link(at: AppTest) -> dict[str, str]:
    return {name: str(at.query_params[name]) for name in at.query_params}


def has_picture(at: AppTest) -> bool:
    return bool(at.get("plotly_chart") or at.main.get("bidi_component"))
