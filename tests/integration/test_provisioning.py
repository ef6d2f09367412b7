# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module provisioning_reconciliation on an API server with 200 machines, half of which have a BareMetalHost."""

from __future__ import annotations

import dataclasses
import threading
import typing as t
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    ApiError,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.deployment.reconciliation import (
    reconcile,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.outputs import cluster_outputs
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from lab import bare_metal
from lab.api import Api
from lab.machines import Machine, build_machines
from lab.process import wait_until
from lab.state import LabSettings
from support import guide_pictures
from support.dockerfile import ROOT
from support.guide_pictures import hosts_by_rack
from support.lab import RunningLab
from support.recording_proxy import Permission, recording_proxy
from support.wao import DEFINITIONS

Json = dict[str, t.Any]

SETTINGS = LabSettings(200, 8, 3, bare_metal_hosts=100)
GROUP = "/apis/bpa.akraino.org/v1alpha1"
HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJzT3Gd2wJhPPsxLpc0rKz3hLhP2Ij8sBSOKIQVYXKFv"


@pytest.fixture(scope="module")
def machines(lab: RunningLab) -> Iterator[list[Machine]]:
    """All machines; the CRDs of BareMetalHosts is deleted with them at the end."""
    made = build_machines(SETTINGS.nodes, SETTINGS.racks, SETTINGS.seed)
    files = [str(path) for path in DEFINITIONS.glob("bpa.akraino.org_*.yaml")]
    apply({"kubeconfig": lab.kubeconfig, "src": files, "wait": True})
    with Api(lab.state.kubeconfig) as api:
        bare_metal.create(api, made, SETTINGS)
        try:
            yield made
        finally:
            bare_metal.delete(api)


@dataclasses.dataclass(frozen=True)
class Site:
    """A namespace with Provisionings, all of whose hosts are released after the test."""

    kube: Kube
    kubeconfig: str
    namespace: str

    def run(self, name: str = "edge", *, check: bool = False, **given: t.Any) -> Json:
        options = {"namespace": self.namespace, "name": name, **given}
        # Proofs of the best assignment are tested elsewhere.
        limits = {"time_limit": 20.0}
        return reconcile(
            {"kubeconfig": self.kubeconfig, **limits, **options}, Context(check_mode=check)
        )

    def resource(self, name: str = "edge") -> Json:
        return self.kube.get(f"{GROUP}/namespaces/{self.namespace}/provisionings/{name}")

    def conditions(self, name: str = "edge") -> dict[str, tuple[str, str]]:
        found = self.resource(name)["status"]["conditions"]
        return {each["type"]: (each["status"], each["reason"]) for each in found}

    def hosts(self) -> dict[str, Json]:
        """BareMetalHosts by name."""
        found = self.kube.list(bare_metal.COLLECTION)
        return {each["metadata"]["name"]: each for each in found}

    def consumed(self, name: str = "edge") -> set[str]:
        """Names of the hosts whose consumer is a Provisioning of this namespace."""
        mine = {"kind": "Provisioning", "namespace": self.namespace, "name": name}
        return {
            host
            for host, obj in self.hosts().items()
            if mine.items() <= (obj["spec"].get("consumerRef") or {}).items()
        }

    def change_host(self, name: str, patch: Json, part: str = "") -> None:
        path = f"{bare_metal.COLLECTION}/{name}{part}"
        self.kube.request("PATCH", path, patch, MERGE_CONTENT_TYPE)

    def path(self, kind: str, root: str = "/api/v1") -> str:
        return f"{root}/namespaces/{self.namespace}/{kind}"


@pytest.fixture
def site(kube: Kube, kubeconfig: str, namespace: str, machines: list[Machine]) -> Iterator[Site]:
    found = Site(kube, kubeconfig, namespace)
    yield found
    for item in kube.list(f"{GROUP}/namespaces/{namespace}/provisionings"):
        found.run(item["metadata"]["name"], state="absent")


def named(result: Json) -> set[str]:
    return {each["host"] for each in result["assignments"]}


def versions(site: Site) -> dict[str, str]:
    """Resource versions of all objects that a run may write."""
    paths = {
        "hosts": bare_metal.COLLECTION,
        "provisionings": site.path("provisionings", GROUP),
        "configmaps": site.path("configmaps"),
        "jobs": site.path("jobs", "/apis/batch/v1"),
        "leases": "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
    }
    own = {"wattwise-provisioning"}
    return {
        f"{kind}/{item['metadata']['name']}": item["metadata"]["resourceVersion"]
        for kind, path in paths.items()
        for item in site.kube.list(path)
        if kind != "leases" or item["metadata"]["name"] in own
    }


def test_hosts_are_reserved_told_and_released(site: Site) -> None:
    spec = {"master": {"count": 3, "cpu": 8}, "worker": {"count": 5, "cpu": 16}}
    before = versions(site)
    planned = site.run(spec=spec, check=True)
    assert planned["changed"] and planned["diff"]
    assert versions(site) == before

    first = site.run(spec=spec)
    assert first["changed"]
    assert site.consumed() == named(first) == named(planned)
    assert len(named(first)) == 8
    status = site.resource()["status"]
    assert (status["masters"], status["workers"]) == (3, 5)
    assert site.conditions() == {
        "Assigned": ("True", "HostsReserved"),
        "Agents": ("True", "NoneWanted"),
        "Ready": ("True", "Reserved"),
    }
    assert all(each["why"] and each["ip"] and each["mac"] for each in status["assignments"])
    addresses = site.kube.get(site.path("configmaps/edge-configmap"))
    assert len(addresses["data"]) == 8
    assert addresses["metadata"]["ownerReferences"][0]["kind"] == "Provisioning"

    stored = versions(site)
    again = site.run()
    assert not again["changed"] and not again["diff"]
    assert versions(site) == stored

    fewer = site.run(spec={**spec, "worker": {"count": 2, "cpu": 16}})
    assert site.consumed() == named(fewer)
    assert len(named(fewer)) == 5

    gone = site.run(state="absent")
    assert gone["changed"]
    assert not site.consumed()
    assert not site.run(state="absent")["changed"]


def test_two_that_compete_at_once_never_share_a_host(site: Site) -> None:
    spec = {"master": {"count": 3}, "worker": {"count": 25, "cpu": 8}}
    names = ("first", "second")
    start = threading.Barrier(len(names))

    def compete(name: str) -> Json:
        start.wait()
        return site.run(name, spec=spec)

    with ThreadPoolExecutor(len(names)) as threads:
        results = list(threads.map(compete, names))
    found = [named(result) for result in results]
    assert not found[0] & found[1]
    assert [len(each) for each in found] == [28, 28]
    for name, hosts in zip(names, found, strict=True):
        assert site.consumed(name) == hosts
        assert not site.run(name)["changed"]


def test_a_host_that_is_lost_while_it_is_reserved_is_replaced(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cluster API takes the chosen host between the run's read and its write."""
    spec = {"master": {"count": 1, "cpu": 8}}
    chosen = next(iter(named(site.run(spec=spec, check=True))))
    machine = {"kind": "Metal3Machine", "namespace": "metal3", "name": "faster"}
    ours = Kube.request
    taken: list[str] = []

    def faster(kube: Kube, method: str, path: str, *rest: t.Any, **given: t.Any) -> Json:
        if method == "PATCH" and path.endswith(f"/{chosen}") and not taken:
            taken.append(path)
            site.change_host(chosen, {"spec": {"consumerRef": machine}})
        return ours(kube, method, path, *rest, **given)

    monkeypatch.setattr(Kube, "request", faster)
    result = site.run(spec=spec)
    assert taken
    assert chosen not in named(result)
    assert site.consumed() == named(result)
    assert site.hosts()[chosen]["spec"]["consumerRef"]["name"] == "faster"
    monkeypatch.undo()
    site.change_host(chosen, {"spec": {"consumerRef": None}})


def test_hostile_hosts_change_nothing_for_good_ones(site: Site) -> None:
    spec = {"master": {"count": 2}, "worker": {"count": 2}}
    first = site.run(spec=spec)
    free = sorted(site.hosts().keys() - named(first))[:2]
    before = {name: site.hosts()[name]["status"] for name in free}
    hostile = {"hardware": {"ramMebibytes": -5, "hostname": "x\n[all]\nevil ansible_host=1.1.1.1"}}
    for name in free:
        site.change_host(name, {"status": hostile}, "/status")
    again = site.run()
    assert named(again) == named(first)
    assert any(each["name"] in free for each in again["findings"])
    assert "evil" not in again["hosts_ini"]
    for name in free:
        site.change_host(name, {"status": before[name]}, "/status")


def test_a_shortage_keeps_what_is_reserved_and_says_what_would_help(site: Site) -> None:
    first = site.run(spec={"master": {"count": 1}, "worker": {"count": 2}})
    impossible = {"master": {"count": 1}, "worker": {"count": 2, "cpu": 4000}}
    result = site.run(spec=impossible, on_error="report")
    assert "cpu" in result["failure"]
    assert site.conditions()["Assigned"] == ("False", "NotEnoughHosts")
    assert site.conditions()["Ready"] == ("False", "NotAssigned")
    assert site.consumed() == named(first)
    with pytest.raises(WattwiseError, match="Not every role"):
        site.run(spec=impossible)
    stored = versions(site)
    assert not site.run(on_error="report")["changed"]
    assert versions(site) == stored


def test_cluster_api_may_consume_hosts_that_are_labelled_for_it(site: Site) -> None:
    spec = {"master": {"count": 1}, "worker": {"count": 1}}
    first = site.run(spec=spec, reserve="labels", require_ip=False)
    assert not site.consumed()
    labelled = {
        name: obj["metadata"]["labels"]["bpa.akraino.org/role"]
        for name, obj in site.hosts().items()
        if obj["metadata"]["labels"].get("bpa.akraino.org/cluster") == "edge"
    }
    assert labelled == {
        each["host"]: "control-plane" if each["role"] == "master" else "worker"
        for each in first["assignments"]
    }
    machine = {"kind": "Metal3Machine", "namespace": "metal3", "name": "edge-1"}
    host = first["assignments"][0]["host"]
    site.change_host(host, {"spec": {"consumerRef": machine}})
    assert not site.run(reserve="labels", require_ip=False)["changed"]
    other = site.run("other", spec=spec, cluster="edge-2", reserve="labels", require_ip=False)
    assert not named(other) & named(first)
    site.run(state="absent", reserve="labels")
    assert "bpa.akraino.org/cluster" not in site.hosts()[host]["metadata"]["labels"]
    site.change_host(host, {"spec": {"consumerRef": None}})


def hardware_of(machine: Machine) -> Json:
    """The machine in the form of redfish_hardware_info, with the fields that roles need."""
    built = machine.hardware
    port = {"name": "eno0", "mac": built.macs[0], "ip": machine.internal_address, "boots": True}
    return {
        "name": machine.name,
        "processors": {"count": built.threads, "model": machine.server_type},
        "memory_mib": machine.memory_gib * 1024,
        "network_interfaces": [port],
    }


def test_hosts_without_bare_metal_host_are_reserved_in_statuses_under_a_lease(
    site: Site, machines: list[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_metal3 = site.hosts().keys()
    hardware = [hardware_of(each) for each in machines if each.name not in by_metal3]
    spec = {"master": {"count": 1}, "worker": {"count": 20, "cpu": 8}}
    given: Json = {"spec": spec, "hardware": hardware, "host_namespaces": [site.namespace]}
    names = ("north", "south")
    start = threading.Barrier(len(names))

    def compete(name: str) -> Json:
        start.wait()
        return site.run(name, **given)

    with ThreadPoolExecutor(len(names)) as threads:
        results = list(threads.map(compete, names))
    assert [len(named(each)) for each in results] == [21, 21]
    assert not named(results[0]) & named(results[1])
    # The first of the two then learns who got its free hosts.
    for name in names:
        assert not site.run(name, **given)["changed"]
    stored = versions(site)
    assert not site.run("north", **given)["changed"]
    assert versions(site) == stored

    # A run that is interrupted after its reservation, before anything else, assigns its hosts to
    # nobody.
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(cluster_outputs, "outputs", cut_off)
        site.run("west", **given)
    west = {each["host"] for each in site.resource("west")["status"]["assignments"]}
    assert len(west) == 21
    assert not west & named(site.run("east", **given))
    assert named(site.run("west", **given)) == west


def test_a_host_whose_mark_is_refused_leaves_the_others_to_the_provisioning(site: Site) -> None:
    """An admission webhook or a policy of Metal3's cluster may refuse changes of one host."""
    spec = {"master": {"count": 1}}
    [chosen] = named(site.run(spec=spec, check=True))
    policy = policy_against(site, chosen)
    apply({"kubeconfig": site.kubeconfig, "manifests": policy})
    try:
        patch: Json = {"metadata": {"labels": {"try": "it"}}}

        def is_refused() -> bool:
            try:
                site.change_host(f"{chosen}?dryRun=All", patch)
            except ApiError as error:
                return error.status == 422
            return False

        wait_until(is_refused, 60.0, "the policy")
        result = site.run(spec=spec)
        assert named(result) == site.consumed() and chosen not in site.consumed()
        [reason] = [each["reason"] for each in result["unassigned"] if each["host"] == chosen]
        assert reason.startswith("is in error: its reservation was refused: ")
        assert site.conditions()["Assigned"][0] == "True"
    finally:
        apply({"kubeconfig": site.kubeconfig, "manifests": policy, "state": "absent"})


def policy_against(site: Site, host: str) -> list[Json]:
    """A policy that refuses every change of one BareMetalHost."""
    group, metadata = "admissionregistration.k8s.io/v1", {"name": site.namespace}
    rule = {"apiGroups": ["metal3.io"], "apiVersions": ["*"], "resources": ["baremetalhosts"]}
    denial = {"expression": f"object.metadata.name != '{host}'", "reason": "Invalid"}
    spec = {
        "matchConstraints": {"resourceRules": [{**rule, "operations": ["UPDATE"]}]},
        "validations": [{**denial, "message": "frozen for repair"}],
    }
    binding = {"policyName": site.namespace, "validationActions": ["Deny"]}
    kind = "ValidatingAdmissionPolicy"
    return [
        {"apiVersion": group, "kind": kind, "metadata": metadata, "spec": spec},
        {"apiVersion": group, "kind": f"{kind}Binding", "metadata": metadata, "spec": binding},
    ]


def cut_off(*_arguments: t.Any) -> t.NoReturn:
    raise KeyboardInterrupt


def keep_pods_waiting(site: Site) -> None:
    """Let pods of the namespace request more than any node has, so that none ends by itself."""
    amounts = {"cpu": "1M"}
    limit = {"type": "Container", "default": amounts, "defaultRequest": amounts}
    body = {"metadata": {"name": "none-fits"}, "spec": {"limits": [limit]}}
    kind = {"apiVersion": "v1", "kind": "LimitRange"}
    site.kube.request("POST", site.path("limitranges"), {**kind, **body})


def fail_job(site: Site) -> None:
    """End the installer's pod with a failure, and wait until the Job controller has seen it."""
    path = site.path("jobs/kud-edge", "/apis/batch/v1")
    selector = {"labelSelector": "batch.kubernetes.io/job-name=kud-edge"}
    wait_until(lambda: len(site.kube.list(site.path("pods"), selector)) == 1, 20.0, "the pod")
    [pod] = site.kube.list(site.path("pods"), selector)
    status = site.path(f"pods/{pod['metadata']['name']}/status")
    site.kube.request("PATCH", status, {"status": {"phase": "Failed"}}, MERGE_CONTENT_TYPE)

    def has_failed() -> bool:
        conditions = site.kube.get(path)["status"].get("conditions", [])
        return any(each["type"] == "Failed" and each["status"] == "True" for each in conditions)

    wait_until(has_failed, 20.0, "the Job to fail")


def test_the_installer_runs_once_for_equal_inputs_and_is_followed(site: Site) -> None:
    keep_pods_waiting(site)
    spec = {"master": {"count": 1}, "KUDPlugins": ["emco"]}
    given: Json = {"installer_image": "registry.example/kud:1"}
    first = site.run(spec=spec, **given)
    assert site.conditions()["Installed"] == ("False", "NoHostKeys")
    label = first["assignments"][0]["label"]
    given["ssh"] = {"hosts": {label: {"host_keys": [HOST_KEY]}}}
    site.run(**given)
    assert site.conditions()["Installed"] == ("Unknown", "Running")
    jobs = site.path("jobs/kud-edge", "/apis/batch/v1")
    job = site.kube.get(jobs)
    # The status has the reason for which the installer's pod waits, which changes until it starts.
    wait_until(lambda: not site.run(**given)["changed"], 30.0, "a run without a change")
    fail_job(site)
    site.run(**given)
    assert site.conditions()["Installed"] == ("False", "Failed")
    assert "backoff limit" in site.resource()["status"]["installation"]["message"]
    assert site.kube.get(jobs)["metadata"]["uid"] == job["metadata"]["uid"]
    site.kube.request("DELETE", jobs, {"propagationPolicy": "Background"})
    assert not site.run(**given)["changed"]
    assert site.kube.find(jobs) is None
    retry = {"metadata": {"annotations": {"bpa.akraino.org/retry": "1"}}}
    site.kube.request("PATCH", site.path("provisionings/edge", GROUP), retry, MERGE_CONTENT_TYPE)
    site.run(**given)
    assert site.conditions()["Installed"] == ("Unknown", "Running")
    assert site.kube.get(jobs)["metadata"]["uid"] != job["metadata"]["uid"]


def test_agents_follow_their_number_down_to_zero(site: Site) -> None:
    spec = {"master": {"count": 1}, "replicas": 2}
    site.run(spec=spec)
    assert site.conditions()["Agents"] == ("False", "NoImage")
    site.run(agent_image="registry.example/agent:1")
    deployment = site.path("deployments/edge-agents", "/apis/apps/v1")
    made = site.kube.get(deployment)["spec"]
    [container] = made["template"]["spec"]["containers"]
    assert (made["replicas"], container["command"]) == (2, ["host-agent"])

    def pods() -> list[str]:
        found = site.kube.list(site.path("pods"), {"labelSelector": "bpa.akraino.org/agents-of"})
        return sorted(each["metadata"]["name"] for each in found)

    wait_until(lambda: len(pods()) == 2, 20.0, "the pods of the agents")
    site.run(agent_image="registry.example/agent:1")
    assert site.resource()["status"]["podAgents"] == pods()
    site.run(spec={**spec, "replicas": 0}, agent_image="registry.example/agent:1")
    assert site.kube.find(deployment) is None
    wait_until(lambda: not pods(), 20.0, "the pods of the agents to be gone")
    site.run()
    assert "podAgents" not in site.resource()["status"]


def test_a_second_cluster_of_the_same_name_is_refused(site: Site) -> None:
    site.run(spec={"master": {"count": 1}}, cluster="one")
    result = site.run("later", spec={"master": {"count": 1}}, cluster="one", on_error="report")
    assert "edge" in result["failure"]
    assert site.conditions("later")["Assigned"] == ("False", "ClusterNameTaken")
    assert not site.consumed("later")


PERMISSIONS = {
    "docs/rbac/provisioning.yaml": ("wao-system", "wattwise"),
    "operator/config/rbac/provisioning/rights.yaml": ("wattwise-system", "wattwise-operator"),
}
# Permissions of the task that creates the namespace, and of ansible-operator itself.
OF_OTHERS = {
    *(Permission("", "namespaces", verb) for verb in ("get", "create", "patch")),
    *(Permission("bpa.akraino.org", "provisionings", verb) for verb in ("watch", "update")),
}


def granted(site: Site, file: str) -> tuple[list[Json], str]:
    """The manifests of the permissions, for an account of the test's namespace, and its token."""
    given_to, account = PERMISSIONS[file]
    text = (ROOT / file).read_text()
    for before, after in (
        ("bpa-system", site.namespace),
        (f"namespace: {given_to}", f"namespace: {site.namespace}"),
        ("name: wattwise", f"name: {site.namespace}"),
        # Its Lease is shared by all tests.
        (
            f"resourceNames: [{site.namespace}-provisioning]",
            "resourceNames: [wattwise-provisioning]",
        ),
    ):
        text = text.replace(before, after)
    documents = [each for each in yaml.safe_load_all(text) if each]
    items = documents[0]["items"] if documents[0]["kind"] == "List" else documents
    name = account.replace("wattwise", site.namespace)
    owned = {"name": name, "namespace": site.namespace}
    made = [*items, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": owned}]
    apply({"kubeconfig": site.kubeconfig, "manifests": made})
    asked = {"spec": {"expirationSeconds": 3600}}
    token = site.kube.request("POST", site.path(f"serviceaccounts/{name}/token"), asked)
    return made, token["status"]["token"]


def test_user_data_that_the_account_may_not_read_is_a_finding_of_its_host(
    site: Site, lab: RunningLab
) -> None:
    made, token = granted(site, next(iter(PERMISSIONS)))
    [chosen] = named(site.run(spec={"master": {"count": 1}}))
    site.change_host(chosen, {"spec": {"userData": {"name": "cloud-init"}}})
    try:
        account: Json = {"kubeconfig": None, "host": site.kube.host, "api_key": token}
        account["ca_cert"] = str(lab.state.ca_certificate)
        result = site.run(read_user_data=True, **account)
        found = [(each["name"], each["field"]) for each in result["findings"]]
        assert found == [(chosen, "spec.userData")]
        assert named(result) == {chosen}
    finally:
        site.change_host(chosen, {"spec": {"userData": None}})
        apply({"kubeconfig": site.kubeconfig, "manifests": made, "state": "absent"})


@pytest.mark.parametrize("file", PERMISSIONS)
def test_runs_use_exactly_the_permissions_that_are_granted(
    site: Site, machines: list[Machine], lab: RunningLab, file: str
) -> None:
    is_operator = file.startswith("operator")
    made, token = granted(site, file)
    secret = {"metadata": {"name": "keys"}, "stringData": {"ssh-privatekey": "x"}}
    site.kube.request("POST", site.path("secrets"), secret)
    spec = {"master": {"count": 1}, "replicas": 1, "ssh": {"secretName": "keys"}}
    keep_pods_waiting(site)
    images: Json = {"installer_image": "registry.example/kud:1", "agent_image": "r.example/a:1"}
    if is_operator:
        site.run(spec=spec)
    with recording_proxy(site.kube.host, str(lab.state.ca_certificate)) as proxy:
        account: Json = {"kubeconfig": None, "host": proxy.server, "api_key": token}
        wanted: Json = {} if is_operator else {"spec": spec}
        [first] = site.run(**wanted, **account)["assignments"][:1]
        images["ssh"] = {"hosts": {first["label"]: {"host_keys": [HOST_KEY]}}}
        site.run(**account, **images)
        fail_job(site)
        # Other inputs replace the Job, and no agents are left.
        site.run(**account, **{**images, "installer_image": "registry.example/kud:2"})
        site.run(**account, **{**images, "agent_image": ""})
        if is_operator:
            own = site.path("provisionings/edge", GROUP)
            keep = {"metadata": {"finalizers": ["bpa.akraino.org/release"]}}
            site.kube.request("PATCH", own, keep, MERGE_CONTENT_TYPE)
            site.kube.request("DELETE", own)
        else:
            alone = [hardware_of(machines[0])]
            elsewhere: Json = {"host_namespaces": [site.namespace], "require_ip": False}
            forget_lease(site)
            site.run("alone", spec={"master": {}}, hardware=alone, **elsewhere, **account)
            site.run("alone", spec={"master": {}}, hardware=alone, **elsewhere, **account)
        site.run(state="absent", **account)
        assert not site.consumed()
        if is_operator:
            none: Json = {"metadata": {"finalizers": None}}
            site.kube.request("PATCH", own, none, MERGE_CONTENT_TYPE)
        assert proxy.refused == []
        allowed = {
            Permission(group, resource, verb)
            for item in made
            for rule in item.get("rules", [])
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        assert proxy.used <= allowed
        assert allowed - proxy.used <= OF_OTHERS
    apply({"kubeconfig": site.kubeconfig, "manifests": made, "state": "absent"})


def forget_lease(site: Site) -> None:
    """The permission to create the Lease is needed once in a cluster."""
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/wattwise-provisioning"
    if site.kube.find(path):
        site.kube.request("DELETE", path)


def test_the_picture_of_the_guide_is_that_of_a_run(site: Site) -> None:
    spec = {
        "master": {"count": 3, "cpu": 10, "memory": "4Gi"},
        "worker": {"count": 5, "cpu": 20, "memory": "8Gi", "sriov": True},
    }
    site.run(spec=spec)
    guide_pictures.check("provisioning.svg", hosts_by_rack(site.hosts(), site.resource()["status"]))
