"""Where everything lies that is not Python: shipped models, words, sentences, the app's files.

In a checkout these stand beside the packages; a wheel carries them inside `models` (the
table `force-include` in pyproject.toml). Nothing else needs to know which of the two it is.
"""

from importlib.resources import files
from pathlib import Path


def home() -> Path:
    """The folder that holds `assets/`, `app.py` and `.streamlit/`."""
    package = data("models")
    packed = package / "_home"
    return packed if packed.is_dir() else package.parent


def asset(*names: str) -> Path:
    """A file or folder of `assets/`: asset("text", "en.toml")."""
    return home().joinpath("assets", *names)


def data(package: str, *names: str) -> Path:
    """A file or folder that stands beside a package's modules: data("explorer.ui", "page.css").

    A path of the file system, since Streamlit, torch and safetensors all open files by path: pip
    unpacks every wheel that it installs. Raises TypeError for a package inside a zip file.
    """
    root = files(package)
    if not isinstance(root, Path):
        raise TypeError(f"{package} must be unpacked: it is read from {root}")
    return root.joinpath(*names)
