# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Curves from published measurements: the table, the match, and the savings."""

from __future__ import annotations

import csv
import datetime
import json
import random
import statistics
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.inference.curve_sources import (
    contradictions,
    in_order,
    matches,
)
from ansible_collections.wattwise.kube.plugins.module_utils.inference.curves import (
    PowerCurve,
    PowerCurves,
)
from ansible_collections.wattwise.kube.plugins.module_utils.inference.nodes import NodeFacts
from ansible_collections.wattwise.kube.plugins.module_utils.inference.published_curves import (
    published_curves,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.readings import (
    Reading,
    Value,
    readings_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.placement import place
from ansible_collections.wattwise.kube.plugins.module_utils.published.curves import (
    Published,
    Row,
    System,
    match,
    table,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curve
from lab.machines import SERVER_TYPES, Machine, build_machines
from lab.physics import hidden_facts, truth
from support.examples import each_seed
from support.odd_values import bounded, odd_value
from support.published_curves import without_the_lab_s
from support.wao import ROOT

Json = dict[str, t.Any]
NOON = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
TYPE = "node.kubernetes.io/instance-type"
# Manufacturers as named by the lab's BMCs.
MAKERS = {"idrac9": "Dell Inc.", "idrac10": "Dell Inc.", "hpe": "HPE", "lenovo": "Lenovo"}


def node(capacity: float = 64.0, labels: Json | None = None) -> NodeFacts:
    given = {f"wattwise.github.io/{key}": value for key, value in (labels or {}).items()}
    return NodeFacts("n1", capacity, given)


def curve_of(facts: NodeFacts, told: Json | None = None) -> Json | str:
    found = published_curves({"n1": facts}, (), {"n1": Reading(system=told or {})}, TYPE)
    assert not found.findings
    return found.curves["n1"].as_document() if found.curves else found.lacking["n1"]


def evidence(facts: NodeFacts, told: Json | None = None) -> Json:
    curve = curve_of(facts, told)
    assert isinstance(curve, dict), curve
    found: Json = curve["published"]
    return found


def test_the_table_has_the_medians_of_the_published_regressions() -> None:
    rows: dict[tuple[str, int, int], list[list[float]]] = {}
    with (ROOT / "lab/data/server_power_curves.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = (row["processor"], int(float(row["chips"])), int(float(row["cores"])))
            watts = [float(row[f"watts_{percent}"]) for percent in range(0, 101, 10)]
            rows.setdefault(key, []).append(watts)
    expected = [
        Row(
            *key,
            tuple(round(statistics.median(column), 1) for column in zip(*rows[key], strict=True)),
        )
        for key in sorted(rows)
    ]
    assert list(table()) == expected


def test_watts_of_the_table_never_fall() -> None:
    for row in table():
        assert list(row.watts) == sorted(row.watts) and len(row.watts) == 11


def test_a_measured_processor_has_its_measurement_over_the_capacity_of_the_node() -> None:
    told = {"processor": "AMD EPYC 7702P 64-Core Processor", "sockets": 1, "cores": 64}
    curve = curve_of(node(128.0), {"manufacturer": "Dell Inc.", "model": "PowerEdge R6515", **told})
    [row] = [row for row in table() if row.processor == "amd_epyc_7702p"]
    assert isinstance(curve, dict)
    assert (curve["cpu"][0], curve["cpu"][-1], tuple(curve["watts"])) == (0.0, 128.0, row.watts)
    assert curve["published"] == {
        "match": "processor",
        "of": ["1 x amd_epyc_7702p, 64 cores"],
        "scale": 1.0,
        "generations": 0,
        "server": "Dell Inc. PowerEdge R6515 with AMD EPYC 7702P 64-Core Processor",
        "told_by": "Redfish",
    }


@pytest.mark.parametrize(
    ("system", "cores", "by", "generations"),
    [
        (System(processor="AMD EPYC 7702P", sockets=2, cores=128), 128, "processor", 0),
        (System(processor="AMD EPYC 7713P 64-Core Processor"), 128, "series", 0),
        (System(processor="Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", sockets=2), 128, "series", 0),
        (System(processor="AMD EPYC 9965 192-Core Processor", cores=192), 192, "generation", 1),
        (System("Dell Inc.", "PowerEdge R650"), 96, "model", 0),
        (System("HPE", "ProLiant DL385 Gen10 Plus v2"), 128, "model", 0),
        (System("Lenovo", "ThinkSystem SR650 V3 -[7D76CTO1WW]-"), 128, "model", 0),
        (System(processor="Ampere(R) Altra(R) Processor Q80-30"), 80, "series", 0),
    ],
)
def test_the_match_says_how_near_it_is(
    system: System, cores: float, by: str, generations: int
) -> None:
    found = match(system, cores)
    assert isinstance(found, Published)
    assert (found.match, found.generations) == (by, generations)
    assert list(found.watts) == sorted(found.watts)


@pytest.mark.parametrize(
    ("system", "words"),
    [
        (
            System("HP", "ProLiant DL380p Gen8", "Hygon C86 7185 32-core Processor"),
            "its processor is of no measured series",
        ),
        (System("Dell Inc.", "PowerEdge R650", "AMD EPYC"), "those of its model are others"),
        (System("Dell Inc.", "PowerEdge R6525", "Intel(R) Xeon(R) Processor"), "are others"),
        (System("Lenovo", "ThinkSystem SR650", "ARM Neoverse"), "are others"),
        # One core is too few for any EPYC, and no reason to take the server's Xeons.
        (System("Dell Inc.", "PowerEdge R650", "AMD EPYC 7V12", 1, 1), "is near enough to Dell"),
    ],
)
def test_a_known_processor_is_never_replaced_by_those_of_the_server_s_model(
    system: System, words: str
) -> None:
    found = match(system, 32)
    assert isinstance(found, str) and words in found


@pytest.mark.parametrize(
    ("system", "by"),
    [
        (System("Dell Inc.", "PowerEdge R650", "AMD EPYC 7V12", 2, 128), "series"),
        (System("HPE", "ProLiant DL385 Gen10", "Intel(R) Xeon(R) Gold 6230R", 2, 52), "series"),
        # Names that tell no model leave the server's.
        (System("Dell Inc.", "PowerEdge R650", "Intel(R) Xeon(R) CPU", 2, 64), "model"),
        (System("Dell Inc.", "PowerEdge R650", "Genuine Intel(R) CPU 0000%@", 2, 64), "model"),
        (System("Dell Inc.", "PowerEdge R650", "Central Processor", 2, 64), "model"),
        (System("Dell Inc.", "PowerEdge R650", "CPU 1", 2, 64), "model"),
        (System("HPE", "ProLiant RL300 Gen11", "", 1, 80), "model"),
    ],
)
def test_a_processor_goes_before_the_server_s_model(system: System, by: str) -> None:
    found = match(system, 128)
    assert isinstance(found, Published) and found.match == by


def test_more_cores_of_the_same_processor_are_scaled_and_idle_watts_less() -> None:
    one = match(System(processor="AMD EPYC 7702P", cores=64), 128)
    two = match(System(processor="AMD EPYC 7702P", cores=128), 256)
    assert isinstance(one, Published) and isinstance(two, Published)
    assert two.scale == 2.0
    assert two.watts[-1] - two.watts[0] == pytest.approx(2 * (one.watts[-1] - one.watts[0]))
    assert one.watts[0] < two.watts[0] < 2 * one.watts[0]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (None, "neither a BMC nor a label states"),
        (
            {"model": "PowerEdge", "manufacturer": "Dell Inc."},
            "no published measurement is of Dell",
        ),
        ({"processor": "Intel Xeon"}, "no published measurement is of"),
        ({"processor": "Loongson 3C5000"}, "no published measurement is of"),
        # Two thousand cores of a processor whose largest server has 192.
        ({"processor": "AMD EPYC 9654", "cores": 2000}, "is near enough to AMD EPYC 9654 of 2000"),
    ],
)
def test_a_server_that_matches_nothing_has_no_curve_and_a_reason(
    told: Json | None, words: str
) -> None:
    lacking = curve_of(node(), told)
    assert isinstance(lacking, str) and words in lacking


def test_labels_go_before_the_bmc_and_the_label_of_the_type_comes_last() -> None:
    told = {"processor": "AMD EPYC 7702P", "cores": 64, "sockets": 1}
    labelled = node(64.0, {"processor-model": "AMD_EPYC_9654P", "system-model": "R650"})
    assert evidence(labelled, told)["of"] == ["1 x amd_epyc_9654p, 96 cores"]
    assert evidence(labelled, told)["told_by"] == "labels"
    typed = NodeFacts("n1", 128.0, {TYPE: "amd-epyc-7702p"})
    assert evidence(typed)["match"] == "processor"
    assert evidence(typed, {"processor": "AMD EPYC 9654P"})["told_by"] == "Redfish"


@pytest.mark.parametrize(
    ("told", "annotation", "of", "told_by"),
    [
        (None, {"processor": "AMD EPYC 7702P"}, "1 x amd_epyc_7702p, 64 cores", "annotation"),
        (
            {"manufacturer": "Dell Inc."},
            {"processor": "AMD EPYC 7702P"},
            "1 x amd_epyc_7702p, 64 cores",
            "annotation",
        ),
        (
            {"processor": "AMD EPYC 9654P", "cores": 96},
            {"processor": "AMD EPYC 7702P"},
            "1 x amd_epyc_9654p, 96 cores",
            "Redfish",
        ),
    ],
)
def test_an_annotation_tells_what_the_bmc_does_not(
    told: Json | None, annotation: Json, of: str, told_by: str
) -> None:
    nodes, readings = {"n1": NodeFacts("n1", 128.0, {})}, {"n1": Reading(system=told or {})}
    given = {"n1": json.dumps(annotation)}
    found = published_curves(nodes, (), readings, TYPE, annotations=given).curves["n1"]
    evidence = found.evidence["published"]
    assert (evidence["of"], evidence["told_by"]) == ([of], told_by)


@pytest.mark.parametrize("annotation", ["R650", "[" * 2000, "9" * 5000, '{"processor": 1'])
def test_an_annotation_that_cannot_be_read_is_a_finding_of_its_node(annotation: str) -> None:
    nodes = {name: NodeFacts(name, 128.0, {}) for name in ("n1", "n2")}
    given = {"n1": annotation, "n2": '{"processor": "AMD EPYC 7702P"}'}
    found = published_curves(nodes, (), {}, TYPE, annotations=given)
    assert [one.subject.name for one in found.findings] == ["n1"]
    assert "metadata.annotations[wattwise.github.io/system]" in str(found.findings[0])
    assert found.curves.keys() == {"n2"}


def test_a_node_with_another_curve_takes_no_published_one() -> None:
    nodes = {"n1": node(), "n2": NodeFacts("n2", 128.0, {TYPE: "amd-epyc-7702p"})}
    found = published_curves(nodes, {"n2"}, {}, TYPE)
    assert (found.curves, list(found.lacking)) == ({}, ["n1"])


def test_published_curves_are_the_last_source_and_their_matches_are_counted() -> None:
    published = evidence(NodeFacts("n1", 128.0, {TYPE: "amd-epyc-7702p"}))
    curve = Curve((0.0, 1.0), (1.0, 2.0))
    of_published = PowerCurve(curve, evidence={"published": published})
    learned = PowerCurve(curve)
    found = in_order(
        {"published": {"a": of_published, "b": of_published}, "learned": {"a": learned}}
    )
    assert {name: one.source for name, one in found.items()} == {
        "a": "learned",
        "b": "published",
    }
    assert matches(found) == {"processor": 1}


def test_a_meter_that_contradicts_the_curve_is_a_finding_and_the_curve_stays() -> None:
    curves = {
        name: PowerCurve(Curve((0.0, 1.0), (100.0, 300.0)), source="stated") for name in "abcd"
    }
    readings = {
        "a": measured(610.0, "read"),
        "b": measured(580.0, "read"),
        "c": measured(9000.0, "last"),
        "d": measured(40.0, "kept"),
    }
    found = {one.subject.name: str(one) for one in contradictions(curves, readings)}
    assert found.keys() == {"a", "d"}
    assert "measures 610 W, but the stated power curve spans 100 to 300 W" in found["a"]


def test_sources_that_contradict_each_other_are_one_finding_and_the_first_counts() -> None:
    def curve(idle: float, most: float, cores: float = 8.0, source: str = "") -> PowerCurve:
        return PowerCurve(Curve((0.0, cores), (idle, most)), source=source)

    curves = {
        "alike": curve(100, 290, source="stated"),
        "steep": curve(100, 480, source="stated"),
        "metered": curve(100, 480, source="stated"),
        "loose": curve(100, 480, source="stated"),
        "learned": curve(300, 900, 4.0, "learned"),
        "near": curve(150, 390, source="learned"),
    }
    predicted = {name: curve(100, 200) for name in ("alike", "steep", "metered")}
    published = {name: curve(100, 200) for name in ("loose", "learned", "near")}
    readings = {"metered": measured(30.0, "read")}
    by_source = {"predictor": predicted, "published": published}
    found = [str(one) for one in contradictions(curves, readings, by_source)]
    assert len(found) == 3
    assert found[0].startswith(
        "Node steep: power_curve: at 8 cores the stated power curve has 480 W and the predictor "
        "curve 200 W; the stated curve applies; correct the stated curve"
    )
    assert "the BMC measures 30 W" in found[1]
    assert "at 0 cores the learned power curve has 300 W and the published curve 100 W" in found[2]


@each_seed(60)
def test_whatever_one_bmc_tells_other_nodes_have_their_curve(seed: int) -> None:
    source = random.Random(seed)
    nodes = {"n1": node(), "n2": NodeFacts("n2", 128.0, {})}
    spoilt = {name: odd_value(source) for name in ("manufacturer", "model", "processor", "cores")}
    good = {"system": {"processor": "AMD EPYC 7702P", "cores": 64}}
    readings = {"n1": {"system": source.choice([odd_value(source), spoilt])}, "n2": good}
    with bounded():
        found = published_curves(nodes, (), readings_of({"readings": readings}), TYPE)
    assert found.curves["n2"].evidence["published"]["match"] == "processor"
    assert len(found.curves) + len(found.lacking) + len(found.findings) == 2


def measured(watts: float, source: str) -> Reading:
    return Reading({"power_watts": Value(watts, NOON, source)})


def _told(machine: Machine) -> Reading:
    kind = SERVER_TYPES[machine.server_type]
    return Reading(
        system={
            "manufacturer": MAKERS.get(kind.vendor, ""),
            "model": kind.model,
            "processor": kind.processor,
            "sockets": kind.sockets,
            "cores": kind.cores,
        }
    )


def _real_watts(machines: list[Machine], strategy: str, curves: PowerCurves, pods: int) -> float:
    """Power draw of the fleet by the lab's physics after a placement by these curves."""
    given = [
        {
            "name": machine.name,
            "allocatable": {"cpu": str(machine.cores), "memory": "256Gi", "pods": "110"},
            "curve": {
                "cpu": list(curves[machine.name].curve.cores),
                "watts": list(curves[machine.name].curve.watts),
            },
        }
        for machine in machines
    ]
    requests = {"cpu": "4", "memory": "4Gi"}
    plan = place(
        {
            "nodes": given,
            "pods": [{"name": "p", "namespace": "a", "requests": requests, "count": pods}],
            "strategy": strategy,
            "time_limit": 5,
        }
    )
    assert not plan["unplaced"]
    load = dict.fromkeys((machine.name for machine in machines), 0.0)
    for placed in plan["placements"]:
        load[placed["node"]] += 4 * 0.8
    return sum(
        truth(machine, hidden_facts(machine, 1), 0.0, load[machine.name]).power_watts
        for machine in machines
    )


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
@pytest.mark.large
def test_without_its_server_types_the_table_saves_four_fifths_of_what_it_saves_with_them(
    share: float, record_property: t.Callable[[str, object], None]
) -> None:
    machines = build_machines(27, 3, 1)
    pods = int(share * sum(machine.cores for machine in machines) / 4)
    facts = {one.name: NodeFacts(one.name, float(one.cores), {}) for one in machines}
    told = {one.name: _told(one) for one in machines}
    whole = published_curves(facts, (), told, TYPE)
    less = published_curves(facts, (), told, TYPE, without_the_lab_s())
    assert {one.evidence["published"]["match"] for one in whole.curves.values()} == {"processor"}
    assert {one.evidence["published"]["match"] for one in less.curves.values()} == {"series"}
    spread = _real_watts(machines, "spread", whole.curves, pods)
    saved_whole, saved_less = (
        spread - _real_watts(machines, "optimal", found.curves, pods) for found in (whole, less)
    )
    record_property("watts", [round(one) for one in (spread, saved_whole, saved_less)])
    assert saved_less >= 0.8 * saved_whole > 0
