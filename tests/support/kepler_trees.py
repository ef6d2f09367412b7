# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node file systems in the kernel's layout, which the probe of the ``kepler`` role reads."""

from __future__ import annotations

import typing as t
from pathlib import Path

# Path → content, or the target of a link; an empty text is a folder.
Tree = dict[str, "str | Link"]


class Link(t.NamedTuple):
    """A symbolic link."""

    target: str


KERNEL = "5.14.0-427.13.1.el9_4.x86_64"
INTEL_CPU = """\
processor	: 0
vendor_id	: GenuineIntel
cpu family	: 6
model		: 106
model name	: Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz
stepping	: 6
flags		: fpu vme de pse tsc msr lm constant_tsc avx512f
"""
VIRTUAL_CPU = INTEL_CPU.replace("lm constant_tsc", "lm hypervisor constant_tsc")
AMD_CPU = """\
processor	: 0
vendor_id	: AuthenticAMD
cpu family	: 25
model		: 17
model name	: AMD EPYC 9354 32-Core Processor
stepping	: 1
flags		: fpu vme de pse tsc msr lm constant_tsc
"""
ARM_CPU = """\
processor	: 0
BogoMIPS	: 50.00
Features	: fp asimd evtstrm aes crc32
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: 0x3
CPU part	: 0xd0c
CPU revision	: 1
"""
IBM_CPU = """\
vendor_id       : IBM/S390
# processors    : 4
bogomips per cpu: 3241.00
processor 0: version = FF,  identification = 0A1B28,  machine = 3931
"""
SYSINFO = "Manufacturer:         IBM\nType:                 3931\nLPAR Name:            PROD01\n"

CGROUP_V2: Tree = {
    "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids\n",
    "sys/fs/cgroup/kubepods.slice/cpu.weight": "100\n",
}
CGROUP_V1: Tree = {
    "sys/fs/cgroup/cpu,cpuacct/kubepods/cpu.shares": "1024\n",
    "sys/fs/cgroup/cpu": Link("cpu,cpuacct"),
    "sys/fs/cgroup/memory/kubepods/tasks": "",
}
HYBRID: Tree = {**CGROUP_V1, "sys/fs/cgroup/unified/cgroup.controllers": "\n"}


def dmi(vendor: str, product: str) -> Tree:
    """The firmware's texts."""
    folder = "sys/devices/virtual/dmi/id"
    return {
        f"{folder}/sys_vendor": f"{vendor}\n",
        f"{folder}/product_name": f"{product}\n",
        "sys/class/dmi/id": Link("../../devices/virtual/dmi/id"),
    }


def rapl(*zones: tuple[str, str]) -> Tree:
    """The powercap tree with these zones, each with folder and name."""
    devices = "devices/virtual/powercap/intel-rapl"
    tree: Tree = {"sys/class/powercap/intel-rapl": Link(f"../../{devices}")}
    for zone, name in zones:
        tree[f"sys/{devices}/{zone}/name"] = f"{name}\n"
        tree[f"sys/{devices}/{zone}/energy_uj"] = "81234567890\n"
        tree[f"sys/{devices}/{zone}/max_energy_range_uj"] = "262143328850\n"
        tree[f"sys/class/powercap/{zone}"] = Link(f"../../{devices}/{zone}")
    return tree


def hwmon(number: int, chip: str, **files: str) -> Tree:
    """One chip with its files."""
    folder = f"sys/devices/platform/{chip}/hwmon/hwmon{number}"
    tree: Tree = {f"sys/class/hwmon/hwmon{number}": Link(f"../../../{folder}")}
    tree[f"{folder}/name"] = f"{chip}\n"
    tree.update({f"{folder}/{name}": f"{value}\n" for name, value in files.items()})
    return tree


def pci(address: str, kind: str, vendor: str, device: str = "0x20b5") -> Tree:
    """One PCI device."""
    folder = f"sys/devices/pci0000:00/{address}"
    return {
        f"{folder}/class": f"{kind}\n",
        f"{folder}/vendor": f"{vendor}\n",
        f"{folder}/device": f"{device}\n",
        f"sys/bus/pci/devices/{address}": Link(f"../../../devices/pci0000:00/{address}"),
    }


def host(cpuinfo: str, *parts: Tree, btf: bool = True) -> Tree:
    """A host with this processor."""
    tree: Tree = {
        "proc/cpuinfo": cpuinfo,
        "proc/sys/kernel/osrelease": f"{KERNEL}\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always\n",
        "sys/class/net/lo/mtu": "65536\n",
        "sys/bus/pci/drivers/nvme/uevent": "\n",
        f"lib/modules/{KERNEL}/modules.dep": "\n",
    }
    if btf:
        tree["sys/kernel/btf/vmlinux"] = "\x9f\n"
    for part in parts:
        tree.update(part)
    return tree


DELL = dmi("Dell Inc.", "PowerEdge R750")
INTEL_ZONES = rapl(
    ("intel-rapl:0", "package-0"),
    ("intel-rapl:0:0", "dram"),
    ("intel-rapl:1", "package-1"),
    ("intel-rapl:1:0", "dram"),
)
TREES: dict[str, Tree] = {
    "intel": host(
        INTEL_CPU,
        DELL,
        INTEL_ZONES,
        CGROUP_V2,
        hwmon(0, "power_meter", power1_average="231000000"),
        pci("0000:03:00.0", "0x030000", "0x102b"),
        pci("0000:3b:00.0", "0x030200", "0x10de"),
    ),
    "amd": host(
        AMD_CPU,
        dmi("Supermicro", "AS -2015CS-TNR"),
        rapl(("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core")),
        CGROUP_V1,
    ),
    "ampere": host(
        ARM_CPU,
        dmi("GIGABYTE", "R272-P30-JG"),
        CGROUP_V2,
        hwmon(
            3,
            "apm_xgene",
            power1_input="95000000",
            power1_label="CPU power",
            power2_input="31000000",
            power2_label="IO power",
        ),
    ),
    "rails": host(
        ARM_CPU,
        CGROUP_V2,
        hwmon(1, "ina3221", in1_input="5000", in1_label="VDD_CPU_CV", curr1_input="960"),
        # A battery: the voltage has no current of its number.
        hwmon(2, "BAT0", in0_input="12000", curr1_input="700"),
    ),
    "negative rail": host(
        ARM_CPU, CGROUP_V2, hwmon(1, "ina226", in1_input="5000", curr1_input="-20")
    ),
    "s390x": host(IBM_CPU, {"proc/sysinfo": SYSINFO}, CGROUP_V2),
    "virtual": host(VIRTUAL_CPU, dmi("QEMU", "Standard PC (Q35 + ICH9, 2009)"), CGROUP_V2),
    "old": host(INTEL_CPU, DELL, rapl(("intel-rapl:0", "package-0")), HYBRID, btf=False),
    "container": {"proc/cpuinfo": INTEL_CPU, "sys/fs/cgroup/cgroup.controllers": "cpu\n"},
    # Container runtimes mount an empty folder over the tree of the zones.
    "masked": {
        **host(INTEL_CPU, DELL, CGROUP_V2),
        "sys/class/powercap/intel-rapl:0": Link("../../devices/virtual/powercap/intel-rapl:0"),
        "sys/devices/virtual/powercap/.": "",
    },
    "gpu sensors": host(
        INTEL_CPU, DELL, CGROUP_V2, hwmon(1, "amdgpu", power1_average="40000000", power1_cap="1")
    ),
    "metal of a cloud": host(
        INTEL_CPU, dmi("Amazon EC2", "m5.metal"), rapl(("intel-rapl:0", "package-0")), CGROUP_V2
    ),
}


def grow(tree: Tree, root: Path) -> Path:
    """Create the tree below `root` and return it."""
    for name, content in tree.items():
        path = root / name
        if name.endswith("/."):
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Link):
            path.symlink_to(content.target)
        else:
            path.write_text(content, encoding="latin-1")
    return root
