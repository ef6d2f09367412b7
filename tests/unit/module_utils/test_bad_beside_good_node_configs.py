# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bad NodeConfig beside good ones: all others are read, filled and resolved as without it."""

from __future__ import annotations

import copy
import random
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig import nodeconfig
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.poll import (
    given_targets,
    poll_targets,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.readings import QUANTITIES
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.targets import (
    Targets,
    resolve,
)
from support import observing
from support.examples import each_seed
from support.odd_values import bounded, odd_value, spoilt
from support.snapshots import write_snapshot
from support.wao import node, node_config

OPTIONS: MutableObject = {"targets": None, "node_selector": None}
ANNOTATIONS = {
    "wattwise.github.io/fallback-inlet-celsius": "25",
    "wattwise.github.io/fallback-delta-p-pascal": "4.5",
    "wattwise.github.io/tls-fingerprint": "ab" * 32,
}
NODES = [node(f"n{index}", f"10.0.0.{index}") for index in range(4)]


def full(index: int) -> MutableObject:
    """A NodeConfig with every field that is read."""
    config = node_config(f"c{index}", f"n{index}", uid=f"u{index}", annotations=dict(ANNOTATIONS))
    config["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    config["metadata"]["labels"] = {"wattwise.github.io/template": "t"}
    config["metadata"]["ownerReferences"] = [
        {"kind": "NodeConfigTemplate", "name": "t", "uid": "u", "controller": True}
    ]
    redfish: MutableObject = {
        "type": "Redfish",
        "endpoint": f"https://10.0.1.{index}",
        "fetchInterval": "15s",
    }
    redfish["basicAuthSecret"] = {"name": "bmc"}
    config["spec"]["metricsCollector"]["inletTemp"] = redfish
    config["spec"]["predictor"] = {
        "powerConsumption": {"type": "Fake", "endpoint": ""},
        "powerConsumptionEndpointProvider": copy.deepcopy(redfish),
    }
    moment = "2026-01-31T12:00:00Z"
    ready = {"type": "Ready", "status": "True", "reason": "Read", "message": "m"}
    config["status"] = {
        "conditions": [{**ready, "lastTransitionTime": moment}],
        "readings": {"inletTemp": {"celsius": 20.0, "time": moment}},
        "sensors": {"vendor": "v", "inletTemp": {"uri": "/redfish/v1/a", "name": "Inlet"}},
        "authentication": {"failures": 1, "lastAttempt": moment, "secretResourceVersion": "7"},
    }
    return config


GOOD = [full(index) for index in range(3)]


def bad(seed: int) -> t.Any:
    """The NodeConfig of n3, spoilt except for its name, since another name is another object."""
    source = random.Random(seed)
    if source.randrange(20) == 0:
        return {"metadata": odd_value(source)}
    return spoilt(source, full(3), keep=[("metadata", "name"), ("spec", "nodeName")])


def observed(
    folder: t.Any, configs: list[MutableObject], nodes: list[MutableObject]
) -> MutableObject:
    write_snapshot(folder, nodes=nodes, node_configs=configs)
    details = {"name": "n0", "inlet_celsius": 21.0, "power_watts": 99.0}
    warned: list[str] = []
    (folder / "readings.json").unlink(missing_ok=True)
    result = observing.observe(
        folder,
        Context(warn=warned.append),
        thermal=[{"readings": [details], "errors": []}],
        pressure=[{"readings": [], "errors": []}],
    )
    assert len(warned) <= 1
    return result


def others(readings: MutableObject) -> MutableObject:
    return {
        name: {key: reading[key] for key in (*QUANTITIES, "source", "stale")}
        for name, reading in readings.items()
        if name != "n3"
    }


@each_seed(50)
def test_all_other_node_configs_count_as_without_the_bad_one(seed: int, tmp_path: t.Any) -> None:
    odd = bad(seed)
    without = nodeconfig.effective(GOOD)
    with bounded():
        found = nodeconfig.effective([GOOD[0], odd, *GOOD[1:]])
        assert {name: found.by_node.get(name) for name in without.by_node} == without.by_node
        beside, alone = (
            resolve(NODES, configs).nodes for configs in ([GOOD[0], odd, *GOOD[1:]], GOOD)
        )
        assert tuple(target for target in beside if target.name != "n3") == alone
        path = write_snapshot(tmp_path, nodes=NODES, node_configs=[*GOOD, odd])
        for kind in nodeconfig.TERMS:
            polled = given_targets({**OPTIONS, "snapshot": path}, "Redfish", kind)
            assert [item for item in polled if item.name != "n3"] == poll_targets(
                Targets(alone), kind
            )


@each_seed(25)
def test_all_other_nodes_are_observed_as_without_the_bad_one(seed: int, tmp_path: t.Any) -> None:
    odd = bad(seed)
    with bounded():
        alone = observed(tmp_path, GOOD, NODES)
        beside = observed(tmp_path, [odd, *GOOD], NODES)
        assert others(beside["readings"]) == others(alone["readings"])
        assert all(finding["kind"] == "NodeConfig" for finding in beside["findings"])
        assert beside["statuses"] - alone["statuses"] in (0, 1)


@each_seed(25)
def test_all_other_machines_are_resolved_as_without_the_bad_node(
    seed: int, tmp_path: t.Any
) -> None:
    odd = spoilt(random.Random(seed), NODES[3], keep=[("metadata", "name")])
    with bounded():
        for selector in (None, "kubernetes.io/hostname in (n0, n2)"):
            options = {**OPTIONS, "node_selector": selector}
            beside, alone = (
                given_targets(
                    {
                        **options,
                        "snapshot": write_snapshot(tmp_path, nodes=nodes, node_configs=GOOD),
                    },
                    "Redfish",
                    "inlet_temp",
                )
                for nodes in ([odd, *NODES[:3]], NODES[:3])
            )
            assert beside == alone
