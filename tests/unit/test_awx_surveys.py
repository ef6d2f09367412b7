# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The surveys of AWX ask for variables that there are, as AWX and the roles take them."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml

Json = dict[str, t.Any]

ROOT = Path(__file__).resolve().parents[2]
SURVEYS: dict[str, Json] = {
    path.stem: yaml.safe_load(path.read_text())
    for path in (ROOT / "extensions" / "awx" / "surveys").glob("*.yml")
}
QUESTIONS = [
    pytest.param(playbook, question, id=f"{playbook}-{question['variable']}")
    for playbook, survey in SURVEYS.items()
    for question in survey["spec"]
]
# The type of an argument, and the types of a question whose answers it takes.
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
    """The variables of the roles that a playbook runs."""
    [play] = yaml.safe_load((ROOT / "playbooks" / f"{playbook}.yml").read_text())
    steps = [*(play.get("roles") or []), *imported(play.get("tasks") or [])]
    roles = [step["role"].rpartition(".")[2] for step in steps]
    return {name: option for role in roles for name, option in role_options(role).items()}


def imported(tasks: list[Json]) -> t.Iterator[Json]:
    """The roles that tasks import, those in blocks included, as a play's list of roles has them."""
    for task in tasks:
        yield from imported(task.get("block") or [])
        if "ansible.builtin.import_role" in task:
            yield {"role": task["ansible.builtin.import_role"]["name"]}


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


@pytest.mark.parametrize("role", sorted(path.name for path in (ROOT / "roles").iterdir()))
def test_roles_take_the_texts_true_and_false(role: str) -> None:
    """AWX has no yes-or-no question, and ``-e`` gives texts: a condition converts them."""
    tasks = "\n".join(path.read_text() for path in (ROOT / "roles" / role / "tasks").glob("*.yml"))
    conditions = re.findall(r"^ *(?:- )?(?:when|that): (.*)$", tasks, re.MULTILINE)
    options = role_options(role) if (ROOT / "roles" / role / "meta").exists() else {}
    for name in (name for name, option in options.items() if option["type"] == "bool"):
        for condition in conditions:
            used = re.findall(rf"\b{name}\b(?! \| bool\b)", condition)
            assert not used, condition
