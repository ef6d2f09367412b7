# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small random tasks of device allocation as objects of resource.k8s.io/v1, for hypothesis."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping

from hypothesis import strategies as st

from support.device_objects import dra_class, dra_device, exactly, manifest, resource_claim

DRIVER = "gpu.example.com"
Json = dict[str, t.Any]

# Selectors restated in Python, on attributes by name.
SELECTORS: Mapping[str, Callable[[Json], bool]] = {
    f"device.attributes['{DRIVER}'].model == 'a'": lambda device: device["model"] == "a",
    f"device.attributes['{DRIVER}'].model == 'b'": lambda device: device["model"] == "b",
    f"device.attributes['{DRIVER}'].rank >= 1": lambda device: device["rank"] >= 1,
}
COUNTERS = {"memory": 40, "slots": 4}
RACKS = ("left", "right")

few = st.integers(0, 2)


@st.composite
def devices(draw: st.DrawFn, prefix: str) -> list[Json]:
    found = []
    for number in range(draw(st.integers(1, 4))):
        numa = draw(st.one_of(few, st.lists(few, min_size=1, max_size=2, unique=True)))
        attributes: Json = {
            "model": draw(st.sampled_from("ab")),
            "rank": draw(few),
            "numa": {"ints": numa} if isinstance(numa, list) else numa,
        }
        if draw(st.booleans()):
            del attributes["numa"]
        more: Json = {}
        if draw(st.booleans()):
            amounts = {"memory": draw(st.sampled_from([10, 20, 40])), "slots": draw(few)}
            counters = {name: {"value": str(amount)} for name, amount in amounts.items()}
            more["consumesCounters"] = [{"counterSet": "shared", "counters": counters}]
        if draw(st.integers(0, 3)) == 0:
            more["allowMultipleAllocations"] = True
            more["capacity"] = {"memory": draw(capacities())}
        if draw(st.integers(0, 5)) == 0:
            more["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
        found.append(dra_device(f"{prefix}-{number}", attributes=attributes, **more))
    return found


@st.composite
def capacities(draw: st.DrawFn) -> Json:
    policy = draw(
        st.sampled_from(
            [
                None,
                {"default": "2", "validValues": ["2", "5"]},
                {"default": "3", "validRange": {"min": "3", "step": "2", "max": "7"}},
            ]
        )
    )
    return {"value": "8", **({"requestPolicy": policy} if policy else {})}


@st.composite
def requests(draw: st.DrawFn, name: str) -> Json:
    if draw(st.integers(0, 2)):
        return exactly(name, "gpu", *draw(chosen_selectors()), **draw(details()))
    alternatives = [
        {"name": f"way-{number}", **exactly("", "gpu", **draw(details()))["exactly"]}
        for number in range(draw(st.integers(1, 2)))
    ]
    return {"name": name, "firstAvailable": alternatives}


def chosen_selectors() -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(sorted(SELECTORS)), max_size=1)


@st.composite
def details(draw: st.DrawFn) -> Json:
    found: Json = {}
    if draw(st.integers(0, 7)) == 0:
        found["allocationMode"] = "All"
    else:
        found["count"] = draw(st.sampled_from([1, 1, 2, 3]))
    if draw(st.integers(0, 4)) == 0:
        found["capacity"] = {"requests": {"memory": str(draw(st.integers(1, 8)))}}
    if draw(st.integers(0, 2)) == 0:
        found["tolerations"] = [{"key": "broken", "operator": "Exists"}]
    return found


@st.composite
def claims(draw: st.DrawFn, name: str) -> Json:
    names = [f"r{number}" for number in range(draw(st.integers(1, 2)))]
    constraints = []
    kind = draw(st.sampled_from([None, None, "matchAttribute", "distinctAttribute"]))
    if kind:
        among = draw(st.sampled_from([[], names, names[:1]]))
        constraints = [{"requests": among, kind: f"{DRIVER}/numa"}]
    return resource_claim(name, *(draw(requests(one)) for one in names), constraints=constraints)


@st.composite
def reaches(draw: st.DrawFn, nodes: list[str]) -> Json:
    """The fields that select the nodes of a slice, or of one of its devices."""
    kind = draw(st.sampled_from(["nodeName", "nodeSelector", "nodeSelector", "allNodes"]))
    if kind == "nodeName":
        return {kind: draw(st.sampled_from(nodes))}
    if kind == "allNodes":
        return {kind: True}
    racks = draw(st.lists(st.sampled_from(RACKS), min_size=1, unique=True))
    expression = {"key": "rack", "operator": "In", "values": racks}
    return {kind: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


@st.composite
def pools(draw: st.DrawFn, name: str, node: str, nodes: list[str], network: bool) -> Json:
    """The spec of a slice: of a node, of a network, or with node selection per device."""
    counters = {key: {"value": str(amount)} for key, amount in COUNTERS.items()}
    found = draw(devices(name.rpartition("-")[2]))
    where: Json = {"nodeName": node}
    if network and draw(st.booleans()):
        where = {"perDeviceNodeSelection": True}
        found = [{**device, **draw(reaches(nodes))} for device in found]
    elif network:
        where = draw(reaches(nodes))
    return {
        "driver": DRIVER,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        **where,
        "devices": found,
        "sharedCounters": [{"name": "shared", "counters": counters}],
    }


@st.composite
def tasks(draw: st.DrawFn) -> list[Json]:
    """Slices of some nodes or of a network, a class, and claims: separate, or all of one pod."""
    objects: list[Json] = [dra_class("gpu", f"device.driver == '{DRIVER}'")]
    nodes = [f"n{node}" for node in range(draw(st.integers(1, 3)))]
    network = draw(st.booleans())
    objects += [
        manifest("v1", "Node", node, {}, labels={"rack": draw(st.sampled_from(RACKS))})
        for node in nodes
    ]
    for node in nodes[:2]:
        for pool in range(draw(st.integers(1, 2))):
            name = f"{node}-p{pool}"
            spec = draw(pools(name, node, nodes, network))
            objects.append(manifest("resource.k8s.io/v1", "ResourceSlice", name, spec))
    names = [f"c{number}" for number in range(draw(st.integers(1, 3)))]
    objects += [draw(claims(name)) for name in names]
    if draw(st.booleans()):
        spec = {"resourceClaims": [{"name": name, "resourceClaimName": name} for name in names]}
        objects.append(manifest("v1", "Pod", "pod", spec, namespace="default"))
    return objects
