# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run ansible-inventory as a user would, with the collection of this tree."""

from __future__ import annotations

import json
import subprocess
import typing as t
from dataclasses import dataclass
from pathlib import Path

import yaml

from support.playbook import PYTHON, environment

Json = dict[str, t.Any]


@dataclass(frozen=True)
class InventoryRun:
    """Output and exit status of ansible-inventory."""

    returncode: int
    output: str
    messages: str

    @property
    def hosts(self) -> Json:
        """Variables by host."""
        return t.cast("Json", _plain(json.loads(self.output)["_meta"]["hostvars"]))

    def members(self, group: str) -> list[str]:
        return sorted(json.loads(self.output).get(group, {}).get("hosts", []))

    @property
    def groups(self) -> set[str]:
        return set(json.loads(self.output)) - {"_meta", "all", "ungrouped"}


def _plain(value: t.Any) -> t.Any:
    """The value without ansible-inventory's marks on unsafe texts."""
    if isinstance(value, dict):
        if value.keys() == {"__ansible_unsafe"}:
            return value["__ansible_unsafe"]
        return {key: _plain(member) for key, member in value.items()}
    return [_plain(member) for member in value] if isinstance(value, list) else value


def run_inventory(folder: Path, name: str = "node_configs.yml", **options: t.Any) -> InventoryRun:
    """List the hosts of an inventory file of our plugins; ``variables`` go to the environment.

    The plugin is node_configs unless ``plugin`` names another one.
    """
    variables = options.pop("variables", {})
    plugin = f"wattwise.kube.{options.pop('plugin', 'node_configs')}"
    path = folder / name
    path.write_text(yaml.safe_dump({"plugin": plugin, **options}))
    done = subprocess.run(
        [PYTHON, "-m", "ansible", "inventory", "-i", str(path), "--list"],
        cwd=folder,
        env=environment(ANSIBLE_INVENTORY_UNPARSED_FAILED="true", **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return InventoryRun(done.returncode, done.stdout, done.stderr)
