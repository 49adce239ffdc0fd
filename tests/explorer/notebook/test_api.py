"""The public names: few, described, loaded only when used; docs/api says what they say."""

import subprocess
import sys
from pathlib import Path

import pytest

import explorer as hl
from explorer.notebook import api

ROOT = Path(__file__).parents[3]


def test_the_pages_are_made_from_the_docstrings() -> None:
    for path, written in api.pages().items():
        assert (ROOT / path).read_text("utf-8") == written, "run python -m explorer.notebook.api"
    assert {name for _, names in api.PAGES.values() for name in names} == set(hl.__all__)


def test_there_are_twenty_names_at_most_and_all_are_described() -> None:
    assert len(hl.__all__) <= 20
    for name in hl.__all__:
        assert getattr(hl, name).__doc__, name
        assert name in dir(hl)


def test_importing_the_package_loads_nothing() -> None:
    code = "import sys, explorer; assert not {'torch', 'numpy', 'streamlit'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_pictures_need_no_streamlit_and_only_a_table_pandas() -> None:
    code = (
        "import sys, numpy as np, explorer as hl\n"
        "shown = hl.show(np.eye(3))\n"
        "shown.html(), shown.svg(), shown.numpy()\n"
        "assert not {'streamlit', 'pandas', 'plotly'} & set(sys.modules)\n"
        "shown.dataframe()\n"
        "assert 'pandas' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = hl.nothing
