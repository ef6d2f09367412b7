# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host agents as processes, with their own permissions, between API server and simulated BMCs."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.hosts.deployment.reconciliation import (
    reconcile,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.apply.work import apply
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import (
    MERGE_CONTENT_TYPE,
    Kube,
)
from lab import bare_metal
from lab.api import Api
from lab.embedded import EmbeddedLab, embedded_lab
from lab.machines import Machine
from lab.process import wait_until
from support.dockerfile import ROOT
from support.inventory import run_inventory
from support.lab import RunningLab
from support.recording_proxy import Permission, Proxy, recording_proxy
from support.wao import DEFINITIONS

Json = dict[str, t.Any]

PROGRAM = "ansible_collections.wattwise.kube.plugins.module_utils.hosts.agent.program"
GROUP = "/apis/bpa.akraino.org/v1alpha1"
WRONG = "not-the-password"


@pytest.fixture(scope="module")
def bmcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLab]:
    with embedded_lab(tmp_path_factory.mktemp("bmcs")) as running:
        yield running


@pytest.fixture
def definitions(kubeconfig: str) -> Iterator[None]:
    """Metal3's CRD is deleted at the end, because other tests create it with their own
    hosts.
    """
    files = [str(path) for path in DEFINITIONS.glob("bpa.akraino.org_*.yaml")]
    apply({"kubeconfig": kubeconfig, "src": [*files, str(bare_metal.DEFINITION)], "wait": True})
    yield
    with Api(Path(kubeconfig)) as api:
        bare_metal.delete(api)


@dataclasses.dataclass
class Site:
    """A namespace with BareMetalHosts, whose BMCs are simulated, and one Provisioning, ``edge``."""

    kube: Kube
    namespace: str
    bmcs: EmbeddedLab

    def path(self, kind: str, root: str = "/api/v1") -> str:
        return f"{root}/namespaces/{self.namespace}/{kind}"

    def add(self, machine: Machine, password: str, *, is_inspected: bool) -> None:
        """The BareMetalHost of a machine, with 64 GiB or nothing in its status, and its Secret."""
        host = bare_metal.host_object(machine, self.bmcs.settings.ports["bmc"])
        status = host.pop("status")
        host["metadata"]["namespace"] = self.namespace
        bmc = {**host["spec"]["bmc"], "credentialsName": machine.name}
        host["spec"] = {"online": True, "bmc": bmc}
        given = {"username": machine.bmc_username, "password": password}
        given["ca.crt"] = self.bmcs.ca_path.read_text()
        body = {"metadata": {"name": machine.name}, "stringData": given}
        self.kube.request("POST", self.path("secrets"), body)
        hosts = self.path("baremetalhosts", "/apis/metal3.io/v1alpha1")
        self.kube.request("POST", hosts, host)
        status |= {"operationalStatus": "OK", "provisioning": {"state": "available", "ID": ""}}
        status["hardware"]["ramMebibytes"] = 64 * 1024
        if not is_inspected:
            del status["hardware"]
        place = f"{hosts}/{machine.name}/status"
        self.kube.request("PATCH", place, {"status": status}, MERGE_CONTENT_TYPE)

    def facts(self) -> dict[str, Json]:
        found = self.kube.list(self.path("hosthardwares", GROUP))
        return {each["metadata"]["name"]: each for each in found}

    def memory(self, machine: Machine) -> int:
        return int(self.facts()[machine.name]["spec"]["hardware"]["memoryMib"])

    def holder(self) -> str:
        place = self.path("leases/edge-agents", "/apis/coordination.k8s.io/v1")
        found = self.kube.find(place) or {"spec": {}}
        return str(found["spec"].get("holderIdentity") or "")


@pytest.fixture
def site(kube: Kube, namespace: str, bmcs: EmbeddedLab, definitions: None) -> Site:
    return Site(kube, namespace, bmcs)


@pytest.fixture
def account(
    site: Site, lab: RunningLab, tmp_path: Path
) -> Iterator[tuple[Proxy, Path, set[Permission]]]:
    """The agents' account with the permissions of the operator's folder, recorded by a proxy."""
    items = []
    for name in ("rights.yaml", "secrets/rights.yaml"):
        text = (ROOT / "operator/config/host-agents" / name).read_text()
        text = text.replace("bpa-system", site.namespace).replace("metal3\n", f"{site.namespace}\n")
        text = text.replace("wattwise-host-agent", f"{site.namespace}-agent")
        items += [each for each in yaml.safe_load_all(text) if each]
    apply({"kubeconfig": lab.kubeconfig, "manifests": items})
    place = site.path(f"serviceaccounts/{site.namespace}-agent/token")
    asked = {"spec": {"expirationSeconds": 3600}}
    token = site.kube.request("POST", place, asked)["status"]["token"]
    granted = {
        Permission(group, resource, verb)
        for item in items
        for rule in item.get("rules", [])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    with recording_proxy(site.kube.host, str(lab.state.ca_certificate)) as proxy:
        config = {
            "clusters": [{"name": "lab", "cluster": {"server": proxy.server}}],
            "users": [{"name": "agent", "user": {"token": token}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "agent"}}],
            "current-context": "lab",
        }
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        yield proxy, path, granted
    apply({"kubeconfig": lab.kubeconfig, "manifests": items, "state": "absent"})


class Agents:
    """Running agents with their logs, in the order of their start."""

    def __init__(self, site: Site, kubeconfig: Path, folder: Path) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self._site, self._kubeconfig, self._folder = site, kubeconfig, folder

    def start(self) -> subprocess.Popen[bytes]:
        given = {
            "WATTWISE_KUBECONFIG": str(self._kubeconfig),
            "PROVISIONING_NAME": "edge",
            "PROVISIONING_NAMESPACE": self._site.namespace,
            "HOST_NAMESPACES": self._site.namespace,
        }
        with self._log(len(self.processes)).open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", PROGRAM, "--period", "1", "--timeout", "20"],
                env={**os.environ, **given},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.processes.append(process)
        return process

    def _log(self, number: int) -> Path:
        return self._folder / f"agent-{number}.log"

    def log(self, number: int) -> str:
        return self._log(number).read_text()


@pytest.fixture
def agents(
    site: Site, account: tuple[Proxy, Path, set[Permission]], tmp_path: Path
) -> Iterator[Agents]:
    running = Agents(site, account[1], tmp_path)
    yield running
    for process in running.processes:
        with contextlib.suppress(OSError):
            process.kill()
        process.wait()


def test_one_of_two_agents_reads_and_the_other_takes_over_when_it_is_killed(
    site: Site,
    agents: Agents,
    account: tuple[Proxy, Path, set[Permission]],
    kubeconfig: str,
    tmp_path: Path,
) -> None:
    """A BMC that is off, and one with another password, do not keep other hosts from being read."""
    known = [each for each in site.bmcs.machines if each.certificate == "lab-ca"][:4]
    grows, stays, is_off, is_locked = known
    for machine in known:
        password = WRONG if machine is is_locked else machine.bmc_password
        site.add(machine, password, is_inspected=machine is not stays)
    hardware: Json = {"memory_gib": 64, "has_qat": False}
    site.bmcs.admin("PUT", "/hardware", {each.name: hardware for each in known})
    site.bmcs.admin("POST", "/faults", {"kind": "dead-bmc", "node": is_off.name})
    spec = {"master": {"count": 1, "memory": "200Gi"}, "replicas": 2}
    given: Json = {"kubeconfig": kubeconfig, "namespace": site.namespace, "name": "edge"}
    given |= {"on_error": "report", "host_namespaces": [site.namespace]}
    assert "memory" in reconcile({**given, "spec": spec})["failure"]

    first = agents.start()
    wait_until(lambda: "holds the Lease" in agents.log(0), 30.0, "the first agent to work")
    second = agents.start()
    wait_until(lambda: "stands by" in agents.log(1), 30.0, "the second agent to stand by")
    wait_until(lambda: len(site.facts()) == 2, 30.0, "hardware of the BMCs that answer")
    holder = site.holder()
    assert str(first.pid) in holder and "holds the Lease" not in agents.log(1)
    facts = site.facts()
    assert facts.keys() == {grows.name, stays.name}
    assert site.memory(grows) == 64 * 1024
    wait_until(lambda: is_off.name in agents.log(0), 30.0, "word of the BMC that is off")
    assert f"cannot read all hardware of {site.namespace}/{is_locked.name}" in agents.log(0)

    first.send_signal(signal.SIGKILL)
    site.bmcs.admin("PUT", "/hardware", {grows.name: {"memory_gib": 256, "has_qat": True}})
    wait_until(lambda: site.holder() not in ("", holder), 60.0, "the second agent to take over")
    wait_until(lambda: site.memory(grows) == 256 * 1024, 30.0, "the new hardware")
    # Unchanged values are not written again, and no account is locked.
    assert site.facts()[stays.name]["metadata"] == facts[stays.name]["metadata"]
    assert site.bmcs.admin("GET", "/accounts")[is_locked.name]["failed_attempts"] <= 2
    assert {each["host"] for each in reconcile(given)["assignments"]} == {grows.name}

    # Inspection reports no QuickAssist, and nothing at all for the host that stays unchanged.
    options = {"kubeconfig": kubeconfig, "namespaces": [site.namespace]}
    file_name = "bare_metal_hosts.yml"
    found = run_inventory(tmp_path, file_name, plugin="bare_metal_hosts", **options)
    assert found.returncode == 0 and found.members("qat") == [grows.name], found.messages
    assert found.hosts[grows.name]["host_memory_mib"] == 256 * 1024
    assert found.hosts[stays.name]["host_memory_mib"] == 64 * 1024
    assert found.hosts[stays.name]["host_serial_number"] == stays.hardware.serial_number
    assert "ansible_host" not in found.hosts[stays.name]

    second.send_signal(signal.SIGTERM)
    assert second.wait(30) == 0, agents.log(1)
    assert site.holder() == ""
    said = agents.log(0) + agents.log(1)
    assert "Traceback" not in said
    assert not any(word in said for word in (WRONG, *(each.bmc_password for each in known)))
    proxy, _path, granted = account
    assert (proxy.refused, proxy.used) == ([], granted)
    reconcile({**given, "state": "absent"})
