"""What a tokenizer's special tokens are for."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Marks:
    """Token ids by their purpose. Each may be absent (None), and one token may serve several.

    GPT-2 has one token that both starts and ends a text; Marian's decoder starts with the padding
    token; BERT starts with [CLS] and both separates and ends with [SEP].
    """

    pad: int | None = None  # fills a row of a batch up; no real token sees it
    start: int | None = None  # the first token of what is generated, or of the one text
    end: int | None = None  # the last token of a source, of an output, of a text read both ways
    mask: int | None = None  # stands for a token to be filled in
    separator: int | None = None  # between two texts in one row
    unknown: int | None = None  # stands for what the vocabulary lacks
    further_ends: tuple[int, ...] = ()  # besides `end`: those of a turn in a conversation, say

    def __contains__(self, token: object) -> bool:
        """Whether a token id is one of the marks."""
        # Not `dataclasses.astuple`, which copies deeply: whole vocabularies are asked.
        return token is not None and (token in vars(self).values() or token in self.further_ends)

    def ends(self, token: int) -> bool:
        """Whether a token that is written ends the output."""
        return token == self.end or token in self.further_ends

    @property
    def all_ends(self) -> tuple[int, ...]:
        """The tokens that end an output."""
        return (*(() if self.end is None else (self.end,)), *self.further_ends)


PAD, START, END, UNKNOWN = range(4)  # the first tokens of every tokenizer that is trained here
OUR_MARKS = Marks(pad=PAD, start=START, end=END, unknown=UNKNOWN)
