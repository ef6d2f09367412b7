# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power meters of a node: RAPL zones of the powercap tree, and hwmon sensors.

Sources: Linux, Documentation/power/powercap/powercap.rst and
Documentation/hwmon/sysfs-interface.rst; Kepler, internal/device/hwmon_power_meter.go (v0.11.4).
"""

from __future__ import annotations

import re

from ansible_collections.wattwise.kube.plugins.module_utils.base.loose_json import text
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.facts import (
    LONGEST_TEXT,
    MOST_ITEMS,
    HwmonSensor,
    RaplZone,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.node.host_files import HostFiles

_POWERCAP, _HWMON = "sys/class/powercap", "sys/class/hwmon"
# A zone has numbers after the control type, such as intel-rapl:0:1; AMD's zones have this name too.
_ZONE = re.compile(r"intel-rapl(?:-mmio|-tpmi)?(?::[0-9a-f]{1,4}){1,3}")
_CHIP = re.compile(r"hwmon[0-9]{1,5}")
_SENSOR = re.compile(r"(?P<type>power|energy)(?P<number>[0-9]{1,4})_(?P<what>input|average)")
_COUNTER = re.compile(r"[0-9]{1,20}")
_READING = re.compile(r"-?[0-9]{1,20}")
_LARGEST_COUNT = 2**64 - 1
# The driver of ACPI's meter, which is in front of the power supplies.
_MACHINE_CHIP = "power_meter"


def rapl_zones(files: HostFiles) -> tuple[RaplZone, ...] | None:
    """The zones in the order of their names; None if the tree is not visible."""
    try:
        names = files.entries(_POWERCAP)
    except OSError:
        # A kernel without powercap still has /sys/class.
        return () if files.is_folder("sys/class") else None
    return tuple(_zone(files, name) for name in names if _ZONE.fullmatch(name))[:MOST_ITEMS]


def _zone(files: HostFiles, folder: str) -> RaplZone:
    name, name_problem = _value(files, f"{_POWERCAP}/{folder}/name")
    most, most_problem = _value(files, f"{_POWERCAP}/{folder}/max_energy_range_uj", _COUNTER)
    _energy, problem = _value(files, f"{_POWERCAP}/{folder}/energy_uj", _COUNTER)
    # Kepler reads all three, and stops at the first that it cannot read.
    first = name_problem or most_problem or problem
    return RaplZone(
        path=folder,
        name=name,
        max_energy_range_uj=min(int(most), _LARGEST_COUNT) if most else None,
        readable=not first,
        problem=first,
    )


def hwmon_sensors(files: HostFiles) -> tuple[HwmonSensor, ...] | None:
    """Sensors in the order of chips and numbers; None if the tree is not visible.

    Other sensors of a chip with energy sensors do not count, as in Kepler.
    """
    try:
        chips = files.entries(_HWMON)
    except OSError:
        return () if files.is_folder("sys/class") else None
    found: list[HwmonSensor] = []
    for chip in chips:
        if _CHIP.fullmatch(chip) and len(found) < MOST_ITEMS:
            found += _chip_sensors(files, chip)
    return tuple(found[:MOST_ITEMS])


def _chip_sensors(files: HostFiles, folder: str) -> list[HwmonSensor]:
    try:
        names = files.entries(f"{_HWMON}/{folder}")
    except OSError:
        return []
    paths: dict[tuple[str, int], str] = {}
    for name in names:
        match = _SENSOR.fullmatch(name)
        if match is None or (match["type"], match["what"]) == ("energy", "average"):
            continue
        # Sorted, so that an average, which Kepler prefers, comes before an input.
        paths.setdefault((match["type"], int(match["number"])), name)
    kinds = {kind for kind, _number in paths}
    chip, _problem = _value(files, f"{_HWMON}/{folder}/name")
    return [
        _sensor(files, folder, chip, kind, number, path)
        for (kind, number), path in sorted(paths.items())[:MOST_ITEMS]
        if (kind == "energy" or "energy" not in kinds)
        and _value(files, f"{_HWMON}/{folder}/{kind}{number}_enable")[0] != "0"
    ]


def _sensor(
    files: HostFiles, folder: str, chip: str, kind: str, number: int, name: str
) -> HwmonSensor:
    label, _problem = _value(files, f"{_HWMON}/{folder}/{kind}{number}_label")
    _reading, problem = _value(files, f"{_HWMON}/{folder}/{name}", _READING)
    return HwmonSensor(
        path=f"{folder}/{name}",
        chip=chip,
        label=label,
        type=kind,
        scope="machine" if chip == _MACHINE_CHIP else "component",
        readable=not problem,
        problem=problem,
    )


def _value(files: HostFiles, path: str, pattern: re.Pattern[str] | None = None) -> tuple[str, str]:
    """The first line of a file, and the problem with it; one of the two is empty."""
    try:
        value = text(files.line(path), LONGEST_TEXT)
    except OSError as error:
        return "", text((error.strerror or type(error).__name__).lower(), LONGEST_TEXT)
    if not value:
        return "", "the file is empty"
    if pattern is not None and not pattern.fullmatch(value):
        return "", "the file holds no number"
    return value, ""
