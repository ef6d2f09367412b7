# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bad template or node beside good ones: all others render as without it, and in bounded work."""

from __future__ import annotations

import random
import typing as t
from urllib.parse import urlsplit

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.json_types import MutableObject
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.template.functions import (
    FUNCTIONS,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.template.parser import parse
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.template.tree import Struct
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.templates import render
from support.examples import each_seed
from support.odd_values import TEXTS, bounded, odd_value, spoilt
from support.snapshots import write_snapshot
from support.wao import node, node_config, template

ENDPOINTS = [
    "https://{{ .Labels.bmc }}.bmc.example",
    "https://{{ .IPv4.Address }}:8443/redfish",
    "https://bmc-{{ .Hostname }}.example/{{ .Annotations.path }}",
    'https://{{ default "10.9.9.9" .Labels.bmc }}',
    "https://10.0.{{ add .IPv4.Octet3 10 }}.{{ .IPv4.Octet4 }}",
]
LITERAL_ENDS = ("bmc.example", "", "example", "", "")


def full_node(index: int) -> MutableObject:
    labels = {"rack": "r1", "bmc": f"b{index}"}
    annotations = {"path": "p"}
    return node(f"n{index}", f"10.0.0.{index}", labels=labels, annotations=annotations)


def full_template(name: str, endpoint: str = ENDPOINTS[0]) -> MutableObject:
    secret = {"name": "{{ .Name }}-bmc"}
    inlet = {"type": "Redfish", "endpoint": endpoint, "basicAuthSecret": secret}
    given = template(name, inlet, uid=f"u-{name}", generation=2)
    given["spec"]["nodeSelector"] = {
        "matchLabels": {"rack": "r1"},
        "matchExpressions": [{"key": "bmc", "operator": "Exists"}],
    }
    return given


NODES = [full_node(index) for index in range(3)]
TEMPLATES = [full_template(f"t{index}", endpoint) for index, endpoint in enumerate(ENDPOINTS)]


def stored(*configs: MutableObject) -> list[MutableObject]:
    return [
        {**each, "metadata": {**each["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}}
        for each in configs
    ]


def rendered(
    folder: t.Any, templates: list[t.Any], nodes: list[t.Any], configs: list[t.Any]
) -> t.Any:
    path = write_snapshot(
        folder, nodes=nodes, node_config_templates=templates, node_configs=configs
    )
    return render({"snapshot": path})


def by_name(
    objects: list[MutableObject], leave_out: t.Callable[[MutableObject], bool]
) -> MutableObject:
    return {
        f"{each['kind']} {each['metadata']['name']}": each
        for each in objects
        if not leave_out(each)
    }


def unshadowed(
    statuses: list[MutableObject], leave_out: t.Callable[[MutableObject], bool]
) -> MutableObject:
    return {
        name: [each for each in status["status"]["conditions"] if each["type"] != "Shadowed"]
        for name, status in by_name(statuses, leave_out).items()
    }


@each_seed(50)
def test_all_other_templates_render_as_without_the_bad_one(seed: int, tmp_path: t.Any) -> None:
    source = random.Random(seed)
    odd = spoilt(source, full_template("bad"), keep=[("metadata", "name")])
    if source.randrange(20) == 0:
        odd = {"metadata": odd_value(source)}

    def is_of_bad(obj: MutableObject) -> bool:
        return str(obj["metadata"]["name"]).startswith("bad")

    with bounded():
        alone = rendered(tmp_path, TEMPLATES, NODES, [])
        beside = rendered(tmp_path, [odd, *TEMPLATES], NODES, [])
        assert by_name(beside["node_configs"], is_of_bad) == by_name(
            alone["node_configs"], is_of_bad
        )
        # The NodeConfig that counts for a node may change, and only a condition reports it.
        assert unshadowed(beside["statuses"], is_of_bad) == unshadowed(alone["statuses"], is_of_bad)
        made = [each for each in beside["node_configs"] if is_of_bad(each)]
        if not made:
            told = [error for error in beside["errors"] if "bad" in str(error["template"])]
            warned = [text for text in beside["warnings"] if "bad" in text]
            assert told or warned or beside["findings"] or odd["metadata"].get("deletionTimestamp")


@each_seed(50)
def test_all_other_nodes_render_as_without_the_bad_one(seed: int, tmp_path: t.Any) -> None:
    odd = spoilt(random.Random(seed), full_node(3), keep=[("metadata", "name")])

    def is_of_bad(obj: MutableObject) -> bool:
        return str(obj["metadata"]["name"]).endswith("-n3") or obj["kind"] != "NodeConfig"

    with bounded():
        alone = rendered(tmp_path, TEMPLATES, NODES, [])
        beside = rendered(tmp_path, TEMPLATES, [odd, *NODES], [])
        for part in ("node_configs", "statuses"):
            assert by_name(beside[part], is_of_bad) == by_name(alone[part], is_of_bad)


@each_seed(25)
def test_a_bad_stored_node_config_changes_no_other(seed: int, tmp_path: t.Any) -> None:
    hand_made = node_config("mine", "n9", uid="m", labels={}, annotations={})
    hand_made["status"] = {"conditions": [{"type": "Shadowed", "status": "True"}]}
    odd = spoilt(random.Random(seed), hand_made, keep=[("metadata", "name"), ("spec", "nodeName")])
    with bounded():
        first = rendered(tmp_path, TEMPLATES, NODES, [])
        known = stored(*first["node_configs"])
        alone = rendered(tmp_path, TEMPLATES, NODES, known)
        beside = rendered(tmp_path, TEMPLATES, NODES, [odd, *known])
        assert beside["node_configs"] == alone["node_configs"]

        def is_of_bad(obj: MutableObject) -> bool:
            return bool(obj["metadata"]["name"] == "mine")

        assert by_name(beside["statuses"], is_of_bad) == by_name(alone["statuses"], is_of_bad)


@each_seed(75)
def test_no_value_of_a_node_chooses_more_of_a_host_than_the_template_leaves_open(
    seed: int,
) -> None:
    source = random.Random(seed)
    pieces = [
        "evil.com",
        "/",
        "@",
        "\\",
        "?",
        "#",
        ":",
        "443",
        "[",
        "]",
        "::1",
        "%",
        "a",
        "\t",
        " ",
    ]
    value = "".join(source.choices([*pieces, source.choice(TEXTS)], k=source.randint(1, 4)))
    odd = full_node(3)
    odd["metadata"]["labels"].update({"bmc": value, "kubernetes.io/hostname": value})
    odd["metadata"]["annotations"]["path"] = value
    odd["status"]["addresses"] = [{"type": "InternalIP", "address": value}]
    with bounded():
        result = render({"templates": TEMPLATES, "nodes": [odd]})
    for config in result["node_configs"]:
        url = config["spec"]["metricsCollector"]["inletTemp"]["endpoint"]
        index = int(config["metadata"]["name"][1])
        parts = urlsplit(url)
        assert parts.scheme == "https" and parts.username is None and parts.password is None
        assert (parts.hostname or "").endswith(LITERAL_ENDS[index])
        assert parts.port == (8443 if index == 1 else None)
        if index == 1:
            assert parts.path == "/redfish"


def random_template(source: random.Random) -> str:
    """Any text made of templates' elements."""
    words = [
        *(
            "{{",
            "}}",
            "{{-",
            "-}}",
            "(",
            ")",
            "|",
            " ",
            "/*",
            "*/",
            '"',
            "`",
            "$x",
            ":=",
            ".",
            "{{/*",
        ),
        *(".Name", ".Labels.a", ".Annotations.long", ".IPv4.Octet1", "if", "range", "1e9", "-1"),
        *(f" {name} " for name in source.sample(sorted(FUNCTIONS), 8)),
        *('"%4096d%4096s"', '"%.9999999999s"', '"%1000000000d"', "4096", "9223372036854775807"),
        *("1" * 5000, "(" * 2000, "{{" * 500, '""', '"a"', source.choice(TEXTS)),
    ]
    return "".join(source.choices(words, k=source.randint(1, 40)))


@each_seed(100)
def test_any_template_renders_or_is_refused_in_bounded_work(seed: int) -> None:
    source = random.Random(seed)
    name = source.choice(sorted(FUNCTIONS))
    arguments = " ".join(
        source.choice(
            [
                *("4096", "-9223372036854775808", "9223372036854775807", "1.5", "true", "nil"),
                *('""', '"a"', ".Name", ".Annotations.long", ".Labels", '(repeat 4096 "a")'),
                *('(splitList "" .Name)', '"%4000d%4000d"', '"%9999999s"'),
            ]
        )
        for _index in range(source.randint(0, 4))
    )
    texts = [random_template(source), "{{ " + f"{name} {arguments}" + " }}"]
    long = "x" * 4000 if seed % 2 else "y" * 262_144
    variables = Struct(
        Name="n1", Labels={"a": "b"}, Annotations={"long": long}, IPv4=Struct(Octet1="10")
    )
    with bounded(more_bytes=1 << 28):
        for text in texts:
            try:
                assert len(parse(text).render(variables)) <= 4096
            except InvalidInput as error:
                assert len(str(error)) < 2000
