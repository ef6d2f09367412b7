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
            source=_of(SOURCES)(found, "source"),
            cgroup_version=_of(CGROUP_VERSIONS)(found, "cgroup_version"),
            cgroup_driver=_of(CGROUP_DRIVERS)(found, "cgroup_driver"),
            rapl_zones=_items(
                found, "rapl_zones", RaplZone, max_energy_range_uj=_energy, readable=_readable
            ),
            hwmon_sensors=_items(
                found,
                "hwmon_sensors",
                HwmonSensor,
                type=_of(SENSOR_TYPES),
                scope=_of(SENSOR_SCOPES),
                readable=_readable,
            ),
            gpus=_items(found, "gpus", Gpu),
            kernel_headers=_flag(found, "kernel_headers"),
            btf=_flag(found, "btf"),
            problems=tuple(_problems(found)),
            **{name: _text(found, name) for name in _TEXTS},
        )


_TEXTS = (
    *("architecture", "operating_system", "kernel", "cpu_model", "microarchitecture"),
    "virtualization",
)
Item = t.TypeVar("Item", RaplZone, HwmonSensor, Gpu)


def _text(given: Object, name: str, path: str = "") -> str:
    value = given.get(name)
    if not isinstance(value, str) or len(value) > MAX_TEXT_LENGTH or not value.isprintable():
        problem = f"{shown(value)} is not a printable text of at most {MAX_TEXT_LENGTH} characters"
        raise InvalidField(path + name, problem)
    return value


def _of(choices: t.Sequence[str]) -> t.Callable[..., str]:
    """A reader of one of these texts."""

    def read(given: Object, name: str, path: str = "") -> str:
        value = given.get(name)
        if not isinstance(value, str) or value not in choices:
            raise InvalidField(path + name, f"{shown(value)} is none of {', '.join(choices)}")
        return value

    return read


def _flag(given: Object, name: str) -> bool | None:
    value = given.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidField(name, f"{shown(value)} is neither true, false nor null")
    return value


def _items(
    given: Object, name: str, kind: type[Item], **readers: t.Callable[[Object, str, str], t.Any]
) -> tuple[Item, ...] | None:
    """Items whose members are texts, except those with a reader; None if they are not known."""
    if given.get(name) is None:
        return None
    members = {each.name: readers.get(each.name, _text) for each in dataclasses.fields(kind)}
    return tuple(
        kind(**{key: read(item, key, f"{name}[{index}].") for key, read in members.items()})
        for index, item in enumerate(_bounded(mappings(given[name], name), name))
    )


def _bounded(found: t.Sequence[t.Any], name: str) -> t.Sequence[t.Any]:
    if len(found) > MAX_ITEMS:
        raise InvalidField(name, f"it has {len(found)} items; the limit is {MAX_ITEMS}")
    return found


def _problems(given: Object) -> list[str]:
    found = _bounded(texts(given.get("problems"), "problems"), "problems")
    return [_text({"": text}, "", f"problems[{index}]") for index, text in enumerate(found)]


def _energy(given: Object, name: str, path: str) -> int | None:
    value = given.get(name)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (is_whole and 0 <= value <= _MAX_ENERGY):
        raise InvalidField(path + name, f"{shown(value)} is not a count of µJ")
    return value


def _readable(given: Object, name: str, path: str) -> bool:
    value = given.get(name)
    if not isinstance(value, bool):
        raise InvalidField(path + name, f"{shown(value)} is neither true nor false")
    return value
