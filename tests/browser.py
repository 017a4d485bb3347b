"""A page in a real browser: a file and a width enter; what it asked for, what it said and how it looks leave.

Every request that leaves the page is refused and remembered, so a test tells of it without a network.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
LAPTOP, PHONE = 1280, 390
# Narrower than this the page is shown as on a phone: the viewport of the page counts and pixels are small.
WIDEST_PHONE = 600
MISSING = f"no browser on this machine: none of {', '.join(NAMES)} is on the path"

# Texts that are drawn smaller than they are set: pictures shrink with the screen.
SMALLEST_TEXT = """() => Math.min(99, ...[...document.querySelectorAll("svg text")].map(text => {
    const drawn = text.getScreenCTM();
    const scale = Math.sqrt(Math.abs(drawn.a * drawn.d - drawn.b * drawn.c));
    return scale * parseFloat(getComputedStyle(text).fontSize);
}))"""


@dataclass(frozen=True)
class Visit:
    """What happened on a page that was opened and scrolled to its end. Sizes are in CSS pixels."""

    requests: list[str]
    console: list[str]
    headings: list[str]
    text: str
    width: int
    smallest_text: float
    picture: Path


class Browser:
    """Opens files, each in a window of its own."""

    def __init__(self, chromium: object, folder: Path) -> None:
        self._chromium, self._folder = chromium, folder

    def visit(
        self, path: Path, width: int = LAPTOP, scheme: str = "light", act: Callable[[Any], object] | None = None
    ) -> Visit:
        """Open the file and do something there; the picture of the whole page is written to the folder."""
        phone = width <= WIDEST_PHONE
        context = self._chromium.new_context(
            viewport={"width": width, "height": 844 if phone else 800},
            is_mobile=phone,
            device_scale_factor=2 if phone else 1,
            service_workers="block",
            color_scheme=scheme,
        )
        try:
            return self._read(context.new_page(), path, width, scheme, act)
        finally:
            context.close()

    def _read(self, page, path: Path, width: int, scheme: str, act) -> Visit:
        address, requests, console = path.resolve().as_uri(), [], []

        def meet(route) -> None:
            if route.request.url.split("#")[0] == address:
                route.continue_()
            else:
                requests.append(route.request.url)
                route.abort()

        page.route("**/*", meet)
        page.on("websocket", lambda socket: requests.append(socket.url))
        page.on("console", lambda message: console.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: console.append(f"error: {error}"))
        page.goto(address, wait_until="load")
        if act is not None:
            act(page)
        picture = self._folder / f"{path.stem}-{width}-{scheme}.png"
        photograph(page, picture)
        return Visit(
            requests,
            console,
            page.locator("h1, h2").all_inner_texts(),
            page.locator("body").inner_text(),
            page.evaluate("document.documentElement.scrollWidth"),
            page.evaluate(SMALLEST_TEXT),
            picture,
        )


def photograph(page, picture: Path, tries: int = 3) -> None:
    """The whole page as a picture. A browser short of memory refuses one now and then; what is asked here
    is whether the page can be drawn, so it is asked again before that is called a failure."""
    from playwright.sync_api import Error

    for left in reversed(range(tries)):
        try:
            page.screenshot(path=picture, full_page=True)
            return
        except Error:
            if not left:
                raise
            page.wait_for_timeout(500)


@contextmanager
def open_chromium() -> Iterator[Any]:
    """A browser of the system; where there is none the test is skipped."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        skip_or_fail(MISSING)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # The sandbox of the browser does not start for root, and the pages are our own. Pictures go through
        # the disk, not through shared memory: containers have little of that.
        chromium = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        try:
            yield chromium
        finally:
            chromium.close()


@contextmanager
def open_browser(folder: Path) -> Iterator[Browser]:
    """A browser of the system, with pictures going to the folder."""
    with open_chromium() as chromium:
        yield Browser(chromium, folder)


def skip_or_fail(sentence: str) -> None:
    """A test that misses its browser says so; where one is required that is a failure."""
    if os.environ.get("SCDP_REQUIRE_BROWSER"):
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)
