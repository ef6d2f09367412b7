# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ``rmd`` role on the lab's API server: its installation, refusals, changes and removal."""

from __future__ import annotations

import json
import tomllib
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.certificates import (
    keep_certificates,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.reconciliation import (
    FIELD_MANAGER,
    namespace_manifests,
)
from lab.api import Api
from lab.process import wait_until
from lab.rmd.daemon import Daemon
from lab.rmd.host import Configuration, Host
from support.lab import RunningLab, create_namespace
from support.playbook import PlaybookRun, run_playbook

AGENT = "registry.example/agent:1"
ROOT = Path(__file__).resolve().parents[2]
BROADWELL: MutableObject = {
    "name": "broadwell",
    "node_labels": {"node.kubernetes.io/instance-type": "r730"},
    "ways": 20,
    "guaranteed_ways": 10,
    "besteffort_ways": 7,
    "shared_ways": 2,
}
CERTIFICATES: MutableObject = {
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
ISSUER = {"name": "hall", "kind": "ClusterIssuer"}
SKYLAKE: MutableObject = {
    "name": "default", "ways": 11, "guaranteed_ways": 6, "besteffort_ways": 3, "shared_ways": 1,
}  # fmt: skip


class Rmd:
    """Runs of the playbook in a namespace of its own, and the objects that they left there."""

    def __init__(self, kube: Kube, kubeconfig: str, namespace: str, folder: Path) -> None:
        self.kube, self.kubeconfig = kube, kubeconfig
        self.namespace, self.folder = namespace, folder

    def play(
        self, *arguments: str, playbook: str = "wattwise.kube.rmd", **given: t.Any
    ) -> PlaybookRun:
        return self.play_many({"here": given}, *arguments, playbook=playbook)

    def play_many(
        self, cases: dict[str, MutableObject], *arguments: str, playbook: str = "wattwise.kube.rmd"
    ) -> PlaybookRun:
        """One run with a host per case, since separate runs would mostly spend time on starting
        Ansible.
        """
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
        """Run it; returns the number of changed tasks."""
        run = self.play(**given)
        assert run.returncode == 0, run.output
        return run.stats()["here"]["changed"]

    def keep_certificates(self) -> None:
        """The CA and certificates of another issuer, in a namespace of the test."""
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

    def daemon_set(self, name: str = "rmd") -> MutableObject:
        return self.kube.get(f"/apis/apps/v1/namespaces/{self.namespace}/daemonsets/{name}")

    def daemon_sets(self) -> list[str]:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/daemonsets"
        return sorted(item["metadata"]["name"] for item in self.kube.list(path))

    def environment(self, pod_spec: MutableObject) -> dict[str, str]:
        """Inputs of a daemon that restart it when they change."""
        return {item["name"]: item["value"] for item in pod_spec["containers"][0]["env"]}

    def pod_spec(self, daemon_set: str = "rmd") -> MutableObject:
        spec: MutableObject = self.daemon_set(daemon_set)["spec"]["template"]["spec"]
        return spec

    def pods(self) -> dict[str, MutableObject]:
        """The pods that the role itself created, by name, without those being deleted."""
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

    def file(self, name: str, daemon_set: str = "rmd") -> MutableObject:
        path = f"/api/v1/namespaces/{self.namespace}/configmaps/{daemon_set}-configuration"
        return tomllib.loads(self.kube.get(path)["data"][name])


@pytest.fixture(scope="module")
def definitions(lab: RunningLab) -> None:
    """The kinds of objects that the role stores."""
    files = [str(ROOT / "roles" / "crds" / "files" / "intel.com_rmdconfigs.yaml")]
    apply({"kubeconfig": lab.kubeconfig, "src": files, "wait": True})


@pytest.fixture
def rmd(
    definitions: None, kube: Kube, kubeconfig: str, namespace: str, tmp_path: Path
) -> Iterator[Rmd]:
    yield Rmd(kube, kubeconfig, namespace, tmp_path)
    if kube.find(f"/api/v1/namespaces/{namespace}-authority") is not None:
        kube.request("DELETE", f"/api/v1/namespaces/{namespace}-authority")


class Story:
    """Cases of the role side by side, each a host with a namespace of its own.

    They share each run of the playbook, and each test asserts on its own case.
    """

    def __init__(self, kube: Kube, kubeconfig: str, folder: Path) -> None:
        self.folder = folder
        self.cases = {
            name: Rmd(kube, kubeconfig, f"rmd-role-{name}", folder)
            for name in ("default", "password", "issued", "plain")
        }

    def __getitem__(self, name: str) -> Rmd:
        return self.cases[name]

    def play(self, given: dict[str, MutableObject]) -> dict[str, int]:
        """One run with these cases; number of changed tasks of each."""
        hosts = {
            name: {
                **variables,
                "rmd_namespace": self[name].namespace,
                "rmd_authority_namespace": f"{self[name].namespace}-authority",
            }
            for name, variables in given.items()
        }
        run = self["default"].play_many(hosts)
        assert run.returncode == 0, run.output
        return {name: counts["changed"] for name, counts in run.stats().items()}

    def files(self, name: str) -> list[str]:
        """Names of the files that the role wrote for a client's certificate."""
        return sorted(path.name for path in (self.folder / "runs" / name / "rmd").iterdir())

    def given(self) -> dict[str, MutableObject]:
        models = [{"microarchitecture": "Skylake", "family": 6, "model": 106}]
        return {
            "default": {},
            "password": {"rmd_authentication": "password", "rmd_pam_service": "hall"},
            "issued": {"rmd_certificates": "cert_manager", "rmd_issuer": ISSUER},
            "plain": {
                "rmd_tls": False,
                "rmd_agent_image": AGENT,
                "rmd_cpuset_source": "cgroup",
                "rmd_layouts": [SKYLAKE, {**BROADWELL, "cpu_models": models}],
            },
        }


@pytest.fixture(scope="module")
def story(
    lab: RunningLab, definitions: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    """After the first run of all cases, with cert-manager's kind and Secrets simulated."""
    kube = Kube.connect({"kubeconfig": lab.kubeconfig})
    made = Story(kube, lab.kubeconfig, tmp_path_factory.mktemp("rmd-role"))
    apply({"kubeconfig": lab.kubeconfig, "manifests": [CERTIFICATES], "wait": True})
    with Api(lab.state.kubeconfig) as api:
        for case in made.cases.values():
            create_namespace(api, case.namespace)
    made["issued"].keep_certificates()
    changed = made.play(made.given())
    assert all(count > 0 for count in changed.values()), changed
    yield made
    apply({"kubeconfig": lab.kubeconfig, "manifests": [CERTIFICATES], "state": "absent"})
    for case in made.cases.values():
        for namespace in (case.namespace, f"{case.namespace}-authority"):
            if kube.find(f"/api/v1/namespaces/{namespace}") is not None:
                kube.request("DELETE", f"/api/v1/namespaces/{namespace}")


def test_check_mode_makes_nothing_and_works_before_there_is_a_namespace(rmd: Rmd) -> None:
    elsewhere = {"rmd_namespace": "not-there-yet", "rmd_agent_image": AGENT}
    run = rmd.play_many({"here": {}, "elsewhere": elsewhere}, "--check")
    assert run.returncode == 0, run.output
    assert rmd.daemon_sets() == []
    assert rmd.kube.find("/api/v1/namespaces/not-there-yet") is None


def test_the_default_is_one_daemon_set_with_tls(story: Story) -> None:
    rmd = story["default"]
    assert rmd.daemon_sets() == ["rmd"]
    assert story.files("default") == ["ca.pem", "cert.pem", "key.pem"]
    pod = rmd.pod_spec()
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


def test_certificates_of_cert_manager_are_asked_for_and_waited_for(story: Story) -> None:
    rmd = story["issued"]
    path = f"/apis/cert-manager.io/v1/namespaces/{rmd.namespace}/certificates"
    asked = {item["spec"]["secretName"]: item["spec"] for item in rmd.kube.list(path)}
    assert asked["rmd-server"]["dnsNames"] == ["rmd-nameserver"]
    assert asked["rmd-client"]["subject"] == {"organizationalUnits": ["Admin"]}
    for spec in asked.values():
        assert spec["issuerRef"] == ISSUER
        assert spec["privateKey"]["size"] == 3072
    assert story.files("issued") == ["ca.pem", "cert.pem", "key.pem"]


def test_passwords_take_the_place_of_client_certificates(story: Story) -> None:
    rmd = story["password"]
    configuration = rmd.boots(Host({0: (0, 1)}, ways=11, architecture="skylake"))
    assert (configuration.client_auth, configuration.debug) == ("no", False)
    assert rmd.file("rmd.toml")["pam"] == {"service": "hall"}
    volumes = rmd.pod_spec()["volumes"]
    assert "administrators" not in [volume["name"] for volume in volumes]


def test_without_tls_it_is_plain_http_and_no_certificate_is_made(story: Story) -> None:
    rmd = story["plain"]
    [container] = rmd.pod_spec()["containers"]
    assert container["args"][-1] == "-d"
    assert container["ports"][0]["containerPort"] == 8081
    assert rmd.file("rmd.toml")["debug"]["enabled"] is True
    assert rmd.kube.list(f"/api/v1/namespaces/{rmd.namespace}/secrets") == []


def test_role_rmd_workloads_leaves_the_labels_of_the_namespace(story: Story) -> None:
    rmd = story["plain"]
    path = f"/api/v1/namespaces/{rmd.namespace}"
    before = rmd.kube.get(path)["metadata"]["labels"]
    assert before["pod-security.kubernetes.io/enforce"] == "privileged"
    manifests = namespace_manifests({"namespace": rmd.namespace})
    given = {"manifests": manifests, "field_manager": FIELD_MANAGER}
    apply({"kubeconfig": rmd.kubeconfig, **given})
    assert rmd.kube.get(path)["metadata"]["labels"] == before


def test_a_further_run_changes_what_is_wanted_otherwise_and_nothing_else(story: Story) -> None:
    """One layout is removed with its objects; the node agent reads another folder."""
    default, plain = story["default"], story["plain"]
    assert plain.daemon_sets() == ["rmd", "rmd-broadwell", "rmd-node-agent"]
    assert_layout_is_broadwell(plain, "rmd-broadwell")
    assert_agent_reads(plain, "cgroup", "/sys/fs/cgroup", ends_pods=False)
    version = default.daemon_set()["metadata"]["resourceVersion"]
    given = story.given()
    given["plain"] |= {
        "rmd_layouts": [SKYLAKE],
        "rmd_prune_max": 1.0,
        "rmd_cpuset_source": "pod_resources",
        "rmd_terminate_refused_pods": True,
    }
    changed = story.play({name: given[name] for name in ("default", "plain")})
    assert changed["default"] == 0
    assert default.daemon_set()["metadata"]["resourceVersion"] == version
    assert plain.daemon_sets() == ["rmd", "rmd-node-agent"]
    assert_agent_reads(plain, "pod_resources", "/var/lib/kubelet/pod-resources", ends_pods=True)
    agent, daemon = (plain.pod_spec(name) for name in ("rmd-node-agent", "rmd"))
    assert agent["nodeSelector"] == daemon["nodeSelector"]


def test_another_certificate_alone_starts_the_daemons_anew(story: Story) -> None:
    """Either the role's own or one that cert-manager has renewed."""
    cases = {name: story[name] for name in ("default", "issued")}
    before = {name: rmd.environment(rmd.pod_spec()) for name, rmd in cases.items()}
    for rmd in cases.values():
        rmd.kube.request("DELETE", f"/api/v1/namespaces/{rmd.namespace}/secrets/rmd-server")
    cases["issued"].keep_certificates()
    given = story.given()
    story.play({name: given[name] for name in cases})
    for name, rmd in cases.items():
        after = rmd.environment(rmd.pod_spec())
        changed = {key for key, value in before[name].items() if after[key] != value}
        assert changed == {"WATTWISE_CERTIFICATE"}, name


def assert_layout_is_broadwell(rmd: Rmd, name: str) -> None:
    assert rmd.pod_spec(name)["nodeSelector"]["node.kubernetes.io/instance-type"] == "r730"
    assert rmd.file("rmd.toml", name)["CachePool"]["guarantee"] == 10
    assert rmd.file("cpu_map.toml", name) == {"Skylake": [{"family": 6, "model": 106}]}


def assert_agent_reads(rmd: Rmd, source: str, folder: str, ends_pods: bool) -> None:
    """The agent sees only its own inputs, and ends pods only if configured."""
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/rmd-node-agent"
    config = f"/apis/intel.com/v1alpha1/namespaces/{rmd.namespace}/rmdconfigs/rmdconfig"
    verbs = ["list", "delete"] if ends_pods else ["list"]
    assert rmd.kube.get(role)["rules"][0]["verbs"] == verbs
    assert rmd.kube.get(config)["spec"]["deployNodeAgent"] is True
    agent, daemon = rmd.pod_spec("rmd-node-agent"), rmd.pod_spec()
    assert agent["tolerations"] == daemon["tolerations"]
    [container] = agent["containers"]
    [tmp, mount] = container["volumeMounts"]
    [_tmp, volume] = agent["volumes"]
    assert tmp["mountPath"] == "/tmp"
    assert volume["hostPath"]["path"] == folder
    assert (mount["mountPath"], mount["readOnly"]) == (f"/host{folder}", True)
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    # The socket belongs to root; control groups are world-readable.
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


def test_pods_of_their_own_as_the_operator_had_them(rmd: Rmd) -> None:
    """From DaemonSets to pods and back; labels, files and nodes change meanwhile."""
    first, second = rmd.nodes[:2]
    path, merge = f"/api/v1/nodes/{second}", "application/merge-patch+json"
    of_the_operator = {"rmd-node": "cdaa1644"}
    rmd.kube.request("PATCH", path, {"metadata": {"labels": of_the_operator}}, merge)
    third = f"/api/v1/nodes/{rmd.nodes[2]}"
    rmd.kube.request("PATCH", third, {"metadata": {"labels": {rmd.label: "false"}}}, merge)
    labels = {"rmd_node_labels": {rmd.label: "true"}, "rmd_tls": False, "rmd_prune_max": 1.0}
    both: MutableObject = {**labels, "rmd_labelled_nodes": [first, second]}
    rmd.install(**both)
    marked = {rmd.label: "true", "wattwise.github.io/rmd": "labelled"}
    assert (rmd.labels(first), rmd.labels(second)) == (marked, marked | of_the_operator)
    assert rmd.pod_spec()["nodeSelector"] == {rmd.label: "true"}
    assert rmd.install(**labels, rmd_labelled_nodes=[second]) == 1
    assert (rmd.labels(first), rmd.labels(second)) == ({}, marked | of_the_operator)
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
    cases: list[tuple[MutableObject, str]] = [
        *(
            ({"rmd_image": image}, f"rmd_image: {json.dumps(image)} does not name a registry")
            for image in NOT_QUALIFIED
        ),
        # Accepted images get as far as the next check.
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
    given: MutableObject = {
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
