# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups of nodes: each supported node gets exactly one collector, and no other node gets any."""

from __future__ import annotations

import json
import random
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.groups import (
    MAX_TERMS,
    group,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.nodes import judge_all
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.facts import (
    HwmonSensor,
    NodeFacts,
    RaplZone,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.labels import (
    METER_LABEL,
    REASONS_ANNOTATION,
    SUPPORTED_LABEL,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.node_objects import (
    PROBE_ANNOTATION,
)
from support.examples import each_seed
from support.kepler_systems import IMAGE, judged, labels_of, node, selected_by, system
from support.odd_values import bounded, spoilt

Json = dict[str, t.Any]

ZONE = RaplZone("intel-rapl:0", "package-0", 262143328850, True)
SENSOR = HwmonSensor("hwmon0/power1_input", "xgene_hwmon", "CPU power", "power", "component", True)


def probed(**facts: t.Any) -> dict[str, str]:
    """The annotation of a discovery pod."""
    found = NodeFacts("host", "amd64", virtualization="none", **facts)
    return {PROBE_ANNOTATION: json.dumps(found.as_dict())}


def test_nodes_are_grouped_by_architecture_meter_and_pool() -> None:
    wanted = system(pools=[{"name": "fast", "node_selector": {"pool": "fast"}}])
    _nodes, groups = judged(
        wanted,
        [
            node("a"),
            node("b", labels=labels_of("rapl")),
            node("c", labels={"pool": "fast"}),
            node("d", "arm64", labels=labels_of("hwmon")),
            node("e"),
        ],
    )
    assert [(each.name, each.nodes) for each in groups] == [
        ("amd64-rapl", ("b",)),
        ("amd64-rapl-fast.named", ("c",)),
        ("amd64-rapl.named", ("a", "e")),
        ("arm64-hwmon", ("d",)),
    ]


@pytest.mark.parametrize(
    ("given", "spec", "reason"),
    [
        (node("n", metal=False), {}, "virtual machine"),
        (node("n", "riscv64"), {}, "name an image for riscv64 in image.byArchitecture"),
        (node("n", "s390x"), {"version": "0.11.4"}, "published only for amd64, arm64"),
        (node("n", "../../etc"), {}, "is none that an image can have"),
        (node("n", labels=labels_of("rapl", supported=False)), {}, "its labels say so"),
        (
            node(
                "n",
                labels=labels_of("none", supported=False),
                annotations={REASONS_ANNOTATION: "no zones"},
            ),
            {},
            "no zones",
        ),
        (node("n", labels=labels_of("model")), {}, "which Kepler 0.11.4 does not have"),
        (node("n", labels=labels_of("redfish")), {}, "which Kepler 0.11.4 does not have"),
        (
            node("n", labels=labels_of("hwmon")),
            {"version": "0.11.0"},
            "Kepler 0.11.0 does not have",
        ),
        (node("n", labels=labels_of("wood")), {}, "do not come from the probe; remove them"),
        (node("n", annotations={PROBE_ANNOTATION: "{"}), {}, "it holds no facts of a probe"),
        (node("n"), {"collector": {"meter": "hwmon"}}, "but only rapl is known"),
        (
            node("n", annotations=probed(rapl_zones=(ZONE,), hwmon_sensors=())),
            {"collector": {"meter": "hwmon"}},
            "the meter hwmon is requested, but the probe found no readable one",
        ),
    ],
)
def test_a_node_that_cannot_be_metered_is_left_out_with_the_reason(
    given: Json, spec: Json, reason: str
) -> None:
    [found], groups = judged(system(**spec), [given])
    assert reason in found.reason
    assert not groups


@pytest.mark.parametrize(
    ("given", "spec", "meter"),
    [
        (node("n", "s390x"), {"version": "0.7.12"}, "model"),
        (
            node("n", "riscv64", labels=labels_of("hwmon")),
            {"image": {**IMAGE, "by_architecture": [{"architecture": "riscv64", "tag": "v1"}]}},
            "hwmon",
        ),
        (
            node("n", labels=labels_of("redfish")),
            {"redfish": {"enabled": True, "fake_cpu_meter": True}},
            "redfish",
        ),
        (node("n", annotations=probed(rapl_zones=(ZONE,), hwmon_sensors=(SENSOR,))), {}, "rapl"),
        (
            node("n", annotations=probed(rapl_zones=(ZONE,), hwmon_sensors=(SENSOR,))),
            {"collector": {"meter": "hwmon"}},
            "hwmon",
        ),
    ],
)
def test_a_node_has_the_best_meter_or_the_one_that_is_asked_for(
    given: Json, spec: Json, meter: str
) -> None:
    [found], _groups = judged(system(**spec), [given])
    assert (found.reason, found.meter) == ("", meter)


@pytest.mark.parametrize("name", ["../../etc", "a b", "", "x" * 300, None])
def test_a_node_whose_name_is_none_is_told_and_in_no_group(name: t.Any) -> None:
    bad = node("bad", labels=labels_of("rapl"))
    bad["metadata"]["name"] = name
    found, findings = judge_all(system(), [bad, node("good")])
    assert [each.name for each in found] == ["good"] and len(findings) == 1
    [one] = group(system(), found)
    assert one.nodes == ("good",)


def test_a_node_of_two_pools_is_left_out_and_stops_no_other() -> None:
    pools = [{"name": name, "node_selector": {name: "yes"}} for name in ("a", "b")]
    found, groups = judged(
        system(pools=pools),
        [node("both", labels={"a": "yes", "b": "yes"}), node("one", labels={"a": "yes"})],
    )
    assert found[0].reason == "the pools a and b all select the node; give it labels of one"
    assert [each.nodes for each in groups] == [("one",)]


def test_a_node_that_is_labelled_later_is_of_the_group_that_the_labels_tell() -> None:
    wanted = system(pools=[{"name": "fast", "node_selector": {"pool": "fast"}}])
    rapl = labels_of("rapl")
    _nodes, groups = judged(
        wanted,
        [node("a", labels=rapl), node("b", labels={**rapl, "pool": "fast"}), node("new")],
    )
    later = {"kubernetes.io/arch": "amd64", **rapl}
    for labels, name in (
        ({"kubernetes.io/arch": "amd64"}, "amd64-rapl.named"),
        (later, "amd64-rapl"),
        ({**later, "pool": "fast"}, "amd64-rapl-fast"),
    ):
        found = [each.name for each in groups if selected_by(each.terms, "new", labels)]
        assert found == [name]


def test_no_node_changes_the_affinity_of_a_group_that_labels_describe() -> None:
    wanted = system(
        collector={"meter": "rapl"},
        pools=[
            {"name": name, "node_selector": {"pool": "own", name: "yes"}} for name in ("x", "y")
        ],
    )
    zoned = probed(rapl_zones=(ZONE,), hwmon_sensors=(SENSOR,))
    steady = [node("a", labels=labels_of("rapl")), node("b", labels=labels_of("rapl"))]
    before = judged(wanted, steady)[1]
    for other in (
        node("new"),
        node("new", labels=labels_of("rapl")),
        node("new", labels={**labels_of("rapl"), "x": "yes", "pool": "own"}),
        node("new", labels={**labels_of("rapl"), "x": "yes", "y": "yes", "pool": "own"}),
        node("new", labels={**labels_of("rapl"), "kubernetes.io/arch": "arm64"}),
        node("new", labels={**labels_of("rapl"), "kubernetes.io/arch": "../.."}),
        node("new", labels=labels_of("hwmon"), annotations=zoned),
        node("new", labels=labels_of("rapl"), annotations={PROBE_ANNOTATION: "{"}),
        node("new", labels=labels_of("rapl", supported=False), annotations=zoned),
    ):
        after = judged(wanted, [steady[0], other, steady[1]])[1]
        [terms] = [each.terms for each in after if each.name == "amd64-rapl"]
        assert terms == before[0].terms, other


def test_many_pools_of_several_labels_are_told_apart_by_names() -> None:
    pools = [
        {"name": f"p{number}", "node_selector": {f"x{number}": "1", f"y{number}": "1"}}
        for number in range(6)
    ]
    for count, name in ((5, "amd64-rapl"), (6, "amd64-rapl.named")):
        _nodes, groups = judged(system(pools=pools[:count]), [node("a", labels=labels_of("rapl"))])
        assert [(each.name, len(each.terms)) for each in groups] == [
            (name, 1 if count == 6 else MAX_TERMS)
        ]


def a_fleet(source: random.Random) -> tuple[Json, list[Json]]:
    """A system with pools that may overlap, and nodes whose labels may lie."""
    pools: list[Json] = []
    for name in "abc"[: source.randrange(4)]:
        selector = {
            source.choice("xyz"): source.choice("12") for _n in range(source.choice([1, 2]))
        }
        if selector not in [pool["node_selector"] for pool in pools]:
            pools.append({"name": name, "node_selector": selector})
    nodes: list[Json] = []
    for number in range(source.randrange(1, 30)):
        labels = {key: source.choice("12") for key in "xyz" if source.random() < 0.5}
        if source.random() < 0.6:
            meter = source.choice(["rapl", "hwmon", "redfish", "none", "odd"])
            labels |= {METER_LABEL: meter, SUPPORTED_LABEL: source.choice(["true", "false", "x"])}
        made = node(
            f"n{number}",
            source.choice(["amd64", "arm64", "s390x"]),
            metal=source.random() < 0.7,
            labels=labels,
        )
        if source.random() < 0.2:
            made["metadata"]["labels"]["kubernetes.io/arch"] = source.choice(["amd64", "arm64"])
        nodes.append(made)
    return {"pools": pools}, nodes


@each_seed(200)
def test_each_supported_node_is_in_exactly_one_group(seed: int) -> None:
    spec, nodes = a_fleet(random.Random(seed))
    found, groups = judged(system(**spec), nodes)
    assert len(found) == len(nodes)
    for each in found:
        chosen = [one for one in groups if selected_by(one.terms, each.name, each.labels)]
        if each.reason:
            assert not chosen, each
        else:
            [one] = chosen
            assert each.name in one.nodes
            assert (one.architecture, one.meter, one.pool) == (
                each.architecture,
                each.meter,
                each.pool,
            )


@each_seed(150)
def test_a_bad_node_beside_good_ones_changes_nothing_for_them(seed: int) -> None:
    source = random.Random(seed)
    good = [node("a"), node("b", "arm64", labels=labels_of("hwmon"))]
    bad = spoilt(source, node("c", labels=labels_of("rapl"), annotations=probed(rapl_zones=())))
    wanted = system()
    before, _none = judge_all(wanted, good)
    with bounded():
        after, findings = judge_all(wanted, [*good, bad])
        groups = group(wanted, after)
    assert [each for each in after if each.name in ("a", "b")] == before
    names = {each.name for each in after} - {"a", "b"}
    assert len(findings) + len(names) <= 1
    for each in groups:
        assert {"a", "b"} & set(each.nodes) or names & set(each.nodes)


ZONES = (ZONE, RaplZone("intel-rapl:0:0", "dram", 1, True))
DIES = tuple(RaplZone(f"intel-rapl:{die}", f"package-0-die-{die}", 1, True) for die in (0, 1))


@pytest.mark.parametrize("labels", [{}, labels_of("rapl")])
@pytest.mark.parametrize(
    ("zones", "wanted", "reason", "remark"),
    [
        (ZONES, ["package"], "", ""),
        (ZONES, ["psys"], "rapl.zones names psys, but the node has only dram, package", ""),
        (ZONES, ["package", "psys"], "", "rapl.zones names psys, but the node has only dram, pack"),
        (
            DIES,
            ["package"],
            "rapl.zones names package, but the node has only package-0-die-0, p",
            "",
        ),
        (DIES, ["package-0-die-0", "package-0-die-1"], "", ""),
    ],
)
def test_zones_that_a_node_lacks_are_told(
    labels: Json, zones: tuple[RaplZone, ...], wanted: list[str], reason: str, remark: str
) -> None:
    one = node("n", labels=labels, annotations=probed(rapl_zones=zones, hwmon_sensors=()))
    more = {"rapl": {"zones": wanted}}
    [found], groups = judged(system(collector={"additional_config": more}), [one])
    assert found.reason.startswith(reason) and bool(found.reason) == bool(reason)
    assert found.remark.startswith(remark) and bool(found.remark) == bool(remark)
    assert bool(groups) != bool(reason)
