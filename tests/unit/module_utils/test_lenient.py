# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math
import random
import typing as t

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base.fields.lenient import (
    MAX_TEXT_LENGTH,
    number,
    only,
    text,
    whole,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish import words
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.links import (
    MAX_NAME_LENGTH,
    MAX_URI_LENGTH,
    link,
    name_of,
    natural_order,
)
from support.examples import each_seed
from support.odd_values import bounded, odd_value

LONG = 400_000


def test_only_the_named_members_of_an_object_are_kept() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "a", "uid": "u"}, "spec": None, "status": "odd"}
    trim = only("metadata.name", "metadata.labels", "spec.nodeName", "status.phase")
    assert trim(pod) == {"metadata": {"name": "a"}}
    assert only("metadata", "kind")(pod) == {"kind": "Pod", "metadata": pod["metadata"]}


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("22.5", 22.5),
        (" 22.5 ", 22.5),
        ("-.5e1", -5.0),
        ("22.", 22.0),
        (7, 7.0),
        (True, None),
        ("1e999", None),
        ("٣", None),
        ("1_000", None),
        ("nan", None),
        (math.nan, None),
        (10**400, None),
        ("1" * 41, None),
    ],
)
def test_a_number_may_be_written_as_text(given: t.Any, value: float | None) -> None:
    assert number(given) == value


@pytest.mark.parametrize("given", ["1" * LONG + "x", " " * LONG + "x", "1." * LONG, "." * LONG])
def test_a_long_text_costs_no_more_than_its_length(given: str) -> None:
    with bounded():
        assert number(given) is None
        assert len(text(given)) <= MAX_TEXT_LENGTH
        assert link(given) == ""
        name = name_of(given)
        assert len(name) <= MAX_NAME_LENGTH
        words.is_elsewhere(name)
        words.air_rank(name)
        natural_order(name)


@pytest.mark.parametrize(
    ("given", "value"),
    [
        (" Inlet\t", "Inlet"),
        ("a\x00b", "a\\x00b"),
        ("\ud800", "\\ud800"),
        ("\x1b[2J", "\\x1b[2J"),
        (7, ""),
        (None, ""),
    ],
)
def test_a_text_is_printable(given: t.Any, value: str) -> None:
    assert text(given) == value


def test_a_link_is_printable_and_not_cut() -> None:
    assert link({"@odata.id": " /redfish/v1/Chassis/吸気 "}) == "/redfish/v1/Chassis/吸気"
    assert link("/redfish/v1/\n") == "/redfish/v1/"
    assert link("/redfish\n/v1") == link("/\ud800") == link("/" * (MAX_URI_LENGTH + 1)) == ""


@pytest.mark.parametrize(("given", "value"), [("3", 3), (2.9, 2), (2**31, None), ("x", None)])
def test_a_whole_number_fits_an_object_of_kubernetes(given: t.Any, value: int | None) -> None:
    assert whole(given) == value


@each_seed(75)
def test_any_value_gives_something_that_can_be_kept(seed: int) -> None:
    value = odd_value(random.Random(seed), finite=False)
    with bounded():
        found = number(value)
        assert found is None or math.isfinite(found)
        for kept in (text(value), name_of(value), link(value)):
            assert kept.isprintable()
            assert len(kept) <= MAX_URI_LENGTH
