# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Set-up of all tests."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import typing as t

import pytest

try:
    import yaml

    import ansible_collections.wattwise.kube  # noqa: F401 - a plain clone is in no such folder
    from support.examples import generated, register_profile
except ModuleNotFoundError as error:
    raise SystemExit(
        f"Module {error.name} is missing here: run `make pytest`, which sets up the environment and"
        " the folder of the tests."
    ) from error

# Threads of pytest and its plugins.
_OTHER_THREADS = frozenset(threading.enumerate())
_END_SECONDS = 5.0

register_profile()

# Yields the same documents as the loader in Python, in a tenth of the time.
pytest.MonkeyPatch().setattr(yaml, "SafeLoader", yaml.CSafeLoader)

# Child processes of tests run without coverage, which would double their time: little of the
# library runs only there. Workers get coverage from their parent process.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.pop("COVERAGE_PROCESS_CONFIG", None)

# A shell starts background processes with SIGINT ignored, but tests send it all the same.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> t.Generator[None, object, object]:
    """Keep the garbage collector away from modules and tests, which all stay until the end.

    It would visit them again and again: that was nearly a third of the time of their collection.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    # Frozen objects would outlive the extensions that made them.
    gc.unfreeze()
    gc.collect()
    # OpenSSL clears its state when the process ends, and kills it if a thread is still within.
    deadline = time.monotonic() + _END_SECONDS
    for thread in {*threading.enumerate()} - _OTHER_THREADS:
        thread.join(max(0.0, deadline - time.monotonic()))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(generated)
