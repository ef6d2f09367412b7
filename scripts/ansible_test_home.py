# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A home folder with which ansible-test needs only a package index.

ansible-test keeps its virtual environments in the home folder, downloads a script that installs pip
from a site of its own, and passes only HOME and PATH to pip. So it gets a home of its own, with
that script in its cache and a pip configuration. Its PATH lacks the shims of version managers,
since shims exist even for interpreters that do not run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from scripts.registry_settings import pip_configuration, read_pip_settings

# Interpreters that the library supports on managed machines and ansible-core 2.19 can test.
VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13")
# Versions of pip that ansible-core 2.18 and 2.19, and 2.20 and later, install.
PIP_VERSIONS = ("24_2", "25_2")
SCRIPT = Path(__file__).with_name("get_pip.py")


def real_folder(command: str) -> Path | None:
    """Folder of the interpreter behind a command; None if it does not run or lacks venv."""
    code = "import sys, venv, ensurepip; print(sys.executable)"
    try:
        result = subprocess.run([command, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return Path(result.stdout.strip()).parent if result.returncode == 0 else None


def interpreter_folders() -> dict[str, Path]:
    """Folder of the first working interpreter of each version, from PATH and pyenv."""
    folders: dict[str, Path] = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in VERSIONS:
        name = f"python{version}"
        candidates = [shutil.which(name), *sorted(map(str, pyenv.glob(f"{version}.*/bin/{name}")))]
        found = [folder for item in candidates if item and (folder := real_folder(item))]
        if found:
            folders[version] = found[0]
    return folders


def write_if_changed(path: Path, text: str) -> None:
    """Leave a file that is already right alone: another gate may be reading it."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def prepare(home: Path, tools: Path, folders: dict[str, Path], pip_python: Path) -> dict[str, str]:
    """Fill the home folder; return the environment variables for ansible-test.

    `tools` is the folder of ansible-test itself: its interpreter is the controller's.
    """
    cache = home / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    for version in PIP_VERSIONS:
        write_if_changed(cache / f"get_pip_{version}.py", SCRIPT.read_text())
    configuration = home / ".config" / "pip" / "pip.conf"
    configuration.parent.mkdir(parents=True, exist_ok=True)
    configuration.touch(mode=0o600)
    settings = {**read_pip_settings(str(pip_python), os.environ), "quiet": "1"}
    write_if_changed(configuration, pip_configuration(settings))
    path = [str(tools), *map(str, folders.values())]
    path += [item for item in os.environ.get("PATH", "").split(os.pathsep) if "shims" not in item]
    return {"HOME": str(home), "PATH": os.pathsep.join(dict.fromkeys(path))}
