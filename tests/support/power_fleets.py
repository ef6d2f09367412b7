# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PowerFleets as an API server stores them: every default of the definition is filled in."""

from __future__ import annotations

import copy
import typing as t
from functools import cache
from pathlib import Path

import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import (
    API_VERSION,
    PowerFleet,
    parse,
)

Json = dict[str, t.Any]

DEFINITION = (
    Path(__file__).resolve().parents[2] / "roles/crds/files/wattwise.github.io_powerfleets.yaml"
)


@cache
def schema(part: str = "spec") -> Json:
    """The schema of spec or status."""
    definition = yaml.safe_load(DEFINITION.read_text(encoding="utf-8"))
    [version] = definition["spec"]["versions"]
    return t.cast("Json", version["schema"]["openAPIV3Schema"]["properties"][part])


def defaulted(of: Json, given: t.Any) -> t.Any:
    """A value with the defaults of its schema, as the API server fills them in."""
    if not isinstance(given, dict):
        return given
    filled = dict(given)
    for name, member in of.get("properties", {}).items():
        if name not in filled and "default" in member:
            filled[name] = copy.deepcopy(member["default"])
        if name in filled:
            filled[name] = defaulted(member, filled[name])
    return filled


def manifest(name: str = "fleet", created: str = "2026-01-01T00:00:00Z", **spec: t.Any) -> Json:
    """A stored PowerFleet; keyword arguments are those of its spec."""
    return {
        "apiVersion": API_VERSION,
        "kind": "PowerFleet",
        "metadata": {
            "name": name,
            "namespace": "power",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "generation": 1,
            "creationTimestamp": created,
        },
        "spec": defaulted(schema(), spec),
    }


def parsed(obj: Json) -> PowerFleet:
    """The fleet, which can be read."""
    fleet = parse(obj)
    assert isinstance(fleet, PowerFleet), fleet
    return fleet


def fleet(name: str = "fleet", created: str = "2026-01-01T00:00:00Z", **spec: t.Any) -> PowerFleet:
    return parsed(manifest(name, created, **spec))
