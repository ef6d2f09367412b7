# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes and metrics as Kepler meets them: odd meters, and zones of odd names."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import TargetFailure
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.node.probe import read_node
from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering.kepler import (
    PodName,
    of_text,
)

CASES = Path(__file__).parent / "cases"


def metrics(case: str) -> str:
    return (CASES / case / "metrics.txt").read_text()


def test_all_ones_of_an_acpi_meter_are_no_reading() -> None:
    root = str(CASES / "05-acpi-meter-all-ones/root")
    found = read_node({"root": root, "kepler_version": "0.11.4"})
    assert (found["supported"], found["meter"]) == (False, "none")
    assert "hwmon2/power1_average (it reads 4294967295000, which stands for no reading)" in (
        "; ".join(found["reasons"])
    )


@pytest.mark.parametrize("version", ["0.11.4", "latest"])
def test_a_node_with_voltage_and_current_is_metered_by_hwmon(version: str) -> None:
    root = str(CASES / "26-hwmon-voltage-current/root")
    found = read_node({"root": root, "kepler_version": version})
    assert (found["supported"], found["meter"]) == (True, "hwmon")
    assert found["reasons"] == ["hwmon sensors ina3221 VDD_CPU_CV can be read"]


def test_zones_of_hwmon_are_told_to_be_no_package() -> None:
    with pytest.raises(TargetFailure, match="have no zone package, only 'vdd_cpu_cv'") as caught:
        of_text(metrics("27-kepler-hwmon-zones"))
    assert caught.value.reason == "no_sensor"


def test_a_kepler_without_families_of_energy_is_told() -> None:
    """One unreadable file hides them all; what is left does not name the node."""
    whole = (CASES.parent / "kepler" / "metrics.txt").read_text()
    left = [line for line in whole.splitlines(keepends=True) if "node_name" not in line]
    assert of_text(whole).node.keys() == {"package", "dram"}
    with pytest.raises(TargetFailure, match="no power of a node or a pod; Kepler reads no meter"):
        of_text("".join(left))


def test_dies_of_a_processor_are_added_up() -> None:
    found = of_text(metrics("28-rapl-multi-die"))
    assert found.node == {"package": 191.0, "dram": 10.0}
    [(name, zones)] = found.pods.items()
    assert name == PodName("u1", "shop", "web-0")
    assert sum(zones.values()) == pytest.approx(4.6)
