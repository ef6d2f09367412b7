# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RmdWorkloads of a cluster against simulated daemons, without an API server."""

from __future__ import annotations

import random
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.daemon.apply import apply_workloads
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.manifests import daemons_of
from lab.rmd.fleet import Crash
from lab.rmd.host import Configuration
from lab.rmd.resctrl import ROOT
from support.rmd import RmdDaemons, rmd_daemons
from support.rmd_cluster import RmdCluster

CACHE = {"max": 2, "min": 2}
NODES = ("n1", "n2", "n3")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RmdDaemons]:
    configurations = {
        "n1": Configuration(pstate=True),
        "n2": Configuration(wire="0.3", debug=False),
        "n3": Configuration(),
    }
    with rmd_daemons(tmp_path_factory.mktemp("rmd"), configurations) as daemons:
        yield daemons


@pytest.fixture
def cluster(running: RmdDaemons) -> Iterator[RmdCluster]:
    yield RmdCluster(running, {name: {"name": name} for name in NODES})
    running.mend()
    for name in running.endpoints:
        resctrl = running[name].hardware.resctrl
        for group in set(resctrl.groups) - {ROOT}:
            resctrl.remove(group)
        running.restart(name)


def stored(cluster: RmdCluster, node: str) -> dict[str, list[str]]:
    workloads = cluster.daemons[node].workloads.values()
    return {item.uuid: list(item.core_ids) for item in workloads}


def states(cluster: RmdCluster, name: str) -> dict[str, t.Any]:
    found: dict[str, t.Any] = cluster.status(name)["workloadStates"]
    return found


def test_a_workload_is_made_on_its_nodes_and_its_status_is_upstreams(cluster: RmdCluster) -> None:
    cluster.put("a", coreIds=["1", "2"], cache=CACHE, nodes=["n1", "n2"])
    result = cluster.run()
    assert (result["changed"], result["errors"]) == (True, [])
    assert states(cluster, "a")["n1"] == {
        "response": "Success: 200", "id": "1", "cosName": "1_2-guarantee", "status": "Successful",
        "coreIds": ["1", "2"], "rdt": {"cache": CACHE},
    }  # fmt: skip
    assert states(cluster, "a")["n2"]["cosName"] == "COS2"
    assert cluster.condition("a") == ("True", "Configured")
    assert cluster.state("n1")["workloads"] == {
        "a": {
            "ID": "1", "Core IDs": "1,2", "Status": "Successful", "Cos Name": "1_2-guarantee",
            "Cache Max": "2", "Cache Min": "2", "Origin": "REST",
        }
    }  # fmt: skip
    assert cluster.state("n1")["longestFreeRun"] == "0:8 1:10"
    assert "workloads" not in cluster.state("n3")


def test_the_document_says_what_each_daemon_holds(cluster: RmdCluster, tmp_path: Path) -> None:
    cluster.put("a", coreIds=["1", "2"], cache=CACHE, nodes=["n1"])
    cluster.give_to_pod("a")
    cluster.daemons.break_it("n2", "rmd-dead")
    path = str(tmp_path / "rmd.json")
    found = cluster.reconcile(client={"min_success": 0.0})
    documents.write(path, "rmd", found.document)
    document = documents.load(path, "rmd")
    assert sorted(document["daemons"]) == ["n1", "n3"]
    [held] = document["daemons"]["n1"]["workloads"]
    assert (held["workload"], held["pod"], held["cpus"]) == ("default/a", "default/p", "1-2")
    shares = document["daemons"]["n1"]["caches"][0]["shares"]
    assert {"first": 9, "count": 2, "use": "held", "pool": "guaranteed", "holders": ["1"]} in shares


def test_a_second_run_writes_nothing_anywhere(cluster: RmdCluster) -> None:
    cluster.put("a", coreIds=["1", "2"], cache=CACHE, nodes=["n1", "n2"])
    cluster.put(
        "b", coreIds=["3"], cache=CACHE, pstate={"ratio": "3.0", "monitoring": "on"}, nodes=["n1"]
    )
    cluster.put("c", allCores=True, reservedCoreIds=["0-1"], policy="gold", nodes=["n3"])
    cluster.run()
    before = cluster.daemons.writes()
    again = cluster.run()
    assert (again["changed"], again["statuses"], cluster.daemons.writes()) == (False, [], before)


def test_check_mode_writes_nothing(cluster: RmdCluster) -> None:
    cluster.put("a", coreIds=["1"], cache=CACHE, nodes=["n1"])
    before = cluster.daemons.writes()
    shown = cluster.run(check=True)
    assert (shown["changed"], shown["diff"][0]["before"]) == (True, {"n1: a": ""})
    assert cluster.daemons.writes() == before


def test_deletion_reaches_every_node_whatever_stands_between(cluster: RmdCluster) -> None:
    cluster.put("a", coreIds=["1"], cache=CACHE, nodes=["n1", "n3"])
    cluster.run()
    cluster.delete("a")
    result = cluster.run()
    assert (result["errors"], result["changed"]) == ([], True)
    assert [stored(cluster, node) for node in NODES] == [{}, {}, {}]
    assert "managed" not in cluster.state("n1")


def test_a_node_that_is_named_no_longer_loses_the_workload_and_its_status(
    cluster: RmdCluster,
) -> None:
    cluster.put("a", coreIds=["1"], cache=CACHE, nodes=["n1", "n3"])
    cluster.run()
    cluster.put("a", coreIds=["1"], cache=CACHE, nodes=["n3"])
    cluster.run()
    assert (stored(cluster, "n1"), list(states(cluster, "a"))) == ({}, ["n3"])


def test_one_bad_node_never_blocks_others(cluster: RmdCluster) -> None:
    cluster.nodes["n4"] = {}
    cluster.daemons.break_it("n1", "rmd-dead")
    cluster.put("a", coreIds=["1"], cache=CACHE, nodes=["nowhere", "n1", "n4", "n3"])
    result = cluster.run()
    found = states(cluster, "a")
    assert found["nowhere"]["response"] == "Failed: there is no node nowhere; correct spec.nodes"
    assert "has no RMD daemon" in found["n4"]["response"]
    assert "cannot connect" in found["n1"]["response"]
    assert found["n3"]["response"] == "Success: 200"
    assert cluster.condition("a") == ("False", "NotFound")
    assert [error["name"] for error in result["errors"]] == ["n1"]
    cluster.daemons.mend()
    cluster.put("a", coreIds=["1"], cache=CACHE, nodes=["n1", "n3"])
    cluster.run()
    assert cluster.condition("a") == ("True", "Configured")


def test_too_few_daemons_fail_the_run_and_keep_its_results(
    cluster: RmdCluster, tmp_path: Path
) -> None:
    for node in ("n1", "n2"):
        cluster.daemons.break_it(node, "rmd-dead")
    cluster.put("a", coreIds=["1"], cache=CACHE, nodes=["n3"])
    found = cluster.reconcile(client={"min_success": 0.5})
    assert str(found.failure).startswith("Only 1 of 3")
    assert stored(cluster, "n3") == {"a": ["1"]}
    documents.write(str(tmp_path / "rmd.json"), "rmd", found.document)


def test_a_lost_daemon_keeps_what_was_read_of_it(cluster: RmdCluster) -> None:
    cluster.put("a", coreIds=["1"], cache=CACHE, nodes=["n1"])
    cluster.run()
    cluster.daemons.break_it("n1", "rmd-dead")
    cluster.run()
    state = cluster.state("n1")
    assert (list(state["workloads"]), state["managed"]) == (["a"], ["a"])
    assert state["conditions"][0]["status"] == "False"
    assert states(cluster, "a")["n1"]["cosName"] == "1-guarantee"


def test_conflicts_are_told_on_both_before_anything_is_written(cluster: RmdCluster) -> None:
    cluster.put("a", coreIds=["1", "2"], cache=CACHE, nodes=["n1"])
    cluster.put("b", coreIds=["2-3"], cache=CACHE, nodes=["n1", "n3"])
    before = cluster.daemons.writes()
    cluster.run()
    assert stored(cluster, "n1") == {}
    for name, other in (("a", "b"), ("b", "a")):
        assert cluster.condition(name, "Conflicting") == ("True", "SharedCpus")
        assert f"CPU 2 is also requested by '{other}'" in states(cluster, name)["n1"]["response"]
    assert cluster.daemons.writes() == before + 1
    assert stored(cluster, "n3") == {"b": ["2-3"]}
    cluster.put("b", coreIds=["3"], cache=CACHE, nodes=["n1"])
    cluster.run()
    assert cluster.condition("a", "Conflicting") == ("False", "NoConflict")
    assert set(stored(cluster, "n1")) == {"a", "b"}


def test_who_has_the_cpu_keeps_it(cluster: RmdCluster) -> None:
    cluster.put("a", coreIds=["1", "2"], cache=CACHE, nodes=["n1"])
    cluster.run()
    cluster.put("b", coreIds=["2"], cache=CACHE, nodes=["n1"])
    cluster.run()
    assert stored(cluster, "n1") == {"a": ["1", "2"]}
    assert cluster.condition("a") == ("True", "Configured")
    assert cluster.condition("a", "Conflicting")[0] == "True"
    assert cluster.condition("b") == ("False", "Conflict")


def test_names_in_two_namespaces_do_not_collide(cluster: RmdCluster) -> None:
    cluster.put("a", coreIds=["1"], cache=CACHE, nodes=["n1"])
    cluster.put("a", "team", coreIds=["2"], cache=CACHE, nodes=["n1"])
    cluster.run()
    assert stored(cluster, "n1") == {"a": ["1"], "team/a": ["2"]}
    cluster.delete("a", "team")
    cluster.run()
    assert stored(cluster, "n1") == {"a": ["1"]}


def test_workloads_of_others_stay(cluster: RmdCluster) -> None:
    foreign = {"name": "theirs", "core_ids": ["9"], "cache": CACHE}
    target = [{"name": "n1", "endpoint": cluster.daemons.endpoint("n1")}]
    apply_workloads({"targets": target, "workload": foreign})
    cluster.put("a", coreIds=["1"], cache=CACHE, nodes=["n1"])
    cluster.run()
    cluster.delete("a")
    cluster.run()
    assert stored(cluster, "n1") == {"theirs": ["9"]}
    assert cluster.state("n1")["workloads"]["theirs"]["Core IDs"] == "9"


def test_nodes_are_selected_together_with_the_configuration_s_labels(cluster: RmdCluster) -> None:
    cluster.nodes = {
        "n1": {"label1": "x", "label2": "x", "label0": "x"},
        "n2": {"label1": "x", "label2": "x"},
        "n3": {"label0": "x", "label1": "x", "label2": "x"},
    }
    cluster.configs = [
        {
            "metadata": {"name": "rmdconfig"},
            "spec": {"rmdNodeSelector": {"label0": "x", "label1": "x"}},
        }
    ]
    cluster.put(
        "a", coreIds=["1"], cache=CACHE, nodes=["n2"], nodeSelector={"label1": "x", "label2": "x"}
    )
    cluster.run()
    assert list(states(cluster, "a")) == ["n1", "n3"]
    del cluster.nodes["n3"]["label2"]
    cluster.run()
    assert (list(states(cluster, "a")), stored(cluster, "n3")) == (["n1"], {})


def test_a_configuration_says_where_daemons_run_and_where_not(cluster: RmdCluster) -> None:
    label = "feature.node.kubernetes.io/cpu-rdt.RDTL3CA"
    cluster.nodes = {"n1": {label: "true"}, "n3": {label: "true"}, "n4": {label: "true"}, "n2": {}}
    config: dict[str, t.Any] = {"metadata": {"name": "rmdconfig", "generation": 1}, "spec": {}}
    cluster.configs = [config]
    cluster.daemons.break_it("n3", "rmd-dead")
    cluster.run()
    [ready] = config["status"]["conditions"]
    assert (ready["status"], config["status"]["nodes"]) == ("False", ["n1", "n3", "n4"])
    assert "n3: cannot connect" in ready["message"]
    assert "n4: the node has no RMD daemon" in ready["message"]
    cluster.daemons.mend()
    del cluster.nodes["n4"]
    cluster.run()
    assert config["status"]["conditions"] == [
        {"type": "Ready", "status": "True", "reason": "Running", "message": "On 2 nodes."}
    ]
    assert cluster.run()["statuses"] == []


def test_the_shapes_of_both_versions_mean_the_same(cluster: RmdCluster) -> None:
    pstate = {"ratio": "1.5", "monitoring": "on"}
    cluster.put("a", coreIds=["1"], cache=CACHE, pstate=pstate, nodes=["n1"])
    cluster.run()
    before = cluster.daemons.writes()
    cluster.put("a", coreIds=["1"], rdt={"cache": CACHE}, plugins={"pstate": pstate}, nodes=["n1"])
    assert cluster.run()["changed"] is False
    assert cluster.daemons.writes() == before
    words = cluster.state("n1")["workloads"]["a"]
    assert (words["P-State Ratio"], words["P-State Monitoring"]) == ("1.500000", "on")


def test_a_refused_workload_is_told_with_what_the_words_mean(cluster: RmdCluster) -> None:
    cluster.put("a", coreIds=["1"], cache={"max": 11, "min": 11}, nodes=["n1"])
    cluster.run(client={"min_success": 1.0})  # the daemon is healthy
    assert states(cluster, "a")["n1"] == {"response": "Fail: Not enough cache left on cache_id 0"}
    assert cluster.condition("a") == ("False", "Refused")
    message = cluster.status("a")["conditions"][0]["message"]
    assert "n1: HTTP 500" in message and "longest run 10" in message


def test_what_cannot_be_understood_is_told_and_left_as_it_is(cluster: RmdCluster) -> None:
    cluster.put("a", coreIds=["1"], cache=CACHE, nodes=["n1"])
    cluster.run()
    cluster.put("a", coreIds=["one"], cache=CACHE, nodes=["n1"])
    cluster.run()
    assert cluster.condition("a") == ("False", "Invalid")
    assert stored(cluster, "n1") == {"a": ["1"]}


@pytest.mark.parametrize("key", ["", "7"])
def test_the_id_in_a_status_is_for_people_only(cluster: RmdCluster, key: str) -> None:
    """Defect 9: upstream sends its PATCH to the id in the status, which may be old or empty."""
    cluster.put("a", coreIds=["1"], cache=CACHE, nodes=["n1"])
    cluster.run()
    states(cluster, "a")["n1"]["id"] = key
    cluster.put("a", coreIds=["1"], cache={"max": 4, "min": 4}, nodes=["n1"])
    assert cluster.run()["errors"] == []
    assert (states(cluster, "a")["n1"]["id"], cluster.condition("a")[0]) == ("1", "True")
    [item] = cluster.daemons["n1"].workloads.values()
    assert (item.cache_max, item.cache_min) == (4, 4)


def test_a_workload_that_names_no_node_says_so(cluster: RmdCluster) -> None:
    cluster.put("a", coreIds=["1"], cache=CACHE)
    cluster.run()
    assert cluster.condition("a") == ("False", "NoNode")


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_a_daemon_that_lost_its_database_gets_everything_again(
    cluster: RmdCluster, node: str
) -> None:
    for number, name in enumerate("abc", 1):
        cluster.put(name, coreIds=[str(number)], cache=CACHE, nodes=[node])
    cluster.run()
    cluster.daemons.restart(node, loses_database=True)
    cluster.put("b", coreIds=["5"], cache={"max": 3, "min": 1}, nodes=[node])
    cluster.delete("c")
    result = cluster.run()
    assert (result["errors"], result["changed"]) == ([], True)
    assert stored(cluster, node) == {"a": ["1"], "b": ["5"]}
    assert len(cluster.daemons[node].hardware.resctrl.groups) == 3
    assert cluster.run()["changed"] is False


def test_orphans_that_fill_a_pool_are_explained(cluster: RmdCluster) -> None:
    cluster.put("a", coreIds=["1"], cache={"max": 10, "min": 10}, nodes=["n1"])
    cluster.run()
    cluster.daemons.restart("n1", loses_database=True)
    cluster.run()
    message = cluster.status("a")["conditions"][0]["message"]
    assert "The daemon lost its database" in message


class Story:
    """RmdWorkloads that are randomly created, changed and deleted, on daemons of v0.2."""

    nodes = NODES[::2]

    def __init__(self, cluster: RmdCluster, seed: int) -> None:
        self.cluster, self.chance = cluster, random.Random(seed)
        self.wanted: dict[str, dict[str, t.Any]] = {}
        cluster.nodes = {name: {} for name in self.nodes}

    def go_on(self) -> None:
        chance = self.chance
        name = chance.choice("abcd")
        if chance.random() < 0.3 and name in self.wanted:
            del self.wanted[name]
            self.cluster.delete(name)
            return
        first = 1 + 2 * "abcd".index(name)
        cores = [str(core) for core in range(first, first + chance.choice([1, 2]))]
        most = chance.choice([0, 1, 2])
        self.wanted[name] = {
            "coreIds": cores,
            "cache": {"max": most, "min": min(most, chance.choice([1, 2]))},
            "nodes": chance.sample(self.nodes, chance.choice([1, 2])),
        }
        self.cluster.put(name, **self.wanted[name])

    def require_the_desired_state(self) -> None:
        """Every workload once, with its CPUs, and no group without a workload."""
        for node in self.nodes:
            here = {key: spec for key, spec in self.wanted.items() if node in spec["nodes"]}
            assert stored(self.cluster, node) == {
                key: spec["coreIds"] for key, spec in here.items()
            }
            workloads = self.cluster.daemons[node].workloads.values()
            assert len(workloads) == len(here)
            groups = set(self.cluster.daemons[node].hardware.resctrl.groups) - {ROOT}
            assert groups == {item.cos_name for item in workloads}

    def require_quiet(self) -> None:
        before = self.cluster.daemons.writes()
        assert (self.cluster.run()["changed"], self.cluster.daemons.writes()) == (False, before)


@pytest.mark.large
def test_daemons_that_restart_at_random_end_in_the_desired_state(cluster: RmdCluster) -> None:
    story = Story(cluster, 4)
    for _run in range(200):
        for node in story.nodes:
            if story.chance.random() < 0.3:
                cluster.daemons.restart(node, loses_database=story.chance.random() < 0.7)
        story.go_on()
        assert cluster.run()["errors"] == []
        story.require_the_desired_state()
    story.require_quiet()


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.large
def test_daemons_that_restart_in_the_middle_of_a_run_are_as_wanted_after_the_next(
    cluster: RmdCluster, seed: int
) -> None:
    story, interrupted = Story(cluster, seed), 0
    stations = [cluster.daemons.fleet.stations[node] for node in story.nodes]
    for _run in range(100):
        story.go_on()
        for station in stations:
            if story.chance.random() < 0.5:
                requests, loses = story.chance.randint(1, 8), story.chance.random() < 0.7
                station.crash = Crash(requests, loses, story.chance.random() < 0.5)
        cluster.run()
        interrupted += any(station.crash is None for station in stations)
        for station in stations:
            station.crash = None
        assert cluster.run()["errors"] == []
        story.require_the_desired_state()
    assert interrupted > 50
    story.require_quiet()


# --- where daemons are ----------------------------------------------------------------------------


def pod(
    node: str,
    ready: bool = True,
    port: int | None = 8081,
    namespace: str = "default",
    **status: t.Any,
) -> dict[str, t.Any]:
    ports = [{"containerPort": port}] if port else []
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {
        "metadata": {"name": f"rmd-{node}", "namespace": namespace},
        "spec": {"nodeName": node, "containers": [{"name": "rmd", "ports": ports}]},
        "status": {"conditions": conditions, **(status or {"podIP": "10.0.0.1"})},
    }


@pytest.mark.parametrize(
    ("given", "endpoint", "problem"),
    [
        (pod("n1"), "http://10.0.0.1:8081", ""),
        (pod("n1", port=8443), "https://10.0.0.1:8443", ""),
        (pod("n1", podIPs=[{"ip": "10.0.0.2"}]), "http://10.0.0.2:8081", ""),
        (pod("n1", podIP="fd00::1"), "http://[fd00::1]:8081", ""),
        (pod("n1", ready=False), "", "is not ready"),
        (pod("n1", port=None), "", "no address or no port"),
        (pod("n1", podIP=""), "", "no address or no port"),
    ],
)
def test_the_address_of_a_daemon_is_that_of_its_pod(
    given: dict[str, t.Any], endpoint: str, problem: str
) -> None:
    daemon = daemons_of([{"metadata": {"name": "n1"}}], [given], {}, "default")["n1"]
    assert daemon.endpoint == endpoint
    assert problem in daemon.problem


def test_endpoints_of_the_inventory_come_first() -> None:
    nodes = [{"metadata": {"name": "n1"}}]
    endpoints = {"n1": "http://x:1", "gone": "http://y:1"}
    found = daemons_of(nodes, [pod("n1", ready=False)], endpoints, "default")
    assert {name: daemon.endpoint for name, daemon in found.items()} == {"n1": "http://x:1"}


def test_a_pod_of_another_namespace_is_no_daemon() -> None:
    """Anyone may give a pod the daemons' label; the first such pod was used for its node."""
    nodes = [{"metadata": {"name": name}} for name in ("n1", "n2")]
    strange = [pod(node, namespace="tenant", podIP="10.6.6.6") for node in ("n1", "n2")]
    found = daemons_of(nodes, [*strange, pod("n1", port=8443)], {}, "default")
    assert {name: daemon.endpoint for name, daemon in found.items()} == {
        "n1": "https://10.0.0.1:8443"
    }


def test_a_node_offers_the_ways_of_its_guaranteed_pools_as_a_number(cluster: RmdCluster) -> None:
    cluster.run()
    assert cluster.ways == {"n1": "20", "n2": "20", "n3": "20"}
    assert cluster.run()["statuses"] == []


def test_a_pods_workload_leaves_the_offer_as_it_is_and_another_does_not(
    cluster: RmdCluster,
) -> None:
    cluster.put("of-a-pod", coreIds=["1", "2"], cache=CACHE, nodes=["n1", "n2"])
    cluster.give_to_pod("of-a-pod")
    cluster.put("of-people", coreIds=["3"], cache={"max": 3, "min": 3}, nodes=["n1"])
    cluster.run()
    cluster.run()
    assert cluster.ways == {"n1": "17", "n2": "20", "n3": "20"}


def test_a_daemon_that_is_away_offers_nothing_until_it_is_back(cluster: RmdCluster) -> None:
    cluster.run()
    cluster.daemons.break_it("n3", "rmd-dead")
    cluster.run()
    assert cluster.ways["n3"] == "0"
    cluster.daemons.mend()
    cluster.run()
    assert cluster.ways["n3"] == "20"
