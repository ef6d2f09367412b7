# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The probe of a node: all facts below one root, and the verdict on them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ...base.argspec import ArgumentSpec
from ...base.context import Context, Parameters, Result
from ...base.errors import InvalidInput
from ...base.fields.lenient import text
from ..facts import MAX_TEXT_LENGTH, NodeFacts
from ..verdict import KeplerVersion, judge
from . import kernel
from .host_files import HostFiles
from .meters import hwmon_sensors, rapl_zones
from .processor import processor
from .virtualization import virtualization

DEFAULT_VERSION = "0.11.4"
SPEC = ArgumentSpec(
    {
        "root": {"type": "path", "default": "/"},
        "kepler_version": {"type": "str", "default": DEFAULT_VERSION},
    }
)
# Evidence that every verdict needs; all other files are missing on many good nodes.
_GROUNDS = ("proc/cpuinfo", "sys/class/powercap", "sys/class/hwmon", "sys/fs/cgroup")


def read_node(parameters: Parameters, context: Context = Context()) -> Result:
    """Verdict and facts of the node below ``root``. Raises InvalidInput."""
    options = SPEC.complete(parameters)
    version = KeplerVersion.parse(options["kepler_version"])
    root = Path(options["root"])
    if not root.is_dir():
        raise InvalidInput(f"root: there is no folder {root}")
    facts = read_facts(root)
    return {"changed": False, **judge(facts, version).as_dict(), **facts.as_dict()}


def read_facts(root: Path) -> NodeFacts:
    """The facts of the node with its file system at ``root``. No content raises an error."""
    files, system = HostFiles(root), os.uname()
    try:
        cpuinfo = files.text("proc/cpuinfo")
    except OSError:
        cpuinfo = ""
    cpu = processor(cpuinfo, system.machine)
    release = kernel.kernel_release(files, system.release)
    return NodeFacts(
        source="host",
        architecture=cpu.architecture,
        kernel=release,
        cpu_model=cpu.model,
        microarchitecture=cpu.microarchitecture,
        virtualization=virtualization(files, cpu),
        cgroup_version=kernel.cgroup_version(files),
        cgroup_driver=kernel.cgroup_driver(files),
        rapl_zones=rapl_zones(files),
        hwmon_sensors=hwmon_sensors(files),
        kernel_headers=kernel.has_headers(files, release),
        btf=kernel.has_btf(files),
        gpus=kernel.gpus(files),
        problems=_problems(files),
    )


def _problems(files: HostFiles) -> tuple[str, ...]:
    """Unreadable evidence. A kernel without meters has no tree of them."""
    found: list[str] = []
    for path in _GROUNDS:
        try:
            if path.startswith("sys"):
                files.entries(path)
            else:
                files.text(path, 1)
        except OSError as error:
            if error.errno == errno.ENOENT and files.is_folder(str(Path(path).parent)):
                continue
            reason = (error.strerror or type(error).__name__).lower()
            found.append(text(f"/{path} cannot be read: {reason}", MAX_TEXT_LENGTH))
    return tuple(found)
