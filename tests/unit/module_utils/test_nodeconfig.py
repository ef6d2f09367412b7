# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NodeConfigs: their errors, and the one that counts."""

from __future__ import annotations

import copy
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.fields.strict import is_subdomain
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.nodeconfig import (
    API_VERSIONS,
    check_url,
    effective,
    is_rendered,
    problems,
)
from support.wao import node_config, sample

OLD, YOUNG = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
OWNED: MutableObject = {
    "ownerReferences": [{"kind": "NodeConfigTemplate", "uid": "u", "controller": True}]
}


def changed(obj: MutableObject, value: t.Any, *path: str) -> MutableObject:
    obj = copy.deepcopy(obj)
    inner = obj
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return obj


@pytest.mark.parametrize("name", ["nodeconfig", "nodeconfig-provider", "nodeconfig-fake"])
def test_the_samples_have_no_problem(name: str) -> None:
    assert problems(sample(name)) == []


INLET = ("spec", "metricsCollector", "inletTemp")
POWER = ("spec", "predictor", "powerConsumption")
BAD_FIELDS: dict[str, tuple[tuple[str, ...], t.Any, str]] = {
    "no node": (("spec", "nodeName"), "", "spec.nodeName: '' is not the name of a Node"),
    "a node in capitals": (("spec", "nodeName"), "Worker", "'Worker' is not the name of a Node"),
    "an unknown type": (
        (*INLET, "type"),
        "IPMI",
        "spec.metricsCollector.inletTemp.type: 'IPMI' is not a supported type; write "
        "Redfish or Fake",
    ),
    "no type": ((*INLET, "type"), None, "None is not a supported type"),
    "an empty type": ((*INLET, "type"), "", "'' is not a supported type"),
    "an empty type without a provider": (
        (*POWER, "type"),
        "",
        "spec.predictor.powerConsumption.type: is empty, but there is no "
        "powerConsumptionEndpointProvider; write V2InferenceProtocol or Fake",
    ),
    "a text for a term": (INLET, "Redfish", "inletTemp: is not a mapping with type and endpoint"),
    "no term": (INLET, None, "inletTemp: is missing; write one of type Redfish"),
    "no URL": ((*INLET, "endpoint"), "", "inletTemp.endpoint: there is no URL"),
    "a wrong URL": (
        (*INLET, "endpoint"),
        "10.0.0.1",
        "inletTemp.endpoint: the endpoint '10.0.0.1'",
    ),
    "a Secret in capitals": (
        (*INLET, "basicAuthSecret"),
        {"name": "BMC"},
        "basicAuthSecret.name: 'BMC' is not the name of a Secret",
    ),
    "a Secret without its mapping": ((*INLET, "basicAuthSecret"), "a b", "is not the name of a"),
    "a duration in words": (
        (*INLET, "fetchInterval"),
        "ten seconds",
        "inletTemp.fetchInterval: 'ten seconds' is not a Go duration; write one such as 15s",
    ),
    "a number for a duration": ((*INLET, "fetchInterval"), 10, "10 is not a Go duration"),
    "no duration": ((*INLET, "fetchInterval"), "0s", "'0s' is not more than 0s"),
    "a negative duration": ((*INLET, "fetchInterval"), "-1s", "'-1s' is not more than 0s"),
}


@pytest.mark.parametrize("case", BAD_FIELDS)
def test_each_problem_names_field_and_remedy(case: str) -> None:
    path, value, expected = BAD_FIELDS[case]
    found = [str(problem) for problem in problems(changed(sample("nodeconfig"), value, *path))]
    assert len(found) == 1 and expected in found[0]


def test_all_problems_are_told_at_once() -> None:
    assert [problem.field for problem in problems({"metadata": {"name": "a"}})] == [
        "spec.nodeName",
        "spec.metricsCollector.inletTemp",
    ]


def test_pressure_and_predictor_are_optional() -> None:
    config = sample("nodeconfig")
    del config["spec"]["metricsCollector"]["deltaP"], config["spec"]["predictor"]
    assert problems(config) == []


@pytest.mark.parametrize(
    "url",
    [
        "https://10.0.0.100",
        "http://10.0.0.1:5000",
        "https://bmc-1.example.com/prefix/",
        "https://bmc_1",
        "https://bmc.example.com.",
        "https://[fd00::1]:8443",
        "HTTPS://BMC",
        "http://10.0.0.1:8080/v2/models/m@1/versions/v0.1.0/infer",
    ],
)
def test_a_good_url_passes(url: str) -> None:
    check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        None,
        "",
        5,
        "10.0.0.100",
        "ftp://10.0.0.100",
        "https://",
        "https:///redfish",
        "https://10.0.0.1:0",
        "https://10.0.0.1:70000",
        "https://10.0.0.1:x",
        "https://fd00::1",
        "https://[fd00::1",
        "https://[fd00]",
        "https://a b",
        " https://a",
        "https://a/?b",
        "https://a#b",
        "https://a/\n",
        # The result of an octet on a node without IPv4.
        "https://10.0.100.",
        "https://10.0..7",
        "https://10.0.0.256",
        "https://10.0.0.0.1",
        "https://-bmc",
        "https://bmc-.example.com",
        "https://bmc..example.com",
        "https://x.x.x.{{",
    ],
)
def test_a_bad_url_is_refused(url: t.Any) -> None:
    with pytest.raises(InvalidInput):
        check_url(url)


@pytest.mark.parametrize(
    "url", ["https://root:p4ss@10.0.0.1", "https://root:p4ss@a b?", "root:p4ss@a"]
)
def test_a_password_in_a_url_is_never_repeated(url: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_url(url)
    assert "p4ss" not in str(caught.value)


@given(st.text())
def test_no_text_breaks_the_url_check(url: str) -> None:
    try:
        check_url(url)
    except InvalidInput as error:
        assert str(error)


@pytest.mark.parametrize("name", ["a", "worker-0", "a.b-c.d", "1", "a" * 253])
def test_a_subdomain_is_recognised(name: str) -> None:
    assert is_subdomain(name)


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a" * 254, "a\n", None])
def test_what_is_no_subdomain_is_recognised(name: t.Any) -> None:
    assert not is_subdomain(name)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, False),
        ({"labels": {"app": "x"}, "ownerReferences": [{"kind": "PowerFleet"}]}, False),
        (OWNED, True),
        ({"labels": {"wattwise.github.io/template": "t"}}, True),
    ],
)
def test_rendered_and_hand_made_are_told_apart(metadata: MutableObject, expected: bool) -> None:
    assert is_rendered(node_config("a", "n", **metadata)) is expected


PRECEDENCE: dict[str, tuple[MutableObject, MutableObject, str, str]] = {
    "the first API group before all else": (
        node_config("b", "n", creationTimestamp=YOUNG, **OWNED),
        node_config("a", "n", creationTimestamp=OLD, api_version=API_VERSIONS[1]),
        "OtherGroup",
        "Node n is configured by wao-system/b, which is in the API group wao.bitmedia.co.jp",
    ),
    "a hand-made one before an older rendered one": (
        node_config("b", "n", creationTimestamp=YOUNG),
        node_config("a", "n", creationTimestamp=OLD, **OWNED),
        "HandMade",
        "Node n is configured by wao-system/b, which does not come from a template",
    ),
    "the oldest": (
        node_config("b", "n", creationTimestamp=OLD),
        node_config("a", "n", creationTimestamp=YOUNG),
        "Older",
        "Node n is configured by wao-system/b, which is older",
    ),
    "one that exists before one that does not yet": (
        node_config("b", "n", creationTimestamp=YOUNG, **OWNED),
        node_config("a", "n", **OWNED),
        "Older",
        "which is older",
    ),
    "the first by name": (
        node_config("a", "n", creationTimestamp=OLD),
        node_config("b", "n", creationTimestamp=OLD),
        "EarlierName",
        "which is as old, and whose name comes first",
    ),
}


@pytest.mark.parametrize("case", PRECEDENCE)
@pytest.mark.parametrize("turned", [False, True])
def test_of_several_for_one_node_one_counts(case: str, turned: bool) -> None:
    winner, other, reason, message = PRECEDENCE[case]
    result = effective([other, winner] if turned else [winner, other])
    assert result.by_node == {"n": winner}
    [shadow] = result.shadowed
    assert tuple(shadow) == (other, winner, reason)
    assert message in shadow.message


def test_what_is_being_deleted_or_names_no_node_counts_for_nothing() -> None:
    going = node_config("a", "n", deletionTimestamp=OLD)
    nameless = node_config("b", "")
    staying = node_config("c", "n")
    bare = {"apiVersion": API_VERSIONS[0], "metadata": {"name": "d"}}
    result = effective([going, nameless, staying, bare])
    assert (result.by_node, result.shadowed) == ({"n": staying}, ())


def test_an_unknown_api_version_is_a_finding_and_counts_for_nothing() -> None:
    good = node_config("b", "m")
    result = effective([node_config("a", "n", api_version="v1"), good])
    assert result.by_node == {"m": good}
    [finding] = result.findings
    assert str(finding).startswith("NodeConfig wao-system/a: apiVersion: 'v1' is not known; write")
    assert result.unreadable == {"n": finding}


def test_an_unreadable_part_of_a_status_is_left_out_and_told() -> None:
    config = node_config("a", "n")
    authentication = {"failures": 2, "lastAttempt": OLD, "secretResourceVersion": "7"}
    readings = {"inletTemp": {"celsius": 20.0, "time": "9999-12-31T23:59:59Z"}}
    config["status"] = {"authentication": authentication, "readings": readings}
    result = effective([config])
    assert result.by_node["n"]["status"] == {"authentication": authentication}
    assert [finding.field for finding in result.findings] == ["status.readings.inletTemp.time"]
    assert result.unreadable == {}
