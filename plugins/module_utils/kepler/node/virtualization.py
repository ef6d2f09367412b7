# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Hypervisor below a node's kernel: processor flag, DMI, /sys/hypervisor, device tree, /proc.

Names are those of systemd-detect-virt. Source: systemd, src/basic/virt.c.
"""

from __future__ import annotations

import typing as t

from ..facts import BARE_METAL, UNKNOWN
from .host_files import HostFiles
from .processor import Processor

OTHER = "vm-other"

_DMI = "sys/class/dmi/id"
_DMI_FILES = ("product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version")
# Prefixes of texts in DMI.
_DMI_NAMES: t.Mapping[str, tuple[str, ...]] = {
    "kvm": (
        *("KVM", "OpenStack", "KubeVirt", "Alibaba Cloud ECS", "DigitalOcean", "Hetzner vServer"),
        *("Nutanix AHV", "Red Hat KVM"),
    ),
    "amazon": ("Amazon EC2",),
    "qemu": ("QEMU",),
    "vmware": ("VMware", "VMW"),
    "oracle": ("innotek GmbH", "VirtualBox"),
    "xen": ("Xen",),
    "bochs": ("Bochs",),
    "parallels": ("Parallels",),
    "bhyve": ("BHYVE",),
    "microsoft": ("Virtual Machine",),
    "apple": ("Apple Virtualization",),
    "google": ("Google Compute Engine",),
}
_METAL = "metal"  # product names of the bare-metal instances of a cloud, such as a1.metal
_DEVICE_TREE = "proc/device-tree"


def virtualization(files: HostFiles, processor: Processor) -> str:
    """Name of the hypervisor, ``none`` on bare metal, ``unknown`` without evidence."""
    if processor.architecture == "s390x":
        return _ibm_z(files)
    found = _xen(files) or _by_device_tree(files)
    dmi = _dmi(files)
    if found is None and dmi is not None:
        found = _by_dmi(dmi)
    if processor.has_hypervisor_flag is not None:
        # The flag decides, because bare metal of a cloud has the cloud's name in DMI.
        return (found or OTHER) if processor.has_hypervisor_flag else BARE_METAL
    if dmi is not None and any(_METAL in text for text in dmi[:1]):
        return BARE_METAL
    has_evidence = dmi is not None or files.is_folder(_DEVICE_TREE)
    return found or (BARE_METAL if has_evidence else UNKNOWN)


def _dmi(files: HostFiles) -> list[str] | None:
    """Texts of DMI in the order of their weight; None if there is no DMI."""
    texts = [_line(files, f"{_DMI}/{name}") for name in _DMI_FILES]
    return texts if any(texts) else None


def _by_dmi(texts: t.Sequence[str]) -> str | None:
    for text in texts:
        for name, starts in _DMI_NAMES.items():
            if text.startswith(starts):
                return name
    return None


def _xen(files: HostFiles) -> str | None:
    """Xen, including its first domain, which has the processor's counters but shares them."""
    return "xen" if _line(files, "sys/hypervisor/type") == "xen" else None


def _by_device_tree(files: HostFiles) -> str | None:
    compatible = _line(files, f"{_DEVICE_TREE}/hypervisor/compatible")
    if compatible:
        known = {"linux,kvm": "kvm", "vmware": "vmware"}
        is_xen = compatible.startswith("xen")
        return "xen" if is_xen else known.get(compatible, OTHER)
    machine = _line(files, f"{_DEVICE_TREE}/compatible")
    if machine.startswith(("qemu,", "linux,dummy-virt")):
        return "qemu"
    if files.is_file(f"{_DEVICE_TREE}/ibm,partition-name"):
        return "powervm"
    return None


def _ibm_z(files: HostFiles) -> str:
    """By /proc/sysinfo: a logical partition counts as bare metal, as in systemd."""
    try:
        sysinfo = files.text("proc/sysinfo")
    except OSError:
        return UNKNOWN
    programs = [
        line.partition(":")[2].strip()
        for line in sysinfo.split("\n")
        if line.startswith("VM00") and "Control Program" in line
    ]
    if not programs:
        return BARE_METAL if "Manufacturer" in sysinfo else UNKNOWN
    if programs[0].startswith("z/VM"):
        return "zvm"
    return "kvm" if programs[0].startswith("KVM") else OTHER


def _line(files: HostFiles, path: str) -> str:
    try:
        return files.line(path)
    except OSError:
        return ""
