# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The surveys of AWX ask for existing variables, in the form that AWX and the roles accept."""

from __future__ import annotations

import typing as t
from pathlib import Path

import jinja2
import pytest
import yaml
from jinja2 import nodes

from ansible_collections.wattwise.kube.plugins.modules import fleet_advice_info
from ansible_collections.wattwise.kube.plugins.plugin_utils.role_variables import (
    RenderedValue,
    Variable,
    problems_of,
    role_names,
    variables_of,
)

Json = dict[str, t.Any]

ROOT = Path(__file__).resolve().parents[2]
SURVEYS: dict[str, Json] = {
    path.stem: yaml.safe_load(path.read_text())
    for path in (ROOT / "extensions" / "awx" / "surveys").glob("*.yml")
}
# The variables of the playbook without a role, and the limits of its module.
ADVISE: Json = {
    f"advise_{name}": option
    for name, option in yaml.safe_load(fleet_advice_info.DOCUMENTATION)["options"].items()
}
VARIABLES = {
    **variables_of(role_names()),
    "advise_spare": Variable("advise_spare", (), ADVISE["advise_spare"], {"min": 0, "max": 10}),
}
BOOLEANS = {name for name, variable in VARIABLES.items() if variable.spec["type"] == "bool"}
QUESTIONS = [
    pytest.param(playbook, question, id=f"{playbook}-{question['variable']}")
    for playbook, survey in SURVEYS.items()
    for question in survey["spec"]
]
# The type of an argument, and the types of questions whose answers it accepts.
ASKED_AS = {
    "str": {"text", "textarea", "multiplechoice"},
    "path": {"text"},
    "int": {"integer"},
    "float": {"float"},
    "bool": {"multiplechoice"},
    "list": {"multiselect"},
}
DEFAULT_TYPES: dict[str, tuple[type, ...]] = {"integer": (int,), "float": (int, float)}


def role_options(role: str) -> Json:
    path = ROOT / "roles" / role / "meta" / "argument_specs.yml"
    return t.cast("Json", yaml.safe_load(path.read_text())["argument_specs"]["main"]["options"])


def options_of(playbook: str) -> Json:
    """The variables of the roles that a playbook checks before it begins, which are its own."""
    if playbook == "advise":
        return ADVISE
    [play] = yaml.safe_load((ROOT / "playbooks" / f"{playbook}.yml").read_text())
    check = "wattwise.kube.validate_role_variables"
    [roles] = [task[check]["roles"] for task in play["pre_tasks"] if check in task]
    return {name: option for role in roles for name, option in role_options(role).items()}


@pytest.mark.parametrize("playbook", SURVEYS)
def test_a_survey_is_one_that_awx_takes(playbook: str) -> None:
    survey = SURVEYS[playbook]
    assert survey.keys() == {"name", "description", "spec"}
    assert survey["name"] == f"wattwise.kube.{playbook}"
    variables = [question["variable"] for question in survey["spec"]]
    assert len(set(variables)) == len(variables) > 0


@pytest.mark.parametrize(("playbook", "question"), QUESTIONS)
def test_a_question_is_one_that_awx_takes(playbook: str, question: Json) -> None:
    """The checks of AWX's JobTemplateSurveySpec."""
    needed = {"type", "question_name", "question_description", "variable", "required", "default"}
    assert needed <= question.keys() <= needed | {"choices", "min", "max"}
    assert isinstance(question["required"], bool)
    default: t.Any = question["default"]
    assert type(default) in DEFAULT_TYPES.get(question["type"], (str,))
    if question["type"].startswith("multi"):
        chosen = default.splitlines()
        assert set(chosen) <= set(question["choices"])
        assert question["type"] == "multiselect" or len(chosen) == 1
        assert all(isinstance(choice, str) for choice in question["choices"])
        return
    lowest, highest = question["min"], question["max"]
    assert {type(lowest), type(highest)} == {int}
    size = len(default) if question["type"] == "text" else default
    assert lowest <= size <= highest


@pytest.mark.parametrize(("playbook", "question"), QUESTIONS)
def test_a_question_asks_for_an_argument_of_a_role(playbook: str, question: Json) -> None:
    option = options_of(playbook)[question["variable"]]
    assert question["type"] in ASKED_AS[option["type"]]
    default = question["default"]
    if option["type"] == "bool":
        assert question["choices"] == ["true", "false"]
        assert option["default"] is (default == "true")
    elif option["type"] == "list":
        assert default.splitlines() == option["default"]
    else:
        assert default == option["default"]
    if "choices" in option:
        assert question["choices"] == option["choices"]


def test_the_same_question_is_asked_in_the_same_words_everywhere() -> None:
    asked: dict[str, Json] = {}
    for survey in SURVEYS.values():
        for question in survey["spec"]:
            assert asked.setdefault(question["variable"], question) == question


@pytest.mark.parametrize(("playbook", "question"), QUESTIONS)
def test_roles_take_every_answer_that_a_question_allows(playbook: str, question: Json) -> None:
    """AWX gives choices as texts, those of a multiselect as a list, and numbers within limits."""
    answers: list[t.Any] = [question["default"], *question.get("choices", [])]
    if question["type"] == "multiselect":
        answers = [[choice] for choice in question["choices"]] + [question["default"].splitlines()]
    elif question["type"] in DEFAULT_TYPES:
        answers += [question["min"], question["max"]]
    variable = VARIABLES[question["variable"]]
    assert [problems_of(variable, RenderedValue(answer)) for answer in answers] == [[]] * len(
        answers
    )


@pytest.mark.parametrize(("playbook", "question"), QUESTIONS)
def test_a_number_has_the_limits_of_its_argument(playbook: str, question: Json) -> None:
    """A value beyond the question's limits is refused by the role too, if the role has limits."""
    limits = VARIABLES[question["variable"]].limits
    if question["type"] in DEFAULT_TYPES:
        assert question["min"] >= limits.get("min", limits.get("above"))
        assert question["min"] > limits.get("above", -1)
        assert question["max"] <= limits.get("max", question["max"])
        # A share from 0 to 1 is asked for in this form.
        assert "max" not in limits or question["max"] == limits["max"]


def names_without_conversion(template: str, names: set[str]) -> set[str]:
    """Names whose value this template uses directly, without the filter bool.

    Alone in their braces they go to an option of a module, which converts them.
    """
    tree = jinja2.Environment().parse(template)
    outputs = [output.nodes for output in tree.find_all(nodes.Output)]
    alone = {
        part[0].name
        for part in outputs
        if len(tree.body) == len(part) == 1 and isinstance(part[0], nodes.Name)
    }
    converted = {id(item.node) for item in tree.find_all(nodes.Filter) if item.name == "bool"}
    return {
        item.name
        for item in tree.find_all(nodes.Name)
        if item.name in names and id(item) not in converted and item.name not in alone
    }


def templates(value: t.Any, key: str = "") -> t.Iterator[str]:
    """Every template in a task; a condition is one without its braces."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from templates(member, name)
    elif isinstance(value, list):
        for member in value:
            yield from templates(member, key)
    elif isinstance(value, str) and key in ("when", "that", "until", "failed_when", "changed_when"):
        yield f"{{{{ true and ({value}) }}}}"
    elif isinstance(value, str) and "{{" in value:
        yield value


def test_unconverted_booleans_are_recognised() -> None:
    found = {
        "{{ a }}": set(),
        "{{ a | bool and b | bool }}": set(),
        "{{ true and (a) }}": {"a"},
        "{{ 'x' if a else 'y' }}": {"a"},
        "{{ a | ternary(1, 2) }}": {"a"},
        "{{ a | bool | ternary(1, b) }}": {"b"},
        "text {{ a }}": {"a"},
    }
    for template, names in found.items():
        assert names_without_conversion(template, {"a", "b"}) == names, template


@pytest.mark.parametrize("role", role_names())
def test_roles_take_the_texts_true_and_false(role: str) -> None:
    """AWX has no yes-or-no question, and ``-e`` gives texts, so conditions must convert them."""
    unconverted = {
        f"{path.name}: {template}"
        for folder in ("tasks", "vars")
        for path in (ROOT / "roles" / role / folder).glob("*.yml")
        for template in templates(yaml.safe_load(path.read_text()))
        if names_without_conversion(template, BOOLEANS)
    }
    assert not unconverted
