# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests measure of a page in Chromium."""

from __future__ import annotations

import importlib.resources
import os
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

BUILD = Path(os.environ["WATTWISE_REPOSITORY"]) / "build"
PICTURES = BUILD / "pictures"
_LUMINANCE = """(() => {
    const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number);
    return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
})()"""


def luminance(page: Page) -> float:
    """Of the background, from 0 to 1."""
    return float(page.evaluate(_LUMINANCE))


def violations(page: Page) -> list[Any]:
    """axe-core's findings, by rule and place."""
    script = importlib.resources.files("axe_playwright_python").joinpath("axe.min.js").read_text()
    page.add_script_tag(content=script)
    # Without what passed, which nobody reads, a long page takes a third less time.
    found: list[Any] = page.evaluate(
        "axe.run({resultTypes: ['violations']}).then(result => result.violations.map(rule =>"
        " [rule.id, rule.nodes.length, rule.nodes[0].failureSummary, rule.nodes[0].html]))"
    )
    return found
