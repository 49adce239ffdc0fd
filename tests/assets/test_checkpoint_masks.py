"""The masks of every shipped model hold every promise."""

from pathlib import Path

import pytest
from typecheck import unchecked

from explorer import text
from explorer.analysis.mask_tests.certify import FINDINGS, examine_text
from explorer.library import open_model
from models.checkpoint import CONFIG

ASSETS = Path(__file__).parents[2] / "assets"


FOLDERS = sorted(path.parent for path in (ASSETS / "checkpoints").glob(f"*/{CONFIG}"))
CORE = {"copy", "masked-en", "stories", "twin-learned"}
"""One of each design; `make sweep` examines all."""


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(each, marks=() if each.name in CORE else pytest.mark.sweep, id=each.name)
        for each in FOLDERS
    ],
)
def test_the_masks_of_each_hold_every_promise(folder: Path) -> None:
    loaded = open_model(folder)
    sentence = next(iter(text.examples(folder.name).values()))[0]
    with unchecked():  # shapes are checked on small models
        certificate = examine_text(loaded, sentence).certificate()
    assert [(each.name, each.where) for each in certificate.broken] == []
    # A model of one text has no cross-attention, and an encoder no future to hide, nor a cache.
    left_out = 0 if loaded.config.reads_source else 1 if loaded.config.is_causal else 5
    left_out += loaded.config.positions == "none"
    assert len(certificate.findings) == len(FINDINGS) - left_out
