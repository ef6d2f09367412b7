# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An unreadable RmdNodeState, Node or daemon's pod changes nothing for others."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from lab.rmd.host import Configuration
from support.bad_beside_good_rmd import Before, bad_object, daemon_pod, named, of_others, state
from support.examples import each_seed
from support.rmd import rmd_daemons

Json = dict[str, t.Any]
OTHER = "n3"


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Before]:
    folder = tmp_path_factory.mktemp("rmd")
    with rmd_daemons(folder, {"n1": Configuration(), "n2": Configuration()}) as daemons:
        yield Before(daemons)


def without(result: Json, name: str) -> Json:
    """Results for all nodes except the one of this name, and its state."""
    found = of_others(result)
    for part in ("states", "statuses"):
        found[part] = [each for each in found[part] if not named(each).endswith(name)]
    found["errors"] = [each for each in found["errors"] if each["name"] != name]
    del found["daemons"]
    return found


@each_seed(65)
def test_a_bad_state_changes_nothing_for_the_others(before: Before, seed: int) -> None:
    result = before.beside("rmd_node_states", bad_object(seed, state(OTHER)))
    assert without(result, OTHER) == without(before.without, OTHER)


@each_seed(40)
def test_a_bad_node_changes_nothing_for_the_others(before: Before, seed: int) -> None:
    node = {
        "metadata": {"name": OTHER, "uid": "u", "labels": {"rack": "b"}},
        "status": {"capacity": {"intel.com/l3_cache_ways": "3"}, "allocatable": {}},
    }
    bad = bad_object(seed, node)
    result = before.beside("nodes", bad)
    good = {each["metadata"]["name"] for each in before.good["nodes"]}
    mine, others = of_others(result), of_others(before.without)
    mine["statuses"] = [
        each for each in mine["statuses"] if each["kind"] != "Node" or named(each) in good
    ]
    assert mine == others


@each_seed(65)
def test_a_bad_pod_of_a_daemon_changes_nothing_for_the_others(before: Before, seed: int) -> None:
    good = daemon_pod("n1", "127.0.0.1", 8443)  # of n1, whose endpoint the inventory names
    result = before.beside("rmd_pods", bad_object(seed, good))
    assert of_others(result) == of_others(before.without)


@pytest.mark.parametrize(
    ("address", "port"),
    [
        ("127.0.0.1@evil.example", 8443),
        ("evil.example", 8443),
        ("127.0.0.1/..?", 8443),
        ("fe80::1%eth0", 8443),
        ("0.0.0.0", 8443),
        ("127.0.0.1", "8443@evil"),
        ("127.0.0.1", 0),
        ("127.0.0.1", 10**30),
        ("127.0.0.1", True),
        (["127.0.0.1"], 8443),
    ],
)
def test_an_endpoint_that_is_none_is_never_asked(
    before: Before, address: t.Any, port: t.Any
) -> None:
    nodes = [*before.good["nodes"], {"metadata": {"name": OTHER, "uid": "u"}, "status": {}}]
    objects = {**before.good, "nodes": nodes, "rmd_pods": [daemon_pod(OTHER, address, port)]}
    result = before.run(objects)
    [error] = [each for each in result["errors"] if each["name"] == OTHER]
    assert (error["reason"], error["endpoint"]) == ("unreachable", "")
    assert without(result, OTHER) == without(before.without, OTHER)


def test_a_pod_with_the_daemons_label_elsewhere_is_no_daemon(before: Before) -> None:
    pod = daemon_pod(OTHER, "127.0.0.1", 8081)
    pod["metadata"]["namespace"] = "tenant"
    nodes = [*before.good["nodes"], {"metadata": {"name": OTHER, "uid": "u"}, "status": {}}]
    result = before.run({**before.good, "nodes": nodes, "rmd_pods": [pod]})
    assert result["daemons"] == before.without["daemons"]
