# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Libraries that are imported at their first use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.wattwise.kube.plugins.module_utils.base import libraries
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import MissingLibrary
from ansible_collections.wattwise.kube.plugins.module_utils.base.libraries import LazyModule


def test_a_library_is_imported_at_its_first_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "used_late.py").write_text("NAMES = []\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    library = LazyModule("used_late")
    assert "used_late" not in sys.modules
    assert library.NAMES is library.NAMES is sys.modules["used_late"].NAMES
    monkeypatch.delitem(sys.modules, "used_late")


def test_a_missing_library_is_named_at_its_first_use() -> None:
    library = LazyModule("absent_library.part", "absent-library")
    with pytest.raises(MissingLibrary) as caught:
        _ = library.name
    assert caught.value.library == "absent-library"


def test_a_missing_name_is_no_missing_library() -> None:
    with pytest.raises(AttributeError, match="no attribute 'absent_name'"):
        _ = LazyModule("json").absent_name


def test_cp_sat_solves_without_pandas() -> None:
    """In a process of its own, because another test may have loaded pandas."""
    program = f"""
import sys
from {libraries.__name__} import cp_model
model = cp_model.CpModel()
number = model.new_int_var(0, 7, "number")
model.maximize(number)
solver = cp_model.CpSolver()
print(solver.solve(model) == cp_model.OPTIMAL, solver.value(number), "pandas" in sys.modules)
import pandas
print(pandas.Series([1, 2]).sum())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["True", "7", "False", "3"], done.stderr


# Only SOCKS proxies need PySocks, so no requirements file names it.
@pytest.mark.parametrize("name", sorted({*libraries.__all__} - {"LazyModule", "urllib3_socks"}))
def test_each_library_is_installed_under_its_name(name: str) -> None:
    assert getattr(libraries, name).__name__
