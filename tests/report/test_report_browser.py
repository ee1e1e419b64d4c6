"""The page in headless Chromium, where that is installed: no error, no request, nothing cut off, and keys that work."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jitmod.report.html.page import render

playwright = pytest.importorskip("playwright.sync_api", exc_type=ImportError)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


class Opened:
    """A page opened from its file, with what the console and the network saw."""

    def __init__(self, browser: Any, path: Path, width: int = 1280, scheme: str = "light") -> None:
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.said, self.asked = list[str](), list[str]()
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("dialog", lambda dialog: (self.said.append("a dialog"), dialog.dismiss()))
        self.page.goto(path.as_uri())

    def quiet(self) -> bool:
        return not self.said and [url for url in self.asked if not url.startswith("data:")] == [self.page.url]


@pytest.fixture
def path(tmp_path: Path, report: dict[str, Any]) -> Path:
    (tmp_path / "report.html").write_text(render(report), encoding="utf-8")
    return tmp_path / "report.html"


@pytest.mark.parametrize("width", [1280, 390])
def test_it_opens_in_light_and_dark(browser: Any, path: Path, width: int) -> None:
    shots = {}
    for scheme in ("light", "dark"):
        opened = Opened(browser, path, width, scheme)
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        shots[scheme] = opened.page.screenshot(path=path.with_name(f"{scheme}.png"), full_page=True)
        paper = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (min(map(int, paper[4:-1].split(","))) > 200) is (scheme == "light")
        assert opened.page.locator("svg[role=img]").first.bounding_box()["height"] > 50
        assert opened.quiet(), (opened.said, opened.asked)
    assert shots["light"] != shots["dark"] and min(map(len, shots.values())) > 10_000


def test_hostile_text_does_nothing(browser: Any, tmp_path: Path, hostile: dict[str, Any]) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(render(hostile), encoding="utf-8")
    opened = Opened(browser, path, 390)
    assert opened.page.locator("script").count() == 2 and opened.page.locator("img").count() == 0
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert opened.quiet(), (opened.said, opened.asked)


def test_scripts_that_get_in_do_not_run(browser: Any, path: Path) -> None:
    spoiled = path.read_text(encoding="utf-8").replace("</main>", "<script>document.title = 'x'</script></main>")
    path.write_text(spoiled, encoding="utf-8")
    opened = Opened(browser, path)
    assert opened.page.title().startswith("jitmod: ") and any("Content Security Policy" in text for text in opened.said)


def test_keys_go_from_patch_to_patch(browser: Any, path: Path) -> None:
    opened = Opened(browser, path)
    focused = "document.activeElement.textContent"
    for key, place in (("j", ":3:5"), ("j", ":9:5"), ("j", ":15:5"), ("j", ":15:5"), ("k", ":9:5")):
        opened.page.keyboard.press(key)
        assert place in opened.page.evaluate(focused)
    opened.page.keyboard.press("Tab")
    assert opened.page.evaluate("document.activeElement.tagName") == "SUMMARY"
    assert opened.quiet()


def test_patches_are_shown_by_verdict(browser: Any, path: Path) -> None:
    opened = Opened(browser, path)
    assert opened.page.locator("article[data-verdict]:visible").count() == 3
    opened.page.get_by_role("button", name="rejected").press("Enter")
    assert opened.page.locator("article[data-verdict]:visible").count() == 1
    assert opened.page.locator(".patches tbody tr:visible").count() == 1
    opened.page.get_by_role("button", name="all").click()
    assert opened.page.locator("article[data-verdict]:visible").count() == 3


def test_what_is_printed_is_complete(browser: Any, path: Path) -> None:
    opened = Opened(browser, path)
    assert opened.page.locator("details:not([open])").count() > 0
    opened.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert opened.page.locator("details:not([open])").count() == 0
    opened.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert opened.page.locator("details:not([open])").count() > 0
    assert opened.page.pdf().startswith(b"%PDF") and opened.quiet()


def test_the_run_is_saved(browser: Any, path: Path, report: dict[str, Any]) -> None:
    opened = Opened(browser, path)
    with opened.page.expect_download() as download:
        opened.page.locator("#save").click()
    assert json.loads(Path(download.value.path()).read_text(encoding="utf-8")) == report
