"""Matrices packed by oneDNN compared with plain ones (torch's BLAS), and code that uses them.

`python -m benchmarks.packed` prints milliseconds of products of many rows, the growth of a process
over texts of 200 lengths, and the time of "Which heads matter" for one sentence.
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.resident import resident
from benchmarks.timing import medians, rows
from explorer.analysis.heads.ablation import ablate
from explorer.library import CHECKPOINTS, open_model
from explorer.runs.trace import trace
from models.fast.maps import Packed, many_are_sooner_packed, product, read_packed

SHAPES = ((256, 256), (256, 512), (256, 768), (256, 1024), (1024, 256), (256, 8000))
"""[in, out] of the matrices of en-zh."""
LENGTHS = range(9, 209)
TEXT = "The quick brown fox jumps over the lazy dog."


def run() -> Iterator[str]:
    """Lines of milliseconds and megabytes, one thread."""
    yield f"many rows are read packed here: {many_are_sooner_packed()}"
    for n_rows in (12, 96, 512):
        x, weight = torch.randn(n_rows, 256), torch.randn(1024, 256)
        packed = _packed(weight)
        plain = f"{n_rows} x 256 x 1,024, plain"
        sides: dict[str, Callable[[], object]] = {
            plain: partial(nn.functional.linear, x, weight),
            f"{n_rows} x 256 x 1,024, packed": partial(read_packed, x, packed, None),
        }
        with torch.inference_mode():
            times = medians(sides, runs=50)
        yield from rows(times, plain)
    for name, multiply in (("in few sizes", read_packed), ("as they come", product)):
        yield f"texts of {len(LENGTHS)} lengths, rows {name}: {_grown(multiply):.0f} MB more"
    loaded = open_model(CHECKPOINTS / "en-zh")
    traced = trace(loaded, TEXT)
    off = "every head of en-zh switched off"
    yield from rows(medians({off: lambda: ablate(loaded, traced)}, runs=25), off)


def _packed(weight: Tensor) -> Packed:
    packed = Packed.of(weight)
    assert packed is not None, "this torch multiplies nothing packed"
    return packed


@torch.inference_mode()
def _grown(multiply: Callable[[Tensor, Packed, None], Tensor]) -> float:
    """The growth of the process in MB."""
    matrices = [_packed(torch.randn(out, into)) for into, out in SHAPES]
    before = resident()
    for length in LENGTHS:
        for (into, _), packed in zip(SHAPES, matrices, strict=True):
            multiply(torch.randn(length, into), packed, None)
    return resident() - before


if __name__ == "__main__":
    torch.set_num_threads(1)
    for line in run():
        print(line, flush=True)
