"""The Machine page: the diagram of the loaded model, the calculator, costs."""

import pytest
from shown import everything, messages, payload, reading
from streamlit.testing.v1 import AppTest

from explorer import library
from explorer.text import LANGUAGES, t


def boxes(at: AppTest) -> list[dict[str, str]]:
    """The parts of the model as the diagram is sent them."""
    columns = payload(at, "model.view")[0]["columns"]
    return [box for column in columns for _, group in column["groups"] for box in group]


def metric(at: AppTest) -> int:
    labels = [t("model.parameters", lang=lang) for lang in LANGUAGES]
    (shown,) = (each.value for each in at.metric if each.label in labels)
    return int(str(shown).replace(",", ""))


@pytest.mark.parametrize(
    ("lang", "model", "n_self"), [("en", "en-zh", 2), ("zh", "writer", 1), ("zh", "headless", 1)]
)
def test_the_diagram_has_every_part(open_page, lang, model, n_self):
    at = open_page("model", lang=lang, model=model, text="I like you.")
    shown = [box["name"] for box in boxes(at)]
    assert shown.count(t("model.boxes.self", lang=lang)) == n_self
    assert shown.count(t("model.boxes.cross", lang=lang)) == (model == "en-zh")
    tied = t("model.tied_note", lang=lang) in [box["note"] for box in boxes(at)]
    assert tied == (model != "headless")
    assert f"{metric(at):,}" in everything(at)  # the same number in the reading


def test_all_layers_but_one_are_folded(open_page, save_small, tmp_path, monkeypatch):
    save_small(tmp_path / "deep", family="encoder-only", lm_head=False, n_layers=10)
    monkeypatch.setattr(library, "CHECKPOINTS", tmp_path)

    def titles(**chosen: str) -> list[str]:
        at = open_page("model", model="deep", text="I like you.", **chosen)
        (column,) = payload(at, "model.view")[0]["columns"]
        groups = column["groups"]
        assert at.slider(key="model.unfolded").max == 10
        notes = {title: group[0]["note"] for title, group in groups if "Layers" in title}
        assert all(int(note.replace(",", "")) > 0 for note in notes.values())
        return [title for title, _ in groups[1:]]

    assert titles() == ["Layer 1", "Layers 2 to 10"]
    assert titles(unfolded="4") == ["Layers 1 to 4", "Layer 5", "Layers 6 to 10"]
    assert titles(unfolded="900") == ["Layers 1 to 9", "Layer 10"]


def test_sizes_and_switches_move_the_count(open_page):
    impossible = open_page("model", sizes="512-7-7-6-2048-100-1111")
    assert "sizes" in messages(impossible)
    at = open_page("model", sizes="base")
    tied = metric(at)
    assert tied == 63_082_496
    at.toggle(key="model.tied").set_value(False).run()
    assert metric(at) == tied + 2 * 37_000 * 512
    at.selectbox(key="model.n_layers").select(12).run()
    assert at.query_params["sizes"] == "512-8-8-12-2048-37000-1010"
    assert metric(at) > tied + 2 * 37_000 * 512


def test_the_curves_say_where_attention_overtakes(open_page):
    at = open_page("model", sizes="llama")
    words = reading(at, "attention itself is")
    # 2 · weights / (4 · d · layers), the weights without the table that is only looked up
    weights = 32 * (4 * 4096**2 + 3 * 4096 * 11_008) + 32_000 * 4096
    assert f"{2 * weights // (4 * 4096 * 32) + 1:,}" in words  # at 25,204 both cost the same
