# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The site's sources for Sphinx: our Markdown in one tree, and pages written from other files.

Links between the pages of the repository lead to their places in the tree. A link to a schema leads
to the page written from it, a link to a manifest or an example to a page that shows it, and any
other link to the repository on the web.
"""

from __future__ import annotations

import os
import re
import shutil
import zlib
from pathlib import Path

import yaml

from scripts.site import diagram, reference

# The name of the section in docs/README.md is the caption of the group in the navigation.
INDEX = "docs/README.md"
_FIXED = {INDEX: "index.md", "README.md": "start/overview.md", "lab/README.md": "project/lab.md"}
_LINK = re.compile(r"(?P<before>\]\()(?P<target>[^)\s]+)|(?P<html>src=\")(?P<source>[^\"]+)")
_FENCED = re.compile(r"^```(\w+).*?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PICTURE = re.compile(r"<picture>\s*<source [^>]*srcset=\"([^\"]+)\">\s*<img (.*?)src=", re.DOTALL)
_LANGUAGES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".service": "ini", ".timer": "ini"}


# Labels of Ansible's documentation that antsibull-docs refers to → pages there.
ANSIBLE_INVENTORY = "ansible.inv"
_ANSIBLE = {
    "action_plugins": "plugins/action.html Action plugins",
    "ansible_configuration_settings": "reference_appendices/config.html Ansible configuration",
    "ansible_collections.ansible.builtin.validate_argument_spec_module": (
        "collections/ansible/builtin/validate_argument_spec_module.html validate_argument_spec"
    ),
    "common_return_values": "reference_appendices/common_return_values.html Return values",
}


class Sources:
    """The tree of sources of one build."""

    def __init__(self, repository: Path, destination: Path) -> None:
        self._repository = repository
        self._destination = destination
        self._places = _places(repository)
        self._shown: set[str] = set()
        galaxy = yaml.safe_load((repository / "galaxy.yml").read_text("utf-8"))
        self._web = galaxy["repository"]

    def write(self) -> None:
        """Write all pages and copy the pictures."""
        for path, place in self._places.items():
            text = (self._repository / path).read_text("utf-8")
            self._write(place, self._page(path, text))
        for place, text in reference.pages(self._repository).items():
            self._write(place, text)
        index = (self._repository / INDEX).read_text("utf-8")
        self._write("index.md", self._page(INDEX, index) + self._navigation(index))
        shutil.copytree(self._repository / "docs" / "images", self._destination / "images")
        shutil.copy(self._repository / "CHANGELOG.rst", self._destination / "project")
        (self._destination / ANSIBLE_INVENTORY).write_bytes(_ansible_inventory())

    def _write(self, place: str, text: str) -> None:
        path = self._destination / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _page(self, path: str, text: str) -> str:
        """The text of a page of the repository with links for its place in the tree."""
        text = _PICTURE.sub(
            r'<img class="only-dark" alt="" src="\1">\n<img class="only-light" \2src=', text
        )
        text = text.replace("</picture>", "")
        parts = []
        end = 0
        for block in _FENCED.finditer(text):
            parts += [self._linked(path, text[end : block.start()]), _block(block[1], block[2])]
            end = block.end()
        return "".join(parts) + self._linked(path, text[end:])

    def _linked(self, path: str, text: str) -> str:
        def link(match: re.Match[str]) -> str:
            target = match["target"] or match["source"]
            return (match["before"] or match["html"]) + self._target(path, target)

        return _LINK.sub(link, text)

    def _target(self, path: str, target: str) -> str:
        """Where a link on the page `path` leads in the site."""
        name, hash_sign, anchor = target.partition("#")
        if "://" in name or not name:
            return target
        aim = os.path.normpath(Path(path).parent / name)
        place = self._place(aim)
        if place is None:
            kind = "tree" if (self._repository / aim).is_dir() else "blob"
            return f"{self._web}/{kind}/main/{aim}"
        here = Path(self._places[path]).parent
        return os.path.relpath(place, here) + hash_sign + anchor

    def _place(self, aim: str) -> str | None:
        """The place of a file or folder of the repository in the tree; None if it has none."""
        if aim in self._places:
            return self._places[aim]
        if aim.startswith("docs/images/"):
            return aim.removeprefix("docs/")
        if aim == "CHANGELOG.rst":
            return "project/CHANGELOG.rst"
        if aim == "schemas":
            return reference.DOCUMENTS
        if aim.startswith("schemas/"):
            return reference.place_of_schema(Path(aim).stem)
        if aim.startswith(("docs/", "roles/")):
            return self._shown_file(aim)
        return None

    def _shown_file(self, aim: str) -> str:
        """The page that shows a file, or lists the files of a folder."""
        place = f"files/{aim}.md"
        if place in self._shown:
            return place
        self._shown.add(place)
        path = self._repository / aim
        if path.is_dir():
            files = sorted(str(item.relative_to(self._repository)) for item in path.iterdir())
            shown = [self._shown_file(item) for item in files]
            folder = Path(place).parent
            lines = [
                f"- [{item}]({os.path.relpath(page, folder)})"
                for item, page in zip(files, shown, strict=True)
            ]
            body = "\n".join(lines)
        else:
            language = _LANGUAGES.get(path.suffix, "text")
            body = f"````{language}\n{path.read_text('utf-8')}````"
        self._write(place, f"---\norphan: true\n---\n\n# {aim}\n\n{body}\n")
        return place

    def _navigation(self, index: str) -> str:
        """A hidden table of contents for each section of the index, in the order of its links."""
        groups = []
        for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
            caption, _newline, body = section.partition("\n")
            links = re.findall(r"^\| \[([^\]]+)\]\(([^)#]+)\)", body, re.MULTILINE)
            entries = [
                f"{title} <{Path(self._target(INDEX, link)).with_suffix('')}>"
                for title, link in links
            ]
            tree = "\n".join([*entries, *reference.NAVIGATION.get(caption, ())])
            groups.append(f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{tree}\n```\n")
        return "\n" + "\n".join(groups)


def _block(language: str, text: str) -> str:
    if language == "mermaid":
        return f'<div class="diagram-box" tabindex="0">\n{diagram.svg(text)}\n</div>'
    # The highlighter does not know CSV.
    return f"```{'text' if language == 'csv' else language}\n{text}```"


def _ansible_inventory() -> bytes:
    """Sphinx's list of labels of another site, for intersphinx without a download."""
    head = "# Sphinx inventory version 2\n# Project: ansible\n# Version: \n"
    head += "# The remainder of this file is compressed using zlib.\n"
    lines = "".join(f"{label} std:label -1 {aim}\n" for label, aim in _ANSIBLE.items())
    return head.encode() + zlib.compress(lines.encode())


def _places(repository: Path) -> dict[str, str]:
    """Each Markdown page of the repository with its place in the tree."""
    places = dict(_FIXED)
    for path in sorted((repository / "docs").glob("*/*.md")):
        places[str(path.relative_to(repository))] = f"{path.parent.name}/{path.name}"
    for path in sorted((repository / "roles").glob("*/README.md")):
        places[str(path.relative_to(repository))] = f"reference/roles/{path.parent.name}.md"
    return places
