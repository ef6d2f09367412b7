# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import itertools
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import physics
from lab.machines import SERVER_TYPES, Machine, build_machines

MACHINES = build_machines(50, 4, 1)
NOW = 1_795_000_000.0

machines = st.sampled_from(MACHINES)
types = st.sampled_from(sorted(SERVER_TYPES))
times = st.floats(0, 4e9)
celsius = st.floats(-20, 70)
pascals = st.floats(-100, 100)


def pod(cpu: str | None = "1", name: str = "p", **fields: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    return {
        "metadata": {"namespace": "demo", "name": name, **fields},
        "spec": {"containers": [{"name": "c", "resources": resources}]},
    }


def truth(machine: Machine, load_cores: float = 0.0, now: float = NOW) -> physics.Truth:
    return physics.truth(machine, physics.hidden_facts(machine, 1), now, load_cores)


@given(machine=machines, load=st.floats(-5, 500), now=times)
def test_watts_are_positive_and_plausible_and_the_same_again(
    machine: Machine, load: float, now: float
) -> None:
    state = truth(machine, load, now)
    most = physics.curve(machine.server_type)[-1]
    assert 0 < state.power_watts < 1.2 * most
    assert 0 <= state.cpu_cores <= machine.cores
    assert state == truth(machine, load, now)


@given(machine=machines, loads=st.tuples(st.floats(0, 1), st.floats(0, 1)), now=times)
def test_watts_grow_with_load(machine: Machine, loads: tuple[float, float], now: float) -> None:
    low, high = sorted(loads)
    less = truth(machine, low * machine.cores, now).power_watts
    assert less <= truth(machine, high * machine.cores, now).power_watts + 1e-9


@given(kind=types, load=st.floats(0, 1), inlets=st.tuples(celsius, celsius), delta_p=pascals)
def test_nominal_watts_grow_with_inlet_temperature(
    kind: str, load: float, inlets: tuple[float, float], delta_p: float
) -> None:
    low, high = sorted(inlets)
    watts = physics.nominal_watts(kind, load, low, delta_p)
    assert watts > 0
    assert watts <= physics.nominal_watts(kind, load, high, delta_p)


@given(kind=types, load=st.floats(0, 1), inlet=celsius, pressures=st.tuples(pascals, pascals))
def test_nominal_watts_fall_with_pressure(
    kind: str, load: float, inlet: float, pressures: tuple[float, float]
) -> None:
    low, high = sorted(pressures)
    watts = physics.nominal_watts(kind, load, inlet, low)
    assert watts >= physics.nominal_watts(kind, load, inlet, high)


def test_nominal_watts_are_the_curve_at_reference_conditions() -> None:
    watts = physics.curve("epyc-7702p-64c")
    for step in range(11):
        nominal = physics.nominal_watts("epyc-7702p-64c", step / 10, 20.0, 5.0)
        assert nominal == pytest.approx(watts[step])
    middle = physics.nominal_watts("epyc-7702p-64c", 0.45, 20.0, 5.0)
    assert middle == pytest.approx((watts[4] + watts[5]) / 2)
    beyond = physics.nominal_watts("epyc-7702p-64c", 1.5, 20.0, 5.0)
    assert beyond == pytest.approx(watts[10])


def test_heat_above_the_threshold_costs_some_percent() -> None:
    cool, warm, hot = (
        physics.nominal_watts("xeon-8380-80c", 0.5, inlet, 5.0) for inlet in (18, 24, 30)
    )
    assert cool == warm
    assert 1.03 < hot / cool < 1.08


def test_every_machine_has_a_bias_that_the_nominal_model_does_not_know() -> None:
    factors = []
    for machine in MACHINES:
        state = truth(machine, 10.0)
        nominal = physics.nominal_watts(
            machine.server_type,
            10.0 / machine.cores,
            state.inlet_celsius,
            state.delta_p_pascal,
        )
        factors.append(state.power_watts / nominal)
    assert len(set(factors)) == len(MACHINES)
    assert 0.95 < min(factors) < 0.99
    assert 1.01 < max(factors) < 1.05


def test_another_seed_hides_other_facts() -> None:
    assert physics.hidden_facts(MACHINES[0], 1) != physics.hidden_facts(MACHINES[0], 2)


def test_air_is_warmer_and_pressure_lower_at_the_top_of_a_rack() -> None:
    rack = [truth(machine) for machine in MACHINES if machine.rack == "r1"]
    assert rack[-1].inlet_celsius > rack[0].inlet_celsius + 3
    assert rack[-1].delta_p_pascal < rack[0].delta_p_pascal - 4


@given(machine=machines, now=times)
def test_the_room_stays_in_range_and_changes_slowly(machine: Machine, now: float) -> None:
    state, later = truth(machine, now=now), truth(machine, now=now + 60)
    assert 15 < state.inlet_celsius < 30
    assert -5 <= state.delta_p_pascal <= 20
    assert abs(later.inlet_celsius - state.inlet_celsius) <= 0.32


def test_the_ripple_is_small() -> None:
    watts = [truth(MACHINES[0], 10.0, NOW + second).power_watts for second in range(60)]
    assert max(watts) / min(watts) < 1 + 2 * physics.RIPPLE + 0.001


def test_pods_use_between_sixty_and_a_hundred_percent_of_their_requests() -> None:
    factors = [physics.use_factor("demo", f"pod-{number}") for number in range(4000)]
    assert min(factors) >= 0.6
    assert max(factors) <= 1.0
    assert statistics.mean(factors) == pytest.approx(0.8, abs=0.01)
    assert physics.use_factor("demo", "a") != physics.use_factor("other", "a")


def test_a_pod_uses_its_requests_times_its_factor() -> None:
    cores = physics.pod_cpu_cores(pod("500m"))
    assert cores == pytest.approx(0.5 * physics.use_factor("demo", "p"))
    assert physics.pod_cpu_cores(pod(None)) == 0.0


def test_the_annotation_says_what_a_pod_uses() -> None:
    annotations = {physics.CPU_USAGE_ANNOTATION: "1500m"}
    assert physics.pod_cpu_cores(pod("4", annotations=annotations)) == 1.5


def test_sidecars_count_and_other_init_containers_do_not() -> None:
    spec = {
        "containers": [{"resources": {"requests": {"cpu": "1"}}}, {}],
        "initContainers": [
            {"restartPolicy": "Always", "resources": {"requests": {"cpu": "250m"}}},
            {"resources": {"requests": {"cpu": "8"}}},
        ],
    }
    assert physics.requested_cpu_cores(spec) == 1.25


@pytest.mark.parametrize(
    ("text", "cores"),
    [("2", 2.0), ("1.5", 1.5), ("250m", 0.25), ("100u", 1e-4), ("5n", 5e-9), ("1k", 1e3), (3, 3)],
)
def test_cpu_quantities(text: str | float, cores: float) -> None:
    assert physics.cpu_quantity(text) == pytest.approx(cores)


@pytest.mark.parametrize("text", ["", "m", "two", "-1", "nan", "inf"])
def test_what_is_no_cpu_quantity(text: str) -> None:
    with pytest.raises(ValueError):
        physics.cpu_quantity(text)


def test_all_types_differ() -> None:
    for one, other in itertools.combinations(SERVER_TYPES, 2):
        assert physics.curve(one) != physics.curve(other)
