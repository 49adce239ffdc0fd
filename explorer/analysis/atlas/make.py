"""Make an atlas shard by shard, each in its own file, with one process or many.

A unit of work is a shard of the corpus, or a group of sentences in which heads are ablated. Its
file name contains a hash of everything that determines its content: weights, corpus, settings. So
an interrupted run can resume, any number of processes produces the same files, and files of another
model or corpus are never reused by mistake.
"""

import errno
import hashlib
import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from explorer.analysis.atlas.ablation import SENTENCES, cost_sums, groups
from explorer.analysis.atlas.measures import Adding, Sums, pack
from explorer.analysis.atlas.reading import (
    Corpus,
    Shard,
    Vocabulary,
    batch_of,
    batches,
    encode,
    line_at,
    lines_of,
    vocabulary_of,
)
from explorer.analysis.atlas.store import FILE, About, Text, atlas_of, to_json
from explorer.library import LoadedModel, split_step
from explorer.once import once
from explorer.problems import InputProblem

VERSION = 2
"""Format version of a shard: raise it when the same corpus would give other sums."""
PART = ".part"


@dataclass(frozen=True)
class Unit:
    """One file's worth of work: a shard, or the lines (offsets) in which heads are ablated."""

    name: str
    shard: Shard | None = None
    lines: tuple[int, ...] = ()


class Making:
    """The atlas of one model over one corpus, in a folder `out`.

    `ablate` is the number of sentences in which heads are ablated; `credit` is shown under quoted
    sentences. Raises InputProblem; OSError.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        corpus: Corpus,
        out: Path,
        *,
        reverse: bool = False,
        ablate: int = SENTENCES,
        credit: str = "",
    ) -> None:
        self.loaded, self.corpus, self.out = loaded, corpus, out
        self.about = About(
            loaded.name, weights_digest(loaded), corpus.path.name, corpus.digest, credit, reverse
        )
        suffix = suffix_of(loaded)
        self.folder, self.file = out / f"shards{suffix}", out / file_of(suffix)
        shards = [Unit(f"sums-{at:05}", shard) for at, shard in enumerate(corpus.shards)]
        costs = [
            Unit(f"cost-{at:05}", lines=lines)
            for at, lines in enumerate(groups(corpus.sample, ablate))
        ]
        self.units = (*costs, *shards)
        identity = [VERSION, self.about.weights, corpus.digest, reverse]
        self._key = hashlib.sha256(json.dumps(identity).encode()).hexdigest()

    @once
    def vocabulary(self) -> Vocabulary:
        """The properties of every token; rare tokens are counted in the corpus's sample."""
        path, reverse = self.corpus.path, self.about.reverse
        sample = (line_at(path, at, reverse) for at in self.corpus.sample)
        return vocabulary_of(self.loaded, filter(None, sample))

    def path(self, unit: Unit) -> Path:
        """The file of a unit: its name and a hash of everything that determines its content."""
        about = f"{self._key} {unit.name} {unit.shard} {unit.lines}"
        return self.folder / f"{unit.name}-{hashlib.sha256(about.encode()).hexdigest()[:16]}.npz"

    def missing(self) -> list[Unit]:
        """The units that have no file yet."""
        return [unit for unit in self.units if not self.path(unit).exists()]

    def others(self) -> list[Path]:
        """Files in the folder that belong to another corpus, model or setting."""
        own = {self.path(unit) for unit in self.units}
        return [path for path in sorted(self.folder.glob("*-*.npz")) if path not in own]

    def changed(self) -> str | None:
        """The hash of the file that an earlier run's shards were made from, if it differs."""
        try:
            before = json.loads((self.folder / "corpus.json").read_text(encoding="utf-8"))
            digest = str(before["digest"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return digest if digest != self.corpus.digest else None

    def begin(self) -> None:
        """Create the folder, record which file is read, delete the leftovers of a killed run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for left in self.folder.glob(f"*{PART}"):
            left.unlink(missing_ok=True)
        about = {"name": self.corpus.path.name, "digest": self.corpus.digest}
        self._write(self.folder / "corpus.json", lambda path: path.write_text(json.dumps(about)))

    def compute(self, unit: Unit) -> Sums:
        """The sums of one unit."""
        adding = Adding(self.loaded, self.vocabulary)
        if unit.shard is None:
            lines = [line_at(self.corpus.path, at, self.about.reverse) for at in unit.lines]
            encoded, _ = encode(self.loaded, [line for line in lines if line is not None])
            if encoded:
                adding.sums.cost[:] = cost_sums(self.loaded, batch_of(self.loaded, encoded))
            return adding.sums
        content = lines_of(self.corpus, unit.shard, self.about.reverse)
        encoded, too_long = encode(self.loaded, content.read)
        for batch in batches(self.loaded, encoded):
            adding.add(batch)
        adding.skipped(too_long=content.too_long + too_long, unreadable=content.unreadable)
        return adding.total()

    def write(self, unit: Unit) -> None:
        """Compute a unit and write its file atomically."""
        arrays = self.compute(unit).arrays()

        def save(path: Path) -> None:
            with path.open("wb") as file:
                np.savez_compressed(file, allow_pickle=False, **arrays)
                file.flush()
                os.fsync(file.fileno())

        self._write(self.path(unit), save)

    def merged(self, again: Callable[[Unit], None] = lambda unit: None) -> Sums:
        """The sums of all units, in order; an unreadable file is recomputed and passed to `again`.

        Raises InputProblem `shards_elsewhere` if some are missing.
        """
        if missing := self.missing():
            folder, count = str(self.folder), len(missing)
            raise InputProblem("shards_elsewhere", folder=folder, count=count)
        total = Sums.none(self.loaded.sites)
        for unit in self.units:
            try:
                part = self._read(unit)
            except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError):
                again(unit)
                self.write(unit)
                part = self._read(unit)
            total = total + part
        return total

    def finish(self, again: Callable[[Unit], None] = lambda unit: None) -> Path:
        """Merge, look up the sentences, write `atlas.json`; delete files of earlier corpora.

        Raises InputProblem `nothing_measured` if no line could be read.
        """
        sums = self.merged(again)
        if not sums.count("sentences"):
            raise InputProblem(
                "nothing_measured",
                name=self.corpus.path.name,
                too_long=sums.count("too_long"),
                unreadable=sums.count("unreadable"),
            )
        rare = self.vocabulary.rare.numpy()
        _, offsets = atlas_of(sums, self.loaded.sites, self.about, rare)
        texts = {}
        for offset in offsets:
            line = line_at(self.corpus.path, offset, self.about.reverse)
            if line is not None:
                pair = "src" in self.loaded.model.reads
                texts[offset] = Text(line.source, line.target if pair else "", line.credit)
        atlas, _ = atlas_of(sums, self.loaded.sites, self.about, rare, texts)
        text = to_json(atlas)
        self._write(self.file, lambda path: path.write_text(text, encoding="utf-8"))
        for path in self.others():
            path.unlink(missing_ok=True)
        return self.file

    def _read(self, unit: Unit) -> Sums:
        with self.path(unit).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            return pack({name: file[name] for name in file.files}, self.loaded.sites)

    def _write(self, path: Path, save: Callable[[Path], object]) -> None:
        """Write to a temporary file, then rename. Raises InputProblem `no_room` on a full disk."""
        part = path.with_name(f"{path.name}.{os.getpid()}{PART}")
        try:
            save(part)
            part.replace(path)
        except OSError as error:
            part.unlink(missing_ok=True)
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            done, total = len(self.units) - len(self.missing()), len(self.units)
            folder = str(self.out)
            raise InputProblem("no_room", folder=folder, done=done, total=total) from error


def weights_digest(loaded: LoadedModel) -> str:
    """SHA-256 of the files that make up a model: weights, config and tokenizer.

    For a training snapshot: its own weights with the folder's config and tokenizer.
    """
    folder, whole = loaded.folder, hashlib.sha256()
    if folder.is_file():
        paths = [folder]
    else:
        _, step = split_step(loaded.name)
        kinds = ("*.json", "*.spm", "*.model")
        paths = sorted(path for kind in kinds for path in folder.glob(kind))
        weights = sorted(folder.glob("*.safetensors"))
        if step is not None:
            weights = sorted(folder.glob(f"moments/*{step:06d}.safetensors"))
        paths += weights
    for path in paths:
        whole.update(path.name.encode() + b"\0")
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                whole.update(piece)
    return whole.hexdigest()


def suffix_of(loaded: LoadedModel) -> str:
    """The suffix that tells the atlases in one folder apart: "@200" for a training snapshot, and
    the model's name if it is a single file, since a folder may hold several."""
    _, step = split_step(loaded.name)
    if step is not None:
        return f"@{step}"
    return f"-{loaded.folder.stem}" if loaded.folder.is_file() else ""


def file_of(suffix: str) -> str:
    """The file name of an atlas."""
    return f"{Path(FILE).stem}{suffix}.json"


def home_of(loaded: LoadedModel) -> Path:
    """The default folder of a model's atlas: next to its weights."""
    folder = loaded.folder if loaded.folder.is_dir() else loaded.folder.parent
    return folder / "atlas"
