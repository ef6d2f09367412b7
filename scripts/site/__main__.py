# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m scripts.site TOOLS FOLDER`: build the site into FOLDER, and fail on a dead link.

TOOLS is the folder of the programs of requirements/docs.txt. The build needs no network.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.site import links
from scripts.site.sources import Sources

REPOSITORY = Path(__file__).resolve().parents[2]
COLLECTION = "wattwise.kube"
# The theme shows the contents of each page beside it.
_CONTENTS = re.compile(r"^\.\. contents::.*\n(?: +:.*\n)*", re.MULTILINE)
# Entries of the navigation, which else have the whole titles of their pages.
_ENTRY = re.compile(r"^    (\w+)_(module|filter|inventory|role)$", re.MULTILINE)
# Faults of the generated pages for screen readers and keyboards, as axe-core names them.
_REPAIRS = {
    'role="heading"': 'role="heading" aria-level="2"',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Pages">',
    '<aside class="toc-drawer': '<aside aria-label="This page" class="toc-drawer',
    '<th class="head"><p></p></th>': "<td></td>",
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    "<pre>": '<pre tabindex="0">',
    ' aria-role="button"': "",
    '<div id="search-results">': '<h1>Search</h1>\n<div id="search-results">',
}


def main(arguments: Sequence[str]) -> int:
    tools, site = map(Path, arguments)
    with tempfile.TemporaryDirectory() as temporary:
        sources = Path(temporary) / "sources"
        Sources(REPOSITORY, sources).write()
        plugins = sources / "reference" / "plugins"
        plugins.mkdir(mode=0o755)
        options = ("--use-current", "--squash-hierarchy", "--fail-on-error")
        _run(tools, "antsibull-docs", "collection", *options, f"--dest-dir={plugins}", COLLECTION)
        for page in sources.rglob("*.rst"):
            text = _CONTENTS.sub("", page.read_text("utf-8"))
            page.write_text(_ENTRY.sub(r"    \1 (\2) <\1_\2>", text), encoding="utf-8")
        shutil.rmtree(site, ignore_errors=True)
        settings = str(Path(__file__).parent)
        # -W --keep-going: a warning is an error, after all are shown.
        flags = ("-q", "-E", "-W", "--keep-going", "-j", "auto", "-b", "html", "-c", settings)
        doctrees = str(Path(temporary) / "doctrees")
        _run(tools, "sphinx-build", *flags, "-d", doctrees, str(sources), str(site))
    for page in site.rglob("*.html"):
        _repair(page)
    problems = links.problems(site)
    print("\n".join(problems) or f"{site / 'index.html'}: every link leads somewhere")
    return 1 if problems else 0


def _repair(page: Path) -> None:
    text = page.read_text("utf-8")
    for fault, repair in _REPAIRS.items():
        text = text.replace(fault, repair)
    page.write_text(text, encoding="utf-8")


def _run(tools: Path, program: str, *arguments: str) -> None:
    path = f"{tools}{os.pathsep}{os.environ['PATH']}"
    command = [str(tools / program), *arguments]
    if subprocess.run(command, env={**os.environ, "PATH": path}, check=False).returncode != 0:
        raise SystemExit(f"{program} failed, see above")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
