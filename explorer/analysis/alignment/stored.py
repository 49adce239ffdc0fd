"""A ranking of heads as a file: read instead of computed if it was made from the same inputs."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from explorer.analysis.alignment.agreement import Aligner
from explorer.analysis.alignment.links import LinkQuality
from explorer.analysis.alignment.study import Checked, Study
from explorer.analysis.atlas.make import weights_digest
from explorer.library import LoadedModel


def digest_of(models: Sequence[LoadedModel], sentences: Sequence[Sequence[str]]) -> str:
    """SHA-256 of the files of the models and of their sentences."""
    inputs = [[weights_digest(loaded) for loaded in models], *sentences]
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()


def to_json(study: Study, digest: str) -> str:
    """The file: numbers in full, so that what is read equals what was written."""
    return json.dumps({"digest": digest} | vars(study), default=_plain)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else vars(value)


def read(path: Path, digest: str) -> Study | None:
    """The ranking in a file; None if there is none of these inputs."""
    record = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    if record.pop("digest", None) != digest:
        return None
    record["heads"] = tuple(map(tuple, record["heads"]))
    record["scores"] = np.array(record["scores"])
    record |= {name: _aligner(record[name]) for name in ("best", "mean")}
    if checked := record["checked"]:
        checked["errors"] = np.array(checked["errors"])
        checked["diagonal"] = LinkQuality(**checked["diagonal"])
        scores = checked["scores"].items()
        checked["scores"] = {name: LinkQuality(**quality) for name, quality in scores}
        record["checked"] = Checked(**checked)
    return Study(**record)


def _aligner(record: dict[str, Any] | None) -> Aligner | None:
    if record is None:
        return None
    reverse = record["reverse"]
    return Aligner(np.array(record["forward"]), None if reverse is None else np.array(reverse))
