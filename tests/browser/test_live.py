"""The page that needs no server: opened from disk, it computes what torch computes."""

import re
import subprocess
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
from cores import core
from foreign import Golden
from markdown_it import MarkdownIt
from playwright.sync_api import Page, expect

from benchmarks.live import served
from explorer import text
from explorer.analysis.start.flow import flow
from explorer.library import LoadedModel, open_model
from explorer.live.site import write_live
from explorer.live.weights import MOST
from explorer.numbers import percent
from explorer.runs.generation import generate, longest
from explorer.runs.inputs import given_tokens
from explorer.runs.trace import trace
from models.foreign import open_folder
from models.foreign.tokens import PAIR
from models.pictures import patches_of, picture_of
from models.strategies import Greedy

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
SENTENCE = "There is a cat under the old table in there."
ROUNDED = 0.03
"""Bound on the error of a weight after rounding to int8; the largest measured was 0.029, over all
examples of en-zh."""
IN_PAGE = """text => {
    const { model, tokenizer, flowOf } = window.headlight;
    const flow = flowOf(model, tokenizer, text);
    const sites = flow.lanes.flatMap(lane => lane.blocks.flat().map(site => site.seen));
    return [flow.said, sites.map(({ n, nKeys, pattern }) => [n, nKeys, [...pattern]])];
}"""
READY = "async () => { while (!window.headlight) await new Promise(requestAnimationFrame); }"
TOLD = """addEventListener("DOMContentLoaded", () => new MutationObserver(() => {
    const summary = document.querySelector(".tests summary");
    if (summary) window.told(summary.textContent);
}).observe(document, { childList: true, subtree: true, characterData: true }))"""
"""Reports what the line above the mask tests says, each time that the page changes."""
FITS = """async () => {
    const heights = () => [document.documentElement.scrollHeight, window.innerHeight];
    let same = 0;
    while (same < 10 && performance.now() < 180_000) {
        const [inner, outer] = heights();
        same = window.headlight && inner === outer ? same + 1 : 0;
        await new Promise(requestAnimationFrame);
    }
    return same === 10;
}"""
"""Whether a frame becomes as tall as its page."""
EMBEDDING = ROOT / "examples" / "embedding"
PANDOC = """import pypandoc
pypandoc.convert_file("index.qmd", "html", "markdown", ["--standalone"], outputfile="index.html")
"""


def off_by(page: Page, loaded: LoadedModel, sentence: str) -> float:
    """The largest difference between the weights in the page and in torch; the output is equal."""
    most = 24
    if "src" in loaded.model.reads:
        most = min(MOST, longest(loaded, given_tokens(loaded, sentence)))
    made = generate(loaded, sentence, Greedy(), most)
    found = flow(loaded, trace(loaded, sentence), made)
    picture = loaded.config.picture
    read = patches_of(picture_of(sentence, picture), picture).tolist() if picture else sentence
    said, sites = page.evaluate(IN_PAGE, read)
    assert said == found.steps[-1].text
    ours = [site.pattern for lane in found.lanes for block in lane.blocks for site in block]
    assert len(ours) == len(sites)
    return max(
        float(np.abs(np.reshape(values, (-1, n, n_keys)) - pattern).max())
        for pattern, (n, n_keys, values) in zip(ours, sites, strict=True)
    )


def of_one_s_own(name: str, folder: Path) -> LoadedModel:
    """A tiny model of another library, with the tokenizer of its family."""
    opened = open_folder(Golden.load(name).write(folder, "own"))
    return LoadedModel(name, opened.model, opened.tokenizer, opened.config, folder)


OWN = {"bert": "She reads a [MASK] every morning.", "marian": "I love you.", "gpt2": "I love you."}


@pytest.mark.parametrize("name", core(("masked-en", "stories", *OWN), ("masked-en", "bert")))
def test_with_the_original_weights_attention_equals_that_of_torch(offline, tmp_path, name):
    loaded = of_one_s_own(name, tmp_path / "own") if name in OWN else open_model(name)
    sentence = OWN.get(name) or next(iter(text.examples(name, like=loaded.like).values()))[0]
    write_live(loaded, tmp_path, "float32")
    offline.goto((tmp_path / "index.html").as_uri())
    expect(offline.locator(".status")).to_contain_text(" ms")
    assert off_by(offline, loaded, sentence) < 1e-5
    if loaded.reads_pairs:
        note = offline.get_by_text(text.t("live.single", lang="en", pair=PAIR))
        expect(note).to_have_count(0)
        offline.locator(".sentence").fill(f"She reads. {PAIR} A [MASK] book.")
        expect(note).to_be_visible()


def test_the_translator_runs_in_the_browser(offline, tmp_path):
    written = write_live(open_model("en-zh"), tmp_path)
    assert written.n_bytes < 9_000_000
    offline.goto((tmp_path / "index.html").as_uri() + "?lang=en")
    expect(offline.locator(".status")).to_contain_text(" ms")
    expect(offline.locator(".tests summary")).to_have_text(
        text.t("live.tests", lang="en", passed=13, count=13)
    )
    assert 1e-5 < off_by(offline, open_model("en-zh"), SENTENCE) < ROUNDED

    said, typed = offline.locator(".in-start .said"), offline.locator(".sentence")
    first = said.inner_text()
    typed.fill(SENTENCE)
    expect(said).not_to_have_text(first)
    translated = said.inner_text()
    offline.locator(".chip", has_text="cat").click()
    expect(said).not_to_have_text(translated)
    offline.locator(".chip", has_text="cat").click()
    expect(said).to_have_text(translated)
    offline.locator(".in-heads_view button", has_text="L3·H2").click()
    expect(offline.locator(".in-heads_view .panel .title")).to_contain_text("L3·H2")

    typed.fill("  ")
    expect(offline.get_by_role("alert")).to_have_text(text.t("live.empty", lang="en"))
    typed.fill("no " * 80)
    expect(offline.get_by_role("alert")).to_contain_text("81")
    typed.fill("<b>&amp;</b>")
    expect(offline.get_by_role("alert")).to_be_empty()
    cut = offline.get_by_text(text.t("place.unfinished", lang="en"))
    expect(cut).to_have_count(0)
    typed.fill("Zzz 🙂 qwxyz")
    expect(cut).to_be_visible()
    offline.get_by_role("button", name=text.t("languages.zh", lang="zh")).click()
    expect(offline.locator("h1")).to_have_text(text.model_name("en-zh", lang="zh"))
    offline.set_viewport_size({"width": 390, "height": 800})
    wide = """async () => {
        for (let frame = 0; frame < 5; frame += 1) await new Promise(requestAnimationFrame);
        return document.documentElement.scrollWidth;
    }"""  # the page's policy forbids the polling of wait_for_function
    assert offline.evaluate(wide) <= 390


def test_the_reader_reads_in_the_browser(offline, tmp_path):
    write_live(open_model("reader"), tmp_path, "float32")
    offline.goto((tmp_path / "index.html").as_uri() + "?lang=en")
    expect(offline.locator(".tests summary")).to_have_text(
        text.t("live.tests", lang="en", passed=13, count=13)
    )
    assert off_by(offline, open_model("reader"), "Headlight @serif") < 1e-5
    said = offline.locator(".in-start .said")
    offline.locator(".sentence").fill("window")  # the browser draws it
    expect(said).to_have_text("window")
    for patch in range(6, 14):
        offline.locator(f"[data-at=patch{patch}]").click()
    expect(said.locator("del").first).to_be_visible()
    offline.locator("[data-at=modedraw]").click()
    offline.locator("[data-at=clear]").click()
    box = offline.locator(".in-picture canvas").bounding_box()
    before = said.inner_text()
    offline.mouse.move(box["x"] + box["width"] / 2, box["y"] + 5)
    offline.mouse.down()
    offline.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 5)
    offline.mouse.up()
    expect(said).not_to_have_text(before)


def test_a_page_embeds_the_picture_and_talks_to_it(offline, tmp_path):
    copytree(EMBEDDING, tmp_path, dirs_exist_ok=True)
    write_live(open_model("reverse"), tmp_path / "live")
    offline.goto((tmp_path / "messages.html").as_uri())
    picture = offline.frame_locator("iframe")
    expect(picture.locator("canvas.main")).to_be_visible()
    expect(picture.locator(".sentence, .chips")).to_have_count(0)
    offline.locator("#sentence").fill("a b c d")
    output = offline.locator("#output")
    expect(output).not_to_be_empty()  # its weights have arrived
    offline.locator("#send").click()
    expect(output).to_have_text("d c b a")
    send = "chosen => frames[0].postMessage({ headlight: 1, chosen }, '*')"
    offline.evaluate(send, {"site": "cross", "layer": 2, "head": 1})
    title = " · ".join(
        [
            text.t("start.block", lang="en", number=2),
            text.t("start.kinds.cross", lang="en"),
            text.t("components.start.open_head", lang="en", head=1),
        ]
    )
    expect(picture.get_by_label(title, exact=True)).to_be_visible()
    offline.evaluate(send, {"mask": "alone"})
    expect(output).not_to_have_text("d c b a")
    for view in ("model", "heads", "masks", "tests"):
        offline.frames[1].goto(f"{(tmp_path / 'live/index.html').as_uri()}?embed=1&view={view}")
        assert offline.frames[1].evaluate(FITS), view

    offline.goto((tmp_path / "plain.html").as_uri())
    expect(picture.locator("canvas.main")).to_be_visible()


@pytest.mark.parametrize("listed", [True, False])
def test_only_pages_of_allowed_origins_are_heard_and_answered(browser, tmp_path, listed):
    """Without a list all are heard, and a page of the same origin alone learns what is typed.
    Another port is another origin.
    """
    (tmp_path / "favicon.ico").touch()
    heard = "new Promise(done => window.addEventListener('message', done, { once: true }))"
    with served(tmp_path) as own, served(tmp_path) as other:
        origins = (own.rstrip("/"),) if listed else ()
        write_live(open_model("reverse"), tmp_path / "live", origins=origins)
        (tmp_path / "index.html").write_text(
            "<script>heard = [];"
            "addEventListener('message', ({ data }) => heard.push(data))</script>"
            f'<iframe src="{own}live/index.html?embed=1"></iframe>'
        )
        for host in (own, other):
            page, said = browser.new_page(), []
            page.on("console", lambda message, said=said: said.append(message.text))
            page.goto(host)
            picture = page.frames[1]
            picture.evaluate(READY)
            before = picture.locator(".said").inner_text()
            picture.evaluate(f"() => {{ window.heard = {heard}; }}")
            page.evaluate("frames[0].postMessage({ headlight: 1, sentence: 'a b c d' }, '*')")
            picture.evaluate("() => window.heard.then(() => null)")
            answered = "d c b a" if host == own or not listed else before
            expect(picture.locator(".said")).to_have_text(answered)
            told = "heard.some(each => 'sentence' in each)"
            if host == own:
                page.wait_for_function(told)
            page.evaluate("() => new Promise(setTimeout)")
            assert page.evaluate(told) == (host == own)
            assert said == []
            page.close()
    with pytest.raises(ValueError, match="origin"):
        write_live(open_model("reverse"), tmp_path / "live", origins=("example.org",))


BOOKS = {"quarto": "index.qmd", "jupyter-book": "index.md", "mkdocs": "docs/index.md"}
RAW = re.compile(r"^---.*?^---|^```\{=html\}|^```", re.DOTALL | re.MULTILINE)
"""What Quarto takes out of a page: its head, and the lines around HTML."""


def test_a_page_of_a_book_shows_the_picture_in_its_language_and_theme(offline, tmp_path):
    write_live(open_model("reverse"), tmp_path / "live")
    picture = offline.frame_locator("iframe").locator("html")
    for name, source in BOOKS.items():
        body = MarkdownIt().render(RAW.sub("", (EMBEDDING / name / source).read_text("utf-8")))
        host = tmp_path / f"{name}.html"
        host.write_text(f'<html lang="zh-CN"><body style="background: #111">{body}</body></html>')
        offline.goto(host.as_uri())
        expect(picture.locator("canvas.main")).to_be_visible()
        expect(picture).to_have_attribute("lang", "zh-CN")
        expect(picture).to_have_attribute("data-theme", "dark")
    offline.evaluate("() => { document.body.style.background = 'white'; }")
    expect(picture).to_have_attribute("data-theme", "light")
    offline.evaluate("() => { document.documentElement.lang = 'en'; }")
    expect(picture).to_have_attribute("lang", "en")


@pytest.mark.sweep
@pytest.mark.skipif(not (ROOT / ".books").exists(), reason="`make sweep` installs the builders")
@pytest.mark.parametrize("name", BOOKS)
def test_the_builders_of_books_pass_the_picture_on(browser, tmp_path, name):
    book, binaries = tmp_path / "book", ROOT / ".books" / "bin"
    copytree(EMBEDDING / name, book)
    live = {"quarto": "live", "jupyter-book": "extra/live", "mkdocs": "docs/live"}[name]
    write_live(open_model("reverse"), book / live)
    made, command = {
        # Pandoc is the part of Quarto that converts; Quarto's own package downloads the rest.
        "quarto": ("index.html", ["python", "-c", PANDOC]),
        "jupyter-book": ("_build/html/index.html", ["jupyter-book", "build", "."]),
        "mkdocs": ("site/index.html", ["mkdocs", "build", "--quiet"]),
    }[name]
    subprocess.run([binaries / command[0], *command[1:]], cwd=book, check=True, timeout=300)
    page = browser.new_page(color_scheme="dark")
    page.route("http*://**", lambda route: route.abort())  # fonts of the builders' themes
    page.goto((book / made).as_uri())
    picture = page.frame_locator("iframe").locator("html")
    expect(picture.locator(".said")).not_to_be_empty()
    expect(picture).to_have_attribute("data-theme", "light" if name == "quarto" else "dark")
    page.close()


def test_an_address_that_names_no_choice_is_ignored(browser, tmp_path):
    query = "lang=__proto__&view=constructor&embed=1&cell=9.9.9.9&opened=7.7.7.7&mask=x"
    write_live(open_model("reverse"), tmp_path / "live")
    host = tmp_path / "host.html"
    host.write_text(f'<iframe src="live/index.html?{query}"></iframe>')
    page, failed = browser.new_page(), list[str]()
    page.on("pageerror", lambda error: failed.append(str(error)))
    page.goto(host.as_uri())
    page.frames[1].evaluate(READY)
    send = "message => frames[0].postMessage({ headlight: 1, ...message }, '*')"
    for message in ({"lang": "__proto__"}, {"lang": "zh", "sentence": "a b c d"}):
        page.evaluate(send, message)
    picture = page.frame_locator("iframe")
    expect(picture.locator(".in-start .said")).to_have_text("d c b a")
    expect(picture.locator("html")).to_have_attribute("lang", "zh-CN")
    assert failed == []
    page.close()


def test_a_link_opens_the_same_sentence_and_the_same_cell(browser, tmp_path):
    loaded = open_model("en-zh")
    write_live(loaded, tmp_path, "float32")
    page, summaries = browser.new_page(), list[str]()
    page.expose_function("told", lambda summary: summaries.append(summary))
    page.add_init_script(TOLD)
    page.goto((tmp_path / "index.html").as_uri() + "?lang=en")
    page.evaluate(READY)
    page.locator(".sentence").fill("The \u202eΩ  cat sat.")
    expect(page.get_by_text(text.t("start.lead", lang="en"))).to_be_visible()
    for name, values in (
        ("unknown", {"token": "<unk>", "characters": "Ω"}),
        ("invisible", {"characters": "U+202E"}),
        ("folded", {}),
    ):
        expect(page.get_by_text(text.t(f"place.{name}", lang="en", **values))).to_be_visible()
    page.locator(".sentence").fill("The Ω cat sat.")
    expect(page.get_by_text(text.t("place.folded", lang="en"))).to_be_hidden()
    page.locator(".in-start .stations button").first.press("Enter")
    page.get_by_role("link", name=text.t("components.start.to_head", lang="en")).click()
    shown = page.locator(".one-cell")
    for key, token in (("score.query", "cat"), ("score.key", "The")):
        row = shown.get_by_label(text.t(key, lang="en"))
        row.get_by_role("button", name=token, exact=True).click()
    seen = trace(loaded, "The Ω cat sat.")
    site = seen.sites[0].name
    query, key = (seen.query_tokens(site).index(token) for token in ("cat", "The"))
    expect(shown).to_contain_text(percent(float(seen.pattern(site)[0, query, key])))
    page.locator(".share summary").click()
    link, told = page.locator(".share .link").inner_text(), shown.inner_text()
    expect(page).to_have_url(link)
    passed = text.t("live.tests", lang="en", passed=13, count=13)
    expect(page.locator(".tests summary")).to_have_text(passed)
    assert text.t("live.tests_running", lang="en", done=6, count=13) in summaries
    assert not [each for each in summaries if "6 of 13" in each and "passed" in each]
    page.goto(link)
    expect(page.locator(".sentence")).to_have_value("The Ω cat sat.")
    expect(shown).to_have_text(told, use_inner_text=True)
    page.close()


def test_a_missing_file_is_named(browser, tmp_path):
    write_live(open_model("reverse"), tmp_path)
    (tmp_path / "weights-0.js").unlink()
    page = browser.new_page(locale="zh-CN")
    page.goto((tmp_path / "index.html").as_uri())
    said = text.t("live.no_weights", lang="zh", file="weights-0.js")
    expect(page.get_by_role("alert")).to_have_text(said)
    page.close()
