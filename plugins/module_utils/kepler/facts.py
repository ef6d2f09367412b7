# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Hardware facts of one node, for results, annotations and verdicts.

None is a fact that the source lacks, such as the RAPL zones in a Node object.
"""

from __future__ import annotations

import dataclasses
import typing as t
from dataclasses import dataclass

from ..base.boundary import InvalidField, shown
from ..base.fields.strict import mapping, mappings, texts
from ..base.json_types import Object

UNKNOWN = "unknown"
BARE_METAL = "none"  # names of systemd-detect-virt
SOURCES = ("host", "node")
CGROUP_VERSIONS = ("v1", "v2", "hybrid", UNKNOWN)
CGROUP_DRIVERS = ("systemd", "cgroupfs", UNKNOWN)
SENSOR_TYPES = ("power", "energy", "voltage_current")
SENSOR_SCOPES = ("machine", "component")

MAX_TEXT_LENGTH = 200
MAX_ITEMS = 128  # limit of one list; a machine with eight packages has 24 RAPL zones
_MAX_ENERGY = 2**64 - 1


@dataclass(frozen=True)
class RaplZone:
    """One energy counter of the powercap tree. ``problem`` is the reason if it is unreadable."""

    path: str
    name: str
    max_energy_range_uj: t.Optional[int]
    readable: bool
    problem: str = ""


@dataclass(frozen=True)
class HwmonSensor:
    """One sensor of power or energy, or a pair of voltage and current with the path of the first.

    ``scope`` machine is a meter of the whole machine (ACPI).
    """

    path: str
    chip: str
    label: str
    type: str
    scope: str
    readable: bool
    problem: str = ""


@dataclass(frozen=True)
class Gpu:
    """One display controller or accelerator on PCI. ``type`` comes from its class."""

    address: str
    vendor: str
    vendor_id: str
    device_id: str
    type: str


@dataclass(frozen=True)
class NodeFacts:
    """Facts of one node. ``problems`` are files that could not be read."""

    source: str
    architecture: str = UNKNOWN
    operating_system: str = "linux"
    kernel: str = UNKNOWN
    cpu_model: str = UNKNOWN
    microarchitecture: str = UNKNOWN
    virtualization: str = UNKNOWN
    cgroup_version: str = UNKNOWN
    cgroup_driver: str = UNKNOWN
    rapl_zones: t.Optional[tuple[RaplZone, ...]] = None
    hwmon_sensors: t.Optional[tuple[HwmonSensor, ...]] = None
    kernel_headers: t.Optional[bool] = None
    btf: t.Optional[bool] = None
    gpus: t.Optional[tuple[Gpu, ...]] = None
    problems: tuple[str, ...] = ()

    @property
    def is_bare_metal(self) -> bool:
        """Whether no hypervisor is below the node's kernel, as far as is known."""
        return self.virtualization == BARE_METAL

    @property
    def is_virtual(self) -> bool:
        """Whether a hypervisor is known to be below the node's kernel."""
        return self.virtualization not in (BARE_METAL, UNKNOWN)

    def as_dict(self) -> dict[str, t.Any]:
        """The facts in the form of module results and of the annotation."""
        found = dataclasses.asdict(self)
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in found.items()
        }

    @classmethod
    def from_dict(cls, given: t.Any) -> NodeFacts:
        """Facts from the form of results; other members are ignored. Raises InvalidField."""
        found = mapping(given, "facts")
        return cls(
            source=_choice(found, "source", SOURCES),
            cgroup_version=_choice(found, "cgroup_version", CGROUP_VERSIONS),
            cgroup_driver=_choice(found, "cgroup_driver", CGROUP_DRIVERS),
            rapl_zones=_items(found, "rapl_zones", _zone),
            hwmon_sensors=_items(found, "hwmon_sensors", _sensor),
            gpus=_items(found, "gpus", _gpu),
            kernel_headers=_flag(found, "kernel_headers"),
            btf=_flag(found, "btf"),
            problems=tuple(_problems(found)),
            **{name: _text(found, name) for name in _TEXTS},
        )


_TEXTS = (
    "architecture",
    "operating_system",
    "kernel",
    "cpu_model",
    "microarchitecture",
    "virtualization",
)
Item = t.TypeVar("Item")


def _text(given: Object, name: str, path: str = "") -> str:
    value = given.get(name)
    if not isinstance(value, str) or len(value) > MAX_TEXT_LENGTH or not value.isprintable():
        problem = f"{shown(value)} is not a printable text of at most {MAX_TEXT_LENGTH} characters"
        raise InvalidField(path + name, problem)
    return value


def _choice(given: Object, name: str, choices: t.Sequence[str], path: str = "") -> str:
    value = given.get(name)
    if not isinstance(value, str) or value not in choices:
        raise InvalidField(path + name, f"{shown(value)} is none of {', '.join(choices)}")
    return value


def _flag(given: Object, name: str) -> bool | None:
    value = given.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidField(name, f"{shown(value)} is neither true, false nor null")
    return value


def _items(
    given: Object, name: str, read: t.Callable[[Object, str], Item]
) -> tuple[Item, ...] | None:
    if given.get(name) is None:
        return None
    found = mappings(given[name], name)
    if len(found) > MAX_ITEMS:
        raise InvalidField(name, f"it has {len(found)} items; the limit is {MAX_ITEMS}")
    return tuple(read(item, f"{name}[{index}].") for index, item in enumerate(found))


def _problems(given: Object) -> list[str]:
    found = texts(given.get("problems"), "problems")
    if len(found) > MAX_ITEMS:
        raise InvalidField("problems", f"it has {len(found)} items; the limit is {MAX_ITEMS}")
    return [_text({"": text}, "", f"problems[{index}]") for index, text in enumerate(found)]


def _zone(given: Object, path: str) -> RaplZone:
    most = given.get("max_energy_range_uj")
    is_whole = isinstance(most, int) and not isinstance(most, bool)
    if most is not None and not (is_whole and 0 <= most <= _MAX_ENERGY):
        raise InvalidField(f"{path}max_energy_range_uj", f"{shown(most)} is not a count of µJ")
    return RaplZone(
        path=_text(given, "path", path),
        name=_text(given, "name", path),
        max_energy_range_uj=most,
        readable=_readable(given, path),
        problem=_text(given, "problem", path),
    )


def _sensor(given: Object, path: str) -> HwmonSensor:
    return HwmonSensor(
        path=_text(given, "path", path),
        chip=_text(given, "chip", path),
        label=_text(given, "label", path),
        type=_choice(given, "type", SENSOR_TYPES, path),
        scope=_choice(given, "scope", SENSOR_SCOPES, path),
        readable=_readable(given, path),
        problem=_text(given, "problem", path),
    )


def _gpu(given: Object, path: str) -> Gpu:
    names = [field.name for field in dataclasses.fields(Gpu)]
    return Gpu(**{name: _text(given, name, path) for name in names})


def _readable(given: Object, path: str) -> bool:
    value = given.get("readable")
    if not isinstance(value, bool):
        raise InvalidField(f"{path}readable", f"{shown(value)} is neither true nor false")
    return value
