"""The menu of ten entries in real Chromium, and where the picture of each view begins."""

import pytest
from playwright.sync_api import expect

from explorer.pages import MENU, PAGES
from explorer.text import t

pytestmark = pytest.mark.browser


def test_every_view_is_two_clicks_away_and_what_a_model_lacks_is_dimmed(visitor):
    visitor.open(lang="en", model="stories")
    links = visitor.page.get_by_test_id("stTopNavLink")
    expect(links).to_contain_text([t(f"menu.{group.name}", lang="en") for group in MENU])
    for group in MENU:
        links.filter(has_text=t(f"menu.{group.name}", lang="en")).click()
        row = visitor.page.locator(".st-key-views").get_by_test_id("stPageLink-NavLink")
        if len(group.views) == 1:
            expect(row).to_have_count(0)
            continue
        named = [
            t(f"{'shelf' if name == 'models' else name}.title", lang="en") for name in group.views
        ]
        expect(row).to_contain_text(named)
        expect(visitor.page.locator("h1")).to_have_text(named[0])
    visitor.open("score", lang="en", model="stories")
    expect(links.filter(has_text=t("menu.attention", lang="en"))).to_have_attribute(
        "aria-current", "page"
    )
    expect(row.nth(2)).to_have_attribute("disabled", "")


FIRST = """() => {
    const main = document.querySelector('[data-testid=stMain]');
    const kinds = '.js-plotly-plot, [data-testid=stBidiComponentIsolated], table, .stCode,'
        + '.stButton, .stButtonGroup, .stTextInput, .stTextArea, .stMultiSelect, .stProgress, '
        + '[data-testid=stAlert]';
    if (!main || main.querySelector('[class*=st-key][class$=-stop], [data-testid=stSkeleton]')) {
        return null; // it computes
    }
    const boxes = [...main.querySelectorAll(kinds)].filter(each => !each.closest(
        '.st-key-frame, .st-key-head, .st-key-parts, [class*=st-key-share]'))
        .map(each => each.getBoundingClientRect()).filter(box => box.width && box.height);
    return boxes.length ? [Math.min(...boxes.map(box => box.top)), main.scrollHeight] : null;
}"""
"""Where the first picture begins (of a view without one, its first list or control), and the
height of the view, in pixels."""
CHOICES = {page.name: page.choices for page in PAGES}
VIEWS = [
    (name, part)
    for group in MENU
    for name in group.views
    for part in getattr(CHOICES.get(name), "parts", ("",))
    if part not in ("printed", "experts")  # as long as what is printed; only a caption
]
SCREENS = ((720, 450, 450, 10**6), (390, 844, 600, 10**6), (1440, 900, 300, 2500))
"""Width and height of a screen, and the most that the picture's top and the view's height may be;
720 by 450 is 1440 by 900 at 200 % zoom."""
CORE = [("start", ""), ("heads", ""), ("masks", ""), ("decoding", ""), ("attribution", "")]
SENTENCE = {"lang": "en", "text": "She reads a book every morning."}
FORTY_WORDS = {
    "lang": "zh",
    "model": "zh-en",
    "text": "她辛苦工作了一整天，很晚才回到家里，弟弟和他最好的朋友还坐在厨房的桌子旁边，"
    "画着河边那座老房子的图画，他们想在那里住。",
}


@pytest.mark.parametrize(
    ("views", "read"),
    [
        (CORE, SENTENCE),
        pytest.param(VIEWS, SENTENCE, marks=pytest.mark.sweep),
        pytest.param(VIEWS, FORTY_WORDS, marks=pytest.mark.sweep),
    ],
)
def test_the_picture_begins_high_and_no_view_is_long(visitor, views, read):
    """At 1440 by 900 within 300 pixels, and on the first screen at 200 % zoom and of a phone."""
    visitor.page.set_viewport_size({"width": 1440, "height": 900})
    visitor.open("card", **read)
    menu = visitor.page.get_by_label(t("frame.page", lang=read["lang"]), exact=True)
    fits = "at && at[0] <= top && at[1] <= most"
    within = f"([top, most]) => {{ const at = ({FIRST})(); return {fits}; }}"
    for name, part in views:
        if part:
            visitor.open(name, part=part, **read)
        else:
            menu.select_option(name, force=True)
            expect(menu).to_have_value(name)
            visitor.settle()
        for width, height, top, most in SCREENS:
            visitor.page.set_viewport_size({"width": width, "height": height})
            visitor.page.wait_for_function(within, arg=[top, most])  # once it is laid out
            visitor.fits(width)
