# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation pages and their fenced blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block; `kind` is the text after its first three backticks."""

    page: str
    number: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}, block {self.number}"

    @property
    def language(self) -> str:
        return self.kind.partition(" ")[0]

    @property
    def commands(self) -> list[str]:
        """Commands of a console block, without their output."""
        return [line[2:] for line in self.text.splitlines() if line.startswith("$ ")]


def pages() -> list[str]:
    """Paths of the pages, relative to the repository."""
    found = [ROOT / "README.md", ROOT / "lab" / "README.md"]
    found += sorted((ROOT / "docs").rglob("*.md"))
    found += sorted((ROOT / "roles").glob("*/README.md"))
    return [str(path.relative_to(ROOT)) for path in found]


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks() -> list[Block]:
    """All blocks of all pages, in order."""
    return [
        Block(page, number, kind.strip(), text)
        for page in pages()
        for number, (kind, text) in enumerate(_BLOCK.findall(text_of(page)), 1)
    ]


def prose(page: str) -> str:
    """The page without its blocks."""
    return _BLOCK.sub("", text_of(page))
