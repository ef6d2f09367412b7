# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools of devices in the shapes of the k8srm prototype, for trials of device allocation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lab.errors import LabError

API_VERSION = "devmgmtproto.k8s.io/v1alpha1"
DEFAULT_NODES = 2

Pool = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """One kind of device, with the same number in each NUMA node."""

    driver: str
    model: str
    firmware: str
    count: int

    @property
    def word(self) -> str:
        return self.driver.removeprefix("example.com-")


@dataclass(frozen=True)
class Shape:
    """Devices of each node of a shape."""

    base: str
    numa_nodes: int
    kinds: tuple[Kind, ...]


def _foozer(model: str, firmware: str, count: int) -> Kind:
    return Kind("example.com-foozer", model, firmware, count)


def _barzer(count: int) -> Kind:
    return Kind("example.com-barzer", "barzer-1000", "1.1.1", count)


SHAPES = {
    "zero": Shape("shape-zero", 1, (_foozer("foozer-1000", "4.2.1-gen3", 2),)),
    "one": Shape("shape-one", 2, (_foozer("foozer-1000", "4.2.1-gen3", 2),)),
    "two": Shape("shape-two", 4, (_foozer("foozer-4000", "4.2.1-gen7", 4),)),
    "three": Shape("shape-three", 4, (_barzer(4),)),
    "foozer-barzer": Shape(
        "shape-foozer-barzer", 4, (_foozer("foozer-1000", "4.2.1-gen3", 2), _barzer(2))
    ),
}


def device_pools(shape: str, nodes: int = DEFAULT_NODES) -> list[Pool]:
    """The DevicePools of this many nodes of a shape. Raises LabError."""
    if shape not in SHAPES:
        raise LabError(f"there is no shape {shape!r}; choose one of {', '.join(SHAPES)}")
    if nodes < 1:
        raise LabError(f"a fleet of {nodes} nodes has no devices; ask for one node or more")
    return [pool for node in range(nodes) for pool in _node_pools(SHAPES[shape], node)]


def _node_pools(shape: Shape, node: int) -> Iterator[Pool]:
    name = f"{shape.base}-{node:02}"
    for numa in range(shape.numa_nodes):
        for kind in shape.kinds:
            yield {
                "apiVersion": API_VERSION,
                "kind": "DevicePool",
                "metadata": {"name": f"{name}-{kind.word}-{numa:02}"},
                "spec": {
                    "nodeName": name,
                    "driver": kind.driver,
                    "attributes": _attributes(kind, numa),
                    "count": kind.count,
                },
            }


def _attributes(kind: Kind, numa: int) -> list[dict[str, str]]:
    return [
        {"name": "vendor", "stringValue": "example.com"},
        {"name": "model", "stringValue": kind.model},
        {"name": "firmwareVersion", "semVerValue": kind.firmware},
        {"name": "driverVersion", "semVerValue": "1.8.2"},
        {"name": "numa", "stringValue": str(numa)},
    ]
