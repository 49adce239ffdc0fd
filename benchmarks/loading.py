"""Opening the default model, compared with loading a torch module of the same shape."""

import tempfile
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import nn

from benchmarks.timing import medians, rows
from explorer.library import CHECKPOINTS
from models import load_checkpoint


class Plain(nn.Module):
    """The same sizes around `nn.Transformer`: one embedding, no vocabulary, no checks."""

    def __init__(self, vocab_size: int, d_model: int, n_heads: int, n_layers: int, d_ff: int):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, d_model)
        self.transformer = nn.Transformer(
            d_model, n_heads, n_layers, n_layers, d_ff, batch_first=True
        )


def run() -> list[str]:
    """Median seconds of both, with weights stored as float16 and converted to float32."""
    config = load_checkpoint(CHECKPOINTS / "en-zh").config
    shape = (config.vocab_size, config.d_model, config.n_heads, config.n_layers, config.d_ff)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plain.safetensors"
        save_file({k: v.half().contiguous() for k, v in Plain(*shape).state_dict().items()}, path)

        def plain() -> nn.Module:
            model = Plain(*shape)
            model.load_state_dict({k: v.float() for k, v in load_file(path).items()})
            return model.eval()

        times = medians(
            {
                "torch.nn.Transformer, load_state_dict from safetensors": plain,
                "Headlight, load_checkpoint with vocabulary and checks": lambda: load_checkpoint(
                    CHECKPOINTS / "en-zh"
                ),
            }
        )
    return rows(times, "torch.nn.Transformer, load_state_dict from safetensors")
