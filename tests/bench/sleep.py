# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The row about machines that sleep: energy, waiting, evictions and cycles under each policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bench.kit import sleep_page
from bench.kit.rows import Bench, Metric, Peer, Row, at_least, at_most, metric
from bench.kit.sleep_runs import (
    BASELINE,
    OPTIMUM,
    OURS,
    QUANTILES,
    RECORDED,
    THRESHOLD,
    Run,
    cases,
    named,
    runs,
    saving,
)
from bench.kit.stage import Stage

SECONDS_OF_A_BOOT = 200.0
LARGE = 100
# Savings and shares nearer than this are equal.
TOLERANCE = 1e-4


def sleep(stage: Stage) -> Row:
    """The row's details are the runs; sleep_page.py makes a page of them."""
    found = [run for case in cases(stage) for run in runs(stage, case)]
    table = named(found)
    ours = [by_policy[OURS] for by_policy in table.values()]
    return Row(
        title="Sleeping machines under demand that changes",
        work=(
            "Replays of recorded and generated demand on fleets of 20 to 300 machines. "
            "[Sleep: energy and waiting](sleep-performance.md) has all policies and plots."
        ),
        command="sleep.replay.simulation.Simulation(scenario, DecidedPolicy(rules)).run()",
        peers=[Peer(name, "the same replay") for name in table[ours[0].case] if name != OURS],
        metrics=[*_of_ours(table), *_times(ours)],
        notes=[
            "A rule is ahead if it draws less energy and makes fewer pods wait on the same demand.",
            "The optimum is a lower bound: no schedule reaches it where pods or machines are few.",
        ],
        details=sleep_page.details_of(found),
    )


def _of_ours(table: Mapping[str, Mapping[str, Run]]) -> Iterator[Metric]:
    cases = list(table.values())
    ours = [by_policy[OURS] for by_policy in cases]
    judged = [
        100 * saving(each[OURS], each[BASELINE]) / saving(each[OPTIMUM], each[BASELINE])
        for each in cases
    ]
    yield metric("of the optimum's saving", "%", judged, at_least(95.0, "worst"))
    waiting = [100 * run.share_waiting for run in ours]
    yield metric("pods that wait for a boot", "%", waiting, at_most(0.5, "worst"))
    yield metric("p99 of waiting", "s", [run.p99_seconds for run in ours], at_most(0.0, "worst"))
    longest = [run.longest_seconds for run in ours]
    yield metric("longest wait", "s", longest, at_most(2 * SECONDS_OF_A_BOOT, "worst"))
    yield metric(
        "cycles a machine and day", "", [run.cycles for run in ours], at_most(2.0, "worst")
    )
    most = [float(run.most_cycles) for run in ours]
    yield metric("most cycles of a machine in a day", "", most, at_most(4.0, "worst"))
    ahead = [float(sum(is_ahead(run, each[OURS]) for run in _rules(each))) for each in cases]
    yield metric("rules that are ahead", "", ahead, at_most(0.0, "worst"))
    shares = [
        100 * each[OURS].evictions / each[THRESHOLD].evictions
        for each in cases
        if each[THRESHOLD].evictions and saving(each[OURS], each[THRESHOLD]) >= 0
    ]
    if shares:
        name = "evictions of the threshold rule's, where we save as much"
        yield metric(name, "%", shares, at_most(50.0, "worst"))


def _rules(by_policy: Mapping[str, Run]) -> Iterator[Run]:
    variants = {f"{OURS}, reserve {quantile:g}" for quantile in QUANTILES}
    for name, run in by_policy.items():
        if name not in {BASELINE, OURS, OPTIMUM, *variants}:
            yield run


def is_ahead(rule: Run, ours: Run) -> bool:
    """Whether a rule draws less energy and makes fewer pods wait."""
    less_energy = rule.joules < ours.joules * (1 - TOLERANCE)
    return less_energy and rule.share_waiting < ours.share_waiting - TOLERANCE


def _times(ours: list[Run]) -> Iterator[Metric]:
    small = [run.seconds for run in ours if RECORDED in run.case]
    if small:
        name = "time, seventeen days on 20 and 30 machines"
        yield metric(name, "s", small, at_most(120.0, "worst"))
    large = [run.seconds for run in ours if run.machines > LARGE]
    if large:
        yield metric("time, a week on 300 machines", "s", large, at_most(600.0, "worst"))


BENCHES = [Bench("sleep", sleep)]
