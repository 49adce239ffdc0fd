"""Files from outside: sentences, models as folders, atlases, rows, recipes; arguments."""

import contextlib
import io
import json
import random
import shutil
import tempfile
from functools import cache
from pathlib import Path

from explorer import cli, library
from explorer.analysis.atlas.store import read_atlas
from explorer.runs.inputs import given_tokens
from explorer.runs.sentences import clean_text, pairs_in, sentences_from_file
from models.foreign import look
from models.refusals import Refusal
from models.training.corpus import DataConfig, read_rows
from models.training.home import asset
from models.training.recipe import read_recipe
from tests.foreign import OWN, Golden, write_gguf
from tests.fuzz.given import MODELS, damaged, value, words


def file(rng: random.Random, folder: Path) -> None:
    """A file of sentences."""
    lines = "\n".join(rng.choice((words(rng, 60), f"text,{words(rng, 9)}\t{words(rng, 9)}"))
                      for _ in range(rng.randrange(6)))  # fmt: skip
    encoding = rng.choice(("utf-8", "utf-16", "gb18030", "latin-1"))
    data = damaged(rng, lines.encode(encoding, errors="replace"))
    name = rng.choice(("a.txt", "a.csv", "a.tsv", "a.pdf", words(rng, 30)))
    if rng.random() < 0.5:
        assert all(sentences_from_file(name, data))
    else:
        assert all(source for source, _ in pairs_in(name, data))


def checkpoint(rng: random.Random, folder: Path) -> None:
    """A folder that says it is a model."""
    shutil.copytree(asset("checkpoints", "copy"), folder / "m")
    _damage(rng, folder / "m", rng.choice((*FILES, "CARD.md")))
    library.open_model(folder / "m")


FILES = ("config.json", "tokenizer.json", "model.safetensors")


def _damage(rng: random.Random, folder: Path, name: str) -> None:
    """One file of a model, with other values, gone, or with other bytes."""
    path = folder / name
    match rng.randrange(4):
        case 0 if name.endswith(".json"):
            said = json.loads(path.read_bytes())
            _change(rng, said)
            path.write_text(json.dumps(said), encoding="utf-8")
        case 1:
            path.unlink()
        case _:
            path.write_bytes(damaged(rng, path.read_bytes()))


def _change(rng: random.Random, said: object) -> None:
    """Another value, or none, somewhere in what a file of JSON says."""
    while isinstance(said, dict | list) and said:
        place = rng.choice(list(said) if isinstance(said, dict) else range(len(said)))
        inner = said[place]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.3:
            if rng.random() < 0.1:
                del said[place]
            else:
                said[place] = value(rng)
            return
        said = inner


@cache
def _made(kind: str) -> dict[str, bytes]:
    """The files of a tiny model of another library."""
    golden = Golden.load(kind.removesuffix(".gguf"))
    with tempfile.TemporaryDirectory() as name:
        if kind.endswith(".gguf"):
            write_gguf(golden, Path(name) / kind)
        else:
            golden.write(Path(name), "own")
        return {path.name: path.read_bytes() for path in Path(name).iterdir()}


def foreign(rng: random.Random, folder: Path) -> None:
    """A folder or GGUF file that says it is a model of another library: listed, opened, asked."""
    kind = rng.choice((*OWN, "llama.gguf", "qwen3.gguf"))
    made = _made(kind)
    path = folder / "m"
    path.mkdir()
    for name, data in made.items():
        (path / name).write_bytes(data)
    _damage(rng, path, kind if kind in made else rng.choice((*FILES, "tokenizer_config.json")))
    with contextlib.suppress(Refusal, OSError):  # as the shelf names them
        look(path)
    loaded = library.open_model(path)
    text = clean_text(words(rng, 60))
    ids = given_tokens(loaded, text)
    assert given_tokens(loaded, text) == ids
    assert len(loaded.str_tokens(ids)) == len(ids) > 0
    assert max(ids) < loaded.config.vocab_size
    assert all(each in text for each in loaded.tokenizer.unknown(text))


def atlas(rng: random.Random, folder: Path) -> None:
    """The file of an atlas, which lies beside a model."""
    path = folder / "atlas.json"
    data = asset("checkpoints", "zh-en", "atlas", "atlas.json").read_bytes()
    if rng.random() < 0.7:
        said = json.loads(data)
        _change(rng, said)
        path.write_text(json.dumps(said), encoding="utf-8")
    else:
        path.write_bytes(damaged(rng, data))
    found = read_atlas(path)
    assert len(found.names) == len(found.heads)


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
    known = asset("..", "recipes", "copy.toml")
    path = folder / "r.toml"
    path.write_bytes(damaged(rng, known.read_bytes()))
    tables = "model.d_model", "data.task", "training.epochs", "data", "objectives.x", words(rng, 9)
    changes = [f"{rng.choice(tables)}={words(rng, 12)}" for _ in range(rng.randrange(2))]
    read_recipe(str(path), changes)


COMMANDS = (
    "translate", "generate", "info", "evaluate", "export", "certify", "align",
    "atlas", "",
)  # fmt: skip


def shell(rng: random.Random, folder: Path) -> None:
    """The arguments of a command; none that starts a server or a training."""
    command = rng.choice(COMMANDS)
    options = (
        "--model", "--text", "--target", "--edits", "--pads", "--lang", "--beam", "--pairs",
        "--json", "--temperature", "--top-k", "--top-p", "--seed", "--max-new-tokens", "--masks",
        "--recipe", "--back", "--ablate", "--credit",
    )  # fmt: skip
    arguments = [command, "--model", rng.choice((*MODELS, "nobody", words(rng, 9)))]
    for _ in range(rng.randrange(4)):
        arguments.append(rng.choice(options))
        arguments.append(rng.choice((words(rng, 40), str(rng.randrange(-2, 9)), "copy", "en")))
    if command in ("export", "align", "atlas"):
        arguments += ["--out", str(folder / "out")]
    if command in ("align", "atlas", "evaluate"):
        rows = "".join(f"{words(rng, 30)}\t{words(rng, 30)}\n" for _ in range(rng.randrange(4)))
        given = folder / rng.choice(("a.txt", "a.tsv", "a.csv", "a.bin"))
        given.write_bytes(rows.encode("utf-8", "replace"))
        arguments += ["--pairs" if command == "evaluate" else "--data", str(given)]
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
