# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules started from the installed collection answer like those packed by Ansible."""

from __future__ import annotations

import datetime
import importlib
import json
import os
import shutil
import sys
import sysconfig
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.wattwise.kube.plugins.plugin_utils import direct_module, progress
from ansible_collections.wattwise.kube.plugins.plugin_utils.direct_module import (
    is_own_interpreter,
    start_module,
)
from support.playbook import PYTHON, run_playbook

Json = dict[str, t.Any]

ACTIONS = "ansible_collections.wattwise.kube.plugins.action"
POOL = {
    "apiVersion": "devmgmtproto.k8s.io/v1alpha1",
    "kind": "DevicePool",
    "metadata": {"name": "node-1-gpus"},
    "spec": {"nodeName": "node-1", "driver": "gpu.example.com", "count": 4},
}
CLAIM = {
    "apiVersion": "devmgmtproto.k8s.io/v1alpha1",
    "kind": "DeviceClaim",
    "metadata": {"name": "training", "namespace": "default"},
    "spec": {"driver": "gpu.example.com", "minDeviceCount": 3},
}


TASK: Json = {"wattwise.kube.device_allocation": {"src": ["objects.yml"]}}
REFUSED: Json = {"wattwise.kube.device_allocation": {"source": ["objects.yml"]}}
# YAML makes a time of it, and JSON has none: the refused name shows the received value.
TIME = datetime.datetime(2026, 11, 23, 6, 0, tzinfo=datetime.UTC)
TIMED: Json = {
    "wattwise.kube.device_allocation": {"objects": [{**POOL, "metadata": {"name": TIME}}, CLAIM]}
}
OWN_PYTHON = "{{ ansible_playbook_python }}"
# This sudo grants nothing: the test concerns how the module is started, not whether it may.
SUDO: Json = {"become": True, "become_method": "ansible.builtin.sudo"}
NO_SUDO: Json = {"ansible_become_exe": "/bin/false"}
# Nothing listens there; the module warns that it would not verify the server.
WARNED: Json = {
    "wattwise.kube.redfish_thermal_info": {
        "targets": [{"name": "a", "endpoint": "https://127.0.0.1:9"}],
        "validate_certs": False,
        "min_success": 0.0,
        "progress": "none",
    }
}
READING: Json = {
    "wattwise.kube.fleet_snapshot_info": {"progress": "none"},
    "environment": {"K8S_AUTH_KUBECONFIG": "no-such-file"},
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Output of -vvv for each task; all are of one run, since a run mostly spends time on Ansible's
    start.
    """
    folder = tmp_path_factory.mktemp("direct")
    other = folder / "other-python"
    other.write_text(f'#!/bin/sh\nexec {PYTHON} "$@"\n')
    other.chmod(0o755)
    tasks: dict[str, Json] = {}
    given = {"answered": TASK, "refused": REFUSED, "with a time": TIMED, "warned": WARNED}
    for name, task in given.items():
        tasks[f"{name}, directly"] = task
        tasks[f"{name}, packed"] = {**task, "vars": {"ansible_python_interpreter": str(other)}}
    tasks["async"] = {**TASK, "async": 60, "poll": 1}
    tasks["become"] = {**TASK, **SUDO, "vars": NO_SUDO}
    tasks["environment"] = READING
    return run(folder, tasks)


def run(folder: Path, tasks: dict[str, Json]) -> dict[str, str]:
    """Run the playbook of these tasks; paths in it are relative to the playbook's folder."""
    plays = folder / "plays"
    plays.mkdir()
    objects = [f"---\n{json.dumps(item)}\n" for item in (POOL, CLAIM)]
    (plays / "objects.yml").write_text("".join(objects))
    # A module of this name would be found first if Python imported from the working folder.
    (plays / "json.py").write_text("raise RuntimeError('imported from the working folder')")
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "ignore_errors": True,
        "vars": {"ansible_connection": "local", "ansible_python_interpreter": OWN_PYTHON},
        "tasks": [{"name": name, **task} for name, task in tasks.items()],
    }
    (plays / "playbook.yml").write_text(yaml.safe_dump([play]))
    output = run_playbook(str(plays / "playbook.yml"), folder, "-vvv").output
    parts = [part.partition("]") for part in output.split("TASK [")[1:]]
    return {name: text for name, _bracket, text in parts}


def is_packed(text: str) -> bool:
    return "AnsiballZ_" in text


def result_of(text: str) -> Json:
    """The module's result from the output of -vvv, without Ansible's additions."""
    text = text[text.index("=> {") + len("=> ") :]
    result: Json = json.JSONDecoder().raw_decode(text)[0]
    return {key: value for key, value in result.items() if not key.startswith(("_", "invocation"))}


def routed_actions() -> dict[str, str]:
    """The action plugin of each module: that of its name, or the one in meta/runtime.yml."""
    tree = Path(direct_module.__file__).parents[2]
    modules, actions = (
        {path.stem for path in (tree / "plugins" / kind).glob("[a-z]*.py")}
        for kind in ("modules", "action")
    )
    runtime = yaml.safe_load((tree / "meta" / "runtime.yml").read_text())
    routes = {
        name: route["action_plugin"].removeprefix("wattwise.kube.")
        for name, route in runtime["plugin_routing"]["modules"].items()
    }
    assert actions.isdisjoint(routes) and actions >= set(routes.values())
    assert actions | routes.keys() == modules
    return {**{name: name for name in actions}, **routes}


def test_every_module_has_the_action_plugin_of_its_options() -> None:
    routed = routed_actions()
    # This module consists only of its documentation.
    assert routed.pop("validate_role_variables") == "validate_role_variables"
    for name, action_name in sorted(routed.items()):
        document = importlib.import_module(f"{direct_module.MODULES}.{name}").DOCUMENTATION
        options = yaml.safe_load(document)
        kind: type = direct_module.DirectActionModule
        if "wattwise.kube.progress" in options["extends_documentation_fragment"]:
            kind = progress.ProgressActionModule
        if "run_process" in options.get("options", {}):
            kind = progress.RunActionModule
        action = importlib.import_module(f"{ACTIONS}.{action_name}")
        assert action.ActionModule is kind, name


def test_the_defaults_of_a_module_reach_no_other_module_of_its_action_plugin(
    tmp_path: Path,
) -> None:
    actions = routed_actions()
    assert actions["fleet_report"] == actions["device_allocation"]
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {"ansible_connection": "local", "ansible_python_interpreter": OWN_PYTHON},
        "module_defaults": {
            "wattwise.kube.device_allocation": {"objects": [POOL, CLAIM]},
            "wattwise.kube.fleet_report": {"run_dir": "no-such-folder"},
            "group/wattwise.kube.wattwise": {"kubeconfig": "no-such-file"},
        },
        "tasks": [
            {"name": "allocation", "wattwise.kube.device_allocation": {}},
            {"name": "report", "wattwise.kube.fleet_report": {}},
        ],
    }
    run = run_playbook([play], tmp_path, as_json=True)
    [allocation] = run.results("allocation")
    assert allocation["outcome"] == "allocated"
    # Each default arrived, and none that the module refuses.
    assert "no-such-folder" in run.failures()["localhost"]


@pytest.mark.parametrize("task", ["answered", "refused", "with a time", "warned"])
def test_the_control_nodes_python_starts_the_module_directly_and_another_one_packs_it(
    printed: dict[str, str], task: str
) -> None:
    directly, packed = (printed[f"{task}, {how}"] for how in ("directly", "packed"))
    assert (is_packed(directly), is_packed(packed)) == (False, True)
    assert result_of(directly) == result_of(packed)


def test_a_warning_of_a_module_is_printed_as_its_sentence(printed: dict[str, str]) -> None:
    # Ansible prints a warning once, so not again for the packed module.
    text = " ".join(printed["warned, directly"].split())
    assert "[WARNING]: The certificates of 1 targets are not verified" in text
    assert "WarningSummary" not in text


@pytest.mark.parametrize("task", ["async", "become"])
def test_a_task_in_the_background_or_of_another_user_is_packed(
    printed: dict[str, str], task: str
) -> None:
    assert is_packed(printed[task])


def test_another_name_of_the_own_python_is_the_same_python(tmp_path: Path) -> None:
    elsewhere = tmp_path / "python"
    elsewhere.symlink_to(sys.executable)
    folder = Path(sys.executable).parent
    assert all(is_own_interpreter(str(folder / name)) for name in ("python", "python3"))
    assert not any(is_own_interpreter(name) for name in (str(elsewhere), "python", "", "auto"))


def test_a_collection_that_is_a_link_to_a_checkout_starts_its_modules(tmp_path: Path) -> None:
    tree, checkout = Path(direct_module.__file__).parents[2], tmp_path / "checkout"
    bytecode = shutil.ignore_patterns("__pycache__")
    for name in ("plugins", "meta"):
        shutil.copytree(tree / name, checkout / name, ignore=bytecode)
    link = tmp_path / "collections" / "ansible_collections" / "wattwise" / "kube"
    link.parent.mkdir(parents=True)
    link.symlink_to(checkout, target_is_directory=True)
    variables = {"ansible_connection": "local", "ansible_python_interpreter": OWN_PYTHON}
    task = {"wattwise.kube.device_allocation": {"objects": [POOL, CLAIM]}}
    play = {"hosts": "localhost", "gather_facts": False, "vars": variables, "tasks": [task]}
    paths = (str(link.parents[2]), sysconfig.get_path("purelib"))
    run = run_playbook(
        [play], tmp_path, "-vvv", ANSIBLE_COLLECTIONS_PATH=os.pathsep.join(paths), PYTHONPATH=""
    )
    assert run.returncode == 0, run.output
    assert "training" in run.output and not is_packed(run.output)


def test_a_tasks_environment_reaches_the_module(printed: dict[str, str]) -> None:
    assert "no-such-file" in result_of(printed["environment"])["msg"]


def test_a_module_that_ends_without_a_result_is_a_failure_with_its_last_words(
    tmp_path: Path,
) -> None:
    result = start_module("no_such_module", {}, {}, str(tmp_path))
    assert result["failed"] is True
    assert "no_such_module ended with return code 1 and without a result" in result["msg"]
    assert result["msg"].splitlines() == [result["msg"]]
    assert "No module named" in result["msg"]
    assert result["msg"].endswith(result["module_stderr"].strip())


def test_a_module_writes_its_result_through_a_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "stdout_of_mine.py").write_text(
        "import io, json, sys\n"
        'print(json.dumps({"buffered": isinstance(sys.stdout.buffer, io.BufferedWriter)}))\n'
    )
    monkeypatch.setattr(direct_module, "MODULES", "modules")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    result = start_module("stdout_of_mine", {}, {"PYTHONUNBUFFERED": "1"}, str(tmp_path))
    assert result == {"buffered": True}
