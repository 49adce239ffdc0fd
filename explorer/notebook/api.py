"""`python -m explorer.notebook.api`: docs/api.md, made from the docstrings of the public names."""

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
    # Names of types without their modules, as one would write them.
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", signature).replace("collections.abc.", "")


def _said(thing: Any) -> str:
    return inspect.getdoc(thing) or ""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
