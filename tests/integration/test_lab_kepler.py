# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Power of pods end to end: the lab's Keplers, a real Prometheus with our rules, a PowerFleet."""

from __future__ import annotations

import dataclasses
import json
import time
import typing as t
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from ansible_collections.wattwise.kube.plugins.module_utils.observe.metering import metering
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.reconciliation import (
    reconcile,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import ALL, path_of
from ansible_collections.wattwise.kube.plugins.module_utils.snapshot import snapshot
from lab import kepler, lifecycle, process
from lab.physics import CPU_USAGE_ANNOTATION
from lab.process import wait_until
from lab.room import Room
from support import guide_pictures
from support.guide_pictures import Sample, power_of_pods
from support.lab import RunningLab, up
from support.wao import DEFINITIONS

Json = dict[str, t.Any]

FILES = (
    "wattwise.github.io_powerfleets.yaml",
    "wao.bitmedia.co.jp_nodeconfigs.yaml",
    "wao.bitmedia.co.jp_nodeconfigtemplates.yaml",
)
CORES = {"web-7d4b9c-x2x4z": 3.0, "db-0": 1.0}
SHARE = sum(kepler.SHARES.values())


class Metered:
    """A lab with Keplers and a Prometheus, and two pods on one of its nodes."""

    def __init__(self, lab: RunningLab, kube: Kube, namespace: str) -> None:
        self.lab, self.kube, self.namespace = lab, kube, namespace
        self.settings = up(lab.state, lifecycle.METERS)
        self.room = Room.of(lab.state, self.settings)
        pods = kube.list("/api/v1/pods")
        busy = {pod["spec"].get("nodeName") for pod in pods}
        self.machine = next(
            machine for name, machine in self.room.machines.items() if name not in busy
        )
        self.url = f"http://127.0.0.1:{self.settings.ports['prometheus']}"
        address = f"http://{self.machine.bmc_address}:{self.settings.ports['kepler']}"
        self.sources: dict[str, Json] = {
            "prometheus": {"url": self.url},
            "kepler": {"targets": [{"name": self.machine.name, "endpoint": address}]},
        }

    def run_pods(self) -> None:
        for name, cores in CORES.items():
            self.run_pod(name, cores)

    def run_pod(self, name: str, cores: float) -> None:
        metadata = {"name": name, "annotations": {CPU_USAGE_ANNOTATION: str(cores)}}
        container = {"name": "main", "image": "none"}
        spec = {"nodeName": self.machine.name, "containers": [container]}
        pod = {"metadata": metadata, "spec": spec}
        self.kube.request("POST", f"/api/v1/namespaces/{self.namespace}/pods", pod)

    def metered(self, source: str, previous: Json | None = None) -> metering.Metering:
        given = {"kubeconfig": self.lab.kubeconfig, "include": ["nodes", "pods"]}
        options = metering.SPEC.complete({"source": source, **self.sources[source]})
        body = snapshot.take(given)["snapshot"]
        nodes = [self.machine.name]
        context = Context(warn=print)
        last = metering.LastMetering.from_document(previous, context.now())
        return metering.meter(options, body, {}, context, self.kube, last, nodes)

    def watts(self, source: str) -> dict[str, float]:
        """Power draw of our pods by name."""
        return {
            pod.name: sum(zones.values())
            for pod, zones in self.metered(source).pods.items()
            if pod.namespace == self.namespace
        }

    def alerts(self, name: str) -> list[Json]:
        with urllib.request.urlopen(f"{self.url}/api/v1/alerts", timeout=10) as answer:
            found = json.load(answer)["data"]["alerts"]
        return [
            one for one in found if one["labels"]["alertname"] == name and one["state"] == "firing"
        ]


@pytest.fixture(scope="module")
def definition(kubeconfig: str) -> None:
    apply(
        {"kubeconfig": kubeconfig, "src": [str(DEFINITIONS / name) for name in FILES], "wait": True}
    )


@pytest.fixture
def site(lab: RunningLab, kube: Kube, namespace: str, definition: None) -> Iterator[Metered]:
    for fleet in kube.list(ALL):
        kube.request("DELETE", path_of(fleet["metadata"]["namespace"], fleet["metadata"]["name"]))
    found = Metered(lab, kube, namespace)
    found.run_pods()
    yield found
    process.stop(lab.state, [*lifecycle.METERS, kepler.PROGRAM_PORT])
    # Other tests of this lab do not expect them.
    settings = lab.state.read_settings()
    parts = tuple(part for part in settings.parts if part not in lifecycle.METERS)
    lab.state.write_settings(dataclasses.replace(settings, parts=parts))


def test_prometheus_scrapes_keplers_that_follow_the_physics_and_alerts(
    site: Metered, tmp_path: Path
) -> None:
    # Temperature and ripple change it by less than a percent meanwhile.
    site.room.load_cores[site.machine.name] = sum(CORES.values())
    truth = site.room.truth(site.machine.name)
    expected = {
        name: truth.power_watts * SHARE * cores / site.machine.cores
        for name, cores in CORES.items()
    }
    for source in ("kepler", "prometheus"):
        wait_until(
            lambda: site.watts(source) == pytest.approx(expected, rel=0.02),  # noqa: B023
            30.0,
            f"power draw of pods from {source}",
        )
    counted_from = site.metered("kepler")

    spec = {
        "nodeSelector": {"matchLabels": {"kubernetes.io/hostname": site.machine.name}},
        "placement": {"enabled": False},
        "metering": {"source": "prometheus", "url": site.url},
    }
    body = {
        "apiVersion": "wattwise.github.io/v1alpha1",
        "kind": "PowerFleet",
        "metadata": {"name": "fleet", "namespace": site.namespace},
        "spec": spec,
    }
    path = path_of(site.namespace, "fleet")
    site.kube.request("POST", path.rpartition("/")[0], body, query={"fieldValidation": "Strict"})
    ready = condition(run(site, tmp_path), "Ready")
    status = site.kube.get(path)["status"]
    assert condition(status, "Metered") == ("True", "PodsMetered")
    assert status["metering"]["nodes"] == 1 and status["metering"]["pods"] >= len(CORES)
    assert status["metering"]["watts"] >= sum(expected.values()) * 0.98
    document = json.loads((tmp_path / "metering.json").read_text())
    assert document["nodes"].keys() == {site.machine.name}
    version = site.kube.get(path)["metadata"]["resourceVersion"]
    run(site, tmp_path)
    assert site.kube.get(path)["metadata"]["resourceVersion"] == version
    text = (tmp_path / "metrics" / "metering.prom").read_text()
    assert f'namespace="{site.namespace}",power_fleet="{site.namespace}/fleet"' in text

    lost = {"spec": {"metering": {"url": "http://127.0.0.1:9"}}}
    site.kube.request("PATCH", path, lost, MERGE_CONTENT_TYPE)
    told = run(site, tmp_path)
    assert condition(told, "Metered") == ("False", "SomeNotMetered")
    assert condition(told, "Ready") == ready
    off = {"spec": {"metering": {"source": "none"}}}
    site.kube.request("PATCH", path, off, MERGE_CONTENT_TYPE)
    assert not {"Metered"} & {one["type"] for one in run(site, tmp_path)["conditions"]}
    assert "metering" not in site.kube.get(path)["status"]
    assert not (tmp_path / "metrics" / "metering.prom").exists()

    # The lab counts in steps of half a second; on a busy machine the last one may be late.
    allowed = max(expected.values())

    def counted() -> bool:
        [part] = site.metered("kepler", counted_from.as_document()).energy
        seconds = (part.end - part.begin).total_seconds()
        joules = {key.name: value for key, value in part.joules.items() if key.name in CORES}
        wanted = {name: watts * seconds for name, watts in expected.items()}
        return joules == pytest.approx(wanted, rel=0.05, abs=allowed)

    wait_until(counted, 30.0, "the joules of watts that have not changed")

    assert not site.alerts("WattwiseKeplerDown")
    process.stop(site.lab.state, ["kepler"])
    wait_until(
        lambda: len(site.alerts("WattwiseKeplerDown")) == len(site.room.machines),
        30.0,
        "an alert for each Kepler",
    )
    [one] = [
        each
        for each in site.alerts("WattwiseKeplerDown")
        if each["labels"]["instance"] == site.machine.name
    ]
    assert one["annotations"]["summary"] == f"Kepler of {site.machine.name} cannot be scraped."


def test_the_guide_draws_the_power_of_pods_over_time(site: Metered) -> None:
    """A job begins and ends beside two services."""
    samples: list[Sample] = []
    begin, job, cores = time.monotonic(), "training", site.machine.cores / 2

    def sampled(count: int, with_job: bool) -> bool:
        found = site.metered("kepler")
        if site.machine.name not in found.nodes:
            # A Kepler that began just now has not counted yet.
            return False
        pods = {
            pod.name: sum(zones.values())
            for pod, zones in found.pods.items()
            if pod.namespace == site.namespace
        }
        node = sum(found.nodes[site.machine.name].values())
        samples.append(Sample(time.monotonic() - begin, node, pods))
        return [job in one.pods for one in samples[-count:]] == [with_job] * count

    def wait(with_job: bool) -> None:
        wait_until(lambda: sampled(10, with_job), 60.0, "samples of the pods", interval=0.5)

    wait(with_job=False)
    site.run_pod(job, cores)
    wait(with_job=True)
    path = f"/api/v1/namespaces/{site.namespace}/pods/{job}"
    site.kube.request("DELETE", path, {"gracePeriodSeconds": 0})
    wait(with_job=False)
    before, during = samples[9], next(one for one in reversed(samples) if job in one.pods)
    assert during.node > before.node and during.pods[job] > sum(before.pods.values())
    guide_pictures.write("kepler.svg", power_of_pods(samples))


def run(site: Metered, folder: Path) -> Json:
    """One run for the fleet; returns its status."""
    options = {"kubeconfig": site.lab.kubeconfig, "namespace": site.namespace, "name": "fleet"}
    found = reconcile({**options, "run_dir": str(folder)}, Context(warn=print))
    return t.cast("Json", found["status"])


def condition(status: Json, name: str) -> tuple[str, str]:
    [one] = [each for each in status["conditions"] if each["type"] == name]
    return one["status"], one["reason"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"source": "prometheus"}, "source prometheus needs url"),
        ({"source": "kepler", "port": 0}, "greater than or equal to 1"),
        ({"source": "file"}, "Unsupported value"),
        ({"url": "http://user:password@prometheus"}, "should match"),
        ({"labels": [{"name": "a-b", "value": "c"}]}, "should match"),
        ({"targets": [{"name": "n1"}]}, "Required value"),
        ({"credential": "wao-system/token"}, "unknown field"),
    ],
    ids=str,
)
def test_metering_that_no_run_could_do_is_refused(
    kube: Kube, namespace: str, definition: None, given: Json, sentence: str
) -> None:
    body = {
        "apiVersion": "wattwise.github.io/v1alpha1",
        "kind": "PowerFleet",
        "metadata": {"name": "fleet", "namespace": namespace},
        "spec": {"metering": given},
    }
    path = path_of(namespace, "fleet").rpartition("/")[0]
    query = {"fieldValidation": "Strict", "dryRun": "All"}
    with pytest.raises(ApiError, match=sentence):
        kube.request("POST", path, body, query=query)
