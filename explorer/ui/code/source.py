"""Source lookup: the functions that computed a picture, and the functions they call.

The source of given objects (functions, classes, methods, modules of a model) is read from their
files. Names they call are resolved as Python would resolve them: in the module's globals, in the
closure, on the instance. No source is copied, so none can be outdated.

An opened model runs faster subclasses of some modules (`models.fast`). The panel shows the plain
version, which reads like the paper; `SourceCode.faster` names the version that ran.
"""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

PROJECT = ("models", "explorer")
FAST = "models.fast"


@dataclass(frozen=True, eq=False)
class SourceCode:
    """The source of one function, class or table.

    `doc` is the first line of its docstring, or of its class's docstring. `faster` names the
    version in `models.fast` that ran instead ("": none). `ran` holds the code objects that ran: one
    for a function, one per method for a class, none for a table.
    """

    name: str
    module: str
    text: str
    doc: str
    faster: str
    ran: tuple[CodeType, ...]
    calls: tuple["SourceCode", ...] = ()


def lines_of(given: Sequence[object], known: Sequence[object] = ()) -> tuple[SourceCode, ...]:
    """The source of each object in `given`, in that order, each followed by what it calls.

    A module of a model is shown as its `forward`; a module without one, and any other instance, as
    its class. Instances in `known` and `given` resolve parameters of their type: if a function
    takes a `Model`, methods are looked up on the model in `known`. Objects in `given` are not
    listed again as callees. Raises TypeError for an object that is not the project's own code.
    """
    parts: list[_Part] = []
    for each in given:
        part = _part(each)
        if part is None:
            raise TypeError(
                f"{each!r} is not a function, class or module of {' or '.join(PROJECT)}"
            )
        parts.append(part)
    owners = (part.owner for part in parts if not isinstance(part.owner, (type, type(None))))
    known = (*known, *owners)
    called = [tuple(_calls(part, known)) for part in parts]
    # Only the call site shows whether a faster version ran.
    fast = {sub.what: sub for subs in called for sub in subs if isinstance(sub, _Part) and sub.ran}
    parts = [replace(part, ran=part.ran or fast.get(part.what, part).ran) for part in parts]
    shown = {part.what for part in parts}
    shown = shown.union(*(_methods(part.what) for part in parts if isinstance(part.what, type)))
    return tuple(
        replace(
            _lines(part),
            calls=tuple(
                _lines(sub) if isinstance(sub, _Part) else sub
                for sub in subs
                if not (isinstance(sub, _Part) and sub.what in shown)
            ),
        )
        for part, subs in zip(parts, called, strict=True)
    )


@dataclass(frozen=True, eq=False)
class _Instance:
    """An unknown instance of a class."""

    kind: type


@dataclass(frozen=True, eq=False)
class _Part:
    """A plain function or class, its `self`, and the faster function that ran instead."""

    what: Any
    owner: object = None
    ran: Any = None


def _source(what: type | FunctionType) -> str:
    """The dedented source of a function or class."""
    return _text(what if isinstance(what, type) else what.__code__)


@cache  # reading the file again took a tenth of a page's time
def _text(of: type | CodeType | ModuleType) -> str:
    return textwrap.dedent(inspect.getsource(of))


@lru_cache(128)
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


def _is_fast(thing: object) -> bool:
    return f"{thing.__module__}.".startswith(f"{FAST}.")


def _ours(thing: object) -> bool:
    return str(getattr(thing, "__module__", "")).partition(".")[0] in PROJECT


def _plain(function: Any) -> Any:
    """A function without its decorators."""
    while isinstance(function, (partial, classmethod, staticmethod)):
        function = function.func if isinstance(function, partial) else function.__func__
    return inspect.unwrap(function)


def _part(given: object) -> _Part | None:
    """The part that an object is shown as; None if it is not the project's own code."""
    if isinstance(given, _Instance):
        return _method(given, given.kind, "forward")
    if not isinstance(given, (type, MethodType)):
        given = _plain(given)
    if isinstance(given, MethodType):
        owner = given.__self__
        kind = owner if isinstance(owner, type) else type(owner)
        return _method(owner, kind, given.__name__)
    if isinstance(given, (type, FunctionType)):
        return _Part(given) if _ours(given) else None
    own = _method(given, type(given), "forward") if hasattr(type(given), "forward") else None
    if own is not None:
        return own
    # Faster versions of torch's own modules are not shown.
    plain = next(cls for cls in type(given).__mro__ if not _is_fast(cls))
    return _Part(plain, given) if _ours(plain) else None


def _method(owner: object, kind: type, name: str) -> _Part | None:
    """A method by its name: the plain version, and the faster one if it overrides that."""
    found = [cls for cls in kind.__mro__ if name in vars(cls)]
    plain = next((cls for cls in found if not _is_fast(cls)), None)
    if plain is None or not _ours(plain):
        return None
    what = _plain(vars(plain)[name])
    if not isinstance(what, FunctionType) or getattr(what, "__isabstractmethod__", False):
        return None
    first = _plain(vars(found[0])[name])
    ran = None if found[0] is plain or _hands_on(first, name) else first
    return _Part(what, None if isinstance(vars(plain)[name], staticmethod) else owner, ran)


def _hands_on(function: FunctionType, name: str) -> bool:
    """Whether an overriding method ends with a call of the overridden one."""
    tree = _tree(_source(function)).body[0]
    last = tree.body[-1] if isinstance(tree, ast.FunctionDef) else None
    return isinstance(last, ast.Return) and ast.unparse(last).startswith(f"return super().{name}(")


def _lines(part: _Part) -> SourceCode:
    what = part.what
    name = what.__qualname__.replace("<locals>.", "")
    doc = what.__doc__
    if not doc and not isinstance(what, type) and part.owner is not None:
        doc = _class_of(part).__doc__
    code: tuple[CodeType, ...]
    instead: list[type] = []
    if isinstance(what, type):
        code = tuple(each.__code__ for each in _methods(what))
        below: list[type] = type.__subclasses__(what)
        instead = [kind for kind in below if _is_fast(kind)]
        code += tuple(method.__code__ for kind in instead for method in _methods(kind))
    else:
        code = ((part.ran or what).__code__,)
    return SourceCode(
        name=name,
        module=what.__module__,
        text=_source(what),
        doc=(doc or "").strip().partition("\n")[0],
        faster=part.ran.__qualname__ if part.ran else instead[0].__name__ if instead else "",
        ran=code,
    )


def _methods(kind: type) -> list[FunctionType]:
    """The functions defined in a class, including its properties."""
    found = (each.fget if isinstance(each, property) else each for each in vars(kind).values())
    return [each for each in map(_plain, found) if isinstance(each, FunctionType)]


def _class_of(part: _Part) -> type:
    """The class that defines a method."""
    owner = part.owner.kind if isinstance(part.owner, _Instance) else part.owner
    kind = owner if isinstance(owner, type) else type(owner)
    name = part.what.__name__
    return next(cls for cls in kind.__mro__ if _plain(vars(cls).get(name)) is part.what)


def _calls(part: _Part, known: Sequence[object]) -> Iterator[_Part | SourceCode]:
    """The functions that a part calls and the tables it reads, in order, without repeats."""
    seen: set[object] = {part.what}
    for found in _Scope(part, known).names():
        key = found.what if isinstance(found, _Part) else found.name
        if key not in seen:
            seen.add(key)
            yield found


class _Scope:
    """Resolves the names used in a function or class."""

    def __init__(self, part: _Part, known: Sequence[object]) -> None:
        what = part.what
        self.part, self.known = part, known
        self.tree = _tree(_source(what)).body[0]
        self.globals = vars(sys.modules[what.__module__])
        self.meant: dict[str, object] = {}
        if isinstance(what, FunctionType):
            cells = zip(what.__code__.co_freevars, what.__closure__ or (), strict=True)
            self.meant |= {name: cell.cell_contents for name, cell in cells}
        self._hide_locals()
        for name, kind in getattr(what, "__annotations__", {}).items():
            if isinstance(what, FunctionType) and isinstance(kind, type) and _ours(kind):
                self.meant[name] = self.instance(kind)
        if isinstance(what, type):
            self.meant["self"] = part.owner or _Instance(what)
        elif part.owner is not None and what.__code__.co_argcount:
            self.meant[what.__code__.co_varnames[0]] = part.owner

    def _hide_locals(self) -> None:
        """Mark local names as unknown, so that they hide globals of the same name."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.arg):
                self.meant[node.arg] = None
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.meant[node.id] = None

    def instance(self, kind: type) -> object:
        """The known instance of a class, else an unknown one."""
        return next((each for each in self.known if isinstance(each, kind)), _Instance(kind))

    def names(self) -> Iterator[_Part | SourceCode]:
        yield from self._visit(self.tree)

    def _visit(self, node: ast.AST) -> Iterator[_Part | SourceCode]:
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            found = self._found(node)
            if found is not None:
                yield found
            elif isinstance(node, ast.Attribute):
                inside = node.value
                while isinstance(inside, ast.Attribute):  # only an attribute of the object is used
                    inside = inside.value
                of = self.value(node.value)
                if isinstance(of, type) and _ours(of) and "forward" in vars(of):
                    yield _Part(of)  # an operation with a backward pass of its own, applied
                part_of_object = isinstance(inside, ast.Name) and not _is_table(inside.id)
                yield from () if part_of_object else self._visit(inside)
            return
        inner = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Call):  # arguments are computed before the call
            inner = [*inner[1:], inner[0]]
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            inner = list(node.body)
        elif isinstance(node, ast.AnnAssign):
            inner = [] if node.value is None else [node.value]
        elif isinstance(node, ast.arg):
            inner = []
        for each in inner:
            yield from self._visit(each)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            made = self.value(node.value) if isinstance(node.value, ast.Call) else None
            if made is not None:
                self.meant[node.targets[0].id] = made

    def _found(self, node: ast.Name | ast.Attribute) -> _Part | SourceCode | None:
        value = self.value(node)
        if value is None or isinstance(value, (type, ModuleType)):
            return None
        if isinstance(node, ast.Name) and _is_table(node.id):
            return _table(node.id, self.globals["__name__"])
        if isinstance(value, (FunctionType, MethodType, partial)) or hasattr(value, "__wrapped__"):
            part = _part(value)
        elif isinstance(value, _Part):
            part = value
        else:
            kind = value.kind if isinstance(value, _Instance) else type(value)
            # Passing a model as an argument is not a call; passing a sublayer leads to one.
            called = hasattr(kind, "forward") and _ours(kind) and value not in self.known
            part = _part(value) if called else None
        if part is not None and not isinstance(part.what, type) and part.ran is None:
            part = replace(part, ran=self._faster(part.what))
        return part if part is not None and part.what.__name__ != "<lambda>" else None

    def _faster(self, function: FunctionType) -> FunctionType | None:
        """The function of the same name that a faster caller uses instead."""
        if self.part.ran is None:
            return None
        own = _plain(self.part.ran.__globals__.get(function.__name__))
        return own if isinstance(own, FunctionType) and _is_fast(own) else None

    def value(self, node: ast.AST) -> object:
        """The value of an expression, if known without running it; else None."""
        if isinstance(node, ast.Name):
            return self.meant[node.id] if node.id in self.meant else self.globals.get(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(self.value(node.value), node.attr)
        if isinstance(node, ast.Call):
            made = self.value(node.func)
            if isinstance(made, type):
                return _Instance(made) if _ours(made) else None
            what = made.what if isinstance(made, _Part) else _plain(made)
            kind = getattr(what, "__annotations__", {}).get("return")
            return self.instance(kind) if isinstance(kind, type) and _ours(kind) else None
        return None

    def _attribute(self, of: object, name: str) -> object:
        if of is None or isinstance(of, _Part):
            return None
        kind = of.kind if isinstance(of, _Instance) else of if isinstance(of, type) else type(of)
        static = inspect.getattr_static(kind, name, None)
        if isinstance(static, property):  # only its type is needed
            made = getattr(static.fget, "__annotations__", {}).get("return")
            return self.instance(made) if isinstance(made, type) and _ours(made) else None
        if isinstance(static, staticmethod):
            return _method(of, kind, name)
        if not isinstance(of, _Instance):
            return getattr(of, name, None)
        if isinstance(static, (FunctionType, classmethod)):
            return _method(of, kind, name)
        notes = (vars(cls).get("__annotations__", {}) for cls in kind.__mro__)
        noted = next((note[name] for note in notes if name in note), None)
        return self.instance(noted) if isinstance(noted, type) and _ours(noted) else None


def _is_table(name: str) -> bool:
    return name.isupper() and len(name.lstrip("_")) > 1


def _table(name: str, module: str) -> SourceCode | None:
    """A table or constant, in the module that defines it; None if no line defines it."""
    if module.partition(".")[0] not in PROJECT:
        return None
    text = _text(sys.modules[module])
    for node in _tree(text).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            original = next((a.name for a in node.names if (a.asname or a.name) == name), None)
            if original is not None:
                return _table(original, node.module)
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id == name:
            return SourceCode(name, module, ast.get_source_segment(text, node) or "", "", "", ())
    return None
