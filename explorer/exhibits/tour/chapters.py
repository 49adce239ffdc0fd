"""The chapter names and the chapter of each page; other pages need nothing else of the course."""

NAMES = ("attention", "masks", "positions", "blocks", "writing")

CHAPTER_OF: dict[str, str] = {
    "heads": "attention",
    "score": "attention",
    "masks": "masks",
    "mask_tests": "masks",
    "bugs": "masks",
    "positions": "positions",
    "blocks": "blocks",
    "model": "blocks",
    "decoding": "writing",
    "claims": "attention",
    "alignment": "attention",
    "attribution": "attention",
    "circuits": "attention",
    "atlas": "attention",
    "patching": "blocks",
    "training": "writing",
    "exercises": "masks",
}
"""The chapter that links to a page, and to which the page links back."""
