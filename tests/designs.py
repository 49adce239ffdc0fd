"""The shipped models, one per design, and what each page is asked of them."""

from dataclasses import asdict

from explorer import library
from explorer.pages import LESSONS
from models.config import ModelConfig

SHELF = library.CHECKPOINTS
SIZES = {"vocab_size", "d_model", "n_layers", "n_encoder_layers", "n_heads", "d_ff", "n_ctx"}


def designs(pairs: bool | None = None) -> list[str]:
    """One model per design: models that differ in sizes alone run the same code.

    The one with the shortest context stands for the others, then the one with the fewest layers:
    sizes that are too small are what code breaks on. With `pairs`, translators alone or all others.
    """
    found: dict[str, tuple[int, int, str]] = {}
    for name in library.list_models(SHELF):
        config = ModelConfig.from_json((SHELF / name / "config.json").read_text("utf-8"))
        kinds = {key: value for key, value in asdict(config).items() if key not in SIZES}
        if pairs not in (None, config.reads_source):
            continue
        model = (config.n_ctx, config.n_layers, name)
        found[str(kinds)] = min(model, found.get(str(kinds), model))
    return [name for *_, name in found.values()]


GROUPS = {
    "masks": ("heads", "masks", "certificate"),
    "blocks": ("blocks",),
    "clinic": ("clinic", "machine"),
    "cell": ("cell",),
    "claims": ("claims",),
    "decoding": ("decoding",),
    "positions": ("positions",),
}
"""Pages that one file of tests visits; every page is in one of them."""


def parts_of(group: str) -> list[tuple[str, dict[str, str]]]:
    """A visit of each part of a group's pages; of the whole page where it has none."""
    assert {name for names in GROUPS.values() for name in names} == {page.name for page in LESSONS}
    return [
        (page.name, {"part": part})
        for page in LESSONS
        for part in getattr(page.choices, "parts", ("",))
        if page.name in GROUPS[group]
    ]
