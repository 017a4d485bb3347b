"""The pages in a real browser: keyboard only, undo, two people at once, a phone, and no request that leaves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from browser import LAPTOP, PHONE, open_chromium
from review_site import running
from scdp.table.decisions import read_decisions


@pytest.fixture(scope="module")
def chromium():
    with open_chromium() as opened:
        yield opened


class Window:
    """One person's window; requests to anywhere else are refused and remembered, and so are complaints."""

    def __init__(self, chromium, address: str, width: int = LAPTOP, scheme: str = "light") -> None:
        phone = width == PHONE
        self.context = chromium.new_context(
            viewport={"width": width, "height": 844}, is_mobile=phone, color_scheme=scheme
        )
        self.page = self.context.new_page()
        self.left: list[str] = []
        self.complaints: list[str] = []
        home = address.split("/?")[0]

        def meet(route) -> None:
            if route.request.url.startswith(f"{home}/"):
                route.continue_()
            else:
                self.left.append(route.request.url)
                route.abort()

        self.page.route("**/*", meet)
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address)

    def press(self, *keys: str) -> None:
        """Answer by keys; the last one sends the answer, and the next page is waited for."""
        for key in keys[:-1]:
            self.page.keyboard.press(key)
        with self.page.expect_navigation():
            self.page.keyboard.press(keys[-1])

    def click(self, button: str) -> None:
        """Press a button of that name and wait for the next page."""
        with self.page.expect_navigation():
            self.page.get_by_role("button", name=button).click()

    @property
    def question(self) -> str | None:
        found = re.search(r'name="question" value="(\d+)"', self.page.content())
        return None if found is None else found[1]

    def close(self) -> None:
        assert self.left == []
        assert self.complaints == []
        self.context.close()


def test_twenty_groups_by_keyboard_then_undo_and_come_back(chromium, tmp_path: Path):
    with running(tmp_path, n_blocks=20) as (site, address):
        window = Window(chromium, address)
        for number in range(20):
            # All the same, all different, the first two alone, cannot tell.
            groups = window.page.locator("input[name=group-1]").count() > 0
            keys = [["s"], ["d"], ["2", "Enter"] if groups else ["s"], ["c"]][number % 4]
            window.press(*keys)
        assert site.session.n_answers == 20
        lines = read_decisions(site.session.log.path)
        asked = window.question
        window.press("u")
        assert "Taken back" in window.page.inner_text("body")
        assert window.question not in (asked, None)
        assert len(read_decisions(site.session.log.path)) == len(lines) - 1
        window.press("d")
        window.close()
    with running(tmp_path, n_blocks=20) as (site, address):
        window = Window(chromium, address)
        assert len(site.session.log.decisions) >= len(lines) - 1
        assert site.session.log.path.read_text().count("tester") >= len(lines) - 1
        window.close()


def test_a_digit_moves_a_record_and_enter_sends_the_groups(chromium, tmp_path: Path):
    with running(tmp_path) as (site, address):
        window = Window(chromium, address)
        assert window.page.locator("input[name=group-2]").count() == 3
        window.press("3", "Enter")
        # Record 3 went to group A, with record 1; record 2 stayed alone.
        (same,) = [one for one in site.session.log.decisions if one.decision == "same"]
        (different,) = [one for one in site.session.log.decisions if one.decision == "different"]
        posed = site.session.people[next(iter(site.session.people))].given[0].posed
        ids = [site.session.log.ids[row] for row in posed.question.rows]
        assert same.ids == (ids[0], ids[2])
        assert different.ids == (ids[0], ids[1])
        window.close()


def test_review_splits_and_merges_and_shows_the_effect(chromium, tmp_path: Path):
    with running(tmp_path, preset=True) as (site, address):
        window = Window(chromium, address)
        page, home = window.page, address.split("/?")[0]
        beliefs = site.session.beliefs
        row = next(row for row in range(36) if len(beliefs.members_of(row)) > 1)
        n = len(beliefs.members_of(row))
        page.goto(f"{home}/cluster?row={row}")
        assert f": {n} records" in page.inner_text("h2 >> nth=0")
        page.locator("input[type=checkbox]").last.check()
        window.click("Split off")
        assert f": {n - 1} records" in page.inner_text("h2 >> nth=0")
        other = next(other for other in range(36) if other // 3 != row // 3)
        page.goto(f"{home}/pair?a={row}&b={other}")
        window.click("The same")
        assert f": {n - 1} records" not in page.inner_text("h2 >> nth=0")
        for _ in range(2):
            window.click("Undo")
        page.goto(f"{home}/cluster?row={row}")
        assert f": {n} records" in page.inner_text("h2 >> nth=0")
        page.goto(f"{home}/")
        window.press("Enter")
        assert len(read_decisions(site.session.log.path)) >= 1
        window.close()


def tab_to(page, selector: str, most: int = 200) -> None:
    """Move the focus by Tab alone."""
    # Keys that come before a new page has the keyboard go nowhere, and a busy machine is slow to give it.
    page.bring_to_front()
    page.wait_for_function("document.readyState == 'complete' && document.hasFocus()")
    met = []
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("wanted => document.activeElement.matches(wanted)", selector):
            return
        met.append(page.evaluate("document.activeElement.outerHTML.slice(0, 60)"))
    raise AssertionError(f"Tab does not reach {selector}, but {met}")


def test_a_review_by_keyboard_alone(chromium, tmp_path: Path):
    """From the questions to the clusters, into one, tick a record, split it off, undo, and back: no mouse."""
    with running(tmp_path, preset=True) as (site, address):
        window = Window(chromium, address)
        page = window.page
        tab_to(page, 'a[href="/clusters"]')
        window.press("Enter")
        tab_to(page, 'a[href^="/cluster?row="]')
        window.press("Enter")
        n = int(re.search(r": (\d+) records", page.inner_text("h2 >> nth=0"))[1])
        tab_to(page, "input[type=checkbox]")
        page.keyboard.press("Space")
        tab_to(page, 'button[value="split"]')
        window.press("Enter")
        assert "Kept." in page.inner_text("body")
        (kept,) = {one.decision for one in read_decisions(site.session.log.path)} - {"same"}
        assert kept == "different"
        window.press("u")
        assert "Taken back" in page.inner_text("body")
        assert read_decisions(site.session.log.path) == []
        tab_to(page, 'a[href="/clusters"]')
        window.press("Enter")
        tab_to(page, "input[type=search]")
        page.keyboard.type("person 2 city")
        window.press("Enter")
        assert "r6" in page.inner_text("table")
        assert n > 1
        window.close()


def test_two_people_at_once_see_different_questions(chromium, tmp_path: Path):
    with running(tmp_path, n_blocks=16) as (site, address):
        windows = [Window(chromium, address), Window(chromium, address)]
        for number, window in enumerate(windows):
            window.page.fill("input[name=name]", f"person {number}")
            window.click("Save")
        for _ in range(5):
            assert windows[0].question != windows[1].question
            for window in windows:
                window.press("d")
        who = [one.who for one in read_decisions(site.session.log.path)]
        assert who.count("person 0") == who.count("person 1") == 5
        for window in windows:
            window.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, LAPTOP])
def test_pages_fit_the_screen(chromium, tmp_path: Path, width: int, scheme: str):
    with running(tmp_path) as (_, address):
        window = Window(chromium, address, width, scheme)
        home = address.split("/?")[0]
        for path in ("/", "/clusters", "/cluster?row=0", "/pair?a=0&b=1"):
            window.page.goto(home + path)
            assert window.page.evaluate("document.documentElement.scrollWidth") <= width
            # What is to be pressed is within the window, and a finger finds it.
            for button in window.page.locator("main button").all():
                box = button.bounding_box()
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= width
                assert box["height"] >= 44
            if path == "/" and width == PHONE:
                send = window.page.locator("form.question button").last.bounding_box()
                assert send["y"] + send["height"] <= 844
            dark = window.page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (sum(map(int, re.findall(r"\d+", dark)[:3])) < 200) == (scheme == "dark")
        window.close()


def test_a_strange_page_cannot_answer(chromium, tmp_path: Path):
    """A page of another origin posts a form to the server, with the cookie in the browser: nothing changes."""
    with running(tmp_path) as (site, address):
        window = Window(chromium, address)
        home, number = address.split("/?")[0], window.question
        other = window.context.new_page()
        other.set_content(
            f'<form method="post" action="{home}/answer"><input name="question" value="{number}">'
            '<button name="action" value="same">go</button></form>'
        )
        with other.expect_navigation():
            other.click("button")
        assert "another site" in other.inner_text("body") or "token" in other.inner_text("body")
        assert site.session.n_answers == 0
        window.close()
