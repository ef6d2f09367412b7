# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cache ways of nodes and pods, restated: allocated as RMD does, way by way, in every order.

It shares no code with the placer. A guaranteed workload gets the topmost run of free ways that is
long enough; a best-effort one may get any run, and any number of its ways.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence

from support.placement_rules import Json, Pod, get, of_container

WAYS = "intel.com/l3_cache_ways"

# Pool, most and least ways of one workload.
Want = tuple[str, int, int]
# Free ways of each cache as bits.
Free = tuple[int, ...]


class Caches:
    """The caches of a fleet, from its RmdNodeStates."""

    def __init__(self, parameters: Json, on: Mapping[str, Sequence[Pod]]) -> None:
        self._free: dict[str, dict[str, Free]] = {}
        self._owed: dict[str, list[Want]] = {}
        for state in parameters.get("rmd_node_states", []):
            name, status = state["spec"]["node"], state.get("status") or {}
            if status.get("caches"):
                self._free[name] = {
                    pool: tuple(
                        bits((cache.get(pool) or {}).get("free", "")) for cache in status["caches"]
                    )
                    for pool in ("guaranteed", "besteffort")
                }
                self._owed[name] = [
                    want
                    for pod in on.get(name, [])
                    if pod.phase not in ("Succeeded", "Failed")
                    for want, workload in wants(pod)
                    if workload not in status.get("workloads", {})
                ]

    def hold(self, node: str, pods: Sequence[Pod]) -> bool:
        """Whether all these new pods of a node get their ways, in some order."""
        asked = [want for pod in pods for want, _workload in wants(pod)]
        if not asked or node not in self._free:
            return True
        asked += self._owed[node]
        return all(
            possible(free, tuple(sorted(want for want in asked if want[0] == pool)))
            for pool, free in self._free[node].items()
        )


def wants(pod: Pod) -> Iterator[tuple[Want, str]]:
    """Wanted ways of each container of a pod, and the uuid of its workload."""
    containers = [
        *(
            container
            for container in get(pod.spec, "initContainers", [])
            if get(container, "restartPolicy") == "Always"
        ),
        *get(pod.spec, "containers", []),
    ]
    if "requests" in pod.spec:
        containers.append({"name": "main", "resources": {"requests": pod.spec["requests"]}})
    asking = [each for each in containers if of_container(each).get(WAYS)]
    for container in asking:
        most = of_container(container)[WAYS]
        least = int(pod.annotations.get(f"{container['name']}_cache_min", most))
        name = f"{pod.name}-rmd-workload-{container['name']}"
        if len(asking) == 1:
            name = f"rmd-workload-{pod.name}"
        uuid = name if pod.namespace == "default" else f"{pod.namespace}/{name}"
        yield ("guaranteed" if least == most else "besteffort", most, least), uuid


@functools.cache
def possible(free: Free, asked: tuple[Want, ...]) -> bool:
    return not asked or any(
        possible(left, asked[:index] + asked[index + 1 :])
        for index in range(len(asked))
        for left in outcomes(free, asked[index])
    )


def outcomes(free: Free, want: Want) -> Iterator[Free]:
    """Possible remainders of a cache after one workload took its ways."""
    pool, most, least = want
    for index, ways in enumerate(free):
        for low, length in rows(ways):
            if length < least:
                continue
            taken = min(length, most)
            top = low + length - taken
            yield (*free[:index], ways & ~(((1 << taken) - 1) << top), *free[index + 1 :])
            if pool == "guaranteed":
                break


def rows(ways: int) -> Iterator[tuple[int, int]]:
    """Lowest way and length of each run of free ways, from the top."""
    position = ways.bit_length()
    while position:
        length = 0
        while position and ways >> (position - 1) & 1:
            position, length = position - 1, length + 1
        if length:
            yield position, length
        elif position:
            position -= 1


def bits(text: str) -> int:
    """The ways of a list such as ``1-4,7``."""
    found = 0
    for part in filter(None, text.split(",")):
        first, _dash, last = part.partition("-")
        for way in range(int(first), int(last or first) + 1):
            found |= 1 << way
    return found
