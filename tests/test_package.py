"""The wheel: what is inside, and that it works from any directory without the checkout."""

import io
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from browser.app import free_port, messages, serving
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from websockets.sync.client import connect

import explorer.__main__
import models.__main__
from explorer import cli
from explorer.figures.theme import DARK, LIGHT

ROOT = Path(__file__).parents[1]
HEADLIGHT = "import sys; from explorer.cli import main; sys.exit(main())"  # as pip's script does
METADATA = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built as `pip install .` builds it, but from what is installed here."""
    out = tmp_path_factory.mktemp("wheel")
    offline = ["--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", *offline, "-w", str(out), str(ROOT)],
        check=True,
    )
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """A folder that holds the unpacked wheel and nothing else, as site-packages would."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def environment(installed, tmp_path) -> dict[str, str]:
    """An environment in which the unpacked wheel is all that Python finds of this project."""
    home = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STREAMLIT")}
    return kept | home | {"PYTHONPATH": str(installed)}


def test_the_wheel_holds_all_that_is_not_python_and_no_test(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    listed = subprocess.run(
        ["git", "ls-files", "-z", "app.py", ".streamlit", "assets", "explorer", "models"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if listed.returncode:  # a folder without its history
        pytest.skip("needs git to know which files belong to the project")
    tracked = [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
    packages = ("explorer/", "models/")
    expected = {name if name.startswith(packages) else f"models/_home/{name}" for name in tracked}
    assert expected - names == set()
    assert not [
        name
        for name in names
        if re.search(r"(^|/)(tests?/|test_|conftest)", name) or not name.startswith(packages)
    ]
    endings = {name.rpartition(".")[2] for name in names}
    assert endings >= {"css", "js", "json", "md", "py", "safetensors", "svg", "toml"}


def test_from_elsewhere_the_commands_work(environment, installed, tmp_path):
    program = """
import models.training.home
from explorer.cli import main
print(main(["translate", "I love you."]))
print(main(["certify", "--model", "copy", "--text", "b a", "--lang", "zh"]))
print(main(["info", "--model", "copy"]))
print(main(["train", "--recipe", "copy", "--out", "run"]))
print(models.training.home.__file__)
"""
    done = subprocess.run(  # one process, since most of its time goes into importing torch
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    translated, certified, described, file = re.split("^0$", done.stdout, flags=re.MULTILINE)
    assert "no recipe 'copy'" in done.stderr
    assert "whose folder recipes/ is not installed" in done.stderr
    assert translated == "我爱你。\n"
    assert "copy" in certified
    assert "cross_attn" in described
    assert file.split() == ["2", str(installed / "models" / "training" / "home.py")]


@pytest.fixture
def app(environment, tmp_path) -> Iterator[str]:
    """`headlight app` in a folder whose own settings of Streamlit must not win; host and port."""
    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit" / "config.toml").write_text(
        '[browser]\ngatherUsageStats = true\n[theme.light]\nprimaryColor = "#ff0000"\n'
    )
    port = free_port()
    options = ["--port", str(port), "--server.address", "127.0.0.1", "--server.headless", "true"]
    command = ["-c", HEADLIGHT, "app", *options]
    with serving(command, port, cwd=tmp_path, env=environment):
        yield f"127.0.0.1:{port}"


def test_from_elsewhere_the_app_has_its_theme_and_no_telemetry(app, installed):
    """It tells a browser before its script has run."""
    with connect(f"ws://{app}/_stcore/stream", subprotocols=["streamlit"]) as client:
        session = next(
            each for each in messages(client) if each.HasField("new_session")
        ).new_session
    assert Path(session.main_script_path) == installed / "models" / "_home" / "app.py"
    assert not session.config.gather_usage_stats
    assert "Noto Sans SC" in session.custom_theme.body_font
    for served, palette in ((session.custom_theme.light, LIGHT), (session.custom_theme.dark, DARK)):
        assert (served.primary_color, served.text_color) == (palette.accent, palette.ink)


@pytest.mark.parametrize(
    ("module", "command"), [(models.__main__, "translate"), (explorer.__main__, "certify")]
)
def test_the_modules_have_their_own_commands(module, command, capsys):
    with pytest.raises(SystemExit):
        module.main(["--help"])
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: python -m {module.__package__} ")
    assert command in shown
    assert "  app" not in shown


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([], "required: COMMAND"),
        (["translate", "I", "--beem", "2"], "unrecognized arguments: --beem"),
        (["app", "--port", "0"], "'0' must be a number from 1 to 65535"),
        (["app", "--no-such-option", "1"], "No such option"),
    ],
)
def test_bad_usage_is_told_with_status_2(wrong, said, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(wrong)
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["translate", "--model", "nobody", "I"], "no model 'nobody'"),
        (["translate", "--model", "copy", "--beam", "0", "I"], "width is 0"),
        (["certify", "--model", "nobody", "--lang", "zh"], "没有"),
        (["certify", "--model", "./nobody"], "there is no folder ./nobody"),
        (["certify", "./nobody", "--lang", "zh"], "没有文件夹 ./nobody"),
        (["export", "copy", "--text", "a b", "--out", "/dev/null/x", "--lang", "zh"], "不是文件夹"),
        (["export", "copy", "--text", "a b", "--out", "x", "--pads", "17"], "16"),
        (["export", "copy", "--text", "a" * 6001, "--out", "x"], "6001"),
        (["app", "--models", "no/such/folder"], "--models: there is no folder no/such/folder"),
        (["app", "--models", __file__], "is not a folder"),
        (["certify", "--model", "copy", "--edits", "causal"], "“causal” is not a supported change"),
        (["certify", "--model", "copy", "--text", " "], "The text contains only white space."),
        (["train", "--recipe", "copy", "--out", "x", "--data", "f.tsv"], "leave out --data f.tsv"),
        (["evaluate", "--model", "copy", "--recipe", "copy", "--pairs", "p"], "--pairs p"),
        (["train", "--recipe", "copy", "--out", "x", "--set", "foo"], "'foo' is no change"),
    ],
)
def test_input_that_cannot_be_used_is_told_with_status_2(wrong, said, capsys):
    assert cli.main(wrong) == 2
    error = capsys.readouterr().err
    assert error.startswith("headlight: ")
    assert said in error
    assert error.count("\n") == 1


def test_texts_come_in_either_way_and_what_is_unread_or_stopped_is_named(capsys, monkeypatch):
    for command in (["translate"], ["generate"]):
        assert cli.main([*command, "--model", "copy", "a ☃ b"]) == 0
        said = capsys.readouterr()
        assert said.err == "note: not in the vocabulary of copy, read as an unknown token: ☃\n"
        assert said.out.count("\n") == 1
        assert cli.main([*command, "--model", "copy", "a b"]) == 0
        assert capsys.readouterr().err == ""
    monkeypatch.setattr("models.training.using.translate", lambda *_: ["", "b"])
    assert cli.main(["translate", "--model", "copy", "a", "b"]) == 0
    said = capsys.readouterr()
    assert said.out == "\nb\n"
    assert said.err == "note: nothing is written for 'a': the model ends it at once\n"
    monkeypatch.setattr(
        "models.training.using.translate", lambda model, tokenizer, texts, how, rules: texts
    )
    assert cli.main(["translate", "--model", "copy", "a", "--text", "b"]) == 0
    assert capsys.readouterr().out == "a\nb\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(" a  b \n \n\tc"))
    assert cli.main(["translate", "--model", "copy"]) == 0
    assert capsys.readouterr().out == " a  b \n\tc\n"

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("models.training.using.translate", stop)
    assert cli.main(["translate", "--model", "copy", "a b"]) == 130


def test_a_certificate_takes_the_edits_of_a_link(capsys):
    edits = "causal-off~head-decoder.blocks.0.attn-1~cells-nowhere-all-shut-1.1"
    arguments = ["certify", "--model", "copy", "--text", "a b c"]
    assert cli.main([*arguments, "--edits", edits]) == 1
    changed = capsys.readouterr()
    assert "Tested with these changes: causal-off\n" in changed.out
    assert "[VIOLATED] No look-ahead" in changed.out
    untested = "Not tested: “Same output with the cache”. With your changes"
    assert untested in changed.out
    assert changed.err.endswith("head-decoder.blocks.0.attn-1~cells-nowhere-all-shut-1.1\n")
    assert cli.main([*arguments, "--edits", edits, "--json"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert (record["edits"], record["left_out"]) == ("causal-off", {"cache": "uncached"})


def pins(file: str) -> dict[str, Version]:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    pinned = [Requirement(line) for line in lines if line and line[0] not in "#-"]
    assert {specifier.operator for pin in pinned for specifier in pin.specifier} == {"=="}
    return {
        canonicalize_name(pin.name): Version(specifier.version)
        for pin in pinned
        for specifier in pin.specifier
    }


def test_every_requirement_is_pinned_within_its_range():
    extras = METADATA["project"]["optional-dependencies"]
    files = {
        "requirements.txt": METADATA["project"]["dependencies"],
        "tests/requirements.txt": list(chain(*extras.values())),
    }
    pinned: dict[str, Version] = {}
    for file, ranges in files.items():
        assert not pinned.keys() & pins(file)
        pinned |= pins(file)
        for wanted in map(Requirement, ranges):
            assert pinned[canonicalize_name(wanted.name)] in wanted.specifier, wanted.name
