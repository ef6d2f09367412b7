# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's overlays on a real kubelet, from the installation to its removal.

Gate `real_node` builds the image first and names it in WATTWISE_IMAGE. The tests are one story in
the order of this file. Their times become a table in the file that WATTWISE_TIMES names.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.labels import (
    METER_LABEL,
    SUPPORTED_LABEL,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.node_objects import (
    PROBE_ANNOTATION,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import MERGE_CONTENT_TYPE
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import (
    RECONCILE_PERIOD,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.pod_workloads import CONDITION
from lab import bare_metal, pki, real_node
from lab.embedded import EmbeddedLab, embedded_lab
from lab.process import wait_until
from lab.real_node import NAME, NODE_SELECTOR, PAUSE_IMAGE
from support.dockerfile import ROOT
from support.lab import RunningLab, kubeconfig, lab, lab_state
from support.real_cluster import (
    FIRST,
    NAMESPACE,
    PODS,
    SECONDS,
    STAND_INS,
    WORK,
    Cluster,
    Json,
    archive,
    play_role,
    told,
)

__all__ = ["archive", "kubeconfig", "lab", "lab_state"]

FLEETS = f"/apis/wattwise.github.io/v1alpha1/namespaces/{NAMESPACE}/powerfleets"
SYSTEM = (
    "/apis/kepler.system.sustainable.computing.io/v1alpha1/namespaces/kepler/keplersystems/kepler"
)
RMD = "/apis/intel.com/v1alpha1/namespaces"
# The API server takes objects of almost 1.5 MB.
LARGE_BYTES, LARGE_PODS = 1_400_000, 60


@pytest.fixture(scope="module")
def bmcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLab]:
    with embedded_lab(tmp_path_factory.mktemp("bmcs")) as found:
        yield found


@pytest.fixture(scope="module")
def cluster(
    lab: RunningLab, archive: Path, bmcs: EmbeddedLab, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Pods without a node run on the real one; on KWOK's nodes containers are only simulated."""
    port = bmcs.settings.ports["bmc"]
    programs = {f"{each.name}-bmc": (each.bmc_address, port) for each in bmcs.machines}
    with real_node.running(lab.state, [archive], print, programs) as node:
        found = Cluster(lab, node, tmp_path_factory.mktemp("overlay"))
        found.kubectl("cordon", f"--selector=!{next(iter(NODE_SELECTOR))}")
        found.kubectl("create", "namespace", "wao-system")
        yield found
        found.kubectl("uncordon", f"--selector=!{next(iter(NODE_SELECTOR))}")


def test_the_default_overlay_gets_ready(cluster: Cluster) -> None:
    start = time.monotonic()
    cluster.install("default")
    cluster.wait_ready()
    told("overlay `default` applied → Ready", start)


def test_a_waiting_pod_is_placed_and_runs(cluster: Cluster) -> None:
    fleet = {
        "apiVersion": "wattwise.github.io/v1alpha1",
        "kind": "PowerFleet",
        "metadata": {"name": "hall"},
        "spec": {"interval": "10m", "nodeSelector": {"matchLabels": NODE_SELECTOR}},
    }
    cluster.kube.request("POST", FLEETS, fleet)
    start = time.monotonic()
    cluster.place("first")
    told("first pod created → running, with the PowerFleet's first run", start)
    start = time.monotonic()
    cluster.place("second")
    told("another pod created → running", start)


@pytest.mark.parametrize("name", ["operator", "watcher", "metrics"])
def test_a_killed_container_returns_and_pods_are_placed(cluster: Cluster, name: str) -> None:
    before = cluster.containers()[name]
    start = time.monotonic()
    cluster.node.kill(before["containerID"].removeprefix("containerd://"))
    wait_until(
        lambda: cluster.containers()[name]["restartCount"] > before["restartCount"],
        SECONDS,
        f"the restart of {name}",
    )
    cluster.wait_ready()
    told(f"container `{name}` killed → Ready", start)
    cluster.place(f"after-{name}")


def test_an_upgrade_changes_the_tag_and_a_rollback_changes_it_back(cluster: Cluster) -> None:
    for tag in ("next", "0.1.0"):
        start = time.monotonic()
        cluster.install("default", tag)
        cluster.wait_ready()
        told(f"tag changed to `{tag}` → Ready", start)
        pods = [
            each
            for each in cluster.kube.list(PODS)
            if not each["metadata"].get("deletionTimestamp")
        ]
        images = {one["image"] for pod in pods for one in pod["spec"]["containers"]}
        assert images == {f"registry.invalid/wattwise-operator:{tag}"}
        cluster.place(f"on-{tag.replace('.', '-')}")


def test_the_extender_gets_ready(cluster: Cluster, tmp_path: Path) -> None:
    """Overlay `extender` is `default` with one more Deployment."""
    authority = pki.create_authority(tmp_path, "extender CA")
    server = "wattwise-extender.wattwise-system.svc"
    files = pki.issue(authority, "extender", [], [server], tmp_path)
    sources = {
        "ca.crt": authority.files.certificate,
        "tls.crt": files.certificate,
        "tls.key": files.key,
    }
    texts = {name: path.read_text() for name, path in sources.items()}
    secret = {"metadata": {"name": "wattwise-extender-tls"}, "stringData": texts}
    cluster.kube.request("POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", secret)
    start = time.monotonic()
    cluster.install("extender")
    # The operator starts anew, because it publishes its curves from now on.
    for deployment in ("wattwise-operator", "wattwise-extender"):
        cluster.wait_ready(deployment)
    told("overlay `extender` applied → Ready", start)


def test_large_objects_end_no_container(cluster: Cluster) -> None:
    """Within the limits of the manifests, beside pods of almost the largest size."""

    def restarts() -> dict[str, int]:
        return {name: one["restartCount"] for name, one in cluster.containers().items()}

    expected = restarts()
    value = "x" * LARGE_BYTES
    container = {"name": "main", "image": "none", "env": [{"name": "LARGE", "value": value}]}
    spec = {"schedulerName": "nobody", "containers": [container]}
    names = [f"large-{number}" for number in range(LARGE_PODS)]
    try:
        for name in names:
            cluster.kube.request("POST", WORK, {"metadata": {"name": name}, "spec": spec})
        for name in ("operator", "watcher", "extender"):
            # A new start lists everything.
            container_id = cluster.containers()[name]["containerID"].removeprefix("containerd://")
            cluster.node.kill(container_id)
            expected[name] += 1
        cluster.wait(lambda: restarts() == expected, "one restart of each killed container")
        for deployment in ("wattwise-operator", "wattwise-extender"):
            cluster.wait_ready(deployment)
        cluster.place("beside-large-ones")
        assert restarts() == expected
    finally:
        for name in names:
            cluster.kube.request("DELETE", f"{WORK}/{name}?gracePeriodSeconds=0")


def test_the_full_overlay_gets_ready_with_all_its_kinds(cluster: Cluster) -> None:
    for name in ("rmd-system", "kepler", "kepler-authority", "bpa-system"):
        cluster.kubectl("create", "namespace", name)
    start = time.monotonic()
    cluster.install("full")
    cluster.wait_ready()
    told("overlay `full` applied → Ready", start)
    cluster.place("with-full")


def test_a_discovery_pod_reads_the_meters_of_this_machine(cluster: Cluster, tmp_path: Path) -> None:
    """The `kepler` role runs it on every node; KWOK's nodes only simulate it."""
    start = time.monotonic()
    play_role(cluster, tmp_path, "kepler", kepler_probe_image=FIRST)

    def annotation() -> str:
        found = cluster.kube.get(f"/api/v1/nodes/{NAME}")["metadata"]
        return str(found.get("annotations", {}).get(PROBE_ANNOTATION, ""))

    cluster.wait(lambda: bool(annotation()), "the annotation of the discovery pod")
    assert json.loads(annotation())["kernel"] == os.uname().release
    told("the `kepler` role started → facts of the node", start)
    play_role(cluster, tmp_path, "kepler", "teardown")


def collectors(cluster: Cluster) -> list[Json]:
    return [
        each
        for each in cluster.kube.list("/api/v1/namespaces/kepler/pods")
        if not each["metadata"].get("deletionTimestamp")
    ]


def wait_available(cluster: Cluster, generation: int) -> Json:
    """The status of the KeplerSystem when a run has seen that all collectors are available."""
    status: Json = {}

    def is_available() -> bool:
        status.update(cluster.kube.get(SYSTEM).get("status") or {})
        conditions = {each["type"]: each for each in status.get("conditions", ())}
        found = conditions.get("Available", {})
        is_current = found.get("observedGeneration") == generation
        return bool(is_current and found["reason"] == "DaemonSetReady")

    cluster.wait(is_available, "the KeplerSystem to be available")
    return status


def test_collectors_of_kepler_get_ready_roll_and_leave(cluster: Cluster, tmp_path: Path) -> None:
    """The stand-in reads its configuration, its certificate, and the host's processes."""
    authority = pki.create_authority(tmp_path, "Kepler CA")
    name = "kepler.kepler.svc"
    files = pki.issue(authority, "kepler", [], [name], tmp_path)
    texts = {"tls.crt": files.certificate.read_text(), "tls.key": files.key.read_text()}
    secret = {"metadata": {"name": "kepler-server"}, "stringData": texts}
    cluster.kube.request("POST", "/api/v1/namespaces/kepler/secrets", secret)
    # This machine may have no meter, so it gets the labels of a machine that has one.
    labels: Json = {METER_LABEL: "rapl", SUPPORTED_LABEL: "true"}
    node = f"/api/v1/nodes/{NAME}"
    cluster.kube.request("PATCH", node, {"metadata": {"labels": labels}}, MERGE_CONTENT_TYPE)
    repository, _colon, tag = STAND_INS.rpartition(":")
    system = {
        "apiVersion": "kepler.system.sustainable.computing.io/v1alpha1",
        "kind": "KeplerSystem",
        "metadata": {"name": "kepler", "annotations": {RECONCILE_PERIOD: "5s"}},
        "spec": {
            "version": tag.removeprefix("v"),
            "image": {"repository": repository},
            "security": {"mode": "tls"},
            "collector": {"nodeSelector": NODE_SELECTOR, "sampleRate": "7s"},
        },
    }
    start = time.monotonic()
    cluster.kube.request("POST", SYSTEM.rpartition("/")[0], system)
    status = wait_available(cluster, 1)
    told("KeplerSystem created → collector Ready, and the status says so", start)
    assert [(each["nodes"], each["ready"]) for each in status["groups"]] == [(1, 1)]
    [pod] = collectors(cluster)
    assert "interval 7s" in cluster.node.logs
    context = ssl.create_default_context(cafile=str(authority.files.certificate))
    context.check_hostname = False
    url = f"https://{pod['status']['podIP']}:28282/metrics"
    with urllib.request.urlopen(url, timeout=10, context=context) as answer:
        assert f'node_name="{NAME}"' in answer.read().decode()
    start = time.monotonic()
    change = {"spec": {"collector": {"sampleRate": "3s"}}}
    cluster.kube.request("PATCH", SYSTEM, change, MERGE_CONTENT_TYPE)
    wait_available(cluster, 2)
    told("configuration of the KeplerSystem changed → new collector Ready", start)
    [newer] = collectors(cluster)
    assert newer["metadata"]["uid"] != pod["metadata"]["uid"]
    assert "interval 3s" in cluster.node.logs
    start = time.monotonic()
    cluster.kube.request("DELETE", SYSTEM)
    here = {"fieldSelector": f"spec.nodeName={NAME}"}
    pods = "/api/v1/namespaces/kepler/pods"
    cluster.wait(lambda: not cluster.kube.list(pods, here), "no collector")
    told("KeplerSystem deleted → no collector", start)
    play_role(cluster, tmp_path, "kepler", "teardown")
    listed = cluster.kubectl(
        *("get", "daemonsets,services,configmaps,networkpolicies,serviceaccounts"),
        *("--namespace=kepler", "--selector=app.kubernetes.io/instance=kepler", "--output=name"),
    )
    policies = "validatingadmissionpolicies,clusterroles,clusterrolebindings"
    listed += cluster.kubectl("get", policies, "--output=name")
    assert "wattwise-kepler.kepler" not in listed and "networkpolicy" not in listed
    assert not cluster.kube.list("/apis/apps/v1/namespaces/kepler/daemonsets")


def test_the_node_agent_and_the_daemon_of_rmd_give_cache_ways_to_a_pod(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The kubelet gives the pod a CPU, the node agent its workload, the operator tells the daemon."""
    start = time.monotonic()
    variables: Json = {
        "rmd_namespace": "rmd-system",
        "rmd_node_labels": NODE_SELECTOR,
        "rmd_image": STAND_INS,
        "rmd_agent_image": FIRST,
        "rmd_agent_interval": 5,
    }
    play_role(cluster, tmp_path, "rmd", **variables)
    client = cluster.kube.get("/api/v1/namespaces/rmd-system/secrets/rmd-client")
    copy = {"metadata": {"name": "rmd-client"}, "data": client["data"], "type": client["type"]}
    cluster.kube.request("POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", copy)
    change = {"spec": {"interval": "15s", "rmd": {"enabled": True}}}
    cluster.kube.request("PATCH", f"{FLEETS}/hall", change, MERGE_CONTENT_TYPE)
    offered = {"intel.com/l3_cache_ways": "8"}
    ways = {"status": {"capacity": offered, "allocatable": offered}}
    cluster.kube.request("PATCH", f"/api/v1/nodes/{NAME}/status", ways, MERGE_CONTENT_TYPE)
    requests = {"cpu": "1", "memory": "16Mi", "intel.com/l3_cache_ways": "2"}
    resources = {"requests": requests, "limits": requests}
    spec = {
        "nodeName": NAME,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": PAUSE_IMAGE, "resources": resources}],
    }
    asking = {"main_cache_min": "2", "main_cache_max": "2"}
    metadata = {"name": "asks", "annotations": asking}
    cluster.kube.request("POST", WORK, {"metadata": metadata, "spec": spec})

    def workloads() -> Json:
        found = cluster.kube.find(f"{RMD}/rmd-system/rmdnodestates/rmd-node-state-{NAME}") or {}
        return dict(found.get("status", {}).get("workloads", {}))

    cluster.wait(lambda: bool(workloads()), "the daemon's workload")
    told("the `rmd` role started → a pod has cache ways", start)
    # The condition would tell of a refusal.
    conditions = cluster.kube.get(f"{WORK}/asks")["status"]["conditions"]
    assert CONDITION not in {each["type"] for each in conditions}
    [workload] = workloads().values()
    assert (workload["Core IDs"], workload["Status"]) == ("1", "Successful")
    start = time.monotonic()
    cluster.kube.request("DELETE", f"{WORK}/asks?gracePeriodSeconds=0")
    cluster.wait(lambda: not workloads(), "the daemon to give the ways back")
    told("pod deleted → its cache ways are free", start)
    cluster.kube.request(
        "PATCH", f"{FLEETS}/hall", {"spec": {"rmd": {"enabled": False}}}, MERGE_CONTENT_TYPE
    )
    cluster.kube.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/secrets/rmd-client")
    play_role(cluster, tmp_path, "rmd", "teardown", rmd_namespace="rmd-system")
    pods = "/api/v1/namespaces/rmd-system/pods"
    cluster.wait(lambda: not cluster.kube.list(pods), "no daemon and no agent")


def test_host_agents_read_bmcs_and_the_installer_runs(
    cluster: Cluster, bmcs: EmbeddedLab, tmp_path: Path
) -> None:
    """Inspection knows too little memory for the master; the BMC, by its name in DNS, knows more."""
    kube = cluster.kube
    machine = next(each for each in bmcs.machines if each.certificate == "lab-ca")
    bmcs.admin("PUT", "/hardware", {machine.name: {"memory_gib": 256}})
    host = bare_metal.host_object(machine, bmcs.settings.ports["bmc"])
    status = host.pop("status")
    address = host["spec"]["bmc"]["address"].replace(machine.bmc_address, f"{machine.name}-bmc")
    host["spec"] = {"online": True, "bmc": {"address": address, "credentialsName": machine.name}}
    status |= {"operationalStatus": "OK", "provisioning": {"state": "available", "ID": ""}}
    status["hardware"]["ramMebibytes"] = 64 * 1024
    account = {"username": machine.bmc_username, "password": machine.bmc_password}
    secret = {
        "metadata": {"name": machine.name},
        "stringData": {**account, "ca.crt": bmcs.ca_path.read_text()},
    }
    cluster.kubectl("apply", "--server-side", f"--filename={bare_metal.DEFINITION}")
    established = ("wait", "--for=condition=Established", "--timeout=60s")
    cluster.kubectl(*established, "customresourcedefinition/baremetalhosts.metal3.io")
    cluster.kubectl("create", "namespace", "metal3")
    cluster.kubectl(
        *("apply", "--server-side"), f"--kustomize={ROOT}/operator/config/host-agents/secrets"
    )
    kube.request("POST", "/api/v1/namespaces/metal3/secrets", secret)
    kube.request("POST", bare_metal.COLLECTION, host)
    place = f"{bare_metal.COLLECTION}/{machine.name}"
    kube.request("PATCH", f"{place}/status", {"status": status}, MERGE_CONTENT_TYPE)
    key = b"\0\0\0\x0bssh-ed25519\0\0\0 " + bytes(32)
    known = f"{machine.internal_address} ssh-ed25519 {base64.b64encode(key).decode()}"
    texts = {"ssh-privatekey": "key", "known_hosts": known}
    kube.request(
        *("POST", "/api/v1/namespaces/bpa-system/secrets"),
        {"metadata": {"name": "hosts"}, "stringData": texts},
    )
    provisioning = {
        "apiVersion": "bpa.akraino.org/v1alpha1",
        "kind": "Provisioning",
        "metadata": {"name": "edge", "annotations": {RECONCILE_PERIOD: "5s"}},
        "spec": {
            "master": {"count": 1, "memory": "200Gi"},
            "replicas": 2,
            "ssh": {"secretName": "hosts"},
        },
    }
    start = time.monotonic()
    group = "/apis/bpa.akraino.org/v1alpha1/namespaces"
    kube.request("POST", f"{group}/bpa-system/provisionings", provisioning)

    def conditions() -> dict[str, str]:
        found = kube.get(f"{group}/bpa-system/provisionings/edge").get("status") or {}
        return {each["type"]: each["status"] for each in found.get("conditions", ())}

    cluster.wait(
        lambda: kube.find(f"{group}/metal3/hosthardwares/{machine.name}") is not None,
        "the hardware of the host",
    )
    told("Provisioning created → an agent has read a BMC", start)
    cluster.wait(
        lambda: conditions().get("Ready") == conditions().get("Agents") == "True",
        "the Provisioning to be ready",
    )
    told("Provisioning created → host assigned, installer ended, status Ready", start)
    hardware = kube.get(f"{group}/metal3/hosthardwares/{machine.name}")["spec"]["hardware"]
    assert hardware["memoryMib"] == 256 * 1024
    assert "installed edge" in cluster.node.logs
    start = time.monotonic()
    cluster.kubectl("delete", "provisioning", "edge", "--namespace=bpa-system", "--timeout=120s")
    pods = "/api/v1/namespaces/bpa-system/pods"
    cluster.wait(lambda: not kube.list(pods), "no agent and no installer")
    assert "consumerRef" not in kube.get(place)["spec"]
    told("Provisioning deleted → host released, no pod left", start)


def test_removal_leaves_nothing(cluster: Cluster) -> None:
    manifests = "\n---\n".join(map(cluster.manifests, ("full", "extender")))
    start = time.monotonic()
    remove = ("delete", "--ignore-not-found", "--wait=true", "--timeout=120s", "--filename=-")
    cluster.kubectl(*remove, given=manifests)
    for item in yaml.safe_load_all(manifests):
        group, _slash, version = item["apiVersion"].rpartition("/")
        kind = ".".join(filter(None, (item["kind"].lower(), group and version, group)))
        namespace = item["metadata"].get("namespace", "default")
        words = ("get", kind, item["metadata"]["name"], f"--namespace={namespace}")
        assert cluster.kubectl(*words, "--ignore-not-found") == "", item["metadata"]
    with pytest.raises(ApiError, match="not found"):
        cluster.kube.get(PODS.removesuffix("/pods"))
    told("overlay deleted → nothing left", start)
