# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real ansible-operator under faults: in every case, the cluster ends in the desired state.

The operator and the watcher have the permissions of the full overlay. All tests share them, four
nodes whose BMCs a test can slow down, and one PowerFleet. A sample always runs, and the rest as
`slow`.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import re
import shutil
import signal
import sys
import threading
import typing as t
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import (
    RECONCILE_PERIOD,
    path_of,
)
from lab import operator, process
from lab.api import Api
from lab.operator import OperatorSettings, RunningOperator
from lab.operator.installation import NAMESPACE, built, namespaces_of, write_kubeconfig
from lab.process import wait_until
from support import wao
from support.cluster_nodes import make_node, remove
from support.custom_resources import remove_ours
from support.dockerfile import ROOT
from support.https_server import SHARED_CERTIFICATE, HttpsServer
from support.lab import RunningLab, create_namespace
from support.redfish_trees import one_server, temperature, thermal

Json = dict[str, t.Any]

FILES = ROOT / "roles" / "crds" / "files"
GROUPS = ("wao.bitmedia.co.jp", "intel.com", "wattwise.github.io")
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/wattwise-binding"
WAO = "/apis/wao.bitmedia.co.jp/v1beta1"
# Namespaces of the objects on which the fleet acts.
CONFIGS, WORK = "wao-system", "robust-work"
ACCOUNT = ("admin", "T0p-s3cret-of-the-bmc")
NODES = tuple(f"robust-{number}" for number in range(4))
BASE, FIRST = "base", "robust-first"
SCHEDULER = "robust"
BURST = 200
# The minimum of a spec: no test waits long for an interval's run.
INTERVAL = "15s"
SETTLED_SECONDS = 60.0
BLACK_BOX = "Observe and place"


class Cluster:
    """The cluster as its administrator sees it, with the desired state of the fleet ``hall``."""

    def __init__(self, lab: RunningLab, bmc: HttpsServer, settings: OperatorSettings) -> None:
        self.lab, self.bmc, self.settings = lab, bmc, settings
        self.kube = Kube.connect({"kubeconfig": lab.kubeconfig})
        self.running: RunningOperator | None = None
        self.nodes = set(NODES)
        self.templates: set[str] = set()
        self.pods: set[str] = set()
        self.asked = 0

    def start(self) -> None:
        """Start the operator; the watcher is another container and keeps running."""
        self.running = operator.start(self.lab.state, self.settings, print)

    def kill(self) -> None:
        """Kill the operator and all of its runs at once, as the kernel does when it is out of
        memory.
        """
        assert self.running is not None
        self.running.signal(signal.SIGKILL)

    @property
    def log(self) -> str:
        return "" if self.running is None else self.running.log

    def starts(self, fleet: str = "hall") -> int:
        """Number of started runs of a fleet, ended or not."""
        marks = (BLACK_BOX, "task start", f'"name":"{fleet}"')
        return sum(all(mark in line for mark in marks) for line in self.log.splitlines())

    def ask(self) -> None:
        """Request a run, as the interval would later."""
        self.asked += 1
        annotations = {"test/asked": str(self.asked)}
        patch(self.kube, path_of(NAMESPACE, "hall"), metadata={"annotations": annotations})

    def wait_for_start(self) -> None:
        """Wait until another run begins."""
        before = self.starts()
        self.ask()
        self.wait(lambda: self.starts() > before, "another run")

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, SETTLED_SECONDS, what, interval=0.05)

    def make_fleet(self, name: str, annotations: Json | None = None, **spec: t.Any) -> None:
        body = {
            "apiVersion": "wattwise.github.io/v1alpha1",
            "kind": "PowerFleet",
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
            "spec": spec,
        }
        self.kube.request("POST", path_of(NAMESPACE, name).rpartition("/")[0], body)

    def fleet(self, name: str = "hall") -> Json:
        return self.kube.get(path_of(NAMESPACE, name))

    def make_pods(self, *names: str, **annotations: str) -> None:
        def make(name: str) -> None:
            container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "10m"}}}
            spec = {
                "schedulerName": SCHEDULER,
                "containers": [container],
                "tolerations": [{"key": "test", "operator": "Exists"}],
            }
            body = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
            self.kube.request("POST", f"/api/v1/namespaces/{WORK}/pods", body)

        self.pods |= set(names)
        in_parallel(make, names)

    def delete_pods(self, *names: str) -> None:
        self.pods -= set(names)
        in_parallel(lambda name: remove(self.kube, f"/api/v1/namespaces/{WORK}/pods/{name}"), names)

    def make_templates(self, *names: str, inlet: Json | None = None) -> None:
        """Templates for the first node; the one that reads BMCs is for all nodes."""

        def make(name: str) -> None:
            template = wao.template(name, inlet)
            labels = {"test": WORK} if name == BASE else {FIRST: "yes"}
            template["spec"]["nodeSelector"] = {"matchLabels": labels}
            path = f"{WAO}/namespaces/{CONFIGS}/nodeconfigtemplates"
            self.kube.request("POST", path, template)

        self.templates |= set(names)
        in_parallel(make, names)

    def delete_templates(self, *names: str) -> None:
        self.templates -= set(names)
        path = f"{WAO}/namespaces/{CONFIGS}/nodeconfigtemplates"
        in_parallel(lambda name: remove(self.kube, f"{path}/{name}"), names)

    def make_node(self, name: str) -> None:
        self.nodes.add(name)
        make_node(self.kube, name, WORK, cpu="64", memory="64Gi", pods="110")
        if name == NODES[0]:
            patch(self.kube, f"/api/v1/nodes/{name}", metadata={"labels": {FIRST: "yes"}})

    def delete_node(self, name: str) -> None:
        self.nodes.discard(name)
        remove(self.kube, f"/api/v1/nodes/{name}")

    def configs(self) -> list[Json]:
        return self.kube.list(f"{WAO}/namespaces/{CONFIGS}/nodeconfigs")

    def bound(self) -> set[str]:
        found = self.kube.list(f"/api/v1/namespaces/{WORK}/pods")
        return {pod["metadata"]["name"] for pod in found if pod["spec"].get("nodeName")}

    def differences(self) -> list[str]:
        """Differences from the desired state, in words."""
        found = []
        if left := self.pods - self.bound():
            found.append(f"pods wait: {sorted(left)[:3]}")
        others = [(name, NODES[0]) for name in self.templates - {BASE}]
        wanted = sorted([*others, *((BASE, node) for node in self.nodes)])
        configs = self.configs()
        if sorted(map(origin, configs)) != wanted:
            found.append(f"{len(configs)} NodeConfigs in place of {len(wanted)}")
        inlets = [one["spec"]["metricsCollector"]["inletTemp"]["endpoint"] for one in configs]
        if not set(inlets) <= {"", self.bmc.endpoint}:
            found.append("a NodeConfig with another endpoint")
        fleet = self.fleet()
        status, generation = fleet.get("status", {}), fleet["metadata"]["generation"]
        ready = {one["type"]: one for one in status.get("conditions", [])}.get("Ready", {})
        if (ready.get("status"), ready.get("observedGeneration")) != ("True", generation):
            found.append(f"not ready: {ready}")
        if status.get("nodes", {}).get("selected") != len(self.nodes):
            found.append(f"nodes of the status: {status.get('nodes')}")
        if status.get("pods", {}).get("waiting") != 0:
            found.append(f"pods of the status: {status.get('pods')}")
        lease = self.kube.find(LEASE)
        if lease is not None and lease["spec"].get("holderIdentity"):
            found.append("the Lease is held")
        return found

    def clear(self) -> None:
        """Remove the leftovers of a failed test, for the next one."""
        self.delete_templates(*(self.templates - {BASE}))
        path = f"{WAO}/namespaces/{CONFIGS}/nodeconfigs"
        names = [config["metadata"]["name"] for config in self.configs()]
        in_parallel(lambda name: remove(self.kube, f"{path}/{name}"), names)

    def settle(self) -> None:
        """Wait for the desired state, which the next complete run must leave unchanged."""
        seen: list[list[str]] = [[]]

        def is_settled() -> bool:
            with contextlib.suppress(ApiError):
                seen.append(self.differences())
                return not seen[-1]
            return False

        try:
            wait_until(is_settled, SETTLED_SECONDS, "the desired state", interval=0.3)
        except Exception as error:
            raise AssertionError(f"{seen[-1]}: {error}") from error


def origin(config: Json) -> tuple[str, str]:
    """The template and the node of a NodeConfig, by its names."""
    node = config["spec"]["nodeName"]
    name: str = config["metadata"]["name"]
    return name.removesuffix(f"-{node}"), node


def in_parallel(work: Callable[[str], t.Any], names: t.Iterable[str]) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, names))


@pytest.fixture(scope="module")
def bmc() -> Iterator[HttpsServer]:
    with HttpsServer(one_server(thermal(temperature("Inlet", 22.0))), account=ACCOUNT) as server:
        yield server


@pytest.fixture(scope="module")
def permissions(lab: RunningLab) -> Iterator[None]:
    """All objects of the full overlay except the Deployment itself."""
    kube = Kube.connect({"kubeconfig": lab.kubeconfig})
    names = [str(path) for path in sorted(FILES.glob("*.yaml")) if path.name.startswith(GROUPS)]
    apply({"kubeconfig": lab.kubeconfig, "src": names, "wait": True})
    kept = {item["metadata"]["name"] for item in kube.list("/api/v1/namespaces")}
    items = built("full")
    namespaces = {NAMESPACE, WORK, *namespaces_of(items)} - kept
    assert namespaces >= {NAMESPACE, WORK}
    with Api(lab.state.kubeconfig) as api:
        for name in namespaces - {NAMESPACE}:
            create_namespace(api, name)
    given = [item for item in items if "Role" in item["kind"]]
    accounts = [item for item in items if item["kind"] in ("Namespace", "ServiceAccount")]
    apply({"kubeconfig": lab.kubeconfig, "manifests": [*accounts, *given]})
    yield
    apply({"kubeconfig": lab.kubeconfig, "manifests": given, "state": "absent"})
    for name in namespaces:
        kube.request("DELETE", f"/api/v1/namespaces/{name}")
    for name in namespaces:
        gone = functools.partial(kube.find, f"/api/v1/namespaces/{name}")
        wait_until(lambda gone=gone: gone() is None, 120.0, f"the end of {name}")  # type: ignore[misc]


@pytest.fixture(scope="module")
def settings(
    lab: RunningLab, permissions: None, tmp_path_factory: pytest.TempPathFactory
) -> OperatorSettings:
    """Settings of the operator: its account, and the watches of the image."""
    folder = tmp_path_factory.mktemp("robust")
    own = folder / "kubeconfig"
    write_kubeconfig(own, lab.state.kubeconfig)
    watches = yaml.safe_load((ROOT / "operator" / "watches.yaml").read_text())
    for watch in watches:
        watch["playbook"] = str(ROOT / "operator" / watch["playbook"])
    (folder / "watches.yaml").write_text(yaml.safe_dump(watches))
    options = ("--max-concurrent-reconciles=1", "--ansible-verbosity=0")
    environment = {"WATTWISE_RECORD_NAMESPACES": NAMESPACE}
    return OperatorSettings(folder / "watches.yaml", own, options, environment)


@pytest.fixture(scope="module")
def cluster(lab: RunningLab, bmc: HttpsServer, settings: OperatorSettings) -> Iterator[Cluster]:
    """With the fleet, its nodes, and the operator and the watcher at work."""
    made = Cluster(lab, bmc, settings)
    remove_ours(made.kube)
    in_parallel(made.make_node, NODES)
    pairs = zip(("username", "password"), ACCOUNT, strict=True)
    data = {key: base64.b64encode(text.encode()).decode() for key, text in pairs}
    secret = {"kind": "Secret", "metadata": {"name": "bmc"}, "data": data}
    made.kube.request("POST", f"/api/v1/namespaces/{CONFIGS}/secrets", secret)
    inlet = {"type": "Redfish", "endpoint": bmc.endpoint, "basicAuthSecret": {"name": "bmc"}}
    made.make_templates(BASE, inlet=inlet)
    made.make_fleet(
        "hall",
        interval=INTERVAL,
        nodeSelector={"matchLabels": {"test": WORK}},
        nodeConfigs={"enabled": True},
        rmd={"enabled": True, "minSuccess": 0},
        observe={"gather": ["inlet"], "tlsFingerprints": [SHARED_CERTIFICATE.fingerprint]},
        placement={"schedulerName": SCHEDULER},
    )
    made.start()
    operator.start_beside(lab.state, settings, ROOT / "operator" / "entrypoints")
    yield made
    assert made.running is not None
    made.running.stop()
    # Printed if a test has failed.
    sys.stdout.write(made.log[-20_000:])
    for name in tuple(made.nodes):
        made.delete_node(name)
    remove(made.kube, f"/api/v1/namespaces/{CONFIGS}/secrets/bmc")
    made.delete_templates(BASE)


@pytest.fixture(autouse=True)
def settled(cluster: Cluster) -> Iterator[None]:
    """Each test begins and ends in the desired state, without pods."""
    cluster.settle()
    yield
    cluster.bmc.delay_seconds = 0.0
    try:
        cluster.settle()
    except AssertionError:
        cluster.clear()
        raise
    finally:
        cluster.delete_pods(*tuple(cluster.pods))


def test_a_new_fleet_with_the_default_interval_costs_one_run(cluster: Cluster) -> None:
    nowhere = {"matchLabels": {"none": "such"}}
    cluster.make_fleet("alone", nodeSelector=nowhere, placement={"enabled": False})
    cluster.wait(lambda: "status" in cluster.fleet("alone"), "the first status")
    wait_until(lambda: is_idle(cluster), 60.0, "an idle operator", interval=0.1)
    assert cluster.starts("alone") == 1
    cluster.kube.request("DELETE", path_of(NAMESPACE, "alone"))


def is_idle(cluster: Cluster) -> bool:
    """Whether no run is active or about to start."""
    assert cluster.running is not None
    told = cluster.running.metrics()
    active = re.search(r"^controller_runtime_active_workers\{.*\} (\d+)", told, re.MULTILINE)
    queued = re.search(r"^workqueue_depth\{.*\} (\d+)", told, re.MULTILINE)
    assert active is not None and queued is not None
    return active[1] == queued[1] == "0"


# test_operator.py always has hundreds of pods at once.
@pytest.mark.slow
def test_hundreds_of_objects_at_once_cost_few_runs_and_go_in_the_middle_of_one(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"burst-{number}" for number in range(BURST)]
    before = cluster.starts()
    workloads = "/apis/intel.com/v1alpha1/namespaces/default/rmdworkloads"

    def ask(name: str) -> None:
        spec = {"coreIds": ["0"], "cache": {"max": 1, "min": 1}, "nodes": [NODES[0]]}
        body = {"apiVersion": "intel.com/v1alpha1", "kind": "RmdWorkload", "spec": spec}
        cluster.kube.request("POST", workloads, {**body, "metadata": {"name": name}})

    try:
        in_parallel(ask, names)
        cluster.make_templates(*names)
        cluster.make_pods(*names)
        cluster.settle()
        cost = cluster.starts() - before
        with capsys.disabled():
            sys.stdout.write(f"\n{3 * BURST} objects: {cost} runs\n")
        assert cost <= 5
        assert recorded(cluster) == [cluster.fleet()["metadata"]["uid"]]
        cluster.wait_for_start()
    finally:
        cluster.delete_templates(*names)
        cluster.delete_pods(*names)
        in_parallel(lambda name: remove(cluster.kube, f"{workloads}/{name}"), names)


def recorded(cluster: Cluster) -> list[str]:
    """The fleets with a record of their last binding, by uid."""
    records = cluster.kube.list(f"/api/v1/namespaces/{NAMESPACE}/configmaps")
    owners = [one["metadata"]["ownerReferences"] for one in records if "binaryData" in one]
    return [owner["uid"] for each in owners for owner in each]


def begun(cluster: Cluster) -> None:
    cluster.wait_for_start()


def reading(cluster: Cluster) -> None:
    cluster.bmc.delay_seconds = 1.0
    cluster.wait(lambda: cluster.bmc.seen.in_flight > 0, "a run that reads machines")


def planned(cluster: Cluster) -> None:
    plan = operator.runs(cluster.lab.state) / NAMESPACE / "hall" / "plan.json"
    before = plan.stat().st_mtime_ns
    cluster.wait(lambda: plan.stat().st_mtime_ns != before, "a new plan")


def binding(cluster: Cluster) -> None:
    cluster.wait(lambda: bool(cluster.bound()), "the first binding")


MOMENTS = (begun, reading, planned, binding)


# An operator that is killed while it binds leaves a Lease of 15 seconds.
@pytest.mark.parametrize(
    "moment", [begun, *(pytest.param(each, marks=pytest.mark.slow) for each in MOMENTS[1:])]
)
def test_a_killed_operator_goes_on_where_it_was(
    cluster: Cluster, moment: Callable[[Cluster], None]
) -> None:
    cluster.make_pods(*(f"pod-{number}" for number in range(100)))
    moment(cluster)
    cluster.kill()
    cluster.start()


@pytest.mark.slow
def test_a_lost_pod_takes_nothing_along_that_a_report_needs(cluster: Cluster) -> None:
    cluster.make_pods("bound-before")
    cluster.settle()
    cluster.kill()
    folder = operator.runs(cluster.lab.state) / NAMESPACE / "hall"
    shutil.rmtree(folder)
    cluster.start()
    bindings = folder / "bound" / "bindings.json"
    cluster.wait(bindings.exists, "the documents of the last binding")
    assert "bound-before" in bindings.read_text()


@pytest.mark.slow
def test_an_operator_that_is_killed_again_and_again_gets_done(cluster: Cluster) -> None:
    """More often than ansible-runner keeps artefacts of runs."""
    for number in range(12):
        cluster.make_pods(f"again-{number}")
        cluster.wait_for_start()
        cluster.kill()
        cluster.start()


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_api_server_that_restarts_is_found_again(
    cluster: Cluster, moment: Callable[[Cluster], None], restart_apiserver: Callable[[], None]
) -> None:
    cluster.make_pods(*(f"pod-{number}" for number in range(100)))
    moment(cluster)
    restart_apiserver()
    cluster.make_pods("later")


@pytest.mark.slow
def test_what_goes_while_it_is_reconciled_is_no_error(cluster: Cluster) -> None:
    names = [f"gone-{number}" for number in range(20)]
    cluster.make_fleet("brief", nodeSelector={"matchLabels": {"none": "such"}})
    cluster.make_pods(*names)
    reading(cluster)
    cluster.delete_pods(*names[:10])
    cluster.delete_node(NODES[3])
    cluster.kube.request("DELETE", path_of(NAMESPACE, "brief"))
    cluster.bmc.delay_seconds = 0.0
    cluster.settle()
    cluster.make_node(NODES[3])
    cluster.settle()
    assert cluster.kube.find(path_of(NAMESPACE, "brief")) is None


def test_another_writer_does_not_win(cluster: Cluster) -> None:
    stop = threading.Event()
    spoiled: list[int] = [0]

    def spoil() -> None:
        foreign = {"metricsCollector": {"inletTemp": {"endpoint": "https://elsewhere.example"}}}
        while not stop.wait(0.1):
            for config in cluster.configs():
                path = f"{WAO}/namespaces/{CONFIGS}/nodeconfigs/{config['metadata']['name']}"
                with contextlib.suppress(ApiError):
                    patch(cluster.kube, path, spec=foreign)
                    patch(cluster.kube, f"{path}/status", status={"conditions": []})
            status = {"nodes": {"selected": 99}, "pods": {"waiting": 7}}
            patch(cluster.kube, f"{path_of(NAMESPACE, 'hall')}/status", status=status)
            spoiled[0] += 1

    writer = threading.Thread(target=spoil, daemon=True)
    writer.start()
    try:
        cluster.make_pods(*(f"pod-{number}" for number in range(20)))
        for _run in range(2):
            cluster.wait_for_start()
        assert writer.is_alive()
    finally:
        stop.set()
        writer.join()
    assert spoiled[0] > 1
    cluster.ask()


def patch(kube: Kube, path: str, **body: t.Any) -> None:
    kube.request("PATCH", path, body, MERGE_CONTENT_TYPE, {"fieldManager": "another"})


def test_the_right_to_bind_is_used_again_when_it_comes_back(cluster: Cluster) -> None:
    # Both have it.
    names = ("placement", "devices")
    paths = [f"{BINDINGS}/wattwise-operator-{name}" for name in names]
    kept = [cluster.kube.get(path) for path in paths]
    for path in paths:
        cluster.kube.request("DELETE", path)
    try:
        cluster.make_pods("without-permissions")
        cluster.wait(lambda: "not ready" in str(cluster.differences()), "a failing run")
        assert cluster.bound() == set()
    finally:
        for one in kept:
            body = {**one, "metadata": {"name": one["metadata"]["name"]}}
            cluster.kube.request("POST", BINDINGS, body)
    cluster.ask()


@pytest.mark.slow
@pytest.mark.parametrize("capability", ["observe", "node-configs", "powerfleets"])
def test_permissions_that_come_back_are_used_again(cluster: Cluster, capability: str) -> None:
    path = f"{BINDINGS}/wattwise-operator-{capability}"
    kept, failed = cluster.kube.get(path), failures(cluster)
    cluster.kube.request("DELETE", path)
    try:
        cluster.make_pods(f"without-{capability}")
        if capability == "powerfleets":
            # Without them ansible-operator reads no fleet and repeats that; a run would fail.
            cluster.wait(lambda: failures(cluster) > failed, "a failure")
        else:
            cluster.wait_for_start()
            cluster.wait_for_start()
    finally:
        body = {**kept, "metadata": {"name": kept["metadata"]["name"]}}
        cluster.kube.request("POST", BINDINGS, body)
    cluster.ask()


def failures(cluster: Cluster) -> int:
    return sum(map(cluster.log.count, ("task failed", "Reconciler error")))


def test_hostile_texts_are_text(cluster: Cluster, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    evil = f"{{{{ lookup('ansible.builtin.pipe', 'touch {touched}') }}}}"
    variables = {"ansible_connection": "no.such", "run_dir": evil, "note": evil}
    patch(cluster.kube, f"/api/v1/nodes/{NODES[0]}", metadata={"annotations": variables})
    cluster.make_pods("hostile", **variables)
    cluster.make_templates("hostile", inlet=wao.fake(evil))
    workload = {
        "apiVersion": "intel.com/v1alpha1",
        "kind": "RmdWorkload",
        "metadata": {"name": "hostile", "namespace": "default", "annotations": variables},
        "spec": {"coreIds": ["0"], "policy": evil, "nodes": [NODES[0]]},
    }
    path = "/apis/intel.com/v1alpha1/namespaces/default/rmdworkloads"
    # ansible-operator starts no run of a fleet whose period it cannot read.
    nowhere = {"matchLabels": {"none": "such"}}
    annotations = {**variables, RECONCILE_PERIOD: evil}
    try:
        cluster.kube.request("POST", path, workload)
        cluster.make_fleet(
            "hostile", annotations, nodeSelector=nowhere, observe={"caPath": f"/{evil}"}
        )
        cluster.wait(lambda: "status" in cluster.fleet("hostile"), "a run of the hostile fleet")
        assert cluster.fleet("hostile")["metadata"]["annotations"][RECONCILE_PERIOD] == "60s"
        cluster.wait(lambda: "hostile" in cluster.bound(), "the node of the hostile pod")
    finally:
        remove(cluster.kube, path_of(NAMESPACE, "hostile"))
        remove(cluster.kube, f"{path}/hostile")
        cluster.delete_templates("hostile")
    cluster.settle()
    assert not touched.exists()


def test_no_secret_is_in_files_and_logs(cluster: Cluster) -> None:
    """Leftovers of the tests above: arguments, artefacts, documents, logs."""
    assert not cluster.bmc.seen.refused
    together = base64.b64encode(":".join(ACCOUNT).encode()).decode()
    assert f"Basic {together}" in cluster.bmc.seen.authorizations
    password = ACCOUNT[1]
    forms = [password, together, base64.b64encode(password.encode()).decode()]
    state = cluster.lab.state
    files = [path for path in operator.folder(state).rglob("*") if path.is_file()]
    logs = [state.logs / f"{name}.log" for name in (operator.NAME, operator.WATCHER)]
    assert any(path.parts[-3] == "artifacts" for path in files)
    found = []
    for path in (*files, *logs):
        # The operator is running, and removes and renames files.
        with contextlib.suppress(FileNotFoundError):
            content = path.read_bytes()
            found += [str(path) for form in forms if form.encode() in content]
    assert found == []
    assert process.process_id(state, operator.WATCHER) is not None
