# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links of a folder of HTML pages: those that lead nowhere, and resources from other places."""

from __future__ import annotations

import os
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Links to these are loaded with the page, so they must be files of the site.
_LOADED = {"stylesheet", "icon", "preload", "modulepreload"}


class _Page(HTMLParser):
    """The anchors, links and resources of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors = {"", "top"}
        self.links: set[str] = set()
        self.resources: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        if tag == "link" and _LOADED & set(values.get("rel", "").split()):
            self.resources.add(values.get("href", ""))
        if "src" in values:
            self.resources.add(values["src"])
        for candidate in values.get("srcset", "").split(","):
            self.resources.update(candidate.split()[:1])


def problems(site: Path) -> list[str]:
    """A line for each dead link and each resource that is not a file of the site."""
    pages = {path: _Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        where = path.relative_to(site)
        for link in sorted(page.links | page.resources):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.resources and parts.scheme != "data":
                    found.append(f"{where}: {link} is loaded from another place")
                continue
            aim = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            if not aim.is_file():
                found.append(f"{where}: {link} leads to no file")
            elif aim in pages and unquote(parts.fragment) not in pages[aim].anchors:
                found.append(f"{where}: {link} leads to no anchor")
    return found
