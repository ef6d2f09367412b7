# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Kepler, if the program is on PATH, and a simulated machine for it to meter."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import kepler_program
from lab.kepler_program import Host

WATTS = {"package": 50.0, "dram": 8.0}


@pytest.fixture
def program() -> Path:
    found = kepler_program.find()
    if found is None:
        # docs/guides/kepler.md, "A real Kepler": the collection neither contains nor builds the program.
        pytest.skip("no program `kepler` is on PATH")
    return found


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A machine whose package draws 50 W and memory 8 W, at 40 % of its CPUs."""
    found, ended = Host(tmp_path / "host", cores=4), threading.Event()
    found.create()

    def feed() -> None:
        before = time.monotonic()
        while not ended.wait(0.02):
            now = time.monotonic()
            found.feed(WATTS, 1.6, now - before)
            before = now

    feeder = threading.Thread(target=feed)
    feeder.start()
    yield found
    ended.set()
    feeder.join()
