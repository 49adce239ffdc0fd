"""Links the JavaScript modules of a view into one: Streamlit takes a single script for a component.

The files are plain ES modules. Streamlit loads the script from a URL that is not a folder, so
`import … from "./axes.js"` would fail there. `link` therefore wraps each imported file in a
function that returns its exports, and every import reads from that. Names stay private to their
file, as in a browser; a file runs once, after all of its imports.

Only these import and export forms are supported, each at the start of a line; any other is refused:

    import { name, name as other } from "./file.js";
    export function name(…) {…}          export async function, function*, class: likewise
    export const name = …
    export default function (…) {…}      once, in the view's own file
"""

import hashlib
import json
import re
from functools import cache
from pathlib import Path

from explorer.figures.theme import css
from models.training.home import data

FOLDER = data("explorer", "components")
SCRIPTS = "components"
"""The address of the views' scripts on the server, relative to the app's."""
NAMESPACE = "$modules"
"""The one name that linking adds."""

_NAME = r"[A-Za-z_$][\w$]*"
_NAMES = re.compile(rf"({_NAME})(?: as ({_NAME}))?")
_IMPORT = re.compile(r'^import \{([^{}]*)\} from "\./([\w-]+\.js)";[ \t]*$', re.MULTILINE)
_EXPORT = re.compile(
    rf"^export (?=(?:async )?function\b\*? ?({_NAME})|class ({_NAME})|const ({_NAME}) =)",
    re.MULTILINE,
)
_DEFAULT = re.compile(r"^export default (?:async )?function\b", re.MULTILINE)
_STATEMENT = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


class LinkError(Exception):
    """A module cannot be linked; the message gives the file, the line and the reason."""


def link(folder: Path, entry: str) -> str:
    """Link the file `entry` of `folder` and all its imports into one module with a default export.

    Raises LinkError for a name that a file does not export, circular imports, and unsupported forms
    of import and export.
    """
    exports: dict[str, list[str]] = {}
    parts: list[str] = []

    def linked(file: str, importers: tuple[str, ...] = ()) -> str:
        """The file with imports read from the namespace, once its imports are in `parts`."""
        if file in importers:
            circle = " → ".join([*importers[importers.index(file) :], file])
            raise LinkError(f"modules import each other in a circle: {circle}")
        source = (folder / file).read_text(encoding="utf-8")
        _require_known_forms(file, source)

        def reading(match: re.Match[str]) -> str:
            other = match[2]
            if other not in exports:
                body = linked(other, (*importers, file))
                result = f"return {{ {', '.join(exports[other])} }};"
                parts.append(f'{NAMESPACE}["{other}"] = (() => {{\n{body}\n{result}\n}})();')
            names = []
            for there, here in _NAMES.findall(match[1]):
                if there not in exports[other]:
                    raise LinkError(f"{file}: {other} does not export {there}")
                names.append(f"{there}: {here}" if here else there)
            return f'const {{ {", ".join(names)} }} = {NAMESPACE}["{other}"];'

        body = _EXPORT.sub("", _IMPORT.sub(reading, source))
        exports[file] = [next(filter(None, names)) for names in _EXPORT.findall(source)]
        return body

    view = linked(entry)
    return "\n".join([f"const {NAMESPACE} = {{}};", *parts, view])


def _require_known_forms(file: str, source: str) -> None:
    forms = (_IMPORT, _EXPORT, _DEFAULT)
    known = {match.start() for form in forms for match in form.finditer(source)}
    for statement in _STATEMENT.finditer(source):
        if statement.start() not in known:
            line = source.count("\n", 0, statement.start()) + 1
            raise LinkError(f"{file}:{line}: not understood: {statement[0].strip()}")


@cache
def script(view: str) -> tuple[str, str]:
    """A view's script and its file name at `SCRIPTS`, which contains a hash of it: a browser
    requests each version once.

    It exports the view and, as `styles`, the palette, shared.css and the view's own CSS.
    """
    files = (FOLDER / name for name in ("shared.css", f"{view}.css"))
    styles = "\n".join((css(), *(file.read_text(encoding="utf-8") for file in files)))
    text = (
        f"{link(FOLDER, f'{view}.js')}\nexport const styles = new CSSStyleSheet();\n"
        f"styles.replaceSync({json.dumps(styles)});\n"
    )
    return text, f"{view}.{hashlib.sha256(text.encode()).hexdigest()[:16]}.js"
