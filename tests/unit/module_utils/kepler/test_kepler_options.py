# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of a KeplerSystem: they match the CRD, and every invalid value is named."""

from __future__ import annotations

import typing as t

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.keys import (
    check_additional,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.options import (
    KIND,
    SYSTEM,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.system import (
    read_system,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.verdict import KeplerVersion
from ansible_collections.wattwise.kube.plugins.module_utils.kube.resource.spec_options import (
    in_words_of_manifest,
    of_manifest,
)
from support.kepler_systems import IMAGE, system
from support.resource_options import compared
from support.wao import DEFINITIONS

Json = dict[str, t.Any]

DEFINITION = yaml.safe_load(
    (DEFINITIONS / "kepler.system.sustainable.computing.io_keplersystems.yaml").read_text()
)
SCHEMA = DEFINITION["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def test_options_are_those_of_the_definition() -> None:
    assert DEFINITION["spec"]["names"]["kind"] == KIND
    assert len(list(compared(SYSTEM.options, SCHEMA, "spec"))) > 50


def test_a_manifest_gives_what_options_give() -> None:
    spec = {
        "image": {"repository": "registry.example/kepler", "pullPolicy": "Always"},
        "collector": {"sampleRate": "3s", "additionalConfig": "rapl:\n  zones: [package]\n"},
        "pools": [{"name": "arm", "nodeSelector": {"a/maxTerminated": "b"}, "collector": {}}],
    }
    given = {
        "image": {"repository": "registry.example/kepler", "pull_policy": "Always"},
        "collector": {"sample_rate": "3s", "additional_config": {"rapl": {"zones": ["package"]}}},
        "pools": [{"name": "arm", "node_selector": {"a/maxTerminated": "b"}}],
    }
    read = read_system("kepler", "kepler", of_manifest(SYSTEM, spec))
    assert read == read_system("kepler", "kepler", given)
    # A pool has the remaining settings of the system.
    assert read.pools[0].collector == read.rest


BAD: list[tuple[Json, str]] = [
    (
        {"version": "newest"},
        "^version: 'newest' is not a version of Kepler; give one such as 0.11.4$",
    ),
    ({"version": "latest"}, "version: the configuration depends on it"),
    ({"image": {"repository": "kepler"}}, "image.repository: 'kepler' does not name a registry"),
    ({"image": {"repository": "docker/kepler"}}, "does not name a registry"),
    ({"image": {**IMAGE, "tag": "a b"}}, "image.tag: 'a b' is neither a tag"),
    (
        {"image": {**IMAGE, "by_architecture": [{"architecture": "arm/v7"}]}},
        r"image.by_architecture\[0\].architecture: 'arm/v7' is not an architecture in Kubernetes; gi",
    ),
    *(
        (
            {"image": {**IMAGE, "by_architecture": [{"architecture": name}]}},
            f"'{name}' is not an architecture in Kubernetes; write {own}$",
        )
        for name, own in (("aarch64", "arm64"), ("x86_64", "amd64"), ("armv8", "arm64"))
    ),
    *(
        (
            {"version": version, "collector": {"pod_informer": "kubelet"}},
            f"collector.pod_informer: Kepler {version} reads pods only from the API server",
        )
        for version in ("0.7.12", "0.10.0", "0.11.3")
    ),
    ({"image": {**IMAGE, "by_architecture": [{"architecture": "s390x"}] * 2}}, "given twice"),
    ({"scope": "all"}, "scope: 'all' is none of minimum, cluster"),
    ({"collector": {"sample_rate": "often"}}, "collector.sample_rate: 'often' is not a duration"),
    ({"collector": {"sample_rate": "1ms"}}, "collector.sample_rate: '1ms' is not from 0.1 s"),
    ({"collector": {"staleness": "-1s"}}, "collector.staleness: '-1s' is not from 0 s to 24 h"),
    ({"collector": {"staleness": "99999h"}}, "is not from 0 s to 24 h"),
    ({"collector": {"metric_levels": ["pods"]}}, "metric_levels: 'pods' is none of node, process"),
    ({"collector": {"metric_levels": "pod"}}, "metric_levels: 'pod' is not a list"),
    ({"collector": {"metric_levels": ["pod", 7]}}, "metric_levels.1.: 7 is not a text"),
    ({"collector": {"metric_levels": []}}, "metric_levels: without a level"),
    ({"collector": {"log_level": "trace"}}, "log_level: 'trace' is none of"),
    ({"collector": {"meter": "model"}}, "meter: 'model' is none of auto, rapl, hwmon"),
    ({"collector": {"max_terminated": -2}}, "max_terminated: -2 is not a whole number from -1"),
    ({"collector": {"port": 80}}, "collector.port: 80 is not a whole number from 1024"),
    ({"collector": {"resources": {"limit": {}}}}, "resources.'limit': give requests or limits"),
    ({"collector": {"resources": {"limits": {"memory": "much"}}}}, "limits.memory: 'much' is not"),
    (
        {"collector": {"resources": {"limits": {"disk": "1Gi"}}}},
        "limits.'disk': give cpu, memory or ephemeral-storage",
    ),
    ({"collector": {"tolerations": [{"keys": "a"}]}}, r"tolerations\[0\].'keys': a toleration"),
    ({"collector": {"node_selector": {"a b": "c"}}}, "node_selector: 'a b': 'c' is not a label"),
    ({"version": "0.11.3", "collector": {"meter": "hwmon"}}, "0.11.4 and later can"),
    ({"pools": [{"name": "A", "node_selector": {"a": "b"}}]}, r"pools\[0\].name: 'A' is not"),
    ({"pools": [{"name": "a", "node_selector": {}}]}, "would select every node"),
    (
        {"pools": [{"name": "a", "node_selector": {"a": "b"}}] * 2},
        "there are two pools a; rename one",
    ),
    (
        {"pools": [{"name": name, "node_selector": {"a": "b"}} for name in "ab"]},
        "the pools a and b select the same nodes",
    ),
    (
        {"pools": [{"name": "a", "node_selector": {"a": "b"}, "collector": {"staleness": "x"}}]},
        r"pools\[0\].collector.staleness: 'x' is not a duration",
    ),
    ({"estimator": {"enabled": True}}, "estimator.enabled: Kepler 0.11.4 has none"),
    ({"version": "0.7.12", "model_server": {"enabled": True, "image": "x"}}, "registry and tag"),
    ({"version": "0.7.12", "security": {"mode": "tls"}}, "serves only plain HTTP"),
    ({"security": {"mode": "ssl"}}, "security.mode: 'ssl' is none of none, tls, mtls"),
    ({"security": {"server_secret": "../x"}}, "cannot be the name of an object"),
    ({"version": "0.10.2", "redfish": {"enabled": True}}, "reads no BMC; use 0.11.0 or later"),
    ({"redfish": {"fake_cpu_meter": True}}, "enable redfish"),
    ({"scrape_namespaces": ["A"]}, "'A' cannot be the name"),
    ({"colector": {}}, "unknown option colector"),
]
ADDITIONAL: list[tuple[str, t.Any, str]] = [
    ("0.11.4", {"cpu": {"meters": ["rapl"]}}, "cpu.*: Kepler 0.11.4 knows no such key"),
    (
        "0.11.4",
        {"cpu": {"preferredMeters": ["fake"]}},
        "does not know this key, but 0.11.5 and later",
    ),
    ("0.10.0", {"experimental": {"gpu": {"enabled": True}}}, "0.11.4 and later do"),
    ("0.11.4", {"log": {"level": "debug"}}, "the option collector.log_level sets it"),
    ("0.11.4", {"kube": {"nodeName": "n"}}, "it must not be set: each pod has its own"),
    ("0.11.4", {"log": "debug"}, "log: 'debug' is not a mapping"),
    ("0.11.4", {"rapl": {"zones": ["psyx"]}}, "'psyx' is none of package"),
    ("0.11.4", {"rapl": {"zones": ["package-0-die"]}}, "'package-0-die' is none of package"),
    ("0.11.4", {"rapl": {"zones": None}}, "it has no value"),
    ("0.11.4", {"debug": {"pprof": {"enabled": "yes"}}}, "'yes' is not true or false"),
    ("0.11.4", {"kube": {"podInformer": {"pollInterval": "1 week"}}}, "is not a duration"),
    *(
        (version, {"experimental": {"gpu": given}}, "neither the GPU's devices nor the driver's li")
        for version, given in (
            ("0.11.4", {"enabled": True}),
            ("0.11.4", {"idlePower": 30}),
            ("0.11.5", {"dcgmEndpoint": "http://127.0.0.1:9400/metrics"}),
        )
    ),
    ("0.11.4", {"experimental": {"hwmon": {"chipRules": [{"name": "a", "b": 1}]}}}, "no such key"),
    ("0.11.4", {"experimental": {"hwmon": {"chipRules": [{}]}}}, "is not the name of a chip"),
    *(
        ("0.11.4", {"experimental": {"hwmon": {"chipRules": [rule]}}}, sentence)
        for rule, sentence in (
            ({"name": "a", "pairings": {"x": 1}}, "'x' is not the number of a sensor"),
            ({"name": "a", "pairings": {None: 1}}, "pairings"),
        )
    ),
    ("0.11.4", {1: 2}, "knows no such key"),
    ("0.11.4", "a: &x [*x]", "anchors, aliases and tags are not allowed here"),
    ("0.11.4", "a: [", "it is not YAML"),
    ("0.11.4", "\ufeff&x a: {<<: *x}", "anchors, aliases and tags are not allowed here"),
    ("0.11.4", "a: {<<: {b: 1}}", "line 1: the merge key << is not allowed here"),
    ("0.11.4", "a: !!bool x", "anchors, aliases and tags are not allowed here"),
    ("0.11.4", "[" * 4000, "line 1: it is nested more than 100 deep"),
    ("0.11.4", "a: 1\n---\nb: 2", "more than one document"),
    ("0.11.4", "- a", "is not a mapping"),
    ("0.11.4", "#" * 20_000, "more than 16384 characters"),
    ("0.7.12", {"ENABLE_EVERYTHING": "true"}, "Kepler 0.7.12 has no such variable"),
    ("0.7.12", {"BIND_ADDRESS": "0.0.0.0:1"}, "the option collector.port sets it"),
    ("0.7.12", {"ENABLE_GPU": True}, "is not a printable text"),
]


@pytest.mark.parametrize(("spec", "sentence"), BAD, ids=lambda each: str(each)[:50])
def test_a_value_that_is_none_is_named(spec: Json, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        system(**spec)


@pytest.mark.parametrize(
    ("version", "given", "sentence"), ADDITIONAL, ids=lambda each: str(each)[:50]
)
def test_additional_configuration_is_checked_key_by_key(
    version: str, given: t.Any, sentence: str
) -> None:
    with pytest.raises(InvalidInput, match=sentence):
        system(version=version, collector={"additional_config": given})


def test_sensors_that_are_paired_are_numbers_although_json_has_texts_for_keys() -> None:
    given = {"experimental": {"hwmon": {"chipRules": [{"name": "a", "pairings": {"1": 2}}]}}}
    found = check_additional(given, KeplerVersion.parse("0.11.4"), "additional_config")
    assert found["experimental.hwmon.chipRules"] == [{"name": "a", "pairings": {1: 2}}]


@pytest.mark.parametrize("namespace", ["default", "kube-system"])
def test_collectors_stand_in_no_namespace_of_others(namespace: str) -> None:
    with pytest.raises(InvalidInput, match="give them a namespace of their own"):
        read_system(namespace, "kepler", {"image": IMAGE})


def test_a_name_is_one_label() -> None:
    with pytest.raises(InvalidInput, match="is not a DNS label of at most 40 characters"):
        read_system("kepler", "a.b", {"image": IMAGE})


def test_a_sentence_about_options_names_the_fields_of_a_manifest() -> None:
    given = "collector.additional_config.log.level: the option collector.log_level sets it, a_b"
    wanted = "collector.additionalConfig.log.level: the option collector.logLevel sets it, a_b"
    assert in_words_of_manifest(SYSTEM)(given) == wanted


def test_an_unknown_field_of_a_manifest_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"spec.collector.'sampleRat': there is no such field"):
        of_manifest(SYSTEM, {"image": IMAGE, "collector": {"sampleRat": "5s"}})


REMARKS: list[tuple[Json, list[str]]] = [
    ({}, []),
    ({"scope": "cluster"}, []),
    ({"image": {**IMAGE, "tag": "v0.11.4"}}, []),
    ({"image": {**IMAGE, "tag": f"sha256:{'a' * 64}"}}, []),
    ({"version": "0.7.12", "collector": {"metric_levels": ["pod"]}}, []),
    ({"scope": "cluster", "collector": {"metric_levels": ["pod"]}}, []),
    (
        {"collector": {"metric_levels": ["node", "pod"]}},
        ["collector.metric_levels: pod has no effect in the minimum scope"],
    ),
    (
        {
            "pools": [
                {"name": "a", "node_selector": {"a": "b"}, "collector": {"metric_levels": ["pod"]}}
            ]
        },
        ["pools[0].collector.metric_levels: pod has no effect in the minimum scope"],
    ),
    ({"version": "0.12.0"}, ["version: 0.12.0 is newer than 0.11.4, the newest release"]),
    ({"version": "1.0"}, ["version: 1.0.0 is newer than 0.11.4"]),
    (
        {"image": {**IMAGE, "tag": "latest"}},
        ["image.tag: 'latest' is not the tag of Kepler 0.11.4"],
    ),
    ({"image": {**IMAGE, "tag": "v0.10.0"}}, ["image.tag: 'v0.10.0' is not the tag of Kepler"]),
    (
        {"image": {**IMAGE, "by_architecture": [{"architecture": "s390x", "tag": "main"}]}},
        ["image.by_architecture[0].tag: 'main' is not the tag of Kepler 0.11.4"],
    ),
]


@pytest.mark.parametrize(("spec", "remarks"), REMARKS, ids=lambda each: str(each)[:50])
def test_settings_without_the_meant_effect_are_told(spec: Json, remarks: list[str]) -> None:
    found = system(**spec).remarks
    assert [one[: len(remark)] for one, remark in zip(found, remarks, strict=True)] == remarks


@pytest.mark.parametrize(
    ("scope", "levels"),
    [("minimum", ("node", "container", "vm")), ("cluster", ("node", "container", "vm", "pod"))],
)
def test_the_levels_are_by_default_those_of_the_scope(scope: str, levels: tuple[str, ...]) -> None:
    wanted = system(scope=scope, pools=[{"name": "a", "node_selector": {"a": "b"}}])
    assert wanted.rest.metric_levels == wanted.pools[0].collector.metric_levels == levels
