"""`FILE.py:FUNCTION` on the command line: certify the model that the function builds."""

import importlib.util
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from explorer.notebook.certify import Certified, certify


def is_code(spec: str) -> bool:
    """Whether `spec` names Python code, not a model."""
    return spec.endswith(".py") or ".py:" in spec


def certify_built(spec: str) -> Certified:
    """Run a function of a Python file without arguments, and certify what it returns.

    The function returns (forward, src, tgt), (forward, src, tgt, pad_id), or a dict of arguments
    of `certify`. As with `python FILE`, the file can import from its own folder.
    Raises ValueError for a malformed spec, a missing file or function, or any other result. Errors
    raised by the file itself become ValueErrors that name the line.
    """
    name, colon, function = spec.rpartition(":")
    if not colon or not name or not function.isidentifier():
        raise ValueError(f"{spec}: expected FILE.py:FUNCTION")
    path = Path(name)
    if not path.is_file():
        raise ValueError(f"there is no file {name}")
    sys.path.insert(0, str(path.resolve().parent))
    try:
        return certify(**_built(path, function))
    except (ValueError, OSError):
        raise
    except Exception as error:  # user code may raise anything: report it
        here, trail = path.resolve(), traceback.extract_tb(error.__traceback__)
        lines = [at.lineno for at in trail if Path(at.filename).resolve() == here]
        where = f"{name}, line {lines[-1]}" if lines else name
        raise ValueError(f"{where}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.resolve().parent))


def _built(path: Path, function: str) -> Mapping[str, Any]:
    """The arguments for `certify` that a function of this file returns."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    build: Any = getattr(module, function, None)
    if not callable(build):
        raise ValueError(f"{path} has no function {function}")
    built = build()
    if isinstance(built, Mapping):
        return built
    if isinstance(built, tuple) and len(built) in (3, 4):
        return dict(zip(("forward", "src", "tgt", "pad_id"), built, strict=False))
    raise ValueError(
        f"{function} returned {type(built).__name__}, expected (forward, src, tgt), "
        "(forward, src, tgt, pad_id), or a dict of arguments of certify"
    )
