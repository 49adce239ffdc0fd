"""Programs that mean harm, made in families: what the sandbox of the exercises must withstand.

`programs(n, secret)` gives n of them, the same in every run. Each defines `f(q, k)`, or breaks
before it could. They want time, memory, a deep stack, a file (the `secret`), a socket, a process,
the interpreter's own insides, or to choke whoever reads their answer.
"""

import itertools
import random
from collections.abc import Callable, Iterator

Texts = tuple[str, ...]
Family = Callable[[random.Random, str], Texts]
BOMB = "a = [0] * 10\nfor i in range({n}): a = [a] * 10\n"
"""A list that holds one list ten times, and so on: 10**(n + 1) zeros to whoever copies it."""


def loop(chance: random.Random, secret: str) -> Texts:
    return (
        "while True: pass",
        "while True:\n  try:\n    while True: pass\n  except BaseException: pass",
        f"sum(range(10**{chance.randint(9, 15)}))",
        f"x = 1\nfor i in range(10**{chance.randint(7, 9)}): x = x * 3 % 1000003",
        "import time\nwhile True: time.monotonic()",
    )


def memory(chance: random.Random, secret: str) -> Texts:
    n = 10 ** chance.randint(7, 12)
    return (
        f"x = 'a' * {n}",
        f"x = list(range({n}))",
        "x = 'a'\nwhile True: x += x",
        f"x = 'a'.join(['b' * 1000] * {n})",
        f"x = 'a' * 10000\nx.replace('a', 'b' * {n // 1000})",
        f"import os\nos.urandom({n})",
    )


def number(chance: random.Random, secret: str) -> Texts:
    return (
        "x = 9 ** 9 ** 9",
        f"x = 1 << 10 ** {chance.randint(8, 15)}",
        f"x = int('9' * {chance.randint(5_000, 3_000_000)})",
        "x = str(10 ** 1000000)",
        "import math\nmath.factorial(10 ** 7)",
        "x = (10 ** 100000) % (10 ** 99999 + 1)",
    )


def depth(chance: random.Random, secret: str) -> Texts:
    n = chance.choice((150, 300, 900, 1900))
    return (
        "def f(q, k): return f(q, k)",
        "(" * n + "1" + ")" * n,
        "1" + "+1" * n,
        "\n".join("  " * i + "if 1:" for i in range(min(n, 60))) + "\n" + "  " * 60 + "pass",
        "a = []\na.append(a)\ndef f(q, k): return a",
        "a = []\nfor i in range(100000): a = [a]\ndef f(q, k): return a == a",
        "a = []\nfor i in range(100000): a = [a]\nprint(a)",
        "a = {}\na['a'] = a\ndef f(q, k): return str(a)",
        "import json\njson.loads('[' * 100000)",
        "class A:\n  def __repr__(self): return repr(self)\nprint(A())",
    )


def reading(chance: random.Random, secret: str) -> Texts:
    return (
        f"x = open({secret!r}).read()\nprint(x)",
        f"import os\nprint(os.listdir({secret.rpartition('/')[0]!r}))",
        f"with open({secret!r}, 'w') as x: x.write('gone')",
        f"import os\nos.remove({secret!r})",
        "print(open('/proc/self/environ').read())",
        "import os\nprint(os.environ)",
        f"exec(open({secret!r}).read())",
        f"import sys\nsys.path.insert(0, {secret.rpartition('/')[0]!r})\nimport secret",
    )


def going_out(chance: random.Random, secret: str) -> Texts:
    port = chance.randint(1, 65000)
    return (
        f"import socket\nsocket.create_connection(('127.0.0.1', {port}))",
        "import os\nos.system('id')",
        "import os\nos.fork()",
        "import os\nos._exit(0)",
        "import threading\nthreading.Thread(target=print).start()",
        "import ctypes\nctypes.CDLL(None).system(b'id')",
        "import sys\nsys.exit()",
        "input()",
    )


def insides(chance: random.Random, secret: str) -> Texts:
    name = chance.choice(("__class__", "__globals__", "__subclasses__", "__builtins__", "__code__"))
    other = chance.choice(
        ("__bases__", "__mro__", "__dict__", "__init__", "__reduce__", "__self__")
    )
    return (
        f"print(().{name}.{other})",
        f"print('{{0.{name}.{other}}}'.format(1))",
        f"print('{{x.{name}}}'.format_map({{'x': print}}))",
        f"print({name})",
        f"try: 1 / 0\nexcept Exception as e: print(e.__traceback__.tb_frame.{other})",
        "print(__import__('os').listdir('/'))",
        "print(globals())",
        "import sys\nprint(sys.modules)",
        "import sys\nprint(sys._getframe())",
        "import pickle\npickle.loads(b'cos\\nsystem\\n(S\"id\"\\ntR.')",
        "exec('import os\\nprint(os.listdir(\"/\"))')",
        "print(eval('__import__(\"os\").getpid()'))",
        f"class A: {name} = 1\nprint(A().{name})",
        "class A:\n  def __del__(self): 1 / 0\nA()",
    )


def words(chance: random.Random, secret: str) -> Texts:
    n = chance.choice((20, 30, 60, 5_000, 10**9))
    return (
        f"import re\nre.match('(a+)+$', 'a' * {min(n, 60)} + 'b')",
        f"import re\nre.search('a?' * {min(n, 1000)} + 'a' * {min(n, 1000)}, 'a' * 30)",
        f"import re\nre.compile('a{{{min(n, 60000)}}}' * 3)",
        f"'%{n}d' % 1",
        f"f'{{1.5:.{n}f}}'",
        f"'{{0:{{1}}}}'.format(1, {n})",
        f"print('a' * {min(n, 10**7)})",
        "while True: print('a' * 10000)",
        f"raise ValueError('a' * {min(n, 10**7)})",
        f"x = 'a' * 100000\nx.split('a' * {min(n, 100)})",
        "'\\ud800'.encode()",
        "print('\\x00\\x1b[2J')",
    )


def choking(chance: random.Random, secret: str) -> Texts:
    """For whoever reads the answer: large, deep, endless, strange, or the judge's own names."""
    bomb = BOMB.format(n=chance.randint(3, 9))
    return (
        bomb + "a,\\",
        bomb + "def f(q, k): return a",
        bomb + "def f(q, k): raise ValueError(a)",
        bomb + "def isinstance(x, y): return True\ndef f(q, k): return a",
        bomb + "def type(x): return a\ndef isinstance(x, y): return False\ndef f(q, k): return a",
        bomb + "class J:\n  def dumps(self, x): return a\n"
        "def f(q, k):\n  global workshop_json\n  workshop_json = J()",
        bomb + "def f(q, k):\n  global workshop_values\n  workshop_values = a",
        bomb + "def len(x): return a\ndef f(q, k): 1 / 0",
        "def f(q, k):\n  global workshop_json\n  workshop_json = 3",
        "def f(q, k):\n  workshop_values.append('x' * 1000000)\n  return 1",
        "def f(q, k):\n  workshop_values.append('[' * 100000)\n  return 1",
        "def range(*x): return iter(lambda: 0, 1)\ndef f(q, k): return 1",
        "def f(q, k): return 10 ** 4000",
        "def f(q, k): return float('nan')",
        "def f(q, k): return [[0] * 900] * 900",
        "def f(q, k): return {'fault': None}",
        "def f(q, k): return range(10 ** 9)",
        "def f(q, k):\n  class A: pass\n  return A()",
        "def f(q, k, *, z): return 1",
        "f = 3",
        "del f",
        "def f(q, k): yield 1",
        "async def f(q, k): return 1",
        'print(\'{"values": "[1]", "fault": null}\')\ndef f(q, k): return 0',
    )


VALUES = (
    *("None", "True", "0", "1", "-1", "2.5", "-0.0", "5e-324", "1e308", "10**17", "10**18"),
    *("10**40", "-(10**40)", "float('nan')", "float('inf')", "-float('inf')", "1j"),
    *("''", "'True'", "'[1]'", "'`*_<b>$x$'", "'\\n\\n# a'", "'\\x00'", "'" + "x" * 500 + "'"),
    *("[]", "[[]]", "[[[[[1]]]]]", "[None]", "['a']", "[1, [2]]", "[[1], [2, 3]]", "[True]", "()"),
    *("[float('nan')] * 4", "[float('inf')] * 4", "[[1.0] * 4] * 4", "[[True] * 4] * 4"),
    *("[0] * 999", "[0] * 1000", "[1e308] * 4", "[10**17] * 4", "[-1e308, 1e308]", "x and [x]"),
    *("{}", "{'type': 1}", "{1: [2]}", "set()", "b'x'", "range(3)", "...", "lambda: 0"),
    *("print", "int", "NotImplemented", "ValueError('a')", "__name__", "x[0]", "x[0] if x else 0"),
)
"""What a function of an exercise may return instead of an answer; `x` are its arguments."""
BODIES = (
    "global n\n    n += 1\n    return n == 1",
    "global n\n    n += 1\n    return [n] * n",
    "global n\n    n += 1\n    return 1 // (n - 3)",
    "for each in x:\n        each.clear()\n    return 1",
    "x[0].append(1)\n    return x",
    "class A: pass\n    return A()",
    "raise ValueError('`*_<b>$x$\\n\\x1b[2J')",
    "raise KeyError({1: 2})",
    "raise StopIteration",
    "assert False, x",
    "print('`*_<b>$x$\\n\\x1b[2J' * 100)",
    "return NAME(*x)",
    "return eval('locals()')",
    "exec('x = 1')\n    return x",
    "import time\n    return time.time()",
    "import random\n    return random.random() < 0.5",
)
NAMES = ("values", "cases", "grids", "plain", "json", "suspects", "verdict", "call", "q", "k")
"""What was, or may be, the harness's own, each called `workshop_…`."""
DEEDS = (
    "{0}.clear()",
    "{0}.append(1)",
    "{0}.pop()",
    "{0}[0] = 1",
    "global {0}\n    {0} = []",
    "global {0}\n    {0} = lambda *x: 1",
    "exec('{0} = 1')",
    "return {0}",
)
SHADOWS = ("isinstance", "type", "len", "range", "abs", "list", "float", "int", "tuple", "suspect")
"""Names that a harness in the same place would use."""


def answers(name: str) -> Iterator[str]:
    """Programs that define the function `name` of a task, and want to end its page."""
    for code in _answers():
        yield code.replace("NAME", name)


def _answers() -> Iterator[str]:
    for value in VALUES:
        yield f"def NAME(*x):\n    return {value}"
    for body in BODIES:
        yield f"n = 0\ndef NAME(*x):\n    {body}"
    for deed in (each.format(f"workshop_{what}") for what in NAMES for each in DEEDS):
        yield f"def NAME(*x):\n    {deed}\n    return True"
        if not deed.startswith(("global", "return")):
            yield f"{deed}\ndef NAME(*x): return True"
    for shadow in SHADOWS:
        yield f"{shadow} = 3\ndef NAME(*x): return True"
        yield f"def {shadow}(*x): return []\ndef NAME(*x): return [1]"


FAMILIES: tuple[Family, ...] = (
    *(loop, memory, number, depth, reading),
    *(going_out, insides, words, choking),
)


def programs(n: int, secret: str, seed: int = 0) -> Iterator[tuple[str, str]]:
    """`n` programs with their families' names: at the top, or in the function that is asked for."""
    chance = random.Random(seed)
    for family in itertools.islice(itertools.cycle(FAMILIES), n):
        code = chance.choice(family(chance, secret))
        if family not in (depth, choking) and chance.random() < 0.5:
            lines = "".join(f"    {line}\n" for line in code.split("\n"))
            code = f"def f(q, k):\n{lines}"
        yield family.__name__, code
