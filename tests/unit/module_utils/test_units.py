# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base import units
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", "0.5"),
        ("2", "2"),
        (4, "4"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("1Ki", "1024"),
        ("1.5Gi", "1610612736"),
        ("10k", "10000"),
        ("1e3", "1000"),
        ("1E", "1000000000000000000"),
        ("15500m", "15.5"),
        ("22123456u", "22.123456"),
        ("-500m", "-0.5"),
        ("100n", "1e-7"),
    ],
)
def test_quantities_are_exact(text: str | int, value: str) -> None:
    assert units.parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "m", "1 Gi", "1GB", "0x10", "NaN", "1e", True, "--1"])
def test_what_is_no_quantity_is_refused_with_the_field_and_an_example(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"pods\[3\]\.cpu: .* 500m"):
        units.parse_quantity(text, "pods[3].cpu")


def test_millicores_and_units_round_up_as_kubernetes_does() -> None:
    assert units.cpu_millicores("1u") == 1
    assert units.cpu_millicores("0.0015") == 2
    assert units.whole_units("100m") == 1
    assert units.whole_units("1Mi") == 1048576


@given(st.integers(min_value=-(10**12), max_value=10**12))
def test_millicores_of_whole_milli_quantities_are_that_number(number: int) -> None:
    assert units.cpu_millicores(f"{number}m") == number


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15.0),
        ("1m30s", 90.0),
        ("250ms", 0.25),
        ("1.5h", 5400.0),
        ("0", 0.0),
        ("-2s", -2.0),
        ("10µs", 1e-5),
        ("1h1m1s1ms", 3661.001),
    ],
)
def test_durations_are_read_as_go_reads_them(text: str, seconds: float) -> None:
    assert units.parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "15", "s", "1d", "1 s", "1s2", "ten", 15])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"fetchInterval: .* is not a duration; write .* 15s"):
        units.parse_duration(text, "fetchInterval")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(4.21, "4.2 s"), (185, "3 min 05 s"), (3720, "1 h 02 min"), (59.99, "60.0 s")],
)
def test_durations_are_shown_for_people(seconds: float, text: str) -> None:
    assert units.format_duration(seconds) == text


def test_cpu_lists_are_read_and_written_as_linux_does() -> None:
    assert units.parse_cpu_list("0-3,8,10-11\n") == (0, 1, 2, 3, 8, 10, 11)
    assert units.parse_cpu_list("") == ()
    assert units.parse_cpu_list("4,1,1-2") == (1, 2, 4)
    assert units.format_cpu_list([3, 1, 2, 8]) == "1-3,8"


@pytest.mark.parametrize("text", ["a", "3-1", "1-", "-1", "0-9999999999", "1;2"])
def test_broken_cpu_lists_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="CPU list"):
        units.parse_cpu_list(text)


@given(st.sets(st.integers(min_value=0, max_value=2000)))
def test_a_cpu_list_survives_being_written_and_read(cpus: set[int]) -> None:
    assert set(units.parse_cpu_list(units.format_cpu_list(cpus))) == cpus


@given(st.text())
def test_no_text_makes_the_parsers_raise_anything_but_invalid_input(text: str) -> None:
    for parse in (
        units.parse_quantity,
        units.parse_duration,
        units.parse_cpu_list,
        units.parse_time,
    ):
        with contextlib.suppress(InvalidInput):
            parse(text)


@pytest.mark.parametrize(
    "text",
    ["2026-01-31T12:00:00Z", "2026-01-31T13:00:00+01:00", "2026-01-31T12:00:00.123456789Z"],
)
def test_times_are_read_in_utc(text: str) -> None:
    moment = units.parse_time(text)
    assert moment.replace(microsecond=0) == datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
    assert units.format_time(moment) == "2026-01-31T12:00:00Z"
