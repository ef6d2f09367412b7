# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import metrics
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput


def test_a_file_that_cannot_be_written_is_named_and_nothing_stays_behind(tmp_path: Path) -> None:
    folder = tmp_path / "lab.prom"
    folder.mkdir()
    for path in (folder, tmp_path / "none" / "lab.prom"):
        with pytest.raises(InvalidInput, match=str(path)):
            metrics.write(str(path), "a 1\n")
    assert list(tmp_path.iterdir()) == [folder]
