# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Labels and annotations of hosts about their hardware.

Ours are set by people, and override every other source. Labels of Node Feature Discovery (NFD) and
of device plugins are facts of a kernel that ran on the host; they add to the other sources.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import replace

from ..base.boundary import InvalidField, shown
from ..redfish.hardware import facts, pci
from ..redfish.hardware.facts import Facts
from .host import Hardware, PciDevice

RACK = "wattwise.github.io/rack"
SRIOV = "wattwise.github.io/sriov"
QUICK_ASSIST = "wattwise.github.io/qat"
GPUS = "wattwise.github.io/gpus"
PCI_DEVICES = "wattwise.github.io/pci-devices"
RACK_LABELS = (RACK, "topology.kubernetes.io/zone")

_NFD = "feature.node.kubernetes.io/"
_NFD_PCI = re.compile(
    r"pci-(?P<fields>[0-9a-f]{2,4}(?:_[0-9a-f]{4}){0,4})\.(?P<kind>present|sriov\.capable)",
    re.ASCII,
)
_NFD_FLAG = "cpu-cpuid."
_NFD_NETWORK_SRIOV = f"{_NFD}network-sriov.capable"
_NFD_MAX_LENGTH = 128
_QUICK_ASSIST_PLUGIN = "intel.feature.node.kubernetes.io/qat"
_GPU_COUNTS = ("nvidia.com/gpu.count", "amd.com/gpu.count")
_GPU_FLAGS = (*("nvidia.com/gpu.present", "intel.feature.node.kubernetes.io/gpu"), f"{_NFD}amd-gpu")
_MAX_LISTED = 256

Texts = t.Mapping[str, str]
T = t.TypeVar("T")


def rack_of(labels: Texts, annotations: Texts, names: t.Sequence[str], found: Facts) -> str | None:
    """The rack by the first of these labels that the host has, else by our annotation."""
    given = [(label, labels.get(label)) for label in names] + [(RACK, annotations.get(RACK))]
    name, value = next(((name, value) for name, value in given if value), (RACK, None))
    return found.read(value, name, facts.rack)


def with_labels(hardware: Hardware, labels: Texts, annotations: Texts, found: Facts) -> Hardware:
    """The hardware completed by NFD's labels, then overruled by ours."""
    completed = _with_discovered(hardware, labels, found)

    def told(name: str, parse: t.Callable[[t.Any, str], T]) -> T | None:
        return found.read(labels.get(name) or annotations.get(name), name, parse)

    sriov, has_qat = told(SRIOV, facts.boolean_text), told(QUICK_ASSIST, facts.boolean_text)
    gpus = told(GPUS, facts.count_text)
    devices = found.read(annotations.get(PCI_DEVICES), PCI_DEVICES, _pci_devices)
    if devices is not None:
        with_qat = any(pci.is_quick_assist(device.pci_id) for device in devices)
        completed = replace(completed, pci_devices=devices, has_qat=with_qat)
    if sriov is not None:
        completed = _with_sriov(completed, sriov, is_ours=True)
        if sriov and not completed.network_interfaces:
            found.note(f"{SRIOV}: no network interface is known to which it could apply")
    return replace(
        completed,
        has_qat=completed.has_qat if has_qat is None else has_qat,
        gpus=completed.gpus if gpus is None else gpus,
    )


def _pci_devices(value: t.Any, path: str) -> tuple[PciDevice, ...]:
    """The identifiers of a text such as ``8086:37c8, 10de:20b5``. Raises InvalidField."""
    items = [item.strip() for item in value.split(",", _MAX_LISTED)]
    if len(items) > _MAX_LISTED:
        raise InvalidField(path, f"it has more than {_MAX_LISTED} entries")
    ids = [(item, pci.pci_id(item)) for item in items]
    wrong = next((item for item, found in ids if found is None), None)
    if wrong is not None:
        raise InvalidField(path, f"{shown(wrong)} is not a vendor and device such as 8086:37c8")
    return tuple(PciDevice(found) for _item, found in ids if found)


def _with_discovered(hardware: Hardware, labels: Texts, found: Facts) -> Hardware:
    """The hardware with the devices and flags that NFD and device plugins saw.

    NFD's setting ``deviceLabelFields`` selects the fields in labels of PCI devices.
    """
    flags, has_qat = set(), _is_true(labels, _QUICK_ASSIST_PLUGIN)
    gpu_present = any(_is_true(labels, name) for name in _GPU_FLAGS)
    has_sriov = _is_true(labels, _NFD_NETWORK_SRIOV)
    for label, value in labels.items():
        if not label.startswith(_NFD) or value != "true" or len(label) > _NFD_MAX_LENGTH:
            continue
        feature = label[len(_NFD) :]
        if feature.startswith(_NFD_FLAG):
            flags.add(feature[len(_NFD_FLAG) :].lower())
        match = _NFD_PCI.fullmatch(feature)
        if match:
            device = pci.discovered(match["fields"].split("_"))
            has_qat = has_qat or device.is_quick_assist
            gpu_present = gpu_present or device.is_gpu
            has_sriov = has_sriov or (match["kind"] != "present" and device.is_network)
    counted = [found.read(labels.get(name), name, facts.count_text) for name in _GPU_COUNTS]
    gpus = sum(count or 0 for count in counted) or (1 if gpu_present else None)
    processors = hardware.processors
    if flags:
        processors = replace(processors, flags=(processors.flags or frozenset()) | flags)
    return replace(
        _with_sriov(hardware, True) if has_sriov else hardware,
        processors=processors,
        has_qat=True if has_qat else hardware.has_qat,
        gpus=hardware.gpus if gpus is None else max(gpus, hardware.gpus or 0),
    )


def _is_true(labels: Texts, name: str) -> bool:
    return labels.get(name) == "true"


def _with_sriov(hardware: Hardware, able: bool, *, is_ours: bool = False) -> Hardware:
    """The ports with this ability if it is unknown; with ``is_ours`` the switch as well.

    A label is about the host, so it changes no port if another one already agrees with it, except
    that false is about every port.
    """
    ports = hardware.network_interfaces
    if not able:
        changed = tuple(replace(port, can_sriov=False) for port in ports)
    elif any(port.can_sriov for port in ports):
        changed = ports
    else:
        unknown = [port for port in ports if port.can_sriov is None] or (ports if is_ours else [])
        changed = tuple(
            replace(port, can_sriov=True) if port in unknown else port for port in ports
        )
    enabled = able if is_ours else hardware.sriov_enabled
    return replace(hardware, network_interfaces=changed, sriov_enabled=enabled)
