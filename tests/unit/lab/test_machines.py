# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import LabError
from lab.machines import SERVER_TYPES, build_machines, select
from lab.physics import curve


def bow(watts: tuple[float, ...]) -> float:
    """Distance of the power draw at half load above the straight line, relative to the span."""
    return (watts[5] - (watts[0] + watts[-1]) / 2) / (watts[-1] - watts[0])


def test_equal_arguments_give_equal_machines() -> None:
    assert build_machines(50, 4, 7) == build_machines(50, 4, 7)
    assert build_machines(50, 4, 7) != build_machines(50, 4, 8)


@given(nodes=st.integers(1, 600), racks=st.integers(3, 254), seed=st.integers(0, 9))
def test_names_and_addresses_are_unique_and_derived_from_each_other(
    nodes: int, racks: int, seed: int
) -> None:
    machines = build_machines(nodes, racks, seed)
    assert len(machines) == nodes
    assert len({machine.name for machine in machines}) == nodes
    assert len({machine.bmc_address for machine in machines}) == nodes
    for machine in machines:
        assert machine.bmc_address.split(".")[1:] == machine.internal_address.split(".")[1:]
        assert ipaddress.ip_address(machine.bmc_address).is_loopback
        assert 1 <= machine.position <= 42


def test_machines_are_spread_over_racks_and_heights() -> None:
    machines = build_machines(50, 4, 1)
    sizes = [sum(machine.rack == f"r{rack}" for machine in machines) for rack in range(1, 5)]
    assert sizes == [13, 13, 12, 12]
    assert max(machine.position for machine in machines) > 35
    assert machines[0].name == "r1-n01"


def test_the_first_machines_of_any_seed_have_six_kinds_of_bmc() -> None:
    for seed in range(20):
        assert len({machine.vendor for machine in build_machines(6, 1, seed)}) == 6


def test_types_are_dealt_evenly() -> None:
    machines = build_machines(90, 4, 1)
    counts = [sum(machine.server_type == name for machine in machines) for name in SERVER_TYPES]
    assert set(counts) == {10}


def test_one_in_ten_is_self_signed() -> None:
    machines = build_machines(50, 4, 1)
    assert sum(machine.certificate == "self-signed" for machine in machines) == 5


def test_each_rack_has_a_password_of_its_own_that_is_not_shown() -> None:
    machines = build_machines(50, 4, 1)
    assert len({machine.bmc_password for machine in machines}) == 4
    assert len({machine.bmc_username for machine in machines}) == 4
    assert machines[0].bmc_password not in repr(machines[0])
    assert machines[0].bmc_password != build_machines(50, 4, 2)[0].bmc_password


@pytest.mark.parametrize("name", SERVER_TYPES)
def test_types_are_plausible_servers_of_the_data(name: str) -> None:
    kind = SERVER_TYPES[name]
    watts = curve(name)
    assert 16 <= kind.cores <= 128
    assert 1 <= watts[-1] / kind.cores <= 40
    assert list(watts) == sorted(watts)


def test_there_are_convex_and_concave_types_and_all_six_vendors() -> None:
    bows = [bow(curve(name)) for name in SERVER_TYPES]
    assert sum(value > 0.1 for value in bows) >= 3
    assert sum(value < -0.1 for value in bows) >= 3
    assert len({kind.vendor for kind in SERVER_TYPES.values()}) == 6


@pytest.mark.parametrize(
    ("nodes", "racks", "words"),
    [
        (0, 4, "at least 1 node"),
        (5, 0, "1 to 254 racks"),
        (5, 255, "1 to 254 racks"),
        (1000, 3, "ask for 4 racks or more"),
    ],
)
def test_impossible_labs_are_refused(nodes: int, racks: int, words: str) -> None:
    with pytest.raises(LabError, match=words):
        build_machines(nodes, racks, 1)


def test_select_keeps_the_order_and_names_what_is_missing() -> None:
    machines = build_machines(6, 1, 1)
    assert [machine.name for machine in select(machines, ["r1-n05", "r1-n02"])] == [
        "r1-n05",
        "r1-n02",
    ]
    with pytest.raises(LabError, match=r"no machine r9-n01 in this lab; .* r1-n01 to r1-n06"):
        select(machines, ["r9-n01"])
