# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The benches' claims are true: memory, targets, kept rows, and the page made from them."""

from __future__ import annotations

import dataclasses
import datetime
import os
import re
import signal
import subprocess
import sys
import typing as t
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.readings import Value
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.targets import NodeTarget
from ansible_collections.wattwise.kube.plugins.module_utils.observe import status
from bench.__main__ import DOCS, RESULTS, benches, main, pages
from bench.kit import launcher, placement_page, processes, scale, store
from bench.kit.forwarder import Traffic
from bench.kit.page import render
from bench.kit.placement_runs import FleetRun, Outcome, fleet_run
from bench.kit.plot import Axis, Series, plot
from bench.kit.rows import Bench, Metric, Row, at_least, at_most, exactly, metric, ratio
from bench.kit.stage import MIB, BenchError, Stage, open_stage, usages
from lab.process import wait_until
from support.placement_fleets import Size


def row(title: str, *metrics: Metric) -> Row:
    return Row(title=title, work="Some work.", command="do it", metrics=metrics)


def test_the_pages_are_made_from_the_results() -> None:
    for name, text in pages(store.read(DOCS / RESULTS)).items():
        assert (DOCS / name).read_text(encoding="utf-8") == text


def test_every_result_is_of_a_row_that_there_is() -> None:
    names = [item.name for item in benches()]
    assert len(set(names)) == len(names)
    assert store.read(DOCS / RESULTS).keys() <= set(names)


def test_a_run_replaces_its_own_row_and_keeps_the_others(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    store.merge(path, "one", row("One", metric("time", "s", [1.0])), 0.1)
    store.merge(path, "two", row("Two", metric("time", "s", [2.0], at_most(1.0))), 0.1)
    changed = row("One", ratio("faster", [30.0, 31.0], [1.0, 1.1], at_least(30)))
    store.merge(path, "one", changed, 0.2)
    kept = store.read(path)
    assert list(kept) == ["one", "two"]
    [figure] = Row.from_json(kept["one"]["row"]).metrics
    assert figure == changed.metrics[0]
    assert kept["one"]["load"] == 0.2 and kept["two"]["load"] == 0.1


def test_a_row_without_times_counts_on_a_busy_machine(tmp_path: Path) -> None:
    saved = row("Saved", metric("saved", "%", [1.0]))
    store.merge(tmp_path / "results.json", "timed", saved, 99.0)
    untimed = dataclasses.replace(saved, is_timed=False)
    kept = store.merge(tmp_path / "results.json", "untimed", untimed, 99.0)
    assert [name for name, entry in kept.items() if store.is_quiet(entry)] == ["untimed"]


def test_a_figure_is_judged_by_the_median_or_by_the_worst_run() -> None:
    values = [1.0, 2.0, 9.0]
    assert metric("time", "s", values, at_most(4.0)).strain == 0.5
    assert metric("time", "s", values, at_most(3.0, "worst")).strain == 3.0
    assert metric("rate", "/s", values, at_least(1.0)).strain == 0.5
    assert metric("rate", "/s", values, at_least(2.0, "worst")).strain == 2.0
    assert metric("moved", "", [0.0, 0.0], exactly(0)).strain == 0.0
    assert metric("moved", "", [0.0, 0.0, 1.0], exactly(0)).strain > 1.0
    assert metric("requests", "", [8.0, 9.0, 9.0], exactly(9)).strain > 1.0
    assert metric("time", "s", values).strain == 0.0


def test_a_ratio_shows_the_pairs_that_speak_most_for_each_side() -> None:
    found = ratio("faster", [10.0, 20.0, 30.0], [1.0, 2.0, 4.0])
    assert (found.minimum, found.median, found.maximum) == (2.5, 10.0, 30.0)


def test_the_page_shows_the_weakest_first_and_says_what_is_missed(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    store.merge(path, "a", row("Easy", metric("time", "s", [1.0], at_most(10.0))), 0.0)
    store.merge(path, "b", row("Hard", metric("time", "s", [9.0], at_most(10.0))), 0.0)
    store.merge(path, "c", row("Lost", metric("time", "s", [11.0], at_most(10.0))), 0.0)
    store.merge(path, "d", row("Free", metric("time", "s", [5.0])), 0.0)
    page = render(store.read(path))
    sections = ["## Targets", "## Lost", "## Hard", "## Easy", "## Free", "## The machine"]
    places = [page.index(section) for section in sections]
    assert places == sorted(places)
    assert "| [Lost](#lost) | time | 11 s | ≤ 10 s | **missed** |" in page
    assert "| [Hard](#hard) | time | 9 s | ≤ 10 s | met, 90% of it used |" in page


def test_the_targets_show_the_weakest_figure_of_a_row_and_each_that_is_missed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "results.json"
    used = {"easy": 1.0, "hard": 9.0, "lost": 11.0, "lost too": 12.0}
    figures = [metric(name, "s", [value], at_most(10.0)) for name, value in used.items()]
    store.merge(path, "a", row("Met", *figures[:2]), 0.0)
    store.merge(path, "b", row("Missed", *figures), 0.0)
    targets = render(store.read(path)).split("## ")[1]
    shown = re.findall(r"^\| \[(\w+)\]\S+ \| ([\w ]+) \|", targets, re.MULTILINE)
    assert shown == [("Missed", "lost too"), ("Missed", "lost"), ("Met", "hard")]


def test_figures_of_several_subjects_are_a_line_for_each(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    figures = [
        metric("moves: lost", "%", [0.0, 1.0, 3.0]),
        metric("moves: lines", "", [40.0]),
        metric("cuts: lost", "%", [2.0, 2.0]),
    ]
    store.merge(path, "a", row("Stages", *figures), 0.0)
    page = render(store.read(path))
    assert "| moves | 1 % (0 to 3 %) | 40 |" in page
    assert "| cuts | 2 % |  |" in page


def test_machines_that_differ_in_the_build_of_their_kernel_are_one(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    for name in ("a", "b"):
        results = store.merge(path, name, row(name, metric("time", "s", [1.0])), 0.0)
        results[name]["machine"]["system"] = f"Linux 6.18.44-{name}1 x86_64"
    assert render(results).count("| system | Linux 6.18.44 x86_64 |") == 1


def test_memory_is_that_of_the_program_and_not_of_whoever_starts_it(tmp_path: Path) -> None:
    """The kernel passes the high-water mark of the starting process on to a program."""
    ballast = bytearray(200 * MIB)
    small = measured(tmp_path / "small", "pass")
    large = measured(tmp_path / "large", f"bytearray({150 * MIB})")
    assert len(ballast) == 200 * MIB
    assert small < 50 * MIB
    assert 150 * MIB < large < 200 * MIB


def test_memory_of_a_program_is_also_that_of_all_that_it_starts() -> None:
    code = f"x = b'x' * (64 * {MIB}); print(len(x), flush=True); input()"
    child = f'"{sys.executable}" -c "{code}"; true'
    with subprocess.Popen(
        ["sh", "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()
        with processes.watching([program.pid]) as seen:
            wait_until(lambda: seen.together > 0, 10.0, "a look at the processes")
        program.communicate("go on\n")
    assert 64 * MIB < seen.together < 128 * MIB
    assert seen.peaks[program.pid] < 64 * MIB < max(seen.peaks.values())


def measured(report: Path, code: str) -> int:
    command = [sys.executable, "-I", "-S", "-c", code]
    subprocess.run([sys.executable, "-I", launcher.__file__, str(report), *command], check=True)
    [used] = usages(report)
    assert used["command"] == command
    return int(used["peak_bytes"])


def test_a_process_that_fails_is_no_measurement() -> None:
    with open_stage(smoke=True) as stage, pytest.raises(BenchError, match=r"ended with 3:\n.*why"):
        code = "print('why'); raise SystemExit(3)"
        stage.command([sys.executable, "-I", "-S", "-c", code], stage.folder())


def test_a_process_that_takes_too_long_ends_with_all_that_it_started(tmp_path: Path) -> None:
    """Its child would not notice the end of its parent, and would continue."""
    started = tmp_path / "pid"
    code = (
        "import os, pathlib, signal\n"
        "child = os.fork()\n"
        f"child and pathlib.Path({str(started)!r}).write_text(str(child))\n"
        "signal.pause()"
    )
    with open_stage(smoke=True) as stage:
        stage.longest_seconds = 3.0
        with pytest.raises(BenchError, match="took more than 3 s"):
            stage.command([sys.executable, "-I", "-S", "-c", code], tmp_path)
    state = Path(f"/proc/{started.read_text()}/stat")
    wait_until(lambda: not state.exists() or ") Z " in state.read_text(), 10.0, "the child's end")


def test_a_call_of_the_library_is_timed_without_its_imports() -> None:
    with open_stage(smoke=True) as stage:
        parameters = {"nodes": [{"name": "n", "allocatable": {"cpu": "1"}}], "pods": []}
        done = stage.call("power.placement:place", parameters, ["ortools.math_opt.python.mathopt"])
    assert done.result["placements"] == []
    assert 0.0 < done.cpu_seconds + done.seconds < done.import_seconds
    assert done.peak_bytes >= done.loaded_bytes > MIB


def test_time_with_a_server_counts_once_where_requests_overlap() -> None:
    traffic = Traffic([(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (1.5, 2.5)])
    assert traffic.busy_seconds == 4.0
    assert traffic.requests == 4


def test_ten_fleets_cost_ten_times_what_one_does() -> None:
    unit = {name: 1.0 for name, _unit in scale.UNIT_COSTS} | {scale.NODES: 1000, scale.SECONDS: 100}
    one, ten, hundred = (scale.reckon(size, unit | {scale.CPU: 75.0}) for size in scale.SIZES)
    assert (one["fleets"], ten["fleets"], hundred["fleets"]) == ("1", "10", "100")
    assert (one["runs at once"], ten["runs at once"], hundred["runs at once"]) == ("1", "4", "34")
    assert (one["processors busy"], ten["processors busy"]) == ("0.25", "2.50")
    assert hundred["writes to API servers, readings move"] == "333 /s"
    assert hundred["writes to API servers, no reading moves"] == "333 /s"


def test_scale_reckons_with_the_rule_by_which_statuses_are_written() -> None:
    target = NodeTarget("n", "wao-system/n", "wao-system", "wao.bitmedia.co.jp/v1beta1")
    begun, statuses = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), []
    for run in range(10):
        now = begun + datetime.timedelta(seconds=run * scale.INTERVAL)
        reading = SimpleNamespace(
            values={"inlet_celsius": Value(20.0, now)},
            errors=[],
            is_fresh=True,
            fresh={"inlet_celsius"},
        )
        manifest = status.status_of(target, t.cast("t.Any", reading), {}, now)
        if manifest:
            statuses.append(manifest)
            target = replace(target, status=manifest["status"])
    unit = {name: 1.0 for name, _unit in scale.UNIT_COSTS} | {scale.NODES: 1000}
    reckoned = scale.reckon(1000, unit)["writes to API servers, no reading moves"]
    assert reckoned == f"{1000 * len(statuses) / 10 / scale.INTERVAL:.2f} /s"


def test_times_of_a_busy_machine_are_on_no_page(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    busy = 1.0 + (os.cpu_count() or 1)
    names = list(scale.UNIT_COSTS)
    names += [(scale.NODES, ""), (scale.PODS, "")]
    costs = row("Costs", *(metric(name, kind, [1000.0]) for name, kind in names))
    store.merge(path, "quiet", row("Quiet", metric("time", "s", [1.0])), 0.0)
    results = store.merge(path, "costs", costs, busy)
    page = render(results, ["costs", "never", "quiet"])
    assert "## Costs" not in page
    assert "- `costs`\n- `never`\n\n" in page
    scaled = scale.render(results)
    assert "whole run" not in scaled
    assert "runs at once" not in scaled
    assert "make bench ARGS=costs" in scaled


def test_the_page_of_scale_has_the_largest_cluster_if_it_was_measured_quietly(
    tmp_path: Path,
) -> None:
    path = tmp_path / "results.json"
    names = [*scale.UNIT_COSTS, (scale.NODES, ""), (scale.PODS, "")]
    costs = row("Costs", *(metric(name, kind, [1000.0]) for name, kind in names))
    store.merge(path, "costs", costs, 0.0)
    largest = row("The main job on 5,000 nodes", metric("`place`", "s", [30.0, 31.0, 33.0]))
    busy = store.merge(path, "main-job-5000", largest, 1.0 + (os.cpu_count() or 1))
    assert "The largest cluster" not in scale.render(busy)
    text = scale.render(store.merge(path, "main-job-5000", largest, 0.0))
    assert "| **The main job on 5,000 nodes** | |\n| `place` | 31 s |" in text


def test_labs_are_made_once_and_go_at_the_end() -> None:
    events: list[str] = []
    with open_stage(smoke=True) as stage:

        def make(_stage: object) -> str:
            events.append("made")
            stage.resources.callback(events.append, "gone")
            return "lab"

        assert stage.shared("lab", make) == stage.shared("lab", make) == "lab"
        assert events == ["made"]
    assert events == ["made", "gone"]


def test_a_row_that_fails_is_told_at_the_end_and_loses_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_stage: Stage) -> Row:
        raise BenchError("the lab is broken")

    rows = [
        Bench("first", fails),
        Bench("second", lambda _stage: row("Second", metric("a", "", [1]))),
    ]
    monkeypatch.setattr("bench.__main__.benches", lambda: rows)
    monkeypatch.setattr(signal, "signal", lambda *_arguments: None)
    assert main(["--smoke"]) == 1
    printed = capsys.readouterr()
    assert "the lab is broken" in printed.err
    assert "a: 1" in printed.out
    assert printed.out.splitlines()[-1] == "not measured, see above: first"


def test_what_could_not_be_made_is_not_tried_again() -> None:
    tried: list[str] = []

    def fails(_stage: Stage) -> str:
        tried.append("once")
        raise BenchError("no lab")

    with open_stage(smoke=True) as stage:
        for words in ("no lab", "there is no hall, see above"):
            with pytest.raises(BenchError, match=words):
                stage.shared("hall", fails)
    assert tried == ["once"]


def test_each_call_of_several_has_a_process_of_its_own() -> None:
    nodes = [{"name": "n", "allocatable": {"cpu": "4", "pods": "9"}}]
    variants = [{"pods": [{"name": name, "requests": {"cpu": "1"}}]} for name in ("a", "b")]
    with open_stage(smoke=True) as stage:
        calls = stage.calls("power.placement:place", {"nodes": nodes}, variants, ["numpy"])
        assert [call.result["placements"][0]["pod"] for call in calls] == ["a", "b"]
        with pytest.raises(BenchError, match="is not a list"):
            stage.calls("power.placement:place", {}, [{"nodes": "all"}])


def test_a_fleet_is_measured_with_every_strategy_and_once() -> None:
    with open_stage(smoke=True) as stage:
        run = fleet_run(stage, 1, Size(4, 8, types=3))
        assert fleet_run(stage, 1, Size(4, 8, types=3)) is run
    assert set(run.outcomes) == {"optimal", "greedy", "minimize_power", "peaks", "spread"}
    assert run.least_added <= run.ours.added + 1e-3
    assert FleetRun.from_json(run.as_json()) == run


def fleet(seed: int, ours: Outcome, greedy: Outcome) -> FleetRun:
    others = {"optimal": ours, "greedy": greedy, "minimize_power": greedy}
    return FleetRun(Size(100, 1000), seed, 90.0, False, others)


def test_savings_are_told_beside_what_could_be_saved_at_all() -> None:
    ours = Outcome(95.0, 0, 0.05, 1.0, 1.0, 90.0, 60.0)
    runs = [
        fleet(0, ours, Outcome(100.0, 0, 0.1, 0.1, 0.1, 80.0, 60.0)),
        fleet(1, ours, Outcome(93.0, 0, 0.1, 0.1, 0.1, 80.0, 60.0)),
        fleet(2, ours, Outcome(50.0, 3, 0.1, 0.1, 0.1, 80.0, 60.0)),
    ]
    assert (runs[0].saved("greedy"), runs[0].savable("greedy")) == pytest.approx((5.0, 10.0))
    assert runs[2].saved("greedy") is None and runs[0].saved("peaks") is None
    made = placement_page.pages([run.as_json() for run in runs])
    page = made.pop("project/placement-performance.md")
    assert "| 10.00 % | 5.00 % | 10.00 % | 5.00 % |" in page
    assert "| +5.3 % | +5.3 % | not measured | not measured |" in page
    assert "| **pods left** |" in page
    assert set(made) == set(re.findall(r"\(\.\./(images/[\w-]+\.svg)\)", page))


def test_a_plot_shows_points_where_the_axes_say() -> None:
    axis = Axis("watts", {1.0: "1", 10.0: "10", 100.0: "100"}, logarithmic=True)
    assert [axis.share(value) for value in (0.1, 1.0, 10.0, 100.0, 500.0)] == [0, 0, 0.5, 1, 1]
    svg = ElementTree.fromstring(
        plot("A < B", axis, Axis("", {0.0: "low", 2.0: "high"}), [Series("s", [(10.0, 1.0)])])
    )
    texts = [each.text for each in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "A < B" and {"watts", "low", "high", "100"} <= set(texts)
    marks = [each.get("d", "") for each in svg.iter("{http://www.w3.org/2000/svg}path")]
    assert marks[-1].startswith("M485.0 195.0")
