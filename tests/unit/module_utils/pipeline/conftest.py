# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab whose racks the tests limit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.embedded import EmbeddedLab, embedded_lab


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLab]:
    with embedded_lab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab
