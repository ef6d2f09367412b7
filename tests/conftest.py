# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import signal

import pytest
import yaml

from support.examples import generated, register_profile

register_profile()

# The same documents as from the loader in Python, in a tenth of the time.
pytest.MonkeyPatch().setattr(yaml, "SafeLoader", yaml.CSafeLoader)

# Processes that tests start run without coverage, which would take them as long again: little of
# the library runs there alone. Workers get it from the process that starts them.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.pop("COVERAGE_PROCESS_CONFIG", None)

# A shell starts what runs in the background with SIGINT ignored; tests send it all the same.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(generated)
