"""A real Chromium for tests of the page: the one Playwright brings, Debian's, or Chrome.

As a program, `python -m tests.serve.browser http://127.0.0.1:8080 docs/img`, it takes the pictures
of the documentation.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Playwright,
    ViewportSize,
    sync_playwright,
)

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = "no Chromium here: apt-get install chromium, or playwright install chromium"
QUESTION = "What city is or was the capital of Georgia?"
WIDE, NARROW = ViewportSize(width=1200, height=840), ViewportSize(width=360, height=900)


@contextmanager
def browsing() -> Iterator[Browser | None]:
    """Start a browser; None where none is installed."""
    with sync_playwright() as playwright:
        program = _program(playwright)
        if program is None:
            yield None
            return
        browser = playwright.chromium.launch(executable_path=program)
        try:
            yield browser
        finally:
            browser.close()


def _program(playwright: Playwright) -> str | None:
    own = playwright.chromium.executable_path
    return own if Path(own).exists() else next(filter(None, map(which, NAMES)), None)


def _pictures(browser: Browser, address: str, folder: Path) -> None:
    """Take pictures of the page as it answers: both rankings, a tree by night, a phone."""
    own, tree = f"{address}#q={QUESTION}", f"{address}#q={QUESTION}&beta=2"
    with browser.new_context(viewport=WIDE, reduced_motion="reduce") as context:
        page = _answered(context, own)
        page.get_by_role("radio", name="Compare with independent").check()
        _picture(page, 2, folder / "page-light.png", at=205)
    with browser.new_context(
        viewport=WIDE, color_scheme="dark", reduced_motion="reduce"
    ) as context:
        _picture(_answered(context, tree), 2, folder / "page-dark.png")
    with browser.new_context(viewport=NARROW, reduced_motion="reduce") as context:
        _picture(_answered(context, tree), 0, folder / "page-phone.png")


def _answered(context: BrowserContext, url: str) -> Page:
    page = context.new_page()
    page.goto(url)
    page.locator("#reply:not([aria-busy])").wait_for(timeout=60_000)
    return page


def _picture(page: Page, node: int, path: Path, at: int = 0) -> None:
    page.get_by_role("treeitem").nth(node).hover()
    page.evaluate("at => scrollTo(0, at)", at)
    page.screenshot(path=path)


if __name__ == "__main__":
    with browsing() as found:
        if found is None:
            sys.exit(MISSING)
        _pictures(found, sys.argv[1], Path(sys.argv[2]))
