"""Three leak tests, for every attention path, family, norm placement and kind of positions.

Edit a future token: nothing before it changes. Add padding, left or right: nothing changes at the
real tokens. Run a prefix: it gives what the full pass gave there. A mask that is wrong in any of
the usual ways (inverted, off by one, dropped, put on another axis) fails at least one of them.
"""

from contextlib import nullcontext
from functools import cache, partial

import pytest
import torch
from close import assert_close
from families import WRITERS
from hypothesis import given, strategies as st

from models.config import ModelConfig
from models.fast import speed_up
from models.feedforward import FEEDFORWARDS
from models.hooks import Record, visiting
from models.norms import NORMS
from models.positions import POSITIONS
from models.rows import Rows
from models.transformer import build_model

B, T, S, V = 3, 5, 7, 23
PAD = 0
PLACEMENTS = ("post", "pre", "sublayer")
ATOL = 1e-10


def looking(path):
    """Somebody looks at every site, or nobody at any."""
    return visiting(Record(lambda name: "pattern" in name)) if path == "explicit" else nullcontext()


def taking(path, model):
    """The plain model, or the fast one, which takes the fused kernel where nobody looks."""
    if path == "fused":
        speed_up(model)
    return model


@pytest.fixture(params=["explicit", "fused"])
def path(request):
    return request.param


@pytest.fixture(params=WRITERS)
def family(request):
    return request.param


@pytest.fixture(params=POSITIONS)
def positions(request):
    return request.param


@cache
def made(tiny_model, path, **changes):
    return taking(path, tiny_model(**changes, n_kv_heads=2))


@pytest.fixture(params=PLACEMENTS)
def model(request, family, positions, path, tiny_model):
    return made(tiny_model, path, family=family, norm_placement=request.param, positions=positions)


close = partial(assert_close, atol=ATOL)


def changed(a, b):
    """Bool [batch, pos]: where the logits differ."""
    return ~torch.isclose(a, b, atol=ATOL, rtol=0).all(-1)


def test_an_edited_or_missing_future_token_changes_nothing_before_it(
    model, path, run_model, random_tokens
):
    src, tgt = random_tokens(T + 1, S), random_tokens(T + 1, T)
    edited = tgt.clone()
    rows = torch.arange(T)  # sentence i gets another token at i; the last sentence is left alone
    edited[rows, rows] = (edited[rows, rows] - 4 + 1) % (V - 4) + 4
    with looking(path):
        whole = run_model(model, src, tgt)
        where = changed(whole, run_model(model, src, edited))
        for length in range(1, T):
            close(run_model(model, src, tgt[:, :length]), whole[:, :length])
    expected = torch.ones(T + 1, T).triu().bool()  # the token itself and what follows it
    assert torch.equal(where, expected)


def padded(rows, n, left):
    """Rows of different lengths in n columns, `left` of them padding before every row."""
    tokens = torch.full((len(rows), n), PAD)
    for row, ids in zip(tokens, rows, strict=True):
        row[left : left + len(ids)] = ids
    return tokens, tokens != PAD


def test_a_row_is_read_alone_as_in_a_padded_batch(model, path, run_model, random_tokens):
    """With padding on both sides, of random content."""
    srcs = [random_tokens(1, n)[0] for n in (7, 4, 1)]
    tgts = [random_tokens(1, n)[0] for n in (5, 2, 3)]
    (src, src_valid), (tgt, tgt_valid) = padded(srcs, 11, 3), padded(tgts, 8, 2)
    with looking(path):
        both = run_model(model, src, tgt, src_valid=src_valid, tgt_valid=tgt_valid)
        other = src.masked_fill(~src_valid, 9), tgt.masked_fill(~tgt_valid, 9)
        refilled = run_model(model, *other, src_valid=src_valid, tgt_valid=tgt_valid)
        close(refilled[tgt_valid], both[tgt_valid])
        assert both.isfinite().all()
        for row, (src_ids, tgt_ids) in enumerate(zip(srcs, tgts, strict=True)):
            alone = run_model(model, src_ids[None], tgt_ids[None])[0]
            close(both[row][tgt_valid[row]], alone)


def test_order_matters_unless_nothing_tells_it(positions, tiny_model, random_tokens):
    """Memory of a shuffled source is the shuffled memory only for a model without positions."""
    model = tiny_model(positions=positions)
    src = random_tokens(B, S)
    order = torch.tensor([4, 0, 6, 2, 5, 1, 3])
    shuffled, memory = (model.memory_of(Rows(src, src=each)) for each in (src[:, order], src))
    memory = memory[:, order]
    if positions == "none":
        close(shuffled, memory)
    else:
        assert (shuffled - memory).abs().max() > 1e-2


@pytest.mark.parametrize("path", ["explicit", "fused"])
@pytest.mark.parametrize("family", WRITERS)
def test_an_empty_sentence_in_a_batch_is_finite(family, path, tiny_model, run_model, random_tokens):
    model = taking(path, tiny_model(family=family).train())
    src, tgt = random_tokens(B, S), random_tokens(B, T)
    src_valid, tgt_valid = torch.ones(B, S) == 1, torch.ones(B, T) == 1
    src_valid[1], tgt_valid[2] = False, False
    with looking(path):
        logits = run_model(model, src, tgt, src_valid=src_valid, tgt_valid=tgt_valid)
        logits[tgt_valid].pow(2).sum().backward()
    assert logits.isfinite().all()
    for name, parameter in model.named_parameters():
        assert parameter.grad.isfinite().all(), name


configs = st.builds(
    dict,
    family=st.sampled_from(sorted(WRITERS)),
    norm=st.sampled_from(sorted(NORMS)),
    norm_placement=st.sampled_from(PLACEMENTS),
    positions=st.sampled_from(sorted(POSITIONS)),
    ffn=st.sampled_from(sorted(FEEDFORWARDS)),
    heads=st.sampled_from([(1, 1), (2, 1), (4, 2), (6, 3), (6, None)]),
    d_head=st.sampled_from([2, 4, 6]),
    n_layers=st.integers(1, 3),
    n_encoder_layers=st.one_of(st.none(), st.integers(1, 2)),
    bias=st.booleans(),
    final_norm=st.booleans(),
    tie_embeddings=st.booleans(),
    scale_embeddings=st.booleans(),
)


@given(choice=configs, data=st.data())
def test_any_config_builds_runs_and_keeps_the_rules(choice, data, scatter, run_model):
    n_heads, n_kv_heads = choice.pop("heads")
    d_head = choice.pop("d_head")
    config = ModelConfig(
        vocab_size=V,
        d_model=n_heads * d_head,
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        d_ff=11,
        n_ctx=16,
        dropout=0.0,
        **choice,
    )
    assert ModelConfig.from_json(config.to_json()) == config
    torch.manual_seed(0)
    model = scatter(build_model(config)).double().eval()

    n_src, n_tgt = data.draw(st.integers(2, 8)), data.draw(st.integers(2, 9))
    src_length, tgt_length = data.draw(st.integers(1, n_src)), data.draw(st.integers(1, n_tgt))
    at = data.draw(st.integers(0, n_tgt - 1))
    src, tgt = torch.randint(4, V, (2, n_src)), torch.randint(4, V, (2, n_tgt))
    src_valid, tgt_valid = torch.ones(2, n_src) == 1, torch.ones(2, n_tgt) == 1
    src_valid[0, src_length:], tgt_valid[0, tgt_length:] = False, False

    record = Record(lambda name: name.endswith(("hook_pattern", "hook_mask")))
    with visiting(record), torch.no_grad():
        logits = run_model(model, src, tgt, src_valid=src_valid, tgt_valid=tgt_valid)
    assert logits.shape == (2, n_tgt, V)
    assert logits.isfinite().all()

    # The rules of the pattern, with the mask worked out here and not by the model.
    for site in model.attention_sites():
        keys = src_valid if site.key_stream == "src" else tgt_valid
        n_query = n_src if site.query_stream == "src" else n_tgt
        allowed = keys[:, None, None, :].expand(2, n_heads, n_query, keys.shape[1])
        if site.kind == "self" and site.query_stream == "tgt":
            allowed = allowed & torch.ones(n_query, n_query).tril().bool()
        pattern = record.activations[site.hook("pattern")]
        assert torch.equal(record.activations[site.hook("mask")], allowed)
        assert (pattern[~allowed] == 0).all()
        close(pattern.sum(-1), allowed.any(-1).double())

    # Causality, and that looking changes nothing: this pass takes the fused path.
    edited = tgt.clone()
    edited[:, at] = (edited[:, at] - 4 + 1) % (V - 4) + 4
    speed_up(model)
    with torch.no_grad():
        after = run_model(model, src, edited, src_valid=src_valid, tgt_valid=tgt_valid)
    close(after[:, :at], logits[:, :at])
    # The second sentence has no padding. (Of two features LayerNorm leaves two signs, which two
    # tokens may share.)
    assert changed(after, logits)[1, at] or config.d_model == 2
