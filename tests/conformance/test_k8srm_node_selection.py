# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""device_allocation on the prototype's node selection: eight cases, and its README's output."""

from __future__ import annotations

import typing as t

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.devices.allocation import allocate
from lab.device_shapes import device_pools
from support.device_objects import device_claim
from support.reference import require_reference

FOOZER, BARZER = "example.com-foozer", "example.com-barzer"
Json = dict[str, t.Any]


def claim(name: str = "myclaim", driver: str = FOOZER, **more: t.Any) -> Json:
    # The prototype does not look up classes; its tests say so in the field.
    return device_claim(name, deviceClass="not implemented yet", driver=driver, **more)


ZERO_AND_THREE = device_pools("zero") + device_pools("three")
CASES: dict[str, tuple[list[Json], list[Json], list[Json] | None]] = {
    "single by driver": (
        [claim()],
        ZERO_AND_THREE,
        [{"devicePoolName": "shape-zero-00-foozer-00", "deviceCount": 1}],
    ),
    "single with constraint met": (
        [claim(constraints="device.model=='foozer-1000'")],
        ZERO_AND_THREE,
        [{"devicePoolName": "shape-zero-00-foozer-00", "deviceCount": 1}],
    ),
    "single with constraint not met": (
        [claim(constraints="device.model=='foozer-8000'")],
        ZERO_AND_THREE,
        None,
    ),
    "multiple single pool": (
        [claim(minDeviceCount=2)],
        device_pools("zero"),
        [{"devicePoolName": "shape-zero-00-foozer-00", "deviceCount": 2}],
    ),
    "split across pools": (
        [claim(minDeviceCount=4)],
        device_pools("one"),
        [
            {"devicePoolName": "shape-one-00-foozer-00", "deviceCount": 2},
            {"devicePoolName": "shape-one-00-foozer-01", "deviceCount": 2},
        ],
    ),
    "two claims not satisfiable by a single node": (
        [claim("foozers", minDeviceCount=2), claim("barzers", BARZER, minDeviceCount=2)],
        ZERO_AND_THREE,
        None,
    ),
    "two claims satisfiable by a single node": (
        [claim("foozers", minDeviceCount=2), claim("barzers", BARZER, minDeviceCount=2)],
        device_pools("foozer-barzer"),
        [
            {"devicePoolName": "shape-foozer-barzer-00-foozer-00", "deviceCount": 2},
            {"devicePoolName": "shape-foozer-barzer-00-barzer-00", "deviceCount": 2},
        ],
    ),
    "NUMA MatchAttribute": (
        [claim(minDeviceCount=4, attributeMatches=["numa"])],
        device_pools("one"),
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_node_is_selected_as_in_the_prototype_s_case(name: str) -> None:
    claims, pools, expected = CASES[name]
    result = allocate({"objects": pools + claims, "strategy": "first_fit"})
    given = [entry for found in result["allocations"] if found for entry in found["allocations"]]
    if expected is None:
        assert (result["outcome"], given, result["node"]) == ("infeasible", [], None)
        assert all(node["score"] == 0 for node in result["node_results"])
    else:
        assert (result["outcome"], given, result["score"]) == ("allocated", expected, 100)


def readme_output(after: str) -> str:
    """The prototype's README output for its first test, after this command."""
    text = require_reference("originals", "k8srm-prototype.txt").read_text(encoding="utf-8")
    shown = text.partition(after)[2].partition("=== TEST single by driver")[2]
    return shown.partition("=== DONE single by driver")[0].strip()


def printed(verbose: bool) -> str:
    result = allocate(
        {
            "objects": [*ZERO_AND_THREE, claim()],
            "strategy": "first_fit",
            "format": "k8srm",
            "verbose": verbose,
        }
    )
    return str(result["text"]).strip()


def test_the_verbose_output_is_that_of_the_readme() -> None:
    assert printed(verbose=True) == readme_output("$ VERBOSE=y go test")


def test_the_short_output_is_that_of_the_readme_in_the_order_of_names() -> None:
    ours, theirs = sections(printed(verbose=False)), sections(readme_output("$ go test"))
    assert yaml.safe_load(ours[0]) == yaml.safe_load(theirs[0])
    assert sorted(ours[1].splitlines()) == sorted(theirs[1].splitlines())
    assert ours[1].splitlines() == sorted(ours[1].splitlines())


def sections(text: str) -> list[str]:
    """The text below the two headings."""
    allocations, results = text.split("NODE RESULTS\n------------\n")
    assert allocations.startswith("ALLOCATIONS\n-----------\n")
    return [allocations.removeprefix("ALLOCATIONS\n-----------\n").strip(), results.strip()]


def test_claims_of_one_pod_are_not_given_the_same_device() -> None:
    """Upstream judges each claim in isolation, and allocates a device twice."""
    result = allocate(
        {
            "objects": [*device_pools("zero", 1), claim("a"), claim("b"), claim("c")],
            "strategy": "first_fit",
        }
    )
    assert result["outcome"] == "infeasible"
    [node] = result["node_results"]
    assert [found["best"] for found in node["DeviceClaimResults"]] == [0, 0, -1]
    assert node["DeviceClaimResults"][2]["ignoredPools"] == [
        {
            "poolName": "shape-zero-00-foozer-00",
            "deviceCount": 0,
            "failureReason": "no available devices",
        }
    ]
