"""The linker of JavaScript modules: what it makes of a graph of files, and what it refuses."""

import base64
import json
import re
import zlib
from pathlib import Path

import numpy as np
import pytest

from explorer import scripts
from explorer.components.payload import pack
from explorer.components.standalone import MOST_PACKED, Component, Paragraph, Plot, page
from explorer.scripts import FOLDER, LinkError, link
from explorer.text import family

VIEWS = sorted(css.stem for css in FOLDER.glob("*.css") if css.stem != "shared")

NASTY = '</script><script>alert(1)</script><!-- "><img src=x onerror=alert(2)>'


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.js").write_text(text, encoding="utf-8")
    return folder


def test_modules_stay_apart_and_in_order_with_every_form_of_export(tmp_path):
    folder = written(
        tmp_path,
        view='import { twice } from "./two.js";\nimport { one as first } from "./one.js";\n\n'
        "export default function () { return twice(first); }\n",
        two='import { one } from "./one.js";\nconst own = 2 * one;\n'
        "export function twice(n) { return own * n; }\n",
        one="export const one = 1;\n",
    )
    assert link(folder, "view.js") == (
        "const $modules = {};\n"
        '$modules["one.js"] = (() => {\nconst one = 1;\n\nreturn { one };\n})();\n'
        '$modules["two.js"] = (() => {\n'
        'const { one } = $modules["one.js"];\nconst own = 2 * one;\n'
        "function twice(n) { return own * n; }\n\nreturn { twice };\n})();\n"
        'const { twice } = $modules["two.js"];\nconst { one: first } = $modules["one.js"];\n\n'
        "export default function () { return twice(first); }\n"
    )
    written(
        tmp_path,
        all="export const a = 1;\nexport function b() {}\nexport async function c() {}\n"
        "export function* d() {}\nexport class E {}\n  export const indented = 1;\n",
        view='import {\n  a,\n  E as three,\n} from "./all.js";\n',
    )
    text = link(tmp_path, "view.js")
    assert "return { a, b, c, d, E };" in text
    assert 'const { a, E: three } = $modules["all.js"];' in text


DEFAULT = "export default function () {}\n"
IMPORT_A, A = 'import { a } from "./one.js";\n', "export const a = 1;\n"


@pytest.mark.parametrize(
    ("view", "others", "message"),
    [
        ('import { b } from "./one.js";', {"one": A}, "view.js: one.js does not export b"),
        (
            IMPORT_A,
            {
                "one": f'import {{ b }} from "./two.js";\n{A}',
                "two": f"{IMPORT_A}export const b = 1;",
            },
            "in a circle: one.js → two.js → one.js",
        ),
        ("const a = 1;\nexport { a };", {}, "view.js:2: not understood: export"),
        ("export let a = 1;", {}, "view.js:1: not understood: export let a"),
        ('import a from "./a.js";', {}, "view.js:1: not understood: import a"),
        ('import { a } from "a";', {}, "view.js:1: not understood"),
        ('import { a } from "../a.js";', {}, "view.js:1: not understood"),
    ],
)
def test_what_cannot_be_linked_is_refused(tmp_path, view, others, message):
    with pytest.raises(LinkError, match=message):
        link(written(tmp_path, view=f"{view}\n{DEFAULT}", **others), "view.js")


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_links_with_each_of_its_files_once_and_can_stand_alone(name):
    text = link(FOLDER, f"{name}.js")
    assert text.count("export default function") == 1
    assert text.count("\n$modules[") == text.count("$modules[") - text.count("= $modules[")
    assert 'from "./' not in text
    alone = page("", [Component(name, pack({}))], "en")
    assert f'views["{name}"] = (() =>' in alone
    assert "export default" not in alone


def test_every_file_and_every_export_is_used():
    sources = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.js")}
    imported = {
        (match[2], there)
        for source in sources.values()
        for match in scripts._IMPORT.finditer(source)
        for there, _ in scripts._NAMES.findall(match[1])
    }
    exported = {
        (file, next(filter(None, names)))
        for file, source in sources.items()
        for names in scripts._EXPORT.findall(source)
    }
    assert imported == exported
    views = {file for file, source in sources.items() if scripts._DEFAULT.search(source)}
    assert views == {f"{name}.js" for name in VIEWS}


@pytest.mark.parametrize("name", sorted(set(VIEWS) - {"machine_view", "frame", "pulse"}))
def test_a_script_says_just_the_words_of_its_table(name):
    script = link(FOLDER, f"{name}.js")
    passed = set(family(f"components.{name}", lang="en"))
    assert set(re.findall(r"\bwords\.(\w+)", script)) <= passed
    written = set(re.findall(r"\w+", script))  # words[…] takes a name from a string or a key
    assert passed <= written


def test_words_figures_and_payloads_stay_data():
    figure = {"data": [{"type": "bar", "x": [NASTY], "y": [1]}], "layout": {"title": NASTY}}
    drawn = {**figure, "data": [{**figure["data"][0], "y": np.array([1])}]}  # type: ignore[dict-item]
    made = page(
        NASTY, [Paragraph(NASTY), Plot(drawn, NASTY), Component("token_strip", pack({}))], "en"
    )
    body = made[made.index("<body>") :]
    assert NASTY not in made
    assert "</script><script>alert" not in made
    assert "<!--" not in body
    sent = re.search(r'headlightChart\("b1", (\[.*?\]), \{"format"', made)
    assert json.loads(sent[1]) == [figure, None]
    payload = pack({"tokens": [NASTY]})
    made = page("", [Component("token_strip", payload)], "zh")
    sent = re.search(r'headlight\("token_strip", "b0", "([^"]*)", true\)', made)
    assert zlib.decompress(base64.b64decode(sent[1])) == payload
    assert '<html lang="zh">' in made
    payload = bytes(MOST_PACKED + 1)
    made = page("", [Component("token_strip", payload)], "en")
    assert f'"{base64.b64encode(payload).decode()}", false)' in made
