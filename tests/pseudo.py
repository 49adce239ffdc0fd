"""A language that does not exist: English, with each text marked and a third longer."""

import re

from explorer import text

LONGER = "~lorem ipsum dolor sit amet"


def pseudo(english: str) -> str:
    """A text in the made-up language; placeholders stay, and both forms of a plural are marked."""
    marked = re.sub(r"\{(\w+):([^|}]*)\|([^}]*)\}", r"{\1:⟦\2⟧|⟦\3⟧}", english)
    pieces = re.split(r"(\{[^{}]*\})", marked)
    return "".join(
        piece if piece[:1] in ("", "{") else f"⟦{piece}{LONGER[: len(piece) // 3]}⟧"
        for piece in pieces
    )


def speak() -> None:
    """Let this process speak it instead of English."""
    marked = {key: pseudo(words) for key, words in text.words("en").items()}
    text.words = lambda lang: marked
