# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An odd node, metric, curve, namespace, budget or cache state beside good ones."""

from __future__ import annotations

import copy
import json
import random
import tempfile
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from support.examples import each_seed
from support.odd_fleets import CURVE, budget, cache_state, fleet, node
from support.odd_values import bounded, odd_value, spoilt

Json = dict[str, t.Any]

STRATEGIES = ("greedy", "spread", "peaks", "minimize_power")
GOOD = {
    "nodes": node("odd", "b"),
    "node_metrics": {"metadata": {"name": "n3"}, "usage": {"cpu": "2", "memory": "1Gi"}},
    "namespaces": {"metadata": {"name": "odd", "labels": {"team": "y"}}},
    "replica_sets": {
        "metadata": {"name": "odd", "namespace": "shop", "uid": "rs-odd", "annotations": {}},
        "spec": {"replicas": 3},
    },
    "pod_disruption_budgets": {**budget("odd"), "metadata": {"name": "odd", "namespace": "odd"}},
    "rmd_node_states": cache_state("n2"),
    "previous_placements": {"namespace": "shop", "pod": "web-0", "node": "n2"},
}


def placed(given: Json, strategy: str) -> Json:
    """The result; metrics and curves can only be given as a file."""
    parameters = dict(given)
    beside = {part: parameters.pop(part) for part in ("curves", "node_metrics")}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(beside, file)
        file.flush()
        result = place({**parameters, "src": [file.name], "strategy": strategy})
    json.dumps(result, allow_nan=False)
    return result


@each_seed(90)
def test_all_others_are_placed_as_without_it(seed: int) -> None:
    source = random.Random(seed)
    part = source.choice(list(GOOD))
    strategy = source.choice(STRATEGIES)
    given = fleet()
    expected = placed(given, strategy)
    odd = spoilt(source, GOOD[part])
    if part == "node_metrics" and str(10**400) in json.dumps(odd):
        odd = {"metadata": {"name": "n3"}, "usage": "much"}
    items = given.setdefault(part, [])
    items.insert(source.randrange(len(items) + 1), odd)
    with bounded():
        result = placed(given, strategy)
    if not result["findings"]:
        return
    assert len(result["findings"]) == 1
    result["findings"] = []
    assert result == expected


@each_seed(25)
def test_a_node_without_a_usable_curve_is_unpriced(seed: int) -> None:
    source = random.Random(seed)
    strategy = source.choice(STRATEGIES)
    given = fleet()
    expected = placed(given, strategy)
    odd: t.Any = spoilt(source, {"curve": copy.deepcopy(CURVE)}).get("curve", odd_value(source))
    if str(10**400) in json.dumps(odd):
        odd = None
    given["curves"]["n3"] = odd
    with bounded():
        result = placed(given, strategy)
    if not result["findings"]:
        assert "n3" not in result["unpriced"]
        return
    (finding,) = result.pop("findings")
    assert (finding["kind"], finding["name"]) == ("Node", "n3")
    assert finding["field"].startswith("curve")
    del expected["findings"]
    assert result == expected


def test_amounts_of_nodes_at_the_limit_of_kubernetes_are_summed() -> None:
    given = fleet()
    amounts = {"cpu": str(2**62), "memory": str(2**63 - 1), "pods": str(2**62)}
    given["nodes"] += [node(f"huge-{index}", "b", allocatable=amounts) for index in range(20)]
    for strategy in (*STRATEGIES, "optimal"):
        result = placed(given, strategy)
        assert result["unplaced"] == [] and result["findings"] == []
