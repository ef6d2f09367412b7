# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Kernel of a node: control groups, BTF, headers and PCI devices.

Sources: Linux, Documentation/admin-guide/cgroup-v2.rst and Documentation/bpf/btf.rst; kubelet's
cgroup names in pkg/kubelet/cm/cgroup_manager_linux.go; PCI classes in include/linux/pci_ids.h.
"""

from __future__ import annotations

import re

from ..facts import MAX_ITEMS, UNKNOWN, Gpu
from .host_files import HostFiles

_CGROUPS = "sys/fs/cgroup"
_V1_CONTROLLERS = ("cpu", "cpu,cpuacct", "cpuacct", "memory", "cpuset")
_V1_FOLDERS = ("cpu", "cpu,cpuacct", "memory", "cpuset", "systemd", "unified")
_KUBELET_CONFIGURATION = "var/lib/kubelet/config.yaml"
_DRIVER = re.compile(r"^cgroupDriver:[ \t]*[\"']?(systemd|cgroupfs)[\"']?[ \t]*$", re.MULTILINE)

_RELEASE = re.compile(r"[0-9][0-9A-Za-z._+~-]{0,127}")
_BTF = "sys/kernel/btf/vmlinux"

_PCI = "sys/bus/pci/devices"
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_PCI_ID = re.compile(r"0x[0-9a-f]{4}")
_PCI_CLASSES = {"0x0300": "vga", "0x0302": "3d", "0x0380": "display", "0x1200": "accelerator"}
_VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}
# Display controllers of BMCs (ASPEED, Matrox, Huawei) and of hypervisors.
_NO_GPUS = frozenset(
    {"0x1a03", "0x102b", "0x19e5", "0x1234", "0x1013", "0x15ad", "0x80ee", "0x1af4", "0x1b36"}
    | {"0x1414"}
)


def kernel_release(files: HostFiles, running: str) -> str:
    """Release of the kernel; ``running`` is that of ``uname -r``, for a root without /proc."""
    try:
        found = files.line("proc/sys/kernel/osrelease")
    except OSError:
        found = running
    return found if _RELEASE.fullmatch(found) else UNKNOWN


def cgroup_version(files: HostFiles) -> str:
    """Version of the mounted control groups."""
    if files.is_file(f"{_CGROUPS}/cgroup.controllers"):
        return "v2"
    has_v1 = any(files.is_folder(f"{_CGROUPS}/{name}") for name in _V1_CONTROLLERS)
    if not has_v1:
        return UNKNOWN
    return "hybrid" if files.is_file(f"{_CGROUPS}/unified/cgroup.controllers") else "v1"


def cgroup_driver(files: HostFiles) -> str:
    """The kubelet's driver, by the groups of pods, else by its configuration."""
    for hierarchy in (_CGROUPS, *(f"{_CGROUPS}/{name}" for name in _V1_FOLDERS)):
        for folder in (hierarchy, f"{hierarchy}/kubelet.slice", f"{hierarchy}/kubelet"):
            for name in ("kubepods", "kubelet-kubepods"):
                if files.is_folder(f"{folder}/{name}.slice"):
                    return "systemd"
                if files.is_folder(f"{folder}/{name}"):
                    return "cgroupfs"
    try:
        found = _DRIVER.search(files.text(_KUBELET_CONFIGURATION))
    except OSError:
        return UNKNOWN
    return found[1] if found else UNKNOWN


def has_btf(files: HostFiles) -> bool | None:
    """Whether the kernel has type information; None if /sys/kernel is not visible."""
    if files.is_file(_BTF):
        return True
    return False if files.is_folder("sys/kernel") else None


def has_headers(files: HostFiles, release: str) -> bool | None:
    """Whether headers of this release are installed; None if neither folder is visible."""
    if release == UNKNOWN:
        return None
    # Merged systems have /lib as a link to /usr/lib, and a container may mount only one of them.
    modules = [f"lib/modules/{release}/build", f"usr/lib/modules/{release}/build"]
    sources = [f"usr/src/kernels/{release}", f"usr/src/linux-headers-{release}"]
    if any(files.is_folder(folder) for folder in (*modules, *sources)):
        return True
    is_visible = any(files.is_folder(folder) for folder in ("lib/modules", "usr/src"))
    return False if is_visible else None


def gpus(files: HostFiles) -> tuple[Gpu, ...] | None:
    """Display controllers and accelerators on PCI; None if PCI devices are not visible."""
    try:
        addresses = files.entries(_PCI)
    except OSError:
        return () if files.is_folder("sys/bus") else None
    found = (_gpu(files, name) for name in addresses if _PCI_ADDRESS.fullmatch(name))
    return tuple(gpu for gpu in found if gpu is not None)[:MAX_ITEMS]


def _gpu(files: HostFiles, address: str) -> Gpu | None:
    try:
        kind, vendor, device = (
            files.line(f"{_PCI}/{address}/{name}") for name in ("class", "vendor", "device")
        )
    except OSError:
        return None
    type_ = _PCI_CLASSES.get(kind[:6])
    if type_ is None or vendor in _NO_GPUS:
        return None
    if not _PCI_ID.fullmatch(vendor) or not _PCI_ID.fullmatch(device):
        return None
    return Gpu(address, _VENDORS.get(vendor, "other"), vendor, device, type_)
