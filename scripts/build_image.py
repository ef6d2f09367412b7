# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the image of operator/Dockerfile with the first container engine that works.

The pip in the build gets the settings of the host's pip as build secrets: a private index, its
certificates and its password reach no layer of the image.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.registry_settings import pip_configuration, read_pip_settings

REPOSITORY = Path(__file__).resolve().parent.parent
ENGINES = ("podman", "docker", "buildah")
# Mount point of the index's certificates in operator/Dockerfile.
AUTHORITY = "/etc/pip-ca.pem"


class NoEngine(Exception):
    """Reason why no engine can build here, and its remedy."""


def working_engine() -> str:
    """The first engine that answers. Raises NoEngine with the errors of all of them."""
    problems = []
    for engine in ENGINES:
        if shutil.which(engine) is None:
            continue
        asked = subprocess.run([engine, "info"], capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            return engine
        said = (asked.stderr or asked.stdout).strip().splitlines()
        problems.append(f"{engine} does not answer ({said[-1] if said else 'without a reason'})")
    found = "; ".join(problems) or f"none of {', '.join(ENGINES)} is in PATH"
    raise NoEngine(
        f"Cannot build the image: {found}. Install or start a container engine and repeat"
        " `make image`, or build operator/Dockerfile elsewhere, with this folder as the context."
    )


def default_name() -> str:
    """The image's name on this machine, with the version of the collection."""
    galaxy = (REPOSITORY / "galaxy.yml").read_text(encoding="utf-8")
    [version] = re.findall(r"^version: (\S+)$", galaxy, re.MULTILINE)
    return f"localhost/wattwise-operator:{version}"


def pip_secrets(pip_python: str, folder: Path) -> list[str]:
    """Options that pass pip's settings to the build; `folder` keeps their files meanwhile."""
    settings = read_pip_settings(pip_python, os.environ)
    options = []
    if settings.get("cert"):
        options += ["--secret", f"id=pip-ca.pem,src={settings['cert']}"]
        settings["cert"] = AUTHORITY
    path = folder / "pip.conf"
    path.write_text(pip_configuration(settings), encoding="utf-8")
    return [*options, "--secret", f"id=pip.conf,src={path}"]


def main(arguments: Sequence[str], pip_python: str = sys.executable) -> int:
    """Build; the exit status is the engine's, or 1 if there is none."""
    parser = argparse.ArgumentParser(prog="make image", description=__doc__)
    parser.add_argument("--image", default=default_name(), help="name and tag; %(default)s")
    parser.add_argument("--base", help="another base image than operator/Dockerfile names")
    chosen = parser.parse_args(arguments)
    try:
        engine = working_engine()
    except NoEngine as problem:
        print(problem, file=sys.stderr)
        return 1
    base = ["--build-arg", f"BASE={chosen.base}"] if chosen.base else []
    with tempfile.TemporaryDirectory() as folder:
        secrets = pip_secrets(pip_python, Path(folder))
        place = ["--file", "operator/Dockerfile", "--tag", chosen.image]
        built = subprocess.run(
            [engine, "build", *place, *base, *secrets, "."],
            cwd=REPOSITORY,
            env={**os.environ, "DOCKER_BUILDKIT": "1"},
            check=False,
        )
    return built.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
