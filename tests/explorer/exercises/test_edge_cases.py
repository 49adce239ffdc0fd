"""The cases of the exercises: references against torch, and wrong programs that few cases miss."""

import math
from collections.abc import Callable, Sequence
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


def lines(signature: str, *body: str) -> str:
    return "\n".join(("import math", f"def {signature}:", *(f"    {line}" for line in body)))


def masked(arguments: str, rule: str) -> str:
    return lines(f"may_attend({arguments})", f"return {rule}")


def checked(condition: str) -> str:
    """A check of `f` by one condition; a program that raises an error does not pass it."""
    return lines(
        "check(f)", "try:", f"    return {condition}", "except Exception:", "    return False"
    )


def softmax_from(shift: str) -> str:
    exponentials = f"e = [math.exp(s - {shift}) for s in scores]"
    return lines("softmax(scores)", exponentials, "return [x / sum(e) for x in e]")


def filled(fill: str) -> str:
    """Blocked scores replaced by a number."""
    return lines(
        "weights(scores, allowed)",
        "if not any(allowed): return [0.0 for s in scores]",
        f"s = [x if ok else {fill} for x, ok in zip(scores, allowed)]",
        "e = [math.exp(x - max(s)) for x in s]",
        "return [x / sum(e) for x in e]",
    )


def shifted(shift: str) -> str:
    """Blocked keys left out, but the exponents are shifted by something else than their maximum."""
    return lines(
        "weights(scores, allowed)",
        "if not any(allowed): return [0.0 for s in scores]",
        f"e = [math.exp(s - {shift}) if ok else 0.0 for s, ok in zip(scores, allowed)]",
        "return [x / sum(e) if sum(e) else 0.0 for x in e]",
    )


def mean_of(condition: str) -> str:
    kept = f"kept = [l for l, y in zip(losses, labels) if {condition}]"
    return lines(
        "loss(losses, labels, ignore)", kept, "return sum(kept) / len(kept) if kept else 0.0"
    )


WEIGHTS = (
    *map(filled, ("-30.0", "x - 30.0", "-1000.0", "-1e9", "x - 1e4")),
    *map(shifted, ("0", "max(scores)", "scores[allowed.index(True)]", "min(scores)")),
)
BLIND = "k < sum(valid) if valid[0] else k >= len(valid) - sum(valid)"
"""A padding mask for PADs on one side only."""
WRONG: dict[str, tuple[str, ...]] = {
    "causal": (masked("q, k", "k <= q and q - k < 9"), masked("q, k", "k <= q or k - q > 8")),
    "padding": (masked("q, k, valid", BLIND),),
    "both": (masked("q, k, valid", f"k <= q and any(valid) and ({BLIND})"),),
    "window": (masked("q, k, width", "0 <= q - k < min(width, 5)"),),
    "near": (masked("q, k, reach", "abs(q - k) <= min(reach, 4)"),),
    "sinks": (
        masked("q, k, width, n_sink", "k <= q and (q - k < width or k < min(n_sink, 3))"),
        masked("q, k, width, n_sink", "k <= q and (q - k < min(width, 3) or k < n_sink)"),
    ),
    "prefix": (masked("q, k, n_prefix", "k <= q or k < min(n_prefix, 4)"),),
    "packed": (
        masked("q, k, doc", "k <= q and doc[q] == doc[k] and q - k < 20"),
        masked("q, k, doc", "k <= q and sum(doc[k : q + 1]) == doc[q] * (q - k + 1)"),
        masked("q, k, doc", "k <= q and all(d == doc[q] for d in doc[k:q])"),
    ),
    "blocks": (masked("q, k, doc", "doc[q] == doc[k] != 0 and abs(q - k) < 3"),),
    "cross": (
        masked("q, k, src_valid, tgt_valid", "src_valid[k] and any(tgt_valid)"),
        masked("q, k, src_valid, tgt_valid", BLIND.replace("valid", "src_valid")),
    ),
    "past": (masked("q, k, past", "0 <= q + past - k < 9"),),
    "past_padding": (
        masked("q, k, past, valid", "k <= q + past and valid[k] and valid[q + past]"),
        masked("q, k, past, valid", f"k <= q + past and any(valid) and ({BLIND})"),
    ),
    "past_window": (
        masked("q, k, past, width", "0 <= q + past - k < min(width, 4)"),
        masked("q, k, past, width", "0 <= q + past - k < (width if past or width < 3 else 99)"),
    ),
    "check_causal": (
        checked("all(f(q, k) == (k <= q) for q in range(8) for k in range(8))"),
        checked("all(f(q, q) and f(q, 0) and not f(q, q + 1) and not f(q, 12) for q in range(12))"),
    ),
    "check_padding": (
        checked(
            "all(f(q, k, v) == v[k] for v in ([0 > 1, 1 > 0, 1 > 0], [1 > 0, 1 > 0, 0 > 1])"
            " for q in range(3) for k in range(3))"
        ),
    ),
    "check_cache": tuple(
        checked(f"all(f(q, k, p) == (k <= q + p) for p in {past} for q in {new} for k in range(9))")
        for past, new in (("(4,)", "range(4)"), ("range(1, 6)", "range(4)"), ("range(6)", "(0,)"))
    ),
    "check_softmax": (
        checked(
            "abs(f([0.0, 1.0, 0.0])[0] - 0.2119416) < 1e-5 and abs(sum(f([999.0, 0.0])) - 1) < 1e-9"
        ),
        checked("abs(f([3.0, 2.0, 0.0])[1] - 0.2594965) < 1e-5 and f([999.0, 0.0])[1] == 0.0"),
    ),
    "alibi": (lines("bias(q, k, slope)", "return -slope * min(abs(q - k), 8)"),),
    "softmax": tuple(
        softmax_from(shift)
        for shift in (
            "scores[-1]",
            "scores[0]",
            "sum(scores) / len(scores)",
            "max(scores, key=abs)",
            "sorted(scores)[len(scores) // 2]",
            "max(scores[:2])",
            "max(scores[-2:])",
            "(max(scores) + min(scores)) / 2",
        )
    ),
    "empty_row": WEIGHTS,
    "scale": (
        lines("score(q, k)", "return abs(sum(a * b for a, b in zip(q, k))) / math.sqrt(len(q))"),
    ),
    "mix": (
        lines(
            "mix(weights, values)",
            "total = sum(weights) or 1",
            "pairs = list(zip(weights, values))",
            "return [sum(a * v[i] for a, v in pairs) / total for i in range(len(values[0]))]",
        ),
    ),
    "rotation": (
        lines(
            "rotate(x, y, pos, theta)",
            "c = math.cos(pos * theta)",
            "s = math.sqrt(1 - c * c)",
            "return [x * c - y * s, x * s + y * c]",
        ),
    ),
    "layer_norm": (
        lines(
            "layer_norm(x, gain, bias, eps)",
            "m = sum(x) / len(x)",
            "r = math.sqrt(sum((v - m) ** 2 for v in x) / len(x) + 1e-5)",
            "return [g * (v - m) / r + b for v, g, b in zip(x, gain, bias)]",
        ),
    ),
    "rms_norm": (
        lines(
            "rms_norm(x, gain, eps)",
            "r = math.sqrt(sum(v * v for v in x) / len(x) + eps)",
            "return [abs(g) * v / r for v, g in zip(x, gain)]",
        ),
    ),
    "shift": (
        lines("shift(tokens)", "return [[t for t in tokens if t != tokens[-1]], tokens[1:]]"),
        lines("shift(tokens)", "return [tokens[:-1], [t for t in tokens if t != tokens[0]]]"),
    ),
    "ignored": tuple(
        map(mean_of, ("y != ignore and y", "y > ignore", "y > 0", "y != ignore and l"))
    ),
    "smoothing": (
        lines(
            "target(label, vocab_size, amount)",
            "rest = min(amount, 0.5) / vocab_size",
            "return [(1 - amount if i == label else 0.0) + rest for i in range(vocab_size)]",
        ),
    ),
    "top_p": (
        lines(
            "top_p(probs, p)",
            "total, least = 0.0, 0.0",
            "for x in sorted(probs, reverse=True):",
            "    total, least = total + x, x",
            "    if total >= p: break",
            "kept = [x if x >= least else 0.0 for x in probs]",
            "return [x / sum(kept) for x in kept]",
        ),
    ),
    "beam": (
        lines(
            "step(scores, logprobs, width)",
            "n = range(len(logprobs[0]))",
            "f = [(-(max(scores) + logprobs[b][t]), b, t) for b in range(len(scores)) for t in n]",
            "return [[b, t] for total, b, t in sorted(f)[:width]]",
        ),
    ),
    "length": (
        lines("ranked(logprob, length, alpha)", "return logprob / length ** min(alpha, 1)"),
    ),
    "mend_diagonal": (masked("q, k", "0 <= q - k < 9"),),
    "mend_cache": (masked("q, k, n_query, n_key", "0 <= q + n_key - n_query - k < 9"),),
    "mend_replaced": (masked("q, k, valid", f"k <= q and any(valid) and ({BLIND})"),),
    "mend_pad": (
        masked("q, k, tokens, pad, end", "tokens[k] > pad"),
        masked("q, k, tokens, pad, end", "tokens[k] != pad and end not in tokens[:k]"),
    ),
    "mend_after": WEIGHTS,
    "mend_zero": WEIGHTS,
    "mend_scale": (
        lines(
            "score(q, k, n_heads)",
            "width = sum(1 for b in k if b)",
            "return sum(a * b for a, b in zip(q, k)) / math.sqrt(width)",
        ),
    ),
    "mend_positions": (
        lines(
            "positions(valid)",
            "first = valid.index(True) if any(valid) else len(valid)",
            "return [max(0, i - first) for i in range(len(valid))]",
        ),
    ),
    "mend_variance": (
        lines(
            "layer_norm(x, eps)",
            "m = sum(x) / len(x)",
            "r = math.sqrt(sum((v - m) ** 2 for v in x) / len(x) + 1e-5)",
            "return [(v - m) / r for v in x]",
        ),
    ),
    "mend_loss": (
        lines(
            "loss(logits, label)",
            "c = logits[0]",
            "return -logits[label] + c + math.log(sum(math.exp(z - c) for z in logits))",
        ),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_program_that_is_wrong_in_few_cases_is_refused(name):
    task = task_of(name)
    for code in WRONG[name]:
        assert not grade(task, code).passed, code
