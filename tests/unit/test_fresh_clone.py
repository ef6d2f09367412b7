# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""pytest started without `make`, as in a fresh clone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
HIDING = """
import sys

class Hiding:
    def find_spec(self, name, path=None, target=None):
        if name == {0!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hiding())
"""


@pytest.mark.parametrize("missing", ["hypothesis", "ansible_collections"])
def test_pytest_without_the_environment_names_the_command(tmp_path: Path, missing: str) -> None:
    shutil.copy(TESTS / "conftest.py", tmp_path)
    (tmp_path / "test_one.py").write_text("def test_one(): pass")
    support = tmp_path / "support"
    support.mkdir()
    shutil.copy(TESTS / "support" / "examples.py", support)
    # A finder that does not find the module, as if it were not installed.
    (tmp_path / "sitecustomize.py").write_text(HIDING.format(missing))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    [sentence] = (done.stdout + done.stderr).strip().splitlines()
    assert missing in sentence and "run `make pytest`" in sentence
    assert done.returncode != 0
