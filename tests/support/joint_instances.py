# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tasks whose pods need nodes and devices, in short forms, and random ones for brute force."""

from __future__ import annotations

import typing as t

from hypothesis import strategies as st

from support.device_objects import DRA, dra_class, dra_device, manifest, resource_slice
from support.placement_devices import SLOTS
from support.placement_instances import Draw, Json, curves, one_in
from support.placement_rules import HOSTNAME
from support.volume_instances import volume_objects, volumes_of_pod

DRIVER = "gpu.example.com"
NUMA = f"{DRIVER}/numa"
MODELS = ("small", "large")
RACKS = ("left", "right")


def device_classes() -> list[Json]:
    """One for each model, and one for any."""
    by_model = [
        dra_class(model, f"device.attributes['{DRIVER}'].model == '{model}'") for model in MODELS
    ]
    return [dra_class("any", f"device.driver == '{DRIVER}'"), *by_model]


def gpu(name: str, model: str = "small", watts: int = 100, numa: int = 0) -> Json:
    return dra_device(name, attributes={"model": model, "watts": watts, "numa": numa})


def request(device_class: str = "any", count: int = 1) -> Json:
    return {"name": "gpus", "exactly": {"deviceClassName": device_class, "count": count}}


def first_of(*device_classes_in_order: str) -> Json:
    ways = [
        {"name": f"way-{index}", "deviceClassName": name}
        for index, name in enumerate(device_classes_in_order)
    ]
    return {"name": "gpus", "firstAvailable": ways}


def template(name: str, *requests: Json, **more: t.Any) -> Json:
    spec = {"spec": {"devices": {"requests": list(requests), **more}}}
    return manifest(DRA, "ResourceClaimTemplate", name, spec, namespace="default")


def node(name: str, watts: int = 100, cpu: int = 8) -> Json:
    curve = {"cpu": [0, cpu], "watts": [100, 100 + watts]}
    return {"name": name, "allocatable": {"cpu": str(cpu)}, "curve": curve}


def pod(name: str, *, claim: str = "", made_of: str = "", cpu: str = "1") -> Json:
    named = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": made_of}
    container = {
        "name": "main",
        "resources": {"requests": {"cpu": cpu}, "claims": [{"name": "gpu"}]},
    }
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", **named}]}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


@st.composite
def tasks(draw: Draw) -> Json:
    """At most three nodes, three devices on each, and five pods, some of which share a claim.

    With network devices, there are fewer node-local devices and fewer pods.
    """
    names = [f"node-{index}" for index in range(draw(st.integers(1, 3)))]
    templates = [
        template(f"t{index}", *draw(st.lists(_requests(), min_size=1, max_size=2)), **_near(draw))
        for index in range(draw(st.integers(1, 2)))
    ]
    for item in templates:
        for number, asked in enumerate(item["spec"]["spec"]["devices"]["requests"]):
            asked["name"] = f"r{number}"
    shared = manifest(
        DRA,
        "ResourceClaim",
        "shared",
        {"devices": {"requests": [draw(_requests())]}},
        namespace="default",
    )
    waiting = [_waiting(draw, index, len(templates)) for index in range(draw(st.integers(1, 5)))]
    network = draw(st.integers(0, 2)) == 0
    slices = [resource_slice(name, draw(_devices(2 if network else 3))) for name in names]
    nodes = [_node(draw, name) for name in names]
    if network:
        del waiting[4:]
        for item in nodes:
            item["labels"] = {"rack": draw(st.sampled_from(RACKS))}
        slices.append(draw(_network(names)))
    given: Json = {
        "nodes": nodes,
        "pods": waiting,
        "device_objects": [*device_classes(), *templates, shared, *slices],
    }
    held = slices[0]["spec"]["devices"]
    if one_in(draw, 3) and held:
        hold(shared, names[0], held[0]["name"])
    if one_in(draw, 4):
        for item in nodes:
            item["labels"] = {**item.get("labels", {}), HOSTNAME: item["name"]}
        for item in waiting:
            item["spec"]["volumes"] = volumes_of_pod(draw)
        given["volume_objects"] = volume_objects(draw, names)
    if not one_in(draw, 4):
        given["device_power"] = "watts"
    if one_in(draw, 4):
        given["allow_power_off"] = True
    return given


def hold(claim: Json, node_name: str, device: str) -> None:
    """Give the claim an existing allocation, and its pod the node of it."""
    result = {"request": "gpus", "driver": DRIVER, "pool": node_name, "device": device}
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node_name]}]}]
    claim["status"] = {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": terms},
        }
    }


def _node(draw: Draw, name: str) -> Json:
    cores = draw(st.sampled_from([2, 4]))
    found: Json = {"name": name, "allocatable": {"cpu": str(cores)}}
    if not one_in(draw, 8):
        found["curve"] = draw(curves(cores))
    return found


def _waiting(draw: Draw, index: int, templates: int) -> Json:
    name, cpu = f"pod-{index}", draw(st.sampled_from(["500m", "500m", "1500m"]))
    kind = draw(st.integers(0, 5))
    if kind == 0:
        found = pod(name, claim="shared", cpu=cpu)
    elif kind == 1:
        container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
        found = {"metadata": {"name": name}, "spec": {"containers": [container]}}
    else:
        found = pod(name, made_of=f"t{draw(st.integers(0, templates - 1))}", cpu=cpu)
    if one_in(draw, 5):
        found["spec"]["priority"] = 10
    return found


@st.composite
def _requests(draw: Draw) -> Json:
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return first_of("large", "small")
    return request(draw(st.sampled_from(["any", "any", *MODELS])), draw(st.sampled_from([1, 1, 2])))


def _near(draw: Draw) -> Json:
    return {"constraints": [{"matchAttribute": NUMA}]} if one_in(draw, 4) else {}


@st.composite
def _network(draw: Draw, names: list[str]) -> Json:
    """A pool whose devices several nodes can use, and whose slots they share."""
    rack = {"key": "rack", "operator": "In", "values": [draw(st.sampled_from(RACKS))]}
    selector = {"nodeSelectorTerms": [{"matchExpressions": [rack]}]}
    reaches: list[Json] = [
        {"allNodes": True},
        {"nodeSelector": selector},
        {"nodeName": draw(st.sampled_from(names))},
    ]
    found, more = draw(_devices(3)), {}
    if one_in(draw, 3):
        slots = {"counterSet": "shared", "counters": {"slots": {"value": "1"}}}
        found = [{**device, "consumesCounters": [slots]} for device in found]
        counters = {"slots": {"value": str(SLOTS)}}
        more["sharedCounters"] = [{"name": "shared", "counters": counters}]
    if one_in(draw, 3):
        found = [{**device, **draw(st.sampled_from(reaches))} for device in found]
        where: Json = {"perDeviceNodeSelection": True}
    else:
        where = draw(st.sampled_from(reaches[:2]))
    return resource_slice("network", found, **{"nodeName": None, **where, **more})


@st.composite
def _devices(draw: Draw, most: int) -> list[Json]:
    return [
        gpu(
            f"gpu-{index}",
            draw(st.sampled_from(MODELS)),
            draw(st.sampled_from([20, 75, 300])),
            draw(st.integers(0, 1)),
        )
        for index in range(draw(st.integers(0, most)))
    ]
