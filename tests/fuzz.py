"""Random input for every way into Headlight: `python -m tests.fuzz SECONDS`, or `make fuzz`.

Each case is one entry and one number, from which all that is random in it follows, so a failure is
repeated by `python -m tests.fuzz --entry NAME --case NUMBER`. A case fails where anything but a
refusal is raised, where it takes longer than PATIENCE, and where a file is opened for writing
outside the case's own folder. The run fails where the process has grown by more than GROWTH.
"""

import argparse
import contextlib
import io
import json
import logging
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest, app_test

from explorer import cli, library, sandbox, uploads
from explorer.analysis.workshop.tasks import tasks
from explorer.components.film import Frame, read_scene, read_taken
from explorer.components.heads_payload import Heads, read_selection
from explorer.components.mask_matrix import stroke_of
from explorer.components.mount import index_of, inside
from explorer.pages import PAGES
from explorer.pages.workshop.choices import MOST_CARRIED, read_programs, write_programs
from explorer.problems import InputProblem
from explorer.runs.edits import format_edits, parse_edits
from explorer.runs.inputs import MAX_TOKENS
from explorer.runs.sentences import MAX_CHARS, clean_text, sentences_from_file
from explorer.runs.trace import trace
from explorer.sandbox import Grid
from explorer.shell import LINKS
from explorer.ui.choices import RefusedError
from models.training.corpus import DataConfig, read_rows
from models.training.home import asset
from models.training.recipe import read_recipe
from tests.hostile import programs

PATIENCE = 20.0
"""Seconds that one case may take: on a busy machine, many times what the slowest needs."""
GROWTH = 700_000_000
"""Bytes that a run may add to the process: allocators keep some of what they once had."""
MODELS = ("copy", "sort", "twin-right", "masked-en")
ODD = (
    "\0\a\x1b\x7f\u200b\u200d\u202e\u2028\ufeff\ufffd\ud800\U0001f469\U0001f3fd\U0010ffff"
    "e\u0301ßİﬁ٣你的是我，。अम العربية <b>&amp;</b>$$\\text{}{0}%s'\"`|~._-/\\"
)
SEEDS = (
    "I love you because you are kind.", "a b c d", "我喜欢你。", "Once upon a time", "[MASK] is it",
    "<s> </s> <pad>", "../../etc/passwd", "causal-off~window-4~head-decoder.blocks.0.attn-3",
    "cells-decoder-all-shut-3.1-3.2", "1e309", "-1", "nan", "99999999999999999999", "",
)  # fmt: skip


def words(rng: random.Random, longest: int = 300) -> str:
    """Text: a seed, damaged, or characters of many kinds; now and then far too long."""
    if rng.random() < 0.02:
        return rng.choice(("a", "a ", "你", "\u0301", "((")) * rng.randrange(100_000)
    text = list(rng.choice(SEEDS))
    for _ in range(rng.randrange(12)):
        at = rng.randrange(len(text) + 1)
        match rng.randrange(4):
            case 0:
                text.insert(at, rng.choice(ODD))
            case 1:
                text.insert(at, chr(rng.choice((rng.randrange(128), rng.randrange(0x110000)))))
            case 2:
                text[at:] = rng.choice(SEEDS)
            case _:
                del text[at : at + rng.randrange(4)]
    return "".join(text)[:longest]


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Bytes with some changed, cut, doubled or put in."""
    found = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(5):
            case 0:
                found[at:at] = rng.randbytes(rng.randrange(8))
            case 1 if at < len(found):
                found[at] ^= 1 << rng.randrange(8)
            case 2:
                del found[at : at + rng.randrange(64)]
            case 3:
                found[at:at] = found[at : at + rng.randrange(256)]
            case _ if rng.random() < 0.2:
                del found[at:]
    return bytes(found)


def value(rng: random.Random, depth: int = 2) -> Any:
    """Anything that JSON can say."""
    kind = rng.randrange(8 if depth else 6)
    if kind == 6:
        return [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    if kind == 7:
        return {words(rng, 9): value(rng, depth - 1) for _ in range(rng.randrange(4))}
    number = rng.choice((0, 1, -1, 2, 3, 10**9, 10**30, 0.5, 1e308, float("inf"), float("nan")))
    return (None, True, number, number, rng.randrange(6), words(rng, 20))[kind]


def sentence(rng: random.Random, folder: Path) -> None:
    """What a visitor types, and has a model read."""
    text = words(rng)
    assert 0 < len(clean_text(text)) <= MAX_CHARS
    loaded = _model(rng.choice(MODELS))
    target = words(rng, 60) if rng.random() < 0.3 else None
    edits = parse_edits(words(rng)) if rng.random() < 0.1 else ()
    traced = trace(loaded, text, target, edits, rng.randrange(4))
    assert len(traced.tgt_tokens) <= MAX_TOKENS + 4


def file(rng: random.Random, folder: Path) -> None:
    """A file of sentences."""
    lines = "\n".join(rng.choice((words(rng, 60), f"text,{words(rng, 9)}\t{words(rng, 9)}"))
                      for _ in range(rng.randrange(6)))  # fmt: skip
    encoding = rng.choice(("utf-8", "utf-16", "gb18030", "latin-1"))
    data = damaged(rng, lines.encode(encoding, errors="replace"))
    name = rng.choice(("a.txt", "a.csv", "a.tsv", "a.pdf", words(rng, 30)))
    assert all(sentences_from_file(name, data))


def link(rng: random.Random, folder: Path) -> None:
    """The parameters of an address: what is read from them, written, is read again."""
    names = list(LINKS._owner)
    asked = {rng.choice(names): words(rng) for _ in range(rng.randrange(8))}
    state, refused = LINKS.read(asked)
    assert {name for name, _ in refused} <= asked.keys()
    assert LINKS.read(LINKS.write(state)) == (state, ())
    edits = parse_edits(words(rng))
    assert parse_edits(format_edits(edits)) == edits


def program(rng: random.Random, folder: Path) -> None:
    """What somebody writes in the workshop, and a link that carries it."""
    family, code = next(programs(1, str(folder / "secret"), rng.randrange(10**9)))
    solved = rng.choice(tasks())
    broken = damaged(rng, code.encode(errors="replace")).decode(errors="replace")
    code = rng.choice((code, words(rng), solved.reference, broken))[: sandbox.MOST_CHARACTERS]
    answer = sandbox.run(code, rng.choice(("f", solved.function)), grids=[Grid(2, 2)])
    assert answer.fault is not None or len(answer.values) == 4, (family, code)
    assert not os.listdir(folder)
    packed = write_programs(((solved.id, code.encode(errors="replace").decode()),))
    assert len(packed) > MOST_CARRIED or dict(read_programs(packed))
    with contextlib.suppress(RefusedError):
        read_programs(damaged(rng, packed.encode()).decode("utf-8", "replace"))


def message(rng: random.Random, folder: Path) -> None:
    """What a view in the browser sends."""
    names = ("opened", "pinned", "query", "key", "scale", "step", "layer", "head", "cells", "open")
    sent = value(rng, 3) if rng.random() < 0.3 else {n: value(rng) for n in rng.sample(names, 4)}
    frame = Frame(("a", "b"), (0.5, 0.5), (0.5, 0.5), (True, True), 0, False, "")
    index_of(sent, (2, 3))
    inside(sent, 3)
    stroke_of(sent, (2, 3))
    read_scene(sent, 1, 2, 3)
    read_taken(sent, (frame,))
    read_selection(sent, Heads(2, 4, 1), 2, 3)


def checkpoint(rng: random.Random, folder: Path) -> None:
    """A folder that says it is a model."""
    shutil.copytree(asset("checkpoints", "copy"), folder / "m")
    name = rng.choice(("config.json", "tokenizer.json", "model.safetensors", "CARD.md"))
    path = folder / "m" / name
    match rng.randrange(4):
        case 0 if name == "config.json":
            config = json.loads(path.read_bytes())
            config[rng.choice((*config, "model_type"))] = value(rng)
            path.write_text(json.dumps(config), encoding="utf-8")
        case 1:
            path.unlink()
        case _:
            path.write_bytes(damaged(rng, path.read_bytes()))
    library.open_model(folder / "m")


def upload(rng: random.Random, folder: Path) -> None:
    """A zip that says there is a model in it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as z:
        for path in asset("checkpoints", "copy").glob("*.*"):
            if rng.random() < 0.9:
                data = path.read_bytes()
                odd = words(rng, 9)[:9].encode(errors="replace").decode()
                z.writestr(
                    rng.choice(("", "m/", "m/", "../", "/", odd)) + path.name,
                    damaged(rng, data) if rng.random() < 0.2 else data,
                )
    data = packed.getvalue()
    sent = io.BytesIO(damaged(rng, data) if rng.random() < 0.7 else data)
    usual, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        uploads.open_zip(words(rng, 20), sent)
    finally:
        tempfile.tempdir = usual
    assert not list(folder.iterdir()), "an unpacked model was left behind"


def training(rng: random.Random, folder: Path) -> None:
    """A file to train on."""
    path = folder / "rows.tsv"
    rows = "\n".join(f"{words(rng, 40)}\t{words(rng, 40)}" for _ in range(rng.randrange(6)))
    if rng.random() < 0.05:
        rows += "\tx" * 10 + "y" * 200_000
    path.write_bytes(damaged(rng, rows.encode("utf-8", errors="replace")))
    read_rows(path, DataConfig(), paired=rng.random() < 0.5)


def recipe(rng: random.Random, folder: Path) -> None:
    """A recipe in a file, and changes to it."""
    known = asset("..", "models", "training", "recipes", "copy.toml")
    path = folder / "r.toml"
    path.write_bytes(damaged(rng, known.read_bytes()))
    tables = (
        "model.d_model",
        "data.task",
        "training.epochs",
        "data",
        "objectives.x",
        words(rng, 9),
    )
    changes = [f"{rng.choice(tables)}={words(rng, 12)}" for _ in range(rng.randrange(2))]
    read_recipe(str(path), changes)


def shell(rng: random.Random, folder: Path) -> None:
    """The arguments of a command; none that starts a server or a training."""
    command = rng.choice(("translate", "generate", "info", "evaluate", "export", "certify", ""))
    options = (
        "--model", "--text", "--target", "--edits", "--pads", "--lang", "--beam", "--pairs",
        "--json", "--temperature", "--top-k", "--top-p", "--seed", "--max-new-tokens", "--masks",
        "--recipe",
    )  # fmt: skip
    arguments = [command, "--model", rng.choice((*MODELS, "nobody", words(rng, 9)))]
    for _ in range(rng.randrange(4)):
        arguments.append(rng.choice(options))
        arguments.append(rng.choice((words(rng, 40), str(rng.randrange(-2, 9)), "copy", "en")))
    if command == "export":
        arguments += ["--out", str(folder / "out")]
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()) as said,
    ):
        try:
            status = cli.main([each for each in arguments if "\0" not in each])
        except SystemExit as stopped:  # argparse
            status = int(stopped.code or 0)
    assert status in (0, 1, 2), status
    assert "Traceback" not in said.getvalue()


def page(rng: random.Random, folder: Path) -> None:
    """A whole page behind a link, drawn without a browser."""
    names = list(LINKS._owner)
    asked = {rng.choice(names): rng.choice((words(rng, 40), str(rng.randrange(9)))) for _ in "1234"}
    asked |= {"model": rng.choice(MODELS), "text": words(rng, 80)}
    chosen = rng.choice([each.name for each in PAGES])
    at = AppTest.from_function(_draw, default_timeout=3 * PATIENCE, args=(chosen,))
    for name, text in asked.items():
        at.query_params[name] = text.encode(errors="replace").decode()
    at.run()
    said = [each.message for each in at.exception]
    assert not said, f"{chosen} {said} {str(asked)[:500]}"


def _draw(name: str) -> None:
    from explorer.pages import PAGES
    from explorer.shell import LINKS, show
    from explorer.ui import session

    session.start(LINKS)
    show(next(page for page in PAGES if page.name == name))


ENTRIES: dict[str, Callable[[random.Random, Path], None]] = {
    each.__name__: each
    for each in (
        sentence,
        file,
        link,
        program,
        message,
        checkpoint,
        upload,
        training,
        recipe,
        shell,
        page,
    )
}
_opened: dict[str, library.LoadedModel] = {}


def _model(name: str) -> library.LoadedModel:
    if name not in _opened:
        _opened[name] = library.open_model(name)
    return _opened[name]


_own: list[Path] = []
_strayed: list[str] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Note every file that is opened for writing, or made, outside the folder of the case."""
    if not _own:
        return
    if event == "open":
        path, mode, flags = arguments
        writing = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) if flags else "w" in (mode or "")
    else:
        path, writing = arguments[0], event in ("os.mkdir", "os.rename", "os.remove", "os.symlink")
    # By the handle of an open folder, as rmtree does it: the folder was watched when it was made.
    by_handle = event == "os.remove" and arguments[1:] not in ((), (-1,))
    if writing and not by_handle and isinstance(path, str | bytes):
        place = Path(os.path.abspath(os.fsdecode(path)))
        usual = "__pycache__" in place.parts or place.parts[:2] == ("/", "dev")
        usual = usual or place.is_relative_to(app_test.TMP_DIR.name)  # AppTest's own scripts
        if not usual and not place.is_relative_to(_own[0]):
            _strayed.append(f"{event} {place}")


def case(entry: str, number: int) -> bool:
    """Run one case; whether its input was refused. Raises what is no refusal."""
    rng = random.Random(f"{entry} {number}")
    began = time.monotonic()
    refused = False
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        _strayed.clear()
        _own.append(Path(name).resolve())
        try:
            ENTRIES[entry](rng, Path(name))
        except InputProblem:
            refused = True
        except (ValueError, OSError) as error:
            # For the shell and training files these are the refusals; they must say something.
            if entry not in ("training", "recipe") or not str(error):
                raise
            refused = True
        finally:
            _own.clear()
    assert not _strayed, f"written outside its place: {_strayed}"
    took = time.monotonic() - began
    assert took < (3 if entry == "page" else 1) * PATIENCE, f"took {took:.1f} s"
    return refused


def resident() -> int:
    """Bytes that this process holds; 0 where the system does not say."""
    with contextlib.suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run cases, each entry in turn, until the time is over. Returns 1 where one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=60)
    parser.add_argument("--entry", choices=tuple(ENTRIES), action="append")
    parser.add_argument("--case", type=int, help="this case alone")
    parser.add_argument("--first", type=int, default=0, help="the number to begin with")
    args = parser.parse_args(argv)
    entries = args.entry or list(ENTRIES)
    trace(_model("copy"), "a b")  # once: torch makes its cache's folder
    logging.disable(logging.WARNING)  # a page without a browser is no news
    sys.addaudithook(_watch)
    if args.case is not None:
        case(entries[0], args.case)
        return 0
    end = time.monotonic() + args.seconds
    done: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    failed = 0
    number, began_with = args.first, 0
    while time.monotonic() < end and failed < 10:
        for entry in entries:
            # Cheap entries get more cases: as many as fit into a twentieth of a second.
            until = time.monotonic() + 0.05
            while True:
                try:
                    refused[entry] += case(entry, number + done[entry])
                except Exception:
                    failed += 1
                    print(f"\n--entry {entry} --case {number + done[entry]}", file=sys.stderr)
                    traceback.print_exc()
                done[entry] += 1
                if time.monotonic() > until:
                    break
        began_with = began_with or (resident() if done.total() > 500 else 0)
    for entry in entries:
        print(f"{entry}: {done[entry]} cases, {refused[entry]} refused")
    grown = resident() - began_with if began_with else 0
    print(f"{done.total()} cases, {failed} failed, grown by {grown / 1e6:.0f} MB")
    return int(failed > 0 or grown > GROWTH)


if __name__ == "__main__":
    sys.exit(main())
