"""The chapter names and the chapter of each page; other pages need nothing else of the course."""

NAMES = ("attention", "masks", "positions", "blocks", "writing")

CHAPTER_OF: dict[str, str] = {
    "heads": "attention",
    "cell": "attention",
    "masks": "masks",
    "certificate": "masks",
    "clinic": "masks",
    "positions": "positions",
    "blocks": "blocks",
    "machine": "blocks",
    "decoding": "writing",
    "claims": "attention",
    "alignment": "attention",
    "causes": "attention",
    "circuits": "attention",
    "atlas": "attention",
    "patching": "blocks",
    "training": "writing",
    "workshop": "masks",
}
"""The chapter that links to a page, and to which the page links back."""
