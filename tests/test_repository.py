"""What holds for the files of the repository: none is large, all speak of one version, every link
leads to a file, and no function is there for the tests alone.
"""

import ast
import re
import subprocess
import tomllib
from collections import Counter
from html import unescape
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml

import explorer
from docs.website import __main__ as website
from explorer import __version__

ROOT = Path(__file__).parents[1]
LARGEST = 1_000_000  # bytes: every version of a file stays in the history, and so in a clone
PACKAGES = ("models", "explorer", "recipes")
MAY_BE_LARGE = ("assets/checkpoints/", "docs/")


def text(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


def files() -> list[str]:
    """The files that git knows or would add, by their paths from the top."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git repository")
    return [name for name in listed.stdout.split("\0") if name]


def too_large(names: list[str]) -> list[str]:
    """Those over the limit where no large file may be; deleted ones are not there to be large."""
    return [
        name
        for name in names
        if not name.startswith(MAY_BE_LARGE)
        and (ROOT / name).is_file()
        and (ROOT / name).stat().st_size > LARGEST
    ]


def test_no_file_is_large_or_long_and_all_speak_of_one_version_and_port():
    assert too_large(files()) == []
    (most,) = map(int, re.findall(r"No file over (\d+)\s+lines", text("docs/CONTRIBUTING.md")))
    code = [file for file in files() if file.endswith((".py", ".js", ".css"))]
    assert len(code) > 500
    assert [file for file in code if len(text(file).splitlines()) > most] == []
    assert f"\nversion: {__version__}\n" in text("CITATION.cff")
    assert f"\n## {__version__} – " in text("docs/CHANGELOG.md")
    _, header, _ = (website.ROOT / "docs/serving/space.md").read_text("utf-8").split("---\n", 2)
    said = dict(line.split(": ", 1) for line in header.splitlines())
    image = (website.ROOT / "docs/serving/Containerfile").read_text("utf-8")
    assert said["sdk"] == "docker"
    assert f"EXPOSE {said['app_port']}\n" in image
    assert f'"--port", "{said["app_port"]}"]' in image


def unused(sources: dict[str, str]) -> set[str]:
    """The functions, classes and methods of modules (by dotted name) whose name stands nowhere but
    where something of that name is defined or imported."""
    defined: dict[str, str] = {}
    named: Counter[str] = Counter()
    for module, source in sources.items():
        for node in ast.parse(source).body:
            match node:
                case ast.ImportFrom(names=imported):
                    named.subtract(each.name for each in imported if each.asname is None)
                case ast.FunctionDef(name=name):
                    defined[f"{module}.{name}"] = name
                case ast.ClassDef(name=owner, body=body):
                    defined[f"{module}.{owner}"] = owner
                    methods = [each.name for each in body if isinstance(each, ast.FunctionDef)]
                    defined |= {f"{module}.{owner}.{name}": name for name in methods}
    named.subtract(defined.values())
    named.update(word for source in sources.values() for word in re.findall(r"\w+", source))
    return {
        dotted for dotted, name in defined.items() if named[name] <= 0 and not name.startswith("__")
    }


def test_no_function_is_there_for_tests_alone():
    """The package's commands and pages are used by name."""
    files = [
        path.relative_to(ROOT).as_posix()
        for path in (
            ROOT / "app.py",
            *chain.from_iterable(ROOT.glob(f"{folder}/**/*.py") for folder in PACKAGES),
        )
    ]
    sources = {
        file.removesuffix(".py").removesuffix("/__init__").replace("/", "."): text(file)
        for file in files
    }
    assert len(sources) > 100
    metadata = tomllib.loads(text("pyproject.toml"))
    commands = {name.replace(":", ".") for name in metadata["project"]["scripts"].values()}
    public = {f"{home}.{name}" for name, home in explorer._HOMES.items()}
    public |= {"explorer.testing.assert_masks"}
    course = tomllib.loads(text("assets/lessons/course.toml"))
    steps = {name for chapter in course.values() for name in chapter.get("steps", ())}
    described = text("docs/api.md") + text("docs/api/certify.md")
    assert all(name.rpartition(".")[2] in described for name in public)
    found = {name for name in unused(sources) if name.rpartition(".")[2] not in steps}
    assert found <= public | commands


def test_nothing_outside_the_library_asks_for_a_family_or_takes_a_hook_name_apart():
    asks = re.compile(
        r"isinstance\([^)]*(?:DecoderOnly|EncoderDecoder|EncoderOnly)|family[\"')]* *(?:==|!=)"
        r"|(?:site|hook|name)[a-z_.]*\.(?:rpartition|rsplit|split|partition)\([\"']\."
    )
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in (ROOT / "explorer").rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if asks.search(line)
    ]
    assert found == []


def test_links_of_documents_and_names_taken_from_benchmarks_are_there():
    """No test runs them, and each is run by itself: a name that went is seen by nobody."""
    taken = 0
    for path in (ROOT / "benchmarks").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.ImportFrom(module=str(module)) if module.startswith("benchmarks."):
                    source = text(module.replace(".", "/") + ".py")
                    for name in (each.name for each in node.names):
                        assert re.search(rf"(?m)^(?:(?:async )?def |class )?{name}\b", source), (
                            path,
                            name,
                        )
                        taken += 1
    assert taken > 5
    broken, count = [], 0
    for name in files():
        if not name.endswith(".md") or not (ROOT / name).is_file():
            continue
        for address in re.findall(r"\]\(([^)\s]+)\)", text(name)):
            to = urlsplit(address)
            if to.scheme or not to.path:
                continue
            count += 1
            if not (ROOT / name).parent.joinpath(unquote(to.path)).exists():
                broken.append(f"{name}: {address}")
    assert count > 100
    assert broken == []


WORKFLOW: dict[str, Any] = yaml.safe_load(
    (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
)
JOBS = WORKFLOW["jobs"]


def commands(job: str) -> list[str]:
    return [step["run"] for step in JOBS[job]["steps"] if "run" in step]


def test_jobs_find_their_targets_write_nothing_end_in_an_hour_and_run_all_tests():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in chain.from_iterable(map(commands, JOBS)):
        for target in re.findall(r"\bmake ([^\s=]+)(?:\s|$)", command):
            assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), target
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] <= 60 for job in JOBS.values())
    assert not any("permissions" in job for job in JOBS.values())
    plain, browser = commands("test")[-1], commands("browser")[-1]
    assert plain.endswith('-m "not browser and not sweep"')
    assert browser.endswith("-m browser")
    assert commands("sweep") == ["make sweep"]
    assert re.search(r"^sweep: .*\n\t.* pytest .* -m sweep$", makefile, re.MULTILINE)


def test_every_address_of_the_website_is_in_it(tmp_path, monkeypatch):
    monkeypatch.setattr(website, "LIVE", ("reverse",))
    website.write(tmp_path, website.LIVE)
    pages = {path: path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    assert {"index.html", "zh.html"} <= {path.name for path in pages}
    looked_at = 0
    for path, html in pages.items():
        assert "content-security-policy" in html
        assert not re.search("<[^>]* style=|&lt;!--", html), path  # the policy forbids styles
        for address in re.findall(r'(?:href|src)="([^"]*)"', html):
            to = urlsplit(unescape(address))
            if to.scheme == "data":
                continue
            assert not to.scheme, (path, address)
            assert not to.netloc, (path, address)
            target = (path.parent / unquote(to.path)).resolve() if to.path else path
            if target.parent.name != "pictures":  # which the app draws
                assert target.is_file(), (path, address)
            if to.fragment:
                assert f'id="{unquote(to.fragment)}"' in target.read_text(encoding="utf-8")
            looked_at += 1
    assert looked_at > 100
