# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules between pods, from the pod fields to the answer, with kube-scheduler's meaning.

Sources: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/,
https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/.
"""

from __future__ import annotations

import typing as t
from collections import Counter

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place

Json = dict[str, t.Any]
REQUIRED = "required_during_scheduling_ignored_during_execution"
PREFERRED = "preferred_during_scheduling_ignored_during_execution"
WEB = {"match_labels": {"app": "web"}}


def node(name: str, cores: int = 4, watts: float = 50.0, **fields: t.Any) -> Json:
    """Later nodes cost more, unless specified otherwise."""
    labels = {"kubernetes.io/hostname": name, **fields.pop("labels", {})}
    curve = {"cpu": [0, cores], "watts": [100, 100 + watts]}
    allocatable = {"cpu": str(cores), "pods": "10"}
    return {"name": name, "allocatable": allocatable, "curve": curve, "labels": labels, **fields}


def zones(*names: str) -> list[Json]:
    """A node in each zone; the first is the cheapest."""
    return [
        node(f"n{index}", watts=50.0 + 50 * index, labels={"zone": name} if name else {})
        for index, name in enumerate(names)
    ]


def pod(name: str, app: str = "web", **fields: t.Any) -> Json:
    return {"name": name, "requests": {"cpu": "500m"}, "labels": {"app": app}, **fields}


def affinity(kind: str, *terms: Json) -> Json:
    return {"affinity": {kind: {REQUIRED: list(terms)}}}


def term(key: str = "zone", app: str = "web", **fields: t.Any) -> Json:
    return {"topology_key": key, "label_selector": {"match_labels": {"app": app}}, **fields}


def spread(key: str = "zone", **fields: t.Any) -> Json:
    constraint = {
        "max_skew": 1,
        "topology_key": key,
        "when_unsatisfiable": "DoNotSchedule",
        "label_selector": WEB,
        **fields,
    }
    return {"topology_spread_constraints": [constraint]}


def nodes_of(result: Json) -> dict[str, str]:
    return {entry["pod"]: entry["node"] for entry in result["placements"]}


def per_node(nodes: list[Json], pods: list[Json], **more: t.Any) -> dict[str, int]:
    result = place({"nodes": nodes, "pods": pods, **more})
    return dict(Counter(entry["node"] for entry in result["placements"]))


def reasons(nodes: list[Json], pods: list[Json], **more: t.Any) -> dict[str, int]:
    (unplaced,) = place({"nodes": nodes, "pods": pods, **more})["unplaced"]
    return t.cast("dict[str, int]", unplaced["reasons"])


def running(name: str, on: str, **fields: t.Any) -> Json:
    return pod(name, node_name=on, **fields)


class TestAntiAffinity:
    def test_pods_keep_apart_from_their_own_kind(self) -> None:
        apart = pod("web", count=3, **affinity("pod_anti_affinity", term("zone")))
        assert per_node(zones("a", "a", "b", "c"), [apart]) == {"n0": 1, "n2": 1, "n3": 1}

    def test_one_too_many_waits_and_says_why(self) -> None:
        apart = pod("web", count=3, **affinity("pod_anti_affinity", term("zone")))
        assert reasons(zones("a", "b"), [apart]) == {
            "node(s) didn't match pod anti-affinity rules": 2
        }

    def test_it_holds_for_the_others_too(self) -> None:
        keeper = pod("db", app="db", **affinity("pod_anti_affinity", term("zone", "web")))
        placed = nodes_of(place({"nodes": zones("a", "b"), "pods": [keeper, pod("web")]}))
        assert placed["db"] != placed["web"]
        assert reasons(zones("a"), [pod("web", priority=1), keeper]) == {
            "node(s) didn't match pod anti-affinity rules": 1
        }
        assert reasons(zones("a"), [pod("web"), {**keeper, "priority": 1}]) == {
            "node(s) didn't satisfy existing pods anti-affinity rules": 1
        }

    def test_running_pods_count(self) -> None:
        keeper = pod("db", app="db", **affinity("pod_anti_affinity", term("zone", "web")))
        old = [running("old", "n0")]
        assert nodes_of(place({"nodes": zones("a", "b"), "pods": [keeper], "running": old})) == {
            "db": "n1"
        }

    def test_a_node_without_the_label_is_in_no_domain(self) -> None:
        apart = pod("web", count=3, **affinity("pod_anti_affinity", term("zone")))
        assert per_node(zones("", "b"), [apart]) == {"n0": 3}

    @pytest.mark.parametrize(
        ("field", "separated"),
        [
            ({"namespaces": ["other"]}, True),
            ({"namespace_selector": {}}, True),
            ({"namespace_selector": {"match_labels": {"team": "red"}}}, True),
            ({"namespace_selector": {"match_labels": {"team": "blue"}}}, False),
            ({}, False),
        ],
    )
    def test_namespaces_are_those_of_the_term(self, field: Json, separated: bool) -> None:
        keeper = pod("db", app="db", **affinity("pod_anti_affinity", term("zone", **field)))
        parameters = {
            "nodes": zones("a", "b"),
            "pods": [keeper],
            "running": [running("old", "n0", namespace="other")],
            "namespaces": [
                {"metadata": {"name": "other", "labels": {"team": "red"}}},
                {"metadata": {"name": "default"}},
            ],
        }
        assert nodes_of(place(parameters)) == {"db": "n1" if separated else "n0"}

    def test_a_selector_of_namespaces_needs_their_labels(self) -> None:
        selector: Json = {"namespace_selector": {"match_labels": {"team": "red"}}}
        keeper = pod("db", **affinity("pod_anti_affinity", term("zone", **selector)))
        assert reasons(zones("a"), [keeper]) == {
            "unsupported: spec.affinity.podAntiAffinity.namespaceSelector": 1
        }
        by_name = {"match_labels": {"kubernetes.io/metadata.name": "other"}}
        named = affinity("pod_anti_affinity", term("zone", namespace_selector=by_name))
        assert nodes_of(place({"nodes": zones("a"), "pods": [pod("db", **named)]}))

    def test_match_label_keys_narrow_the_selector(self) -> None:
        narrowed = affinity("pod_anti_affinity", term("zone", match_label_keys=["version"]))
        pods = [
            pod(name, labels={"app": "web", "version": name}, **narrowed) for name in ("v1", "v2")
        ]
        assert per_node(zones("a", "b"), pods) == {"n0": 2}

    def test_mismatch_label_keys_exclude_ones_own_value(self) -> None:
        narrowed = affinity("pod_anti_affinity", term("zone", mismatch_label_keys=["tenant"]))
        pods = [
            pod(name, labels={"app": "web", "tenant": name[0]}, **narrowed)
            for name in ("a1", "a2", "b1")
        ]
        placed = nodes_of(place({"nodes": zones("a", "b"), "pods": pods}))
        assert placed["a1"] == placed["a2"] != placed["b1"]


class TestAffinity:
    def test_pods_go_where_their_peers_run(self) -> None:
        near = pod("cache", app="cache", count=2, **affinity("pod_affinity", term("zone")))
        old = [running("old", "n2")]
        assert per_node(zones("a", "a", "b"), [near], running=old) == {"n2": 2}

    def test_pods_go_where_their_peers_go_and_are_bound_after_them(self) -> None:
        near = pod("a-cache", app="cache", **affinity("pod_affinity", term("zone")))
        web = pod("web", node_selector={"zone": "b"})
        result = place({"nodes": zones("a", "b"), "pods": [near, web]})
        assert [entry["pod"] for entry in result["placements"]] == ["web", "a-cache"]
        assert set(nodes_of(result).values()) == {"n1"}

    def test_the_first_of_a_kind_may_go_anywhere_and_the_others_follow(self) -> None:
        together = pod("web", count=6, **affinity("pod_affinity", term("zone")))
        assert sum(per_node(zones("a", "b"), [together]).values()) == 6
        assert len(per_node(zones("a", "b"), [together])) == 1
        assert len(per_node(zones("a", "b", "a"), [{**together, "count": 12}])) == 2

    def test_who_does_not_match_itself_needs_somebody(self) -> None:
        lonely = pod("cache", app="cache", **affinity("pod_affinity", term("zone")))
        assert reasons(zones("a", "b"), [lonely]) == {"node(s) didn't match pod affinity rules": 2}

    def test_a_peer_counts_only_if_it_meets_all_terms(self) -> None:
        both = affinity("pod_affinity", term("zone"), term("zone", "db"))
        needy = pod("cache", app="cache", **both)
        old = [running("old", "n0"), running("db", "n0", app="db")]
        assert place({"nodes": zones("a"), "pods": [needy], "running": old})["placements"] == []


class TestSpread:
    def test_no_zone_has_more_than_one_above_the_emptiest(self) -> None:
        web = pod("web", count=5, **spread())
        assert sorted(per_node(zones("a", "b", "c"), [web]).values()) == [1, 2, 2]

    def test_what_runs_counts_and_what_is_leaving_does_not(self) -> None:
        old = [
            running("old-0", "n1"),
            running("old-1", "n2", deletion_timestamp="2026-01-01T00:00:00Z"),
        ]
        web = pod("web", count=2, **spread())
        assert per_node(zones("a", "b", "c"), [web], running=old) == {"n0": 1, "n2": 1}

    def test_a_node_without_the_label_takes_none_and_says_so(self) -> None:
        words = "node(s) didn't match pod topology spread constraints"
        web = pod("web", **spread())
        assert reasons(zones(""), [web]) == {f"{words} (missing required label)": 1}
        full = {**zones("a", "b")[1], "allocatable": {"cpu": "0"}}
        assert reasons([zones("a")[0], full], [pod("web", count=2, **spread())]) == {
            words: 1,
            "Insufficient cpu": 1,
        }

    def test_too_few_domains_count_from_zero(self) -> None:
        web = pod("web", count=3, **spread(min_domains=3))
        assert per_node(zones("a", "b"), [web]) == {"n0": 1, "n1": 1}

    def test_nodes_that_the_pod_may_not_use_count_by_policy(self) -> None:
        selector: Json = {"node_selector": {"disk": "ssd"}}
        nodes = zones("a", "b")
        nodes[0]["labels"]["disk"] = "ssd"
        honoring = pod("web", count=2, **spread(), **selector)
        ignoring = pod("web", count=2, **spread(node_affinity_policy="Ignore"), **selector)
        assert per_node(nodes, [honoring]) == {"n0": 2}
        assert per_node(nodes, [ignoring]) == {"n0": 1}

    def test_tainted_nodes_count_by_policy(self) -> None:
        nodes = zones("a", "b")
        nodes[1]["taints"] = [{"key": "gpu", "effect": "NoSchedule"}]
        assert per_node(nodes, [pod("web", count=2, **spread())]) == {"n0": 1}
        honoring = pod("web", count=2, **spread(node_taints_policy="Honor"))
        assert per_node(nodes, [honoring]) == {"n0": 2}

    def test_each_revision_spreads_by_itself_with_match_label_keys(self) -> None:
        old = [running(f"old-{n}", "n0", labels={"app": "web", "rev": "1"}) for n in range(2)]
        new = pod(
            "web", count=2, labels={"app": "web", "rev": "2"}, **spread(match_label_keys=["rev"])
        )
        assert per_node(zones("a", "b"), [new], running=old) == {"n0": 1, "n1": 1}

    def test_a_wish_to_spread_is_weighed_against_watts(self) -> None:
        web = pod("web", count=4, **spread(when_unsatisfiable="ScheduleAnyway"))
        nodes = zones("a", "b")
        assert per_node(nodes, [web], preference_watts=100.0) == {"n0": 2, "n1": 2}
        assert per_node(nodes, [web], preference_watts=0.0) == {"n0": 4}


class TestHostPorts:
    def port(self, name: str, **port: t.Any) -> Json:
        container = {"name": "main", "ports": [{"container_port": 80, **port}]}
        return pod(name, containers=[container])

    def test_a_port_is_taken_once_on_a_node(self) -> None:
        pods = [self.port(f"web-{n}", host_port=8080) for n in range(3)]
        words = "node(s) didn't have free ports for the requested pod ports"
        assert reasons(zones("a", "b"), pods) == {words: 2}

    def test_running_pods_hold_their_ports(self) -> None:
        old = [{**self.port("old", host_port=8080), "node_name": "n0"}]
        parameters = {"nodes": zones("a", "b"), "running": old}
        assert nodes_of(place({**parameters, "pods": [self.port("web", host_port=8080)]})) == {
            "web": "n1"
        }

    @pytest.mark.parametrize(
        ("first", "second", "together"),
        [
            ({"host_port": 80}, {"host_port": 80, "protocol": "UDP"}, True),
            ({"host_port": 80}, {"host_port": 81}, True),
            ({"host_port": 80, "host_ip": "10.0.0.1"}, {"host_port": 80}, False),
            (
                {"host_port": 80, "host_ip": "10.0.0.1"},
                {"host_port": 80, "host_ip": "10.0.0.2"},
                True,
            ),
        ],
    )
    def test_ports_differ_by_protocol_and_address(
        self, first: Json, second: Json, together: bool
    ) -> None:
        pods = [self.port("one", **first), self.port("two", **second)]
        assert (per_node(zones("a", "b"), pods) == {"n0": 2}) == together

    def test_on_the_host_network_every_port_is_one_of_the_node(self) -> None:
        pods = [{**self.port(f"web-{n}"), "host_network": True} for n in range(2)]
        assert per_node(zones("a", "b"), pods) == {"n0": 1, "n1": 1}
        assert per_node(zones("a", "b"), [self.port(f"web-{n}") for n in range(2)]) == {"n0": 2}


class TestGangs:
    LABELS: t.ClassVar[Json] = {"labels": {"scheduling.x-k8s.io/pod-group": "job"}}

    def test_all_are_placed_or_none(self) -> None:
        gang = pod("job", count=9, **self.LABELS)
        alone = pod("web", count=3)
        result = place({"nodes": zones("a"), "pods": [gang, alone]})
        assert set(nodes_of(result)) == {"web-0", "web-1", "web-2"}
        reason = result["unplaced"][0]["reasons"]
        assert reason == {"node(s) could not take all pods of the pod group": 1}
        assert len(nodes_of(place({"nodes": zones("a", "b"), "pods": [gang, alone]}))) == 12

    def test_one_that_cannot_be_understood_keeps_all(self) -> None:
        odd = pod("job-odd", **self.LABELS, resource_claims=[{"name": "gpu"}])
        result = place({"nodes": zones("a"), "pods": [pod("job", count=2, **self.LABELS), odd]})
        assert result["placements"] == []

    def test_groups_of_two_namespaces_are_two(self) -> None:
        small = pod("job", count=2, namespace="one", **self.LABELS)
        large = pod("job", count=20, namespace="two", **self.LABELS)
        assert len(place({"nodes": zones("a"), "pods": [small, large]})["placements"]) == 2


class TestPreferences:
    def test_a_preferred_node_is_worth_some_watts(self) -> None:
        expression = {"key": "zone", "operator": "In", "values": ["b"]}
        preferred_term = {"weight": 100, "preference": {"match_expressions": [expression]}}
        web = pod("web", affinity={"node_affinity": {PREFERRED: [preferred_term]}})
        # On n1 the pod needs 5 W more: 0.4 cores at 12.5 W each.
        for worth, chosen in ((4.9, "n0"), (5.1, "n1")):
            result = place({"nodes": zones("a", "b"), "pods": [web], "preference_watts": worth})
            assert nodes_of(result) == {"web": chosen}
            assert result["preference_watts"] == (worth if chosen == "n0" else 0.0)

    def test_prefer_no_schedule_is_a_wish(self) -> None:
        nodes = zones("a", "b")
        nodes[0]["taints"] = [{"key": "old", "effect": "PreferNoSchedule"}]
        web = pod("web")
        assert per_node(nodes, [web], preference_watts=6.0) == {"n1": 1}
        tolerant = pod("web", tolerations=[{"key": "old", "operator": "Exists"}])
        assert per_node(nodes, [tolerant], preference_watts=6.0) == {"n0": 1}

    def test_a_wish_for_a_running_neighbour(self) -> None:
        for kind, chosen in (("pod_affinity", "n1"), ("pod_anti_affinity", "n0")):
            preferred_term = {"weight": 50, "pod_affinity_term": term("zone", "db")}
            web = pod("web", affinity={kind: {PREFERRED: [preferred_term]}})
            old = [running("db", "n1", app="db")]
            assert per_node(zones("a", "b"), [web], running=old, preference_watts=12.0) == {
                chosen: 1
            }

    def test_a_wish_to_keep_apart_from_ones_own_kind(self) -> None:
        preferred_term = {"weight": 100, "pod_affinity_term": term("kubernetes.io/hostname")}
        web = pod("web", count=2, affinity={"pod_anti_affinity": {PREFERRED: [preferred_term]}})
        assert per_node(zones("a", "b"), [web], preference_watts=6.0) == {"n0": 1, "n1": 1}
        assert per_node(zones("a", "b"), [web], preference_watts=4.0) == {"n0": 2}


def test_labels_that_no_rule_names_leave_pods_interchangeable() -> None:
    pods = [pod(f"web-{n}", app=f"app-{n}") for n in range(4)]
    apart = pod("keeper", app="keeper", **affinity("pod_anti_affinity", term("zone", "nobody")))
    result = place({"nodes": zones("a", "b"), "pods": [*pods, apart]})
    assert len(result["placements"]) == 5 and result["proven"]


@pytest.mark.parametrize(
    ("fields", "field", "problem"),
    [
        (spread(max_skew=0), "spec.topologySpreadConstraints[0].maxSkew", "0 is not a whole"),
        (spread(topology_key=""), "spec.topologySpreadConstraints[0].topologyKey", "a text"),
        (
            spread(label_selector={"app": "web"}),
            "spec.topologySpreadConstraints[0].labelSelector",
            "'app' is not part of a label selector",
        ),
        (
            affinity("pod_affinity", {"label_selector": WEB}),
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
            ".topologyKey",
            "a text",
        ),
        (
            {"affinity": {"node_affinity": {PREFERRED: [{"weight": 0, "preference": {}}]}}},
            "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight",
            "0 is not a whole number from 1 to 100",
        ),
        (
            {"containers": [{"name": "a", "ports": [{"host_port": "http"}]}]},
            "spec.containers[0].ports[0].hostPort",
            "'http' is not a whole number from 1 to 65535",
        ),
    ],
)
def test_what_no_api_server_would_accept_is_named(fields: Json, field: str, problem: str) -> None:
    result = place({"nodes": zones("a"), "pods": [pod("web", **fields)]})
    (finding,) = result["findings"]
    assert finding["field"] == field and problem in finding["problem"]
    assert list(result["unplaced"][0]["reasons"]) == [f"invalid: {field}"]
