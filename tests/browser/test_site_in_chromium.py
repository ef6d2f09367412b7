# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation site as readers see it, opened from the file system: a page of each kind.

Gate `site` builds it before this one. Pictures go to build/pictures.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from scripts import chromium
from support.browser import BUILD, PICTURES, luminance, violations

SITE = BUILD / "site"
PAGES = (
    *("index", "search", "start/which", "guides/placement", "operate/troubleshooting"),
    *("reference/inventory", "reference/roles/observe", "reference/plugins/kube_apply_module"),
    *("reference/kinds/wattwise.github.io_powerfleets", "project/architecture"),
    *("reference/documents/plan", "files/docs/rbac/placement.yaml"),
)
pytestmark = pytest.mark.skipif(
    not (SITE / "index.html").exists(), reason="build/site is missing; build it by: make site"
)


def path_of(page: str) -> Path:
    return SITE / f"{page}.html"


@pytest.mark.parametrize("page", PAGES)
def test_no_page_is_wider_than_a_phone(browser: Browser, page: str) -> None:
    with chromium.shown(browser, path_of(page), 390, 844, "light") as shown:
        shown.screenshot(path=PICTURES / f"site-{page.replace('/', '-')}-phone.png")
        assert shown.evaluate("document.documentElement.scrollWidth") == 390


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing_and_the_scheme_is_the_reader_s(
    browser: Browser, page: str, scheme: chromium.Scheme
) -> None:
    with chromium.shown(browser, path_of(page), 1280, 860, scheme) as shown:
        shown.screenshot(path=PICTURES / f"site-{page.replace('/', '-')}-{scheme}.png")
        assert (luminance(shown) > 0.5) == (scheme == "light")
        assert violations(shown) == []


def test_the_search_needs_no_server_and_loads_nothing_from_elsewhere(browser: Browser) -> None:
    asked: list[str] = []
    complaints: list[str] = []
    context = browser.new_context()
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text))
    page.goto((SITE / "index.html").as_uri())
    page.get_by_placeholder("Search").fill("extender")
    page.get_by_placeholder("Search").press("Enter")
    first = page.locator("#search-results li a").first
    first.wait_for()
    assert first.inner_text() == "Extender"
    first.click()
    page.wait_for_url("**/operate/extender.html**")
    assert [url for url in asked if not url.startswith(SITE.as_uri())] == []
    assert complaints == []
    context.close()
