"""Chat templates are rendered as `transformers` renders them, and never without limits."""

import json
from pathlib import Path

import pytest
import tokenizers
from foreign import Golden, metaspace, unigram
from tokenizers import models, normalizers, pre_tokenizers

from explorer.library import open_model
from explorer.problems import InputProblem
from explorer.sandbox.templating import rendered
from explorer.sandbox.tokenizing import read_apart
from explorer.uploads import in_template
from models.foreign.tokens import ForeignTokenizer
from models.marks import library_of

TEMPLATES = {
    "Mistral v0.3": (
        """{%- set loop_messages = messages %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] " + tools | tojson + "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {{- "[INST] " + message["content"] + "[/INST]" }}
    {%- endif %}
{%- endfor %}
""",
        "<s>[INST] Hi![/INST]",
    ),
    "Zephyr": (
        """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{% generation %}{{ '<|assistant|>\\n'  + message['content'] + eos_token }}{% endgeneration %}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}""",
        "<|user|>\nHi!</s>\n<|assistant|>\n",
    ),
}
"""From the models' own folders, in places shortened; and what `apply_chat_template` gives."""
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_gives_the_text_of_the_library(name):
    source, prompt = TEMPLATES[name]
    assert rendered(source, TOKENS, "Hi!") == prompt


def test_json_and_dates_are_the_librarys_and_dropped_letters_are_named(tmp_path):
    source = "{{ messages | tojson }}{{ strftime_now('%%') }}"
    assert rendered(source, {}, "<é>") == '[{"role": "user", "content": "<é>"}]%'
    assert metaspace().encode("").tokens == ["<s>"]
    assert chat(tmp_path / "chat", TEMPLATES["Mistral v0.3"][0]) == "[INST] Hi![/INST]"
    raw = tokenizers.Tokenizer(models.BPE({c: i for i, c in enumerate("theca")}, []))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.normalizer = normalizers.Lowercase()
    raw.save(str(tmp_path / "tokenizer.json"))
    tokenizer = ForeignTokenizer(read_apart(tmp_path / "tokenizer.json"))
    assert tokenizer.unknown("THE dog") == ["d", "o", "g"]


def chat(folder: Path, source: str) -> str:
    Golden.load("llama").write(folder, "metaspace")
    (folder / "chat_template.jinja").write_text(source, encoding="utf-8")
    return in_template(open_model(folder), "Hi!")


@pytest.mark.parametrize(
    ("source", "key"),
    [
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "heavy"),
        ("{{ 'a' * 10**9 }}", "heavy"),
        ("{{ 'a' * 10**6 }}", "fails"),
        ("{{ raise_exception('no') }}", "fails"),
        ("{{ messages[1] }}{{ messages[1].content.x }}", "fails"),
        ("{% if %}", "fails"),
        ("{{ ''.__class__.__mro__ }}{{ cycler.__init__.__globals__.os }}", "fails"),
        ("{{ messages.append(1) }}", "fails"),
    ],
)
def test_a_template_that_fails_or_takes_too_much_is_refused_in_words(tmp_path, source, key):
    with pytest.raises(InputProblem, match=f"template_{key}"):
        chat(tmp_path / "chat", source)


# A stranger's tokenizer, asked in a process of its own, says what the library's own would say.
@pytest.mark.parametrize("text", ["We</s>went to the park", "</s>", "a<unk> b <pad", "(</s>)"])
def test_a_special_token_that_is_typed_is_text_for_a_unigram_model(tmp_path, text):
    """Here and there, with the characters that the text has."""
    raw = unigram()
    vocabulary = json.loads(raw.to_str())["model"]["vocab"] + [(each, -9.0) for each in "</>()"]
    raw.model = models.Unigram(list(map(tuple, vocabulary)), unk_id=2)
    raw.save(str(path := tmp_path / "tokenizer.json"))
    for library in (library_of(path.read_text()), read_apart(path)):
        tokenizer = ForeignTokenizer(library)
        ids = tokenizer.encode(text)
        assert not any(map(tokenizer.is_special, ids)), ids
        assert "".join(map(tokenizer.piece, ids)) == "▁" + text.replace(" ", "▁")
