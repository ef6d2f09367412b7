# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What benches say is so: memory, targets, kept rows, and the page that is made from them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import PAGE, RESULTS, SCALE_PAGE, benches
from bench.kit import launcher, scale, store
from bench.kit.forwarder import Traffic
from bench.kit.page import render
from bench.kit.rows import Metric, Row, at_least, at_most, exactly, metric, ratio
from bench.kit.stage import MIB, BenchError, open_stage, usages


def row(title: str, *metrics: Metric) -> Row:
    return Row(title=title, work="Some work.", command="do it", metrics=metrics)


def test_the_page_is_made_from_the_results() -> None:
    assert PAGE.exists() == RESULTS.exists()
    if RESULTS.exists():
        results = store.read(RESULTS)
        assert PAGE.read_text(encoding="utf-8") == render(results)
        assert SCALE_PAGE.read_text(encoding="utf-8") == scale.render(results)


def test_every_result_is_of_a_row_that_there_is() -> None:
    names = [item.name for item in benches()]
    assert len(set(names)) == len(names)
    assert store.read(RESULTS).keys() <= set(names)


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


def test_memory_is_that_of_the_program_and_not_of_whoever_starts_it(tmp_path: Path) -> None:
    """The kernel takes over the high-water mark of the process that starts a program."""
    ballast = bytearray(200 * MIB)
    small = measured(tmp_path / "small", "pass")
    large = measured(tmp_path / "large", f"bytearray({150 * MIB})")
    assert len(ballast) == 200 * MIB
    assert small < 50 * MIB
    assert 150 * MIB < large < 200 * MIB


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
    unit = {name: 1.0 for name, _unit in scale.UNIT_COSTS} | {scale.NODES: 1000, scale.SECONDS: 20}
    one, ten, hundred = (scale.reckon(size, unit | {scale.CPU: 15.0}) for size in scale.SIZES)
    assert (one["fleets"], ten["fleets"], hundred["fleets"]) == ("1", "10", "100")
    assert (one["runs at once"], ten["runs at once"], hundred["runs at once"]) == ("1", "4", "34")
    assert (one["processors busy"], ten["processors busy"]) == ("0.25", "2.50")
    assert hundred["writes to API servers, at most"] == "333 /s"


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
