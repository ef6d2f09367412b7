# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine's container tools: their installation in CI, and a base image without a registry."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from lab.gotools import cache_folder
from scripts.debian import install_packages

PROGRAMS = ("buildah", "podman", "runc", "mmdebstrap")
# Programs of the real node, by their packages.
NODE_PROGRAMS = {
    "containerd": "containerd",
    "dnsmasq": "dnsmasq-base",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "ip": "iproute2",
}
SUITE = "trixie"
BASE = f"localhost/wattwise-base:{SUITE}"
# Files that debian:trixie-slim lacks too.
LEFT_OUT = ("man", "info", "locale", "doc", "lintian", "groff", "linda")
BUILD = ("buildah", "build", "--isolation=chroot", "--layers")
# A container gets at most the limits of its parent, and may not raise them.
RUN = (
    *("podman", "--runtime", "runc", "run", "--rm", "--network", "host"),
    *("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"),
)


def problem() -> str | None:
    """Reason why containers cannot be built and started here, or None.

    In CI the tools are installed first.
    """
    if lacking := problem_of_programs({name: name for name in PROGRAMS}):
        return lacking
    make_base()
    tried = subprocess.run([*RUN, BASE, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        return f"podman starts no container: {tried.stderr.strip()}"
    return None


def problem_of_programs(packages: Mapping[str, str]) -> str | None:
    """Reason why the programs, each with its package, cannot be used; CI installs them first."""
    remedy = (
        f"become root and install them, on Debian by: apt-get install {' '.join(packages.values())}"
    )
    if os.geteuid() != 0:
        return f"containers need root here; {remedy}"
    install_packages(packages[name] for name in packages if shutil.which(name) is None)
    if missing := [name for name in packages if shutil.which(name) is None]:
        return f"{', '.join(missing)} is missing; {remedy}"
    return None


def make_base() -> None:
    """Import the base image, made from Debian's packages as debian:trixie-slim is."""
    if subprocess.run(["podman", "image", "exists", BASE], check=False).returncode == 0:
        return
    excluded = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in LEFT_OUT]
    options = [*excluded, "--dpkgopt=path-include=/usr/share/doc/*/copyright"]
    digest = hashlib.sha256(" ".join(options).encode()).hexdigest()[:16]
    archive = cache_folder() / f"base-{SUITE}-{digest}.tar"
    if not archive.exists():
        partial = archive.with_suffix(".partial.tar")
        make = ["mmdebstrap", "--quiet", "--variant=minbase", *options, SUITE, str(partial)]
        subprocess.run([*make, mirror()], check=True)
        partial.rename(archive)
    subprocess.run(["podman", "import", "--quiet", str(archive), BASE], check=True)


def mirror() -> str:
    """The URL of Debian's packages in the settings of this machine's apt."""
    folder = Path("/etc/apt")
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files if path.is_file())
    found = re.search(r"^(?:URIs:|deb(?:\s+\[[^]]*\])?)\s+(\S+)", text, re.MULTILINE)
    if found is None:
        raise FileNotFoundError("apt's settings name no source of packages; mmdebstrap needs one")
    return found[1]
