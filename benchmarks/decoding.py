"""Decoding 64 tokens, greedy, 3 + 3 layers, d_model 256, 8 heads: Headlight and torch.nn.

The alternative is what torch offers: `nn.Transformer` of the same shape in a loop that reads the
whole prefix at every step (it has no cache, and its layers return no attention weights).
"""

import torch
from torch import nn

from benchmarks.timing import medians, rows
from models.config import ModelConfig
from models.decoding import Beam, Greedy, Strategy, decode
from models.hooks import Record, visiting
from models.transformer import build_model

N_SRC, N_NEW = 16, 64


def run() -> list[str]:
    """Lines of milliseconds, and ratios to torch's loop."""
    torch.manual_seed(0)
    config = ModelConfig(vocab_size=8000, n_ctx=128)
    model = build_model(config).eval()
    src = torch.randint(4, config.vocab_size, (1, N_SRC))
    theirs = nn.Transformer(
        config.d_model, config.n_heads, 3, 3, config.d_ff, dropout=0.0, batch_first=True
    ).eval()
    embed = nn.Embedding(config.vocab_size, config.d_model)

    def ours(strategy: Strategy, cached: bool, captured: bool) -> None:
        # A model with random weights hardly ever ends a sentence; the limit ends it.
        steps = decode(model, src, strategy, N_NEW, use_cache=cached)
        for _ in range(N_NEW):
            record = Record(lambda name: captured and name.endswith("pattern"))
            with visiting(record):
                if next(steps, None) is None:
                    break

    @torch.inference_mode()
    def loop() -> None:
        memory = theirs.encoder(embed(src))
        tgt = torch.tensor([[config.bos_id]])
        for _ in range(N_NEW):
            causal = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1])
            out = theirs.decoder(embed(tgt), memory, tgt_mask=causal, tgt_is_causal=True)
            logits = out[:, -1] @ embed.weight.T
            tgt = torch.cat((tgt, logits.argmax(-1, keepdim=True)), dim=1)

    torch_loop = "torch nn.Transformer in a loop, no weights"
    times = medians(
        {
            torch_loop: loop,
            "Headlight, no cache": lambda: ours(Greedy(), False, False),
            "Headlight, cache": lambda: ours(Greedy(), True, False),
            "Headlight, cache, every pattern captured": lambda: ours(Greedy(), True, True),
            "Headlight, beam 4, cache, every pattern captured": lambda: ours(
                Beam(width=4), True, True
            ),
        },
        runs=5,
    )
    return rows(times, torch_loop)
