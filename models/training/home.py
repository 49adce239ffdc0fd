"""Paths of data files: shipped models, word lists, sentences, the app's files.

In a checkout they are next to the packages; in a wheel they are inside `models` (the table
`force-include` in pyproject.toml). Only this module depends on the difference.
"""

from importlib.resources import files
from pathlib import Path


def home() -> Path:
    """The folder that contains `assets/`, `app.py` and `.streamlit/`."""
    package = data("models")
    packed = package / "_home"
    return packed if packed.is_dir() else package.parent


def asset(*names: str) -> Path:
    """A file or folder of `assets/`: asset("text", "en.toml")."""
    return home().joinpath("assets", *names)


def data(package: str, *names: str) -> Path:
    """A file or folder next to a package's modules: data("explorer.ui", "page.css").

    Returns a file system path, since Streamlit, torch and safetensors open files by path, and pip
    unpacks every wheel it installs. Raises TypeError for a package inside a zip file.
    """
    root = files(package)
    if not isinstance(root, Path):
        raise TypeError(f"{package} must be unpacked: it is read from {root}")
    return root.joinpath(*names)
