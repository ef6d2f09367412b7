# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The extender against the rules by which kube-scheduler 1.34 reads an extender's answers.

Source: pkg/scheduler/extender.go, schedule_one.go and apis/config/v1/default_plugins.go, and
staging/src/k8s.io/kube-scheduler/extender/v1/types.go of kubernetes v1.34.2.
"""

from __future__ import annotations

import json
import random
import typing as t

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.extender.answering import Extender
from ansible_collections.wattwise.kube.plugins.module_utils.extender.wire import filter_reply
from support.dockerfile import ROOT
from support.examples import each_seed
from support.extender import Cluster, Json, arguments, linear, node, pod, published, random_fleet

# Plugin weights of the default profile; each score is at most 100.
PLUGIN_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesFit": 1,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
MAX_NODE_SCORE, MAX_EXTENDER_PRIORITY = 100, 10


def filtered(reply: str, offered: list[str]) -> list[str]:
    """HTTPExtender.Filter with nodeCacheCapable: names that were not offered are an error."""
    result = json.loads(reply)
    assert set(result) == {
        *("Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"),
    }
    assert result["Error"] == "" and result["Nodes"] is None
    unknown = [name for name in result["NodeNames"] if name not in offered]
    assert not unknown, f"extender {unknown} were not offered"
    return list(result["NodeNames"])


def prioritized(reply: str, weight: int) -> dict[str, int]:
    """The addition to the sums of the plugins; Go accepts only an integer literal as Score."""
    hosts = json.loads(reply, parse_float=lambda digits: pytest.fail(f"{digits} is no int64"))
    assert all(set(one) == {"Host", "Score"} and type(one["Score"]) is int for one in hosts)
    scale = MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY
    return {one["Host"]: one["Score"] * weight * scale for one in hosts}


def shipped() -> Json:
    text = (ROOT / "operator/config/extender/kube-scheduler.yaml").read_text()
    [extender] = yaml.safe_load(yaml.safe_load(text)["data"]["kube-scheduler.yaml"])["extenders"]
    return t.cast("Json", extender)


@each_seed(20)
def test_every_answer_is_one_that_kube_scheduler_takes(seed: int) -> None:
    chance = random.Random(seed)
    nodes, curves, running = random_fleet(chance, 6)
    names = [one["metadata"]["name"] for one in nodes]
    placements = [
        {"namespace": "default", "pod": f"w{number}", "uid": "", "node": chance.choice(names)}
        for number in range(4)
    ]
    cluster = Cluster().nodes(*nodes).pods(*running)
    cluster.publish(published(curves, {"placements": placements}, allow_power_off=True))
    waiting = [pod(f"w{number}", str(chance.randint(1, 9))) for number in range(4)]
    cluster.pods(*waiting)
    extender = Extender(cluster.state)
    for one in [*waiting, pod("new", str(chance.randint(1, 9)))]:
        offered = chance.sample([*names, "unknown"], chance.randint(1, 7))
        body = arguments(one, offered)
        left = filtered(extender.filter(body), offered)
        # A pod with a node on offer keeps at least one.
        assert left
        sums = prioritized(extender.prioritize(arguments(one, left)), weight=1)
        assert sums.keys() == set(left)
        assert all(0 <= score <= MAX_NODE_SCORE for score in sums.values())


def test_no_node_offered_is_no_error() -> None:
    extender = Extender(Cluster().state)
    assert filtered(extender.filter(arguments(pod("new"), [])), []) == []
    assert prioritized(extender.prioritize(arguments(pod("new"), [])), 1) == {}


def test_a_node_for_waiting_pods_is_no_target_of_preemption() -> None:
    """kube-scheduler would try FailedNodes for evictions without asking the extender again."""
    plan = {"placements": [{"namespace": "default", "pod": "big", "uid": "", "node": "a"}]}
    cluster = Cluster().nodes(node("a"), node("b")).publish(published({"a": linear(1.0)}, plan))
    cluster.pods(pod("big", "8"))
    reply = json.loads(Extender(cluster.state).filter(arguments(pod("new"), ["a", "b"])))
    assert (reply["NodeNames"], reply["FailedNodes"]) == (["b"], {})
    assert list(reply["FailedAndUnresolvableNodes"]) == ["a"]
    reply = json.loads(Extender(cluster.state).filter(arguments(pod("new"), ["a"])))
    assert (reply["NodeNames"], reply["FailedAndUnresolvableNodes"]) == (["a"], {})


def test_one_point_at_the_shipped_weight_outvotes_all_plugins() -> None:
    cluster = Cluster().nodes(*map(node, "abc"))
    cluster.publish(published({"a": linear(5.0), "b": linear(5.01), "c": linear(20.0)}))
    reply = Extender(cluster.state).prioritize(arguments(pod("new"), ["a", "b", "c"]))
    plugins = sum(PLUGIN_WEIGHTS.values()) * MAX_NODE_SCORE
    sums = prioritized(reply, shipped()["weight"])
    assert sums["a"] - sums["b"] > plugins
    # At weight 13 the whole range does; a small difference does not.
    sums = prioritized(reply, 13)
    assert sums["a"] - sums["c"] > plugins > sums["a"] - sums["b"]


def test_the_shipped_configuration_is_one_that_the_extender_answers() -> None:
    given = shipped()
    assert given["nodeCacheCapable"] is True and given["ignorable"] is True
    assert (given["filterVerb"], given["prioritizeVerb"]) == ("filter", "prioritize")
    assert not {"bindVerb", "preemptVerb", "managedResources"} & given.keys()
    # Without a CA, kube-scheduler would check no certificate.
    assert given["enableHTTPS"] and {"caFile", "certFile", "keyFile"} < given["tlsConfig"].keys()


def test_a_body_with_whole_nodes_is_an_error_that_an_ignorable_extender_is_skipped_for() -> None:
    extender = Extender(Cluster().state)
    with pytest.raises(InvalidInput) as refused:
        extender.filter(arguments(pod("new"), None, {"items": [node("a")]}))
    assert json.loads(filter_reply([], {}, str(refused.value)))["Error"]
