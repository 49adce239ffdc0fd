"""The only palette, light and dark: the meaning of each colour is defined here.

Teal is the source stream and amber the target stream; queries are pink, keys blue and values
green; attention is one hue from the background to indigo; differences diverge around a neutral
zero; a blocked cell is hatched grey. Colours that appear side by side also differ in lightness or
pattern, so hue is never the only difference.
"""

import re
import unicodedata
from dataclasses import dataclass, fields
from typing import Literal

Stream = Literal["src", "tgt"]

FONT = (
    'system-ui, -apple-system, "Segoe UI", "Noto Sans", "PingFang SC", "Hiragino Sans GB", '
    '"Microsoft YaHei", "Noto Sans CJK SC", "Noto Sans SC", sans-serif'
)
"""System fonts only, with the Chinese fonts of macOS, Windows and Linux after the Latin ones."""


@dataclass(frozen=True)
class Palette:
    """One of the two palettes; every field is a CSS colour or a tuple of them."""

    ink: str
    muted: str
    line: str
    paper: str
    source: str
    source_soft: str
    target: str
    target_soft: str
    accent: str
    query: str
    key: str
    value: str
    blocked: str
    hatch: str
    attention: tuple[str, ...]
    diverging: tuple[str, ...]
    curves: tuple[str, ...]
    rules: tuple[str, ...]
    rule_marks: tuple[str, ...]

    def stream(self, stream: Stream) -> str:
        """The colour of a token stream: "src" teal, "tgt" amber."""
        return self.source if stream == "src" else self.target


LIGHT = Palette(
    ink="#1f2430",
    muted="#6b7080",
    line="#dcdee6",
    paper="#ffffff",
    source="#0f766e",
    source_soft="#d7f0ec",
    target="#b45309",
    target_soft="#fcebcb",
    accent="#4338ca",
    query="#be185d",
    key="#0369a1",
    value="#4d7c0f",
    blocked="#ececef",
    hatch="#b4b6bf",
    attention=("#f7f7fc", "#cccdf0", "#9596de", "#5f5bc0", "#2e2a7d"),
    diverging=("#a01c2c", "#e58b7f", "#fafafa", "#7fb0dc", "#1d5a9e"),
    curves=("#4338ca", "#c2410c", "#4a7a94", "#7a8b2a", "#a8328f", "#64748b"),
    rules=("#dcd6f0", "#dfe1e5", "#d3e4ee", "#f7d9d0", "#e6ebcb", "#f0d9ec"),
    rule_marks=("#6d5ba6", "#7b818d", "#3f7390", "#b5472d", "#6b7a2a", "#96358a"),
)

DARK = Palette(
    ink="#e8e9ef",
    muted="#9a9eac",
    line="#343844",
    paper="#0e1117",
    source="#2dd4bf",
    source_soft="#123f3b",
    target="#fbbf24",
    target_soft="#463310",
    accent="#a5b0ff",
    query="#f472b6",
    key="#38bdf8",
    value="#a3e635",
    blocked="#23262f",
    hatch="#555967",
    attention=("#171a25", "#2c2e63", "#4d50b3", "#8689ec", "#dcdeff"),
    diverging=("#ff8a7a", "#8f4a44", "#20232c", "#3c648f", "#7fb8ff"),
    curves=("#a5b0ff", "#ff9d6e", "#7fb4cf", "#b8c963", "#e58fd4", "#94a3b8"),
    rules=("#322c4a", "#2a2d36", "#1f3542", "#45261e", "#303519", "#42213d"),
    rule_marks=("#a898e0", "#8a909d", "#6cafd0", "#f0886c", "#b3c45f", "#e08fd4"),
)


def palette(dark: bool) -> Palette:
    """The palette of the dark or the light theme."""
    return DARK if dark else LIGHT


def css() -> str:
    """The same palette as custom properties `--hl-…`, for components.

    Light on `.hl`, dark on `.hl[data-dark]`; a tuple's members are numbered from 0.
    """
    return "\n".join(
        f"{selector} {{ {' '.join(_properties(colours))} }}"
        for selector, colours in ((".hl", LIGHT), (".hl[data-dark]", DARK))
    )


def _properties(colours: Palette) -> list[str]:
    lines = [f"--hl-font: {FONT};"]
    for field in fields(colours):
        value = getattr(colours, field.name)
        name = f"--hl-{field.name.replace('_', '-')}"
        if isinstance(value, str):
            lines.append(f"{name}: {value};")
        else:
            lines.extend(f"{name}-{index}: {colour};" for index, colour in enumerate(value))
    return lines


_VISIBLE = {"\n": "↵", "\r": "↵", "\t": "⇥", " ": "␣"}
_JOINERS = "\u200c\u200d"  # needed by scripts and emoji, without effect on text direction
ISOLATES = "\u2068\u2069"
"""Enclose text of either direction (UAX #9): first strong isolate, and its end."""
_RIGHT_TO_LEFT = {"R", "AL", "AN"}
_MAY_RUN_LEFT = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
"""All blocks with characters of right-to-left scripts."""
_ISOLATED = re.compile(
    "(\u2068[^\u2068\u2069]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc][^\u2068\u2069]*\u2069)"
)


def show(token: str) -> str:
    """A token as displayed: without invisible characters, and without effect on the direction of
    other text.

    Newlines, tabs and spaces at the ends are shown as symbols; other control and format characters
    (such as a right-to-left override) by name; an empty token as "∅". Right-to-left text is
    isolated, so that the text after it keeps its place; text already isolated is unchanged.
    """
    if token.isprintable() and token == token.strip(" ") != "" and not _MAY_RUN_LEFT.search(token):
        return token
    parts = _ISOLATED.split(token)
    if not any(map(_runs_left, parts[1::2])):
        return isolated(visible(token))
    return "".join(
        isolated(part[1:-1]) if _runs_left(part) else "".join(_drawn(char, False) for char in part)
        for part in parts
    )


def isolated(text: str) -> str:
    """Text within isolates if some of it runs from right to left, else unchanged."""
    return text.join(ISOLATES) if _runs_left(text) else text


def bare(text: str) -> str:
    """The text without isolates, to measure its length."""
    return text.translate(dict.fromkeys(map(ord, ISOLATES)))


def _runs_left(text: str) -> bool:
    return any(unicodedata.bidirectional(character) in _RIGHT_TO_LEFT for character in text)


def clipped(drawn: str, most: int) -> str:
    """A result of `show`, cut to `most` characters; isolates stay closed."""
    inner = bare(drawn)
    if len(inner) <= most:
        return drawn
    cut = inner[: most - 1] + "…"
    return cut if inner == drawn else cut.join(ISOLATES)


def visible(token: str) -> str:
    """`show` without isolates, for parts of a longer text that is isolated as a whole."""
    if not token:
        return "∅"
    inner = token.strip(" ")
    lead = len(token) - len(token.lstrip(" "))
    padded = token if not inner else "␣" * lead + inner + "␣" * (len(token) - lead - len(inner))
    return "".join(_drawn(character, alone=not inner) for character in padded)


def _drawn(character: str, alone: bool) -> str:
    if character == " ":
        return "␣" if alone else " "
    if character in _VISIBLE:
        return _VISIBLE[character]
    if character not in _JOINERS and unicodedata.category(character) in {
        "Cc",
        "Cf",
        "Cs",
        "Zl",
        "Zp",
    }:
        return f"[U+{ord(character):04X}]"
    return character


def is_special(token: str) -> bool:
    """Whether a label is a special token; these are drawn dimmed.

    The tokenizer decides (`explorer.labels.SpecialToken`), not the characters: a user may type
    "<pad>" too, and each tokenizer has its own names.
    """
    return bool(getattr(token, "special", False))


def escape(text: str) -> str:
    """Escape text for Plotly, which interprets `<b>`, `<a href>`, `<span>` and entities in
    labels."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
