# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report's content for the documents of a run folder."""

from __future__ import annotations

import json
import tracemalloc
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    TARGET_REASONS,
    InvalidInput,
)
from ansible_collections.wattwise.kube.plugins.module_utils.report.building import (
    build_from,
    summarize,
)
from ansible_collections.wattwise.kube.plugins.module_utils.report.fleet import natural
from ansible_collections.wattwise.kube.plugins.module_utils.report.page import page
from ansible_collections.wattwise.kube.plugins.module_utils.report.sections import (
    SECTIONS,
    failing_endpoints,
)
from support.report_documents import STANDARD, Case, write

Json = dict[str, t.Any]


def report_of(folder: Path, case: Case = STANDARD, **options: t.Any) -> Json:
    return build_from(str(write(folder, case)), **options)


def change(path: Path, **members: t.Any) -> Json:
    """Replace members of a document."""
    body: Json = {**json.loads(path.read_text()), **members}
    path.write_text(json.dumps(body))
    return body


def test_equal_documents_give_equal_reports_with_the_time_of_the_newest(tmp_path: Path) -> None:
    one = report_of(tmp_path / "one")
    two = report_of(tmp_path / "two")
    assert one == two
    assert one["time"] == "2026-01-31T12:05:00Z"
    documents.check(one, "report", "here")


def test_a_trial_of_one_rack_tells_the_watts_of_its_nodes(tmp_path: Path) -> None:
    """Only five nodes have a NodeConfig, with BMCs alone; the plan counts idle nodes as asleep."""
    folder = write(tmp_path, Case(pods=0, bound=False, baseline=False))
    read = json.loads((folder / "readings.json").read_text())["readings"]
    names = sorted(read)[:5]
    bmc = {"type": "Redfish", "endpoint": "https://10.0.0.1", "fetch_interval_seconds": 15.0}
    inlet = {"inlet_temp": bmc}
    targets = [
        {"name": name, "namespace": "try", "node_config": f"try/{name}", "endpoints": inlet}
        for name in names
    ]
    change(folder / "snapshot.json", targets={"nodes": targets, "findings": []})
    alone = {name: {**read[name], "delta_p_pascal": None} for name in names}
    change(folder / "readings.json", readings=alone)
    plan = json.loads((folder / "plan.json").read_text())
    asleep = [{**node, "watts_before": 10.0, "watts_after": 10.0} for node in plan["nodes"]]
    change(folder / "plan.json", nodes=asleep)
    report = build_from(str(folder))
    headline = report["sections"]["headline"]
    drawn = sum(reading["power_watts"] for reading in alone.values())
    assert headline["watts"]["measured_before"] == pytest.approx(drawn, abs=0.1)
    assert (headline["counted"], headline["nodes"]) == (5, 20)
    shown = page(report)
    for words in ("5 of 20 nodes read", "5 of 5 nodes were read completely"):
        assert words in shown
    assert report["sections"]["prediction_error"]["fleet"]["node_error_percent"] < 10


@pytest.mark.parametrize(
    ("case", "state"),
    [
        (Case(pods=0, bound=False, baseline=False), "observed"),
        (Case(bound=False), "planned"),
        (Case(read_again=False), "pending"),
        (Case(), "measured"),
    ],
)
def test_the_report_says_how_far_the_placement_has_come(
    tmp_path: Path, case: Case, state: str
) -> None:
    report = report_of(tmp_path, case)
    headline = report["sections"]["headline"]
    assert report["state"] == headline["state"] == state
    is_measured = headline["watts"]["measured_after"] is not None
    assert is_measured == (state == "measured")


# The pods were bound at 12:00:10, the BMCs read again at 12:05:00.
@pytest.mark.parametrize(("settle", "state"), [(290, "measured"), (291, "pending")])
def test_measured_after_needs_readings_that_are_younger_by_the_time_to_settle(
    tmp_path: Path, settle: float, state: str
) -> None:
    report = report_of(tmp_path, settle_seconds=settle)
    assert report["state"] == state
    curves = report["sections"]["power_curves"]["types"]
    measured = {node["measured_after"] is None for kind in curves for node in kind["nodes"]}
    assert measured == {state == "pending"}


def test_curves_are_told_by_source_with_their_error_against_the_bmcs(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / "bound" / "curves.json"
    curves = json.loads(path.read_text())["curves"]
    first, second, third, *others = sorted(curves)
    published: Json = {
        "match": "series",
        "of": ["1 x amd_epyc_7742, 64 cores"],
        "scale": 1.25,
        "generations": 0,
        "server": "Dell Inc. R6515 with AMD EPYC 7713P",
        "told_by": "Redfish",
    }
    for name in (first, second):
        curves[name] |= {"source": "published", "published": published}
    curves[third]["source"] = "stated"
    for name in others:
        curves[name]["source"] = "predictor"
    change(path, curves=curves)
    report = build_from(str(tmp_path))
    section = report["sections"]["power_curves"]
    counted = {one["source"]: (one["nodes"], one["metered_nodes"]) for one in section["sources"]}
    assert counted == {
        "stated": (1, 1),
        "predictor": (len(others), len(others)),
        "published for its series of processors": (2, 2),
    }
    assert all(0 < one["metered_error_percent"] < 20 for one in section["sources"])
    [server] = section["published"]
    assert (server["nodes"], server["of"], server["scale"]) == (2, published["of"][0], 1.25)
    html = page(report)
    assert published["server"] in html and "Servers with a published power curve" in html


def test_nodes_without_a_curve_are_told_with_the_reason(tmp_path: Path) -> None:
    write(tmp_path, Case(lacking=2))
    path = tmp_path / "bound" / "curves.json"
    known = json.loads(path.read_text())["curves"]
    nodes = json.loads((tmp_path / "bound" / "snapshot.json").read_text())["nodes"]
    first, second = sorted(
        node["metadata"]["name"] for node in nodes if node["metadata"]["name"] not in known
    )
    change(path, lacking={first: "no published measurement is of X"})
    report = build_from(str(tmp_path))
    lacking = {one["node"]: one["reason"] for one in report["sections"]["power_curves"]["lacking"]}
    assert lacking.keys() == {first, second}
    assert lacking[first] == "no published measurement is of X"
    assert "Nodes without a power curve" in page(report)


def test_idle_nodes_are_told_with_what_sleep_would_save(tmp_path: Path) -> None:
    write(tmp_path, Case(baseline=False))
    path = tmp_path / "bound" / "plan.json"
    plan = json.loads(path.read_text())
    entry = plan["nodes"][0]
    change(path, asleep=[entry["name"], "unknown"], nodes=[{**entry, "watts_after": 10.0}])
    measured = json.loads((tmp_path / "bound" / "readings.json").read_text())["readings"]
    report = build_from(str(tmp_path))
    section = report["sections"]["sleep"]
    expected = measured[entry["name"]]["power_watts"] - 10.0
    assert (section["nodes"], section["saved_watts"]) == (1, pytest.approx(expected, abs=0.1))
    assert "1 node without workload would save" in page(report)


def test_a_last_value_is_no_measurement_of_the_new_state(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / "readings.json"
    readings = json.loads(path.read_text())["readings"]
    for reading in readings.values():
        reading["source"]["power_watts"] = "last"
    change(path, readings=readings)
    assert build_from(str(tmp_path))["state"] == "pending"


def test_a_newer_empty_plan_does_not_hide_the_bound_one_and_a_full_one_does(
    tmp_path: Path,
) -> None:
    report = report_of(tmp_path)
    assert report["sections"]["headline"]["placed"] == 60
    again = json.loads((tmp_path / "bound" / "plan.json").read_text())["placements"][:3]
    change(tmp_path / "plan.json", placements=again)
    report = build_from(str(tmp_path))
    assert (report["state"], report["sections"]["headline"]["placed"]) == ("planned", 3)


def test_documents_that_are_not_of_one_placement_are_not_joined(tmp_path: Path) -> None:
    write(tmp_path)
    change(tmp_path / "bound" / "bindings.json", plan_time="2026-01-30T12:00:00Z")
    assert build_from(str(tmp_path))["state"] == "observed"


def test_sums_are_over_the_nodes_of_which_every_value_is_known(tmp_path: Path) -> None:
    report = report_of(tmp_path, Case(lacking=4))
    headline = report["sections"]["headline"]
    assert headline["counted"] == 16
    readings = json.loads((tmp_path / "readings.json").read_text())["readings"]
    lacking = [name for name, reading in readings.items() if reading["power_watts"] is None]
    assert sorted(headline["left_out"]) == sorted(lacking)
    known = [reading["power_watts"] for name, reading in readings.items() if name not in lacking]
    assert headline["watts"]["measured_after"] == pytest.approx(sum(known), abs=0.1)


def test_a_node_that_lacks_a_value_has_none_and_never_0(tmp_path: Path) -> None:
    report = report_of(tmp_path, Case(lacking=4))
    left_out = set(report["sections"]["headline"]["left_out"])
    sections = report["sections"]
    cells = [cell for rack in sections["temperatures"]["racks"] for cell in rack["nodes"]]
    curves = [node for kind in sections["power_curves"]["types"] for node in kind["nodes"]]
    fresh = sections["freshness"]["nodes"]
    for entries in (cells, curves, fresh):
        found = [entry for entry in entries if entry["node"] in left_out]
        assert len(found) == 4
        values = [value for entry in found for value in entry.values()]
        assert not any(value == 0 and value is not False for value in values)
    assert {cell["inlet_celsius"] for cell in cells if cell["node"] in left_out} == {None}


def test_a_quantity_of_which_less_than_half_is_known_is_not_summed(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / "baseline.json"
    readings = json.loads(path.read_text())["readings"]
    change(path, readings=dict(list(readings.items())[:9]))
    headline = build_from(str(tmp_path))["sections"]["headline"]
    assert headline["watts"]["baseline"] is None
    assert headline["counted"] == 20
    assert headline["saved"]["against"] == "spreading the pods"


def test_power_with_idle_machines_off_stands_beside_the_others(tmp_path: Path) -> None:
    write(tmp_path)
    alone = build_from(str(tmp_path))
    awake = json.loads((tmp_path / "readings.json").read_text())
    for reading in list(awake["readings"].values())[:5]:
        reading["power_watts"] = 8.0
    (tmp_path / "asleep.json").write_text(json.dumps(awake))
    report = build_from(str(tmp_path))
    watts = report["sections"]["headline"]["watts"]
    assert watts["asleep"] < watts["measured_after"]
    assert {**watts, "asleep": None} == alone["sections"]["headline"]["watts"]
    assert report["sections"]["headline"]["saved"] == alone["sections"]["headline"]["saved"]
    [line] = [each for each in summarize(report, "")["lines"] if "idle machines off" in each]
    assert line.endswith(" W less, measured")
    assert "idle machines off" not in str(summarize(alone, "")["lines"])
    assert "Idle machines off" in page(report)


def test_without_any_reading_nothing_is_summed(tmp_path: Path) -> None:
    report = report_of(tmp_path, Case(pods=0, bound=False, baseline=False, lacking=20))
    headline = report["sections"]["headline"]
    assert set(headline["watts"].values()) == {None}
    assert headline["hottest"] is None
    assert headline["failing"] == 20


@pytest.mark.parametrize(
    ("case", "against", "basis"),
    [
        (Case(), "default scheduler", "measured"),
        (Case(read_again=False), "default scheduler", "predicted"),
        (Case(baseline=False), "spreading the pods", "predicted"),
    ],
)
def test_the_saving_says_what_it_is_against_and_how_it_is_known(
    tmp_path: Path, case: Case, against: str, basis: str
) -> None:
    saved = report_of(tmp_path, case)["sections"]["headline"]["saved"]
    assert (saved["against"], saved["basis"]) == (against, basis)
    share = 100 * saved["watts"] / saved["against_added"]
    assert saved["percent_of_added"] == pytest.approx(share, abs=0.1)


def test_without_a_comparison_nothing_is_said_to_be_saved(tmp_path: Path) -> None:
    report = report_of(tmp_path, Case(baseline=False, comparison=False))
    assert report["sections"]["headline"]["saved"] is None
    assert "strategies" not in report["sections"]


def test_a_strategy_that_placed_other_pods_is_not_a_saving(tmp_path: Path) -> None:
    write(tmp_path, Case(baseline=False))
    path = tmp_path / "bound" / "plan.json"
    compared = json.loads(path.read_text())["comparison"]
    for other in ({"placed": 59}, {"placed_unpriced": 1}):
        change(path, comparison=[{**entry, **other} for entry in compared])
        sections = build_from(str(tmp_path))["sections"]
        assert sections["headline"]["saved"] is None
        shown = sections["strategies"]["strategies"]
        assert [entry["comparable"] for entry in shown] == [True, False, False, False]


def test_the_cheapest_type_got_the_load_and_the_spared_ones_say_what_they_would_cost(
    tmp_path: Path,
) -> None:
    types = report_of(tmp_path)["sections"]["server_types"]["types"]
    assert [entry["server_type"] for entry in types] == [
        "altra-max-128c",
        "epyc-9754-128c",
        "xeon-8480-112c",
        "epyc-7351-32c",
    ]
    assert [entry["pods"] for entry in types] == [60, 0, 0, 0]
    prices = [entry["watts_per_core"] for entry in types]
    assert prices == sorted(prices)
    # The first core is the cheapest of a convex curve; for a concave one the whole curve counts: 9
    # W × (1 + (0.3 − 1) / 2) = 5.85 W.
    assert prices[1] == pytest.approx(1.9 * (1 + 0.3 * 6.4 / 128 / 2), rel=1e-3)
    assert prices[3] == pytest.approx(5.85, rel=1e-3)


def test_every_number_is_of_the_pods_that_were_bound(tmp_path: Path) -> None:
    """All pods of one node were skipped, some of another's failed, and one has no outcome."""
    write(tmp_path, Case(nodes=8, pods=250))
    whole = build_from(str(tmp_path))["sections"]
    path = tmp_path / "bound" / "bindings.json"
    placements = json.loads(path.read_text())["bound"]
    first, *_others, last = dict.fromkeys(entry["node"] for entry in placements)
    of = {node: [one for one in placements if one["node"] == node] for node in (first, last)}
    skipped = [{**entry, "reason": "the node is cordoned"} for entry in of[last]]
    failed = {**of[first][0], "detail": "conflict"}
    lost = [*of[last], *of[first][:2]]
    bound = [entry for entry in placements if entry not in lost]
    change(path, bound=bound, skipped=skipped, errors=[failed, {"detail": "no pod"}])
    report = build_from(str(tmp_path))
    found = report["sections"]
    headline = found["headline"]
    assert (headline["placed"], headline["not_bound"]) == (len(bound), len(lost))
    assert headline["nodes_used"] == whole["headline"]["nodes_used"] - 1
    entries = {entry["node"]: entry for entry in found["placements"]["nodes"]}
    assert (
        found["placements"]["placed"]
        == len(bound)
        == sum(len(entry["pods"]) for entry in entries.values())
    )
    assert sum(entry["pods"] for entry in found["server_types"]["types"]) == len(bound)
    # Nothing is predicted for a part of the pods; a node without pods stays unchanged.
    assert last not in entries and entries[first]["watts_after"] is None
    assert headline["left_out"] == [first]
    plan = json.loads((tmp_path / "bound" / "plan.json").read_text())["nodes"]
    expected = sum(
        node["watts_before" if node["name"] == last else "watts_after"]
        for node in plan
        if node["name"] != first
    )
    assert headline["watts"]["predicted_after"] == pytest.approx(expected, abs=0.1)
    assert whole["headline"]["saved"] is not None and headline["saved"] is None
    reasons = {entry["pod"]: entry["reason"] for entry in found["waiting_pods"]["not_bound"]}
    assert len(reasons) == len(lost)
    assert set(reasons.values()) == {"the node is cordoned", "conflict", "no reason is given"}
    line = summarize(report, "report.html")["lines"][0]
    assert line.startswith(f"{len(bound)} pods placed on ") and f", {len(lost)} not bound," in line
    assert f"{len(lost)} pods of the plan could not be bound" in page(report)


def test_pods_that_ended_or_came_since_are_counted(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / "snapshot.json"
    pods = json.loads(path.read_text())["pods"]
    other = {"metadata": {"namespace": "shop", "name": "new"}, "spec": {"nodeName": "r1-n01"}}
    change(path, pods=[*pods[2:], other])
    headline = build_from(str(tmp_path))["sections"]["headline"]
    assert (headline["gone"], headline["came"]) == (2, 1)


def test_of_large_pods_only_name_and_node_are_ever_in_memory(tmp_path: Path) -> None:
    """A report is made in the process of a template, which also holds Ansible's own memory."""
    expected = report_of(tmp_path)
    path = tmp_path / "snapshot.json"
    pods = json.loads(path.read_text())["pods"]
    volume = {"name": "v", "projected": {"sources": [{"configMap": {"name": "c"}}] * 60}}
    large = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**pod["metadata"], "labels": {"app": "web"}},
            "spec": {**pod["spec"], "containers": [], "volumes": [volume] * 10},
        }
        for pod in pods
    ]
    change(path, pods=large)
    tracemalloc.start()
    try:
        assert build_from(str(tmp_path)) == expected
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The file as bytes and as text; its objects would take five times as much.
    assert peak < 3 * path.stat().st_size


def test_the_prediction_error_is_that_of_each_type_and_of_the_fleet(tmp_path: Path) -> None:
    write(tmp_path)
    path = tmp_path / "readings.json"
    readings = json.loads(path.read_text())["readings"]
    plan = json.loads((tmp_path / "bound" / "plan.json").read_text())
    for node in plan["nodes"]:
        readings[node["name"]]["power_watts"] = node["watts_after"] / 1.1
    change(path, readings=readings)
    error = build_from(str(tmp_path))["sections"]["prediction_error"]
    assert error["of"] == "after"
    for entry in [*error["types"], error["fleet"]]:
        assert entry["bias_percent"] == pytest.approx(10, abs=0.01)
        assert entry["node_error_percent"] == pytest.approx(10, abs=0.01)
    assert sum(entry["nodes"] for entry in error["types"]) == error["fleet"]["nodes"] == 20


def test_waiting_pods_are_grouped_and_failing_endpoints_say_what_to_do(tmp_path: Path) -> None:
    sections = report_of(tmp_path, Case(waiting=5, lacking=2))["sections"]
    [reason] = sections["waiting_pods"]["reasons"]
    assert (len(reason["pods"]), sections["waiting_pods"]["waiting"]) == (5, 5)
    assert sections["failing_endpoints"]["failing"] == 2
    assert all(error["remedy"] for error in sections["failing_endpoints"]["errors"])


def test_moves_are_shown_where_the_plan_was_asked_for_some(tmp_path: Path) -> None:
    assert "moves" not in report_of(tmp_path / "not asked")["sections"]
    proposed = report_of(tmp_path / "some", Case(steps=3))["sections"]["moves"]
    assert (proposed["moves"], proposed["gain_watts"]) == (6, 60 + 55 + 50)
    assert [step["asleep"] for step in proposed["steps"]] == [[], [], ["r1-n2"]]
    assert proposed["steps"][0]["moves"] == [
        {"pod": "shop/cart-0-0", "from_node": "r1-n0", "to_node": "r2-n0"}
    ]
    none = report_of(tmp_path / "none", Case(steps=0))["sections"]["moves"]
    assert none == {"moves": 0, "gain_watts": 0, "steps": []}


def test_there_is_a_remedy_for_every_reason() -> None:
    assert failing_endpoints.REMEDIES.keys() == set(TARGET_REASONS)


def test_racks_are_drawn_from_the_top_and_nodes_are_counted_as_people_do(tmp_path: Path) -> None:
    racks = report_of(tmp_path)["sections"]["temperatures"]["racks"]
    assert [rack["rack"] for rack in racks] == ["r1", "r2", "r3", "r4"]
    assert [cell["rack_unit"] for cell in racks[0]["nodes"]] == [9, 7, 5, 3, 1]
    assert sorted(["n10", "n2", "x", "n²"], key=natural) == ["n2", "n10", "n²", "x"]


def test_every_section_has_a_name_of_its_own() -> None:
    assert len({section.name for section in SECTIONS}) == len(SECTIONS)


def test_a_folder_without_a_snapshot_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no snapshot.json; run wattwise.kube.observe"):
        build_from(str(tmp_path))


@pytest.mark.parametrize(
    "case",
    [Case(), Case(waiting=3, lacking=2), Case(read_again=False), Case(bound=False, baseline=False)],
)
def test_the_summary_is_ten_lines_at_most_and_says_the_same(tmp_path: Path, case: Case) -> None:
    report = report_of(tmp_path, case)
    summary = summarize(report, "/run/report.html")
    documents.check(summary, "summary", "here")
    assert len(summary["lines"]) <= 10
    assert max(map(len, summary["lines"])) <= 80
    assert summary["lines"][-1] == "report: /run/report.html"
    headline = report["sections"]["headline"]
    assert summary["saved"] == headline["saved"]
    assert (summary["waiting"], summary["failing"]) == (case.waiting, case.lacking)
    text = "\n".join(summary["lines"])
    assert f"{headline['watts']['measured_before']:,.0f} W" in text
    assert ("pending" in text) == (report["state"] == "pending")
