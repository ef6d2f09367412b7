# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Short constructors of objects about devices."""

from __future__ import annotations

import typing as t

PROTOTYPE = "devmgmtproto.k8s.io/v1alpha1"
DRA = "resource.k8s.io/v1"

Json = dict[str, t.Any]


def manifest(api_version: str, kind: str, name: str, spec: Json, **metadata: t.Any) -> Json:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def device_claim(name: str, **spec: t.Any) -> Json:
    """A DeviceClaim of the prototype in the namespace default."""
    return manifest(PROTOTYPE, "DeviceClaim", name, spec, namespace="default")


def device_class(name: str, labels: dict[str, str] | None = None, **spec: t.Any) -> Json:
    """A DeviceClass of the prototype."""
    return manifest(PROTOTYPE, "DeviceClass", name, spec, labels=labels or {})


def attributes(**values: t.Any) -> list[Json]:
    """Attributes of the prototype; underscores in names become hyphens."""
    kinds = {str: "stringValue", int: "intValue"}
    return [
        {"name": name.replace("_", "-"), kinds[type(value)]: value}
        for name, value in values.items()
    ]


def device_pool(name: str, node: str | None, driver: str, **spec: t.Any) -> Json:
    """A DevicePool of the prototype."""
    local = {} if node is None else {"nodeName": node}
    return manifest(PROTOTYPE, "DevicePool", name, {**local, "driver": driver, **spec})


def pod(name: str, device_claims: list[Json], **spec: t.Any) -> Json:
    """A Pod with claims in the prototype's field."""
    return manifest("v1", "Pod", name, {**spec, "deviceClaims": device_claims}, namespace="default")


def resource_slice(name: str, devices: list[Json] | None, **more: t.Any) -> Json:
    """A ResourceSlice of the driver gpu.example.com: the whole pool of the node of that name."""
    spec = {
        "driver": "gpu.example.com",
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "nodeName": name,
        "devices": devices,
        **more,
    }
    spec = {key: value for key, value in spec.items() if value is not None}
    return manifest(DRA, "ResourceSlice", f"{name}-slice", spec)


def dra_device(name: str, **more: t.Any) -> Json:
    """A device of a slice; ``more`` are its fields, attributes may be plain values."""
    kinds = {str: "string", int: "int", bool: "bool"}
    plain = more.pop("attributes", {})
    typed = {
        key: value if isinstance(value, dict) else {kinds[type(value)]: value}
        for key, value in plain.items()
    }
    return {"name": name, **({"attributes": typed} if typed else {}), **more}


def dra_class(name: str, *expressions: str, **more: t.Any) -> Json:
    spec = {"selectors": [{"cel": {"expression": text}} for text in expressions], **more}
    return manifest(DRA, "DeviceClass", name, spec)


def exactly(name: str, device_class: str, *expressions: str, **more: t.Any) -> Json:
    """A request of a ResourceClaim, under ``exactly``."""
    selectors = [{"cel": {"expression": text}} for text in expressions]
    chosen = {"selectors": selectors} if selectors else {}
    return {"name": name, "exactly": {"deviceClassName": device_class, **chosen, **more}}


def resource_claim(name: str, *requests: Json, **more: t.Any) -> Json:
    """A ResourceClaim in the namespace default."""
    devices = {"requests": list(requests), **more}
    claim = manifest(DRA, "ResourceClaim", name, {"devices": devices}, namespace="default")
    claim["metadata"]["uid"] = f"uid-of-{name}"
    return claim
