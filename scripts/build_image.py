# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build an image of operator/Dockerfile with the first container engine that can execute a RUN.

The build gets the settings of the host's pip and Go as build secrets: a private index, its
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
import typing as t
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.registry_settings import pip_configuration, read_pip_settings
from scripts.release.source import version_of

REPOSITORY = Path(__file__).resolve().parent.parent
DOCKERFILE = REPOSITORY / "operator" / "Dockerfile"
TARGETS = {"operator": "wattwise-operator", "execution-environment": "wattwise-ee"}
# In a container or unprivileged, an engine may be unable to start containers. Buildah's chroot
# isolation needs fewer permissions.
ENGINES: tuple[tuple[str, ...], ...] = (
    ("podman", "build"),
    ("docker", "build"),
    ("buildah", "build"),
    ("podman", "build", "--isolation=chroot"),
    ("buildah", "build", "--isolation=chroot"),
)
# Mount points of the secrets in operator/Dockerfile.
AUTHORITY = "/etc/build-ca.pem"
GO_VARIABLES = ("GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB")
# Settings of pip that name files of this machine, which do not exist in the build.
FILE_SETTINGS = ("find-links", "client-cert")


class NoEngine(Exception):
    """Reason why no engine can build here, and its remedy."""


def default_base() -> str:
    """The base image that operator/Dockerfile names."""
    [base] = re.findall(r"^ARG BASE=(\S+)$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    return str(base)


def default_name(target: str) -> str:
    """The target's name on this machine, with the version of the collection."""
    return f"localhost/{TARGETS[target]}:{version_of(REPOSITORY)}"


def working_engine(base: str) -> tuple[str, ...]:
    """The first build command that executes a RUN on the base image.

    Raises NoEngine with the last line of each failed attempt.
    """
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "Dockerfile").write_text(f"FROM {base}\nRUN true\n", encoding="utf-8")
        for command in ENGINES:
            if shutil.which(command[0]) is None:
                continue
            tried = subprocess.run(
                [*command, "--no-cache", folder], capture_output=True, text=True, check=False
            )
            if tried.returncode == 0:
                return command
            said = (tried.stderr or tried.stdout).strip().splitlines()
            problems.append(f"`{' '.join(command)}`: {said[-1] if said else 'no reason given'}")
    names = sorted({command[0] for command in ENGINES})
    found = "; ".join(problems) or f"none of {', '.join(names)} is in PATH"
    raise NoEngine(
        f"Cannot build the image: no container engine executes a RUN on {base}: {found}. Install or"
        " start an engine and repeat `make image`, or build operator/Dockerfile elsewhere, with"
        " this folder as the context."
    )


def secrets(pip_python: str, folder: Path, environment: Mapping[str, str]) -> list[str]:
    """Options that pass this machine's settings to the build; `folder` keeps their files."""
    settings = read_pip_settings(pip_python, environment)
    options = []
    if settings.get("cert"):
        options += ["--secret", f"id=ca.pem,src={settings['cert']}"]
        settings["cert"] = AUTHORITY
    passed = {name: value for name, value in settings.items() if name not in FILE_SETTINGS}
    texts = {"pip.conf": pip_configuration(passed), "go.env": _go_settings(environment)}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
        options += ["--secret", f"id={name},src={folder / name}"]
    return options


def _go_settings(environment: Mapping[str, str]) -> str:
    """The settings of this machine's Go, else of the environment, as the text of a GOENV file."""
    values = {name: environment.get(name, "") for name in GO_VARIABLES}
    if go := shutil.which("go"):
        command = [go, "env", *GO_VARIABLES]
        listed = subprocess.run(command, capture_output=True, text=True, check=False)
        if listed.returncode == 0:
            values = dict(zip(GO_VARIABLES, listed.stdout.split("\n"), strict=False))
    return "".join(f"{name}={value}\n" for name, value in values.items() if value)


def build(
    engine: Sequence[str],
    target: str,
    image: str,
    base: str,
    ansible_operator: Path | None = None,
    pip_python: str = sys.executable,
    output: t.IO[str] | None = None,
    context: Path = REPOSITORY,
    revision: str = "",
) -> int:
    """Build one target from the files of ``context``; the exit status is the engine's.

    ``ansible_operator`` is a folder with the compiled program, ``revision`` the commit.
    """
    options = ["--target", target, "--tag", image]
    values = {"BASE": base, "VERSION": version_of(context), "REVISION": revision}
    for name, value in values.items():
        options += ["--build-arg", f"{name}={value}"]
    if ansible_operator:
        options += ["--build-context", f"ansible-operator={ansible_operator}"]
    with tempfile.TemporaryDirectory() as folder:
        options += secrets(pip_python, Path(folder), os.environ)
        return subprocess.run(
            [*engine, "--file", "operator/Dockerfile", *options, "."],
            cwd=context,
            env={**os.environ, "DOCKER_BUILDKIT": "1"},
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            check=False,
        ).returncode


def main(arguments: Sequence[str], pip_python: str = sys.executable) -> int:
    """Build; the exit status is the engine's, or 1 if there is none."""
    parser = argparse.ArgumentParser(prog="make image", description=__doc__)
    parser.add_argument(
        "--target", choices=TARGETS, default="operator", help="the image; %(default)s"
    )
    parser.add_argument("--image", help="name and tag; localhost/wattwise-operator:VERSION")
    parser.add_argument(
        "--base", default=default_base(), help="base image, such as one by digest; %(default)s"
    )
    parser.add_argument(
        "--ansible-operator", type=Path, help="folder with a compiled ansible-operator"
    )
    chosen = parser.parse_args(arguments)
    try:
        engine = working_engine(chosen.base)
    except NoEngine as problem:
        print(problem, file=sys.stderr)
        return 1
    image = chosen.image or default_name(chosen.target)
    return build(engine, chosen.target, image, chosen.base, chosen.ansible_operator, pip_python)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
