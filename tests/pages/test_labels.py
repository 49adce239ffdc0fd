"""What a classification head says of a text or of a pair of texts, on the pages."""

from pathlib import Path

import numpy as np
import pytest
from foreign import Golden
from shown import Open, everything

from explorer.analysis.start.flow import flow
from explorer.library import open_model
from explorer.runs.edits import HeadOff, format_edits
from explorer.runs.trace import trace
from models.foreign.finding import VARIABLE
from models.rows import Rows

TEXT = "We went to the park."


@pytest.mark.parametrize("name", ["bert", "bert-tokens"])
def test_the_labels_are_shown_with_their_probabilities(
    name: str, open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Golden.load(f"labels/{name}").write(tmp_path / name, "own")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    loaded = open_model(folder)
    ids = loaded.model.with_marks("tgt", loaded.tokenizer.encode(TEXT))
    rows, read = Rows.of([ids]), loaded.classifier
    assert read is not None
    logits = read(loaded.model.last_stack.run(rows), rows.valid("tgt"), rows.tokens("tgt"))[0]
    chances = logits.softmax(-1)[1 if name == "bert-tokens" else ...]  # of "we"
    best, label = float(chances.max()), read.head.labels[int(chances.argmax())]
    edits = (HeadOff("blocks.0.attn", 0),)
    asked = {"model": name, "text": TEXT, "edits": format_edits(edits)}
    said = everything(open_page("heads", **asked))
    steps = flow(loaded, trace(loaded, TEXT), None).steps
    assert len(steps) == (1 if name == "bert" else len(ids))
    assert steps[1 if name == "bert-tokens" else 0].tokens[0] == label
    changed = flow(loaded, trace(loaded, TEXT, edits=edits), None).steps[0]
    if name == "bert":
        assert f"Without your changes: **{label} {100 * best:.0f} %**" in said
    else:
        assert f"“we” **{label}** {100 * best:.0f} %" in said.partition("Without")[2]
    assert changed.chances != steps[0].chances


def test_a_second_sentence_in_the_sidebar_makes_a_pair(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = open_model(Golden.load("labels/bert").write(tmp_path / "bert", "own"))
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    at = open_page("heads", model="bert", text=TEXT)
    alone = everything(at)
    at.sidebar.text_area("sidebar.second").set_value("I love you.").run()
    assert not at.exception
    assert at.sidebar.text_area("sidebar.text").value == TEXT
    pair = trace(loaded, f"{TEXT} [SEP] I love you.")
    types = loaded.model.get_parameter("positions.types").numpy()
    added, table = (
        pair.activations["hook_pos_embed"],
        loaded.model.get_parameter("positions.weight"),
    )
    second = pair.tgt_str_tokens.index("[SEP]") + 1
    typed = added - table[: len(added)].numpy()
    assert np.abs(typed[:second]).max() == 0
    assert typed[second:] == pytest.approx(types[[1] * (len(added) - second)], abs=1e-6)
    said = next(each for each in everything(at).splitlines() if "classifier" in each)
    assert said not in alone
    at.sidebar.text_area("sidebar.second").set_value("").run()
    assert everything(at) == alone
