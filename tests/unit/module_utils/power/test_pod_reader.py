# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t
from decimal import Decimal

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.label_selector import Requirement
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling import pod_reader
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.model import (
    Constraints,
    NodeTerm,
    Toleration,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.node_reader import (
    occupancies,
)
from ansible_collections.wattwise.kube.plugins.module_utils.snapshot.pods import trim_pod

Json = dict[str, t.Any]
MEBIBYTE = 2**20


def container(cpu: str, memory: str = "0", **more: t.Any) -> Json:
    return {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


@pytest.mark.parametrize(
    ("spec", "cpu", "memory"),
    [
        ({"containers": [container("100m", "64Mi"), container("0.2", "1Mi")]}, 300, 65),
        (
            {
                "containers": [container("100m", "10Mi")],
                "initContainers": [container("500m", "1Mi"), container("300m", "40Mi")],
            },
            500,
            40,
        ),
        (
            {
                "containers": [container("200m", "10Mi")],
                "initContainers": [
                    container("100m", "5Mi", restartPolicy="Always"),
                    container("150m", "20Mi"),
                    container("50m", "1Mi", restartPolicy="Always"),
                ],
            },
            350,
            25,
        ),
        (
            {
                "containers": [container("100m", "10Mi")],
                "initContainers": [
                    container("400m", "0", restartPolicy="Always"),
                    container("900m", "0"),
                ],
            },
            1300,
            10,
        ),
        (
            {"containers": [container("1", "8Mi")], "overhead": {"cpu": "250m", "memory": "2Mi"}},
            1250,
            10,
        ),
        (
            {
                "containers": [container("100m", "10Mi")],
                "resources": {"requests": {"cpu": "700m"}, "limits": {"memory": "99Mi"}},
                "overhead": {"cpu": "50m"},
            },
            750,
            10,
        ),
        (
            {"containers": [{"name": "c"}], "resources": {"limits": {"cpu": "2", "memory": "1Mi"}}},
            2000,
            1,
        ),
        ({"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Mi"}}}]}, 2000, 1),
        ({"containers": []}, 0, 0),
    ],
    ids=[
        "sum",
        "largest init container",
        "sidecars run beside",
        "sidecar while starting",
        "overhead",
        "pod level",
        "pod level limits",
        "limit as request",
        "nothing",
    ],
)
def test_effective_requests_are_what_the_kubelet_reserves(
    spec: Json, cpu: int, memory: int
) -> None:
    requests = pod_reader.effective_requests(spec)
    assert requests.get("cpu", 0) == cpu
    assert requests.get("memory", 0) == memory * MEBIBYTE


def told(allocated: Json | None, in_force: Json | None) -> Json:
    resources = {} if in_force is None else {"resources": {"requests": in_force}}
    return {**({} if allocated is None else {"allocatedResources": allocated}), **resources}


def resized(containers: list[Json], statuses: list[Json], **status: t.Any) -> Json:
    named = [{**one, "name": f"c{index}"} for index, one in enumerate(containers)]
    reports = [{**one, "name": f"c{index}"} for index, one in enumerate(statuses)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"nodeName": "n1", "containers": named},
        "status": {"phase": "Running", "containerStatuses": reports, **status},
    }


GROWING = resized([container("2", "1Mi")], [told({"cpu": "1", "memory": "1Mi"}, {"cpu": "1"})])
SHRINKING = resized([container("1", "1Mi")], [told({"cpu": "1"}, {"cpu": "2", "memory": "3Mi"})])
# Resources released by one container do not count for another that has not got its own yet.
BOTH = resized(
    [container("3"), container("1")],
    [told({"cpu": "1"}, {"cpu": "1"}), told({"cpu": "2"}, {"cpu": "2"})],
)
SETTLED = resized([container("1", "1Mi")], [told({"cpu": "1", "memory": "1Mi"}, None)])
WHOLE = resized([container("1")], [{}], **told({"cpu": "4"}, {"cpu": "6", "memory": "2Mi"}))
WHOLE["spec"]["resources"] = {"requests": {"cpu": "5"}}


@pytest.mark.parametrize(
    ("pod", "cpu", "memory"),
    [
        (GROWING, 2000, 1),
        (SHRINKING, 2000, 3),
        (BOTH, 4000, 0),
        (SETTLED, 1000, 1),
        (WHOLE, 6000, 2),
        (resized([container("1")], [], phase="Pending"), 1000, 0),
    ],
    ids=["growing", "shrinking", "both", "settled", "the pod as a whole", "not started"],
)
def test_a_pod_that_is_resized_holds_the_most_of_what_is_asked_allocated_and_in_force(
    pod: Json, cpu: int, memory: int
) -> None:
    held = pod_reader.held_requests(pod)
    assert held == pod_reader.held_requests(trim_pod(pod))
    assert (held.get("cpu", 0), held.get("memory", 0)) == (cpu, memory * MEBIBYTE)


def test_of_a_pod_that_is_not_resized_the_snapshot_keeps_no_status_of_resources() -> None:
    assert trim_pod(SETTLED)["status"] == {"phase": "Running"}
    assert trim_pod(GROWING)["status"].keys() == {"phase", "containerStatuses"}


def test_a_node_counts_what_a_resized_pod_holds() -> None:
    found = occupancies([SHRINKING])["n1"]
    assert found.requests["cpu"] == found.counted["cpu"] == 2000


def read(pod: Json, assumption: str = "0.8") -> t.Any:
    return pod_reader.read_pod(pod, Decimal(assumption), frozenset())


def test_a_pod_is_read_from_its_short_form_as_from_kubernetes() -> None:
    terms = [
        {
            "matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}],
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
        }
    ]
    required = {"nodeSelectorTerms": terms}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    tolerations = [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]
    kubernetes = {
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "7"},
        "spec": {
            "affinity": affinity,
            "containers": [container("500m", "1Gi")],
            "nodeSelector": {"topology.kubernetes.io/zone": "a"},
            "priority": 9,
            "tolerations": tolerations,
        },
    }
    short = {
        "name": "web",
        "namespace": "shop",
        "uid": "u1",
        "resource_version": "7",
        "affinity": {
            "node_affinity": {
                "required_during_scheduling_ignored_during_execution": {
                    "node_selector_terms": [
                        {
                            "match_expressions": terms[0]["matchExpressions"],
                            "match_fields": terms[0]["matchFields"],
                        }
                    ]
                }
            }
        },
        "node_selector": {"topology.kubernetes.io/zone": "a"},
        "priority": 9,
        "requests": {"cpu": "500m", "memory": "1Gi"},
        "tolerations": tolerations,
    }
    (converted,) = pod_reader.from_short_form(short)
    pod = read(kubernetes)
    assert read(dict(converted)) == pod
    assert pod.shape.requests == (("cpu", 500), ("memory", 2**30), ("pods", 1))
    assert (pod.shape.use_microcores, pod.shape.priority) == (400_000, 9)
    assert pod.shape.constraints == Constraints(
        node_selector=(("topology.kubernetes.io/zone", "a"),),
        node_terms=(
            NodeTerm(
                (Requirement("disk", "In", frozenset({"ssd"})),),
                (Requirement("metadata.name", "In", frozenset({"n1"})),),
            ),
        ),
        tolerations=(Toleration("a", "Exists", "", "NoSchedule"),),
    )


def test_a_count_makes_numbered_pods() -> None:
    given: list[Json] = [{"name": "w", "count": 3}, {"name": "single"}]
    pods = [pod for short in given for pod in pod_reader.from_short_form(short)]
    assert [pod["metadata"]["name"] for pod in pods] == ["w-0", "w-1", "w-2", "single"]


def test_a_field_of_a_short_form_that_is_not_understood_is_unsupported() -> None:
    (pod,) = pod_reader.from_short_form({"name": "a", "resource_claims": [{"name": "gpu"}]})
    assert read(dict(pod)).shape.unsupported == ("spec.resourceClaims",)


def test_use_is_exact_below_a_millicore() -> None:
    pod = {"metadata": {"name": "a"}, "spec": {"containers": [container("33m")]}}
    assert read(pod).shape.use_microcores == 26_400
    assert read(pod, "0.37").shape.use_microcores == 12_210


@pytest.mark.parametrize(
    ("pod", "pending"),
    [
        ({"spec": {"schedulerName": "wattwise"}}, True),
        ({"spec": {}}, False),
        ({"spec": {"schedulerName": "wattwise", "nodeName": "n"}}, False),
        ({"spec": {"schedulerName": "wattwise", "schedulingGates": [{"name": "g"}]}}, False),
        (
            {
                "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"schedulerName": "wattwise"},
            },
            False,
        ),
        ({"spec": {"schedulerName": "wattwise"}, "status": {"phase": "Failed"}}, False),
    ],
)
def test_only_pods_that_wait_for_our_scheduler_are_pending(pod: Json, pending: bool) -> None:
    assert pod_reader.is_pending(pod, "wattwise") is pending


@pytest.mark.parametrize(
    ("short", "message"),
    [
        ({"count": 2}, "name: it must be a text that is not empty"),
        ({"name": "a", "count": -1}, "count: -1 is not a whole number from 0 to 100000"),
        ({"name": "a", "count": "2"}, "count: '2' is not a whole number from 0 to 100000"),
        ({"name": "a", "count": 10**9}, "count: 1000000000 is not a whole number from 0 to 100000"),
        ({"name": "a/b"}, "metadata.name: 'a/b' cannot be the name of an object"),
        ({"name": "a" * 254}, "metadata.name: 'aaa.*' cannot be the name of an object"),
        (
            {"name": "a", "requests": {"cpu": "-1"}},
            r"spec\.containers\[0\]\.resources\.requests\.cpu: '-1' is negative",
        ),
        (
            {"name": "a", "requests": {"memory": "1 GB"}},
            r"spec\.containers\[0\]\..*requests\.memory: '1 GB' is not a Kubernetes quantity",
        ),
        ({"name": "a", "priority": "high"}, r"spec\.priority: 'high' is not a whole number"),
        ({"name": "a", "priority": 2**31}, r"spec\.priority: 2147483648 is not a whole number"),
        ({"name": "a", "uid": 5}, r"metadata\.uid: 5 is not a text"),
        ({"name": "a", "tolerations": "all"}, r"spec\.tolerations: 'all' is not a list"),
        ({"name": "a", "tolerations": ["all"]}, r"spec\.tolerations\[0\]: 'all' is not a mapping"),
        (
            {"name": "a", "node_selector": ["ssd"]},
            r"spec\.nodeSelector: \['ssd'\] is not a mapping",
        ),
    ],
)
def test_bad_pods_are_refused_in_one_sentence(short: Json, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        for pod in pod_reader.from_short_form(short):
            read(dict(pod))
