"""Propose a second sentence: one word exchanged, tokenized to the same number of tokens."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from explorer.analysis.patching.pair import pair
from explorer.library import LoadedModel
from explorer.problems import InputProblem
from explorer.runs.inputs import given_tokens
from explorer.runs.passes import Steps
from explorer.runs.trace import Trace

MOST_TRIED = 40
"""Sentences that are tried before giving up."""

Groups = Mapping[str, Sequence[Sequence[str]]]


def offered(
    loaded: LoadedModel, traced: Trace, groups: Groups, target: str | None = None
) -> Steps[str | None]:
    """The Trace's text with one word exchanged, such that it has the same number of tokens and the
    model answers it differently. None if no exchange does.

    `groups` are words that may replace each other; if they do not help, words of the text replace
    each other. The steps are attempts. Raises InputProblem `no_logits`.
    """
    first = len(given_tokens(loaded, traced.text))
    drawn = loaded.config.picture is not None
    texts = other_characters(traced.text) if drawn else exchanges(traced.text, groups)
    for done, text in enumerate(islice(texts, MOST_TRIED)):
        yield done, MOST_TRIED
        try:
            if len(given_tokens(loaded, text)) != first:
                continue
            both = pair(loaded, traced, text, target=target)
        except InputProblem as problem:
            if problem.key == "no_logits":
                raise
            continue
        if both.question.differs:
            return text
    return None


def exchanges(text: str, groups: Groups) -> Iterator[str]:
    """Texts with one word exchanged: by the groups, in their order, then by another word of the
    text itself. Capitalisation is preserved, and no text occurs twice."""
    seen = {text}
    for other in (*_by_group(text, groups), *_by_itself(text)):
        if other not in seen:
            seen.add(other)
            yield other


def other_characters(text: str) -> Iterator[str]:
    """Words to draw that differ in one character, the third one first, in the same face."""
    word, at, face = text.rpartition(" @") if " @" in text else (text, "", "")
    for index in sorted(range(len(word)), key=lambda at: abs(at - 2)):
        alike = "atnoeACHR" if word[index].isalpha() else "3578"
        for other in alike if word[index].isascii() else "天大人我好":
            if other.isupper() == word[index].isupper() and other != word[index]:
                yield f"{word[:index]}{other}{word[index + 1 :]}{at}{face}"


def _by_group(text: str, groups: Groups) -> Iterator[str]:
    for group in (group for groups in groups.values() for group in groups):
        wanted, others = group[0], group[1:]
        latin = wanted.isascii()
        pattern = rf"\b{re.escape(wanted)}\b" if latin else re.escape(wanted)
        spot = re.search(pattern, text, re.IGNORECASE)
        if spot is None:
            continue
        for other in others:
            begins = spot[0][0].isupper() and (wanted != "I" or spot.start() == 0)
            shown = other[0].upper() + other[1:] if begins else other
            yield text[: spot.start()] + shown + text[spot.end() :]


def _by_itself(text: str) -> Iterator[str]:
    """Every word replaced by every other, nearest first; characters in scripts without spaces, and
    the next letter of the alphabet if the words are letters."""
    blanks = " " in text.strip()
    words = text.split() if blanks else list(text)
    glue = " " if blanks else ""
    if words and all(len(word) == 1 and word.isascii() and word.isalpha() for word in words):
        for at in range(len(words) - 1, -1, -1):
            following = chr((ord(words[at].lower()) - ord("a") + 1) % 26 + ord("a"))
            yield glue.join([*words[:at], following, *words[at + 1 :]])
    for at in range(len(words)):
        for other in words:
            if other != words[at] and other.isalpha() and words[at].isalpha():
                yield glue.join([*words[:at], other, *words[at + 1 :]])
