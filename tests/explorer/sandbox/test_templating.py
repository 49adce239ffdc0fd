"""Chat templates are rendered as `transformers` renders them, and never without limits."""

from pathlib import Path

import pytest
from foreign import Golden, metaspace

from explorer.library import open_model
from explorer.problems import InputProblem
from explorer.sandbox.templating import rendered
from explorer.uploads import in_template

ALTERNATE = """{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Conversation roles must alternate') }}{% endif %}"""
TEMPLATES = {
    "ChatML": (
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
        "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
        "<|im_start|>user\nHi!<|im_end|>\n<|im_start|>assistant\n",
    ),
    "Llama 2": (
        "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% else %}"
        "{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
        "{% for message in loop_messages %}" + ALTERNATE + "{% set content = message['content'] %}"
        "{% if message['role'] == 'user' %}"
        "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% endif %}{% endfor %}",
        "<s>[INST] Hi! [/INST]",
    ),
    "Llama 3": (
        "{% set loop_messages = messages %}{% for message in loop_messages %}"
        "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'"
        "+ message['content'] | trim + '<|eot_id|>' %}"
        "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}"
        "{{ content }}{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
        "<s><|start_header_id|>user<|end_header_id|>\n\nHi!<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    "Phi-3": (
        "{{ bos_token }}{% for message in messages %}{{'<|' + message['role'] + '|>' + '\\n' + "
        "message['content'] + '<|end|>\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}",
        "<s><|user|>\nHi!<|end|>\n<|assistant|>\n",
    ),
    "Gemma": (
        "{{ bos_token }}{% for message in messages %}" + ALTERNATE + "{% if (message['role'] == "
        "'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}"
        "{% endif %}{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + "
        "'<end_of_turn>\\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}",
        "<s><start_of_turn>user\nHi!<end_of_turn>\n<start_of_turn>model\n",
    ),
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
    "OLMo 2": (
        "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}"
        "{{ '<|user|>\\n' + message['content'] + '\\n' }}{% endif %}"
        "{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"
        "{% endfor %}",
        "<s><|user|>\nHi!\n<|assistant|>\n",
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
def test_a_template_gives_the_text_of_the_library(name: str) -> None:
    source, prompt = TEMPLATES[name]
    assert rendered(source, TOKENS, "Hi!") == prompt


def test_json_and_dates_are_written_as_by_the_library() -> None:
    source = "{{ messages | tojson }}{{ strftime_now('%%') }}"
    assert rendered(source, {}, "<é>") == '[{"role": "user", "content": "<é>"}]%'


def chat(folder: Path, source: str) -> str:
    Golden.load("llama").write(folder, "metaspace")
    (folder / "chat_template.jinja").write_text(source, encoding="utf-8")
    return in_template(open_model(folder), "Hi!")


def test_a_start_token_that_the_model_adds_itself_is_not_doubled(tmp_path: Path) -> None:
    assert metaspace().encode("").tokens == ["<s>"]
    assert chat(tmp_path / "chat", TEMPLATES["Mistral v0.3"][0]) == "[INST] Hi![/INST]"


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
def test_a_template_that_fails_or_takes_too_much_is_refused_in_words(
    tmp_path: Path, source: str, key: str
) -> None:
    with pytest.raises(InputProblem, match=f"template_{key}"):
        chat(tmp_path / "chat", source)
