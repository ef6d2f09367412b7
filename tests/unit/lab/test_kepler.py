# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's Kepler attributes power like a real one, compared with recorded figures."""

from __future__ import annotations

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering import kepler as reader
from lab import kepler
from lab.bmc.pods import BoundPod
from lab.machines import build_machines
from lab.physics import Truth
from support.kepler_exporter import RECORDED
from support.promql import catalogue
from support.promtool import samples

[MACHINE] = build_machines(1, 1, seed=1)
PODS = [
    BoundPod("u1", MACHINE.name, 0.3 * MACHINE.cores, "shop", "web-1"),
    BoundPod("u2", MACHINE.name, 0.1 * MACHINE.cores, "shop", "web-2"),
]
# As in the recording: a package of 50 W, 40 % busy, three quarters of that in one pod.
TRUTH = Truth(20.0, 5.0, 50.0 / kepler.SHARES["package"], 0.4 * MACHINE.cores)


def test_watts_and_joules_are_those_of_kepler_s_arithmetic() -> None:
    meter = kepler.Meter(MACHINE, 100.0)
    for second in (101.0, 102.0, 102.1, 104.0):
        meter.sample(second, TRUTH, PODS)
    amounts = reader.of_text(meter.text())
    assert amounts.node["package"] == pytest.approx(50.0)
    assert [zones["package"] for zones in amounts.pods.values()] == pytest.approx([15.0, 5.0])
    found = samples(meter.text())
    joules = {
        kind: sum(
            value
            for series, value in found.items()
            if series.startswith(f"kepler_{kind}_joules_total") and 'zone="package"' in series
        )
        for kind in ("node_cpu", "node_cpu_active", "node_cpu_idle", "pod_cpu")
    }
    expected = {"node_cpu": 200.0, "node_cpu_active": 80.0, "node_cpu_idle": 120.0, "pod_cpu": 80.0}
    assert joules == pytest.approx(expected)
    seconds = sum(value for series, value in found.items() if "cpu_seconds" in series)
    assert seconds == pytest.approx(4.0 * TRUTH.cpu_cores)


def test_pods_that_want_more_than_the_machine_has_share_it() -> None:
    meter = kepler.Meter(MACHINE, 0.0)
    greedy = [BoundPod(uid, MACHINE.name, float(MACHINE.cores), "a", uid) for uid in ("u1", "u2")]
    meter.sample(1.0, Truth(20.0, 5.0, 100.0, float(MACHINE.cores)), greedy)
    amounts = reader.of_text(meter.text())
    watts = [zones["package"] for zones in amounts.pods.values()]
    assert watts == pytest.approx([amounts.node["package"] / 2] * 2)


def test_names_and_labels_are_those_of_the_recording() -> None:
    meter = kepler.Meter(MACHINE, 0.0)
    meter.sample(1.0, TRUTH, PODS)
    ours, recorded = catalogue(meter.text()), catalogue(RECORDED)
    assert recorded.keys() - ours.keys() == {"kepler_process_cpu_watts"}
    for name in recorded.keys() & ours.keys():
        assert ours[name] == recorded[name], name
