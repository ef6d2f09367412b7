# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Which run a snapshot belongs to, while that run still makes documents from it.

The steps of a run are processes of their own, so no lock lasts from the first to the last of them.
The process of Ansible does. It is known by its number, the moment at which it started, and the boot
and namespace in which the number counts; so a number that was given anew is no danger.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import socket
import typing as t
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base import whole_files
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import format_time


def process_identity(pid: int) -> str:
    """Host, boot, namespace, number and start of a process of this host; "" if there is none."""
    if not pid:
        return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass  # it is another user's
    boot, namespace, started = "", "", ""
    with contextlib.suppress(OSError, IndexError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
        # The name of the program, in parentheses, may hold anything.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        started = fields.rpartition(")")[2].split()[19]
    return f"{socket.gethostname()} {boot} {namespace} {pid} {started}"


def claim(path: str, process: str, now: datetime.datetime) -> None:
    """Note that this process' run makes the document and those that are made from it.

    Raises InvalidInput where another run, whose process still lives on this host, has done so.
    """
    destination = Path(path).absolute()
    marker = destination.with_name(f".{destination.name}.run")
    try:
        with whole_files.locked(destination.parent):
            owner = _read(marker)
            if owner.get("process") not in (None, process) and _is_alive(owner["process"]):
                raise InvalidInput(_refusal(owner, destination))
            content = {"process": process, "since": format_time(now)}
            whole_files.replace(marker, json.dumps(content).encode())
    except OSError as error:
        raise InvalidInput(
            f"Cannot write {marker}: {error.strerror}; make the folder {marker.parent}"
        ) from error


def _read(marker: Path) -> dict[str, str]:
    try:
        owner = json.loads(marker.read_text(encoding="utf-8"))
        return {"process": str(owner["process"]), "since": str(owner["since"])}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _is_alive(process: str) -> bool:
    try:
        pid = int(process.split(" ")[3])
    except (IndexError, ValueError):
        return False
    return process_identity(pid) == process


def _refusal(owner: t.Mapping[str, str], destination: Path) -> str:
    host, _boot, _namespace, pid, _started = owner["process"].split(" ")
    return (
        f"Another run (process {pid} on {host}, since {owner['since']}) makes documents from "
        f"{destination}, and two runs must not mix theirs; run again when it has ended, or set "
        "another wattwise_run_dir"
    )
