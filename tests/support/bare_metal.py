# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BareMetalHosts as Metal3's inspection writes them, for tests."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject

GIB = 2**30


def bare_metal_host(name: str = "host-1", **parts: t.Any) -> MutableObject:
    """An unused host with the hardware of upstream's unit test and more."""
    metadata = {
        "name": name,
        "namespace": "metal3",
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "labels": parts.pop("labels", {}),
        "annotations": parts.pop("annotations", {}),
    }
    spec = {
        "online": True,
        "bootMACAddress": "08:00:27:00:AB:2C",
        "bmc": {
            "address": "redfish-virtualmedia://10.0.0.101/redfish/v1/Systems/1",
            "credentialsName": f"{name}-bmc",
        },
        "firmware": {"sriovEnabled": True},
        "userData": {"name": f"{name}-user-data", "namespace": "metal3"},
        **parts.pop("spec", {}),
    }
    status = {
        "provisioning": {"state": "available"},
        "operationalStatus": "OK",
        "errorMessage": "",
        "poweredOn": True,
        "hardware": {**hardware(), **parts.pop("hardware", {})},
        **parts.pop("status", {}),
    }
    assert not parts
    return {
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def hardware() -> MutableObject:
    """``status.hardware`` of one host."""
    return {
        "cpu": {
            "arch": "x86_64",
            "count": 64,
            "clockMegahertz": 2300,
            "flags": ["aes", "vmx", "avx512f"],
            "model": "Intel(R) Xeon(R) Gold 6240R",
        },
        "ramMebibytes": 196608,
        "nics": [
            nic("eth3", "08:00:27:00:ab:2c", "192.168.50.63", pxe=True),
            nic("eth4", "08:00:27:00:ab:1c", "192.168.60.73"),
        ],
        "storage": [
            {"name": "/dev/sda", "type": "SSD", "rotational": False, "sizeBytes": 480 * GIB},
            {"name": "/dev/sdb", "rotational": True, "sizeBytes": 4000 * GIB},
        ],
        "systemVendor": {
            "manufacturer": "Dell Inc.",
            "productName": "PowerEdge R740",
            "serialNumber": "7XK2LM3",
        },
        "hostname": "localhost.localdomain",
    }


def nic(name: str, mac: t.Any, ip: t.Any, **more: t.Any) -> MutableObject:
    """One entry of ``status.hardware.nics``."""
    given = {"name": name, "mac": mac, "model": "0x8086 0x1572", "speedGbps": 0, "pxe": False}
    return {**given, **({"ip": ip} if ip else {}), "vlanId": 0, **more}
