"""The Code panel: whose source it shows, and that everything exhibits name has one."""

import ast
import functools
import importlib
import inspect
from collections.abc import Iterator
from contextlib import suppress
from pkgutil import walk_packages
from types import FunctionType, ModuleType

import pytest
import torch

from explorer import exhibits
from explorer.ui.code import source_of
from models.attention import attend
from models.config import ModelConfig
from models.fast import speed_up
from models.positions import frequencies
from models.strategies import Greedy
from models.transformer import build_model

OURS = ("models.", "explorer.")
CONFIG = ModelConfig(
    vocab_size=11, d_model=8, n_layers=1, n_encoder_layers=1, n_heads=2, d_ff=12, norm="rmsnorm"
)


def test_a_function_is_shown_as_it_stands_and_a_module_by_its_forward():
    shown = source_of(attend)
    assert (shown.name, shown.file) == ("attend", "models/attention.py")
    lines = inspect.getsource(inspect.getmodule(inspect.unwrap(attend))).splitlines()
    text = shown.text.splitlines()
    assert lines[shown.line - 1 : shown.line - 1 + len(text)] == text
    assert source_of(functools.partial(attend, dropout=0.1)).name == "attend"
    assert source_of(functools.cache(frequencies)).name == "frequencies"
    for thing in (torch.softmax, torch.nn.Linear(2, 2)):
        with pytest.raises(TypeError, match="of models or explorer"):
            source_of(thing)
    model = build_model(CONFIG).eval()
    assert source_of(model.get_submodule("decoder.blocks.0")).name == "Block.forward"
    assert source_of(model.get_submodule("decoder.positions")).name == "Sinusoidal"
    assert source_of(model.read).name == "Model.read"
    assert source_of(Greedy()).text.startswith(("@dataclass", "class Greedy"))
    attention = source_of(model.get_submodule("decoder.blocks.0.attn"))
    speed_up(model)
    assert source_of(model.get_submodule("decoder.blocks.0.attn")) == attention
    assert source_of(model.get_submodule("decoder.positions")).name == "Sinusoidal"
    project = model.get_submodule("decoder.blocks.0.attn").project
    assert source_of(project).name == "Attention.project"


def named_in(module: ModuleType) -> Iterator[object]:
    """What the `Code` blocks of a module name, themselves or in its function `_code`, and is known
    without a view."""
    tree = ast.parse(inspect.getsource(module))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "b.Code":
            shown: ast.AST = call.args[0]
            if isinstance(shown, ast.Call):
                shown = functions[ast.unparse(shown.func)]
            for node in ast.walk(shown):
                if isinstance(node, ast.Name | ast.Attribute):
                    with suppress(NameError, AttributeError):  # an object of the view
                        yield eval(ast.unparse(node), dict(vars(module)))


def test_everything_that_exhibits_name_has_its_source_and_a_docstring():
    names = [found.name for found in walk_packages(exhibits.__path__, f"{exhibits.__name__}.")]
    checked = 0
    for module in map(importlib.import_module, names):
        for thing in named_in(module):
            if isinstance(thing, FunctionType | type) and thing.__module__.startswith(OURS):
                source = source_of(thing)
                private = source.name.startswith("_")
                assert private or inspect.getdoc(inspect.unwrap(thing)), source
                checked += 1
    assert checked > 80
