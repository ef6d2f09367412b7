# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RmdWorkloads of pods: the vectors of rmd-operator, and our deviations from it."""

from __future__ import annotations

import typing as t

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import InvalidField
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.kube.crd_schema import CrdValidator
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.pods import (
    CACHE_WAYS,
    asks_for_ways,
    workloads_of_pod,
)
from support.node_trees import UID, pod
from support.wao import DEFINITIONS

GOLD = {"nginx1_policy": "gold", "nginx1_cache_min": "2"}
PSTATE = {"nginx1_pstate_monitoring": "on", "nginx1_pstate_ratio": "1.5"}
TWO_WAYS = {"max": 2, "min": 2}


def asking(
    annotations: MutableObject | None = None, ways: t.Any = "2", cpu: str = "1", **changes: t.Any
) -> MutableObject:
    """pod-1 of the vectors: nginx1 with one CPU and two ways, on example-node-1.com."""
    given = pod(cpu, **changes)
    given["metadata"]["annotations"] = annotations or {}
    for part in ("requests", "limits"):
        resources = given["spec"]["containers"][0]["resources"]
        resources[part] = {**resources[part], CACHE_WAYS: ways}
    return given


def built(given: MutableObject, *cpus: int) -> MutableObject:
    [workload], refusals = workloads_of_pod(given, {"nginx1": cpus})
    assert refusals == []
    return workload


def refused(given: MutableObject) -> str:
    workloads, [refusal] = workloads_of_pod(given, {"nginx1": [0]})
    assert workloads == []
    assert (refusal.namespace, refusal.pod, refusal.pod_uid) == ("default", "pod-1", UID)
    return refusal.message


VECTORS: dict[str, tuple[MutableObject, list[int], MutableObject]] = {
    "a policy beside the cache": (GOLD, [0], {"policy": "gold"}),
    "and P-states": (
        {**GOLD, **PSTATE},
        [0, 11],
        {"policy": "gold", "pstate": {"ratio": "1.5", "monitoring": "on"}},
    ),
    "names that only look alike": (
        {
            "policy": "gold",
            "nginx1_cache_min": "2",
            "nginx1_state_monitoring": "on",
            "nginx1_pstate_ratiox": "1.5",
        },
        [8, 9, 10, 11, 12],
        {},
    ),
}


@pytest.mark.parametrize("case", VECTORS)
def test_build_gives_what_the_operators_test_wants(case: str) -> None:
    annotations, cpus, more = VECTORS[case]
    workload = built(asking(annotations, cpu=str(len(cpus))), *cpus)
    assert workload["metadata"]["name"] == "rmd-workload-pod-1"
    assert workload["spec"] == {
        "coreIds": [str(cpu) for cpu in cpus],
        "nodes": ["example-node-1.com"],
        "cache": TWO_WAYS,
        **more,
    }


def test_the_pod_owns_its_workload() -> None:
    [owner] = built(asking(), 0)["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Pod", "pod-1", UID)
    assert owner["controller"] is True


def test_bandwidth_comes_with_the_shape_of_later_versions() -> None:
    workload = built(asking({"nginx1_mba_percentage": "50"}), 0)
    assert workload["spec"]["rdt"] == {"cache": TWO_WAYS, "mba": {"percentage": 50}}
    assert "cache" not in workload["spec"]


def test_deviation_no_cache_min_means_all_ways_guaranteed() -> None:
    assert built(asking(), 0)["spec"]["cache"] == TWO_WAYS


def test_deviation_a_longer_name_with_the_same_beginning_is_another_container() -> None:
    assert built(asking({"nginx10_policy": "gold"}), 0)["spec"].get("policy") is None


def test_a_pod_without_metadata_is_refused_with_what_to_do() -> None:
    given = asking()
    del given["metadata"]
    with pytest.raises(InvalidField, match="give pods as the API returns them"):
        workloads_of_pod(given, {})


def test_several_containers_have_a_workload_each() -> None:
    given = asking({"nginx1_cache_min": "1", "second_policy": "gold"})
    [container] = given["spec"]["containers"]
    given["spec"]["containers"].append({**container, "name": "second"})
    workloads, refusals = workloads_of_pod(given, {"nginx1": [1], "second": [2]})
    assert refusals == []
    assert [each["metadata"]["name"] for each in workloads] == [
        "pod-1-rmd-workload-nginx1",
        "pod-1-rmd-workload-second",
    ]
    first, second = (each["spec"] for each in workloads)
    assert (first["coreIds"], first["cache"]) == (["1"], {"max": 2, "min": 1})
    assert (second["coreIds"], second["cache"], second["policy"]) == (["2"], TWO_WAYS, "gold")


def test_one_that_is_refused_does_not_stop_the_others() -> None:
    given = asking({"nginx1_cache_min": "three"})
    [container] = given["spec"]["containers"]
    given["spec"]["containers"].append({**container, "name": "second"})
    workloads, [refusal] = workloads_of_pod(given, {"nginx1": [1], "second": [2]})
    assert [each["spec"]["coreIds"] for each in workloads] == [["2"]]
    assert refusal.message == (
        "container nginx1: annotation nginx1_cache_min: 'three' is not a whole number such as 2"
    )


def test_a_container_whose_cpus_are_not_known_yet_waits() -> None:
    assert workloads_of_pod(asking(), {}) == ([], [])


def test_a_pod_that_asks_for_none_is_left_alone() -> None:
    assert not asks_for_ways(pod())
    assert not asks_for_ways(asking(ways="0"))
    assert asks_for_ways(asking())
    assert workloads_of_pod(pod(), {"nginx1": [0]}) == ([], [])
    other = pod()
    other["spec"]["containers"][0]["resources"]["limits"]["intel.com/qat_generic"] = "3"
    assert not asks_for_ways(other)


def separated() -> MutableObject:
    given = asking()
    [container] = given["spec"]["containers"]
    container["name"] = "a-rmd-workload-b"
    given["spec"]["containers"].append({**container, "name": "nginx1"})
    return given


REFUSED = {
    "more at least than at most": (asking({"nginx1_cache_min": "3"}), "between 1 and its 2 ways"),
    "at least none": (asking({"nginx1_cache_min": "0"}), "between 1 and its 2 ways"),
    "a part of a way": (asking(ways="2.5"), "not a whole number above 0"),
    "less than none": (asking(ways="-2"), "not a whole number above 0"),
    "a word for ways": (asking(ways="two"), "intel.com/l3_cache_ways"),
    "a part of a CPU": (asking(cpu=".5"), "with whole CPUs"),
    "another class": (asking(qosClass="Burstable"), "Guaranteed"),
    "a word for bandwidth": (asking({"nginx1_mba_mbps": "lots"}), "nginx1_mba_mbps"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_given_says_why(case: str) -> None:
    given, words = REFUSED[case]
    message = refused(given)
    assert message.startswith("container nginx1: ")
    assert words in message


def test_names_that_cannot_be_told_apart_are_refused() -> None:
    given = separated()
    given["status"]["containerStatuses"].append({"name": "a-rmd-workload-b", "containerID": "x"})
    _workloads, [refusal] = workloads_of_pod(given, {"a-rmd-workload-b": [0]})
    assert "must not contain -rmd-workload-" in refusal.message


def test_a_name_beyond_the_apis_limit_is_refused() -> None:
    workloads, [refusal] = workloads_of_pod(asking(name="p" * 250), {"nginx1": [0]})
    assert workloads == []
    assert "rename the pod" in refusal.message


@pytest.mark.parametrize("case", VECTORS)
def test_what_is_built_follows_the_schema(case: str) -> None:
    annotations, cpus, _more = VECTORS[case]
    definition = yaml.safe_load((DEFINITIONS / "intel.com_rmdworkloads.yaml").read_text())
    validator = CrdValidator(definition)
    assert validator.problem(built(asking(annotations), *cpus)) is None
