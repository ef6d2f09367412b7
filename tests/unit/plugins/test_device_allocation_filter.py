# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter device_allocation, as a function and in templates, beside the module of its name."""

from __future__ import annotations

import datetime
import json
import re
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.wattwise.kube.plugins.doc_fragments import solver
from ansible_collections.wattwise.kube.plugins.filter.device_allocation import FilterModule
from ansible_collections.wattwise.kube.plugins.modules import device_allocation as module
from support.device_objects import (
    device_claim,
    device_class,
    device_pool,
    dra_class,
    dra_device,
    exactly,
    manifest,
    resource_claim,
    resource_slice,
)
from support.playbook import run_playbook

Json = dict[str, t.Any]
FILE = Path(__file__).resolve().parents[3] / "plugins" / "filter" / "device_allocation.yml"
PAGE = yaml.safe_load(FILE.read_text())
MODULE_OPTIONS = {
    **yaml.safe_load(module.DOCUMENTATION)["options"],
    **yaml.safe_load(solver.ModuleDocFragment.DOCUMENTATION)["options"],
}
ANSWER = PAGE["RETURN"]["_value"]["contains"]
DRIVER = "gpu.example.com"

device_allocation = FilterModule().filters()["device_allocation"]

POOLS = [device_pool(f"n{number}-gpus", f"n{number}", DRIVER, count=number) for number in (1, 2)]
CLAIM = device_claim("training", driver=DRIVER, minDeviceCount=2)
# First fit gives the large device to the claim that would be satisfied by a small one.
LARGE_ONE = "device.attributes['gpu.example.com'].size > 40"
DRA = [
    dra_class("gpu", f"device.driver == '{DRIVER}'"),
    resource_slice("n1", [dra_device("d0", attributes={"size": 80})]),
    resource_slice("n2", [dra_device("d0", attributes={"size": 40})]),
    resource_claim("any", exactly("r", "gpu")),
    resource_claim("large", exactly("r", "gpu", LARGE_ONE)),
]


def test_every_option_of_the_module_that_names_no_file_is_one_of_the_filter() -> None:
    documented = PAGE["DOCUMENTATION"]["options"]
    files = {"objects", "src", "snapshot", "curves"}
    assert documented.keys() - {"_input"} == MODULE_OPTIONS.keys() - files
    for name in MODULE_OPTIONS.keys() - files:
        for key in ("type", "default", "choices"):
            assert documented[name].get(key) == MODULE_OPTIONS[name].get(key), f"{name}.{key}"
        # Documented input is also accepted.
        with pytest.raises(AnsibleFilterError, match="these belong to neither"):
            device_allocation([], **{name: MODULE_OPTIONS[name].get("default")})


def test_the_page_tells_every_member_of_the_answer() -> None:
    assert ANSWER.keys() == yaml.safe_load(module.RETURN).keys()
    assert device_allocation([*POOLS, CLAIM], format="k8srm").keys() == ANSWER.keys()


def test_a_template_answers_what_the_module_answers(tmp_path: Path) -> None:
    cases: list[tuple[list[Json], Json]] = [
        (DRA, {"strategy": "first_fit"}),
        (DRA, {"strategy": "optimal", "seed": 7}),
        ([*POOLS, CLAIM], {"format": "k8srm", "verbose": True, "node": "n1"}),
    ]
    tasks: list[Json] = []
    for number, (objects, options) in enumerate(cases):
        # Texts of a template's variables are templates themselves.
        given = {"given": objects, "driver": DRIVER}
        given["given"] = json.loads(json.dumps(objects).replace(DRIVER, "{{ driver }}"))
        keywords = ", ".join(f"{name}={value!r}" for name, value in options.items())
        answer = f"{{{{ given | wattwise.kube.device_allocation({keywords}) }}}}"
        asked = {"objects": "{{ given }}", **options}
        tasks += [
            {"name": f"module {number}", "wattwise.kube.device_allocation": asked, "vars": given},
            {"name": f"filter {number}", "ansible.builtin.debug": {"msg": answer}, "vars": given},
        ]
    play = {"hosts": "localhost", "gather_facts": False, "tasks": tasks}
    run = run_playbook([play], tmp_path, as_json=True)
    assert run.returncode == 0, run.output
    for number in range(len(cases)):
        [by_module] = run.results(f"module {number}")
        [by_filter] = run.results(f"filter {number}")
        assert by_filter["msg"] == {key: by_module[key] for key in by_filter["msg"]}
        assert by_filter["msg"].keys() == by_module.keys() & ANSWER.keys()
    outcomes = [
        run.results(f"filter {number}")[0]["msg"]["outcome"] for number in range(len(cases))
    ]
    assert outcomes == ["infeasible", "allocated", "infeasible"]


def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    named = [{"name": "gpus", "claimName": "training"}]
    pods = [
        CLAIM,
        manifest("v1", "Pod", "p", {"deviceClaims": named}, namespace="default"),
    ]
    for name, objects in {
        "pools": POOLS,
        "pods": pods,
        "pools-and-claims": [*POOLS, CLAIM],
    }.items():
        (tmp_path / f"{name}.yml").write_text(yaml.safe_dump_all(objects))
    tasks = yaml.safe_load(PAGE["EXAMPLES"])
    play = {"hosts": "localhost", "gather_facts": False, "tasks": tasks}
    run = run_playbook([play], tmp_path, as_json=True)
    assert run.returncode == 0, run.output
    [shown] = run.results(tasks[1]["name"])
    assert [item["msg"] for item in shown["results"]] == ["default/p: n2"]
    [text] = run.results(tasks[2]["name"])
    assert "devicePoolName: n2-gpus" in "\n".join(text["msg"])


def test_one_object_or_text_is_a_list_of_one() -> None:
    text = yaml.safe_dump_all([*POOLS, CLAIM])
    objects = {"apiVersion": "v1", "kind": "List", "items": [*POOLS, CLAIM]}
    answers = [device_allocation(given) for given in ([*POOLS, CLAIM], text, objects)]
    assert answers[0]["node"] == "n2"
    assert answers[1:] == answers[:1] * 2


def test_what_is_given_stays_as_it_is_and_dates_count_as_texts() -> None:
    def objects() -> list[Json]:
        made = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        return [
            *POOLS,
            {**CLAIM, "metadata": {**CLAIM["metadata"], "creationTimestamp": made}},
        ]

    given = objects()
    assert device_allocation(given)["outcome"] == "allocated"
    assert given == objects()


def test_a_defect_of_an_object_is_in_the_answer_and_warned_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    misspelt = device_class("unused", contstraints="device.model == 'a100'")
    answer = device_allocation([misspelt, *POOLS, CLAIM])
    [finding] = answer["findings"]
    assert finding["field"] == "spec.contstraints"
    assert "spec.contstraints" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ([], {}, "objects: give pools, classes and claims of one API"),
        (None, {}, "objects: give pools, classes and claims of one API"),
        (7, {}, "objects[0]: a manifest is a mapping, not int"),
        ([{"kind": "DevicePool"}], {}, "objects[0]: apiVersion is missing"),
        ("kind: [", {}, "objects[0]: line 2: it is not YAML: "),
        ([*POOLS, *DRA], {}, "select one of them with api_group"),
        ([CLAIM, CLAIM], {}, "DeviceClaim default/training is given twice; remove one"),
        ([CLAIM], {"strategy": "best"}, "value of strategy must be one of: optimal, first_fit"),
        ([CLAIM], {"time_limit": "soon"}, "time_limit"),
        ([CLAIM], {"time_limit": 0}, "time_limit: 0.0 is not allowed; it must be greater than 0"),
        ([CLAIM], {"seed": -1}, "seed: -1 is not allowed; it must be 0 or more"),
        (
            [CLAIM],
            {"snapshot": "devices.json"},
            "there is no option snapshot; there are api_group,",
        ),
        ([CLAIM], {"sed": 1, "x": 1}, "there is no option sed, x; there are api_group,"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_filter(
    given: t.Any, options: Json, message: str
) -> None:
    with pytest.raises(AnsibleFilterError, match=re.escape(message)) as caught:
        device_allocation(given, **options)
    assert str(caught.value).startswith("wattwise.kube.device_allocation: ")
    assert "\n" not in str(caught.value)
