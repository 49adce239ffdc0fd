"""A model of pictures in real Chromium: drawing, uploading, hiding patches, smoothing, axe."""

import io

import pytest
from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import Page, expect

from explorer.library import open_model
from explorer.runs.edits import KeyHidden
from explorer.runs.trace import trace
from explorer.text import t
from models.pictures.faces import FACES, FONTS
from tests.browser.conftest import Visitor, asked
from tests.browser.test_accessible import lasting

pytestmark = pytest.mark.browser
WORD = "Brown @serif"


def photo(text: str, kind: str) -> bytes:
    """A file of a word, white on blue, off the middle and much larger than the model's picture."""
    image = Image.new("RGB", (700, 300), "navy")
    font = ImageFont.truetype(str(FONTS / FACES["sans"]), 110)
    ImageDraw.Draw(image).text((60, 90), text, font=font, fill="white")
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def upload(page: Page, name: str, file: bytes) -> None:
    if not page.get_by_test_id("stFileUploaderDropzone").is_visible():
        page.locator("[class*=-source] [data-testid=stPopover] button").click()
    with page.expect_file_chooser() as chosen:
        page.get_by_test_id("stFileUploaderDropzone").locator("button").last.click()
    chosen.value.set_files({"name": name, "mimeType": "image/x", "buffer": file})


def drawn_text(page: Page) -> str:
    """The picture in the address, once a stroke has arrived there."""
    page.wait_for_url("**text=picture*")
    return asked(page.url)["text"]


def begin_to_draw(page: Page) -> tuple[float, float, float, float]:
    """An empty sheet under a pen: its place on the screen."""
    page.locator("[data-at=modedraw]").first.check(force=True)
    page.locator("[data-at=clear]").click()
    sheet = page.locator(".hl .frame canvas")
    sheet.scroll_into_view_if_needed()
    box = sheet.bounding_box()
    return box["x"], box["y"], box["width"], box["height"]


def test_a_picture_is_hidden_uploaded_and_drawn_with_the_mouse_on_start(visitor):
    loaded = open_model("reader")
    visitor.open(lang="en", model="reader", text=WORD)
    page, said = visitor.page, visitor.page.locator(".hl .said")
    # Patches 8 to 11 are the first letter; one by a click, the others by the keyboard.
    hidden = tuple(KeyHidden("src", patch) for patch in range(8, 12))
    without = trace(loaded, WORD, edits=hidden).output
    assert without != "Brown"
    for at in (*range(8, 12), 10, 11, 10, 11):  # in a quick row, of which none is lost
        page.locator(f"[data-at=patch{at}]").press("Enter")
    # As lists: a result on the way may have several parts, or none.
    expect(said.locator("del")).to_have_text(["B"])
    expect(said.locator("ins")).to_have_text([without.removesuffix("rown")])
    for at in range(8, 11):
        page.locator(f"[data-at=patch{at}][aria-pressed=true]").press("Space")
    last = page.locator("[data-at=patch11]")
    last.hover()
    page.mouse.down()  # the answer to the one before must not replace it
    page.wait_for_url("**edits=hide-src-11**")
    page.mouse.up()
    expect(said).to_have_text("Brown")
    upload(page, "word.png", photo("Lake", "PNG"))
    expect(said).to_have_text("Lake")
    upload(page, "cut.png", photo("Lake", "PNG")[:900])
    visitor.shows(t("problems.picture_damaged", lang="en", name="cut.png"))
    page.keyboard.press("Escape")
    left, top, width, height = begin_to_draw(page)
    page.mouse.move(left + width / 2, top + height * 0.2)
    page.mouse.down()
    page.mouse.move(left + width / 2, top + height * 0.8, steps=4)
    uploaded = page.url
    page.mouse.up()
    page.wait_for_url(lambda url: url != uploaded)
    expect(said).to_have_text(trace(loaded, drawn_text(page)).output)


def test_attention_takes_a_jpeg_and_a_finger_and_says_what_smoothing_hides(app, browser):
    context = browser.new_context(
        viewport={"width": 820, "height": 1180}, has_touch=True, color_scheme="light"
    )
    visitor = Visitor(page := context.new_page(), app)
    visitor.open("heads", lang="en", model="reader", text=WORD)
    line = page.locator(".st-key-sentence")
    expect(line).to_contain_text("Brown")
    upload(page, "word.jpg", photo("Lake", "JPEG"))
    expect(line).to_contain_text("Lake")
    page.keyboard.press("Escape")
    before = drawn_text(page)
    left, top, width, height = begin_to_draw(page)
    finger = context.new_cdp_session(page)
    touches = zip(("Start", "Move", "Move", "End"), (0.2, 0.5, 0.8, 0), strict=True)
    for kind, down in touches:
        points = [{"x": left + width / 2, "y": top + height * down}] if down else []
        finger.send("Input.dispatchTouchEvent", {"type": f"touch{kind}", "touchPoints": points})
    page.wait_for_function("old => !location.href.includes(old)", arg=before[-200:])
    expect(line).to_contain_text(trace(open_model("reader"), drawn_text(page)).output)
    page.locator("[data-at=smoothedtrue]").check(force=True)
    expect(page.locator(".hl .axis .loss")).to_contain_text("%")
    assert lasting(visitor) == []
    visitor.darken()
    assert lasting(visitor) == []
    context.close()
