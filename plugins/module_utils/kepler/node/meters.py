# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Energy meters of a node in sysfs: RAPL zones, and sensors of hwmon chips, with their readings.

An attribute of a device is a file with one value. Sources: Linux,
Documentation/power/powercap/powercap.rst and Documentation/hwmon/sysfs-interface.rst; Kepler,
internal/device/hwmon_power_meter.go and hwmon_chip_rules.go (main, August 2026); ACPI 6.5, 10.4.1
(_PMM).
"""

from __future__ import annotations

import re
import typing as t

from ...base.fields.lenient import text
from ..facts import MAX_ITEMS, MAX_TEXT_LENGTH, HwmonSensor, RaplZone
from .host_files import HostFiles

MAX_COUNT = 2**64 - 1
_COUNT = re.compile(r"[0-9]{1,24}", re.ASCII)
# Kepler reads this many bytes of a sensor.
_MAX_COUNT_LENGTH = 128


def word(files: HostFiles, path: str) -> tuple[str, str]:
    """The first line of a file, and the problem with it; one of the two is empty."""
    try:
        value = text(files.line(path), MAX_TEXT_LENGTH)
    except OSError as error:
        return "", _reason(error)
    return value, "" if value else "the file is empty"


def count(files: HostFiles, path: str) -> tuple[int | None, str]:
    """The whole number of a file, and the problem without one: as Kepler, of 64 bits, unsigned."""
    try:
        value = files.text(path, _MAX_COUNT_LENGTH).strip()
    except OSError as error:
        return None, _reason(error)
    if not value:
        return None, "the file is empty"
    if not _COUNT.fullmatch(value) or int(value) > MAX_COUNT:
        negative = value.startswith("-") and _COUNT.fullmatch(value[1:])
        return None, f"it reads {value}" if negative else "the file holds no number of 64 bits"
    return int(value), ""


def _reason(error: OSError) -> str:
    return text((error.strerror or type(error).__name__).lower(), MAX_TEXT_LENGTH)


_POWERCAP = "sys/class/powercap"
# A zone has numbers after the control type, such as intel-rapl:0:1; AMD's zones have this name too.
_ZONE = re.compile(r"intel-rapl(?:-mmio|-tpmi)?(?::[0-9a-f]{1,4}){1,3}")


def rapl_zones(files: HostFiles) -> tuple[RaplZone, ...] | None:
    """The zones in the order of their names; None if the tree is not visible."""
    names = _entries(files, _POWERCAP)
    if names is None:
        return None
    return tuple(_zone(files, name) for name in names if _ZONE.fullmatch(name))[:MAX_ITEMS]


def _entries(files: HostFiles, tree: str) -> list[str] | None:
    """Names in a tree of meters; None if it is not visible."""
    try:
        return files.entries(tree)
    except OSError:
        # A kernel without such meters still has /sys/class.
        return [] if files.is_folder("sys/class") else None


def _zone(files: HostFiles, folder: str) -> RaplZone:
    name, name_problem = word(files, f"{_POWERCAP}/{folder}/name")
    most, most_problem = count(files, f"{_POWERCAP}/{folder}/max_energy_range_uj")
    _energy, problem = count(files, f"{_POWERCAP}/{folder}/energy_uj")
    # Kepler reads all three, and stops at the first that it cannot read.
    first = name_problem or most_problem or problem
    return RaplZone(folder, name, most, readable=not first, problem=first)


_HWMON = "sys/class/hwmon"
_CHIP = re.compile(r"hwmon[0-9]{1,5}")
_FILE = re.compile(r"(?P<type>power|energy|in|curr)(?P<number>[0-9]{1,4})_(?P<what>input|average)")
_NO_ZONE_NAME = re.compile(r"[^a-z0-9:_]")
# The driver of ACPI's meter, which is in front of the power supplies.
_MACHINE_CHIP = "power_meter"

# Largest power of one machine, as of a BMC's reading.
_MAX_WATTS = 100_000
# Firmware and drivers answer all ones, or the largest number of their type, without a reading; the
# second unit is that of firmware, a thousand times the kernel's.
_NO_READINGS = frozenset(
    number * factor
    for number in (2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1)
    for factor in (1, 1000)
)
# A counter of µJ that large has counted 10 kW for 29 years.
_MAX_MICROJOULES = 2**63

# Voltages and currents that Kepler pairs on known chips, by number. Other chips, and those of these
# that have no such pair, pair equal numbers.
_PAIRS: dict[str, dict[int, int]] = {
    **{key: {1: 1} for key in ("ina209", "ina219", "ina226", "ina233", "ina238", "ina260")},
    **{key: {1: 1} for key in ("ltc2945", "ltc4260", "ltc4261", "ltc4282")},
    **{key: {1: 1} for key in ("adm1275", "adm1276", "adm1278", "adm1293", "mp2975")},
    **{key: {2: 1} for key in ("max20730", "max20751")},
    "ltc2947": {0: 1},
    "ltc2992": {0: 1, 2: 2},
    "ina3221": {number: number for number in range(1, 4)},
    "max34440": {number: number for number in range(1, 7)},
}

# The files of each sensor of one type: number → input or average → name.
_Files = dict[int, dict[str, str]]


def hwmon_sensors(files: HostFiles) -> tuple[HwmonSensor, ...] | None:
    """Enabled sensors in the order of chips, types and numbers; None if the tree is not visible.

    A voltage and a current that Kepler multiplies are one sensor.
    """
    chips = _entries(files, _HWMON)
    if chips is None:
        return None
    found: list[HwmonSensor] = []
    for chip in chips:
        if _CHIP.fullmatch(chip) and len(found) < MAX_ITEMS:
            found += _Chip(files, chip).sensors()
    return tuple(found[:MAX_ITEMS])


class _Chip:
    def __init__(self, files: HostFiles, folder: str) -> None:
        self._files, self._folder = files, folder
        self._name, _problem = word(files, f"{_HWMON}/{folder}/name")
        self._by_type: dict[str, _Files] = {}
        try:
            names = files.entries(f"{_HWMON}/{folder}")
        except OSError:
            names = []
        for name in names:
            match = _FILE.fullmatch(name)
            if match is not None:
                sensors = self._by_type.setdefault(match["type"], {})
                sensors.setdefault(int(match["number"]), {})[match["what"]] = name

    def sensors(self) -> list[HwmonSensor]:
        found: list[HwmonSensor] = []
        for kind, names in (("energy", ("input",)), ("power", ("average", "input"))):
            for number, given in self._enabled(kind):
                # Kepler prefers an average.
                name = next((given[what] for what in names if what in given), None)
                if name is not None:
                    found.append(self._sensor(kind, number, name))
        return [*found, *self._pairs()][:MAX_ITEMS]

    def _enabled(self, kind: str) -> list[tuple[int, dict[str, str]]]:
        return [
            (number, given)
            for number, given in sorted(self._by_type.get(kind, {}).items())[:MAX_ITEMS]
            if self._word(f"{kind}{number}_enable") != "0"
        ]

    def _sensor(self, kind: str, number: int, name: str) -> HwmonSensor:
        value, problem = self._count(name)
        if value is not None:
            problem = _energy_problem(value) if kind == "energy" else _power_problem(value)
        scope = "machine" if self._name == _MACHINE_CHIP else "component"
        if value == 0 and scope == "machine":
            problem = "it reads 0 W for the whole machine"
        return HwmonSensor(
            path=f"{self._folder}/{name}",
            chip=self._name,
            label=self._word(f"{kind}{number}_label"),
            type=kind,
            scope=scope,
            readable=not problem,
            problem=problem,
        )

    def _pairs(self) -> t.Iterator[HwmonSensor]:
        """Products of voltages and currents, paired as in Kepler."""
        voltages, currents = (
            {number: given for number, given in self._enabled(kind) if "input" in given}
            for kind in ("in", "curr")
        )
        pairs = self._paired_labels(voltages, currents)
        for by_number in (_PAIRS.get(_zone_name(self._name), {}), {one: one for one in voltages}):
            pairs = pairs or {
                voltage: current
                for voltage, current in by_number.items()
                if voltage in voltages and current in currents
            }
        for voltage, current in sorted(pairs.items()):
            yield self._pair(voltage, voltages[voltage], currents[current])

    def _paired_labels(self, voltages: _Files, currents: _Files) -> dict[int, int]:
        of_voltages, of_currents = (
            {
                label: number
                for number in numbers
                for label in [_zone_name(self._word(f"{kind}{number}_label"))]
                if label
            }
            for kind, numbers in (("in", voltages), ("curr", currents))
        )
        return {
            number: of_currents[label]
            for label, number in of_voltages.items()
            if label in of_currents
        }

    def _pair(self, number: int, voltage: dict[str, str], current: dict[str, str]) -> HwmonSensor:
        what = "average" if "average" in voltage and "average" in current else "input"
        problem, watts = "", 1
        for name in (voltage[what], current[what]):
            value, unread = self._count(name)
            if value is None or value in _NO_READINGS:
                problem = problem or f"{name}: {unread or _no_reading(value)}"
            watts *= value or 0
        return HwmonSensor(
            path=f"{self._folder}/{voltage[what]}",
            chip=self._name,
            label=self._word(f"in{number}_label"),
            type="voltage_current",
            scope="component",
            readable=not (problem := problem or _power_problem(watts)),
            problem=problem,
        )

    def _word(self, name: str) -> str:
        return word(self._files, f"{_HWMON}/{self._folder}/{name}")[0]

    def _count(self, name: str) -> tuple[int | None, str]:
        return count(self._files, f"{_HWMON}/{self._folder}/{name}")


def _zone_name(label: str) -> str:
    """A label or name in the form of Kepler's zones."""
    return _NO_ZONE_NAME.sub("_", label.lower()).strip("_")


def _power_problem(microwatts: int) -> str:
    if microwatts in _NO_READINGS:
        return _no_reading(microwatts)
    if microwatts > _MAX_WATTS * 10**6:
        return f"it reads {microwatts / 1e6:g} W, more than {_MAX_WATTS} W"
    return ""


def _energy_problem(microjoules: int) -> str:
    if microjoules == 0:
        # Kepler takes such a counter for a sensor of power, and fails.
        return "it has counted no energy"
    if microjoules in _NO_READINGS or microjoules >= _MAX_MICROJOULES:
        return _no_reading(microjoules)
    return ""


def _no_reading(value: int | None) -> str:
    return f"it reads {value}, which stands for no reading"
