"""The content security policy: what it forbids is not run. `tests/test_guard.py` has who may frame
the app.

That no page of the app breaks it holds in every browser test: the console says so, and a `Visitor`
accepts no error there.
"""

import pytest
from cores import every

BROKEN = """() => {
    window.broken = [];
    document.addEventListener('securitypolicyviolation', event =>
        // Streamlit's numbers of 64 bits are faster by WebAssembly, and do without where they must.
        event.blockedURI === 'wasm-eval'
            || window.broken.push(`${event.violatedDirective} ${event.blockedURI}`));
}"""


def test_what_the_policy_does_not_allow_is_not_run(visitor):
    visitor.page.add_init_script(f"({BROKEN})()")
    visitor.open("masks")
    visitor.page.evaluate(
        """() => {
            const script = document.createElement('script');
            script.textContent = 'window.evil = 1';
            document.body.append(script);
            const image = document.createElement('img');
            image.src = 'http://elsewhere.invalid/a.png';
            document.body.append(image);
        }"""
    )
    visitor.page.wait_for_function("() => window.broken.length == 2")
    broken = visitor.page.evaluate("window.broken")
    assert broken == ["script-src-elem inline", "img-src http://elsewhere.invalid/a.png"]
    assert visitor.page.evaluate("window.evil") is None
    assert sum("Content Security Policy" in each for each in visitor.console) == 2
    visitor.console.clear()
    visitor.hosts.clear()


@pytest.mark.parametrize("place", every(3, ("heads", "masks", "decoding")))
def test_html_in_a_sentence_is_text_everywhere(visitor, place):
    nasty = '<script>alert(1)</script> "><img src=x onerror=alert(2)> **bold** $x$'
    visitor.page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    visitor.open(place, text=nasty)
    visitor.shows("<script>alert(1)</script>")
    assert visitor.page.locator("img[src=x]").count() == 0
