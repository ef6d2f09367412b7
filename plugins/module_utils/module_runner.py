# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The only place that touches AnsibleModule: parameters in, result or one clear failure out."""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import traceback
import typing as t

from ansible.module_utils.basic import AnsibleModule, env_fallback, missing_required_lib

from .base.argspec import ArgumentSpec, Options
from .base.context import Context, ProgressCallback, Work, ignore_progress
from .base.errors import MissingLibrary, WattwiseError


def run_module(spec: ArgumentSpec, work: Work) -> None:
    """Run ``work`` with the task's parameters and leave through exit_json or fail_json."""
    # The process ends with its task. Garbage collection over the hundred thousands of objects of a
    # large cluster takes a fifth of its time and frees hardly anything.
    gc.disable()
    module = AnsibleModule(supports_check_mode=True, **spec.to_keywords(env_fallback))
    _hide_only_secrets(module, spec)
    progress_file = module.params.get("progress_file")
    context = Context(
        check_mode=module.check_mode,
        progress=_progress_callback(progress_file),
        progress_of=functools.partial(_progress_callback, progress_file),
        warn=module.warn,
        protect=module.no_log_values.add,
    )
    try:
        with _standard_output_kept_clean():
            result = work(module.params, context)
    except MissingLibrary as error:
        module.fail_json(msg=missing_required_lib(error.library), **error.fields)
    except WattwiseError as error:
        module.fail_json(msg=str(error), **error.fields)
    except Exception as error:  # noqa: BLE001 - the one place that words a defect for the user
        module.fail_json(
            msg=f"This is a defect of {module._name}, please report it: "
            f"{type(error).__name__}: {error}",
            exception=traceback.format_exc(),
        )
    for sentence in result.pop("warnings", []):
        module.warn(sentence)
    module.exit_json(**result)


def _hide_only_secrets(module: AnsibleModule, spec: ArgumentSpec) -> None:
    """Hide only the values under ``secret_keys`` of such an option.

    Ansible would hide every text in the option, and names that contain a user name such as
    ``admin`` or a kind such as ``Secret`` would become asterisks.
    """
    texts: set[str] = set()
    secrets: set[str] = set()
    for keys, value in _with_secret_keys(spec.options, module.params):
        texts.update(_texts(value))
        secrets.update(_texts(value, keys))
    # A value of one such option may be a secret of another.
    module.no_log_values.difference_update(texts - secrets)
    module.no_log_values.update(secrets)


def _with_secret_keys(
    options: Options, given: t.Mapping[str, t.Any]
) -> t.Iterator[tuple[frozenset[str], t.Any]]:
    """The keys and the value of each option that has secret keys, suboptions included."""
    for name, option in options.items():
        value = given.get(name)
        if value and option.get("secret_keys"):
            yield frozenset(option["secret_keys"]), value
        elif value and option.get("type") == "dict" and "options" in option:
            yield from _with_secret_keys(option["options"], value)


def _texts(value: t.Any, keys: frozenset[str] | None = None) -> t.Iterator[str]:
    """Every text in a nested value; with ``keys`` only those below members of such a name."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _texts(member, None if keys is None or key in keys else keys)
    elif isinstance(value, list):
        for member in value:
            yield from _texts(member, keys)
    elif keys is None and value not in (None, ""):
        yield str(value)


def _progress_callback(path: str | None, step: str = "") -> ProgressCallback:
    """A callback that appends each step to the file which the action plugin reads."""
    if path is None:
        return ignore_progress
    # Open until the process ends, because a step of a large cluster has ten thousand lines.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def append(done: int, total: int, failed: int) -> None:
        line = {"step": step, "done": done, "total": total, "failed": failed}
        os.write(file, f"{json.dumps(line)}\n".encode())

    return append


@contextlib.contextmanager
def _standard_output_kept_clean() -> t.Iterator[None]:
    """Redirect native libraries' output to standard error: standard output is the result."""
    saved = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
