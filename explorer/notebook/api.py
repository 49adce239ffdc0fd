"""`python -m explorer.notebook.api` writes docs/api.md from the docstrings of the public names."""

import inspect
import re
from pathlib import Path
from typing import Any

import explorer

PAGE = Path("docs/api.md")
HEAD = """\
# Headlight in Python

`import explorer as hl` offers the names below. They are kept stable: none changes without a word in
the changelog. This page is made from their docstrings (`python -m explorer.notebook.api`).

## Where pictures show

A picture is one frame that loads nothing. It takes over the notebook's light or dark theme, follows
when that is switched, and is as high as what it shows. Browsers of 2023 or later draw it.

- **JupyterLab 4.6 and Notebook 7.6**: tried for real, in Chromium. Cells were run, heads opened,
  hovered over and locked, also by keyboard; a PNG was kept, the theme switched, the notebook saved
  and opened again.
- **A page made by nbconvert**: tried for real, in Chromium, as a file.
- **A notebook that is not trusted**: tried for real, in JupyterLab. It takes frames out and shows a
  still picture of the first head, with what to do (*File › Trust Notebook*).
- **VS Code**: not tried itself. The content policy and the sandbox of its webview are a test in
  Chromium.
- **Colab**: not tried itself. A sandboxed frame around the output, as Colab has, is a test in
  Chromium.
- **Notebooks that isolate outputs** by an origin of their own: a test in Chromium. The frame stays
  640 pixels high and scrolls.
- **Sites that show notebooks and run nothing**: not tried. What takes frames out leaves the still
  picture, as in a notebook that is not trusted.

JupyterLab forgets what was clicked in a frame when its cell scrolls far out of sight; *Settings ›
Notebook › Windowing mode › defer* keeps it. Notebook 7 puts a very high output, such as a
translator's three views, into a box that scrolls; a click on the left edge opens it. `hl.positions`
adds 5 MB to a saved notebook, the script that draws its charts.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *(_entry(name, getattr(explorer, name)) for name in explorer.__all__)])


def _entry(name: str, thing: Any) -> str:
    lines = [f"## hl.{name}", ""]
    if not inspect.isclass(thing):
        lines += [f"```python\n{name}{_signature(thing)}\n```", ""]
    lines += [_said(thing), ""]
    if not inspect.isclass(thing):
        return "\n".join(lines)
    for member, value in vars(thing).items():
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
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
