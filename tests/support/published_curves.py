# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of published measurements for users whose servers it does not contain."""

from __future__ import annotations

import shutil
import typing as t
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.published.curves import Row, table
from ansible_collections.wattwise.kube.plugins.module_utils.published.processors import (
    processor_name,
    without_tier,
)
from lab.machines import SERVER_TYPES
from support.playbook import COLLECTIONS

_TABLE = Path("plugins/module_utils/published/table.py")
# The parts of the collection that playbooks need.
_PARTS = ("galaxy.yml", "meta", "playbooks", "plugins", "roles", "schemas")


def is_of_the_lab(processor: str) -> bool:
    """Whether a processor of the table is one of the lab's server types."""
    names = {without_tier(processor_name(kind.processor)) for kind in SERVER_TYPES.values()}
    return without_tier(processor).startswith(tuple(names))


def without_the_lab_s() -> list[Row]:
    """The table without the measurements of the lab's processors."""
    return [row for row in table() if not is_of_the_lab(row.processor)]


def collection_without_the_lab_s(folder: Path) -> Path:
    """A copy of the collection with that table; returns the folder in which Ansible finds it."""
    source = COLLECTIONS / "ansible_collections" / "wattwise" / "kube"
    copy = folder / "ansible_collections" / "wattwise" / "kube"
    copy.mkdir(parents=True)
    for part in _PARTS:
        if (source / part).is_dir():
            shutil.copytree(source / part, copy / part, ignore=shutil.ignore_patterns("*.pyc"))
        else:
            shutil.copy2(source / part, copy / part)
    (copy / _TABLE).write_text("\n".join(_lines_without_the_lab_s(copy / _TABLE)) + "\n")
    return folder


def _lines_without_the_lab_s(path: Path) -> t.Iterator[str]:
    """Lines without the lab's processors; a line begins with the name of its processor."""
    measured = {row.processor for row in table()}
    for line in path.read_text(encoding="utf-8").splitlines():
        name = line.partition(" ")[0]
        if name not in measured or not is_of_the_lab(name):
            yield line
