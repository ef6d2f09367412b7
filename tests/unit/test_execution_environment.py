# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Execution environments of others, and ansible-navigator: they read our files without an engine.

Gate `image` builds and runs our own execution environment.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from support.dockerfile import ROOT

LOCK = "requirements/operator.txt"
NAVIGATOR = ROOT / "docs" / "examples" / "ansible-navigator.yml"
VERSION = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
IMAGE = f"localhost/wattwise-ee:{VERSION}"


def run(folder: Path, *command: str) -> str:
    """Output of a program of this environment; it must succeed."""
    programs = str(Path(sys.executable).parent)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    variables = {"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8", "NO_COLOR": "1"}
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def collections(tmp_path: Path) -> Path:
    """The collection in an image, as far as ansible-builder reads it."""
    folder = tmp_path / "ansible_collections" / "wattwise" / "kube"
    (folder / "meta").mkdir(parents=True)
    for name in ("galaxy.yml", "requirements.txt", "bindep.txt", "meta/execution-environment.yml"):
        shutil.copy(ROOT / name, folder / name)
    return tmp_path


def introspect(folder: Path, *arguments: str) -> t.Any:
    command = ("ansible-builder", "introspect", *arguments, str(folder))
    return yaml.safe_load(run(folder, *command))


def bare(lines: list[str]) -> list[str]:
    return [re.split(r"\s+#", line)[0].strip() for line in lines]


def test_any_execution_environment_gets_what_the_collection_needs(collections: Path) -> None:
    """Such as one of several collections, defined by another user."""
    found = introspect(collections)
    # ansible-core brings PyYAML.
    libraries = [line for line in lines_of("requirements.txt") if not line.startswith("PyYAML")]
    assert bare(found["python"]) == libraries
    assert bare(found["system"]) == lines_of("bindep.txt")
    run(collections, "bindep", "--list_all", "newline", "--file", str(ROOT / "bindep.txt"))


def lines_of(name: str) -> list[str]:
    return [line for line in (ROOT / name).read_text().splitlines() if line[:1].isalpha()]


def test_the_lock_of_our_own_satisfies_the_ranges() -> None:
    pinned = re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / LOCK).read_text(), re.MULTILINE)
    for line in lines_of("requirements.txt"):
        wanted = Requirement(line)
        versions = [version for name, version in pinned if name == wanted.name.lower()]
        assert versions and all(wanted.specifier.contains(version) for version in versions), line


def test_navigator_takes_its_settings_and_names_the_image_of_this_version(tmp_path: Path) -> None:
    shutil.copy(NAVIGATOR, tmp_path)
    (tmp_path / "runs").mkdir()
    command = ("settings", "--effective", "--execution-environment", "false")
    shown = yaml.safe_load(run(tmp_path, "ansible-navigator", *command, "--mode", "stdout"))
    settings = shown["ansible-navigator"]
    assert settings["execution-environment"]["image"] == IMAGE
    assert settings["playbook-artifact"]["enable"] is False
    passed = settings["execution-environment"]["environment-variables"]["pass"]
    code = "".join(path.read_text() for path in (ROOT / "plugins").rglob("*.py"))
    assert [name for name in passed if name not in code] == []
