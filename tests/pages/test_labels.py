"""What a classification head says stands under the sentence, and at the end of Start's picture."""

from pathlib import Path

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
    logits = read(loaded.model.last_stack.run(rows), rows.valid("tgt"))[0]
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
