# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plays as data."""

from __future__ import annotations

from bench.kit.rows import Json


def play(task: Json) -> list[Json]:
    """A play of one task on localhost."""
    return [{"hosts": "localhost", "gather_facts": False, "tasks": [{"name": "Bench", **task}]}]


def nothing() -> list[Json]:
    """A playbook that does nothing, for its fixed cost."""
    return play({"ansible.builtin.debug": {"msg": "nothing"}})


def import_alone(_parameters: Json) -> None:
    """A call that does nothing after its imports, for its fixed cost."""
