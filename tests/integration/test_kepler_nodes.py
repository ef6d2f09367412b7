# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Discovery pods annotate only their own Node, and node labels come and go, on an API server."""

from __future__ import annotations

import dataclasses
import functools
import json
import signal
import subprocess
import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.facts import NodeFacts, RaplZone
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.labels import (
    METER_LABEL,
    PROBE_FIELD_MANAGER,
    REASONS_ANNOTATION,
    SUPPORTED_LABEL,
    label_nodes,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.node.probe import read_facts
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.node_objects import (
    MAX_ANNOTATION_LENGTH,
    PROBE_ANNOTATION,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    APPLY_CONTENT_TYPE,
    MERGE_CONTENT_TYPE,
    Kube,
)
from lab.process import wait_until
from support.admission_policies import probe_manifests
from support.kepler_trees import TREES, grow
from support.playbook import environment as playbook_environment
from support.playbook import run_playbook

NODES = "/api/v1/nodes"
ENTRY_POINT = Path(__file__).resolve().parents[2] / "operator" / "entrypoints" / "kepler-probe"
ZONE = RaplZone("intel-rapl:0", "package-0", 262143328850, True)
METAL = NodeFacts(
    "host", "amd64", microarchitecture="icelake", virtualization="none", rapl_zones=(ZONE,)
)
HOSTILE = (
    "{",
    "[" * 5000,
    "x" * 70_000,
    '{"source": "host"}',
    json.dumps({**METAL.as_dict(), "rapl_zones": [{}] * 5000}),
    json.dumps({**METAL.as_dict(), "architecture": "arm64"}),
    json.dumps({**METAL.as_dict(), "microarchitecture": "a\nb"}),
    json.dumps({**METAL.as_dict(), "virtualization": "{{ lookup('pipe', 'id') }}"}),
)


def node(name: str, **spec: t.Any) -> MutableObject:
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}


@dataclasses.dataclass(frozen=True)
class Fleet:
    """Nodes of a test."""

    kube: Kube
    kubeconfig: str
    names: tuple[str, ...]

    def label(self, check: bool = False, **options: t.Any) -> MutableObject:
        given = {"kubeconfig": self.kubeconfig, "node_names": list(self.names), **options}
        return label_nodes(given, Context(check_mode=check))

    def annotate(self, index: int, content: str) -> None:
        body = {"metadata": {"annotations": {PROBE_ANNOTATION: content}}}
        path = f"{NODES}/{self.names[index]}"
        self.kube.request("PATCH", path, body, MERGE_CONTENT_TYPE)

    def labels(self, index: int) -> dict[str, str]:
        metadata = self.kube.get(f"{NODES}/{self.names[index]}")["metadata"]
        both = {**metadata.get("labels", {}), **metadata.get("annotations", {})}
        return {key: value for key, value in both.items() if "/kepler-" in key}


@pytest.fixture
def fleet(kube: Kube, kubeconfig: str, namespace: str) -> Iterator[Fleet]:
    names = tuple(f"{kind}-{namespace}" for kind in ("bad", "metal", "virtual"))
    for name, provider in zip(names, ("", "", "aws:///eu-west-1a/i-0"), strict=True):
        kube.request("POST", NODES, node(name, **({"providerID": provider} if provider else {})))
    # KWOK simulates the kubelet that describes the node.
    wait_until(
        lambda: all(
            kube.get(f"{NODES}/{name}")["status"]["nodeInfo"]["operatingSystem"] for name in names
        ),
        30.0,
        "the nodes to be described",
        interval=0.1,
    )
    yield Fleet(kube, kubeconfig, names)
    for name in names:
        kube.request("DELETE", f"{NODES}/{name}")


def test_verdicts_are_written_once_and_taken_back(fleet: Fleet) -> None:
    fleet.annotate(1, json.dumps(METAL.as_dict()))
    before = [fleet.labels(index) for index in range(3)]
    planned = fleet.label(check=True)
    assert planned["changed"] and [fleet.labels(index) for index in range(3)] == before
    written = fleet.label()
    assert written["diff"] == planned["diff"] != []
    assert fleet.labels(1) == {
        **before[1],
        SUPPORTED_LABEL: "true",
        METER_LABEL: "rapl",
        "wattwise.github.io/kepler-microarchitecture": "icelake",
        REASONS_ANNOTATION: "RAPL zones package-0 can be read",
    }
    virtual = fleet.labels(2)
    assert (virtual[SUPPORTED_LABEL], virtual[METER_LABEL]) == ("false", "none")
    assert virtual[REASONS_ANNOTATION].startswith("the node is a virtual machine (amazon), which")
    assert written["groups"] == [
        {"architecture": "amd64", "meter": "rapl", "nodes": [fleet.names[1]]}
    ]
    again = fleet.label()
    assert (again["changed"], again["diff"], again["errors"]) == (False, [], [])
    removed = fleet.label(state="absent")
    assert removed["changed"] and not fleet.label(state="absent")["changed"]
    # This test's annotation does not come from a discovery pod.
    assert [fleet.labels(index) for index in range(3)] == before


@pytest.mark.parametrize("content", HOSTILE)
def test_a_hostile_probe_leaves_its_own_node_out_and_no_other(fleet: Fleet, content: str) -> None:
    fleet.annotate(1, json.dumps(METAL.as_dict()))
    alone = {entry["name"]: entry for entry in fleet.label(check=True)["nodes"]}
    fleet.annotate(0, content)
    result = fleet.label()
    bad, *others = result["nodes"]
    assert others == [alone[name] for name in fleet.names[1:]]
    assert result["errors"] == []
    is_harmless = "lookup" in content
    assert (bad["supported"], len(result["findings"])) == (is_harmless, 0 if is_harmless else 1)


def test_results_of_modules_count_before_annotations_and_nodes_that_are_gone_are_told(
    fleet: Fleet,
) -> None:
    fleet.annotate(1, "{")
    gone = f"gone-{fleet.names[0]}"
    probes = {fleet.names[1]: METAL.as_dict(), fleet.names[0]: {"source": "?"}, gone: {}}
    result = fleet.label(check=True, probes=probes)
    supported = {entry["name"]: entry["supported"] for entry in result["nodes"]}
    assert supported == dict(zip(fleet.names, (False, True, False), strict=True))
    assert [finding["name"] for finding in result["findings"]] == [gone, fleet.names[0]]


def test_a_label_that_an_administrator_set_stays_until_it_is_taken_over(fleet: Fleet) -> None:
    manifest = node(fleet.names[2])
    manifest["metadata"]["labels"] = {METER_LABEL: "model"}
    apply({"kubeconfig": fleet.kubeconfig, "manifests": [manifest], "field_manager": "admin"})
    result = fleet.label()
    assert [error["name"] for error in result["errors"]] == [fleet.names[2]]
    assert fleet.labels(2) == {METER_LABEL: "model"}
    assert fleet.labels(1)[SUPPORTED_LABEL] == "false"
    assert fleet.label(force_conflicts=True)["errors"] == []
    assert fleet.labels(2)[METER_LABEL] == "none"


class Probe:
    """The discovery pod of one node, with its pod's token."""

    def __init__(self, fleet: Fleet, own: Kube, unbound: Kube, kubeconfig: Path) -> None:
        self.fleet, self.own, self.unbound = fleet, own, unbound
        self.kubeconfig = kubeconfig

    def annotate(self, index: int, content: str, dry: bool = False) -> bool:
        """As in the ``kepler_probe`` playbook."""
        name = self.fleet.names[index]
        body: MutableObject = {"apiVersion": "v1", "kind": "Node"}
        body["metadata"] = {"name": name, "annotations": {PROBE_ANNOTATION: content}}
        query: dict[str, str | int] = {"fieldManager": PROBE_FIELD_MANAGER}
        if dry:
            query["dryRun"] = "All"
        send = functools.partial(self.own.send, "PATCH", f"{NODES}/{name}", body)
        return allowed(functools.partial(send, APPLY_CONTENT_TYPE, query))

    def patch(self, index: int, body: MutableObject) -> bool:
        path = f"{NODES}/{self.fleet.names[index]}"
        return allowed(lambda: self.own.request("PATCH", path, body, MERGE_CONTENT_TYPE))


def allowed(ask: Callable[[], t.Any]) -> bool:
    """Whether the API accepts it; a refusing policy states its reason."""
    try:
        ask()
    except ApiError as error:
        assert error.status == 403 and "discovery pod" in str(error), error
        return False
    return True


@pytest.fixture
def probe(fleet: Fleet, namespace: str, tmp_path: Path) -> Iterator[Probe]:
    made = [manifest for manifest in probe_manifests(namespace) if manifest["kind"] != "DaemonSet"]
    kube = fleet.kube
    apply({"kubeconfig": fleet.kubeconfig, "manifests": made})
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe"},
        "spec": {
            "nodeName": fleet.names[0],
            "serviceAccountName": "kepler-probe",
            "containers": [{"name": "probe", "image": "probe"}],
        },
    }
    created = kube.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "probe"}
    bound = {**reference, "uid": created["metadata"]["uid"]}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/kepler-probe/token"
    clients: list[Kube] = []
    for index, spec in enumerate(({"boundObjectRef": bound}, {})):
        token = kube.request("POST", path, {"spec": spec})["status"]["token"]
        given = yaml.safe_load(Path(fleet.kubeconfig).read_text())
        for user in given["users"]:
            user["user"] = {"token": token}
        file = tmp_path / f"{index}.kubeconfig"
        file.write_text(yaml.safe_dump(given))
        clients.append(Kube.connect({"kubeconfig": str(file)}))
    own, unbound = clients
    found = Probe(fleet, own, unbound, tmp_path / "0.kubeconfig")
    wait_until(lambda: not found.annotate(1, "{}", dry=True), 60.0, "the policy")
    yield found
    apply({"kubeconfig": fleet.kubeconfig, "manifests": made, "state": "absent"})


def test_a_discovery_pod_annotates_its_own_node_alone_and_nothing_else(probe: Probe) -> None:
    facts = json.dumps(METAL.as_dict())
    assert probe.annotate(0, facts)
    assert probe.annotate(0, "x" * MAX_ANNOTATION_LENGTH)
    assert not probe.annotate(0, "x" * (MAX_ANNOTATION_LENGTH + 1))
    assert probe.annotate(0, facts)
    assert not probe.annotate(1, facts)
    for body in (
        {"metadata": {"labels": {SUPPORTED_LABEL: "true"}}},
        {"metadata": {"annotations": {REASONS_ANNOTATION: "mine"}}},
        {"metadata": {"annotations": {"other": "1", PROBE_ANNOTATION: facts}}},
        {"metadata": {"finalizers": ["example.org/stay"]}},
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
    ):
        assert not probe.patch(0, body), body
    # It also works with other managers' labels and annotations on the Node, which must be kept.
    assert probe.fleet.label()["errors"] == []
    assert probe.fleet.labels(0)[METER_LABEL] == "rapl"
    assert probe.annotate(0, facts.replace("icelake", "skylake"))
    assert not probe.patch(0, {"metadata": {"annotations": {REASONS_ANNOTATION: None}}})
    # Fields owned by both managers are removed by teardown.
    assert probe.fleet.label(state="absent")["changed"]
    assert [probe.fleet.labels(index) for index in range(3)] == [{}, {}, {}]


def test_a_token_without_a_node_annotates_none(probe: Probe) -> None:
    body = {"metadata": {"annotations": {PROBE_ANNOTATION: "{}"}}}
    path = f"{NODES}/{probe.fleet.names[0]}"
    ask = functools.partial(probe.unbound.request, "PATCH", path, body, MERGE_CONTENT_TYPE)
    assert not allowed(ask)


def test_the_entry_point_annotates_its_node_with_the_facts_of_its_host(
    probe: Probe, tmp_path: Path
) -> None:
    root = grow(TREES["intel"], tmp_path / "host")
    environment = playbook_environment(
        NODE_NAME=probe.fleet.names[0], K8S_AUTH_KUBECONFIG=str(probe.kubeconfig)
    )
    log = tmp_path / "log"
    with log.open("w") as output:
        program = subprocess.Popen(
            [str(ENTRY_POINT), "3600", "-e", f"kepler_probe_root={root}"],
            cwd=tmp_path,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: "PLAY RECAP" in log.read_text(), 120.0, "a reading")
        program.send_signal(signal.SIGTERM)
        assert program.wait(60) == 0, log.read_text()
    finally:
        program.kill()
        program.wait()
    judged = {entry["name"]: entry for entry in probe.fleet.label(check=True)["nodes"]}
    own = judged[probe.fleet.names[0]]
    assert (own["supported"], own["meter"], own["source"]) == (True, "rapl", "host"), (
        log.read_text()
    )
    assert NodeFacts.from_dict(own) == read_facts(root)


def test_the_role_labels_all_nodes_once_and_its_teardown_leaves_nothing(
    fleet: Fleet, namespace: str, tmp_path: Path
) -> None:
    """One play, for the cost of its start: the role, the role again, its teardown."""
    variables = {
        "kepler_namespace": namespace,
        "kepler_probe_image": "registry.example/wattwise:1",
        "kepler_probes": {fleet.names[1]: METAL.as_dict()},
    }
    role = {"name": "wattwise.kube.kepler"}
    tasks = [
        {"name": name, "ansible.builtin.include_role": {**role, "tasks_from": entry}}
        for name, entry in (("One", "main"), ("Two", "main"), ("Three", "teardown"))
    ]
    play = {"name": "p", "hosts": "localhost", "gather_facts": False, "vars": variables}
    kubeconfig = {"K8S_AUTH_KUBECONFIG": fleet.kubeconfig}
    run = run_playbook([{**play, "tasks": tasks}], tmp_path, as_json=True, **kubeconfig)
    assert run.returncode == 0, run.output
    for task in (
        "allows paths of the host",
        "to its own Node",
        "Run the discovery pods",
        "that Kepler has there",
    ):
        assert [result["changed"] for result in run.results(task)] == [True, False], task
    judged = {node["name"]: node for node in run.results("that Kepler has there")[0]["nodes"]}
    assert judged[fleet.names[1]]["meter"] == "rapl"
    for task in ("Remove the discovery pods", "Take back the labels and annotations of Nodes"):
        assert [result["changed"] for result in run.results(task)] == [True], task
    assert [fleet.labels(index) for index in range(3)] == [{}, {}, {}]
    left = fleet.kube.list("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies")
    assert "kepler-probe" not in {item["metadata"]["name"] for item in left}
