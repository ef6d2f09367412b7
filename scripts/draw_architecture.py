# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw docs/project/architecture.md from the imports between the library's rooms: `--check` only compares.

The picture is a Mermaid diagram. Thin arrows are imports; imports implied by others are left out.
Thick arrows are the flow of data through a run. The table of rooms comes from their docstrings.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping, Set
from pathlib import Path

import grimp

REPOSITORY = Path(__file__).resolve().parent.parent
PAGE = REPOSITORY / "docs" / "project" / "architecture.md"
LIBRARY = "ansible_collections.wattwise.kube.plugins.module_utils"
FOLDER = REPOSITORY / "plugins" / "module_utils"
BEGIN, END = "<!-- drawn: {} -->", "<!-- end: {} -->"
# Flow of data in a run: from room, to room, and the document that keeps the data.
DATA = (
    ("snapshot", "observe", "snapshot.json"),
    ("observe", "inference", "readings.json"),
    ("inference", "power", "curves.json"),
    ("power", "bind", "plan.json"),
    ("bind", "report", "bindings.json"),
)

Imports = Mapping[str, Set[str]]


def imports_between_rooms() -> dict[str, set[str]]:
    """Room → rooms that its files import at run time."""
    graph = grimp.build_graph(LIBRARY, exclude_type_checking_imports=True, cache_dir=None)
    rooms = {room: path for path in graph.find_children(LIBRARY) if (room := path.split(".")[-1])}
    del rooms["module_runner"]
    for path in rooms.values():
        graph.squash_module(path)
    return {
        room: {
            other
            for imported in graph.find_modules_directly_imported_by(path)
            if (other := imported.removeprefix(f"{LIBRARY}.")) in rooms
        }
        for room, path in rooms.items()
    }


def reach(imports: Imports, room: str) -> set[str]:
    """All rooms that a room imports, directly or indirectly."""
    found: set[str] = set()
    for other in imports[room]:
        found |= {other} | reach(imports, other)
    return found


def needed(imports: Imports) -> dict[str, set[str]]:
    """The imports that are not implied by others."""
    return {
        room: {
            other
            for other in others
            if not any(other in reach(imports, between) for between in others)
        }
        for room, others in imports.items()
    }


def layers(imports: Imports) -> list[list[str]]:
    """The rooms, the lowest layer first: each is one above the highest room that it imports."""
    heights: dict[str, int] = {}

    def height(room: str) -> int:
        if room not in heights:
            heights[room] = 1 + max(map(height, imports[room]), default=-1)
        return heights[room]

    highest = max(map(height, imports))
    return [
        sorted(room for room in imports if height(room) == level) for level in range(highest + 1)
    ]


def diagram(imports: Imports) -> str:
    """The Mermaid diagram of the rooms."""
    lines = ["```mermaid", "flowchart BT"]
    for rooms in layers(imports):
        lines += [f"  {room}[{room}]" for room in rooms]
    for room, others in sorted(needed(imports).items()):
        lines += [f"  {other} --> {room}" for other in sorted(others)]
    lines += [f"  {start} =={document}==> {end}" for start, end, document in DATA]
    return "\n".join([*lines, "```"])


def purpose(folder: Path) -> str:
    """The first sentence of a room's docstring."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    return (text or "").splitlines()[0]


def table(imports: Imports) -> str:
    """The rooms from top to bottom, their subrooms, and their numbers of files."""
    lines = ["| room | holds | files |", "| --- | --- | --- |"]
    for room in (room for rooms in reversed(layers(imports)) for room in rooms):
        folders = [FOLDER / room]
        folders += sorted(path.parent for path in (FOLDER / room).glob("*/__init__.py"))
        for folder in folders:
            files = len(list(folder.glob("*.py"))) - 1
            name = folder.relative_to(FOLDER).as_posix()
            lines.append(f"| `{name}` | {purpose(folder)} | {files} |")
    return "\n".join(lines)


def drawn(page: str) -> str:
    """The page with both parts redrawn."""
    imports = imports_between_rooms()
    for name, content in (("diagram", diagram(imports)), ("table", table(imports))):
        begin, end = BEGIN.format(name), END.format(name)
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}\n{content}\n{end}{after}"
    return page


def main(arguments: list[str]) -> int:
    """Exit status 1 if the page is out of date."""
    page = PAGE.read_text(encoding="utf-8")
    new = drawn(page)
    if "--check" not in arguments:
        PAGE.write_text(new, encoding="utf-8")
    elif new != page:
        print("docs/project/architecture.md is not drawn from these imports; run make architecture")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
