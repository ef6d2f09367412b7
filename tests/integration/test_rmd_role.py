# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role rmd on the lab's API server: what it installs, refuses, changes and takes away."""

from __future__ import annotations

import json
import tomllib
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.certificates import (
    keep_certificates,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.reconcile.rmd import (
    FIELD_MANAGER,
    namespace_manifests,
)
from lab.process import wait_until
from lab.rmd.daemon import Daemon
from lab.rmd.host import Configuration, Host
from support.playbook import PlaybookRun, run_playbook

AGENT = "registry.example/agent:1"
ROOT = Path(__file__).resolve().parents[2]
Object = dict[str, t.Any]
BROADWELL: Object = {
    "name": "broadwell",
    "node_labels": {"node.kubernetes.io/instance-type": "r730"},
    "ways": 20,
    "guaranteed_ways": 10,
    "besteffort_ways": 7,
    "shared_ways": 2,
}
CERTIFICATES: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "certificates.cert-manager.io"},
    "spec": {
        "group": "cert-manager.io",
        "scope": "Namespaced",
        "names": {"plural": "certificates", "singular": "certificate", "kind": "Certificate"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
SKYLAKE: Object = {
    "name": "default", "ways": 11, "guaranteed_ways": 6, "besteffort_ways": 3, "shared_ways": 1,
}  # fmt: skip


class Rmd:
    """Runs of the playbook in a namespace of its own, and what it left there."""

    def __init__(self, kube: Kube, kubeconfig: str, namespace: str, folder: Path) -> None:
        self.kube, self.kubeconfig = kube, kubeconfig
        self.namespace, self.folder = namespace, folder

    def play(
        self, *arguments: str, playbook: str = "wattwise.kube.rmd", **given: t.Any
    ) -> PlaybookRun:
        return self.play_many({"here": given}, *arguments, playbook=playbook)

    def play_many(
        self, cases: dict[str, Object], *arguments: str, playbook: str = "wattwise.kube.rmd"
    ) -> PlaybookRun:
        """One run with a host for each case: as many runs would mostly start Ansible."""
        common = {
            "wattwise_kubeconfig": self.kubeconfig,
            "wattwise_run_dir": str(self.folder / "runs"),
            "rmd_namespace": self.namespace,
            "rmd_authority_namespace": f"{self.namespace}-authority",
            "rmd_image": "registry.example/rmd:0.3",
        }
        inventory = self.folder / "inventory.json"
        hosts = {name: {**common, **given} for name, given in cases.items()}
        inventory.write_text(json.dumps({"clusters": {"hosts": hosts}}))
        tags = ("--tags", "rmd_daemons") if playbook == "wattwise.kube.rmd" else ()
        return run_playbook(
            playbook, self.folder, "-i", str(inventory), *tags, *arguments, as_json=True
        )

    def install(self, **given: t.Any) -> int:
        """Run it; returns how many tasks changed something."""
        run = self.play(**given)
        assert run.returncode == 0, run.output
        return run.stats()["here"]["changed"]

    def keep_certificates(self) -> None:
        """As somebody else would, whose authority is in a namespace of the test."""
        authority = f"{self.namespace}-authority"
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": authority}}
        apply({"kubeconfig": self.kubeconfig, "manifests": [made]})
        given = {
            "namespace": self.namespace,
            "authority_namespace": authority,
            "authority_secret": "rmd-authority",
            "server_secret": "rmd-server",
            "client_secret": "rmd-client",
            "server_names": ["rmd-nameserver"],
            "client_unit": "Admin",
        }
        keep_certificates({"kubeconfig": self.kubeconfig, **given})

    def daemon_set(self, name: str = "rmd") -> Object:
        return self.kube.get(f"/apis/apps/v1/namespaces/{self.namespace}/daemonsets/{name}")

    def daemon_sets(self) -> list[str]:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/daemonsets"
        return sorted(item["metadata"]["name"] for item in self.kube.list(path))

    def environment(self, pod_spec: Object) -> dict[str, str]:
        """What makes a daemon start anew when it changes."""
        return {item["name"]: item["value"] for item in pod_spec["containers"][0]["env"]}

    def pods(self) -> dict[str, Object]:
        """The pods that the role itself made, by name, without those that are going."""
        found = self.kube.list(f"/api/v1/namespaces/{self.namespace}/pods")
        own = [
            pod for pod in found if "applyset.kubernetes.io/part-of" in pod["metadata"]["labels"]
        ]
        return {
            pod["metadata"]["name"]: pod
            for pod in own
            if "deletionTimestamp" not in pod["metadata"]
        }

    def labels(self, node: str) -> dict[str, str]:
        """The labels of a node that this test's role gave it."""
        labels = self.kube.get(f"/api/v1/nodes/{node}")["metadata"]["labels"]
        own = (self.label, "rmd-node", "wattwise.github.io/rmd")
        return {key: labels[key] for key in own if key in labels}

    @property
    def label(self) -> str:
        return f"wattwise.github.io/{self.namespace}"

    @property
    def nodes(self) -> list[str]:
        return sorted(item["metadata"]["name"] for item in self.kube.list("/api/v1/nodes"))

    def boots(self, host: Host) -> Configuration:
        """The role's rmd.toml, after a simulated daemon has started with it."""
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/rmd-configuration"
        text = self.kube.get(path)["data"]["rmd.toml"]
        return Daemon(host, Configuration.from_toml(text)).configuration

    def file(self, name: str, daemon_set: str = "rmd") -> Object:
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/{daemon_set}-configuration"
        return tomllib.loads(self.kube.get(path)["data"][name])


@pytest.fixture
def rmd(kube: Kube, kubeconfig: str, namespace: str, tmp_path: Path) -> Iterator[Rmd]:
    files = [str(ROOT / "roles" / "crds" / "files" / "intel.com_rmdconfigs.yaml")]
    apply({"kubeconfig": kubeconfig, "src": files, "wait": True})
    yield Rmd(kube, kubeconfig, namespace, tmp_path)
    if kube.find(f"/api/v1/namespaces/{namespace}-authority") is not None:
        kube.request("DELETE", f"/api/v1/namespaces/{namespace}-authority")


def test_the_default_is_one_daemon_set_with_tls_that_changes_with_its_certificate_alone(
    rmd: Rmd,
) -> None:
    check = rmd.play("--check")
    assert check.returncode == 0, check.output
    assert rmd.daemon_sets() == []
    assert rmd.install() > 0
    before = rmd.daemon_set()
    client = rmd.folder / "runs" / "here" / "rmd"
    assert sorted(path.name for path in client.iterdir()) == ["ca.pem", "cert.pem", "key.pem"]
    assert rmd.install() == 0
    assert rmd.daemon_set()["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    pod = before["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["args"] == ["--conf-dir", "/etc/rmd", "--address", "0.0.0.0"]
    assert container["ports"][0]["containerPort"] == 8443
    assert pod["nodeSelector"] == {"feature.node.kubernetes.io/cpu-rdt.RDTL3CA": "true"}
    toml = rmd.file("rmd.toml")
    assert toml["default"]["clientauth"] == "challenge"
    assert toml["debug"]["enabled"] is False
    pools = {name: toml["CachePool"][name] for name in ("guarantee", "besteffort", "shared")}
    assert pools == {"guarantee": 6, "besteffort": 3, "shared": 1}
    assert "InfraGroup" not in toml
    assert rmd.file("policy.toml")["skylake"]["silver"]["cache"] == {"max": 3, "min": 1}
    eleven_ways = Host({0: (0, 1)}, ways=11, architecture="skylake")
    assert rmd.boots(eleven_ways).client_auth == "challenge"

    rmd.kube.request("DELETE", f"/api/v1/namespaces/{rmd.namespace}/secrets/rmd-server")
    rmd.install()
    after = rmd.environment(rmd.daemon_set()["spec"]["template"]["spec"])
    changed = {key for key, value in rmd.environment(pod).items() if after[key] != value}
    assert changed == {"WATTWISE_CERTIFICATE"}


def test_check_mode_works_before_there_is_a_namespace(rmd: Rmd) -> None:
    run = rmd.play("--check", rmd_namespace="not-there-yet", rmd_agent_image=AGENT)
    assert run.returncode == 0, run.output
    assert rmd.kube.find("/api/v1/namespaces/not-there-yet") is None


def test_certificates_of_cert_manager_are_asked_for_and_waited_for(rmd: Rmd) -> None:
    """cert-manager is played: its kind is served, and its Secrets are there."""
    rmd.keep_certificates()
    apply({"kubeconfig": rmd.kubeconfig, "manifests": [CERTIFICATES], "wait": True})
    issuer = {"name": "hall", "kind": "ClusterIssuer"}
    given: Object = {"rmd_certificates": "cert_manager", "rmd_issuer": issuer}
    rmd.install(**given)
    path = f"/apis/cert-manager.io/v1/namespaces/{rmd.namespace}/certificates"
    asked = {item["spec"]["secretName"]: item["spec"] for item in rmd.kube.list(path)}
    assert asked["rmd-server"]["dnsNames"] == ["rmd-nameserver"]
    assert asked["rmd-client"]["subject"] == {"organizationalUnits": ["Admin"]}
    for spec in asked.values():
        assert spec["issuerRef"] == issuer
        assert spec["privateKey"]["size"] == 3072
    folder = rmd.folder / "runs" / "here" / "rmd"
    assert sorted(path.name for path in folder.iterdir()) == ["ca.pem", "cert.pem", "key.pem"]
    before = rmd.environment(rmd.daemon_set()["spec"]["template"]["spec"])
    rmd.kube.request("DELETE", f"/api/v1/namespaces/{rmd.namespace}/secrets/rmd-server")
    rmd.keep_certificates()
    rmd.install(**given)
    after = rmd.environment(rmd.daemon_set()["spec"]["template"]["spec"])
    assert {key for key in after if after[key] != before[key]} == {"WATTWISE_CERTIFICATE"}
    apply({"kubeconfig": rmd.kubeconfig, "manifests": [CERTIFICATES], "state": "absent"})


def test_passwords_take_the_place_of_client_certificates(rmd: Rmd) -> None:
    rmd.install(rmd_authentication="password", rmd_pam_service="hall")
    configuration = rmd.boots(Host({0: (0, 1)}, ways=11, architecture="skylake"))
    assert (configuration.client_auth, configuration.debug) == ("no", False)
    assert rmd.file("rmd.toml")["pam"] == {"service": "hall"}
    volumes = rmd.daemon_set()["spec"]["template"]["spec"]["volumes"]
    assert "administrators" not in [volume["name"] for volume in volumes]


def test_without_tls_it_is_plain_http_and_no_certificate_is_made(rmd: Rmd) -> None:
    rmd.install(rmd_tls=False)
    [container] = rmd.daemon_set()["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1] == "-d"
    assert container["ports"][0]["containerPort"] == 8081
    assert rmd.file("rmd.toml")["debug"]["enabled"] is True
    assert rmd.kube.list(f"/api/v1/namespaces/{rmd.namespace}/secrets") == []


def test_role_rmd_workloads_leaves_the_labels_of_the_namespace(rmd: Rmd) -> None:
    rmd.install(rmd_tls=False)
    path = f"/api/v1/namespaces/{rmd.namespace}"
    before = rmd.kube.get(path)["metadata"]["labels"]
    assert before["pod-security.kubernetes.io/enforce"] == "privileged"
    manifests = namespace_manifests({"namespace": rmd.namespace})
    given = {"manifests": manifests, "field_manager": FIELD_MANAGER}
    apply({"kubeconfig": rmd.kubeconfig, **given})
    assert rmd.kube.get(path)["metadata"]["labels"] == before


def test_every_layout_is_a_daemon_set_and_one_that_goes_takes_its_own_along(rmd: Rmd) -> None:
    models = [{"microarchitecture": "Skylake", "family": 6, "model": 106}]
    rmd.install(rmd_tls=False, rmd_layouts=[SKYLAKE, {**BROADWELL, "cpu_models": models}])
    assert rmd.daemon_sets() == ["rmd", "rmd-broadwell"]
    selector = rmd.daemon_set("rmd-broadwell")["spec"]["template"]["spec"]["nodeSelector"]
    assert selector["node.kubernetes.io/instance-type"] == "r730"
    assert rmd.file("rmd.toml", "rmd-broadwell")["CachePool"]["guarantee"] == 10
    assert rmd.file("cpu_map.toml", "rmd-broadwell") == {"Skylake": [{"family": 6, "model": 106}]}
    rmd.install(rmd_tls=False, rmd_layouts=[SKYLAKE], rmd_prune_max=1.0)
    assert rmd.daemon_sets() == ["rmd"]


def test_nodes_of_the_inventory_get_the_label_until_they_are_taken_out(rmd: Rmd) -> None:
    first, second = rmd.nodes[:2]
    given: Object = {"rmd_tls": False, "rmd_node_labels": {rmd.label: "true"}}
    rmd.install(**given, rmd_labelled_nodes=[first, second])
    marked = {rmd.label: "true", "wattwise.github.io/rmd": "labelled"}
    assert (rmd.labels(first), rmd.labels(second)) == (marked, marked)
    selector = rmd.daemon_set()["spec"]["template"]["spec"]["nodeSelector"]
    assert selector == {rmd.label: "true"}
    assert rmd.install(**given, rmd_labelled_nodes=[second]) == 1
    assert (rmd.labels(first), rmd.labels(second)) == ({}, marked)
    rmd.install(**given)
    assert rmd.labels(second) == {}


def test_pods_of_their_own_as_the_operator_had_them(rmd: Rmd) -> None:
    """From DaemonSets to pods and back; labels, files and nodes that change meanwhile."""
    first, second = rmd.nodes[:2]
    path, merge = f"/api/v1/nodes/{second}", "application/merge-patch+json"
    of_the_operator = {"rmd-node": "cdaa1644"}
    rmd.kube.request("PATCH", path, {"metadata": {"labels": of_the_operator}}, merge)
    third = f"/api/v1/nodes/{rmd.nodes[2]}"
    rmd.kube.request("PATCH", third, {"metadata": {"labels": {rmd.label: "false"}}}, merge)
    labels = {"rmd_node_labels": {rmd.label: "true"}, "rmd_tls": False, "rmd_prune_max": 1.0}
    both: Object = {**labels, "rmd_labelled_nodes": [first, second]}
    rmd.install(**both)
    check = rmd.play("--check", **both, rmd_deployment="pods")
    assert (check.returncode, rmd.pods(), rmd.daemon_sets()) == (0, {}, ["rmd"])

    rmd.install(**both, rmd_deployment="pods")
    made = rmd.pods()
    assert (sorted(made), rmd.daemon_sets()) == ([f"rmd-{first}", f"rmd-{second}"], [])
    uid = rmd.kube.get(f"/api/v1/nodes/{first}")["metadata"]["uid"]
    for node, value in ((first, uid), (second, "cdaa1644")):
        assert rmd.labels(node)["rmd-node"] == value
        assert made[f"rmd-{node}"]["spec"]["nodeSelector"] == {"rmd-node": value}
    wait_until(
        lambda: rmd.pods()[f"rmd-{first}"]["spec"].get("nodeName") == first, 30.0, "the pod's node"
    )
    assert rmd.install(**both, rmd_deployment="pods") == 0

    layouts = [{**SKYLAKE, "guaranteed_ways": 5}]
    one = {**labels, "rmd_labelled_nodes": [first], "rmd_layouts": layouts}
    rmd.install(**one, rmd_deployment="pods")
    [(name, changed)] = rmd.pods().items()
    assert (name, rmd.labels(second)) == (f"rmd-{first}", of_the_operator)
    assert changed["metadata"]["uid"] != made[name]["metadata"]["uid"]
    assert rmd.environment(changed["spec"]) != rmd.environment(made[name]["spec"])

    rmd.install(**labels, rmd_layouts=layouts)
    assert (rmd.pods(), rmd.daemon_sets(), rmd.labels(first)) == ({}, ["rmd"], {})
    assert rmd.labels(second) == of_the_operator
    rmd.kube.request("PATCH", path, {"metadata": {"labels": {"rmd-node": None}}}, merge)
    rmd.kube.request("PATCH", third, {"metadata": {"labels": {rmd.label: None}}}, merge)


def test_the_agent_sees_no_more_than_it_reads_and_ends_pods_only_where_that_is_wanted(
    rmd: Rmd,
) -> None:
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/rmd-node-agent"
    config = f"/apis/intel.com/v1alpha1/namespaces/{rmd.namespace}/rmdconfigs/rmdconfig"
    for source, folder, ends_pods, verbs in (
        ("cgroup", "/sys/fs/cgroup", False, ["list"]),
        ("pod_resources", "/var/lib/kubelet/pod-resources", True, ["list", "delete"]),
    ):
        rmd.install(
            rmd_tls=False,
            rmd_agent_image=AGENT,
            rmd_cpuset_source=source,
            rmd_terminate_refused_pods=ends_pods,
        )
        assert rmd.kube.get(role)["rules"][0]["verbs"] == verbs
        assert rmd.daemon_sets() == ["rmd", "rmd-node-agent"]
        assert rmd.kube.get(config)["spec"]["deployNodeAgent"] is True
        agent = rmd.daemon_set("rmd-node-agent")["spec"]["template"]["spec"]
        daemon = rmd.daemon_set()["spec"]["template"]["spec"]
        assert (agent["tolerations"], agent["nodeSelector"]) == (
            daemon["tolerations"],
            daemon["nodeSelector"],
        )
        [container] = agent["containers"]
        [tmp, mount] = container["volumeMounts"]
        [_tmp, volume] = agent["volumes"]
        assert tmp["mountPath"] == "/tmp"
        assert volume["hostPath"]["path"] == folder
        assert (mount["mountPath"], mount["readOnly"]) == (f"/host{folder}", True)
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        # The socket belongs to root, control groups are for everybody to read.
        assert container["securityContext"].get("runAsUser") == (
            0 if source == "pod_resources" else None
        )
        name, interval, *options = container["args"]
        assert (ROOT / "operator" / "entrypoints" / name).is_file()
        assert interval == "60"
        assert options == [
            *("-e", f"rmd_cpuset_source={source}"),
            *("-e", f"rmd_terminate_refused_pods={str(ends_pods).lower()}"),
        ]


NOT_QUALIFIED = [
    "rmd",
    "rmd:latest",
    "intel/rmd:latest",
    "",
    "/rmd",
    "registry.example/",
    "a b.c/rmd",
]
QUALIFIED = ["localhost/rmd", "host:5000/rmd", "[::1]:5000/a/rmd@sha256:0"]
OWN_NAMESPACES = "Give each a namespace of its own"


def test_what_a_daemon_could_not_run_with_is_refused_before_anything_is_made(rmd: Rmd) -> None:
    node, label = rmd.nodes[0], {rmd.label: "true"}
    twice = [SKYLAKE, {**BROADWELL, "node_labels": {}}]
    sum_of_ways = (
        "default: os 1 + guaranteed 8 + best effort 3 + shared 1 = 13 ways, infra 0;"
        " the cache has 11"
    )
    agent = "wattwise/agent:1"
    cases: list[tuple[Object, str]] = [
        *(
            ({"rmd_image": image}, f"rmd_image: {json.dumps(image)} does not name a registry")
            for image in NOT_QUALIFIED
        ),
        # Images that are taken get as far as the next check.
        *(
            ({"rmd_image": image, "rmd_namespace": "default"}, OWN_NAMESPACES)
            for image in QUALIFIED
        ),
        ({"rmd_agent_image": agent}, f'rmd_agent_image: "{agent}" does not name a registry'),
        ({"rmd_namespace": "default"}, OWN_NAMESPACES),
        ({"rmd_authority_namespace": "default"}, OWN_NAMESPACES),
        ({"rmd_namespace": "same", "rmd_authority_namespace": "same"}, OWN_NAMESPACES),
        ({"rmd_layouts": [{**SKYLAKE, "guaranteed_ways": 8}]}, sum_of_ways),
        ({"rmd_layouts": [{**SKYLAKE, "infra_ways": 12}]}, "infra 12"),
        (
            {"rmd_tls": False, "rmd_labelled_nodes": ["nowhere"]},
            "the cluster has no node nowhere; correct the name",
        ),
        (
            {"rmd_layouts": twice, "rmd_node_labels": label, "rmd_labelled_nodes": [node]},
            f"{node} would get more than one daemon",
        ),
    ]
    hosts = {f"case-{number}": given for number, (given, _words) in enumerate(cases)}
    run = rmd.play_many(hosts)
    assert run.returncode != 0
    refused = run.failures()
    for name, (_given, words) in zip(hosts, cases, strict=True):
        assert words in refused[name], name
    assert (rmd.labels(node), rmd.daemon_sets()) == ({}, [])
    assert rmd.kube.find("/api/v1/nodes/nowhere") is None
    assert rmd.kube.find(f"/api/v1/namespaces/{rmd.namespace}/configmaps/wattwise-rmd") is None


def test_teardown_takes_back_labels_keys_and_policies(rmd: Rmd) -> None:
    node = rmd.nodes[0]
    given: Object = {
        "rmd_node_labels": {rmd.label: "true"},
        "rmd_labelled_nodes": [node],
        "rmd_deployment": "pods",
        "rmd_agent_image": AGENT,
    }
    rmd.install(**given)
    assert len(rmd.labels(node)) == 3
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    assert [item for item in rmd.kube.list(policies) if "rmd-node" in item["metadata"]["name"]]
    check = rmd.play("--check", playbook="wattwise.kube.teardown", **given)
    assert check.returncode == 0, check.output
    assert len(rmd.labels(node)) == 3
    for changes in (True, False):
        run = rmd.play(playbook="wattwise.kube.teardown", **given)
        assert run.returncode == 0, run.output
        assert bool(run.stats()["here"]["changed"]) is changes
        assert rmd.labels(node) == {}
    for namespace in (rmd.namespace, f"{rmd.namespace}-authority"):
        assert rmd.kube.list(f"/api/v1/namespaces/{namespace}/secrets") == []
    for path in (policies, policies.replace("policies", "policybindings")):
        names = [item["metadata"]["name"] for item in rmd.kube.list(path)]
        assert not [name for name in names if name.startswith("rmd-node-agent")]
