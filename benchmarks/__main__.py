"""Run every benchmark, on one torch thread as the app does. Quote ratios: machines differ."""

import torch

from benchmarks import (
    attribution,
    decoding,
    first_picture,
    interaction,
    loading,
    looking,
    on_screen,
    packed,
    training,
)


def main() -> None:
    torch.set_num_threads(1)
    pages = (first_picture, interaction, on_screen)
    for benchmark in (loading, packed, looking, attribution, decoding, training, *pages):
        assert benchmark.__doc__ is not None
        print(f"\n## {benchmark.__doc__.splitlines()[0]}")
        for row in benchmark.run():
            print(row, flush=True)


if __name__ == "__main__":
    main()
