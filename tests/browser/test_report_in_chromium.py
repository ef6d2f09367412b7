# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as users see it: in Chromium, light and dark, from a phone to a wall, and on paper.

Pictures of every case go to build/pictures.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from ansible_collections.wattwise.kube.plugins.module_utils.report.building import build_from
from ansible_collections.wattwise.kube.plugins.module_utils.report.page import page as html_page
from scripts import chromium
from support.browser import PICTURES, luminance, violations
from support.report_documents import Case, write

CASES = {
    "measured": Case(
        nodes=50, pods=300, daemons=6, devices=6, metered=5, steps=5, sleeping=9, limited=True
    ),
    "pending": Case(nodes=30, waiting=7, lacking=4, read_again=False),
    "planned": Case(bound=False, baseline=False),
    "observed": Case(pods=0, bound=False, baseline=False, daemons=2, devices=1),
    "unread": Case(pods=0, bound=False, baseline=False, lacking=20),
    "hostile": Case(
        nodes=30,
        waiting=7,
        lacking=4,
        daemons=4,
        devices=3,
        metered=3,
        steps=5,
        sleeping=3,
        limited=True,
        suffix="-" + "<b>wide" * 20,
    ),
    "large": Case(nodes=210, racks=25, pods=3000, waiting=30, lacking=12),
}
WINDOWS = {"phone": (360, 740), "desktop": (1280, 860), "wall": (3840, 2160)}

# Elements that end to the right of the window, and boxes that hide a part of their text.
OVERFLOWING = """[...document.querySelectorAll('body *')].filter(element => {
    const style = getComputedStyle(element), box = element.getBoundingClientRect();
    if (element.closest('.hidden, svg, .stack thead, .dense') || box.width === 0)
        return false;
    return box.right > innerWidth + 1 ||
        (style.display !== 'inline' && element.scrollWidth > element.clientWidth + 1);
}).map(element => element.tagName + '.' + element.className + ': ' + element.textContent)"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of each case."""
    folder = tmp_path_factory.mktemp("reports")
    paths = {}
    for name, case in CASES.items():
        report = build_from(str(write(folder / name, case)), title="hall-1")
        paths[name] = folder / f"{name}.html"
        paths[name].write_text(html_page(report), encoding="utf-8")
    return paths


@pytest.mark.parametrize(
    ("name", "window"),
    [
        *((name, "phone") for name in CASES),
        *((name, "desktop") for name in ("measured", "hostile", "large")),
        ("measured", "wall"),
    ],
)
def test_nothing_is_wider_than_its_window(
    browser: Browser, reports: dict[str, Path], name: str, window: str
) -> None:
    width, height = WINDOWS[window]
    with chromium.shown(browser, reports[name], width, height, "light") as page:
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(OVERFLOWING) == []


@pytest.mark.parametrize(
    ("name", "window", "scheme"),
    [
        *((name, "desktop", "light") for name in CASES),
        *((name, "desktop", "dark") for name in CASES if name != "large"),
        ("measured", "phone", "light"),
        ("hostile", "phone", "dark"),
    ],
)
def test_axe_finds_nothing_and_the_scheme_is_the_reader_s(
    browser: Browser, reports: dict[str, Path], name: str, window: str, scheme: chromium.Scheme
) -> None:
    with chromium.shown(browser, reports[name], *WINDOWS[window], scheme) as page:
        page.screenshot(path=PICTURES / f"{name}-{window}-{scheme}.png")
        is_light = luminance(page) > 0.5
        assert is_light == (scheme == "light")
        assert violations(page) == []


def test_the_first_screen_says_how_many_watts_and_why(
    browser: Browser, reports: dict[str, Path]
) -> None:
    with chromium.shown(browser, reports["measured"], *WINDOWS["desktop"], "light") as page:
        for text in ("saved", "Default scheduler", "The load went to"):
            box = page.get_by_text(text).first.bounding_box()
            assert box is not None and box["y"] + box["height"] < WINDOWS["desktop"][1], text


def test_a_page_asks_for_nothing_and_needs_no_script(
    browser: Browser, reports: dict[str, Path]
) -> None:
    asked: list[str] = []
    complaints: list[str] = []
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(reports["hostile"].as_uri())
    assert asked == [reports["hostile"].as_uri()]
    assert complaints == []
    page.get_by_text("60 pods", exact=True).first.click()
    assert page.get_by_text("shop/web-0-").first.is_visible()
    context.close()


def test_paper_shows_what_is_folded_and_no_links(
    browser: Browser, reports: dict[str, Path]
) -> None:
    with chromium.shown(browser, reports["measured"], *WINDOWS["desktop"], "dark") as page:
        name = page.get_by_text("shop/web-0-7d9f8b6c5d-x2k4p").first
        assert not name.is_visible()
        page.emulate_media(media="print")
        assert luminance(page) > 0.9
        assert not page.locator("nav").is_visible()
        assert name.is_visible()
        page.pdf(path=PICTURES / "measured.pdf", format="A4")
