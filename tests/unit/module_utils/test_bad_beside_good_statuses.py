# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever a machine or another writer reports, our statuses follow our CRDs."""

from __future__ import annotations

import datetime
import json
import random
import typing as t

import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import (
    Finding,
    Subject,
    guarded,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import parse_time
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.patches import (
    conditions_moved,
    with_transition_times,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.crd_schema import CrdValidator
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.templates import render
from support import observing
from support.examples import each_seed
from support.odd_values import bounded, spoilt
from support.snapshots import write_snapshot
from support.wao import DEFINITIONS, node, node_config, template

NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
MOMENT = "2026-01-31T11:00:00Z"
VALIDATORS = {
    kind: CrdValidator(
        yaml.safe_load((DEFINITIONS / f"wao.bitmedia.co.jp_{kind.lower()}s.yaml").read_text())
    )
    for kind in ("NodeConfig", "NodeConfigTemplate")
}
STATUS: MutableObject = {
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Read",
            "message": "m",
            "lastTransitionTime": MOMENT,
        }
    ],
    "readings": {
        "inletTemp": {"celsius": 20.0, "time": MOMENT},
        "deltaP": {"pascals": 4.0, "time": MOMENT},
        "power": {"watts": 200.0, "time": MOMENT},
    },
    "sensors": {
        "vendor": "v",
        "inletTemp": {"uri": "/redfish/v1/a", "name": "Inlet"},
        "power": {"uri": "/redfish/v1/b"},
    },
    "authentication": {"failures": 1, "lastAttempt": MOMENT, "secretResourceVersion": "7"},
}
THERMAL: MutableObject = {
    "readings": [],
    "errors": [{"name": "n3", "endpoint": "https://b", "reason": "timeout", "detail": "slow"}],
    "sensors": [
        {
            "name": "n3",
            "inlet_uri": "/redfish/v1/a",
            "inlet_name": "Inlet",
            "power_uri": "/redfish/v1/b",
            "vendor": "v",
        }
    ],
    "authentication": [
        {
            "name": "n3",
            "failures": 2,
            "last_attempt": MOMENT,
            "secret_resource_version": "8",
        }
    ],
}
NAMES = [("errors", 0, "name"), ("sensors", 0, "name"), ("authentication", 0, "name")]
NODES = [node(f"n{index}") for index in range(4)]


def config(index: int) -> MutableObject:
    given = node_config(f"c{index}", f"n{index}", uid=f"u{index}")
    return {**given, "status": json.loads(json.dumps(STATUS))}


def problems(statuses: list[MutableObject], current: MutableObject) -> list[str]:
    """Violations of our CRDs, and of JSON, in the statuses that kube_apply would send."""
    found = []
    for manifest in statuses:
        stored = current.get(manifest["metadata"]["name"]) or {}
        status = with_transition_times(manifest["status"], stored, NOON)
        conditions_moved(stored, status)
        sent = {**manifest, "spec": node_config("x", "n")["spec"], "status": status}
        if manifest["kind"] == "NodeConfigTemplate":
            sent["spec"] = template("x")["spec"]
            sent["spec"]["template"]["nodeName"] = ""
        json.dumps(sent, allow_nan=False).encode()
        json.dumps(sent, ensure_ascii=False).encode()
        found.append(VALIDATORS[manifest["kind"]].problem(sent))
        for reading in (status.get("readings") or {}).values():
            parse_time(reading["time"])
    return [problem for problem in found if problem]


def observed(folder: t.Any, thermal: MutableObject, last: MutableObject) -> list[MutableObject]:
    write_snapshot(folder, nodes=NODES, node_configs=[config(0), config(1), last])
    fresh = {"readings": [{"name": "n0", "inlet_celsius": 30.0}], "errors": []}
    observing.observe(folder, Context(now=lambda: NOON), thermal=[fresh, thermal])
    return observing.statuses(folder)


@each_seed(25)
def test_a_status_follows_our_definition_whatever_a_bmc_says(seed: int, tmp_path: t.Any) -> None:
    thermal = _texts_spoilt(random.Random(seed))
    with bounded():
        alone = observed(tmp_path, THERMAL, config(3))
        beside = observed(tmp_path, thermal, config(3))
        assert problems(beside, {"c3": STATUS}) == []
        assert beside[0]["metadata"]["name"] == "c0"
        assert beside[:2] == alone[:2]


def _texts_spoilt(source: random.Random) -> MutableObject:
    """The result of redfish_thermal_info, with odd texts of the BMC in it."""
    whole = spoilt(source, THERMAL, keep=NAMES)
    result = json.loads(json.dumps(THERMAL))
    for part, members in (
        ("errors", ("detail",)),
        ("sensors", ("inlet_uri", "inlet_name", "power_uri", "vendor")),
    ):
        given = whole.get(part)
        entry = given[0] if isinstance(given, list) and given else {}
        for member in members:
            value = entry.get(member) if isinstance(entry, dict) else None
            if isinstance(value, str):
                result[part][0][member] = value
    return t.cast("MutableObject", result)


@each_seed(25)
def test_a_status_follows_our_definition_whatever_another_writer_stored(
    seed: int, tmp_path: t.Any
) -> None:
    bad = config(3)
    bad["status"] = spoilt(random.Random(seed), STATUS, finite=True)
    with bounded():
        alone = observed(tmp_path, THERMAL, config(3))
        beside = observed(tmp_path, THERMAL, bad)
        assert problems(beside, {"c3": bad["status"]}) == []
        assert beside[:2] == alone[:2]


@each_seed(25)
def test_statuses_of_templates_follow_our_definitions(seed: int, tmp_path: t.Any) -> None:
    source = random.Random(seed)
    odd = template("odd", {"type": "Redfish", "endpoint": "https://{{ .Name }}"}, generation=1)
    odd = spoilt(source, odd, keep=[("metadata", "name"), ("metadata", "namespace")])
    odd_node = spoilt(source, node("n3", "10.0.0.3"), keep=[("metadata", "name")])
    with bounded():
        path = write_snapshot(
            tmp_path,
            nodes=[odd_node, *NODES[:3]],
            node_config_templates=[odd, template("t")],
            node_configs=[config(0)],
        )
        assert problems(render({"snapshot": path})["statuses"], {"c0": STATUS}) == []


def test_the_oracle_finds_a_status_that_the_definition_refuses() -> None:
    long = {**STATUS, "sensors": {"inletTemp": {"uri": "/a", "name": "x" * 40_000}}}
    manifest = {**node_config("c", "n"), "status": long}
    assert problems([manifest], {}) != []
    assert isinstance(guarded(Subject("a", "b"), lambda: problems([{}], {})), Finding)
