# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PowerFleets on a real API server, reconciled without an operator."""

from __future__ import annotations

import json
import shutil
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    ApiError,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.reconciliation import (
    reconcile,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import (
    ALL,
    FLEET_ANNOTATION,
    RECONCILE_PERIOD,
    REQUESTED_AT,
    REQUESTED_FOR,
    RESOURCE_KIND,
    path_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.report import building
from support.kubectl_table import row
from support.playbook import run_playbook

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "roles" / "crds" / "files"
DEFINITION = FILES / "wattwise.github.io_powerfleets.yaml"
NODES = ("pf-a", "pf-b", "pf-c")
EVIL = "{{ lookup('pipe', 'id') }}"
Json = dict[str, t.Any]


@pytest.fixture(scope="module")
def definitions(kubeconfig: str) -> None:
    """The CRDs, established; they belong to the whole lab and stay."""
    files = [DEFINITION, FILES / "wao.bitmedia.co.jp_nodeconfigs.yaml"]
    files.append(FILES / "wao.bitmedia.co.jp_nodeconfigtemplates.yaml")
    apply({"kubeconfig": kubeconfig, "src": [str(path) for path in files], "wait": True})


@pytest.fixture
def nodes(kube: Kube, definitions: None) -> Iterator[tuple[str, ...]]:
    """Three nodes that only this test selects, without machines, and no other fleet."""
    delete_fleets(kube)
    for index, name in enumerate(NODES):
        labels = {"pf": "yes", "pf-number": str(index), "kubernetes.io/hostname": name}
        kube.request(
            "POST", "/api/v1/nodes", {"kind": "Node", "metadata": {"name": name, "labels": labels}}
        )
        status = {
            "capacity": {"cpu": "8", "memory": "16Gi", "pods": "20"},
            "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "20"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        kube.request(
            "PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, MERGE_CONTENT_TYPE
        )
    yield NODES
    delete_fleets(kube)
    for name in NODES:
        kube.request("DELETE", f"/api/v1/nodes/{name}")


def delete_fleets(kube: Kube) -> None:
    for fleet in kube.list(ALL):
        kube.request("DELETE", path_of(fleet["metadata"]["namespace"], fleet["metadata"]["name"]))


def create(kube: Kube, namespace: str, name: str = "fleet", **spec: t.Any) -> Json:
    """A PowerFleet, created as by kubectl."""
    spec.setdefault("nodeSelector", {"matchLabels": {"pf": "yes"}})
    spec.setdefault("placement", {}).setdefault("schedulerName", f"s-{namespace}")
    body = {
        "apiVersion": "wattwise.github.io/v1alpha1",
        "kind": "PowerFleet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
    path = path_of(namespace, name).rpartition("/")[0]
    return kube.request("POST", path, body, query={"fieldValidation": "Strict"})


def create_pod(kube: Kube, namespace: str, name: str, fleet: str | None = None) -> None:
    annotations = {} if fleet is None else {FLEET_ANNOTATION: fleet}
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    body = {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "schedulerName": f"s-{namespace}",
            "containers": [container],
            # The node lifecycle controller taints nodes without a kubelet.
            "tolerations": [{"operator": "Exists"}],
        },
    }
    kube.request("POST", f"/api/v1/namespaces/{namespace}/pods", body)


def place_of(kube: Kube, namespace: str, name: str) -> str | None:
    pod = kube.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    return t.cast("str | None", pod["spec"].get("nodeName"))


class Runs:
    """Reconciles fleets of one namespace, each with a folder of its own."""

    def __init__(self, kubeconfig: str, namespace: str, folder: Path) -> None:
        self.kubeconfig, self.namespace, self.folder = kubeconfig, namespace, folder
        self.warnings: list[str] = []

    def __call__(self, name: str = "fleet", check_mode: bool = False, **options: t.Any) -> Json:
        given = {
            "kubeconfig": self.kubeconfig,
            "namespace": self.namespace,
            "name": name,
            "run_dir": str(self.folder / name),
            **options,
        }
        return reconcile(given, Context(check_mode=check_mode, warn=self.warnings.append))


@pytest.fixture
def runs(kubeconfig: str, namespace: str, tmp_path: Path) -> Runs:
    return Runs(kubeconfig, namespace, tmp_path)


def conditions(obj: Json) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in obj["status"]["conditions"]}


def annotate(kube: Kube, namespace: str, name: str, **annotations: str) -> None:
    body = {"metadata": {"annotations": annotations}}
    kube.request("PATCH", path_of(namespace, name), body, MERGE_CONTENT_TYPE)


@pytest.mark.usefixtures("definitions")
def test_the_api_server_fills_in_every_default(kube: Kube, namespace: str) -> None:
    spec = create(kube, namespace)["spec"]
    assert spec["interval"] == "60s" and spec["suspend"] is False
    assert spec["observe"]["gather"] == ["inlet", "power"]
    assert spec["placement"]["strategy"] == "optimal"
    assert spec["devices"] == {
        "enabled": False,
        "apiGroup": "resource.k8s.io",
        "gate": "wattwise.github.io/devices",
        "strategy": "optimal",
        "timeLimitSeconds": 10,
        "seed": 0,
    }
    assert spec["report"] == spec["nodeConfigs"] == {"enabled": False}


REFUSED: dict[str, tuple[Json, str]] = {
    "an unknown key": ({"intervall": "60s"}, "intervall"),
    "an unknown key below": ({"placement": {"strategi": "greedy"}}, "strategi"),
    "a password": ({"observe": {"password": "x"}}, "password"),
    "an interval that is too short": ({"interval": "14s"}, "from 15s to 24h"),
    "an interval that is none": ({"interval": "soon"}, "spec.interval"),
    "a strategy that is none": ({"placement": {"strategy": "best"}}, "spec.placement.strategy"),
    "a share above 1": ({"observe": {"minSuccess": 2}}, "spec.observe.minSuccess"),
    "no value for In": (
        {"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        "In and NotIn need values",
    ),
    "a relative path": ({"observe": {"caPath": "ca.pem"}}, "spec.observe.caPath"),
}


@pytest.mark.usefixtures("definitions")
@pytest.mark.parametrize("case", REFUSED)
def test_what_no_run_could_take_is_refused(kube: Kube, namespace: str, case: str) -> None:
    spec, words = REFUSED[case]
    with pytest.raises(ApiError) as refusal:
        create(kube, namespace, **spec)
    assert words in str(refusal.value)


@pytest.mark.usefixtures("nodes")
def test_a_run_places_its_pods_and_the_next_one_writes_nothing(
    kube: Kube, namespace: str, kubeconfig: str, runs: Runs
) -> None:
    create(kube, namespace)
    create_pod(kube, namespace, "waits")
    checked = runs(check_mode=True)
    assert checked["changed"] and "status" not in kube.get(path_of(namespace, "fleet"))
    first = runs()
    assert (first["trigger"], first["found"], first["status_written"]) == ("start", True, True)
    assert place_of(kube, namespace, "waits") in NODES, first["status"]
    stored = kube.get(path_of(namespace, "fleet"))
    assert "annotations" not in stored["metadata"]
    assert conditions(stored) == {
        "Observed": ("False", "NoNodeConfigs"),
        "Placed": ("True", "NoPodLeft"),
        "Ready": ("True", "Reconciled"),
    }
    assert stored["status"]["nodes"]["selected"] == 3
    assert stored["status"]["pods"] == {"waiting": 0, "bound": 1, "unplaced": 0}
    shown = row(kubeconfig, path_of(namespace, "fleet").rpartition("/")[0])
    assert shown[:2] == ["True", 3] and shown[3] == 0
    second = runs()
    assert (second["changed"], second["status_written"]) == (False, False)
    again = kube.get(path_of(namespace, "fleet"))
    assert again["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    assert runs(heartbeat_seconds=0.0)["status_written"]
    beaten = kube.get(path_of(namespace, "fleet"))
    assert beaten["status"]["lastRun"]["trigger"] == "interval"
    assert conditions(beaten) == conditions(stored)


@pytest.mark.usefixtures("nodes")
def test_a_request_is_served_once_and_a_new_spec_makes_a_whole_run(
    kube: Kube, namespace: str, runs: Runs
) -> None:
    create(kube, namespace)
    runs()
    asked = {REQUESTED_AT: "2026-01-01T00:00:00Z", REQUESTED_FOR: "pods"}
    annotate(kube, namespace, "fleet", **asked)
    create_pod(kube, namespace, "late")
    assert runs()["trigger"] == "pods"
    assert place_of(kube, namespace, "late") in NODES
    assert runs()["trigger"] == "interval"
    body = {"spec": {"interval": "2m"}}
    kube.request("PATCH", path_of(namespace, "fleet"), body, MERGE_CONTENT_TYPE)
    assert runs()["trigger"] == "spec"
    stored = kube.get(path_of(namespace, "fleet"))
    assert stored["metadata"]["annotations"][RECONCILE_PERIOD] == "2m"
    assert stored["status"]["observedGeneration"] == stored["metadata"]["generation"] == 2


@pytest.mark.usefixtures("nodes")
def test_an_error_beside_the_steps_is_told_in_the_status_once(
    kube: Kube, namespace: str, runs: Runs, tmp_path: Path
) -> None:
    create(kube, namespace, suspend=True)
    (tmp_path / "file").touch()
    told = runs(run_dir=str(tmp_path / "file"))
    assert not told["ready"] and told["status_written"] and "file" in told["failure"]
    stored = kube.get(path_of(namespace, "fleet"))
    assert conditions(stored)["Ready"] == ("False", "ReconcileError")
    assert "finalizers" not in stored["metadata"]
    assert not runs(run_dir=str(tmp_path / "file"))["status_written"]
    events = kube.list(f"/api/v1/namespaces/{namespace}/events")
    assert [one["reason"] for one in events] == ["ReconcileError"]
    assert runs()["status_written"]


@pytest.mark.usefixtures("nodes")
def test_a_fleet_has_the_finalizer_only_while_its_machines_may_sleep(
    kube: Kube, namespace: str, runs: Runs
) -> None:
    path = path_of(namespace, "fleet")

    def finalizers(mode: str) -> list[str]:
        """Those after a run with the mode, and after a second one that writes nothing."""
        spec = {"spec": {"sleep": {"mode": mode}}}
        kube.request("PATCH", path, spec, MERGE_CONTENT_TYPE)
        runs()
        stored = kube.get(path)["metadata"]
        assert not runs()["changed"]
        assert kube.get(path)["metadata"]["resourceVersion"] == stored["resourceVersion"]
        return list(stored.get("finalizers", []))

    create(kube, namespace)
    assert finalizers("dry_run") == []
    assert finalizers("on") == [RESOURCE_KIND.finalizer]
    assert finalizers("off") == []
    assert finalizers("on") == [RESOURCE_KIND.finalizer]
    kube.request("DELETE", path)
    assert runs(check_mode=True)["changed"] and kube.find(path) is not None
    assert runs()["found"] and kube.find(path) is None
    assert runs()["found"] is False


@pytest.mark.usefixtures("nodes")
def test_a_deleted_fleet_stays_while_a_run_cannot_wake_its_machines(
    kube: Kube, namespace: str, runs: Runs, tmp_path: Path
) -> None:
    create(kube, namespace, sleep={"mode": "on"})
    runs()
    kube.request("DELETE", path_of(namespace, "fleet"))
    (tmp_path / "file").touch()
    blocked = str(tmp_path / "file")
    told = runs(run_dir=blocked)
    stored = kube.get(path_of(namespace, "fleet"))
    assert conditions(stored)["Ready"] == ("False", "MachinesNotWoken")
    assert blocked in told["failure"]
    assert stored["metadata"]["finalizers"] == [RESOURCE_KIND.finalizer]
    with pytest.raises(WattwiseError, match=blocked):
        runs(on_error="fail", run_dir=blocked)
    assert runs()["found"] and kube.find(path_of(namespace, "fleet")) is None


def test_a_lost_folder_gets_its_own_fleets_last_binding_back(
    kube: Kube, namespace: str, runs: Runs, nodes: tuple[str, ...]
) -> None:
    records = f"/api/v1/namespaces/{namespace}/configmaps"
    for number, name in enumerate(("one", "two")):
        only = {"matchLabels": {"pf-number": str(number)}}
        create(kube, namespace, name, nodeSelector=only)
        create_pod(kube, namespace, f"pod-{name}", f"{namespace}/{name}")
        assert runs(name, record_namespaces=[namespace])["summary"]["bound"] == 1
    owners = [one["metadata"].get("ownerReferences", []) for one in kube.list(records)]
    kept = sorted(owner[0]["name"] for owner in owners if owner)
    assert kept == ["one", "two"] and runs.warnings == []
    shutil.rmtree(runs.folder)
    for name in kept:
        assert runs(name, record_namespaces=[namespace])["changed"] is False
        bound = (runs.folder / name / "bound" / "bindings.json").read_text()
        assert [pod["pod"] for pod in json.loads(bound)["bound"]] == [f"pod-{name}"]
    report = building.write({"run_dir": str(runs.folder / "two")})
    assert "1 pod" in report["lines"][0]


def test_of_two_fleets_the_older_has_the_nodes_that_both_select(
    kube: Kube, namespace: str, runs: Runs, nodes: tuple[str, ...]
) -> None:
    only = {"matchLabels": {"pf-number": "2"}}
    create(kube, namespace, "a-old", nodeSelector=only)
    create(kube, namespace, "b-young")
    create_pod(kube, namespace, "any")
    create_pod(kube, namespace, "named", f"{namespace}/b-young")
    create_pod(kube, namespace, "stray", "nowhere/nothing")
    old, young = runs("a-old"), runs("b-young")
    assert old["status"]["nodes"] == {
        "selected": 1,
        "claimedByOlder": 0,
        "claimedFromYounger": 1,
        "read": 0,
        "failing": 0,
    }
    assert young["status"]["nodes"]["selected"] == 2
    assert young["status"]["nodes"]["claimedByOlder"] == 1
    assert place_of(kube, namespace, "any") == nodes[2]
    assert place_of(kube, namespace, "named") in nodes[:2]
    assert place_of(kube, namespace, "stray") is None


@pytest.mark.usefixtures("nodes")
def test_a_fleet_without_nodes_reads_other_fleets_pods_only_while_its_own_wait(
    kube: Kube, namespace: str, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(kube, namespace, nodeSelector={"matchLabels": {"pf": "none"}})
    lists: list[str] = []
    real = Kube.list

    def recorded(kube: Kube, path: str, query: t.Any = None, *others: t.Any) -> list[t.Any]:
        lists.append(f"{path}?{(query or {}).get('fieldSelector', '')}")
        return real(kube, path, query, *others)

    monkeypatch.setattr(Kube, "list", recorded)
    alone = runs()
    pods = [one for one in lists if one.startswith("/api/v1/pods?")]
    assert [("spec.nodeName=," in one) for one in pods] == [True]
    assert not [one for one in lists if "replicasets" in one]
    assert conditions(alone)["Ready"] == ("False", "NoNodes")
    assert alone["status"]["pods"]["waiting"] == 0
    create_pod(kube, namespace, "waits", f"{namespace}/fleet")
    told = runs()
    assert told["status"]["pods"]["waiting"] == 1
    assert conditions(told)["Placed"][0] == "False"


@pytest.mark.usefixtures("nodes")
def test_a_suspended_fleet_writes_its_status_and_nothing_else(
    kube: Kube, namespace: str, runs: Runs
) -> None:
    create(kube, namespace, suspend=True)
    create_pod(kube, namespace, "waits")
    result = runs()
    assert (result["suspended"], result["ready"], "steps" in result) == (True, False, False)
    assert place_of(kube, namespace, "waits") is None
    stored = kube.get(path_of(namespace, "fleet"))
    assert conditions(stored) == {"Ready": ("False", "Suspended")}
    assert not runs()["status_written"]
    metrics = runs.folder / "fleet" / "metrics" / "run.prom"
    label = f'{{power_fleet="{namespace}/fleet"}}'
    assert f"wattwise_power_fleet_suspended{label} 1" in metrics.read_text().splitlines()
    body = {"spec": {"suspend": False}}
    kube.request("PATCH", path_of(namespace, "fleet"), body, MERGE_CONTENT_TYPE)
    assert runs()["ready"]
    assert place_of(kube, namespace, "waits") in NODES
    assert f"wattwise_power_fleet_suspended{label} 0" in metrics.read_text().splitlines()


@pytest.mark.usefixtures("nodes")
def test_a_fleet_that_is_deleted_meanwhile_or_made_anew_gets_no_status(
    kube: Kube, namespace: str, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runs() == {"changed": False, "found": False, "diff": []}
    create(kube, namespace)
    list_all = Kube.list

    def delete_first(kube: Kube, path: str, *arguments: t.Any, **options: t.Any) -> t.Any:
        if path == ALL:
            kube.request("DELETE", path_of(namespace, "fleet"))
            create(kube, namespace)
        return list_all(kube, path, *arguments, **options)

    monkeypatch.setattr(Kube, "list", delete_first)
    assert not runs()["status_written"]
    monkeypatch.undo()
    assert "status" not in kube.get(path_of(namespace, "fleet"))


@pytest.mark.usefixtures("nodes")
def test_what_another_writer_put_in_the_status_is_put_right(
    kube: Kube, namespace: str, runs: Runs
) -> None:
    create(kube, namespace)
    runs()
    foreign = {
        "type": "Billing",
        "status": "True",
        "reason": "Paid",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    stored = kube.get(path_of(namespace, "fleet"))
    stored["status"]["nodes"]["selected"] = 99
    stored["status"]["conditions"].append(foreign)
    kube.request("PUT", f"{path_of(namespace, 'fleet')}/status", stored)
    assert runs()["status_written"]
    repaired = kube.get(path_of(namespace, "fleet"))
    assert repaired["status"]["nodes"]["selected"] == 3
    assert conditions(repaired)["Billing"] == ("True", "Paid")
    assert not runs()["status_written"]


@pytest.mark.usefixtures("nodes")
def test_machines_that_do_not_answer_are_told_in_status_and_event(
    kube: Kube, namespace: str, runs: Runs
) -> None:
    create(kube, namespace, observe={"timeoutSeconds": 1})
    endpoint = {"type": "Redfish", "endpoint": "http://127.0.0.1:9"}
    config = {
        "apiVersion": "wao.bitmedia.co.jp/v1beta1",
        "kind": "NodeConfig",
        "metadata": {"name": "pf-a", "namespace": namespace},
        "spec": {
            "nodeName": "pf-a",
            "metricsCollector": {
                "inletTemp": endpoint,
                "deltaP": {"type": "Fake", "endpoint": ""},
            },
            "predictor": {},
        },
    }
    apply({"kubeconfig": runs.kubeconfig, "manifests": [config]})
    result = runs()
    status = kube.get(path_of(namespace, "fleet"))["status"]
    assert status["nodes"]["failing"] == 1 and status["nodes"]["read"] == 0
    [failing] = status["failing"]
    assert failing["node"] == "pf-a" and failing["message"].startswith("unreachable: ")
    assert result["ready"]
    assert conditions({"status": status})["Observed"] == ("True", "SomeMachinesFailing")
    events = kube.list(f"/api/v1/namespaces/{namespace}/events")
    told = {one["reason"]: one for one in events if one["involvedObject"]["name"] == "fleet"}
    assert "pf-a" in told["MachineLost"]["message"]
    node = kube.get("/api/v1/nodes/pf-a")["metadata"]["uid"]
    of_nodes = kube.list("/api/v1/namespaces/default/events")
    # The node controller reports the node too, at any time.
    [lost] = [
        one
        for one in of_nodes
        if one["involvedObject"].get("uid") == node
        and one["reportingComponent"] == "wattwise.github.io/power-fleet"
    ]
    assert (lost["reason"], lost["message"]) == ("MachineLost", failing["message"])
    assert not runs()["status_written"]
    kube.request(
        "PATCH",
        path_of(namespace, "fleet"),
        {"spec": {"observe": {"minSuccess": 1}}},
        MERGE_CONTENT_TYPE,
    )
    strict = runs()
    assert not strict["ready"] and strict["status"]["conditions"][0]["reason"] == "MergeFailed"


@pytest.mark.usefixtures("nodes")
def test_a_workload_that_is_refused_is_told_once(kube: Kube, namespace: str, runs: Runs) -> None:
    files = [str(path) for path in sorted(FILES.glob("intel.com_*.yaml"))]
    apply({"kubeconfig": runs.kubeconfig, "src": files, "wait": True})
    create(kube, namespace, rmd={"enabled": True})
    path = f"/apis/intel.com/v1alpha1/namespaces/{namespace}/rmdworkloads"
    spec = {"coreIds": ["1"], "cache": {"max": 2, "min": 2}, "nodes": ["pf-a"]}
    body = {"apiVersion": "intel.com/v1alpha1", "kind": "RmdWorkload", "spec": spec}
    kube.request("POST", path, {**body, "metadata": {"name": "ways"}})
    try:
        for _run in range(2):
            assert runs()["ready"], runs.warnings
        events = kube.list(f"/api/v1/namespaces/{namespace}/events")
        told = [one for one in events if one["reason"] == "WorkloadRefused"]
        assert {one["involvedObject"]["name"]: one["count"] for one in told} == {
            "ways": 1,
            "fleet": 1,
        }
        messages = [one["message"] for one in told]
        assert all("the node has no RMD daemon" in text for text in messages), messages
    finally:
        kube.request("DELETE", f"{path}/ways")


def texts(schema: Json, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every text in a schema; for an array or a map, the path of its contents."""
    if schema.get("type") == "string" and "enum" not in schema:
        yield path
    for name, member in schema.get("properties", {}).items():
        yield from texts(member, (*path, name))
    if "items" in schema:
        yield from texts(schema["items"], (*path, "[]"))
    if isinstance(schema.get("additionalProperties"), dict):
        yield from texts(schema["additionalProperties"], (*path, "{}"))


def spec_schema() -> Json:
    definition = yaml.safe_load(DEFINITION.read_text(encoding="utf-8"))
    [version] = definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return t.cast("Json", schema)


def with_text(path: tuple[str, ...]) -> t.Any:
    """A spec with the text at this path."""
    if not path:
        return EVIL
    name, rest = path[0], path[1:]
    if name == "[]":
        inner = with_text(rest)
        return [{"key": "a", "operator": "In", "values": ["b"], **inner} if rest else inner]
    return {EVIL if name == "{}" else name: with_text(rest)}


@pytest.mark.usefixtures("nodes")
def test_a_template_in_any_text_of_a_spec_is_refused_or_stays_text(
    kube: Kube, namespace: str, runs: Runs
) -> None:
    refused, taken = [], []
    for index, path in enumerate(texts(spec_schema())):
        spec = with_text(path)
        enabled = {"enabled": True}
        for part in ("devices", "placement"):
            if part in spec:
                spec[part].update(enabled)
        try:
            fleet = create(kube, namespace, f"evil-{index}", suspend=False, **spec)
        except ApiError:
            refused.append(path)
            continue
        taken.append(path)
        assert EVIL in str(fleet["spec"])
        result = runs(f"evil-{index}")
        assert "uid=" not in str(result), path
        stored = kube.get(path_of(namespace, f"evil-{index}"))
        assert stored["spec"] == fleet["spec"] and "uid=" not in str(stored["status"])
        kube.request("DELETE", path_of(namespace, f"evil-{index}"))
    assert ("placement", "modelOrigins", "[]") in taken
    assert ("placement", "devicePower") in taken
    assert ("interval",) in refused


@pytest.mark.usefixtures("nodes")
def test_templates_in_names_of_others_and_in_annotations_stay_text(
    kube: Kube, namespace: str, runs: Runs
) -> None:
    create(kube, namespace)
    asked = {REQUESTED_AT: EVIL, REQUESTED_FOR: EVIL, RECONCILE_PERIOD: EVIL}
    annotate(kube, namespace, "fleet", **asked)
    create_pod(kube, namespace, "evil", EVIL)
    result = runs()
    assert result["ready"] and "uid=" not in str(result)
    assert place_of(kube, namespace, "evil") is None
    stored = kube.get(path_of(namespace, "fleet"))
    assert stored["metadata"]["annotations"][RECONCILE_PERIOD] == "60s"


@pytest.mark.usefixtures("nodes")
def test_the_module_renders_nothing_of_a_spec(
    kube: Kube, namespace: str, kubeconfig: str, tmp_path: Path
) -> None:
    placement = {"devicePower": EVIL, "modelOrigins": [EVIL]}
    create(kube, namespace, placement=placement, nodeSelector={"matchLabels": {"pf": EVIL}})
    task = {
        "name": "Reconcile",
        "wattwise.kube.power_fleet_reconciliation": {
            "kubeconfig": kubeconfig,
            "namespace": namespace,
            "name": "fleet",
            "run_dir": str(tmp_path / "run"),
        },
        "register": "run",
    }
    show = {"name": "Show", "ansible.builtin.debug": {"var": "run"}}
    play = {"hosts": "localhost", "gather_facts": False, "tasks": [task, show]}
    made = run_playbook([play], tmp_path, as_json=True)
    assert made.returncode == 0, made.output
    assert "uid=" not in made.output
    [result] = made.results("Reconcile")
    assert (result["found"], result["ready"], result["trigger"]) == (True, False, "start")
    stored = kube.get(path_of(namespace, "fleet"))
    assert conditions(stored)["Ready"] == ("False", "PredictFailed")
    # A value that no step can use is reported unchanged.
    assert "lookup(" in stored["status"]["conditions"][-1]["message"]
