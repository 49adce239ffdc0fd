"""A program's values, its faults with line and column, and what may reach the app."""

import os
import socket
import sys
import threading
import time
from collections.abc import Container, Iterator
from pathlib import Path

import pytest
from foreign import Golden, metaspace
from hostile import FAMILIES, programs

from explorer import sandbox
from explorer.library import open_model
from explorer.problems import InputProblem
from explorer.sandbox import Answer, Fault, Grid, refused
from explorer.sandbox.templating import rendered
from explorer.uploads import in_template

RIGHT = "def f(q, k):\n    return k <= q"


def fault(code: str, **more: object) -> Fault:
    answer = sandbox.run(code, "f", **({"cases": [[1, 2]]} | more))
    return answer.fault


def suspects(*bodies):
    return [f"def suspect(*x): {body}" for body in bodies]


TYPED = {0: "a", 1: 10**30, 2: (1, 2.5, None), 3: {1: 2}}
ANSWERS = {
    "row by row": (RIGHT, {"grids": [Grid(2, 3)]}, (True, False, False, True, True, False)),
    "behind a cache": (
        "def f(q, k, a): return [q, k, a]",
        {"grids": [Grid(1, 2, (7,), first=4)]},
        ([4, 0, 7], [4, 1, 7]),
    ),
    "no numbers": (
        f"def f(x): return {TYPED}[x]",
        {"cases": [[0], [1], [2], [3]]},
        ({"type": "str"}, {"type": "int"}, [1, 2.5, None], {"type": "dict"}),
    ),
    "a check": (
        "def f(g):\n    assert g(1) == 1\n    return g(2) == 2",
        {"suspects": suspects("return x[0]", "return x[0] + 1", "return 1")},
        (True, False, False),
    ),
    "before an exception": ("def f(x): return 1 // x", {"cases": [[1], [1], [0]]}, (1, 1)),
    "copies of arguments": (
        "def f(q, k, row):\n    row.append(q)\n    return len(row)",
        {"grids": [Grid(2, 2, ([1, 2],))], "cases": [[1, 2, [1, 2]]] * 2},
        (3,) * 6,
    ),
    "each call is the first": (
        "n = 0\ndef f(g):\n    global n\n    n += 1\n    return n",
        {"suspects": suspects("return 1", "return 2", "return 3")},
        (1,) * 3,
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_values_of_a_program(name):
    code, asked, values = ANSWERS[name]
    answer = sandbox.run(code, "f", **asked)
    assert answer.values == values
    assert (answer.fault is not None) == (name == "before an exception")


def test_prints_come_along_up_to_a_bound_and_the_first_failing_suspect_is_told():
    code = "def f(x):\n    print('seen', x)\n    return x"
    assert sandbox.run(code, "f", cases=[[1], [2]]).printed == "seen 1\nseen 2\n"
    code = "def f(x):\n    print('x' * 100000)\n    return x"
    assert len(sandbox.run(code, "f", cases=[[1]]).printed) == 2_000
    code = "def f(g):\n    print(g())\n    return True"
    printed = sandbox.run(code, "f", suspects=suspects(*(f"return {n}" for n in range(9)))).printed
    assert printed.split() == [str(n) for n in range(9)]
    handed = suspects("return 1", "raise ValueError('7')", "return 0")
    found = sandbox.run("def f(g): return 1 // g()", "f", suspects=handed).fault
    assert (found.error, found.message) == ("ValueError", "7")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            "x = 1\ndef f(q, k) return k",
            {"kind": "syntax", "line": 2, "column": 13, "message": "Expected `:`, found `return`"},
        ),
        (
            "def f(q, k):\n    x = [1]\n    return x[k]",
            {"kind": "raised", "error": "IndexError", "line": 3, "case": 1},
        ),
        ("def f(q): return True", {"kind": "call"}),
        ("f = 3", {"kind": "call"}),
        ("def g(q, k): return True", {"kind": "missing"}),
        (
            "def f(q, k):\n    return open('x')",
            {"kind": "outside", "message": "open('x')", "line": 2},
        ),
        ("def f(q, k): return numpy", {"kind": "outside", "message": "numpy"}),
        ("def f(q, k): return f(q, k)", {"kind": "depth"}),
        ("def f(q, k): return 'a' * 10**9", {"kind": "memory"}),
        ("def f(q, k):\n    while True: pass", {"kind": "time"}),
        ("   \n\n", {"kind": "empty"}),
        ("x\n" * 121, {"kind": "lines"}),
        ("x" * 4001, {"kind": "long"}),
    ],
)
def test_what_is_wrong_is_told_with_its_place(code, told):
    found = fault(code, cases=[[0, 0], [0, 5]])
    assert {name: getattr(found, name) for name in told} == told


@pytest.mark.parametrize(
    "character", ["\u202e", "\u2066", "\u200b", "\x00", "\x1b", "\u2028", "\r"]
)
def test_characters_that_hide_something_are_named_and_placed(character):
    found = refused(f"a = 1\nb{character} = 2")
    assert (found.kind, found.line, found.column) == ("character", 2, 2)
    assert f"U+{ord(character):04X}" in found.message
    assert refused("if 1:\n\tx = '中文' # 注释") is None  # which are ordinary


def test_no_program_fills_the_app_or_sees_what_another_left():
    bomb = "a = [0] * 10\nfor i in range(9): a = [a] * 10\n"
    steal = "class J:\n    def dumps(self, x): return a\n"
    code = f"{bomb}{steal}def f(q, k):\n    global workshop_json\n    workshop_json = J()"
    answer = sandbox.run(code, "f", cases=[[1, 2]])
    assert answer.fault == Fault("large") or len(str(answer.values)) < 100
    assert sandbox.run(RIGHT, "f", cases=[[1, 1]]).values == (True,)
    sandbox.run("leftover = 1\ndef f(q, k): return 1", "f", cases=[[1, 1]])
    assert fault("def f(q, k): return leftover").kind == "outside"


@pytest.mark.parametrize(
    "drawn", ["random.random()", "random.Random().random()", "time.time()", "time.perf_counter()"]
)
def test_clocks_and_chance_are_the_same_for_all(drawn):
    code = f"import random\nimport time\ndef f(x): return {drawn}"
    first = sandbox.run(code, "f", cases=[[1]])
    assert first.fault is None
    assert sandbox.run(code, "f", cases=[[1]]).values == first.values


def test_a_loop_holds_nobody_else_up():
    for _ in range(3):
        sandbox.run(RIGHT, "f", cases=[[1, 1]])
    begun, ended = threading.Barrier(3), []

    def looping() -> None:
        begun.wait()
        ended.append(sandbox.run("while True: pass", "f").fault)

    threads = [threading.Thread(target=looping) for _ in range(2)]
    for thread in threads:
        thread.start()
    begun.wait()
    answers = [sandbox.run(RIGHT, "f", cases=[[1, 1]]) for _ in range(3)]
    assert all(answer.values == (True,) for answer in answers)
    for thread in threads:
        thread.join()
    assert [each.kind for each in ended if each] == ["time", "time"]


def test_without_the_package_it_says_so(monkeypatch):
    monkeypatch.setattr(sandbox, "available", lambda: False)
    with pytest.raises(FileNotFoundError, match="pydantic-monty"):
        sandbox.run(RIGHT, "f", cases=[[1, 1]])


SECRET = "the-canary-sings-at-midnight"
LONGEST = 60.0
"""Seconds that a program may live on a busy machine; on an idle one, less than one."""
MOST = 60_000_000
"""Bytes that a program may take besides what an idle worker has."""


@pytest.fixture
def canary(tmp_path) -> Iterator[str]:
    """A file that no program may read, change or move."""
    file = tmp_path / "secret.py"
    file.write_text(SECRET)
    yield str(file)
    assert file.read_text() == SECRET
    assert os.listdir(tmp_path) == ["secret.py"]


OWN = {"monty", Path(sys.executable).name, "python"}
"""The names of the keepers and of their workers."""


def ours(apart: Container[int] = ()) -> dict[int, str]:
    """The processes below this one, by their ids, without those below `apart`."""
    found, waiting = {}, [os.getpid()]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            for child in map(int, task.read_text().split()):
                if child in apart:
                    continue
                found[child] = Path(f"/proc/{child}/comm").read_text().strip()
                waiting.append(child)
    return found


def peak(process: int) -> int:
    """The most memory that a process has had, in bytes; 0 of one that has just ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 1024 * next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def withstood(code: str) -> Answer:
    """Run a program; what holds for every one, whatever it wants."""
    begun = time.monotonic()
    answer = sandbox.run(code, "f", grids=[Grid(3, 3)])
    assert time.monotonic() - begun < LONGEST, code
    assert SECRET not in str(answer), code
    assert len(str(answer)) < 500_000, code
    assert len(answer.printed) <= 2_000, code
    assert answer.fault is not None or len(answer.values) == 9, (code, answer)
    return answer


@pytest.mark.parametrize(
    ("n", "seed"),
    [(3 * len(FAMILIES), 1), pytest.param(1000, 0, marks=pytest.mark.sweep)],
    ids=["a few of every family", "a thousand"],
)
def test_hostile_programs_are_withstood(canary, n, seed):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0)
        withstood("def f(q, k): return 1")  # starts what answers
        linux = sys.platform == "linux"
        # Other tests of this process may have a browser open.
        apart = {process for process, name in ours().items() if name not in OWN} if linux else set()
        idle = {process: peak(process) for process in ours(apart)} if linux else {}
        port = str(listening.getsockname()[1])
        for family, code in programs(n, canary, seed):
            withstood(code.replace("127.0.0.1", f"127.0.0.1:{port}"))
            if idle:
                there = ours(apart)
                assert set(there.values()) <= OWN, code
                assert len(there) <= len(idle) + 1, (family, code, there)
                for process in there:
                    before = idle.get(process, min(idle.values()))
                    assert peak(process) - before < MOST, (family, code)
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert withstood("def f(q, k): return 1").values == (1,) * 9


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


def test_json_and_dates_are_the_librarys(tmp_path):
    source = "{{ messages | tojson }}{{ strftime_now('%%') }}"
    assert rendered(source, {}, "<é>") == '[{"role": "user", "content": "<é>"}]%'
    assert metaspace().encode("").tokens == ["<s>"]
    assert chat(tmp_path / "chat", TEMPLATES["Mistral v0.3"][0]) == "[INST] Hi![/INST]"


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
