# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cases from the tests of rmd-operator v0.1.1 and v0.3, and our deviations from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.daemon.apply import apply_workloads
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.daemon.cache import caches_of
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.daemon.plan import plan
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.daemon.workload import (
    body_of,
    stored_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.manifests import (
    daemons_of,
    desired_of_manifest,
    nodes_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.statuses import shown
from lab.rmd.host import Configuration, Host
from support.rmd import RmdDaemons, rmd_daemons
from support.rmd_cluster import RmdCluster

CACHE = {"max": 2, "min": 2}
NODES = ("example-node.com", "example-node-1.com", "example-node-2.com")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RmdCluster]:
    """Every daemon has `rmd-workload-1`, as upstream's fake server lists it."""
    with rmd_daemons(tmp_path / "rmd", list(NODES)) as daemons:
        workload = {"name": "rmd-workload-1", "core_ids": ["0-1"], "cache": CACHE}
        apply_workloads({"targets": daemons.targets, "workload": workload})
        yield RmdCluster(daemons, {name: {} for name in NODES})


def holders(daemons: RmdDaemons, uuid: str) -> list[str]:
    return [
        node
        for node in NODES
        if any(item.uuid == uuid for item in daemons[node].workloads.values())
    ]


# --- controller/rmdworkload -----------------------------------------------------------------------


def test_a_workload_without_nodes_gets_no_state(cluster: RmdCluster) -> None:
    cluster.put("rmd-workload-2", coreIds=["2"], cache=CACHE, nodes=[])
    assert cluster.run()["errors"] == []
    assert "workloadStates" not in cluster.status("rmd-workload-2")
    assert holders(cluster.daemons, "rmd-workload-1") == list(NODES)


def test_a_workload_that_the_daemon_lacks_is_added(cluster: RmdCluster) -> None:
    cluster.put("rmd-workload-2", coreIds=["2"], cache=CACHE, nodes=["example-node.com"])
    cluster.run()
    [state] = cluster.status("rmd-workload-2")["workloadStates"].values()
    assert (state["response"], state["id"], state["cosName"], state["status"]) == (
        "Success: 200", "2", "2-guarantee", "Successful",
    )  # fmt: skip


def test_a_workload_goes_from_nodes_that_are_not_named(cluster: RmdCluster) -> None:
    nodes = ["example-node.com", "example-node-2.com"]
    cluster.put("rmd-workload-1", coreIds=["0-1"], cache=CACHE, nodes=nodes)
    cluster.run()
    states = cluster.status("rmd-workload-1")["workloadStates"]
    assert {node: state["response"] for node, state in states.items()} == dict.fromkeys(
        nodes, "Success: 200"
    )
    assert holders(cluster.daemons, "rmd-workload-1") == nodes


def test_deviation_an_unknown_node_is_a_state_and_no_error_of_the_whole(
    cluster: RmdCluster,
) -> None:
    nodes = ["example-node.com-x", "example-node.com"]
    cluster.put("rmd-workload-1", coreIds=["0-1"], cache=CACHE, nodes=nodes)
    assert cluster.run()["errors"] == []
    states = cluster.status("rmd-workload-1")["workloadStates"]
    assert states["example-node.com-x"]["response"].startswith("Failed: there is no node")
    assert states["example-node.com"]["response"] == "Success: 200"


def test_the_state_is_that_of_the_workload_with_this_uuid(cluster: RmdCluster) -> None:
    for number in (1, 2, 3):
        nodes = [NODES[0]]
        cluster.put(f"rmd-workload-{number}", coreIds=[f"{number}0"], cache=CACHE, nodes=nodes)
    cluster.run()
    [state] = cluster.status("rmd-workload-2")["workloadStates"].values()
    [stored] = [
        item for item in cluster.daemons[NODES[0]].workloads.values() if item.uuid[-1] == "2"
    ]
    assert (state["id"], state["cosName"]) == (stored.id, "20-guarantee")


@pytest.mark.parametrize("endpoint", ["http://127.0.0.x:xxxx", "127.0.0.1", ""])
def test_deviation_an_address_that_is_none_is_named_and_stops_no_other(
    cluster: RmdCluster, endpoint: str
) -> None:
    bad, good = NODES[:2]
    cluster.put("rmd-workload-2", coreIds=["2"], cache=CACHE, nodes=[bad, good])
    cluster.run(endpoints={**cluster.daemons.endpoints, bad: endpoint})
    states = cluster.status("rmd-workload-2")["workloadStates"]
    assert states[good]["response"] == "Success: 200"
    assert states[bad]["response"].startswith("Failed: ")
    assert "Failed to create new http" not in states[bad]["response"]


# --- controller/node: what a node offers ----------------------------------------------------------


@pytest.mark.parametrize("before", [None, "0", "4094"])
def test_deviation_8_the_capacity_follows_the_daemon(
    cluster: RmdCluster, before: str | None
) -> None:
    """Upstream keeps the existing value unless it is 0."""
    cluster.ways = {} if before is None else {NODES[0]: before}
    cluster.run()
    # two caches with ten guaranteed ways each, less the two of a workload without a pod
    assert cluster.ways[NODES[0]] == "18"


@pytest.mark.parametrize("before", ["0", "4094"])
def test_a_daemon_that_is_away_offers_nothing(cluster: RmdCluster, before: str) -> None:
    cluster.ways = {NODES[0]: before}
    cluster.daemons.break_it(NODES[0], "rmd-dead")
    cluster.run()
    assert cluster.ways[NODES[0]] == "0"


# --- rmd: requests, node states, addresses --------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "settings"),
    [
        ({"cache": {"max": 2, "min": 2}}, {"cache": {"max": 2, "min": 2}}),
        ({"cache": {"max": 2, "min": 1}}, {"cache": {"max": 2, "min": 1}}),
        ({"cache": {"max": 1, "min": 1}}, {"cache": {"max": 1, "min": 1}}),
        (
            {"cache": CACHE, "pstate": {"ratio": "1.5", "monitoring": ""}},
            {"cache": CACHE, "pstate": {"ratio": 1.5, "monitoring": "on"}},
        ),
        # The policy alone determines them, so values that the daemon would overwrite are not sent.
        (
            {"cache": CACHE, "policy": "gold", "pstate": {"ratio": "1.5", "monitoring": "on"}},
            {"policy": "gold"},
        ),
    ],
)
def test_what_is_sent(spec: MutableObject, settings: MutableObject) -> None:
    manifest = {
        "metadata": {"name": "rmd-workload-pod-1"},
        "spec": {"coreIds": ["0", "20"], **spec},
    }
    desired = desired_of_manifest(manifest)
    assert body_of(desired.uuid, desired.core_ids, desired.settings, "0.2") == {
        "uuid": "rmd-workload-pod-1", "core_ids": ["0", "20"], **settings,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (
            {"core_ids": ["0", "49"], "status": "Successful"},
            {"ID": "1", "Core IDs": "0,49", "Status": "Successful"},
        ),
        ({"cache": CACHE}, {"ID": "1", "Cache Max": "2", "Cache Min": "2"}),
        (
            {
                "core_ids": ["0", "20"], "cache": CACHE, "policy": "gold",
                "pstate": {"ratio": 1.5, "monitoring": "on"},
            },
            {
                "ID": "1", "Core IDs": "0,20", "Cache Max": "2", "Cache Min": "2",
                "P-State Ratio": "1.500000", "P-State Monitoring": "on", "Policy": "gold",
            },
        ),
        (
            {"rdt": {"cache": CACHE, "mba": {"percentage": 50}}},
            {"ID": "1", "Cache Max": "2", "Cache Min": "2", "MBA Percentage": "50"},
        ),
    ],
)  # fmt: skip
def test_what_a_node_state_shows(document: MutableObject, words: MutableObject) -> None:
    assert shown(stored_of({"id": "1", "uuid": "rmd-workload-a", **document})) == words


@pytest.mark.parametrize(
    ("masks", "count", "upstream"),
    [
        ([], 0, 0),
        (["7ff"], 11, 2047),
        (["7ff", "7ff"], 22, 4094),
        (["7e0", "7e0"], 12, 4032),
        (["0", "7e0"], 6, 2016),
    ],
)
def test_deviation_7_ways_are_counted_and_not_the_value_of_their_mask(
    masks: list[str], count: int, upstream: int
) -> None:
    infos = {
        str(key): {"cache_id": key, "available_ways": mask, "share_cpu_list": ""}
        for key, mask in enumerate(masks)
    }
    caches = caches_of({"Caches": infos})
    assert sum(len(cache.available_ways) for cache in caches) == count
    assert sum(int(mask, 16) for mask in masks) == upstream


@pytest.mark.parametrize(
    ("status", "containers", "endpoint"),
    [
        ({"podIP": "127.0.0.1"}, [{"ports": [{"containerPort": 8081}]}], "http://127.0.0.1:8081"),
        (
            {"podIPs": [{"ip": "127.0.0.1"}]},
            [{"ports": [{"containerPort": 8081}]}],
            "http://127.0.0.1:8081",
        ),
        ({"podIP": "127.0.0.1"}, [], ""),
        ({"podIP": "127.0.0.1"}, [{"ports": []}], ""),
        ({}, [{"ports": [{"containerPort": 8081}]}], ""),
    ],
)
def test_the_address_of_a_daemon(
    status: MutableObject, containers: list[MutableObject], endpoint: str
) -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    pod = {
        "metadata": {"name": "rmd-n", "namespace": "default"},
        "spec": {"nodeName": "n", "containers": containers},
        "status": {**status, **ready},
    }
    found = daemons_of([{"metadata": {"name": "n"}}], [pod], {}, "default")["n"]
    assert found.endpoint == endpoint
    assert ("no address or no port" in found.problem) is not bool(endpoint)


@pytest.mark.parametrize(("port", "scheme"), [(8443, "https"), (8081, "http"), (8080, "http")])
def test_the_port_says_whether_a_daemon_speaks_tls(port: int, scheme: str) -> None:
    pod = {
        "metadata": {"name": "rmd-n", "namespace": "default"},
        "spec": {"nodeName": "n", "containers": [{"ports": [{"containerPort": port}]}]},
        "status": {
            "podIPs": [{"ip": "127.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    found = daemons_of([{"metadata": {"name": "n"}}], [pod], {}, "default")
    assert found["n"].endpoint == f"{scheme}://127.0.0.1:{port}"
    assert daemons_of([{"metadata": {"name": "other"}}], [pod], {}, "default") == {}


# --- v0.3 -----------------------------------------------------------------------------------------


TWO_SOCKETS = ["0-23,48-71", "24-47,72-95"]


@pytest.mark.parametrize(
    ("lists", "spec", "core_ids"),
    [
        (TWO_SOCKETS, {}, "0-95"),
        (TWO_SOCKETS, {"coreIds": ["0", "1"]}, "0-95"),
        (TWO_SOCKETS, {"reservedCoreIds": ["0-9"]}, "10-95"),
        (TWO_SOCKETS, {"reservedCoreIds": ["1-2", "4-7"]}, "0,3,8-95"),
        (["0-10", "11-20"], {}, "0-20"),
        (["0-9,21-29", "10-19,30-39"], {}, "0-19,21-39"),
    ],
)
def test_all_cores(lists: list[str], spec: MutableObject, core_ids: str) -> None:
    infos = {str(n): {"cache_id": n, "share_cpu_list": text} for n, text in enumerate(lists)}
    cpus = frozenset[int]().union(*(cache.cpus for cache in caches_of({"Caches": infos})))
    given = {"allCores": True, "rdt": {"cache": CACHE}, **spec}
    desired = desired_of_manifest({"metadata": {"name": "a"}, "spec": given})
    [step] = plan([], [desired], machine_cpus=cpus)
    assert step.desired is not None
    assert step.desired.core_ids == (core_ids,)


def test_a_workload_s_selector_works_with_that_of_the_configuration() -> None:
    labels = ["label0", "label1", "label2"]
    nodes = [
        {"metadata": {"name": "all", "labels": dict.fromkeys(labels, "x")}},
        {"metadata": {"name": "some", "labels": dict.fromkeys(labels[1:], "x")}},
    ]
    config = {"metadata": {}, "spec": {"rmdNodeSelector": {"label0": "x", "label1": "x"}}}
    workload = {
        "metadata": {"name": "a"},
        "spec": {"nodeSelector": {"label1": "x", "label2": "x"}, "nodes": ["some"]},
    }
    assert nodes_of(workload, nodes, [config]) == ["all"]
    assert nodes_of({"metadata": {}, "spec": {"nodes": ["some"]}}, nodes, [config]) == ["some"]


def test_a_configuration_names_the_nodes_that_have_all_its_labels(cluster: RmdCluster) -> None:
    first, second, third = NODES
    cluster.nodes = {first: {"a": "x", "b": "x"}, second: {"a": "x"}, third: {"a": "x", "b": "y"}}
    labels = {"a": "x", "b": "x"}
    config: MutableObject = {"metadata": {"name": "rmdconfig"}, "spec": {"rmdNodeSelector": labels}}
    cluster.configs = [config]
    cluster.run()
    assert config["status"]["nodes"] == [first]
    del cluster.nodes[first]["b"]
    cluster.run()
    assert "nodes" not in config["status"]
    assert config["status"]["conditions"][0]["reason"] == "NoNode"


def test_deviation_v03_gets_single_cpus_since_it_frees_only_cpu_0_of_a_range(
    tmp_path: Path,
) -> None:
    host = Host({0: tuple(range(8))})
    with rmd_daemons(tmp_path, {"n": Configuration(wire="0.3")}, host) as daemons:
        cluster = RmdCluster(daemons, {"n": {}})
        cluster.put("a", allCores=True, reservedCoreIds=["0-1"], rdt={"cache": CACHE}, nodes=["n"])
        cluster.run()
        [stored] = daemons["n"].workloads.values()
        assert stored.core_ids == ("2", "3", "4", "5", "6", "7")
        cluster.delete("a")
        cluster.run()
        assert list(daemons["n"].hardware.resctrl.groups) == ["."]
