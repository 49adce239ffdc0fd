"""Tests of masks: replace these models with yours, and run `pytest examples/test_masks.py`."""

import pytest
import torch
from torch import nn

from explorer.testing import assert_masks

PAD = 0
TEXT, SOURCE = [3, 7, 5, 9, 4], [6, 2, 8, 5, 7, 3]


def later(ids):
    """Bool [pos, pos]: for torch, True = blocked."""
    return torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)


class GPT(nn.Module):
    def __init__(self, vocab=20, d_model=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, d_model)
        layer = nn.TransformerEncoderLayer(d_model, 2, 32, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(d_model, vocab)

    def forward(self, ids):
        x = self.blocks(self.embed(ids), mask=later(ids), src_key_padding_mask=ids == PAD)
        return self.out(x)


class Translator(nn.Module):
    def __init__(self, vocab=20, d_model=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, d_model)
        self.inner = nn.Transformer(d_model, 2, 2, 2, 32, batch_first=True)
        self.out = nn.Linear(d_model, vocab)

    def forward(self, src, tgt):
        pads = {"src_key_padding_mask": src == PAD, "memory_key_padding_mask": src == PAD}
        pads["tgt_key_padding_mask"] = tgt == PAD
        x = self.inner(self.embed(src), self.embed(tgt), tgt_mask=later(tgt), **pads)
        return self.out(x)


def test_gpt():
    assert_masks(GPT().eval(), TEXT)


def test_encoder_decoder():
    assert_masks(Translator().eval(), SOURCE, TEXT)


def test_hugging_face():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=20, n_positions=32, n_embd=16, n_layer=2, n_head=2)
    model = transformers.GPT2LMHeadModel(config).eval()

    def forward(ids):  # `model(ids)` alone would read the padding
        mask = (ids != PAD).long()
        places = (mask.cumsum(1) - 1).clamp(min=0)
        return model(input_ids=ids, attention_mask=mask, position_ids=places)

    assert_masks(forward, TEXT)


def test_compiled():
    assert_masks(torch.compile(GPT().eval(), backend="aot_eager"), TEXT)
