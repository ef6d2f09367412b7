# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The verdict on a node: whether Kepler can meter it, the meter, and the reasons.

Pure functions of facts. Sources: Kepler's internal/device (v0.10.0 to v0.11.4), and pkg/bpf
(v0.7.12). Kepler 0.10 and later exits without a CPU meter: RAPL zones, hwmon sensors (0.11.4 and
later), or its fake meter. Kepler 0.9 and earlier needs eBPF, and estimates without a meter.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t
from dataclasses import dataclass

from ..base.boundary import shown
from ..base.errors import InvalidInput
from .facts import BARE_METAL, UNKNOWN, HwmonSensor, NodeFacts

Meter = t.Literal["rapl", "hwmon", "redfish", "model", "none"]
METERS: tuple[Meter, ...] = t.get_args(Meter)

# Drivers of GPUs: shares of the CPU time would divide the GPU's power.
_GPU_CHIPS = frozenset({"amdgpu", "radeon", "nouveau", "nvidia", "i915", "xe"})
# Distributions build kernels with BTF since about this release.
_BTF_KERNEL = (5, 8)
_KERNEL = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})(?![0-9])")

_VERSION = re.compile(
    r"v?([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?(?:[-+][0-9A-Za-z.+-]{1,64})?"
)
_REWRITE, _REDFISH, _HWMON = (0, 10, 0), (0, 11, 0), (0, 11, 4)
_SHOWN_NAMES = 4
_SENSORS = {
    "energy": "counters of energy",
    "power": "sensors of power",
    "voltage_current": "pairs of voltage and current",
}


@dataclass(frozen=True, order=True)
class KeplerVersion:
    """A release of Kepler, and its capabilities."""

    numbers: tuple[int, int, int]

    @classmethod
    def parse(cls, text: str) -> KeplerVersion:
        """The version in a tag such as ``v0.11.4``. Raises InvalidInput."""
        if text == "latest":
            return LATEST
        match = _VERSION.fullmatch(text)
        if match is None:
            raise InvalidInput(
                f"kepler_version: {shown(text)} is not a version of Kepler; give one such as "
                "0.11.4, or latest"
            )
        major, minor, patch = (int(number or 0) for number in match.groups())
        return cls((major, minor, patch))

    def __str__(self) -> str:
        return "latest" if self == LATEST else ".".join(map(str, self.numbers))

    @property
    def uses_ebpf(self) -> bool:
        """Whether it counts in the kernel by eBPF and can estimate by a model."""
        return self.numbers < _REWRITE

    @property
    def reads_hwmon(self) -> bool:
        """Whether its configuration can select hwmon sensors as the CPU meter."""
        return self.numbers >= _HWMON

    @property
    def polls_kubelet(self) -> bool:
        """Whether it can read pods from the kubelet; earlier versions ignore the setting."""
        return self.numbers >= _HWMON

    @property
    def is_newer_than_known(self) -> bool:
        """Whether the collection was written before it."""
        return self.numbers > NEWEST.numbers

    @property
    def sensor_types(self) -> tuple[str, ...]:
        """Types of hwmon sensors that meter; of each chip it reads those of the first type."""
        if self.uses_ebpf:
            return ("power",)
        if not self.reads_hwmon:
            return ()
        with_energy = ("energy",) if self.numbers > _HWMON else ()
        return (*with_energy, "power", "voltage_current")

    @property
    def reads_redfish(self) -> bool:
        """Whether it reads the power draw of the machine from a BMC."""
        return self.uses_ebpf or self.numbers >= _REDFISH


LATEST = KeplerVersion((9999, 0, 0))
NEWEST = KeplerVersion(_HWMON)


@dataclass(frozen=True)
class Bmc:
    """A BMC of the machine, with the object that names it, such as ``NodeConfig a/b``."""

    source: str
    redfish: bool = True

    def __str__(self) -> str:
        return f"the BMC of {self.source}"


@dataclass(frozen=True)
class Verdict:
    """Whether Kepler can run and meter on a node. ``reasons`` are one or more sentences."""

    supported: bool
    meter: Meter
    reasons: tuple[str, ...]

    @classmethod
    def no(cls, reason: str) -> Verdict:
        """The verdict on a node without a meter."""
        return cls(False, "none", (reason,))

    def as_dict(self) -> dict[str, t.Any]:
        """The verdict in the form of module results."""
        reasons = list(self.reasons)
        return {"supported": self.supported, "meter": self.meter, "reasons": reasons}


def judge(
    facts: NodeFacts,
    version: KeplerVersion,
    bmc: t.Optional[Bmc] = None,
    fake_cpu_meter: bool = False,
) -> Verdict:
    """The verdict on a node with these facts.

    A BMC proves bare metal. ``fake_cpu_meter`` means that Kepler's fake CPU meter starts if only a
    BMC meters the machine.
    """
    if bmc is not None and facts.source == "node" and facts.virtualization == UNKNOWN:
        facts = dataclasses.replace(facts, virtualization=BARE_METAL)
    grounds = _blocks(facts, version)
    if grounds:
        return Verdict.no(grounds)
    misses: list[str] = []
    candidates: tuple[tuple[Meter, _Meter], ...] = (
        ("rapl", _rapl(facts)),
        ("hwmon", _hwmon(facts, version)),
        ("redfish", _redfish(bmc, version, fake_cpu_meter)),
        ("model", _model(version)),
    )
    for meter, found in candidates:
        if found.works:
            also = () if bmc is None or meter == "redfish" else (f"{bmc} meters the machine, too",)
            reasons = (*misses, found.reason) if meter in ("redfish", "model") else (found.reason,)
            return Verdict(True, meter, (*reasons, *also))
        if found.reason:
            misses.append(found.reason)
    # The machine is metered anyway, but not by Kepler.
    return Verdict(False, "redfish" if bmc is not None and bmc.redfish else "none", tuple(misses))


class _Meter(t.NamedTuple):
    """Whether one meter works with Kepler, and the reason as a sentence."""

    works: bool
    reason: str


def _blocks(facts: NodeFacts, version: KeplerVersion) -> str:
    """The reason why Kepler cannot run at all; empty if it can."""
    if facts.operating_system != "linux":
        return f"Kepler runs on Linux, and the node has {facts.operating_system}"
    if facts.architecture == UNKNOWN:
        return "the processor architecture is not visible; mount the host's /proc"
    if version.uses_ebpf:
        return _ebpf_blocks(facts, version)
    return ""


def _ebpf_blocks(facts: NodeFacts, version: KeplerVersion) -> str:
    if facts.btf or facts.kernel_headers:
        return ""
    if facts.btf is None and facts.source == "node":
        match = _KERNEL.match(facts.kernel)
        if match is not None and (int(match[1]), int(match[2])) >= _BTF_KERNEL:
            return ""
        return (
            f"kernel {facts.kernel} may lack BTF, which eBPF of Kepler {version} needs;"
            " probe the host"
        )
    if facts.btf is None:
        return "/sys/kernel/btf is not visible; mount the host's /sys"
    if facts.kernel_headers is None:
        return (
            f"kernel {facts.kernel} has no BTF, and its headers are not visible; probe the host"
            " over SSH, or mount its /lib/modules and /usr/src"
        )
    return (
        f"kernel {facts.kernel} has neither BTF nor headers, which eBPF of Kepler {version} needs;"
        " install the headers of the running kernel"
    )


def _rapl(facts: NodeFacts) -> _Meter:
    zones = facts.rapl_zones
    if not zones:
        return _without_rapl(facts, is_probed=zones is not None)
    bad = [f"{zone.path} ({zone.problem})" for zone in zones if not zone.readable]
    if bad:
        return _Meter(False, f"RAPL zones {_some(bad)} cannot be read; run the probe as root")
    return _Meter(True, f"RAPL zones {_some([zone.name for zone in zones])} can be read")


def _without_rapl(facts: NodeFacts, is_probed: bool) -> _Meter:
    if facts.source == "host" and not is_probed:
        return _Meter(False, "/sys/class/powercap is not visible; mount the host's /sys")
    if facts.is_virtual:
        lack = " without RAPL zones" if is_probed else ", which has no RAPL zones as a rule"
        return _Meter(False, f"the node is a virtual machine ({facts.virtualization}){lack}")
    if facts.architecture != "amd64":
        return _Meter(False, f"{facts.architecture} processors have no RAPL zones")
    if is_probed:
        return _Meter(False, "the node has no RAPL zones; load the kernel module intel_rapl_msr")
    if facts.is_bare_metal:
        return _Meter(True, "the node is bare metal with RAPL zones as a rule; not probed")
    return _Meter(False, "whether the node is bare metal is unknown; probe the host")


def _hwmon(facts: NodeFacts, version: KeplerVersion) -> _Meter:
    sensors = facts.hwmon_sensors
    if sensors is None:
        if facts.source == "host":
            return _Meter(False, "/sys/class/hwmon is not visible; mount the host's /sys")
        return _Meter(False, "hwmon sensors are not visible in the Node; probe the host")
    usable = [sensor for sensor in sensors if sensor.chip not in _GPU_CHIPS]
    if not usable:
        owner = "only GPUs have" if sensors else "the node has no"
        return _Meter(False, f"{owner} hwmon power sensors")
    if not version.sensor_types:
        return _Meter(False, f"Kepler {version} reads no hwmon sensors; 0.11.4 and later do")
    metered = _metered(usable, version.sensor_types)
    if not metered:
        names = _some([_name(each) for each in usable])
        types = " and ".join(_SENSORS[kind] for kind in version.sensor_types)
        told = f"hwmon sensors {names} do not meter, as Kepler {version} reads only {types}"
        return _Meter(False, told)
    bad = [f"{each.path} ({each.problem})" for each in metered if not each.readable]
    if bad:
        remedy = "run the probe as root, and check the sensors' driver"
        return _Meter(False, f"hwmon sensors {_some(bad)} cannot be used; {remedy}")
    return _Meter(True, f"hwmon sensors {_some([_name(each) for each in metered])} can be read")


def _metered(sensors: t.Iterable[HwmonSensor], types: t.Sequence[str]) -> list[HwmonSensor]:
    """Of each chip the sensors of its first type."""
    chips: dict[str, list[HwmonSensor]] = {}
    for sensor in sensors:
        if sensor.type in types:
            chips.setdefault(sensor.path.partition("/")[0], []).append(sensor)
    return [
        sensor
        for chip in chips.values()
        for first in [min((each.type for each in chip), key=types.index)]
        for sensor in chip
        if sensor.type == first
    ]


def _name(sensor: HwmonSensor) -> str:
    return f"{sensor.chip} {sensor.label or sensor.path}"


def _redfish(bmc: Bmc | None, version: KeplerVersion, fake_cpu_meter: bool) -> _Meter:
    if bmc is None:
        return _Meter(False, "")
    if not bmc.redfish:
        return _Meter(False, f"{bmc} is not a Redfish service")
    if version.uses_ebpf:
        return _Meter(True, f"{bmc} meters the machine")
    if not version.reads_redfish:
        return _Meter(False, f"Kepler {version} reads no BMC; 0.11.0 and later do")
    if not fake_cpu_meter:
        return _Meter(
            False,
            f"{bmc} meters the machine, but Kepler {version} exits without a CPU meter;"
            " its fake one (fake_cpu_meter) lets it start",
        )
    return _Meter(True, f"{bmc} meters the machine, and the fake CPU meter lets Kepler start")


def _model(version: KeplerVersion) -> _Meter:
    if version.uses_ebpf:
        return _Meter(True, f"Kepler {version} estimates the power of the node by a model")
    return _Meter(False, f"Kepler {version} has no model that estimates power")


def _some(names: t.Sequence[str]) -> str:
    """The first of many names, so that a sentence stays short."""
    shown = list(names[:_SHOWN_NAMES])
    left = len(names) - len(shown)
    return ", ".join(shown) + (f" and {left} more" if left else "")
