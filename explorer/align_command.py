"""The command `align`: word alignment for a whole file."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from explorer import text
from explorer.analysis.alignment.aligned import Alignment, align_all
from explorer.analysis.alignment.reading import cross_sites
from explorer.library import LoadedModel, list_models, open_model, translators
from explorer.numbers import fixed
from explorer.runs.passes import walked
from explorer.runs.sentences import header_in, pairs_in

if TYPE_CHECKING:
    from explorer.analysis.alignment.study import Study

NONE = "none"


def add_options(command: argparse.ArgumentParser) -> None:
    """The options of `align_file`, in addition to the model."""
    command.add_argument(
        "--data",
        type=Path,
        required=True,
        help="a .txt with one pair per line, separated by ||| or a tab, or a .csv or .tsv with two "
        "columns; a single sentence is translated first",
    )
    command.add_argument(
        "--out",
        type=Path,
        required=True,
        help="output file in Moses format (0-0 1-2); the tokenized texts are written next to it as "
        ".src and .tgt",
    )
    command.add_argument("--back", help="reverse model, or `none` (default: found by its name)")


def align_file(loaded: LoadedModel, args: argparse.Namespace) -> int:
    """Rank the heads on the example sentences, align the file, and write the result; exit status 1
    if some pair could not be read, which then has no links.

    Raises InputProblem; OSError; ValueError for a model without cross-attention.
    """
    from explorer.analysis.alignment.study import study  # slow to import, used only here

    if not cross_sites(loaded):
        raise ValueError(text.t("align.no_cross", lang=args.lang, name=loaded.name))
    pairs = pairs_in(args.data.name, data := args.data.read_bytes())
    if header := header_in(args.data.name, data, paired=True):
        print(text.t("align.header", lang=args.lang, names=", ".join(header)), file=sys.stderr)
    back = _back(loaded, args.back)
    own, other = _sentences(loaded), () if back is None else _sentences(back)
    ranked = walked(study(loaded, back, own, () if other == own else other))
    _say(ranked, loaded, back, args.lang)
    with tqdm(total=len(pairs), unit="", disable=not sys.stderr.isatty()) as bar:
        steps = align_all(loaded, back, pairs, ranked.aligner(""))
        aligned, refused = walked(steps, lambda done, total: bar.update(done - bar.n))
    for number, problem in refused.items():
        why = text.problem(problem.key, problem.values, lang=args.lang)
        words = text.t("align.refused", lang=args.lang, number=number + 1, reason=why)
        print(words, file=sys.stderr)
    for path in write(aligned, args.out):
        print(path)
    return 1 if refused else 0


def write(aligned: tuple[Alignment | None, ...], out: Path) -> list[Path]:
    """Write the links, and the words of both texts separated by spaces: one line per pair, empty
    without an alignment. Returns the paths."""
    lines = {
        out: (pair and pair.moses for pair in aligned),
        out.with_name(f"{out.name}.src"): (pair and " ".join(pair.src) for pair in aligned),
        out.with_name(f"{out.name}.tgt"): (pair and " ".join(pair.tgt) for pair in aligned),
    }
    for path, of_pairs in lines.items():
        path.write_text("".join(f"{line or ''}\n" for line in of_pairs), encoding="utf-8")
    return list(lines)


def _back(loaded: LoadedModel, asked: str | None) -> LoadedModel | None:
    """The model of the opposite direction; None if it is not wanted, or unknown."""
    from explorer.analysis.alignment.study import other_direction

    if asked == NONE:
        return None
    shelf = translators(list_models())
    name = asked or other_direction(loaded.name, shelf)
    return None if name is None else open_model(name)


def _sentences(loaded: LoadedModel) -> tuple[str, ...]:
    groups = text.examples(loaded.name, like=loaded.like).values()
    return tuple(sentence for group in groups for sentence in group)


def _say(ranked: "Study", loaded: LoadedModel, back: LoadedModel | None, lang: str) -> None:
    """Print what the links are based on to standard error."""
    shift, head = ranked.ranked()[0]
    layer, number = ranked.heads[head]
    mean = ranked.aligner("") is ranked.mean
    words = text.t(
        "align.mean" if mean else "align.best",
        lang=lang,
        count=len(ranked.heads),
        layer=layer + 1,
        head=number + 1,
        score=fixed(float(ranked.scores[shift, head])),
    )
    other = "align.one_way" if back is None else "align.back"
    also = text.t(other, lang=lang, **({"back": back.name} if back else {}))
    print(f"{loaded.name}: {words} {also}", file=sys.stderr)
