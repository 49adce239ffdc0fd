"""What a visitor types, pastes, puts into an address, or sends from a view."""

import contextlib
import os
import random
from dataclasses import fields
from pathlib import Path
from urllib.parse import urlencode

from explorer import library, sandbox
from explorer.analysis.exercises.tasks import tasks
from explorer.exhibits.choices import RefusedError, link_name
from explorer.exhibits.exercises.choices import MOST_CARRIED, read_programs, write_programs
from explorer.exhibits.tour.learners import read_results
from explorer.runs.edits import format_edits, parse_edits
from explorer.runs.inputs import MAX_TOKENS
from explorer.runs.sentences import MAX_CHARS, clean_text
from explorer.runs.trace import trace
from explorer.sandbox import Grid
from explorer.shell import LINKS
from explorer.training import pairs
from explorer.training.opened import untrained
from explorer.training.setup import OPTIONS, RANGES, Setup, check, format_setup, parse_setup
from explorer.training.tasks import corpus
from tests.fuzz.given import MODELS, damaged, words
from tests.hostile import programs

_opened: dict[str, library.LoadedModel] = {}


def model(name: str) -> library.LoadedModel:
    """A shipped model, opened once."""
    if name not in _opened:
        _opened[name] = library.open_model(name)
    return _opened[name]


def sentence(rng: random.Random, folder: Path) -> None:
    """What a visitor types, and has a model read."""
    text = words(rng)
    assert 0 < len(clean_text(text)) <= MAX_CHARS
    loaded = model(rng.choice(MODELS))
    target = words(rng, 60) if rng.random() < 0.3 else None
    edits = parse_edits(words(rng)) if rng.random() < 0.1 else ()
    traced = trace(loaded, text, target, edits, rng.randrange(4))
    assert len(traced.tgt_tokens) <= MAX_TOKENS + 4


def parameters(rng: random.Random, n: int) -> dict[str, str]:
    """Some choices of a link, with values of any kind."""
    return {
        link_name(name): rng.choice((words(rng), words(rng, 40), str(rng.randrange(12))))
        for name in rng.sample(list(LINKS._owner), n)
    }


def link(rng: random.Random, folder: Path) -> None:
    """The parameters of an address: what is read from them, written, is read again."""
    asked = parameters(rng, rng.randrange(8))
    state, refused = LINKS.read(asked)
    assert {name for name, _ in refused} <= asked.keys()
    assert LINKS.read(LINKS.write(state)) == (state, ())
    edits = parse_edits(words(rng))
    assert parse_edits(format_edits(edits)) == edits


def results(rng: random.Random, folder: Path) -> None:
    """A link that a learner sent for a class's table: of the tour, or of the exercises."""
    said = {name: words(rng) for name in ("answers", "learner", "solver", "solved", "programs")}
    said |= {"answers": "look.2.1.k3f~rest.1.0.9ab", "solved": "causal~softmax"}
    address = urlencode(said, errors="replace")
    sent = rng.choice((words(rng), f"http://[{words(rng, 9)}]/?{address}", f"http://a/?{address}"))
    if rng.random() < 0.7:
        sent = damaged(rng, sent.encode(errors="replace")).decode("utf-8", "replace")
    learner = read_results(sent)
    assert learner is None or len(learner.name) <= 40


def program(rng: random.Random, folder: Path) -> None:
    """What somebody writes as an exercise, and a link that carries it."""
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


def setup(rng: random.Random, folder: Path) -> None:
    """The settings of a training, and the model that they describe, built and taken a step."""
    said = []
    for name in rng.sample([each.name for each in fields(Setup)], rng.randrange(7)):
        if name in OPTIONS:
            usual = str(rng.choice([*OPTIONS[name]]))
        else:
            low, high = RANGES.get(name, (0, 1))
            drawn = rng.choice((low, high, rng.uniform(low, high)))
            usual = f"{drawn:g}" if isinstance(getattr(Setup(), name), float) else str(int(drawn))
        said.append(f"{name}-{words(rng, 12) if rng.random() < 0.1 else usual}")
    asked = "~".join(said)
    try:
        made = parse_setup(asked)
    except (ValueError, TypeError) as error:  # as the page's own reader refuses it
        raise RefusedError(asked) from error
    written = parse_setup(format_setup(made))
    assert format_setup(written) == format_setup(made)
    check(made, 40)
    if rng.random() < 0.02:
        name = words(rng, 20)
        untrained(made, name, (rng.randrange(99), rng.randrange(99)))


def pasted(rng: random.Random, folder: Path) -> None:
    """Pairs that are pasted to train on."""
    ends = ("\n", "\r\n", "\u2028", "\0", "\t")
    text = "".join(
        f"{words(rng, 250)}\t{words(rng, 250)}{rng.choice(ends)}" for _ in range(rng.randrange(9))
    )
    text = text.encode(errors="replace").decode()  # half a character cannot be sent
    found = pairs.read(text)
    assert len(found.rows) <= pairs.MOST_PAIRS
    if rng.random() < 0.02:
        corpus(Setup(task="own", text=text))
