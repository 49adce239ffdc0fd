"""`FILE.py:FUNCTION` on the command line: what it builds is certified."""

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from explorer.notebook.certify import Certified, certify


def is_code(spec: str) -> bool:
    """Whether what is to be certified is Python code, as against a model."""
    return spec.endswith(".py") or ".py:" in spec


def certify_built(spec: str) -> Certified:
    """Run a function of a Python file without arguments, and certify what it returns.

    That is (forward, src, tgt), perhaps with a pad_id behind, or a dict of arguments of `certify`.
    The file runs as `python FILE` would, with its own folder to import from.
    Raises ValueError for a spec of another form, no such file or function, and another result.
    """
    name, colon, function = spec.rpartition(":")
    if not colon or not name or not function.isidentifier():
        raise ValueError(f"{spec}: expected FILE.py:FUNCTION")
    path = Path(name)
    if not path.is_file():
        raise ValueError(f"there is no file {name}")
    module = importlib.util.module_from_spec(_spec(path))
    sys.path.insert(0, str(path.resolve().parent))
    try:
        assert module.__spec__ is not None
        assert module.__spec__.loader is not None
        module.__spec__.loader.exec_module(module)
        build: Any = getattr(module, function, None)
        if not callable(build):
            raise ValueError(f"{name} has no function {function}")
        built = build()
    finally:
        sys.path.remove(str(path.resolve().parent))
    if isinstance(built, Mapping):
        return certify(**built)
    if isinstance(built, tuple) and len(built) in (3, 4):
        return certify(*built)
    raise ValueError(
        f"{function} returned {type(built).__name__}, expected (forward, src, tgt), "
        "(forward, src, tgt, pad_id), or a dict of arguments of certify"
    )


def _spec(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None:
        raise ValueError(f"{path} is not a Python file")
    return spec
