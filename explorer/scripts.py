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
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from explorer.figures.theme import css
from models.training.home import data

FOLDER = data("explorer", "components")
SCRIPTS = "components"
"""The address of the views' scripts on the server, relative to the app's."""
NAMESPACE = "$modules"
"""The one name that linking adds; no file may use it."""

_NAME = r"[A-Za-z_$][\w$]*"
_IMPORT = re.compile(r'^import \{([^{}]*)\} from "\./([\w-]+\.js)";[ \t]*$', re.MULTILINE)
_EXPORT = re.compile(
    rf"^export (?=(?:async )?function\b\*? ?({_NAME})|class ({_NAME})|const ({_NAME}) =)",
    re.MULTILINE,
)
_DEFAULT = re.compile(r"^export default (?:async )?function\b", re.MULTILINE)
_STATEMENT = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


class LinkError(Exception):
    """A module cannot be linked; the message gives the file, the line and the reason."""


@dataclass(frozen=True)
class Module:
    """One file: `imports` are (file, ((name there, name here), …)), `exports` names in order."""

    file: str
    source: str
    imports: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    exports: tuple[str, ...]
    default: bool


def link(folder: Path, entry: str) -> str:
    """Link the file `entry` of `folder` and all its imports into one module with a default export.

    Raises LinkError for a missing file, a name that a file does not export, circular imports, a
    second or missing default export, a name imported twice, and unsupported forms of import and
    export.
    """
    modules = _in_order(folder, entry)
    *parts, last = modules.values()
    for part in parts:
        if part.default:
            raise LinkError(f"{part.file}: only {entry}, the view itself, has a default export")
    if not last.default:
        raise LinkError(f"{entry}: the view itself needs `export default function`")
    texts = [f"const {NAMESPACE} = {{}};"] if parts else []
    texts += [
        f'{NAMESPACE}["{part.file}"] = (() => {{\n{_body(part)}\n'
        f"return {{ {', '.join(part.exports)} }};\n}})();"
        for part in parts
    ]
    return "\n".join([*texts, _body(last)])


@cache
def script(view: str) -> tuple[str, str]:
    """A view's script and its file name at `SCRIPTS`, which contains a hash of it: a browser
    requests each version once.

    It exports the view and, as `styles`, the palette, shared.css and the view's own CSS.
    """
    styles = "\n".join((css(), *(_text(name) for name in ("shared.css", f"{view}.css"))))
    text = (
        f"{link(FOLDER, f'{view}.js')}\nexport const styles = new CSSStyleSheet();\n"
        f"styles.replaceSync({json.dumps(styles)});\n"
    )
    return text, f"{view}.{hashlib.sha256(text.encode()).hexdigest()[:16]}.js"


def _text(file: str) -> str:
    return (FOLDER / file).read_text(encoding="utf-8")


def read(folder: Path, file: str) -> Module:
    """Parse the imports and exports of a file. Raises LinkError for unsupported forms."""
    try:
        source = (folder / file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise LinkError(f"{file}: there is no such file in {folder.name}/") from None
    if NAMESPACE in source:
        raise LinkError(f"{file}: {NAMESPACE} is the linker's own name")
    known = {
        match.start() for form in (_IMPORT, _EXPORT, _DEFAULT) for match in form.finditer(source)
    }
    for statement in _STATEMENT.finditer(source):
        if statement.start() not in known:
            line = source.count("\n", 0, statement.start()) + 1
            raise LinkError(f"{file}:{line}: not understood: {statement[0].strip()}")
    imports = tuple((match[2], tuple(_names(file, match[1]))) for match in _IMPORT.finditer(source))
    exports = tuple(next(filter(None, match.groups())) for match in _EXPORT.finditer(source))
    n_default = len(_DEFAULT.findall(source))
    here = [name for _, names in imports for _, name in names]
    for what, names in (("imported", here), ("exported", exports)):
        for name in names:
            if names.count(name) > 1:
                raise LinkError(f"{file}: {name} is {what} twice")
    if n_default > 1:
        raise LinkError(f"{file}: there are {n_default} default exports")
    return Module(file, source, imports, exports, n_default == 1)


def _names(file: str, inside: str) -> Iterator[tuple[str, str]]:
    """Of `{ one, two as three }`: (one, one), (two, three)."""
    for part in inside.split(","):
        if not part.strip():  # after a trailing comma
            continue
        match = re.fullmatch(rf"({_NAME})(?: as ({_NAME}))?", part.strip())
        if match is None:
            raise LinkError(f"{file}: not understood in an import: {part.strip()}")
        yield match[1], match[2] or match[1]


def _in_order(folder: Path, entry: str) -> dict[str, Module]:
    """Every module that `entry` needs, in topological order, `entry` last."""
    done: dict[str, Module] = {}
    open_: list[str] = []

    def visit(file: str) -> None:
        if file in open_:
            circle = " → ".join([*open_[open_.index(file) :], file])
            raise LinkError(f"modules import each other in a circle: {circle}")
        if file in done:
            return
        open_.append(file)
        module = read(folder, file)
        for other, names in module.imports:
            visit(other)
            for name, _ in names:
                if name not in done[other].exports:
                    raise LinkError(f"{file}: {other} does not export {name}")
        open_.pop()
        done[file] = module

    visit(entry)
    return done


def _body(module: Module) -> str:
    """The source with imports read from the namespace; only `entry` keeps its default export."""
    text = _EXPORT.sub("", module.source)

    def reading(found: re.Match[str]) -> str:
        names = ", ".join(
            there if there == here else f"{there}: {here}"
            for there, here in _names(module.file, found[1])
        )
        return f'const {{ {names} }} = {NAMESPACE}["{found[2]}"];'

    return _IMPORT.sub(reading, text)
