# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine's Chromium: its path, its installation in CI, and pages shown in it.

`python -m scripts.chromium REPORT.html` renews the pictures of the documentation from the demo's
report; `… REPORT.html cache_ways devices` renews those of sections that are empty in the demo.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from scripts.debian import install_packages

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
# The font is the first in the page's list, so pictures are the same on every machine.
PACKAGES = ("chromium", "fonts-inter")
REMEDY = f"install it, on Debian by: apt-get install {' '.join(PACKAGES)}"
PICTURES = Path(__file__).resolve().parent.parent / "docs" / "images"

Scheme = Literal["light", "dark"]

FIRST_SCREENS: tuple[tuple[str, int, int, Scheme], ...] = (
    ("light", 1280, 800, "light"),
    ("dark", 1280, 800, "dark"),
    ("phone", 360, 720, "light"),
)
# Sections with the height of their pictures. The demo has no workloads of RMD and no devices.
DEMO_SECTIONS = ("temperatures", "power_curves")
HEIGHTS = {"temperatures": 520, "power_curves": 620, "cache_ways": 620, "devices": 760}


def find() -> str | None:
    """Path of the browser; None if there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def install() -> str | None:
    """Install the browser in CI; its path, or None."""
    install_packages(PACKAGES)
    return find()


@contextlib.contextmanager
def started(program: str) -> Iterator[Browser]:
    """A headless browser."""
    # Imported here because the gates import this file only to look for the program.
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program)
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def shown(
    browser: Browser, path: Path, width: int, height: int, scheme: Scheme, sharpness: float = 1
) -> Iterator[Page]:
    """A page in a window of this size, in which the caller may run scripts."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        device_scale_factor=sharpness,
        bypass_csp=True,
    )
    try:
        page = context.new_page()
        page.goto(path.absolute().as_uri())
        yield page
    finally:
        context.close()


def take_pictures(report: Path, folder: Path, sections: Sequence[str] = ()) -> None:
    """The pictures of README and docs: the first screen in both schemes, a phone, two sections.

    With ``sections``, only these, from a report in which they are not empty.
    """
    program = find()
    if program is None:
        raise SystemExit(f"There is no Chromium here; {REMEDY}")
    folder.mkdir(exist_ok=True)
    with started(program) as browser:
        for name, width, height, scheme in () if sections else FIRST_SCREENS:
            with shown(browser, report, width, height, scheme) as page:
                page.screenshot(path=folder / f"report-{name}.png")
        with shown(browser, report, 1280, 800, "light") as page:
            for section in sections or DEMO_SECTIONS:
                top = page.evaluate(f"document.getElementById({section!r}).offsetTop")
                page.screenshot(
                    path=folder / f"report-{section.replace('_', '-')}.png",
                    clip={"x": 0, "y": top, "width": 1280, "height": HEIGHTS[section]},
                    full_page=True,
                )


if __name__ == "__main__":
    take_pictures(Path(sys.argv[1]), PICTURES, sys.argv[2:])
