# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Interface between device_reconciliation and the adapters of both APIs in a cluster.

An adapter (k8srm/cluster.py, dra/cluster.py) is a function ``(Kube, Context) -> View``, registered
in reconciliation.APIS under the name of its API group. A View is the API's objects as read at one
moment, and is discarded after one attempt. The steps of an attempt are:

1. The adapter reads its objects. Nodes and pods are read after that. A claim names its pods before
   these are looked up, so a missing pod is gone.
2. ``View.settle(pods, room)`` repairs the leftovers of an interrupted run, releases the devices of
   ended pods, and adds the claims that a pod brings itself. It writes, and the View shows the
   written state. ``room()`` lists the nodes, once for each attempt.
3. ``View.objects()`` is the input of the API's reader (Api.read_task), without Nodes. It has the
   pods, each with the claims that it waits for in the API's own field.
4. reconciliation.py solves, on the nodes that have room for each pod (pod_nodes.py).
5. ``View.give(allocations)`` writes the allocations of the claims, for each unit all or none.
6. Pods are bound or pinned to the node. ``View.take_back(pods)`` releases the devices of pods
   that their node refused.

Each write of a View carries the resource version that it read. If the API server refuses it (409),
or the object is gone (404), the View notes the object in ``Report.contended`` and writes nothing
that depends on it. The next attempt reads again, so no device is given by a stale state. In check
mode a View sends nothing, but behaves as if it did.
"""

from __future__ import annotations

import typing as t

from ...base.context import Context
from ...kube.client import Kube
from ..model.findings import ApiObject, Key
from .cluster import Pods, Report, UnitAllocation
from .pod_nodes import Room


class View(t.Protocol):
    """An API's objects as they were read once; see the description of this file."""

    report: Report

    def settle(self, pods: Pods, room: t.Callable[[], Room]) -> None:
        """Repair and release. Raises ApiError if the server is lost or forbids it."""

    def objects(self) -> list[ApiObject]:
        """Input of the reader, after settle."""

    def placed(self) -> t.Mapping[Key, str]:
        """Nodes of pods whose claims all have devices, and that wait to be bound there."""

    def give(self, allocations: t.Sequence[UnitAllocation]) -> list[UnitAllocation]:
        """Write the allocations; return the completely written ones."""

    def take_back(self, pods: t.Sequence[Key]) -> None:
        """Release the claims of pods that did not get their node, unless others use them."""

    def explain(self, reasons: t.Mapping[Key, str]) -> None:
        """Write the reason into the claims of these pods without devices, where it is new."""


Adapter = t.Callable[[Kube, Context], View]
