"""The cases of the exercises: references against torch, and wrong programs that few cases miss."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from explorer.analysis.exercises.grading import grade
from explorer.analysis.exercises.tasks import task_of
from models.positions import rotate, sinusoidal_table

Numbers = Sequence[float]


def row(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def weights(scores: Numbers, allowed: Sequence[bool]) -> Any:
    hidden = row(scores).masked_fill(~torch.tensor(allowed), -math.inf)
    return hidden.softmax(-1).nan_to_num(0.0)


def gradient(function: Callable[..., Any], at: Numbers, upstream: Numbers) -> Any:
    x = row(at).requires_grad_()
    return torch.autograd.grad(function(x), x, row(upstream))[0]


def nucleus(probs: Numbers, p: float) -> Any:
    values, order = row(probs).sort(descending=True, stable=True)
    kept = values.masked_fill(values.cumsum(0) - values >= p, 0.0)
    return torch.zeros_like(kept).scatter(0, order, kept / kept.sum())


def beams(scores: Numbers, logprobs: Sequence[Numbers], width: int) -> Any:
    best = (row(scores)[:, None] + row(logprobs)).flatten().topk(width).indices
    return torch.stack((best // len(logprobs[0]), best % len(logprobs[0])), 1)


def norm(x: Numbers, eps: float, gain: Any = None, bias: Any = None) -> Any:
    return F.layer_norm(row(x), [len(x)], gain, bias, eps)


def rms(x: Any, gain: Numbers, eps: float) -> Any:
    return F.rms_norm(x, [len(gain)], row(gain), eps)


def turned(x: float, y: float, pos: int, theta: float) -> Any:
    angle = torch.tensor(pos * theta, dtype=torch.float64)
    return rotate(row([x, y])[None, None, None], (angle.cos().view(1), angle.sin().view(1)))


TORCH: dict[str, Callable[..., Any]] = {
    "softmax": lambda scores: row(scores).softmax(-1),
    "empty_row": weights,
    "mend_after": weights,
    "mend_zero": weights,
    "scale": lambda q, k: F.linear(row(q), row(k)) / len(q) ** 0.5,
    "mend_scale": lambda q, k, n_heads: F.linear(row(q), row(k)) / len(q) ** 0.5,
    "mix": lambda weights, values: row(weights) @ row(values),
    "sine": lambda pos, dim, d_model: sinusoidal_table(pos + 1, d_model)[pos, dim],
    "rotation": turned,
    "layer_norm": lambda x, gain, bias, eps: norm(x, eps, row(gain), row(bias)),
    "mend_variance": norm,
    "rms_norm": lambda x, gain, eps: rms(row(x), gain, eps),
    "rms_gradient": lambda x, gain, eps, upstream: gradient(
        lambda given: rms(given, gain, eps), x, upstream
    ),
    "softmax_gradient": lambda weights, upstream: gradient(
        lambda scores: scores.softmax(-1), row(weights).log().tolist(), upstream
    ),
    "ignored": lambda losses, labels, ignore: row(
        [loss for loss, label in zip(losses, labels, strict=True) if label != ignore] or [0.0]
    ).mean(),
    "smoothing": lambda label, vocab_size, amount: (
        (1 - amount) * F.one_hot(torch.tensor(label), vocab_size) + amount / vocab_size
    ),
    "top_p": nucleus,
    "beam": beams,
    "mend_positions": lambda valid: (torch.tensor(valid).cumsum(0) - 1).clamp(min=0),
    "mend_loss": lambda logits, label: F.cross_entropy(row(logits), torch.tensor(label)),
}


@pytest.mark.parametrize("name", TORCH)
def test_a_reference_gives_what_torch_gives_in_every_case(name):
    task = task_of(name)
    for case, (wanted,) in zip(task.cases, grade(task, task.reference).wanted, strict=True):
        found = torch.as_tensor(TORCH[name](**case.given)).double().flatten()
        torch.testing.assert_close(found, row(wanted).flatten(), atol=1e-6, rtol=1e-6)


BLIND = "(k < sum(valid) if valid[0] else k >= len(valid) - sum(valid))"
"""A padding mask for PADs on one side only."""
MASKS = f"""
causal: k <= q and q - k < 9
causal: k <= q or k - q > 8
padding: {BLIND}
both: k <= q and any(valid) and {BLIND}
window: 0 <= q - k < min(width, 5)
near: abs(q - k) <= min(reach, 4)
sinks: k <= q and (q - k < width or k < min(n_sink, 3))
sinks: k <= q and (q - k < min(width, 3) or k < n_sink)
prefix: k <= q or k < min(n_prefix, 4)
packed: k <= q and doc[q] == doc[k] and q - k < 20
packed: k <= q and sum(doc[k : q + 1]) == doc[q] * (q - k + 1)
packed: k <= q and all(d == doc[q] for d in doc[k:q])
blocks: doc[q] == doc[k] != 0 and abs(q - k) < 3
cross: src_valid[k] and any(tgt_valid)
cross: {BLIND.replace("valid", "src_valid")}
past: 0 <= q + past - k < 9
past_padding: k <= q + past and valid[k] and valid[q + past]
past_padding: k <= q + past and any(valid) and {BLIND}
past_window: 0 <= q + past - k < min(width, 4)
past_window: 0 <= q + past - k < (width if past or width < 3 else 99)
mend_diagonal: 0 <= q - k < 9
mend_cache: 0 <= q + n_key - n_query - k < 9
mend_replaced: k <= q and any(valid) and {BLIND}
mend_pad: tokens[k] > pad
mend_pad: tokens[k] != pad and end not in tokens[:k]
"""
CHECKS = """
check_causal: all(f(q, k) == (k <= q) for q in range(8) for k in range(8))
check_causal: all(f(q, q) and f(q, 0) and not f(q, q + 1) and not f(q, 12) for q in range(12))
check_padding: all(f(q, k, v) == v[k] for v in ([0 > 1, 1 > 0, 1 > 0], [1 > 0, 1 > 0, 0 > 1]) \
for q in range(3) for k in range(3))
check_cache: all(f(q, k, 4) == (k <= q + 4) for q in range(4) for k in range(9))
check_cache: all(f(q, k, p) == (k <= q + p) for p in range(1, 6) for q in (0, 3) for k in range(9))
check_cache: all(f(0, k, p) == (k <= p) for p in range(6) for k in range(9))
check_softmax: abs(f([0, 1, 0])[0] - 0.2119416) < 1e-5 and abs(sum(f([999.0, 0.0])) - 1) < 1e-9
check_softmax: abs(f([3.0, 2.0, 0.0])[1] - 0.2594965) < 1e-5 and f([999.0, 0.0])[1] == 0.0
"""
"""Each condition lets a wrong function through."""
PROGRAMS = """
# alibi
    return -slope * min(abs(q - k), 8)
# scale
    return abs(sum(a * b for a, b in zip(q, k))) / math.sqrt(len(q))
# mix
    total = sum(weights) or 1
    pairs = list(zip(weights, values))
    return [sum(a * v[i] for a, v in pairs) / total for i in range(len(values[0]))]
# rotation
    c = math.cos(pos * theta)
    s = math.sqrt(1 - c * c)
    return [x * c - y * s, x * s + y * c]
# layer_norm
    m = sum(x) / len(x)
    r = math.sqrt(sum((v - m) ** 2 for v in x) / len(x) + 1e-5)
    return [g * (v - m) / r + b for v, g, b in zip(x, gain, bias)]
# rms_norm
    r = math.sqrt(sum(v * v for v in x) / len(x) + eps)
    return [abs(g) * v / r for v, g in zip(x, gain)]
# shift
    return [[t for t in tokens if t != tokens[-1]], tokens[1:]]
# shift
    return [tokens[:-1], [t for t in tokens if t != tokens[0]]]
# smoothing
    rest = min(amount, 0.5) / vocab_size
    return [(1 - amount if i == label else 0.0) + rest for i in range(vocab_size)]
# top_p
    total, least = 0.0, 0.0
    for x in sorted(probs, reverse=True):
        total, least = total + x, x
        if total >= p: break
    kept = [x if x >= least else 0.0 for x in probs]
    return [x / sum(kept) for x in kept]
# beam
    n = range(len(logprobs[0]))
    f = [(-(max(scores) + logprobs[b][t]), b, t) for b in range(len(scores)) for t in n]
    return [[b, t] for total, b, t in sorted(f)[:width]]
# length
    return logprob / length ** min(alpha, 1)
# mend_scale
    width = sum(1 for b in k if b)
    return sum(a * b for a, b in zip(q, k)) / math.sqrt(width)
# mend_positions
    first = valid.index(True) if any(valid) else len(valid)
    return [max(0, i - first) for i in range(len(valid))]
# mend_variance
    m = sum(x) / len(x)
    r = math.sqrt(sum((v - m) ** 2 for v in x) / len(x) + 1e-5)
    return [(v - m) / r for v in x]
# mend_loss
    c = logits[0]
    return -logits[label] + c + math.log(sum(math.exp(z - c) for z in logits))
"""
SOFTMAX = """    e = [math.exp(s - {}) for s in scores]
    return [x / sum(e) for x in e]"""
SHIFTS = """scores[-1]|scores[0]|sum(scores) / len(scores)|max(scores, key=abs)|max(scores[:2])
max(scores[-2:])|sorted(scores)[len(scores) // 2]|(max(scores) + min(scores)) / 2"""
FILLED = """    if not any(allowed): return [0.0 for s in scores]
    s = [x if ok else {} for x, ok in zip(scores, allowed)]
    e = [math.exp(x - max(s)) for x in s]
    return [x / sum(e) for x in e]"""
FILLS = ("-30.0", "x - 30.0", "-1000.0", "-1e9", "x - 1e4")
SHIFTED = """    if not any(allowed): return [0.0 for s in scores]
    e = [math.exp(s - {}) if ok else 0.0 for s, ok in zip(scores, allowed)]
    return [x / sum(e) if sum(e) else 0.0 for x in e]"""
"""Blocked keys left out, but the exponents are shifted by something else than their maximum."""
OPEN = ("0", "max(scores)", "scores[allowed.index(True)]", "min(scores)")
MEAN = """    kept = [l for l, y in zip(losses, labels) if {}]
    return sum(kept) / len(kept) if kept else 0.0"""
COUNTED = ("y != ignore and y", "y > ignore", "y > 0", "y != ignore and l")


def wrong_ones() -> Iterator[tuple[str, str]]:
    """Names of tasks, and bodies of functions that are wrong in few cases."""
    for line in MASKS.strip().splitlines():
        name, _, rule = line.partition(": ")
        yield name, f"    return {rule}"
    for line in CHECKS.strip().splitlines():
        name, _, condition = line.partition(": ")
        # A program that raises an error does not pass it.
        tried = f"    try: return {condition}\n    except Exception: return False"
        yield name, f"    f = {task_of(name).signature.split('(')[1].rstrip('):')}\n{tried}"
    for program in PROGRAMS.split("# ")[1:]:
        name, _, body = program.partition("\n")
        yield name, body
    for name in ("empty_row", "mend_after", "mend_zero"):
        yield from ((name, FILLED.format(fill)) for fill in FILLS)
        yield from ((name, SHIFTED.format(shift)) for shift in OPEN)
    yield from (("softmax", SOFTMAX.format(shift)) for shift in re.split(r"[|\n]", SHIFTS))
    yield from (("ignored", MEAN.format(condition)) for condition in COUNTED)


@pytest.mark.parametrize(("name", "body"), list(wrong_ones()))
def test_a_program_that_is_wrong_in_few_cases_is_refused(name, body):
    task = task_of(name)
    graded = grade(task, f"import math\n{task.signature}\n{body}")
    assert not graded.passed
    assert graded.fault is None or graded.fault.kind == "raised"
