# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Processor of a node: architecture, model name and microarchitecture, from /proc/cpuinfo.

Sources: Linux, arch/x86/include/asm/intel-family.h, arch/x86/kernel/cpu/amd.c,
arch/arm64/include/asm/cputype.h, arch/s390/kernel/processor.c.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from ...base.fields.lenient import text
from ..facts import MAX_TEXT_LENGTH, UNKNOWN

# Names of `uname -m` and of Kubernetes.
_ARCHITECTURES = {
    "x86_64": "amd64",
    "aarch64": "arm64",
    "s390x": "s390x",
    "ppc64le": "ppc64le",
    "riscv64": "riscv64",
}
_INTEL = {
    "nehalem": (0x1A, 0x1E, 0x1F, 0x2E),
    "westmere": (0x25, 0x2C, 0x2F),
    "sandybridge": (0x2A, 0x2D),
    "ivybridge": (0x3A, 0x3E),
    "haswell": (0x3C, 0x3F, 0x45, 0x46),
    "broadwell": (0x3D, 0x47, 0x4F, 0x56),
    "skylake": (0x4E, 0x55, 0x5E),
    "kabylake": (0x8E, 0x9E),
    "cometlake": (0xA5, 0xA6),
    "icelake": (0x6A, 0x6C, 0x7D, 0x7E, 0x9D),
    "rocketlake": (0xA7,),
    "tigerlake": (0x8C, 0x8D),
    "alderlake": (0x97, 0x9A),
    "raptorlake": (0xB7, 0xBA, 0xBF),
    "meteorlake": (0xAA, 0xAC),
    "arrowlake": (0xB5, 0xC5, 0xC6),
    "lunarlake": (0xBD,),
    "pantherlake": (0xCC,),
    "sapphirerapids": (0x8F,),
    "emeraldrapids": (0xCF,),
    "graniterapids": (0xAD, 0xAE),
    "sierraforest": (0xAF,),
    "clearwaterforest": (0xDD,),
    "grandridge": (0xB6,),
    "silvermont": (0x37, 0x4D),
    "goldmont": (0x5C, 0x5F, 0x7A),
    "tremont": (0x86, 0x96, 0x9C),
    "knightslanding": (0x57,),
    "knightsmill": (0x85,),
}
# First and last model of each microarchitecture, by family.
_AMD: t.Mapping[int, t.Sequence[tuple[int, int, str]]] = {
    0x15: ((0x00, 0xFF, "bulldozer"),),
    0x16: ((0x00, 0xFF, "jaguar"),),
    0x17: ((0x30, 0x4F, "zen2"), (0x60, 0x7F, "zen2"), (0x90, 0xAF, "zen2"), (0, 0x5F, "zen")),
    0x18: ((0x00, 0xFF, "dhyana"),),
    0x19: ((0x10, 0x1F, "zen4"), (0x60, 0xAF, "zen4"), (0x00, 0x5F, "zen3")),
    0x1A: ((0x50, 0x5F, "zen6"), (0x80, 0xCF, "zen6"), (0x00, 0x7F, "zen5")),
}
# Implementer and part of the identification register.
_ARM = {
    (0x41, 0xD03): ("Arm", "Cortex-A53"),
    (0x41, 0xD07): ("Arm", "Cortex-A57"),
    (0x41, 0xD08): ("Arm", "Cortex-A72"),
    (0x41, 0xD0C): ("Arm", "Neoverse-N1"),
    (0x41, 0xD40): ("Arm", "Neoverse-V1"),
    (0x41, 0xD49): ("Arm", "Neoverse-N2"),
    (0x41, 0xD4F): ("Arm", "Neoverse-V2"),
    (0x41, 0xD84): ("Arm", "Neoverse-V3"),
    (0x41, 0xD8E): ("Arm", "Neoverse-N3"),
    (0x43, 0x0AF): ("Marvell", "ThunderX2"),
    (0x46, 0x001): ("Fujitsu", "A64FX"),
    (0x48, 0xD01): ("HiSilicon", "TSV110"),
    (0xC0, 0xAC3): ("Ampere", "Ampere-1"),
    (0xC0, 0xAC4): ("Ampere", "Ampere-1A"),
}
_IBM_MACHINES = {
    **dict.fromkeys(("2964", "2965"), "z13"),
    **dict.fromkeys(("3906", "3907"), "z14"),
    **dict.fromkeys(("8561", "8562"), "z15"),
    **dict.fromkeys(("3931", "3932"), "z16"),
    **dict.fromkeys(("9175", "9176"), "z17"),
}
_MACHINE = re.compile(r"machine = ([0-9A-F]{4})\b")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]{1,8}|[0-9]{1,8}")


@dataclass(frozen=True)
class Processor:
    """The processor. ``has_hypervisor_flag`` is None if its architecture has no such flag."""

    architecture: str = UNKNOWN
    model: str = UNKNOWN
    microarchitecture: str = UNKNOWN
    has_hypervisor_flag: t.Optional[bool] = None


def architecture_of(machine: str) -> str:
    """Kubernetes' name of an architecture of ``uname -m``."""
    return _ARCHITECTURES.get(machine, machine[:MAX_TEXT_LENGTH] or UNKNOWN)


def processor(cpuinfo: str, machine: str) -> Processor:
    """The processor that /proc/cpuinfo describes; ``machine`` is that of ``uname -m``."""
    fields = _fields(cpuinfo)
    if "vendor_id" in fields and "flags" in fields:
        return _x86(fields)
    if "CPU implementer" in fields:
        return _arm(fields)
    if fields.get("vendor_id") == "IBM/S390":
        return _ibm_z(cpuinfo)
    if "cpu" in fields and fields["cpu"].startswith("POWER"):
        model = fields["cpu"].partition(",")[0]
        return Processor("ppc64le", _shown(model), _shown(model.split()[0].lower()))
    if fields.get("isa", "").startswith("rv64"):
        return Processor("riscv64", _shown(fields.get("uarch", "")), UNKNOWN)
    return Processor(architecture_of(machine))


def x86_microarchitecture(
    vendor: str, family: int | None, model: int | None, stepping: int | None = None
) -> str:
    """Lower-case name of the microarchitecture by its numbers; None for an unknown number."""
    if family is None or model is None:
        return UNKNOWN
    if vendor in ("AuthenticAMD", "HygonGenuine", "AMD", "Hygon"):
        ranges = _AMD.get(family, ())
        return next((name for low, high, name in ranges if low <= model <= high), UNKNOWN)
    if vendor not in ("GenuineIntel", "Intel") or family != 6:
        return UNKNOWN
    if model == 0x55 and stepping is not None and stepping >= 5:
        return "cascadelake" if stepping < 10 else "cooperlake"
    return next((name for name, models in _INTEL.items() if model in models), UNKNOWN)


def _x86(fields: t.Mapping[str, str]) -> Processor:
    vendor = fields["vendor_id"]
    family, model, stepping = (
        _number(fields.get(name)) for name in ("cpu family", "model", "stepping")
    )
    flags = fields["flags"].split()
    return Processor(
        architecture="amd64" if "lm" in flags else "386",
        model=_shown(fields.get("model name", "")),
        microarchitecture=x86_microarchitecture(vendor, family, model, stepping),
        has_hypervisor_flag="hypervisor" in flags,
    )


def _arm(fields: t.Mapping[str, str]) -> Processor:
    implementer, part = _number(fields["CPU implementer"]), _number(fields.get("CPU part"))
    # Kernels of 32 bits number the architecture too, below 8.
    architecture = "arm64" if (_number(fields.get("CPU architecture")) or 8) >= 8 else "arm"
    if implementer is None or part is None or (implementer, part) not in _ARM:
        return Processor(architecture, _shown(fields.get("model name", "")))
    vendor, name = _ARM[implementer, part]
    return Processor(architecture, f"{vendor} {name}", name.lower())


def _ibm_z(cpuinfo: str) -> Processor:
    match = _MACHINE.search(cpuinfo)
    if match is None:
        return Processor("s390x", "IBM Z")
    name = _IBM_MACHINES.get(match[1], UNKNOWN)
    return Processor("s390x", f"IBM Z machine type {match[1]}", name)


def _fields(cpuinfo: str) -> dict[str, str]:
    """Names with the value of the first processor."""
    found: dict[str, str] = {}
    for line in cpuinfo.split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            found.setdefault(name.strip(), value.strip())
    return found


def _number(value: str | None) -> int | None:
    match = _NUMBER.match(value or "")
    return None if match is None else int(match[0], 0 if match[0][:2].lower() == "0x" else 10)


def _shown(value: str) -> str:
    return text(" ".join(value.split()), MAX_TEXT_LENGTH) or UNKNOWN
