"""What the pages say of models of other libraries, of labels, and of pairs of languages."""

from pathlib import Path

import numpy as np
import pytest
from foreign import Golden, of_many
from shown import everything, messages, words_of

from explorer.analysis.start.flow import flow
from explorer.exhibits.block import escape
from explorer.library import open_model
from explorer.runs.edits import HeadOff, format_edits
from explorer.runs.trace import trace
from explorer.text import t
from explorer.ui.sidebar.languages import language_name
from models.foreign.finding import VARIABLE
from models.rows import Rows

pytestmark = pytest.mark.usefixtures("add_own")
CHAT = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}\n{% endfor %}"


@pytest.mark.parametrize(
    ("template", "text", "reason"),
    [
        (CHAT, "<|im_start|>user\nHi\n", ""),
        ("{{ raise_exception('no *users*') }}", "Hi", "TemplateError: no *users*"),
    ],
)
def test_a_chat_template_is_offered_and_why_it_fails(
    open_page, tmp_path, monkeypatch, template, text, reason
):
    folder = Golden.load("qwen3").write(tmp_path / "chat", "own")
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    at = open_page("card", model="chat", text="Hi")
    at.button(key="sidebar.prompt").click().run()
    assert at.text_area(key="sidebar.text").value == text
    assert ("sidebar.prompt" in [each.key for each in at.button]) == bool(reason)
    said = t("problems.template_fails", lang="en", reason=escape(reason))
    assert messages(at) == said * bool(reason)


SHORT = "We love you."


@pytest.mark.parametrize(
    ("model", "link", "said"),
    [
        ("t5", {"stage": "3"}, "÷ 1 ="),  # T5 divides its scores by nothing
        ("gemma2", {"stage": "3"}, "2.00 · tanh("),  # Gemma caps them
        ("qwen3", {"stage": "1"}, "then normalised, rotated by position (RoPE)."),
        ("gpt_neox", {"stage": "1"}, "by position in the first 4 dimensions (RoPE)."),
        ("llama", {"stage": "1"}, "then rotated by position (RoPE)."),
        ("gemma2", {"aside": "backward"}, "(dS ∘ (1 − tanh²)) K ÷ √7"),
    ],
)
def test_one_cell_says_what_the_model_does(open_page, model, link, said):
    at = open_page("score", model=f"my-{model}", text=SHORT, layer="1", head="1", row="2", **link)
    assert said in "\n".join(words_of(each) for each in at.markdown)


def test_a_layer_that_does_not_rotate_does_not_claim_to(open_page, tmp_path, monkeypatch):
    Golden.load("smollm3").write(tmp_path / "smol", "own")  # its second layer does not
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    for layer, rotates in (("1", True), ("2", False)):
        at = open_page("score", model="smol", text=SHORT, layer=layer, head="1", row="2", stage="1")
        assert (t("score.changed_turned", lang="en") in everything(at)) == rotates


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("t5", "nn.MHA always makes heads d_model ÷ heads = 6 wide"),
        ("gemma2", "F.sdpa and nn.MHA cannot cap the scores"),
        ("gpt2", "| the same |"),
    ],
)
def test_implementations_of_its_attention_are_compared(open_page, model, said):
    at = open_page("cases", part="choices", option="backend", model=f"my-{model}", text=SHORT)
    assert said in everything(at)


@pytest.mark.parametrize(
    ("model", "part", "said"),
    [
        ("gpt_neox", "", " · Attention and feed-forward in parallel"),
        ("gemma2", "", " · Norm on self-attention and feed-forward outputs"),
        ("marian", "", "a table of vectors (usually learned)"),
        ("bert", "sum", "position + token type"),
    ],
)
def test_what_else_its_design_has_is_told(open_page, model, part, said):
    page, more = ("positions", {"part": part}) if part else ("card", {})
    assert said in everything(open_page(page, model=f"my-{model}", text=SHORT, **more))


def test_the_dropout_of_another_librarys_training_is_not_named(open_page):
    words = everything(open_page("score", model="my-llama", text=SHORT, aside="dropout"))
    assert t("score.dropout_lead", lang="en") in words
    assert t("score.dropout_config", lang="en", p=0.0) not in words


def test_an_example_that_is_too_long_stops_nothing_and_languages_have_names(open_page):
    """One of the sentences by which heads are ranked has 51 of its tokens; it can read 40."""
    at = open_page("alignment", model="my-marian", text=SHORT)
    assert not at.warning
    assert all("and watch TV" not in each.label for each in at.button)  # offered in the sidebar
    assert language_name("zho_Hans", "zh") == "中文（zho_Hans）"
    assert language_name("__fr__", "en") == "French (__fr__)"
    assert language_name("ro_RO", "en") == "Romanian (ro_RO)"
    assert language_name("ayr_Latn", "en") == "ayr_Latn"


TEXT = "We went to the park."


@pytest.mark.parametrize("name", ["bert", "bert-tokens"])
def test_the_labels_are_shown_with_their_probabilities(name, open_page, tmp_path, monkeypatch):
    folder = Golden.load(f"labels/{name}").write(tmp_path / name, "own")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    loaded = open_model(folder)
    ids = loaded.model.with_marks("tgt", loaded.tokenizer.encode(TEXT))
    rows, read = Rows.of([ids]), loaded.classifier
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


def test_a_second_sentence_in_the_sidebar_makes_a_pair(open_page, tmp_path, monkeypatch):
    loaded = open_model(Golden.load("labels/bert").write(tmp_path / "bert", "own"))
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    at = open_page("heads", model="bert", text=TEXT)
    alone = everything(at)
    at.sidebar.text_area("sidebar.second").set_value("I love you.").run()
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


@pytest.fixture
def nllb(add_own, tmp_path, monkeypatch) -> Path:
    folder, _ = of_many(tmp_path / "nllb", "eng_Latn $A </s>", decoder_start_token_id=1)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return folder


@pytest.mark.usefixtures("nllb")
def test_a_pair_of_languages_is_chosen_in_the_sidebar(open_page):
    at = open_page("heads", model="nllb", text="I like you.")
    assert at.selectbox(key="sidebar.source_language").value == "eng_Latn"
    target = at.selectbox(key="sidebar.target_language")
    assert [each.split(" (")[0] for each in target.options] == [
        *("Chinese", "English", "French", "German")
    ]
    at = target.set_value("fra_Latn").run()
    assert not at.error
    assert at.query_params["model"] == "nllb@eng_Latn-fra_Latn"
    assert at.selectbox(key="sidebar.model").value == "nllb"
    assert at.selectbox(key="sidebar.target_language").value == "fra_Latn"


@pytest.mark.usefixtures("nllb")
@pytest.mark.parametrize("pair", ["eng_Latn-xxx_Latn", "eng_Latn-", "en-zh"])
def test_a_language_that_the_model_lacks_is_no_error(open_page, pair):
    open_page("heads", model=f"nllb@{pair}", text="I like you.")
