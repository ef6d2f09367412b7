# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import importlib
import pkgutil
import re
import typing as t

import pytest
import yaml
from ansible.module_utils.common.parameters import env_fallback

from ansible_collections.wattwise.kube.plugins import doc_fragments, modules
from ansible_collections.wattwise.kube.plugins.doc_fragments import steps, targets
from ansible_collections.wattwise.kube.plugins.module_utils.base import argspec
from ansible_collections.wattwise.kube.plugins.module_utils.base.argspec import ArgumentSpec
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.observe import pressure
from ansible_collections.wattwise.kube.plugins.module_utils.redfish import models, thermal
from support import ansible_yaml

FRAGMENTS = {
    "kubernetes": argspec.KUBERNETES,
    "progress": argspec.PROGRESS,
    "lease": argspec.LEASE,
    "fleet": argspec.FLEET,
    "rmd": argspec.RMD,
}
# Options with suboptions, by the name of the fragment in doc_fragments/targets.py.
TARGETS = {
    "BMC": ("targets", models.SPEC),
    "BMC_WITH_SENSORS": ("targets", thermal.SPEC),
    "PRESSURE": ("targets", pressure.SPEC),
    "AUTHENTICATION": ("authentication", thermal.SPEC),
}
# Options without suboptions that such a fragment describes as well.
BESIDE = {"AUTHENTICATION": ["default_credential_namespaces"]}
KEYS = ("type", "default", "choices", "elements", "required")


@pytest.mark.parametrize("name", FRAGMENTS)
def test_a_doc_fragment_describes_exactly_the_options_of_its_specification(name: str) -> None:
    module = importlib.import_module(f"{doc_fragments.__name__}.{name}")
    documented = yaml.safe_load(module.ModuleDocFragment.DOCUMENTATION)["options"]
    specified = FRAGMENTS[name].options
    assert documented.keys() == specified.keys()
    for option, description in documented.items():
        for key in KEYS:
            assert description.get(key) == specified[option].get(key), f"{option}.{key}"
        for variable in specified[option].get("environment", []):
            assert f"E({variable})" in "".join(description["description"]), option


@pytest.mark.parametrize("name", TARGETS)
def test_a_fragment_of_targets_describes_the_suboptions_of_its_modules(name: str) -> None:
    option, spec = TARGETS[name]
    fragment = yaml.safe_load(getattr(targets.ModuleDocFragment, name))
    assert fragment["options"].keys() == {option, *BESIDE.get(name, [])}
    for other in BESIDE.get(name, []):
        for key in KEYS:
            assert fragment["options"][other].get(key) == spec.options[other].get(key), other
    documented = fragment["options"][option]
    specified = spec.options[option]
    assert [documented.get(key) for key in KEYS] == [specified.get(key) for key in KEYS]
    assert documented["suboptions"].keys() == specified["options"].keys()
    for suboption, description in documented["suboptions"].items():
        for key in KEYS:
            assert description.get(key) == specified["options"][suboption].get(key), suboption


@pytest.mark.parametrize("step", ["place", "devices"])
def test_options_of_a_step_are_suboptions_of_a_run_with_their_whole_path(step: str) -> None:
    own = yaml.safe_load(getattr(steps.ModuleDocFragment, step.upper()))["options"]
    of_run = yaml.safe_load(getattr(steps.ModuleDocFragment, f"{step.upper()}_OF_RUN"))["options"]
    assert of_run.keys() == {step}
    suboptions = of_run[step]["suboptions"]
    assert suboptions.keys() == own.keys()
    text = yaml.safe_dump(suboptions, width=10**6)
    assert set(re.findall(r"O\((\w+)", text)) <= {step}
    assert set(re.findall(rf"O\({step}\.(\w+)", text)) <= own.keys()


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(modules.__path__)])
def test_every_module_has_examples_and_says_what_it_returns(name: str) -> None:
    module = importlib.import_module(f"{modules.__name__}.{name}")
    documentation = yaml.safe_load(module.DOCUMENTATION)
    assert documentation["module"] == name
    assert len(ansible_yaml.load(module.EXAMPLES)) >= 3
    assert yaml.safe_load(module.RETURN)


def test_defaults_are_filled_in_at_every_depth() -> None:
    spec = ArgumentSpec(
        {
            "timeout": {"type": "float", "default": 10.0},
            "targets": {
                "type": "list",
                "elements": "dict",
                "options": {"name": {"required": True}, "port": {"default": 443}},
            },
            "owner": {"type": "dict", "options": {"kind": {"default": "Pod"}}},
        }
    )
    assert spec.complete({"targets": [{"name": "a"}], "owner": {}}) == {
        "timeout": 10.0,
        "targets": [{"name": "a", "port": 443}],
        "owner": {"kind": "Pod"},
    }
    assert spec.complete({})["targets"] is None


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"timeuot": 3}, "parameters: unknown option timeuot"),
        ({}, "parameters: the option name is required"),
        ({"name": "a", "sub": [{}]}, r"parameters\.sub\[0\]: the option x is required"),
    ],
)
def test_direct_callers_hear_of_unknown_and_missing_options(
    parameters: dict[str, t.Any], message: str
) -> None:
    spec = ArgumentSpec(
        {
            "name": {"required": True},
            "timeout": {},
            "sub": {"type": "list", "options": {"x": {"required": True}}},
        }
    )
    with pytest.raises(InvalidInput, match=message):
        spec.complete(parameters)


def test_an_option_cannot_come_from_two_specifications() -> None:
    with pytest.raises(ValueError, match="timeout"):
        ArgumentSpec({"timeout": {}}).merge(ArgumentSpec({"timeout": {}}))


def test_an_option_that_one_of_several_has_to_be_has_no_default() -> None:
    with pytest.raises(ValueError, match="the rule never applies: src has a default"):
        ArgumentSpec({"src": {"default": []}, "text": {}}, required_one_of=(("text", "src"),))


def test_merging_keeps_the_rules_of_all_parts() -> None:
    merged = ArgumentSpec({"a": {}}, mutually_exclusive=(("a", "b"),)).merge(
        ArgumentSpec({"b": {}}, required_by={"b": ("a",)}, required_one_of=(("a", "b"),))
    )
    keywords = merged.to_keywords(env_fallback)
    assert keywords["mutually_exclusive"] == [["a", "b"]]
    assert keywords["required_one_of"] == [["a", "b"]]
    assert keywords["required_by"] == {"b": ("a",)}
