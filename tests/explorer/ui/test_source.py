"""The very lines: what is shown of a function, what it calls, and which version of it ran."""

import functools
import inspect

import pytest
import torch

from explorer.analysis.blocks.activations import curves
from explorer.ui.code.source import SourceCode, lines_of
from models.attention import Attention, attend
from models.blocks import Block
from models.config import ModelConfig
from models.decoding import _steps
from models.fast import attend as fast_attend, lay_out_for_decoding, speed_up
from models.positions import frequencies
from models.strategies import Beam, Greedy
from models.transformer import EncoderDecoder, Model, build_model

CONFIG = ModelConfig(
    vocab_size=11, d_model=8, n_layers=1, n_encoder_layers=1, n_heads=2, d_ff=12, norm="rmsnorm"
)


@pytest.fixture
def model() -> Model:
    return build_model(CONFIG).eval()


def named(lines: tuple[SourceCode, ...]) -> list[str]:
    return [each.name for each in lines]


def test_a_function_is_shown_as_it_stands_in_its_file() -> None:
    (shown,) = lines_of([attend])
    assert shown.text in inspect.getsource(inspect.getmodule(inspect.unwrap(attend)))
    assert (shown.name, shown.module) == ("attend", "models.attention")
    assert shown.doc.startswith("Mix the values")
    assert named(shown.calls)[:3] == ["share_heads", "capped", "require_mask"]


def test_a_module_of_a_model_stands_for_its_forward_and_calls_what_it_holds(model: Model) -> None:
    assert isinstance(model, EncoderDecoder)
    block = model.decoder.blocks[0]
    (shown,) = lines_of([block])
    assert shown.name == "Block.forward"
    called = named(shown.calls)
    for name in ("Attention.forward", "RMSNorm.forward", "FeedForward.forward", "Block.residual"):
        assert name in called
    assert "LayerNorm.forward" not in called
    assert called.index("Attention.forward") < called.index("FeedForward.forward")


def test_no_line_that_only_makes_a_model_faster_is_shown(model: Model) -> None:
    assert isinstance(model, EncoderDecoder)
    plain = lines_of([model.decoder.blocks[0], model.decoder.blocks[0].attn])
    lay_out_for_decoding(model)
    fast = lines_of([model.decoder.blocks[0], model.decoder.blocks[0].attn])
    for one, other in zip(plain, fast, strict=True):
        assert (one.name, one.text) == (other.name, other.text)
        assert named(one.calls) == named(other.calls)
        assert not [each for each in other.calls if each.module.startswith("models.fast")]


def test_what_is_listed_itself_is_not_listed_again(model: Model) -> None:
    assert isinstance(model, EncoderDecoder)
    block = model.encoder.blocks[0]
    shown = lines_of([block, block.attn, block.residual])
    assert named(shown) == ["Block.forward", "Attention.forward", "Block.residual"]
    assert not {"Attention.forward", "Block.residual"} & set(named(shown[0].calls))
    assert "Attention._split" in named(shown[1].calls)


def test_a_table_that_is_read_is_shown_from_wherever_it_was_imported() -> None:
    """GELU stands in a table of models/feedforward.py, which the analysis imports."""
    (shown,) = lines_of([curves])
    table = next(each for each in shown.calls if each.name == "ACTIVATIONS")
    assert table.module == "models.feedforward"
    assert table.text.startswith("ACTIVATIONS: dict")
    assert '"gelu"' in table.text


def test_the_plain_lines_are_shown_where_the_faster_ones_ran(model: Model) -> None:
    speed_up(model)
    attention = model.get_submodule("decoder.blocks.0.attn")
    sublayer, operator = lines_of([attention, attend])
    assert sublayer.text.startswith("def forward(")
    assert "_joined" not in sublayer.text
    assert (sublayer.name, sublayer.faster) == ("Attention.forward", "")  # it hands on to the plain
    project = next(each for each in sublayer.calls if each.name == "Attention.project")
    assert project.faster == "FastAttention.project"
    assert "_joined" not in project.text
    assert (operator.name, operator.faster) == ("attend", "attend")
    assert operator.module == "models.attention"
    assert operator.ran == (inspect.unwrap(fast_attend).__code__,)
    (positions,) = lines_of([model.get_submodule("decoder.positions")])
    assert (positions.name, positions.faster) == ("Sinusoidal", "FastSinusoidal")
    assert "self._table" not in positions.text


def test_a_plain_model_ran_the_lines_that_are_shown() -> None:
    sublayer, operator = lines_of([Attention(CONFIG), attend])
    assert (sublayer.faster, operator.faster) == ("", "")
    assert operator.ran == (inspect.unwrap(attend).__code__,)


def test_a_parameter_stands_for_the_known_instance_of_its_type() -> None:
    (loop,) = lines_of([_steps], known=[Beam()])
    assert {"Beam.choose", "Beam.score", "Beam.room"} <= set(named(loop.calls))


def test_an_instance_given_is_known_to_the_others() -> None:
    loop, strategy = lines_of([_steps, Greedy()])
    assert strategy.name == "Greedy"
    assert "class Greedy(Strategy)" in strategy.text
    assert "Strategy.choose" in named(loop.calls)  # inherited; `probs` is in the class itself
    assert "Greedy.probs" not in named(loop.calls)
    assert not any(name.startswith("Beam") for name in named(loop.calls))


def test_what_is_wrapped_around_a_function_is_left_out() -> None:
    assert named(lines_of([functools.partial(attend, dropout=0.1)])) == ["attend"]
    assert named(lines_of([functools.cache(frequencies)])) == ["frequencies"]
    assert named(lines_of([Block])) == ["Block"]


def test_code_of_others_is_refused() -> None:
    with pytest.raises(TypeError, match="is not a function, class or module of models or explorer"):
        lines_of([torch.softmax])
