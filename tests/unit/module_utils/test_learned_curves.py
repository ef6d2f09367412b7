# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Curves learned from recorded samples: their shape, their error, and when there are none."""

from __future__ import annotations

import random
import statistics
import typing as t

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.inference import samples
from ansible_collections.wattwise.kube.plugins.module_utils.inference.curves import SourceCurves
from ansible_collections.wattwise.kube.plugins.module_utils.inference.learning import (
    GRID_POINTS,
    MIN_SAMPLES,
    NodeState,
    learn,
)
from ansible_collections.wattwise.kube.plugins.module_utils.inference.regression import Table, fit
from ansible_collections.wattwise.kube.plugins.module_utils.inference.samples import (
    NodeSamples,
    Sample,
    Samples,
)
from support.examples import each_seed, examples
from support.odd_values import bounded, spoilt
from support.recorded_watts import Hall

CORES = 40.0
LOADS = [step / 20 for step in range(2, 16)]


def recorded(
    watts_at: t.Callable[[float], float] = lambda load: 120 + 300 * load,
    loads: t.Sequence[float] = LOADS,
    inlets: t.Sequence[float] = (22.0,),
) -> NodeSamples:
    """Samples of one node at these loads, with watts of its own."""
    rows = (
        Sample(float(index), load * CORES, 0.0, inlets[index % len(inlets)], 5.0, watts_at(load))
        for index, load in enumerate(loads)
    )
    return NodeSamples(CORES, tuple(rows))


def learned(*names: str, server_type: str = "", **nodes: NodeSamples) -> SourceCurves:
    types = dict.fromkeys(nodes, "r650")
    states = [NodeState(name, CORES, server_type, 22.0, 5.0) for name in names]
    return learn(states, Samples(dict(nodes)), types, 0.8)


@pytest.fixture(scope="module")
def hall() -> Hall:
    """Machines of all types of the lab, after sixty runs at random loads."""
    found = Hall()
    found.observe(60)
    return found


def test_a_machine_s_own_curve_is_off_by_less_than_three_percent_from_the_lab_s_physics(
    hall: Hall,
) -> None:
    found = learn([hall.state(one) for one in hall.machines], hall.recorded, hall.types, 0.8)
    assert found.curves.keys() == {machine.name for machine in hall.machines}
    assert {curve.evidence["learned"]["of"] for curve in found.curves.values()} == {"node"}
    errors = hall.errors(found.curves)
    assert statistics.mean(errors) <= 0.01
    assert max(errors) <= 0.08
    for machine in hall.machines:
        own = hall.errors({machine.name: found.curves[machine.name]})
        assert statistics.mean(own) <= 0.03


def test_the_stated_error_is_about_the_error_against_the_physics(hall: Hall) -> None:
    found = learn([hall.state(one) for one in hall.machines], hall.recorded, hall.types, 0.8)
    stated = [curve.evidence["learned"]["error_percent"] for curve in found.curves.values()]
    assert statistics.mean(stated) == pytest.approx(
        100 * statistics.mean(hall.errors(found.curves)), abs=0.5
    )


def test_a_machine_without_samples_takes_the_curve_of_its_type(hall: Hall) -> None:
    names = sorted(hall.types)
    known = Samples({name: hall.recorded.nodes[name] for name in names[::2]})
    unknown = [machine for machine in hall.machines if machine.name not in known.nodes]
    found = learn([hall.state(machine) for machine in unknown], known, hall.types, 0.8)
    assert found.curves
    assert {curve.evidence["learned"]["of"] for curve in found.curves.values()} == {"type"}
    assert statistics.mean(hall.errors(found.curves)) <= 0.03
    # For each machine without a curve the reason is reported.
    assert {machine.name for machine in unknown} == found.curves.keys() | found.lacking.keys()


@given(
    loads=st.lists(st.floats(0, 1), min_size=2, max_size=60),
    source=st.randoms(use_true_random=False),
)
@examples(60)
def test_watts_never_fall_with_the_load_and_stay_within_the_recorded_ones(
    loads: list[float], source: random.Random
) -> None:
    count = len(loads)
    watts = [source.uniform(50, 500) for _load in loads]
    inlets = [source.choice([18.0, 25.0, float("nan")]) for _load in loads]
    table = Table(
        numpy.array(loads),
        numpy.array(inlets),
        numpy.full(count, numpy.nan),
        numpy.array(watts),
        numpy.ones(count),
    )
    for inlet in (None, -50.0, 22.0, 90.0):
        found = fit(table).watts(numpy.linspace(0, 1, 101), inlet, 3.0)
        assert numpy.isfinite(found).all()
        assert (numpy.diff(found) >= 0).all()
        assert min(watts) <= found.min() and found.max() <= max(watts)


def test_a_curve_spans_the_recorded_loads_and_says_what_it_is_made_of() -> None:
    found = learned("n1", n1=recorded())
    curve = found.curves["n1"].as_document()
    assert (curve["cpu"][0], curve["cpu"][-1]) == (0.1 * CORES, 0.75 * CORES)
    assert len(curve["cpu"]) == len(curve["watts"]) == GRID_POINTS
    assert curve["watts"] == pytest.approx([120 + 7.5 * cpu for cpu in curve["cpu"]], rel=0.02)
    evidence = curve["learned"]
    assert evidence.pop("error_percent") < 2
    assert evidence == {"of": "node", "samples": 14, "nodes": 1, "load_percent": [10.0, 75.0]}


def test_temperature_counts_where_it_was_recorded_to_count() -> None:
    warm = recorded(lambda load: 100 + 200 * load, LOADS, (20.0,)).samples
    hot = recorded(lambda load: 1.1 * (100 + 200 * load), LOADS, (30.0,)).samples
    moved = [sample._replace(unix_seconds=100.0 + sample.unix_seconds) for sample in hot]
    both = Samples({"n1": NodeSamples(CORES, (*warm, *moved))})

    def watts(inlet: float) -> float:
        states = [NodeState("n1", CORES, "", inlet, 5.0)]
        return float(learn(states, both, {}, 0.8).curves["n1"].curve.watts[10])

    assert watts(30.0) / watts(20.0) == pytest.approx(1.1, abs=0.02)
    # Beyond the recorded temperatures the nearest one counts.
    assert (watts(60.0), watts(-5.0)) == (watts(30.0), watts(20.0))


@pytest.mark.parametrize(
    ("given_samples", "words"),
    [
        (recorded(loads=LOADS[: MIN_SAMPLES - 1]), "11 samples are recorded, 12 are needed"),
        (recorded(loads=[0.31, 0.33] * 10), "loads from 31 to 33 % in 1 twentieths"),
        (recorded(loads=[0.62, 0.8, 0.96, 1.0] * 4), "loads from 62 to 100 % in 3 twentieths"),
        (recorded(lambda load: 400 if round(load * 20) % 2 else 90), "contradict each other"),
    ],
)
def test_too_few_samples_too_few_loads_and_contradictions_give_no_curve(
    given_samples: NodeSamples, words: str
) -> None:
    found = learned("n1", n1=given_samples)
    assert not found.curves
    assert words in found.lacking["n1"]


def test_samples_of_another_capacity_are_of_another_machine() -> None:
    states = [NodeState("n1", 2 * CORES, "", 22.0, 5.0)]
    found = learn(states, Samples({"n1": recorded()}), {}, 0.8)
    assert found.lacking == {"n1": "no sample of it is recorded"}


def test_a_machine_that_lies_is_found_and_does_not_count_for_its_type() -> None:
    honest = {f"n{number}": recorded() for number in (1, 2, 3)}
    liar = recorded(lambda load: 20 + 1 * load)
    without = learned("new", server_type="r650", **honest)
    found = learned("new", server_type="r650", liar=liar, **honest)
    assert found.curves == without.curves
    [finding] = found.findings
    assert (finding.subject.name, finding.field) == ("liar", "power_watts")
    assert "differs by" in finding.problem


def test_beyond_its_own_loads_a_curve_continues_with_the_slopes_of_its_type() -> None:
    def small(load: float) -> float:
        return 0.9 * (120 + 300 * load)

    others = {f"n{number}": recorded(loads=LOADS) for number in (1, 2, 3)}
    idle = recorded(small, [load / 2 for load in LOADS])
    curve = learned("idle", server_type="r650", idle=idle, **others).curves["idle"].as_document()
    assert (curve["cpu"][0], curve["cpu"][-1]) == (0.05 * CORES, 0.75 * CORES)
    assert curve["watts"] == pytest.approx([small(cpu / CORES) for cpu in curve["cpu"]], rel=0.03)
    assert curve["watts"] == sorted(curve["watts"])
    evidence = curve["learned"]
    assert (evidence["of"], evidence["load_percent"]) == ("node", [5.0, 37.5])
    assert (evidence["beyond"]["nodes"], evidence["beyond"]["load_percent"]) == (4, [5.0, 75.0])


def test_machines_whose_own_loads_are_low_are_priced_up_to_the_loads_of_their_type() -> None:
    found = Hall(least=0.05, most=0.3)
    found.observe(40)
    busy = Hall(least=0.05, most=0.9)
    busy.observe(40)
    idle = [machine for index, machine in enumerate(found.machines) if index % 2]
    mixed = {**busy.recorded.nodes, **{one.name: found.recorded.nodes[one.name] for one in idle}}
    curves = learn([found.state(one) for one in idle], Samples(mixed), found.types, 0.8).curves
    continued = {name: one for name, one in curves.items() if "beyond" in one.evidence["learned"]}
    assert continued
    assert statistics.mean(found.errors(continued)) <= 0.03


def test_a_few_wrong_samples_do_not_bend_a_curve() -> None:
    rows = list(recorded(loads=3 * LOADS).samples)
    good = learned("n1", n1=NodeSamples(CORES, tuple(rows))).curves["n1"].curve
    for index in (4, 20):
        rows[index] = rows[index]._replace(power_watts=900.0)
    bent = learned("n1", n1=NodeSamples(CORES, tuple(rows))).curves["n1"].curve
    assert bent.watts == pytest.approx(good.watts, rel=0.02)


def test_loads_of_requests_are_priced_as_the_placer_prices_them() -> None:
    rows = tuple(
        Sample(float(index), None, load * CORES, None, None, 120 + 300 * load)
        for index, load in enumerate(LOADS)
    )
    state = NodeState("n1", CORES, axis="requested")
    found = learn([state], Samples({"n1": NodeSamples(CORES, rows)}), {}, 0.5)
    assert found.curves["n1"].curve.cores[-1] == pytest.approx(0.5 * 0.75 * CORES)
    # No load was metered, so none can be used.
    metered = learn([NodeState("n1", CORES)], Samples({"n1": NodeSamples(CORES, rows)}), {}, 0.5)
    assert "0 samples" in metered.lacking["n1"]


@each_seed(60)
def test_whatever_one_node_recorded_others_learn_as_if_they_were_alone(seed: int) -> None:
    good = recorded().as_document()
    bad = spoilt(random.Random(seed), good)
    with bounded():
        read = samples.read({"nodes": {"bad": bad, "good": good}})
        found = learn(
            [NodeState("bad", CORES), NodeState("good", CORES)],
            read,
            dict.fromkeys(read.nodes, ""),
            0.8,
        )
    alone = learn([NodeState("good", CORES)], samples.read({"nodes": {"good": good}}), {}, 0.8)
    assert found.curves["good"] == alone.curves["good"]
    assert len(read.findings) + len(found.findings) <= 1
    assert not [one for one in (*read.findings, *found.findings) if one.subject.name != "bad"]
