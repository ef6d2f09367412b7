# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The continuous mode as a whole: the real ansible-operator, the watcher and the metrics endpoint.

The operator watches PowerFleets and KeplerSystems according to overlay full, and a stand-in kind
with short runs, which shows ansible-operator's own behaviour.
"""

from __future__ import annotations

import datetime
import json
import signal
import sys
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import path_of
from lab import bare_metal, operator, workload
from lab.api import Api
from lab.machines import build_machines
from lab.operator import OperatorSettings, RunningOperator, writes
from lab.operator.installation import built
from lab.process import wait_until
from lab.state import LabSettings
from support import wao
from support.custom_resources import remove_ours
from support.lab import RunningLab, create_namespace
from support.operator_echo import DEFINITION, Echoes, write_watches
from support.promtool import lint

Json = dict[str, t.Any]

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "roles" / "crds" / "files"
DEFINITIONS = (
    "kepler.system.sustainable.computing.io_keplersystems.yaml",
    "kepler.system.sustainable.computing.io_kepleraddons.yaml",
    "bpa.akraino.org_provisionings.yaml",
    "wattwise.github.io_powerfleets.yaml",
    "wao.bitmedia.co.jp_nodeconfigs.yaml",
    "wao.bitmedia.co.jp_nodeconfigtemplates.yaml",
)
WAO = "/apis/wao.bitmedia.co.jp/v1beta1"
PERIOD = "ansible.sdk.operatorframework.io/reconcile-period"
# The promised latency for a thousand nodes.
MAX_SECONDS = 30.0
BURST = 200
UNCHANGED_RUNS = 2
HEARTBEAT_SECONDS = 300.0
LEASE_SECONDS = 4
ELECTION = (
    *("--leader-elect", "--leader-election-id=operator-test"),
    *(f"--leader-elect-lease-duration={LEASE_SECONDS}s", "--leader-elect-renew-deadline=3s"),
)


@pytest.fixture(scope="module")
def kube(lab: RunningLab) -> Kube:
    return Kube.connect({"kubeconfig": lab.kubeconfig})


@pytest.fixture(scope="module")
def api(lab: RunningLab) -> t.Iterator[Api]:
    with Api(lab.state.kubeconfig) as connected:
        yield connected


@pytest.fixture(scope="module")
def settings(
    lab: RunningLab, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> OperatorSettings:
    """Settings for these tests' operator."""
    api.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
    sources = [str(FILES / name) for name in DEFINITIONS]
    apply({"kubeconfig": lab.kubeconfig, "src": sources, "wait": True})
    full = ROOT / "operator" / "config" / "overlays" / "full" / "watches.yaml"
    ours = yaml.safe_load(full.read_text())
    for watch in ours:
        watch["playbook"] = str(ROOT / "operator" / watch["playbook"])
    watches = write_watches(tmp_path_factory.mktemp("operator"), ours)
    options = ("--max-concurrent-reconciles=1", "--ansible-verbosity=0")
    return OperatorSettings(watches, lab.state.kubeconfig, options)


@pytest.fixture(scope="module")
def running(lab: RunningLab, settings: OperatorSettings) -> t.Iterator[RunningOperator]:
    """The operator. A test that stops it starts it again."""
    started = operator.start(lab.state, settings, print)
    yield started
    started.stop()
    # Printed if a test has failed.
    sys.stdout.write(started.log[-20_000:])


@pytest.fixture(scope="module")
def metrics_port(lab: RunningLab, settings: OperatorSettings, running: RunningOperator) -> int:
    """The watcher and the metrics endpoint are running too."""
    return operator.start_beside(lab.state, settings, ROOT / "operator" / "entrypoints")


@pytest.fixture
def echoes(lab: RunningLab, api: Api, namespace: str) -> Echoes:
    return Echoes(api, namespace, operator.runs(lab.state))


class Fleet:
    """One PowerFleet, whose pods are in its namespace."""

    def __init__(
        self,
        kube: Kube,
        running: RunningOperator,
        namespace: str,
        name: str,
        spec: Json,
        annotations: Json | None = None,
    ) -> None:
        self.kube, self.running, self.namespace, self.name = kube, running, namespace, name
        self.path = path_of(namespace, name)
        placement = {"schedulerName": namespace}
        body = {
            "apiVersion": "wattwise.github.io/v1alpha1",
            "kind": "PowerFleet",
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
            # No run by interval helps the tests.
            "spec": {"interval": "10m", "placement": placement, **spec},
        }
        kube.request("POST", self.path.rpartition("/")[0], body)
        self.wait(lambda: "status" in self.stored(), "its first status")

    def stored(self) -> Json:
        return self.kube.get(self.path)

    def runs(self) -> int:
        """Number of its successful runs."""
        ended = '"msg":"Ansible-runner exited successfully"'
        name = f'"name":"{self.name}","namespace":"{self.namespace}"'
        return sum(ended in line and name in line for line in self.running.log.splitlines())

    def wait(self, condition: t.Callable[[], bool], what: str, timeout: float = 60.0) -> None:
        wait_until(condition, timeout, f"{what} of PowerFleet {self.name}", interval=0.2)

    def wait_for_run(self, number: int) -> None:
        self.wait(lambda: self.runs() >= number, f"run {number}")

    def wait_for_pod(self, name: str) -> None:
        """Wait until the pod has a node."""
        self.wait(lambda: self.node_of(name) is not None, f"the node of pod {name}")

    def node_of(self, pod: str) -> str | None:
        found = self.kube.get(f"/api/v1/namespaces/{self.namespace}/pods/{pod}")
        return t.cast("str | None", found["spec"].get("nodeName"))

    def create_pod(self, name: str, **annotations: str) -> None:
        requests = {"cpu": "100m", "memory": "64Mi"}
        container = {"name": "c", "image": "none", "resources": {"requests": requests}}
        body = {
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"schedulerName": self.namespace, "containers": [container]},
        }
        self.kube.request("POST", f"/api/v1/namespaces/{self.namespace}/pods", body)

    def waiting(self) -> int:
        query = {"fieldSelector": "spec.nodeName="}
        return len(self.kube.list(f"/api/v1/namespaces/{self.namespace}/pods", query))


@pytest.fixture(scope="module")
def fleet(kube: Kube, api: Api, running: RunningOperator, metrics_port: int) -> t.Iterator[Fleet]:
    """All nodes of the lab; one template, for nodes that come later.

    NodeConfigs of earlier tests name machines whose passwords this fleet does not have.
    """
    remove_ours(kube)
    namespace = "operator-test"
    create_namespace(api, namespace)
    template = wao.template("late")
    template["metadata"]["namespace"] = namespace
    template["spec"]["nodeSelector"] = {"matchLabels": {"late": "yes"}}
    kube.request("POST", f"{WAO}/namespaces/{namespace}/nodeconfigtemplates", template)
    made = Fleet(kube, running, namespace, "fleet", {"nodeConfigs": {"enabled": True}})
    # The module requests its period, which is one more run.
    made.wait_for_run(2)
    yield made
    kube.request("DELETE", made.path)
    api.request("DELETE", f"/api/v1/namespaces/{namespace}")


def template_that_touches(path: Path) -> str:
    return f"{{{{ lookup('ansible.builtin.pipe', 'touch {path}') }}}}"


def test_pods_are_bound_after_an_event_and_many_at_once_cost_few_runs(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    touched = tmp_path / "touched"
    seconds = []
    for name in ("one", "two"):
        began = time.monotonic()
        fleet.create_pod(name, note=template_that_touches(touched))
        fleet.wait_for_pod(name)
        seconds.append(time.monotonic() - began)
    runs = fleet.runs()
    began = time.monotonic()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: fleet.create_pod(f"burst-{number}"), range(BURST)))
    fleet.wait(lambda: fleet.waiting() == 0, "all pods bound")
    burst = time.monotonic() - began
    cost = fleet.runs() - runs
    with capsys.disabled():
        sys.stdout.write(
            f"\npod to node: {seconds[0]:.1f} s, {seconds[1]:.1f} s;"
            f" {BURST} pods: {burst:.1f} s, {cost} runs\n"
        )
    assert max(seconds) < MAX_SECONDS
    assert cost <= 5
    assert not touched.exists()


def test_a_new_node_gets_its_node_config(
    fleet: Fleet, kube: Kube, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    touched = tmp_path / "touched"
    annotations = {"kwok.x-k8s.io/node": "fake", "note": template_that_touches(touched)}
    metadata = {"name": "late-node", "labels": {"late": "yes"}, "annotations": annotations}
    configs = f"{WAO}/namespaces/{fleet.namespace}/nodeconfigs"
    began = time.monotonic()
    kube.request("POST", "/api/v1/nodes", {"kind": "Node", "metadata": metadata})
    try:
        fleet.wait(
            lambda: [one["spec"]["nodeName"] for one in kube.list(configs)] == ["late-node"],
            "the NodeConfig of the new node",
        )
        with capsys.disabled():
            sys.stdout.write(f"\nnode to NodeConfig: {time.monotonic() - began:.1f} s\n")
    finally:
        kube.request("DELETE", "/api/v1/nodes/late-node")
    assert not touched.exists()


@pytest.mark.usefixtures("metrics_port")
def test_a_deleted_fleet_that_lets_machines_sleep_goes_after_a_run_of_the_watcher(
    kube: Kube, running: RunningOperator, namespace: str
) -> None:
    """ansible-operator skips it; no machine of this one sleeps."""
    nowhere = {"matchLabels": {"none": "such"}}
    spec = {"nodeSelector": nowhere, "sleep": {"mode": "on"}}
    made = Fleet(kube, running, namespace, "sleeps", spec)
    made.wait(lambda: "finalizers" in made.stored()["metadata"], "the finalizer")
    kube.request("DELETE", made.path)
    made.wait(lambda: kube.find(made.path) is None, "the end")


def test_texts_of_a_fleet_are_text_and_names_of_variables_are_no_variables(
    kube: Kube, running: RunningOperator, lab: RunningLab, namespace: str, tmp_path: Path
) -> None:
    touched = tmp_path / "touched"
    text = f"/{template_that_touches(touched)}"
    spec = {
        "nodeSelector": {"matchLabels": {"none": "such"}},
        "observe": {"caPath": text},
        "ansible_connection": "no.such.connection",
        "run_dir": "/elsewhere",
    }
    fleet = Fleet(kube, running, namespace, "texts", spec, {PERIOD: "10m"})
    # The API server has dropped the fields unknown to the closed schema.
    assert fleet.stored()["spec"].keys().isdisjoint({"ansible_connection", "run_dir"})
    assert fleet.stored()["status"]["observedGeneration"] == 1
    assert not touched.exists()
    given = operator.artifacts(lab.state) / "v1alpha1" / "PowerFleet" / namespace / "texts"
    variables = json.loads((given / "env" / "extravars").read_text())
    assert variables["observe"]["caPath"] == {"__ansible_unsafe": text}
    assert variables["ansible_operator_meta"] == {"name": "texts", "namespace": namespace}
    kube.request("DELETE", fleet.path)


def test_a_kepler_system_is_carried_out_and_its_texts_are_text(
    kube: Kube, running: RunningOperator, namespace: str, tmp_path: Path
) -> None:
    touched = tmp_path / "touched"
    path = f"/apis/kepler.system.sustainable.computing.io/v1alpha1/namespaces/{namespace}"
    spec = {
        "image": {"repository": "registry.example/kepler"},
        "collector": {"additionalConfig": template_that_touches(touched)},
    }
    manifest = {
        "apiVersion": "kepler.system.sustainable.computing.io/v1alpha1",
        "kind": "KeplerSystem",
        "metadata": {"name": "kepler", "namespace": namespace},
        "spec": spec,
    }
    kube.request("POST", f"{path}/keplersystems", manifest)

    def told() -> list[Json]:
        status = kube.get(f"{path}/keplersystems/kepler").get("status") or {}
        return [each for each in status.get("conditions", []) if each["type"] == "Reconciled"]

    wait_until(lambda: bool(told()), 60.0, "the status of the KeplerSystem")
    assert (told()[0]["status"], told()[0]["reason"]) == ("False", "InvalidKeplerSystem")
    assert "collector.additionalConfig" in told()[0]["message"]
    # The cluster is unchanged: no label selects a node here.
    nowhere = {"nodeSelector": {"none": "such"}, "additionalConfig": "{}"}
    body = {"spec": {"collector": nowhere}}
    kube.request("PATCH", f"{path}/keplersystems/kepler", body, MERGE_CONTENT_TYPE)
    wait_until(lambda: told()[0]["reason"] == "NoSupportedNode", 60.0, "the next run")
    assert not touched.exists()
    kube.request("DELETE", f"{path}/keplersystems/kepler")


@pytest.mark.usefixtures("running")
def test_add_ons_of_kepler_are_carried_out(kube: Kube, namespace: str) -> None:
    """No machine is asked, so that only the status is written."""
    root = "/apis/kepler.system.sustainable.computing.io/v1alpha1"
    path = f"{root}/namespaces/{namespace}/kepleraddons"
    metadata = {"name": "kepler", "namespace": namespace}
    manifest = {"kind": "KeplerAddons", "metadata": metadata, "spec": {}}
    version = "kepler.system.sustainable.computing.io/v1alpha1"
    kube.request("POST", path, {"apiVersion": version, **manifest})
    try:
        assert wait_for_condition(kube, f"{path}/kepler", "Reconciled") == "True"
    finally:
        kube.request("DELETE", f"{path}/kepler")


@pytest.mark.usefixtures("running")
def test_hosts_of_a_provisioning_are_released_before_it_goes(kube: Kube, api: Api) -> None:
    workload.make_namespace(api, "bpa-system")
    settings = LabSettings(2, 1, 3, bare_metal_hosts=2)
    bare_metal.create(api, build_machines(settings.nodes, settings.racks, settings.seed), settings)
    path = "/apis/bpa.akraino.org/v1alpha1/namespaces/bpa-system/provisionings"
    hosts = bare_metal.COLLECTION
    metadata = {"name": "edge", "namespace": "bpa-system"}
    manifest = {"kind": "Provisioning", "metadata": metadata, "spec": {"master": {"cpu": 1}}}
    kube.request("POST", path, {"apiVersion": "bpa.akraino.org/v1alpha1", **manifest})

    def reserved() -> list[str]:
        consumers = [host["spec"].get("consumerRef") or {} for host in kube.list(hosts)]
        return [each["name"] for each in consumers if each.get("kind") == "Provisioning"]

    try:
        assert wait_for_condition(kube, f"{path}/edge", "Assigned") == "True"
        assert reserved() == ["edge"]
        assert kube.get(f"{path}/edge")["metadata"]["finalizers"] == ["bpa.akraino.org/release"]
        kube.request("DELETE", f"{path}/edge")
        wait_until(lambda: kube.find(f"{path}/edge") is None, 60.0, "the Provisioning to be gone")
        assert reserved() == []
    finally:
        bare_metal.delete(api)


def wait_for_condition(kube: Kube, path: str, name: str) -> str:
    """The status of a condition after a run has written it."""

    def told() -> dict[str, str]:
        status = kube.get(path).get("status") or {}
        return {each["type"]: each["status"] for each in status.get("conditions", [])}

    wait_until(lambda: name in told(), 60.0, f"condition {name} of {path}")
    return told()[name]


def test_runs_of_an_unchanged_cluster_write_nothing(fleet: Fleet, kube: Kube, api: Api) -> None:
    # Earlier tests' namespaces that are still being deleted count as changes, too.
    wait_until(lambda: not terminating(kube), 120.0, "namespaces to be gone", interval=0.5)
    known = operator_idle(fleet)
    manifests = built("full")
    own = writes.key_of("powerfleets", "wattwise.github.io", fleet.namespace, fleet.name)
    for number in range(UNCHANGED_RUNS):
        body = {"metadata": {"annotations": {"test/number": str(number)}}}
        before = writes.stored(api, manifests)
        before[own] = kube.request("PATCH", fleet.path, body, MERGE_CONTENT_TYPE)
        fleet.wait_for_run(known + number + 1)
        found = writes.writes(before, writes.stored(api, manifests), HEARTBEAT_SECONDS)
        assert [one for one in found if not one.is_heartbeat] == []


def terminating(kube: Kube) -> list[str]:
    """Namespaces that are being deleted."""
    return [
        item["metadata"]["name"]
        for item in kube.list("/api/v1/namespaces")
        if item["metadata"].get("deletionTimestamp")
    ]


def operator_idle(fleet: Fleet) -> int:
    """The number of runs of a fleet when no more is queued: its status triggers none."""
    seen = [-1]

    def is_idle() -> bool:
        seen.append(fleet.runs())
        return fleet.running.is_idle and seen[-1] == seen[-2]

    wait_until(is_idle, 60, "an idle operator", interval=0.5)
    return seen[-1]


def test_what_the_runs_measured_is_served_as_prometheus_wants_it(
    fleet: Fleet, metrics_port: int
) -> None:
    served = operator.get(metrics_port, "/metrics")
    assert lint(served) == ""
    series = f'wattwise_power_fleet_last_run_failed{{power_fleet="{fleet.namespace}/fleet"}} 0'
    assert series in served.splitlines()


def test_a_run_begins_each_period_and_after_a_change_of_annotations(
    running: RunningOperator, echoes: Echoes, tmp_path: Path
) -> None:
    touched = tmp_path / "touched"
    text = template_that_touches(touched)
    echoes.create("often", {"text": text}, **{PERIOD: "1s"})
    echoes.create("seldom", {}, **{PERIOD: "10m"})
    assert echoes.seen("often")["text"] == text
    echoes.wait("often", runs=2)
    echoes.delete("often")
    assert echoes.begun("seldom") == 1
    echoes.annotate("seldom", "test/any", "thing")
    echoes.wait("seldom", runs=2)
    assert not touched.exists()


# test_operator_robustness.py always kills an operator during a run on a cluster.
@pytest.mark.slow
def test_a_run_that_is_killed_with_the_operator_is_made_again_when_it_restarts(
    lab: RunningLab, settings: OperatorSettings, running: RunningOperator, echoes: Echoes
) -> None:
    echoes.create("killed", {"seconds": 3})
    echoes.wait("killed")
    running.signal(signal.SIGKILL)
    assert not echoes.has_ended("killed")
    assert not list(Path("/tmp").glob("ansibleoperator-*"))
    operator.start(lab.state, settings, print)
    echoes.seen("killed")
    assert echoes.begun("killed") == 2


def test_an_operator_that_is_told_to_end_lets_its_run_end(
    lab: RunningLab, settings: OperatorSettings, running: RunningOperator, echoes: Echoes
) -> None:
    echoes.create("graceful", {"seconds": 2})
    echoes.wait("graceful")
    running.signal(signal.SIGTERM)
    assert echoes.has_ended("graceful")
    operator.start(lab.state, settings, print)


def test_nothing_is_done_while_another_operator_leads(
    lab: RunningLab,
    settings: OperatorSettings,
    running: RunningOperator,
    api: Api,
    echoes: Echoes,
    namespace: str,
) -> None:
    running.stop()
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    lease: Json = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "operator-test"},
        "spec": {"holderIdentity": "another", "leaseDurationSeconds": LEASE_SECONDS},
    }

    def renew(method: str, path: str) -> Json:
        lease["spec"]["renewTime"] = datetime.datetime.now(datetime.UTC).isoformat()
        return api.request(method, path, lease)

    lease["metadata"] = renew("POST", leases)["metadata"]
    election = (*ELECTION, f"--leader-election-namespace={namespace}")
    options = (*settings.options, *election)
    operator.start(lab.state, replace(settings, options=options), print)
    echoes.create("led", {})
    for _renewal in range(3):
        lease["metadata"] = renew("PUT", f"{leases}/operator-test")["metadata"]
        # No condition shows that no run started: half of the Lease's time has to pass.
        time.sleep(LEASE_SECONDS / 2)
        assert echoes.begun("led") == 0
    echoes.wait("led")
    holder = api.request("GET", f"{leases}/operator-test")["spec"]["holderIdentity"]
    assert holder != "another"
    running.stop()
    operator.start(lab.state, settings, print)
