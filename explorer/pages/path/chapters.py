"""The chapters by name, and which page leads to which: all that other pages ask of the course."""

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
"""The chapter that leads to a page, which the page leads back to."""
