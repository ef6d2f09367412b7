# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cache ways for a run folder, as simulated daemons tell of them."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ansible_collections.wattwise.kube.plugins.module_utils.rmd.cache import caches_of
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.inventory import inventory
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.workload import stored_of
from lab.rmd.daemon import Daemon
from lab.rmd.documents import Workload
from lab.rmd.host import Configuration
from lab.rmd.views import cache_level
from support.rmd import BROADWELL

Json = dict[str, t.Any]

# Most and least ways, first CPU, CPUs; the second is deleted where a node's ways lie apart.
_ASKED = [(2, 2, 1, 2), (3, 3, 3, 4), (2, 2, 7, 1), (4, 2, 8, 2), (0, 0, 10, 2), (4, 4, 22, 8)]


def rmd_document(nodes: Sequence[str], suffix: str = "") -> Json:
    """Of three nodes one is idle, one has all of the workloads, one has lost the second.

    The first node with workloads has one that no RmdWorkload made, and one that only its machine
    remembers; the last node does not answer.
    """
    daemons = {name: _daemon(number, suffix) for number, name in enumerate(nodes[:-1])}
    error = {"name": nodes[-1], "endpoint": "", "reason": "unreachable", "detail": "it is off"}
    return {"node_states": [], "statuses": [], "daemons": daemons, "errors": [error]}


def _daemon(number: int, suffix: str) -> Json:
    daemon = Daemon(BROADWELL, Configuration())
    workloads = {}
    for place, (most, least, cpu, count) in enumerate(_ASKED if number % 3 else ()):
        name = f"rmd-workload-web-{place}{suffix}"
        owner = {"kind": "Pod", "name": f"web-{place}{suffix}"}
        workloads[name] = {
            "metadata": {"name": name, "namespace": "shop", "ownerReferences": [owner]}
        }
        cpus = tuple(str(each) for each in range(cpu, cpu + count))
        asked = Workload(core_ids=cpus, cache_max=most, cache_min=least, uuid=name)
        daemon.create(asked.with_(uuid="") if number == 1 and place == 3 else asked)
    if number % 3 == 2:
        daemon.delete("2")
    if number == 1:
        del daemon.workloads["3"]
    stored = [stored_of(item.document("0.2")) for item in daemon.workloads.values()]
    return inventory(caches_of(cache_level(daemon)), stored, workloads)
