"""Certificates of small models, and the common bugs that are planted in them."""

from collections.abc import Sequence
from typing import Any

from explorer.analysis.cases import BUGS, Case
from explorer.analysis.mask_tests.certify import Certificate, Finding, examine, examine_text
from explorer.analysis.mask_tests.probe import Interference
from explorer.library import LoadedModel
from explorer.runs.edits import Edit
from models.config import ModelConfig

SRC, TGT = (7, 5, 9, 11, 13, 6, 2), (1, 8, 10, 4, 12)
MASK_FAULTS = [
    bug
    for bug in BUGS
    if bug.plant is not None and bug.group in ("masks", "shapes", "fills", "padding")
]


def broken(certificate: Certificate) -> set[str]:
    return {finding.name for finding in certificate.findings if not finding.passed}


def certify(
    model: Any,
    config: ModelConfig,
    src: Sequence[int],
    tgt: Sequence[int],
    interference: Interference | None = None,
) -> Certificate:
    return examine(model, config, src, tgt, interference).certificate()


def found_by(certificate: Certificate, name: str) -> Finding:
    (finding,) = (each for each in certificate.findings if each.name == name)
    return finding


def certified(
    loaded: LoadedModel, text: str, target: str | None = None, edits: tuple[Edit, ...] = ()
) -> Certificate:
    return examine_text(loaded, text, target, edits).certificate()


def planted(model: Any, bug: Case) -> Certificate:
    assert bug.plant is not None
    plant = bug.plant
    return certify(model, model.config, SRC, TGT, lambda rows: plant(model, rows))
