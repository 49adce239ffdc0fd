"""`python -m docs.website.api` writes docs/api.md and docs/api/ from the public docstrings."""

import inspect
import re
from pathlib import Path
from typing import Any

import explorer

DOCS = Path("docs")
PAGES = {
    "pictures": ("Pictures", ("show", "table", "Picture")),
    "models": (
        "Models and captures",
        ("open_model", "trace", "ablate", "attribute", "capture", "Attention", "Captured"),
    ),
    "certify": ("Mask tests", ("certify", "Certified")),
}
"""The title and the names of each page in docs/api/."""
HEAD = """\
# Headlight in Python

`import explorer as hl` provides the names below. Their interface is stable: every change is listed
in the changelog. These pages are generated from the docstrings (`python -m docs.website.api`).
"""
FOOT = """\
## Where pictures are displayed

A picture is a single frame that makes no network requests. It follows the notebook's light or dark
theme and is as high as its content. It requires a browser of 2023 or later.

- **JupyterLab 4.6 and Notebook 7.6**: tested by hand in Chromium: running cells, opening, hovering
  over and locking heads, also by keyboard; saving a PNG; switching the theme; saving and reopening
  the notebook.
- **A page made by nbconvert**: tested by hand in Chromium, as a file.
- **An untrusted notebook**: tested by hand in JupyterLab, which removes frames. A still picture of
  the first head is shown instead, with instructions (*File › Trust Notebook*).
- **VS Code**: not tested itself. A test in Chromium applies its webview's content policy and
  sandbox.
- **Colab**: not tested itself. A test in Chromium puts the output into a sandboxed frame, as Colab
  does.
- **Notebooks that isolate outputs** in an origin of their own: tested in Chromium. The frame stays
  640 pixels high and scrolls.
- **Sites that render notebooks without running them**: not tested. If they remove frames, the still
  picture remains, as in an untrusted notebook.

JupyterLab resets a frame when its cell scrolls far out of sight; *Settings › Notebook › Windowing
mode › defer* prevents this. Notebook 7 puts a very high output, such as a translator's three views,
into a scrolling box; click its left edge to expand it. A picture with
charts adds 5 MB to a saved notebook: the script that draws them.
"""


def pages() -> dict[Path, str]:
    """The text of each page, by path: the index, and one page per group of names."""
    found = {}
    index = [HEAD]
    for file, (title, names) in PAGES.items():
        entries = [_entry(name, getattr(explorer, name)) for name in names]
        found[DOCS / "api" / f"{file}.md"] = "\n".join([f"# {title}\n", *entries])
        index += [f"## [{title}](api/{file}.md)", ""]
        index += [f"- `hl.{name}`: {_first(getattr(explorer, name))}" for name in names]
        index.append("")
    return {DOCS / "api.md": "\n".join([*index, FOOT]), **found}


def _first(thing: Any) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(_said(thing).partition("\n\n")[0].split())


def _entry(name: str, thing: Any) -> str:
    lines = [f"## hl.{name}", ""]
    if not inspect.isclass(thing):
        lines += [f"```python\n{name}{_signature(thing)}\n```", ""]
    lines += [_said(thing), ""]
    if not inspect.isclass(thing):
        return "\n".join(lines)
    kinds = thing.__mro__[-2::-1]  # without `object`
    for member, value in (pair for kind in kinds for pair in vars(kind).items()):
        found = value.fget if isinstance(value, property) else value
        if member.startswith("_") or not inspect.isfunction(found) or not inspect.getdoc(found):
            continue
        call = "" if isinstance(value, property) else _signature(found)
        lines += [f"**`.{member}{call}`** {_said(found)}", ""]
    return "\n".join(lines)


def _signature(thing: Any) -> str:
    signature = str(inspect.signature(thing)).replace("(self, ", "(").replace("(self)", "()")
    # Drop module names from types.
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", signature).replace("collections.abc.", "")


def _said(thing: Any) -> str:
    return inspect.getdoc(thing) or ""


def main() -> None:
    """Write the pages."""
    for path, written in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    main()
