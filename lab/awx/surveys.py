# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Surveys as AWX checks them: JobTemplateSurveySpec and SurveyJobTemplateMixin of AWX 24.6."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

_TYPES: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "textarea": (str,),
    "password": (str,),
    "multiplechoice": (str,),
    "multiselect": (str, list),
    "integer": (int,),
    "float": (float, int),
}
_NUMBERS = ("integer", "float")


def problem_of_spec(spec: Json) -> str | None:
    """Reason why AWX refuses the survey; None if it accepts it."""
    for field, kind in (("name", str), ("description", str), ("spec", list)):
        if not isinstance(spec.get(field), kind):
            return f"Field '{field}' is missing from survey spec."
    if not spec["spec"]:
        return "'spec' doesn't contain any items."
    variables = [item.get("variable") for item in spec["spec"]]
    for index, item in enumerate(spec["spec"]):
        for field in ("type", "question_name", "variable", "required"):
            if not isinstance(item.get(field), bool if field == "required" else str):
                return f"'{field}' missing from survey question {index}"
        if variables.index(item["variable"]) != index:
            return f"'variable' '{item['variable']}' duplicated in survey question {index}."
        if problem := _problem_of_type(item, index):
            return problem
    return None


def _problem_of_type(item: Json, index: int) -> str | None:
    kind, default = item["type"], item.get("default", "")
    if kind not in _TYPES:
        return f"'{kind}' in survey question {index} is not one of '{', '.join(_TYPES)}'"
    if default != "" and not isinstance(default, _TYPES[kind]):
        return f"Default value {default} in survey question {index} expected to be {kind}."
    for key in ("min", "max"):
        if item.get(key) is not None and not isinstance(item[key], int):
            return f"The {key} limit in survey question {index} expected to be integer."
    if kind in ("multiselect", "multiplechoice"):
        if "choices" not in item:
            return f"Survey question {index} of type {kind} must specify choices."
        chosen = default.splitlines() if isinstance(default, str) else default
        if kind == "multiplechoice" and len(chosen) > 1:
            return "Multiple Choice (Single Select) can only have one default value."
        if any(choice not in item["choices"] for choice in chosen):
            return "Default choice must be answered from the choices listed."
    return None


def problems_of_answers(spec: Json, answers: Json) -> list[str]:
    """AWX's errors about answers outside the survey's limits."""
    found: list[str] = []
    for item in spec.get("spec", []):
        variable = item["variable"]
        if variable in answers:
            found += _problems_of_answer(item, variable, answers[variable])
        elif item["required"]:
            found.append(f"'{variable}' value missing")
    return found


def _problems_of_answer(item: Json, variable: str, value: Any) -> list[str]:
    kind = item["type"]
    if kind == "multiselect":
        if not isinstance(value, list):
            return [f"'{variable}' value is expected to be a list."]
        return [_unlisted(variable, one, item) for one in value if one not in item["choices"]]
    if kind == "multiplechoice":
        return [] if value in item["choices"] else [_unlisted(variable, value, item)]
    wanted = {"integer": (int,), "float": (int, float)}.get(kind, (str,))
    if type(value) not in wanted:
        noun = {"integer": "an integer", "float": "a numeric type"}.get(kind, "a string")
        return [f"Value {value} for '{variable}' expected to be {noun}."]
    size = value if kind in _NUMBERS else len(value)
    lowest, highest = item.get("min"), item.get("max")
    found = []
    if lowest is not None and size < lowest:
        found.append(f"'{variable}' value {value} is too small (must be at least {lowest}).")
    if highest is not None and size > highest:
        found.append(f"'{variable}' value {value} is too large (must be no more than {highest}).")
    return found


def _unlisted(variable: str, value: Any, item: Json) -> str:
    return f"Value {value} for '{variable}' expected to be one of {item['choices']}."


def defaults_of(spec: Json) -> Json:
    """Defaults that become variables of a job, including those of unanswered questions."""
    return {
        item["variable"]: item["default"]
        for item in spec.get("spec", [])
        if item.get("default") is not None
        and not problems_of_answers({"spec": [item]}, {item["variable"]: item["default"]})
    }
