# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start a module from the installed collection instead of packing a copy of the library for it.

Ansible packs a module with all its imports, and each task compiles the copy again: two to three
seconds for the larger modules. If the module would run on the control node, as the same user and
with the same Python, the installed files suffice, and Python keeps their bytecode. The module is
started as in Ansible's developer guide: ``python -m``, its arguments as JSON on the standard input.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

from ansible import constants
from ansible.module_utils.common import json as ansible_json
from ansible.plugins.action import ActionBase

from ..module_utils.base.texts import shown_text
from .options import plain

MODULES = "ansible_collections.wattwise.kube.plugins.modules"
# The folder that holds ansible_collections; the collection itself may be a link to a checkout.
ROOT = Path(__file__).absolute().parents[5]

Variables = t.Mapping[str, t.Any]
Result = dict[str, t.Any]


class DirectActionModule(ActionBase):  # type: ignore[misc]  # ansible-core has no types
    """Runs the module of the action's own name, directly if the result is the same."""

    _supports_async = True
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> Result:
        result: Result = super().run(tmp, task_vars)
        result.update(self._run_module(dict(self._task.args), task_vars or {}))
        return result

    def _run_module(self, arguments: dict[str, t.Any], task_vars: Variables) -> Result:
        if self._can_run_directly(task_vars):
            return self._run_directly(arguments, task_vars)
        result: Result = self._execute_module(
            module_args=arguments,
            task_vars=task_vars,
            wrap_async=self._task.async_val and not self._connection.has_native_async,
        )
        return result

    def _can_run_directly(self, task_vars: Variables) -> bool:
        """Whether host, user and Python are the same, and no packed module is kept for
        debugging."""
        return (
            self._connection.transport == "local"
            and not self._connection.become
            and not self._task.async_val
            and not constants.DEFAULT_KEEP_REMOTE_FILES
            and is_own_interpreter(self._interpreter(task_vars))
        )

    def _interpreter(self, task_vars: Variables) -> str:
        host = self._task.delegate_to
        variables = task_vars.get("ansible_delegated_vars", {}).get(host, {}) if host else task_vars
        wanted = constants.config.get_config_value("INTERPRETER_PYTHON", variables=variables)
        return str(self._templar.template(wanted))

    def _run_directly(self, arguments: dict[str, t.Any], task_vars: Variables) -> Result:
        name = self._task.action.rsplit(".", 1)[-1]
        self._update_module_args(self._task.action, arguments, task_vars)
        environment: dict[str, t.Any] = {}
        self._compute_environment_string(environment)
        return start_module(name, arguments, environment, self._loader.get_basedir())


def is_own_interpreter(path: str) -> bool:
    """Whether the path is the Python of this process, possibly with another name such as python3.

    The folder decides the environment of a Python, so its links are not followed.
    """
    given, own = Path(path), Path(sys.executable)
    return given.parent == own.parent and given.exists() and given.samefile(own)


def start_module(
    name: str, arguments: Variables, environment: t.Mapping[str, t.Any], folder: str
) -> Result:
    """The module's result. ``environment`` is added to the present one; paths start at ``folder``.

    A module without a result gives a failure with its output, as in Ansible itself.
    """
    variables = {**os.environ, **{key: str(value) for key, value in environment.items()}}
    # Unbuffered, Python loses the rest of a result whose write a stop of the process cut short.
    variables.pop("PYTHONUNBUFFERED", None)
    paths = [str(ROOT), *filter(None, [variables.get("PYTHONPATH")])]
    ended = subprocess.run(
        # The working folder is the playbook's, and Python must not import from it.
        [sys.executable, "-P", "-m", f"{MODULES}.{name}"],
        # str() of a vault text is its plain text.
        input=json.dumps({"ANSIBLE_MODULE_ARGS": plain(arguments)}, default=str),
        cwd=folder,
        env={**variables, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        result = json.loads(ended.stdout, cls=_decoder())
    except ValueError:
        result = None
    if isinstance(result, dict):
        return result
    lines = (ended.stdout + ended.stderr).split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "nothing")
    return {
        "failed": True,
        "msg": f"The module {name} ended with return code {ended.returncode} and without a result; "
        f"its last output: {shown_text(last)}",
        "module_stdout": ended.stdout,
        "module_stderr": ended.stderr,
    }


def _decoder() -> type[json.JSONDecoder]:
    """The decoder of results; from ansible-core 2.19 on, warnings are objects in them."""
    try:
        profiled, direction = ansible_json.get_module_decoder, ansible_json.Direction
    except AttributeError:
        return json.JSONDecoder
    found: type[json.JSONDecoder] = profiled("legacy", direction.MODULE_TO_CONTROLLER)
    return found
