"""The author's description of the open model."""

from explorer.analysis.card.words import MOST_CHARS, CardWords, card_words
from explorer.exhibits import Exhibit, View, block as b
from explorer.library import LoadedModel


def compute(loaded: LoadedModel, lang: str) -> CardWords:
    """In the user's language if available, else as it is."""
    return card_words(loaded.folder, lang)


def show(words: CardWords, view: View) -> b.Blocks:
    """The description, its language if it is another one, and what is left out."""
    if not words.markdown.strip():
        yield b.Hint(view.t("card.none"), "info")
        return
    if words.lang not in (None, view.lang):
        yield b.Hint(view.t(f"card.only_{words.lang}"), "translate")
    yield b.Document("card", words.markdown, view.t("card.left_out"))
    if words.is_cut:
        yield b.Note(view.t("card.cut", count=f"{MOST_CHARS:,}"))


EXHIBIT = Exhibit(compute, show)
