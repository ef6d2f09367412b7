# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin node_configs, and the examples that use it, on the lab."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from lab import faults
from lab.inventory import NAMESPACE
from lab.machines import build_machines
from support.inventory import run_inventory
from support.lab import RunningLab
from support.playbook import PlaybookRun, run_playbook

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
LOST = "r2-n03"


@pytest.fixture(scope="module")
def observed(whole_lab: RunningLab, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    """The lab after a run of the ``site`` playbook, with one BMC down."""
    folder = tmp_path_factory.mktemp("site")
    fault = {"kind": "dead-bmc", "node": LOST}
    faults.call(whole_lab.settings, "POST", "/faults", [fault])
    try:
        arguments = ("-i", str(whole_lab.state.inventory), "-e", f"wattwise_run_dir={folder}")
        tags = ("--tags", "crds,node_configs,observe")
        run = run_playbook("wattwise.kube.site", folder, *arguments, *tags)
        assert run.returncode == 0, run.output
    finally:
        faults.call(whole_lab.settings, "DELETE", "/faults")
    return whole_lab


def test_the_hosts_are_the_machines_of_the_lab(observed: RunningLab, tmp_path: Path) -> None:
    run = run_inventory(tmp_path, kubeconfig=observed.kubeconfig)
    assert run.returncode == 0, run.messages
    settings = observed.settings
    machines = build_machines(settings.nodes, settings.racks, settings.seed)
    assert run.members("nodes") == sorted(machine.name for machine in machines)
    for machine in machines:
        host = run.hosts[machine.name]
        assert host["node_name"] == machine.name
        assert host["node_rack"] == machine.rack
        assert host["node_config_namespace"] == NAMESPACE
        assert host["node_config_template"] == f"rack-{machine.rack}"
        assert host["node_config_spec"]["nodeName"] == machine.name
        assert host["ansible_host"].count(".") == 3
        assert host["node_config_ready"] is (machine.name != LOST)
        assert machine.name in run.members(f"rack_{machine.rack}")
        assert machine.name in run.members(f"template_rack_{machine.rack}")
    assert len({host["ansible_host"] for host in run.hosts.values()}) == len(machines)
    architectures = {host["node_architecture"] for host in run.hosts.values()}
    assert {f"architecture_{name}" for name in architectures} <= run.groups


def test_a_selector_chooses_and_a_wrong_one_is_refused(
    observed: RunningLab, tmp_path: Path
) -> None:
    selector = "topology.kubernetes.io/zone in (r1, r3)"
    run = run_inventory(tmp_path, kubeconfig=observed.kubeconfig, node_selector=selector)
    assert run.groups & {"rack_r1", "rack_r2", "rack_r3", "rack_r4"} == {"rack_r1", "rack_r3"}
    wrong = run_inventory(tmp_path, kubeconfig=observed.kubeconfig, node_selector="zone in r1")
    assert wrong.returncode != 0
    assert "zone in r1" in wrong.messages or "selector" in wrong.messages


def example(lab: RunningLab, name: str, folder: Path) -> PlaybookRun:
    inventory = ("-i", str(EXAMPLES / "inventory" / "node_configs.yml"))
    path = EXAMPLES / "playbooks" / f"{name}.yml"
    variables = {"K8S_AUTH_KUBECONFIG": lab.kubeconfig}
    return run_playbook(str(path), folder, *inventory, as_json=True, **variables)


def results(run: PlaybookRun, task: str) -> list[t.Any]:
    return [
        item["msg"]
        for result in run.results(task)
        for item in result.get("results", [result])
        if "msg" in item
    ]


def test_the_example_of_hot_inlets_names_the_warmest_and_the_lost(
    observed: RunningLab, tmp_path: Path
) -> None:
    run = example(observed, "hottest_inlets", tmp_path)
    assert run.returncode == 0, run.output
    shown = results(run, "Show the node with the warmest inlet")
    assert len(shown) == observed.settings.racks
    hosts = run_inventory(tmp_path, kubeconfig=observed.kubeconfig).hosts.values()
    for line in shown:
        celsius, name = line.split(" °C at ")
        rack = name.partition("-")[0]
        inlets = [
            host["node_config_readings"]["inletTemp"]["celsius"]
            for host in hosts
            if host["node_rack"] == rack and "inletTemp" in host["node_config_readings"]
        ]
        assert float(celsius) == max(inlets)
    assert results(run, "Name the nodes that were not read") == [LOST]


def test_the_example_of_reserved_cpus_splits_every_node(
    observed: RunningLab, tmp_path: Path
) -> None:
    run = example(observed, "reserve_cpus", tmp_path)
    assert run.returncode == 0, run.output
    shown = results(run, "Show the lines for the kubelet's configuration")
    assert len(shown) == observed.settings.nodes
    for lines in shown:
        assert lines["reservedSystemCPUs"].startswith("0-1,")
        assert lines["forWorkloads"].startswith("2-")
        assert lines["memoryForWorkloads"].endswith("i")
