"""Headlight's explorer: run one sentence through one model, and inspect everything about it.

In a notebook: `import explorer as hl`, then the names below. Each is loaded on first use, so
the import itself costs nothing; docs/api lists them with their arguments and results.
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

_HOMES = {
    "Attention": "explorer.notebook.captured",
    "Captured": "explorer.notebook.captured",
    "Certified": "explorer.notebook.certify",
    "Picture": "explorer.notebook.picture",
    "ablate": "explorer.analysis.heads.ablation",
    "attribute": "explorer.analysis.heads.attribution",
    "capture": "explorer.notebook.capture",
    "certify": "explorer.notebook.certify",
    "trace": "explorer.notebook.opening",
    "open_model": "explorer.notebook.opening",
    "show": "explorer.render.notebook",
    "table": "explorer.notebook.table",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
