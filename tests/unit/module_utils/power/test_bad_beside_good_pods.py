# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One odd pod beside good ones: the good ones get the same result without it.

A running pod takes room in any case, so it is compared with a valid pod of the counted size.
"""

from __future__ import annotations

import functools
import json
import random
import re
import tempfile
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from support.examples import each_seed
from support.odd_fleets import fleet, full_pod, pod
from support.odd_values import bounded, spoilt

Json = dict[str, t.Any]

STRATEGIES = ("greedy", "spread", "peaks", "minimize_power", "optimal")
# Mostly strategies that take milliseconds.
CHOICES = (*STRATEGIES[:4] * 10, "optimal")
PER_ALLOCATABLE = {
    "cpu": "8000m",
    "memory": str(32 * 2**30),
    "pods": "20",
    "intel.com/l3_cache_ways": "11",
}


def placed(given: Json, strategy: str) -> Json:
    """The result of placement, which must be JSON that follows the schema."""
    beside = {part: given.pop(part) for part in ("curves", "node_metrics")}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(beside, file)
        file.flush()
        result = place({**given, "src": [file.name], "strategy": strategy, "time_limit": 20.0})
    given.update(beside)
    documents.check(
        {"document": "wattwise.kube/plan/v1", "time": "2026-01-01T00:00:00Z", **result}, "plan", "p"
    )
    json.dumps(result, allow_nan=False)
    return result


@functools.cache
def without(strategy: str) -> str:
    return json.dumps(placed(fleet(), strategy), sort_keys=True)


GOOD = frozenset(each["metadata"]["name"] for each in fleet()["pods"])


@each_seed(65)
def test_a_waiting_pod_that_is_refused_changes_nothing_for_others(seed: int) -> None:
    source = random.Random(seed)
    strategy = source.choice(CHOICES)
    given = fleet()
    given["pods"].insert(source.randrange(len(GOOD) + 1), spoilt(source, full_pod()))
    with bounded():
        result = placed(given, strategy)
    refused = [entry for entry in result["unplaced"] if entry["pod"] not in GOOD]
    placements = [entry for entry in result["placements"] if entry["pod"] not in GOOD]
    assert len(refused) + len(placements) <= 1
    if placements:
        assert result["findings"] == []
        return
    reasons = list(refused[0]["reasons"]) if refused else []
    assert result["findings"] or reasons
    if result["findings"] and refused:
        assert reasons == [f"invalid: {result['findings'][0]['field'] or 'spec'}"]
    result["findings"] = []
    result["unplaced"] = [entry for entry in result["unplaced"] if entry["pod"] in GOOD]
    assert json.dumps(result, sort_keys=True) == without(strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("rest", [{}, {"spec": None}], ids=["no spec", "null"])
def test_a_waiting_pod_without_a_spec_does_not_end_the_placement(rest: Json, strategy: str) -> None:
    given = fleet()
    given["pods"].insert(0, {"metadata": {"name": "odd", "namespace": "shop"}, **rest})
    result = placed(given, strategy)
    [finding] = result["findings"]
    assert (finding["field"], finding["problem"]) == ("spec", "it must be a mapping")
    refused = {entry["pod"]: entry["reasons"] for entry in result["unplaced"]}
    assert list(refused["odd"]) == ["invalid: spec"]
    assert result["placements"] == json.loads(without(strategy))["placements"]


def counted(odd: Json, findings: list[Json]) -> Json | None:
    """The valid pod equivalent to an odd one, by the fields that the findings name.

    The odd pod itself is changed, because copy.deepcopy fails at values as deep as it may have.
    """
    for finding in findings:
        amount = re.fullmatch(
            r"spec\.(?:(containers|initContainers)\[0\]\.)?(resources\.(?:requests|limits)|overhead)"
            r"\.(.+)",
            finding["field"],
        )
        cache_min = re.fullmatch(r"metadata\.annotations\.(main|side)_cache_min", finding["field"])
        assert finding["problem"].endswith("counts as taken") or not known_node(odd)
        if "whole node" in finding["problem"]:
            return whole_node()
        if amount:
            part, holder, name = amount.groups()
            place = odd["spec"][part][0] if part else odd["spec"]
            for key in holder.split("."):
                place = place[key]
            place[name] = PER_ALLOCATABLE.get(name, "0")
        elif cache_min:
            part = "containers" if cache_min.group(1) == "main" else "initContainers"
            del odd["metadata"]["annotations"][cache_min.group(0).rpartition(".")[2]]
            requests = odd["spec"][part][0]["resources"]["requests"]
            requests["intel.com/l3_cache_ways"] = "11"
        else:
            return None
    return odd


def known_node(odd: Json) -> bool:
    spec = odd.get("spec")
    return isinstance(spec, dict) and spec.get("nodeName") in ("n1", "n2", "n3")


def whole_node() -> Json:
    whole = pod("whole", app="of-no-rule", nodeName="n2")
    requests = {key: value for key, value in PER_ALLOCATABLE.items() if key != "pods"}
    whole["spec"]["containers"][0]["resources"]["requests"] = requests
    return {**whole, "status": {"phase": "Running"}}


@each_seed(65)
def test_a_running_pod_counts_as_a_valid_one_of_the_size_that_is_said(seed: int) -> None:
    source = random.Random(seed)
    strategy = source.choice(CHOICES)
    odd = full_pod()
    odd["spec"]["nodeName"] = "n2"
    odd["status"]["phase"] = "Running"
    odd = spoilt(source, odd)
    given = fleet()
    position = source.randrange(2)
    given["running"].insert(position, odd)
    with bounded():
        result = placed(given, strategy)
    findings = result.pop("findings")
    assert all(finding["kind"] == "Pod" for finding in findings)
    if not findings:
        assert set(GOOD) >= {entry["pod"] for entry in result["placements"]}
        return
    stand_in = counted(odd, findings) if known_node(odd) else None
    given["running"][position : position + 1] = [] if stand_in is None else [stand_in]
    expected = placed(given, strategy)
    assert expected.pop("findings") == []
    for part, value in expected.items():
        assert result[part] == value, (part, findings)


def test_every_finding_is_said_in_one_warning() -> None:
    warnings: list[str] = []
    given = fleet()
    given["pods"] += [full_pod("a"), full_pod("b")]
    for each in given["pods"][-2:]:
        each["spec"]["priority"] = "high"
    result = place(
        {"nodes": given["nodes"], "pods": given["pods"], "strategy": "greedy"},
        Context(warn=warnings.append),
    )
    assert [finding["name"] for finding in result["findings"]] == ["a", "b"]
    assert [sentence for sentence in warnings if "2 objects cannot be used" in sentence] == warnings
    unplaced = {entry["pod"]: entry for entry in result["unplaced"]}
    assert unplaced["a"]["message"] == "0/3 nodes are available: 3 invalid: spec.priority."
    assert unplaced["a"]["fits_empty_fleet"] is None


@pytest.mark.parametrize(
    "memory", [2**60, str(2**60), "8Ei", "9223372036854775807", "7.5E", str(2**62)]
)
def test_memory_beyond_any_node_fits_nowhere_and_harms_nobody(memory: t.Any) -> None:
    given = fleet()
    given["pods"] += [full_pod("a"), full_pod("b")]
    for each in given["pods"][-2:]:
        del each["spec"]["resources"]
        each["spec"]["containers"][0]["resources"]["requests"]["memory"] = memory
    for strategy in STRATEGIES:
        result = placed(given, strategy)
        unplaced = {entry["pod"]: entry for entry in result["unplaced"]}
        if not result["findings"]:
            assert "Insufficient memory" in unplaced["a"]["message"]
            assert unplaced["a"]["fits_empty_fleet"] is False
        left = [entry for entry in result["placements"] if entry["pod"] in GOOD]
        assert left == result["placements"] == json.loads(without(strategy))["placements"]


def test_running_pods_of_enormous_size_leave_no_room() -> None:
    given = fleet()
    for number in range(20):
        enormous = pod(f"huge-{number}", cpu="1", memory=str(2**62), nodeName="n2")
        enormous["status"]["phase"] = "Running"
        given["running"].append(enormous)
    for strategy in STRATEGIES:
        result = placed(given, strategy)
        assert "n2" not in {entry["node"] for entry in result["placements"]}
        assert result["findings"] == []


def test_one_pod_of_a_group_that_cannot_be_read_keeps_the_group_waiting() -> None:
    members = [pod(f"member-{number}") for number in range(2)]
    for member in members:
        member["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "all"}
    members[0]["spec"]["priority"] = 1.5
    result = place({"nodes": fleet()["nodes"], "pods": members, "strategy": "greedy"})
    assert result["placements"] == []


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
@pytest.mark.parametrize("value", ["9" * 5000, "٣", "9223372036854775808", "१", "1_0", ""])
def test_numbers_that_kubernetes_would_not_parse_match_no_label(operator: str, value: str) -> None:
    given = fleet()
    expression = {"key": "generation", "operator": operator, "values": [value]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    picky = pod("picky", affinity={"nodeAffinity": affinity})
    assert place({"nodes": given["nodes"], "pods": [picky]})["placements"] == []
    expression["values"] = ["1" if operator == "Gt" else "9"]
    assert len(place({"nodes": given["nodes"], "pods": [picky]})["placements"]) == 1
    for each in given["nodes"]:
        each["metadata"]["labels"]["generation"] = value
    assert place({"nodes": given["nodes"], "pods": [picky]})["placements"] == []
