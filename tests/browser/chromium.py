"""Where Chromium is. As a script: print its path, or exit with status 1 where there is none."""

import os
import shutil
import sys
from pathlib import Path


def find() -> str | None:
    """The browser named by $CHROMIUM, one on the PATH, Playwright's own, or None."""
    named = os.environ.get("CHROMIUM")
    if named:
        return named
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        found = shutil.which(name)
        if found:
            return found
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).exists() else None


if __name__ == "__main__":
    path = find()
    print(path or "no Chromium found")
    sys.exit(0 if path else 1)
