"""Which tests notice a mistake: small changes to the code, each met by the tests that reach it.

    python -m tests.mutants [--per-room 30] [--seed 0]

In a copy of the last commit. First every test runs once, except those in a browser, while
coverage.py notes the lines that each test reaches. Then each mutant (an operator, constant,
condition, axis or statement of one function changed) meets the tests of its line, those that reach
the fewest lines first, until two test functions have failed. Printed are the mutants that fewer
than two test functions killed, and a table. The nightly CI runs it; it takes one to two hours.
"""

import argparse
import ast
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coverage
import pytest
import torch

ROOT = Path(__file__).parents[1]
ROOMS = ("models", "explorer/analysis", "explorer/runs", "explorer/exhibits", "explorer/notebook")
SECONDS_EACH = 90
"""The tests of a mutant that fail in this time count; a mutant that hangs is killed by that."""
HUNG = 300
RESULTS = KILLED, ONE, HANGS, SURVIVES, UNREACHED = (
    "killed",
    "one test",
    "hangs",
    "survives",
    "unreached",
)
OPERATORS: dict[type[ast.AST], Any] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change to one function: the bytes `start` to `end` of a file become `new`."""

    path: str
    function: str
    line: int
    old: str
    new: str
    start: int
    end: int

    def __str__(self) -> str:
        old, new = (" ".join(text.split())[:60] for text in (self.old, self.new))
        return f"{self.path}:{self.line} {self.function}: {old}  ->  {new}"

    def in_place(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.end :]


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """What a mistake could have made of an expression or statement."""
    match node:
        case ast.BinOp(left, op, right) if type(op) in OPERATORS:
            yield ast.BinOp(left, OPERATORS[type(op)](), right)
        case ast.BinOp(left, ast.MatMult() as op, right):
            yield ast.BinOp(right, op, left)
        case ast.Compare(left, [op], right) if type(op) in OPERATORS:
            yield ast.Compare(left, [OPERATORS[type(op)]()], right)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(OPERATORS[type(op)](), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.UnaryOp(ast.USub(), ast.Constant(int(value))):  # the last axes
            yield ast.UnaryOp(ast.USub(), ast.Constant(2 if value == 1 else value - 1))
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(float(value)):
            yield ast.Constant(2 * value + 1)
        case ast.IfExp(test, body, orelse):
            yield ast.IfExp(test, orelse, body)
        case ast.Expr(ast.Call()) | ast.AugAssign():
            yield ast.Pass()


def mutants(folder: Path, path: str) -> Iterator[Mutant]:
    """All mutants of the functions of a file."""
    source = (folder / path).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def inside(node: ast.AST, function: str) -> Iterator[Mutant]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            name = f"{function}.{node.name}".lstrip(".")
            for statement in node.body:
                yield from inside(statement, name)
            return
        if function and isinstance(node, ast.expr | ast.stmt):
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            for changed in changes(node):
                new = ast.unparse(ast.fix_missing_locations(changed))
                if isinstance(node, ast.expr):
                    new = f"({new})"
                old = source[start:end].decode()
                yield Mutant(path, function, node.lineno, old, new, start, end)
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.JoinedStr) and child is not getattr(
                node, "annotation", None
            ):
                yield from inside(child, function)

    yield from inside(ast.parse(source), "")


def drawn(folder: Path, room: str, n: int, seed: int) -> list[Mutant]:
    """`n` mutants of a room by a seed, the same ones wherever their functions are unchanged."""
    ranked = []
    for path in sorted((folder / room).rglob("*.py")):
        ordinals: Counter[tuple[str, str, str]] = Counter()
        for mutant in mutants(folder, str(path.relative_to(folder))):
            place = mutant.function, mutant.old, mutant.new
            ordinals[place] += 1
            key = f"{seed} {path.stem} {place} {ordinals[place]}"
            ranked.append((hashlib.sha256(key.encode()).hexdigest(), mutant))
    return [mutant for _, mutant in sorted(ranked, key=lambda pair: pair[0])[:n]]


class Failed:
    """Collects the test functions that fail; ends the run at two, or when its time is over."""

    def __init__(self) -> None:
        self.functions: set[str] = set()
        self.until = time.monotonic() + SECONDS_EACH

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.functions.add(report.nodeid.split("[")[0])

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.functions.add(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if len(self.functions) > 1 or time.monotonic() > self.until:
            item.session.shouldstop = "enough"
        return (yield)


def killers(tests: list[str]) -> list[str] | str:
    """The first two test functions that fail, from a process of its own; or `HANGS`."""
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:
        failed = Failed()
        with open(os.devnull, "w") as silent, redirect_stdout(silent), redirect_stderr(silent):
            status = pytest.main([*tests, "-p", "no:cacheprovider"], [failed])
        if status == pytest.ExitCode.USAGE_ERROR:  # a conftest.py cannot be imported any more
            failed.functions = {"conftest.py", "all"}
        os.write(sender, "\n".join(failed.functions).encode())
        os._exit(int(status == pytest.ExitCode.INTERNAL_ERROR))
    os.close(sender)
    alarm = threading.Timer(HUNG, os.kill, (child, signal.SIGKILL))
    alarm.start()
    status = os.waitpid(child, 0)[1]
    alarm.cancel()
    with open(receiver) as names:
        functions = names.read().split()
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError("pytest itself failed")
    return HANGS if os.WIFSIGNALED(status) else functions


def noted(folder: Path) -> None:
    """Run the tests of a copy once, noting which lines each reaches."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "x"], cwd=folder, input=archive.stdout, check=True)
    command = [sys.executable, "-m", "pytest", "-n", "2", "-m", "not browser and not sweep"]
    command += ["--cov-context=test", "--cov-report=", *(f"--cov={room}" for room in ROOMS)]
    subprocess.run(command, cwd=folder, check=False)


def reached(folder: Path) -> tuple[dict[str, dict[int, set[str]]], Counter[str]]:
    """For each file and line the tests that run it, and for each test how many lines it runs.

    Tests that fail without a mutant are left out.
    """
    data = coverage.CoverageData(str(folder / ".coverage"))
    data.read()
    failing = folder / ".pytest_cache/v/cache/lastfailed"
    failed = set(json.loads(failing.read_text())) if failing.exists() else set()
    lines: dict[str, dict[int, set[str]]] = {}
    n_lines: Counter[str] = Counter()
    for path in data.measured_files():
        by_line = {
            line: {test.removesuffix("|run") for test in tests if test.endswith("|run")} - failed
            for line, tests in data.contexts_by_lineno(path).items()
        }
        lines[str(Path(path).relative_to(folder))] = by_line
        for tests in by_line.values():
            n_lines.update(tests)
    return lines, n_lines


def main() -> None:
    """Print the mutants that fewer than two test functions killed, and the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--per-room", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--copy", type=Path, help="a copy whose lines are already noted")
    options = parser.parse_args()
    os.nice(15)
    folder = options.copy or Path(tempfile.mkdtemp())
    if not options.copy:
        noted(folder)
    lines, n_lines = reached(folder)
    torch.set_num_threads(1)
    os.chdir(folder)
    sys.path[:] = [str(folder), *(place for place in sys.path if place not in ("", str(ROOT)))]
    table = []
    for room in ROOMS:
        results: Counter[str] = Counter()
        for mutant in drawn(folder, room, options.per_room, options.seed):
            tests = sorted(lines[mutant.path].get(mutant.line, ()), key=n_lines.__getitem__)
            file = folder / mutant.path
            source = file.read_bytes()
            file.write_bytes(mutant.in_place(source))
            failed = killers(tests) if tests else UNREACHED
            file.write_bytes(source)
            if not isinstance(failed, str):
                result = (SURVIVES, ONE, KILLED)[min(2, len(failed))]
            else:
                result = failed
            results[result] += 1
            if result not in (KILLED, HANGS):
                print(f"{result:<10} {mutant}  ({len(tests)} tests) {failed}", flush=True)
        table.append(" ".join(f"{results[name]:>10}" for name in RESULTS) + f"  {room}")
    print(" ".join(f"{name:>10}" for name in RESULTS), *table, sep="\n")


if __name__ == "__main__":
    main()
