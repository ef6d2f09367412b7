# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Ownership of a snapshot by a run that still makes documents from it.

The steps of a run are separate processes, so no lock lasts from the first to the last step. The
Ansible process does. Its identity is its number, start time, boot and PID namespace, so that a
reused number is not confused with it.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import socket
import typing as t
from pathlib import Path

from ..base import whole_files
from ..base.errors import InvalidInput
from ..base.units import format_time


def process_identity(pid: int) -> str:
    """Host, boot, namespace, number and start of a process of this host; empty if there is none."""
    if not pid:
        return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass  # a process of another user
    boot, namespace, started = "", "", ""
    with contextlib.suppress(OSError, IndexError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
        # The program name, in parentheses, may contain any character.
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        started = fields.rpartition(")")[2].split()[19]
    return f"{socket.gethostname()} {boot} {namespace} {pid} {started}"


def claim(path: str, process: str, now: datetime.datetime) -> None:
    """Record that the run of this process owns the document and those made from it.

    Raises InvalidInput if another run owns it and its process still lives on this host.
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
        f"Another run (process {pid} on {host}, since {owner['since']}) uses {destination}; "
        "documents of two runs must not be mixed; run again when it has ended, or set another "
        "wattwise_run_dir"
    )
