# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watcher on a real API server: a fleet whose runs do not come, and the next run."""

from __future__ import annotations

import sys
import threading
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.steps import Applying
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.kube.resource.run import Run
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet import stalling
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.resource import (
    ALL,
    RESOURCE_KIND,
    path_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.status import status_of
from ansible_collections.wattwise.kube.plugins.module_utils.powerfleet.watching import Watcher
from lab.process import wait_until
from support.power_fleets import DEFINITION, outcome, parsed

Json = dict[str, t.Any]

PLAYBOOK = Path(__file__).resolve().parents[2] / "operator" / "playbooks" / "power_fleet.yml"
# The least interval of the CRD.
INTERVAL_SECONDS = 15.0


class Running:
    """A watcher in a thread, and its one fleet."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self.kube, self.path = kube, path_of(namespace, "hall")
        self.said: list[str] = []
        self._stop = threading.Event()
        command = (str(Path(sys.executable).with_name("ansible-playbook")), str(PLAYBOOK))
        self.watcher = Watcher(kube, self.said.append, 0.0, command)
        self._thread = threading.Thread(target=self.watcher.run, args=(self._stop,))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def fleet(self) -> Json:
        return self.kube.get(self.path)

    def conditions(self) -> dict[str, Json]:
        found = self.fleet().get("status", {}).get("conditions", [])
        return {each["type"]: each for each in found}

    def is_stalled(self) -> bool:
        return stalling.CONDITION in self.conditions()

    def run_once(self) -> None:
        """Write the status of a run as the run does, with its server-side apply."""
        now = Context().now()
        fleet = parsed(self.fleet())
        status = status_of(fleet, outcome(began=now))
        applying = Applying(self.kube, Context(), ())
        Run(RESOURCE_KIND, self.kube, {}, Context(), fleet.manifest, applying).write_status(status)
        assert applying.result["results"][0]["action"] == "configured"

    def events(self, namespace: str) -> dict[str, Json]:
        found = self.kube.list(f"/api/v1/namespaces/{namespace}/events")
        return {each["reason"]: each for each in found if each["involvedObject"]["name"] == "hall"}

    def wait(self, condition: t.Callable[[], bool], what: str) -> None:
        wait_until(condition, 60.0, what, interval=0.1)


@pytest.fixture
def running(
    kube: Kube, kubeconfig: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Running]:
    """With a fleet that gets no run, because there is no operator; two seconds make it stalled."""
    apply({"kubeconfig": kubeconfig, "src": [str(DEFINITION)], "wait": True})
    monkeypatch.setattr(stalling, "MARGIN_SECONDS", 2.0 - 2 * INTERVAL_SECONDS)
    made = Running(kube, namespace)
    spec = {"interval": f"{INTERVAL_SECONDS:g}s", "placement": {"enabled": False}}
    body = {
        "apiVersion": "wattwise.github.io/v1alpha1",
        "kind": "PowerFleet",
        "metadata": {"name": "hall", "namespace": namespace},
        "spec": spec,
    }
    kube.request("POST", made.path.rpartition("/")[0], body)
    made.start()
    yield made
    made.stop()
    if kube.find(made.path) is not None:
        kube.request("DELETE", made.path)
    wait_until(lambda: not kube.list(ALL), 30.0, "the end of the fleet")


def test_a_fleet_without_runs_is_stalled_until_the_next_run(
    running: Running, namespace: str
) -> None:
    metric = f'wattwise_power_fleet_stalled{{power_fleet="{namespace}/hall"}}'
    running.wait(running.is_stalled, "the condition")
    told = running.conditions()[stalling.CONDITION]
    assert (told["status"], told["reason"]) == ("True", "NoRun")
    assert "since its creation at" in told["message"] and told["observedGeneration"] == 1
    assert f"{metric} 1" in running.watcher.metrics()
    running.wait(lambda: "NoRun" in running.events(namespace), "the Event")
    event = running.events(namespace)["NoRun"]
    assert (event["type"], event["count"], event["message"]) == ("Warning", 1, told["message"])

    # The run neither removes the condition of the watcher, nor the watcher those of the run.
    running.run_once()
    ran = running.conditions()
    assert {"Ready", "Observed", "Placed"} <= ran.keys()
    running.wait(lambda: not running.is_stalled(), "the end of the condition")
    assert {"Ready", "Observed", "Placed"} <= running.conditions().keys()
    assert running.fleet()["status"]["lastRun"]["trigger"] == "interval"
    running.wait(lambda: "NotStalled" in running.events(namespace), "the second Event")
    assert running.events(namespace)["NotStalled"]["type"] == "Normal"

    # Without further runs it is stalled again, since that run.
    running.wait(running.is_stalled, "the condition again")
    again = running.conditions()
    assert again.keys() == {"Ready", "Observed", "Placed", "Stalled"}
    assert running.fleet()["status"]["lastRun"]["time"] in again["Stalled"]["message"]
    assert f"{metric} 1" in running.watcher.metrics()
    assert running.events(namespace)["NoRun"]["count"] == 1

    # Suspended, it has no run to wait for.
    body = {"spec": {"suspend": True}}
    running.kube.request("PATCH", running.path, body, "application/merge-patch+json")
    running.wait(lambda: not running.is_stalled(), "the end of the condition")
    assert f"{metric} 0" in running.watcher.metrics()


def test_nothing_is_written_to_a_fleet_with_runs(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stalling, "MARGIN_SECONDS", 3600.0)
    running.run_once()
    stored = running.fleet()["metadata"]["resourceVersion"]
    running.wait(running.watcher.is_watching, "the watches")
    turned = running.watcher._turned_at
    running.wait(lambda: running.watcher._turned_at > turned + 1, "several turns of the watcher")
    assert running.fleet()["metadata"]["resourceVersion"] == stored
    assert running.watcher.is_alive() and running.said == []


def test_a_deleted_fleet_with_the_finalizer_goes_after_a_run_of_the_watcher(
    running: Running, kubeconfig: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ansible-operator would skip it. No machine of the fleet sleeps."""
    monkeypatch.setenv("WATTWISE_KUBECONFIG", kubeconfig)
    monkeypatch.setenv("WATTWISE_RUNS", str(tmp_path))
    body = {"metadata": {"finalizers": [RESOURCE_KIND.finalizer]}}
    running.kube.request("PATCH", running.path, body, "application/merge-patch+json")
    running.kube.request("DELETE", running.path)
    assert running.fleet()["metadata"]["deletionTimestamp"]
    running.wait(lambda: running.kube.find(running.path) is None, "the end of the fleet")
    assert any("begin a run" in said for said in running.said)
