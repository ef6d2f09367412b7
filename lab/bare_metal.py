# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BareMetalHosts of the lab's machines, as Metal3's inspection would write them.

Some of the machines have one; the others are known only by their BMCs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from lab.api import CONNECTIONS, Api, ApiError, JsonObject
from lab.bmc.vendors import MANUFACTURERS, SYSTEMS
from lab.errors import LabError
from lab.machines import Machine
from lab.process import wait_until
from lab.state import LabSettings

NAMESPACE = "metal3"
DEFINITION = Path(__file__).resolve().parent / "crds" / "metal3.io_baremetalhosts.yaml"
COLLECTION = f"/apis/metal3.io/v1alpha1/namespaces/{NAMESPACE}/baremetalhosts"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_STORED_CRD = f"{_DEFINITIONS}/baremetalhosts.metal3.io"
_HTTPS = 443
# One host in this many is in error, and one is in use by a machine of Cluster API.
_ONE_IN_ERROR, _ONE_IN_USE = 12, 10
_NFD_QUICK_ASSIST = "feature.node.kubernetes.io/pci-0b40_8086.present"


def create(api: Api, machines: Sequence[Machine], settings: LabSettings) -> None:
    """Create the CRD, the namespace, and as many BareMetalHosts as the settings say.

    Existing objects are left unchanged. Raises LabError.
    """
    chosen = choose(machines, settings)
    _create(api, _DEFINITIONS, yaml.safe_load(DEFINITION.read_text()))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    _create(api, "/api/v1/namespaces", namespace)
    wait_until(lambda: _is_served(api), 30.0, "BareMetalHosts to be served", interval=0.1)
    port = settings.ports["bmc"] if "bmc" in settings.parts else _HTTPS
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        for _result in threads.map(lambda item: _create_host(api, item, port), chosen):
            pass


def delete(api: Api) -> None:
    """Delete the objects with their CRD, and wait until they are gone. Raises LabError.

    The namespace stays, because its deletion would also delete objects of a later ``create``.
    """
    if api.find(_STORED_CRD) is not None:
        api.request("DELETE", _STORED_CRD)
    wait_until(lambda: api.find(_STORED_CRD) is None, 30.0, "the CRD to be gone")


def choose(machines: Sequence[Machine], settings: LabSettings) -> list[Machine]:
    """The machines with a BareMetalHost, in the order of the machines. Raises LabError."""
    count = settings.bare_metal_hosts
    if not 0 <= count <= len(machines):
        raise LabError(
            f"A lab of {len(machines)} machines cannot have {count} BareMetalHosts;"
            f" ask for 0 to {len(machines)}."
        )
    numbers = range(len(machines))
    chosen = random.Random(f"{settings.seed} bare-metal hosts").sample(numbers, count)
    return [machines[number] for number in sorted(chosen)]


def host_object(machine: Machine, port: int) -> JsonObject:
    """The BareMetalHost with its status."""
    hardware = machine.hardware
    source = random.Random(f"{hardware.serial_number} state")
    in_error = source.randrange(_ONE_IN_ERROR) == 0
    in_use = not in_error and source.randrange(_ONE_IN_USE) == 0
    labels = {"wattwise.github.io/rack": machine.rack}
    labels |= {_NFD_QUICK_ASSIST: "true"} if hardware.has_qat else {}
    labels |= {"nvidia.com/gpu.count": str(hardware.gpus)} if hardware.gpus else {}
    consumer = {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
        "kind": "Metal3Machine",
        "namespace": NAMESPACE,
        "name": f"{machine.name}-machine",
    }
    address = f"redfish://{machine.bmc_address}:{port}{SYSTEMS[machine.vendor]}"
    return {
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "metadata": {"name": machine.name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "online": True,
            "bootMACAddress": hardware.macs[0],
            "bmc": {"address": address, "credentialsName": f"bmc-{machine.rack}"},
            "firmware": {"sriovEnabled": hardware.sriov_enabled},
            **({"consumerRef": consumer} if in_use else {}),
        },
        "status": {
            "operationalStatus": "error" if in_error else "OK",
            **({"errorType": "power management error"} if in_error else {}),
            "errorCount": 1 if in_error else 0,
            "errorMessage": "The BMC does not switch the power." if in_error else "",
            "provisioningFailCount": 0,
            "poweredOn": True,
            "provisioning": {"state": "provisioned" if in_use else "available", "ID": ""},
            "hardware": _hardware(machine),
        },
    }


def _hardware(machine: Machine) -> JsonObject:
    hardware = machine.hardware
    is_arm = machine.architecture == "arm64"
    vendor, device = hardware.adapter.pci_id.split(":")
    return {
        "cpu": {
            "arch": "aarch64" if is_arm else "x86_64",
            "count": hardware.threads,
            "flags": ["aes", "asimd"] if is_arm else ["aes", "avx2", "svm", "vmx"],
            "model": machine.server_type,
        },
        "hostname": machine.name,
        "nics": [
            {
                "name": f"eno{number}",
                "mac": mac,
                "model": f"0x{vendor} 0x{device}",
                "speedGbps": hardware.adapter.gigabits if number == 0 else 0,
                "pxe": number == 0,
                **({"ip": machine.internal_address} if number == 0 else {}),
            }
            for number, mac in enumerate(hardware.macs)
        ],
        "ramMebibytes": machine.memory_gib * 1024,
        "storage": [
            {
                "name": f"/dev/disk{number}",
                "type": drive.kind,
                "rotational": drive.kind == "HDD",
                "sizeBytes": drive.size_bytes,
            }
            for number, drive in enumerate(hardware.drives)
        ],
        "systemVendor": {
            "manufacturer": MANUFACTURERS[machine.vendor],
            "productName": machine.model,
            "serialNumber": hardware.serial_number,
        },
    }


def _is_served(api: Api) -> bool:
    """Whether objects can be created; a new CRD answers 404, then briefly 429."""
    try:
        return api.find(COLLECTION) is not None
    except ApiError as error:
        if error.status != 429:
            raise
        return False


def _create_host(api: Api, machine: Machine, port: int) -> None:
    body = host_object(machine, port)
    if _create(api, COLLECTION, body):
        api.merge(f"{COLLECTION}/{machine.name}/status", {"status": body["status"]})


def _create(api: Api, path: str, body: JsonObject) -> bool:
    """Create an object; False if it already existed."""
    try:
        api.request("POST", path, body)
    except ApiError as error:
        if error.status != 409:
            raise
        return False
    return True
