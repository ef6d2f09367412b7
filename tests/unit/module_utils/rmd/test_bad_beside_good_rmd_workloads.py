# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An unreadable RmdWorkload or RmdConfig changes nothing for the others."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import pytest

from lab.rmd.host import Configuration
from support.bad_beside_good_rmd import BAD, Before, Json, bad_object, config, of_others, workload
from support.examples import each_seed
from support.rmd import rmd_daemons

GOOD = workload(
    BAD,
    ["20", "21-22"],
    "n1",
    "n2",
    policy="",
    reservedCoreIds=["1"],
    rdt={"cache": {"max": 2, "min": 1}, "mba": {"percentage": 100}},
    plugins={"pstate": {"ratio": "1.5", "monitoring": "on"}},
)
GOOD["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": "p", "uid": "u", "controller": True}]
GOOD["status"] = {
    "conditions": [{"type": "Ready", "status": "True"}],
    "workloadStates": {"n1": {"response": "Success: 200"}},
}


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Before]:
    folder = tmp_path_factory.mktemp("rmd")
    with rmd_daemons(folder, {"n1": Configuration(pstate=True), "n2": Configuration()}) as daemons:
        yield Before(daemons)


@each_seed(75)
def test_a_bad_workload_changes_nothing_for_the_others(before: Before, seed: int) -> None:
    result = before.beside("rmd_workloads", bad_object(seed, GOOD))
    assert of_others(result) == of_others(before.without)


@each_seed(30)
def test_a_bad_configuration_changes_nothing_for_workloads(before: Before, seed: int) -> None:
    result = before.beside("rmd_configs", bad_object(seed, config(BAD, "a")))
    mine, others = of_others(result), of_others(before.without)
    # A readable one may select fewer nodes for workloads with a node selector, as intended.
    for part in ("results", "statuses") if not result["findings"][1:] else ():
        mine[part] = [each for each in mine[part] if "two" not in str(each)]
        others[part] = [each for each in others[part] if "two" not in str(each)]
    assert mine == others


@pytest.mark.parametrize(
    ("part", "good"),
    [("rmd_configs", config(BAD, "a")), ("rmd_workloads", workload(BAD, ["20"], "n1"))],
)
@pytest.mark.parametrize(
    ("member", "value"),
    [("name", ""), ("name", 0), ("name", None), ("name", ["x"]), ("namespace", 5)],
)
def test_an_object_without_a_usable_name_keeps_no_status_from_being_applied(
    before: Before, part: str, good: Json, member: str, value: t.Any
) -> None:
    bad = {**good, "metadata": {**good["metadata"], member: value}}
    result = before.beside(part, bad)
    assert result["statuses"] == before.without["statuses"]
    told = [each["field"] for each in result["findings"] if each["name"] != "invalid"]
    assert told == [f"metadata.{member}"]


NAMED: list[tuple[str, t.Any]] = [
    ("coreIds", ["0-999999999"]),
    ("coreIds", ["٣"]),
    ("coreIds", ["0-65535"] * 5000),
    ("coreIds", "5"),
    ("cache", {"max": "abc", "min": 2}),
    ("cache", {"max": 2**70, "min": 2**70}),
    ("plugins", {"pstate": {"ratio": "nan", "monitoring": "on"}}),
    ("nodes", [["n1"]]),
    ("nodeSelector", {"rack": ["a"]}),
    ("allCores", "no"),
]


@pytest.mark.parametrize(("member", "value"), NAMED)
def test_what_cannot_be_read_is_told_on_the_object(
    before: Before, member: str, value: t.Any
) -> None:
    bad = workload(BAD, ["20"], "n1", **{member: value})
    result = before.beside("rmd_workloads", bad)
    assert of_others(result) == of_others(before.without)
    assert [each["name"] for each in result["findings"]] == [BAD, "invalid"]
    [status] = [each for each in result["statuses"] if each["metadata"]["name"] == BAD]
    [ready] = [each for each in status["status"]["conditions"] if each["type"] == "Ready"]
    assert (ready["status"], ready["reason"]) == ("False", "Invalid")
    assert len(ready["message"]) < 1000
