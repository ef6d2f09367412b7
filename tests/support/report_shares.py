# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cache ways for a run folder, from simulated daemons, and devices of a cluster."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ansible_collections.wattwise.kube.plugins.module_utils.rmd.daemon.cache import caches_of
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.daemon.workload import stored_of
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.layout import inventory
from lab.rmd.daemon import Daemon
from lab.rmd.documents import Workload
from lab.rmd.host import Configuration
from lab.rmd.views import cache_level
from support.device_objects import DRA, dra_device, manifest, resource_slice
from support.rmd import BROADWELL

Json = dict[str, t.Any]

# Most and least ways, first CPU, CPUs; the second is deleted on nodes with fragmented ways.
_ASKED = [(2, 2, 1, 2), (3, 3, 3, 4), (2, 2, 7, 1), (4, 2, 8, 2), (0, 0, 10, 2), (4, 4, 22, 8)]


def rmd_document(nodes: Sequence[str], suffix: str = "") -> Json:
    """Every third node is idle, has all of the workloads, or has lost the second one.

    The first node with workloads has one that no RmdWorkload made, and one that only its machine
    remembers; the last node does not answer.
    """
    kinds = [number if number < 3 else 3 + number % 3 for number in range(len(nodes) - 1)]
    found = {kind: _daemon(kind, suffix) for kind in set(kinds)}
    daemons = {name: found[kind] for name, kind in zip(nodes[:-1], kinds, strict=True)}
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


# Profiles of an A100: memory slices and possible start slices.
_PROFILES = {"1g.5gb": (1, range(7)), "2g.10gb": (2, (0, 2, 4)), "3g.20gb": (4, (0, 4))}
_SLICES = 8
GPUS = 4


def device_objects(nodes: Sequence[str], suffix: str = "") -> list[Json]:
    """Four GPUs on each node, two of them partitioned, and a shared network card.

    Claims have partitions of the first GPU of every second node, a whole GPU and half of the card.
    """
    objects: list[Json] = []
    for number, node in enumerate(nodes):
        objects += [gpu_slice(node, suffix), _card_slice(node), *_whole_slices(node)]
        if number % 2 == 0:
            objects += _claims(node, suffix)
    return objects


def gpu_slice(node: str, suffix: str = "", slice_of: str = "memory-slice-{}") -> Json:
    """Two GPUs with all their partitions, which consume memory and memory slices."""
    devices: list[Json] = []
    for gpu in range(2):
        whole = _drawn(gpu, range(_SLICES), 40, slice_of)
        devices.append(dra_device(f"gpu-{gpu}{suffix}", consumesCounters=whole))
        for profile, (size, starts) in _PROFILES.items():
            for start in starts:
                counters = _drawn(gpu, range(start, start + size), 5 * size, slice_of)
                name = f"gpu-{gpu}-mig-{profile.replace('.', '-')}-{start}{suffix}"
                devices.append(dra_device(name, consumesCounters=counters))
    shared = [
        {"name": f"gpu-{gpu}-counters", "counters": _counters(range(_SLICES), 40, slice_of)}
        for gpu in range(2)
    ]
    return resource_slice(f"{node}-mig", devices, nodeName=node, sharedCounters=shared)


def _counters(places: Sequence[int], gibibytes: int, slice_of: str) -> Json:
    amounts = {"memory": {"value": f"{gibibytes}Gi"}}
    return amounts | {slice_of.format(place): {"value": "1"} for place in places if slice_of}


def _drawn(gpu: int, places: Sequence[int], gibibytes: int, slice_of: str) -> list[Json]:
    counters = _counters(places, gibibytes, slice_of)
    return [{"counterSet": f"gpu-{gpu}-counters", "counters": counters}]


def _whole_slices(node: str) -> list[Json]:
    devices = [dra_device(f"gpu-{number}") for number in range(2, GPUS)]
    broken = resource_slice(f"{node}-fpga", [dra_device("fpga-0")], nodeName=node)
    broken["spec"] |= {"driver": "fpga.example.com"}
    broken["spec"]["pool"]["resourceSliceCount"] = 2
    return [resource_slice(node, devices), broken]


def _card_slice(node: str) -> Json:
    card = dra_device(
        "nic-0", allowMultipleAllocations=True, capacity={"bandwidth": {"value": "100"}}
    )
    return resource_slice(f"{node}-nic", [card], nodeName=node, driver="nic.example.com")


def _claims(node: str, suffix: str) -> list[Json]:
    mig, whole = f"{node}-mig", node
    return [
        _claim("train", node, suffix, (mig, f"gpu-0-mig-3g-20gb-4{suffix}")),
        _claim("infer", node, suffix, (mig, f"gpu-0-mig-1g-5gb-0{suffix}"), (whole, "gpu-2")),
        _claim("network", node, suffix, (f"{node}-nic", "nic-0")),
    ]


def _claim(name: str, node: str, suffix: str, *devices: tuple[str, str]) -> Json:
    """A claim with devices, by pool and name, and the pod that uses it."""
    results: list[Json] = []
    for pool, device in devices:
        result: Json = {
            "request": "one",
            "pool": pool,
            "device": device,
            "driver": "gpu.example.com",
        }
        if device == "nic-0":
            result |= {"driver": "nic.example.com", "consumedCapacity": {"bandwidth": "50"}}
        results.append(result)
    pod = f"{name}-{node}{suffix}"
    found = manifest(DRA, "ResourceClaim", f"{pod}-gpu", {}, namespace="ml")
    found["status"] = {
        "allocation": {"devices": {"results": results}},
        "reservedFor": [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"}],
    }
    return found
