"""Shapes and types checked while tests run: jaxtyping's import hook with beartype behind it.

Only modules that speak of shapes are checked. A checked call costs some 0.1 ms, so hook points and
their visitors, called more than a hundred times in a pass and without shapes of their own, would
take two thirds of the tests' time (measured: 150 against 60 s for tests/explorer/certificate).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beartype import BeartypeConf, beartype
from jaxtyping import config, install_import_hook

ROOT = Path(__file__).parents[1]

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int for a float, as in mypy


def shaped_modules() -> list[str]:
    """The modules of `models` and of the analyses that import jaxtyping."""
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for folder in (ROOT / "models", ROOT / "explorer" / "analysis")
        for path in sorted(folder.rglob("*.py"))
        if "from jaxtyping import" in path.read_text(encoding="utf-8")
    ]


def check_shapes() -> None:
    """Check every one of them, if called before its first import."""
    install_import_hook(shaped_modules(), "typecheck.check")


@contextmanager
def unchecked() -> Iterator[None]:
    """No checks inside: for long experiments that only repeat calls which other tests check."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", before)
