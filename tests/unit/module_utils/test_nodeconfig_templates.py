# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From templates and nodes to NodeConfigs, statuses and errors."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.nodeconfig import (
    API_VERSIONS,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.templates import render
from support.wao import fake, node, node_config, template

REDFISH = {"type": "Redfish", "endpoint": "https://10.0.100.{{ .IPv4.Octet4 }}"}
NODES = [node("n1", "10.0.0.1", labels={"rack": "r1"}), node("n2", "10.0.0.2")]
OLD, YOUNG = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"


def names(result: MutableObject) -> list[str]:
    return [each["metadata"]["name"] for each in result["node_configs"]]


def errors(result: MutableObject) -> list[tuple[t.Any, ...]]:
    return [(each["template"], each["node"], each["field"]) for each in result["errors"]]


def conditions(result: MutableObject, kind: str, name: str) -> dict[str, MutableObject]:
    [status] = [
        each
        for each in result["statuses"]
        if (each["kind"], each["metadata"]["name"]) == (kind, name)
    ]
    return {each["type"]: each for each in status["status"]["conditions"]}


@pytest.fixture
def render_snapshot(tmp_path: Path) -> t.Callable[..., MutableObject]:
    """Renders a snapshot with these templates, NodeConfigs and nodes."""

    def run(
        present: list[MutableObject],
        node_configs: list[MutableObject],
        nodes: list[MutableObject] | None = None,
        **more: t.Any,
    ) -> MutableObject:
        path = str(tmp_path / "snapshot.json")
        body = {
            "cluster": {},
            "nodes": NODES if nodes is None else nodes,
            "node_config_templates": present,
            "node_configs": node_configs,
        }
        documents.write(path, "snapshot", body)
        return render({"snapshot": path, **more})

    return run


def stored(result: MutableObject, **metadata: t.Any) -> list[MutableObject]:
    """The rendered objects, as returned by the API."""
    more = {"creationTimestamp": OLD, "uid": "config", **metadata}
    return [{**each, "metadata": {**each["metadata"], **more}} for each in result["node_configs"]]


def test_a_node_config_is_complete_and_owned_by_its_template() -> None:
    given = template(
        "t",
        REDFISH,
        uid="u1",
        generation=3,
        annotations={"wattwise.github.io/fallback-inlet-celsius": "25", "other": "x"},
    )
    result = render({"templates": [given], "nodes": NODES[:1]})
    assert result["node_configs"] == [
        {
            "apiVersion": API_VERSIONS[0],
            "kind": "NodeConfig",
            "metadata": {
                "name": "t-n1",
                "namespace": "wao-system",
                "labels": {
                    "app.kubernetes.io/managed-by": "wattwise.kube",
                    "wattwise.github.io/template": "t",
                    "applyset.kubernetes.io/part-of": "wattwise-node-configs",
                },
                "annotations": {"wattwise.github.io/fallback-inlet-celsius": "25"},
                "ownerReferences": [
                    {
                        "apiVersion": API_VERSIONS[0],
                        "kind": "NodeConfigTemplate",
                        "name": "t",
                        "uid": "u1",
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": {
                "nodeName": "n1",
                "metricsCollector": {
                    "inletTemp": {"type": "Redfish", "endpoint": "https://10.0.100.1"},
                    "deltaP": fake(),
                },
                "predictor": {},
            },
        }
    ]
    assert result["statuses"][0] == {
        "apiVersion": API_VERSIONS[0],
        "kind": "NodeConfigTemplate",
        "metadata": {"name": "t", "namespace": "wao-system", "uid": "u1"},
        "status": {
            "matchedNodes": 1,
            "observedGeneration": 3,
            "conditions": [
                {
                    "type": "Rendered",
                    "status": "True",
                    "reason": "Rendered",
                    "message": "NodeConfigs rendered: 1",
                }
            ],
        },
    }
    assert conditions(result, "NodeConfig", "t-n1")["Shadowed"]["status"] == "False"
    assert (result["changed"], result["errors"], result["warnings"]) == (False, [], [])
    assert result["counts"] == {"templates": 1, "errors": 0, "node_configs": 1, "statuses": 2}


def test_the_input_is_left_as_it_was() -> None:
    given = template("t", REDFISH)
    before = json.dumps(given)
    render({"templates": [given], "nodes": NODES})
    assert json.dumps(given) == before


def test_both_api_groups_and_any_namespace_are_served() -> None:
    given = template("t", api_version=API_VERSIONS[1], namespace="other")
    [config] = render({"templates": [given], "nodes": NODES[:1]})["node_configs"]
    assert (config["apiVersion"], config["metadata"]["namespace"]) == (API_VERSIONS[1], "other")
    assert "ownerReferences" not in config["metadata"]
    bare = template("t")
    del bare["apiVersion"], bare["kind"], bare["metadata"]["namespace"]
    [config] = render({"templates": [bare], "nodes": NODES[:1]})["node_configs"]
    assert config["apiVersion"] == API_VERSIONS[0] and "namespace" not in config["metadata"]


def test_a_long_template_name_gives_a_label_that_is_allowed() -> None:
    given = [template("t" * 80), template("t" * 79 + "u")]
    result = render({"templates": given, "nodes": NODES[:1]})
    labels = [
        each["metadata"]["labels"]["wattwise.github.io/template"] for each in result["node_configs"]
    ]
    assert all(len(label) <= 63 for label in labels) and len(set(labels)) == 2


def test_only_selected_nodes_are_rendered_and_a_template_for_none_warns() -> None:
    one, none = template("one"), template("none")
    one["spec"]["nodeSelector"] = {"matchLabels": {"rack": "r1"}}
    none["spec"]["nodeSelector"] = {"matchLabels": {"rack": "r9"}}
    result = render({"templates": [one, none], "nodes": NODES})
    assert names(result) == ["one-n1"]
    assert result["warnings"] == [
        "NodeConfigTemplate wao-system/none selects no node; check its nodeSelector"
    ]


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (["10.0.0.7"], "10.0.0.7 7"),
        (["fd00::1", "10.0.0.7", "10.0.0.8"], "10.0.0.7 7"),
        (["fd00::1"], "fd00::1 "),
        ([], " "),
    ],
)
def test_the_address_is_the_first_ipv4_one(addresses: list[str], expected: str) -> None:
    given = template("t", fake("{{ .IPv4.Address }} {{ .IPv4.Octet4 }}"))
    result = render({"templates": [given], "nodes": [node("n", *addresses)]})
    [config] = result["node_configs"]
    assert config["spec"]["metricsCollector"]["inletTemp"]["endpoint"] == expected
    assert bool(result["warnings"]) is expected.endswith(" ")


def test_a_missing_octet_is_told_and_gives_no_wrong_endpoint() -> None:
    result = render(
        {"templates": [template("t", REDFISH)], "nodes": [*NODES, node("n3", "fd00::1")]}
    )
    assert names(result) == ["t-n1", "t-n2"]
    assert errors(result) == [
        ("wao-system/t", "n3", "spec.metricsCollector.inletTemp.endpoint"),
    ]
    assert "'10.0.100.' is neither an address nor a name" in result["errors"][0]["detail"]
    assert result["warnings"] == [
        "NodeConfigTemplate wao-system/t uses octets, but 1 of its nodes have no internal IPv4 "
        "address, so these are empty: n3"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ .Name }} {{ .Hostname }}", "n host"),
        ('{{ .Labels.rack }} {{ index .Annotations "bmc/slot" }}', "r7 12"),
        ('{{ index .Labels "absent" | default "none" }}', "none"),
    ],
)
def test_a_node_gives_its_names_labels_and_annotations(text: str, expected: str) -> None:
    given = node(
        "n", labels={"rack": "r7", "kubernetes.io/hostname": "host"}, annotations={"bmc/slot": "12"}
    )
    result = render({"templates": [template("t", fake(text))], "nodes": [given]})
    [config] = result["node_configs"]
    assert config["spec"]["metricsCollector"]["inletTemp"]["endpoint"] == expected


def test_without_a_label_the_node_name_is_the_host_name() -> None:
    result = render(
        {
            "templates": [template("t", fake("{{ .Hostname }}"))],
            "nodes": [{"metadata": {"name": "n"}}],
        }
    )
    assert result["node_configs"][0]["spec"]["metricsCollector"]["inletTemp"]["endpoint"] == "n"


def test_what_fails_for_one_node_stops_no_other_and_is_never_verbatim() -> None:
    inlet = {**REDFISH, "basicAuthSecret": {"name": "{{ .Labels.rack }}"}}
    result = render({"templates": [template("t", inlet)], "nodes": NODES})
    assert names(result) == ["t-n1"]
    place = "spec.metricsCollector.inletTemp.basicAuthSecret.name"
    assert errors(result) == [("wao-system/t", "n2", place)]
    condition = conditions(result, "NodeConfigTemplate", "t")["Rendered"]
    assert (condition["status"], condition["reason"]) == ("False", "NotRendered")
    assert condition["message"].startswith(f"Not rendered for n2 (1 of 2 nodes): {place}: the temp")
    assert "column 1: this action has no value to write" in condition["message"]


def test_the_result_of_rendering_is_checked() -> None:
    inlet = {"type": "{{ .Labels.kind }}", "endpoint": "https://{{ .Labels.bmc }}"}
    labels = {"kind": "IPMI", "bmc": "a_b..c"}
    result = render({"templates": [template("t", inlet)], "nodes": [node("n", labels=labels)]})
    assert names(result) == []
    assert [each["field"].rsplit(".", 1)[1] for each in result["errors"]] == ["type", "endpoint"]
    assert "'IPMI' is not a supported type" in result["errors"][0]["detail"]


@pytest.mark.parametrize(
    ("endpoint", "value", "expected"),
    [
        ("https://{{ .Labels.bmc }}.example", "bmc-1", "https://bmc-1.example"),
        ("https://{{ .Labels.bmc }}:8443/p", "10.0.0.1", "https://10.0.0.1:8443/p"),
        ("https://{{ .Labels.bmc }}", "fd00::1", "https://[fd00::1]"),
        ("https://{{ .Labels.bmc }}:8443", "fd00::1", "https://[fd00::1]:8443"),
        ("https://[{{ .Labels.bmc }}]:8443", "fd00::1", "https://[fd00::1]:8443"),
        ('https://{{ default "b.example:8443" .Labels.none }}', "", "https://b.example:8443"),
        (
            '{{ ternary "https://a/x" "http://b" (eq .Labels.bmc "1") }}',
            "1",
            "https://a/x",
        ),
        ("https://bmc/{{ .Labels.bmc }}", "a/b@c:d", "https://bmc/a/b@c:d"),
        ("https://{{ .Labels.bmc }}.example", "evil.com/", None),
        ("https://{{ .Labels.bmc }}.example", "user@evil.com", None),
        ("https://{{ .Labels.bmc }}.example", "evil.com\\", None),
        ("https://{{ .Labels.bmc }}.example", "evil.com?", None),
        ("https://{{ .Labels.bmc }}.example", "evil.com#", None),
        ("https://{{ .Labels.bmc }}", "evil.com:8443", None),
        ("https://{{ .Labels.bmc }}", "evil.com\t", None),
        ("https://{{ .Labels.bmc }}", "fd00::1%eth0", None),
        ("https://{{ .Labels.bmc }}.example", "fd00::1", None),
        ("{{ .Labels.bmc }}.example", "http://evil", None),
        ("{{ .Labels.bmc }}://bmc.example", "http", None),
        ("http{{ .Labels.bmc }}://bmc.example", "s://evil.com/?", None),
    ],
)
def test_a_value_in_the_host_part_is_a_host_name_or_an_address(
    endpoint: str, value: str, expected: str | None
) -> None:
    inlet = {"type": "Redfish", "endpoint": endpoint}
    result = render(
        {"templates": [template("t", inlet)], "nodes": [node("n", labels={"bmc": value})]}
    )
    made = [
        each["spec"]["metricsCollector"]["inletTemp"]["endpoint"] for each in result["node_configs"]
    ]
    assert made == ([] if expected is None else [expected])
    if expected is None:
        assert errors(result) == [("wao-system/t", "n", "spec.metricsCollector.inletTemp.endpoint")]


def test_a_field_that_cannot_be_parsed_is_one_error_for_all_nodes() -> None:
    result = render({"templates": [template("t", fake("{{ if }}"))], "nodes": NODES})
    place = "spec.template.metricsCollector.inletTemp.endpoint"
    assert (names(result), errors(result)) == ([], [("wao-system/t", None, place)])
    message = conditions(result, "NodeConfigTemplate", "t")["Rendered"]["message"]
    assert message.startswith(f"Not rendered for all: {place}: ")


def test_a_message_has_an_end() -> None:
    inlet = {"type": "Redfish", "endpoint": "x" * 2000}
    result = render({"templates": [template("t", inlet)], "nodes": NODES})
    message = conditions(result, "NodeConfigTemplate", "t")["Rendered"]["message"]
    assert len(message) < 300
    assert "xxx..." in message and message.endswith("https://[fd00::1]:8443")


SHAPES: dict[str, tuple[t.Any, str, str]] = {
    "no spec": (None, "spec.nodeSelector", "there is no label selector"),
    "no selector": ({"template": {}}, "spec.nodeSelector", "there is no label selector"),
    "no shape": ({"nodeSelector": {}}, "spec.metricsCollector.inletTemp", "is missing; write one"),
    "a template that is none": (
        {"nodeSelector": {}, "template": None},
        "spec.template.metricsCollector.inletTemp",
        "is missing; write one",
    ),
    "both shapes": (
        {"nodeSelector": {}, "template": {}, "predictor": {}},
        "spec.template",
        "is given beside metricsCollector or predictor; write one of the two shapes",
    ),
}


@pytest.mark.parametrize("case", SHAPES)
def test_a_template_of_the_wrong_shape_is_an_error_of_its_own(case: str) -> None:
    spec, place, detail = SHAPES[case]
    given = {**template("bad"), "spec": spec}
    result = render({"templates": [given, template("good")], "nodes": NODES[:1]})
    assert names(result) == ["good-n1"]
    assert ("wao-system/bad", None, place) in errors(result)
    assert any(detail in each["detail"] for each in result["errors"])


def test_a_node_name_in_a_template_is_ignored_with_a_warning() -> None:
    given = template("t")
    given["spec"]["template"]["nodeName"] = "elsewhere"
    result = render({"templates": [given], "nodes": NODES[:1]})
    assert result["node_configs"][0]["spec"]["nodeName"] == "n1"
    assert result["warnings"] == [
        "NodeConfigTemplate wao-system/t has a nodeName, which is ignored; remove it"
    ]


def test_of_two_claims_to_a_name_the_first_template_gets_it() -> None:
    given = [template("a-b"), template("a")]
    result = render({"templates": given, "nodes": [node("b-c"), node("c")]})
    assert names(result) == ["a-b-b-c", "a-b-c", "a-c"]
    assert errors(result) == [("wao-system/a-b", "c", "metadata.name")]
    assert result["errors"][0]["detail"] == (
        "the NodeConfig a-b-c is made by the template wao-system/a for the node b-c; rename this "
        "template"
    )


def test_a_name_that_no_object_may_have_is_an_error() -> None:
    given = [template("a" * 200), template("Bad")]
    result = render({"templates": given, "nodes": [node("n" * 60)]})
    assert names(result) == []
    assert errors(result) == [
        ("wao-system/Bad", "n" * 60, "metadata.name"),
        (f"wao-system/{'a' * 200}", "n" * 60, "metadata.name"),
    ]
    assert "(261 characters, 253 allowed); rename the template" in result["errors"][1]["detail"]


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"templates": [{}], "nodes": []}, r"templates\[0\]: metadata.name is missing"),
        ({"templates": ["t"], "nodes": []}, r"templates\[0\]: metadata.name is missing"),
        ({"templates": [], "nodes": [{"metadata": {}}]}, r"nodes\[0\]: metadata.name is missing"),
        ({"templates": [], "nodes": NODES + NODES}, "nodes: n1 is given twice; remove one"),
        (
            {"templates": [template("t"), template("t")], "nodes": []},
            "templates: wao-system/t is given twice; remove or rename one",
        ),
        (
            {"templates": [template("t", api_version="v1")], "nodes": []},
            "wao-system/t: apiVersion: 'v1' is not known",
        ),
        (
            {"templates": [node_config("t", "n")], "nodes": []},
            r"templates\[0\]: the kind is 'NodeConfig'; give NodeConfigTemplates",
        ),
        ({"templates": [], "nodes": [], "node": 1}, "unknown option node"),
    ],
)
def test_input_that_names_no_objects_is_refused(parameters: MutableObject, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        render(parameters)


def test_a_second_run_renders_the_same(render_snapshot: t.Callable[..., MutableObject]) -> None:
    given = [template("t", REDFISH, uid="u1")]
    first = render_snapshot(given, [])
    second = render_snapshot(given, stored(first))
    assert second["node_configs"] == first["node_configs"]
    assert second["statuses"] == first["statuses"]


def test_a_template_that_is_being_deleted_makes_nothing(
    render_snapshot: t.Callable[..., MutableObject],
) -> None:
    result = render_snapshot([template("t", deletionTimestamp=OLD)], [])
    assert (result["node_configs"], result["statuses"]) == ([], [])


def test_given_templates_come_beside_those_of_the_snapshot(
    render_snapshot: t.Callable[..., MutableObject],
) -> None:
    there = [template("a", uid="ua"), template("b", uid="ub")]
    given = [template("b", fake("new")), template("c")]
    result = render_snapshot(there, [], NODES[:1], templates=given)
    assert names(result) == ["a-n1", "b-n1", "c-n1"]
    config = result["node_configs"][1]
    assert config["metadata"]["ownerReferences"][0]["uid"] == "ub"
    assert config["spec"]["metricsCollector"]["inletTemp"]["endpoint"] == "new"


def test_what_does_not_render_any_more_keeps_its_last_good_spec(
    render_snapshot: t.Callable[..., MutableObject],
) -> None:
    before = stored(render_snapshot([template("t", REDFISH, uid="u1")], []))
    broken = template("t", fake("{{ .Labels.rack }}"), uid="u1")
    result = render_snapshot([broken], before)
    assert names(result) == ["t-n1", "t-n2"]
    kept = result["node_configs"][1]
    assert kept["spec"] == before[1]["spec"] and "uid" not in kept["metadata"]
    condition = conditions(result, "NodeConfig", "t-n2")["Rendered"]
    assert (condition["status"], condition["reason"]) == ("False", "NotRendered")
    assert condition["message"].startswith(
        "The template does not render, so the last good spec stays: spec.metricsCollector"
    )
    assert conditions(result, "NodeConfig", "t-n1")["Rendered"]["status"] == "True"


@pytest.mark.parametrize("with_uid", [True, False])
def test_a_template_that_broke_as_a_whole_loses_no_node_config(
    render_snapshot: t.Callable[..., MutableObject], with_uid: bool
) -> None:
    identity: dict[str, t.Any] = {"uid": "u1"} if with_uid else {}
    other = node_config("hand-made", "n9")
    before = [*stored(render_snapshot([template("t", REDFISH, **identity)], [])), other]
    broken = template("t", **identity)
    del broken["spec"]["nodeSelector"]
    result = render_snapshot([broken], before)
    assert names(result) == ["t-n1", "t-n2"]
    assert [each["spec"] for each in result["node_configs"]] == [
        each["spec"] for each in before[:2]
    ]


def test_what_no_template_wants_any_more_is_left_out(
    render_snapshot: t.Callable[..., MutableObject],
) -> None:
    given = [template("t", uid="u1")]
    before = stored(render_snapshot(given, []))
    before[1]["status"] = {"conditions": [{"type": "Shadowed", "status": "True"}]}
    result = render_snapshot(given, before, NODES[:1])
    assert names(result) == ["t-n1"]
    assert [each["metadata"]["name"] for each in result["statuses"]] == ["t", "t-n1"]
    assert names(render_snapshot([], before)) == []


def test_a_hand_made_node_config_is_left_alone_and_counts(
    render_snapshot: t.Callable[..., MutableObject],
) -> None:
    mine = node_config("mine", "n1", creationTimestamp=YOUNG)
    result = render_snapshot([template("t", uid="u1")], [mine])
    shadowed = conditions(result, "NodeConfig", "t-n1")["Shadowed"]
    assert (shadowed["status"], shadowed["reason"]) == ("True", "HandMade")
    assert shadowed["message"] == (
        "Node n1 is configured by wao-system/mine, which does not come from a template"
    )
    assert conditions(result, "NodeConfig", "t-n2")["Shadowed"] == {
        "type": "Shadowed",
        "status": "False",
        "reason": "Effective",
        "message": "This configures the node n2",
    }
    assert "mine" not in [each["metadata"]["name"] for each in result["statuses"]]


def test_a_hand_made_node_config_with_the_rendered_name_is_never_overwritten(
    render_snapshot: t.Callable[..., MutableObject],
) -> None:
    result = render_snapshot([template("t", uid="u1")], [node_config("t-n1", "n1")])
    assert names(result) == ["t-n2"]
    assert errors(result) == [("wao-system/t", "n1", "metadata.name")]
    assert (
        "there is a NodeConfig t-n1 that does not come from a template"
        in (result["errors"][0]["detail"])
    )


def test_an_existing_node_config_stays_with_its_template(
    render_snapshot: t.Callable[..., MutableObject],
) -> None:
    nodes = [node("b-c"), node("c")]
    later = template("a-b", uid="u2")
    before = stored(render_snapshot([later], [], nodes))
    result = render_snapshot([template("a", uid="u1"), later], before, nodes)
    assert errors(result) == [("wao-system/a", "b-c", "metadata.name")]
    assert "made by the template wao-system/a-b for the node c" in result["errors"][0]["detail"]


def test_a_node_config_of_a_template_that_is_gone_is_waited_for(
    render_snapshot: t.Callable[..., MutableObject],
) -> None:
    before = stored(render_snapshot([template("t", uid="old")], []))
    result = render_snapshot([template("t", uid="new")], before, NODES[:1])
    assert names(result) == []
    assert "t-n1 still belongs to another template" in result["errors"][0]["detail"]


def test_of_two_groups_the_first_counts(render_snapshot: t.Callable[..., MutableObject]) -> None:
    given = [template("t", uid="u1", api_version=API_VERSIONS[1]), template("t", uid="u2")]
    result = render_snapshot(given, [], NODES[:1])
    assert [each["apiVersion"] for each in result["node_configs"]] == list(API_VERSIONS)
    shadowed = [
        (each["apiVersion"], condition["status"], condition["reason"])
        for each in result["statuses"]
        if each["kind"] == "NodeConfig"
        for condition in each["status"]["conditions"]
        if condition["type"] == "Shadowed"
    ]
    assert shadowed == [
        (API_VERSIONS[0], "False", "Effective"),
        (API_VERSIONS[1], "True", "OtherGroup"),
    ]


def test_hand_made_node_configs_learn_that_they_are_shadowed_and_that_they_are_not_any_more(
    render_snapshot: t.Callable[..., MutableObject],
) -> None:
    first = node_config("first", "n1", creationTimestamp=OLD)
    second = node_config("second", "n1", creationTimestamp=YOUNG)
    result = render_snapshot([], [first, second])
    assert conditions(result, "NodeConfig", "second")["Shadowed"]["reason"] == "Older"
    assert len(result["statuses"]) == 1
    second["status"] = {"conditions": [{"type": "Shadowed", "status": "True"}]}
    result = render_snapshot([], [second])
    assert conditions(result, "NodeConfig", "second")["Shadowed"]["status"] == "False"
    second["status"]["conditions"][0]["status"] = "False"
    assert render_snapshot([], [second])["statuses"] == []


def test_with_a_path_the_objects_go_into_a_document(
    render_snapshot: t.Callable[..., MutableObject], tmp_path: Path
) -> None:
    path = str(tmp_path / "node_configs.json")
    given = [template("t", uid="u1"), template("bad", fake("{{ env }}"), uid="u2")]
    result = render_snapshot(given, [], path=path)
    plain = render_snapshot(given, [])
    document = documents.load(path, "node_configs")
    assert document["node_configs"] == plain["node_configs"]
    assert document["statuses"] == plain["statuses"]
    assert result.keys() == {
        *("changed", "errors", "findings", "warnings", "counts", "path", "sha256")
    }
    assert (result["counts"], result["errors"]) == (plain["counts"], plain["errors"])
