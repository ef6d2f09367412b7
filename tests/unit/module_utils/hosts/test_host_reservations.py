# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Marks of reserved hosts, the tracked installer, agents, and their parts of the status."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.deployment import (
    agents,
    installation,
    reservation,
    status,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.deployment.reconciliation import (
    older_with_cluster,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.provisioning import read_request
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.roles.availability import (
    CLUSTER_LABEL,
    PROVISIONING_ANNOTATION,
    ROLE_LABEL,
    Owner,
    key_of,
    refusal_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.kube.resource.conditions import Failure
from support.assignable_hosts import answer_of, host

Json = dict[str, t.Any]

OWNER = Owner("edge", "bpa", "edge")
LABELS = {CLUSTER_LABEL: "edge", ROLE_LABEL: "worker"}
MARKED: Json = {"labels": LABELS, "annotations": {PROVISIONING_ANNOTATION: "bpa/edge"}}
CONSUMER = {
    "apiVersion": "bpa.akraino.org/v1alpha1",
    "kind": "Provisioning",
    "namespace": "bpa",
    "name": "edge",
}
UNMARKED = {
    "labels": {CLUSTER_LABEL: None, ROLE_LABEL: None},
    "annotations": {PROVISIONING_ANNOTATION: None},
}


@pytest.mark.parametrize(
    ("given", "mark", "patch"),
    [
        ({}, "consumer", {"spec": {"consumerRef": CONSUMER}}),
        ({"consumer": OWNER.consumer}, "consumer", None),
        ({}, "labels", {"metadata": MARKED}),
        (MARKED, "labels", None),
        # Cluster API is its consumer, which does not concern the labels.
        ({**MARKED, "consumer": "Metal3Machine/m/x"}, "labels", None),
        # From one mark to the other.
        (
            {"consumer": OWNER.consumer},
            "labels",
            {"metadata": MARKED, "spec": {"consumerRef": None}},
        ),
        (MARKED, "consumer", {"metadata": UNMARKED, "spec": {"consumerRef": CONSUMER}}),
        # It has no BareMetalHost to mark.
        ({"source": "Redfish"}, "consumer", None),
    ],
)
def test_a_wanted_host_gets_the_mark_that_it_lacks(
    given: Json, mark: reservation.Mark, patch: Json | None
) -> None:
    free = host(1, **given)
    changes = reservation.reserving([free, host(2)], {key_of(free): LABELS}, OWNER, mark)
    assert [change.patch for change in changes] == ([patch] if patch else [])


@pytest.mark.parametrize(
    ("given", "patch"),
    [
        ({"consumer": OWNER.consumer}, {"spec": {"consumerRef": None}}),
        (MARKED, {"metadata": UNMARKED}),
        # Consumed by others, or by nobody.
        ({"consumer": "Metal3Machine/m/x"}, None),
        ({"consumer": "Provisioning/bpa/edge-2"}, None),
        ({"labels": LABELS}, None),
        ({**MARKED, "annotations": {PROVISIONING_ANNOTATION: "other/edge"}}, None),
    ],
)
def test_only_own_marks_are_taken_away_and_not_from_kept_hosts(
    given: Json, patch: Json | None
) -> None:
    held = host(1, **given)
    changes = reservation.releasing([held], (), OWNER)
    assert [change.patch for change in changes] == ([patch] if patch else [])
    assert not reservation.releasing([held], {key_of(held)}, OWNER)


def test_a_mark_of_another_provisioning_keeps_its_host_even_with_an_equal_cluster_name() -> None:
    assert refusal_of(host(1, **MARKED), OWNER) is None
    assert refusal_of(host(1, **MARKED, consumer="Metal3Machine/m/x"), OWNER) is None
    refusal = refusal_of(host(1, **MARKED), Owner("edge", "elsewhere", "edge"))
    assert refusal and refusal.detail == "is reserved by Provisioning bpa/edge"


def provisioning(place: str, second: int, **labels: str) -> Json:
    namespace, _slash, name = place.partition("/")
    time = f"2026-01-31T12:00:0{second}Z"
    metadata = {"namespace": namespace, "name": name, "labels": labels, "creationTimestamp": time}
    return {"metadata": metadata}


@pytest.mark.parametrize(
    ("other", "mark", "rival"),
    [
        (provisioning("bpa/first", 1, cluster="edge"), "consumer", "bpa/first"),
        (provisioning("bpa/first", 1, cluster="edge"), "labels", "bpa/first"),
        # Labels of hosts name the cluster without a namespace.
        (provisioning("north/edge", 1), "labels", "north/edge"),
        (provisioning("north/edge", 1), "consumer", ""),
        (provisioning("north/edge", 3), "labels", ""),
        (provisioning("north/edge", 1, cluster="other"), "labels", ""),
        # Only one of two Provisionings created in the same second may continue.
        (provisioning("alps/edge", 2), "labels", "alps/edge"),
        (provisioning("north/edge", 2), "labels", ""),
    ],
)
def test_an_equal_cluster_name_belongs_to_the_oldest_provisioning_that_it_would_confuse(
    other: Json, mark: reservation.Mark, rival: str
) -> None:
    own = provisioning("bpa/edge", 2)
    assert older_with_cluster(own, "edge", [own, other], mark) == rival


class Api:
    """A client whose writes of some hosts are refused."""

    def __init__(self, refused: Json) -> None:
        self.refused = refused
        self.sent: list[Json] = []

    def resource(self, *_kind: str) -> Api:
        return self

    def path(self, name: str, namespace: str) -> str:
        return f"{namespace}/{name}"

    def in_parallel(self, work: t.Any, items: t.Sequence[t.Any]) -> list[t.Any]:
        return [work(item) for item in items]

    def request(self, _method: str, path: str, body: Json, *_how: t.Any) -> Json:
        self.sent.append(body)
        if path in self.refused:
            raise ApiError(f"{path} was refused", self.refused[path])
        return {}


def written(api: Api) -> list[tuple[str, str]]:
    hosts = [host(number, resource_version=str(number)) for number in (1, 2, 3)]
    changes = reservation.reserving(hosts, {key_of(one): LABELS for one in hosts}, OWNER, "labels")
    lost = reservation.write(t.cast("Kube", api), changes, False)
    return [(name, problem) for (_namespace, name), problem in lost.items()]


def test_each_write_names_the_version_that_was_read_and_a_refused_one_is_lost() -> None:
    api = Api({"metal3/node-2": 409, "metal3/node-3": 404})
    assert written(api) == [("node-2", ""), ("node-3", "")]
    assert [body["metadata"]["resourceVersion"] for body in api.sent] == ["1", "2", "3"]
    with pytest.raises(ApiError):
        written(Api({"metal3/node-1": 403}))


@pytest.mark.parametrize("status", [400, 422])
def test_a_host_that_a_definition_or_policy_refuses_is_lost_with_the_reason(status: int) -> None:
    api = Api({"metal3/node-2": status})
    assert written(api) == [("node-2", "metal3/node-2 was refused")]
    assert len(api.sent) == 3


def job(inputs: str = "a", **job_status: t.Any) -> Json:
    annotations = {installation.INPUTS_ANNOTATION: inputs}
    return {"metadata": {"annotations": annotations}, "status": job_status}


def pod(**state: t.Any) -> Json:
    return {"status": {"containerStatuses": [{"state": state}]}}


FAILED = [{"type": "Failed", "status": "True", "message": "too many"}]


@pytest.mark.parametrize(
    ("given", "pods", "outcome", "message"),
    [
        (job(), [], "Running", ""),
        (job(active=1), [pod(waiting={"message": "no image"})], "Running", "no image"),
        (job(succeeded=1), [], "Succeeded", ""),
        (job(conditions=[{"type": "Complete", "status": "True"}]), [], "Succeeded", ""),
        (job(failed=1, conditions=FAILED), [], "Failed", "too many"),
        (job(failed=1), [pod(terminated={"message": "a\nfatal: x\n"})], "Failed", "fatal: x"),
        (job(failed=1), [pod(terminated={"reason": "Error", "exitCode": 2})], "Failed", "Error 2"),
        # A container that ended successfully says nothing about a failure.
        (
            job(failed=1, conditions=FAILED),
            [pod(terminated={"reason": "Completed", "exitCode": 0, "message": "done"})],
            "Failed",
            "too many",
        ),
        ({"status": "odd"}, ["odd", {"status": {"containerStatuses": 3}}], "Running", ""),
    ],
)
def test_a_job_is_told_by_its_end_and_its_last_words(
    given: Json, pods: list[t.Any], outcome: str, message: str
) -> None:
    found = installation.installation_of(given, pods)
    assert (found.outcome, found.message) == (outcome, message)
    stored = installation.stored_installation({"installation": found.as_dict()})
    assert stored == (found if found.inputs else None)


def test_the_inputs_change_with_all_that_the_installer_gets() -> None:
    request = read_request({"master": {}, "KUDPlugins": ["emco"]})
    files = {"hosts_ini": "[all]\n", "known_hosts": ""}

    def digest(**given: t.Any) -> str:
        whole: Json = {"request": request, "files": files, "image": "i:1", "annotations": {}}
        return installation.inputs_of(**{**whole, **given})

    others = [
        digest(request=read_request({"master": {}})),
        digest(files={**files, "known_hosts": "x"}),
        digest(image="i:2"),
        digest(annotations={installation.RETRY_ANNOTATION: "1"}),
    ]
    assert digest() == digest(annotations={"other": "x"})
    assert len({digest(), *others}) == 5


def test_agents_have_no_permissions_on_their_node_and_are_told_while_they_live() -> None:
    made = agents.deployment("edge", "bpa", agents.AgentPods(2, "i:1"))
    template = made["spec"]["template"]
    [container] = template["spec"]["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert template["spec"]["automountServiceAccountToken"] is False
    assert made["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    pods = [
        {"metadata": {"name": "b"}, "status": {"phase": "Running"}},
        {"metadata": {"name": "a"}, "status": {"phase": "Pending"}},
        {"metadata": {"name": "c"}, "status": {"phase": "Failed"}},
        {"metadata": {"name": "d", "deletionTimestamp": "x"}, "status": {"phase": "Running"}},
        "odd",
    ]
    assert agents.agent_names(pods) == ["a", "b"]
    alike = [agents.selector("a" * 200 + end)[agents.AGENT_LABEL] for end in ("-1", "-2")]
    assert len(set(alike)) == 2 and max(map(len, alike)) == 63


def conditions(found: Json) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in found["conditions"]}


def test_the_status_of_a_second_run_is_that_of_the_first() -> None:
    hosts = [host(number) for number in range(4)]
    spec = {"master": {"count": 1}, "worker": {"count": 2}}
    answer = answer_of(spec, hosts)
    seen = status.RunResults(answer, agents=status.Agents(0, False))
    first = status.status_of(seen, 3, {})
    assert conditions(first) == {
        "Assigned": ("True", "HostsReserved"),
        "Agents": ("True", "NoneWanted"),
        "Ready": ("True", "Reserved"),
    }
    later = [{**each, "why": "had this role before"} for each in first["assignments"]]
    assert status.status_of(seen, 3, {**first, "assignments": later})["assignments"] == later
    assert status.status_of(seen, 3, first) == first
    # A new spec has new reasons.
    renewed = status.status_of(seen, 4, {**first, "assignments": later})
    assert renewed["assignments"] == first["assignments"]


def test_a_failed_run_keeps_hosts_pods_and_conditions() -> None:
    answer = answer_of({"master": {}}, [host(1)])
    running = installation.Installation("a", "Running")
    seen = status.RunResults(answer, running, agents=status.Agents(1, True, ["p"]))
    first = status.status_of(seen, 1, {})
    assert conditions(first)["Ready"] == ("False", "NotInstalled")
    failure = Failure("NotEnoughHosts", "no host")
    found = status.status_of(status.RunResults(failure=failure), 2, first)
    assert conditions(found) == {
        "Assigned": ("False", "NotEnoughHosts"),
        "Installed": ("Unknown", "Running"),
        "Agents": ("True", "AsWanted"),
        "Ready": ("False", "NotAssigned"),
    }
    assert found["assignments"] == first["assignments"]
    assert found["podAgents"] == ["p"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (status.Agents(2, False), ("False", "NoImage")),
        (status.Agents(2, True, ["a"]), ("False", "OtherNumber")),
        (status.Agents(2, True, ["a", "b"]), ("True", "AsWanted")),
        (status.Agents(0, True), ("True", "NoneWanted")),
    ],
)
def test_agents_are_told_by_their_number(given: status.Agents, expected: tuple[str, str]) -> None:
    answer = answer_of({"master": {}}, [host(1)])
    found = status.status_of(status.RunResults(answer, agents=given), 1, {})
    assert conditions(found)["Agents"] == expected
    # Agents do not decide whether the cluster is ready.
    assert conditions(found)["Ready"] == ("True", "Reserved")


@pytest.mark.parametrize(
    ("outcome", "expected", "ready"),
    [
        ("Succeeded", ("True", "Succeeded"), ("True", "Installed")),
        ("Failed", ("False", "Failed"), ("False", "NotInstalled")),
        ("Running", ("Unknown", "Running"), ("False", "NotInstalled")),
    ],
)
def test_the_installer_decides_whether_the_cluster_is_ready(
    outcome: installation.Outcome, expected: tuple[str, str], ready: tuple[str, str]
) -> None:
    answer = answer_of({"master": {}}, [host(1)])
    run = installation.Installation("a", outcome, "fatal")
    found = status.status_of(status.RunResults(answer, run), 1, {})
    assert conditions(found)["Installed"] == expected
    assert conditions(found)["Ready"] == ready
    obstacle = Failure("NoHostKeys", "none")
    found = status.status_of(status.RunResults(answer, obstacle=obstacle), 1, found)
    assert conditions(found)["Installed"] == ("False", "NoHostKeys")
    # Otherwise the installer would run again as soon as the keys are known.
    assert found["installation"] == run.as_dict()
