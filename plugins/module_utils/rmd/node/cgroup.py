# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""CPU sets of containers from the control groups of a node.

Control groups of pods have these paths below the folder of the hierarchy (v2: ``/sys/fs/cgroup``,
v1: ``/sys/fs/cgroup/cpuset``):

- driver cgroupfs: ``kubepods/pod<uid>/<id>``
- driver systemd: ``kubepods.slice/kubepods-pod<uid>.slice/<runtime>-<id>.scope``, where the dashes
  of the UID are underscores
- pods of other classes are one level deeper, below ``burstable`` or ``besteffort``; kind and others
  put all groups below a group of the kubelet

A process in a container may make control groups, so neither names nor contents below those of pods
can be trusted; a named pipe would block a reader forever.

Sources: k8s.io/kubernetes pkg/kubelet/cm/cgroup_manager_linux.go, and the scope prefixes of
containerd (``cri-containerd-``), CRI-O (``crio-``) and docker (``docker-``).
"""

from __future__ import annotations

import os
import re
import stat
import typing as t
from pathlib import Path

from ...base.boundary import shown
from ...base.errors import TargetFailure
from ...base.units import parse_cpu_list
from .exclusive import ExclusiveContainer


def read_bounded(path: Path, most: int) -> bytes:
    """The content of a plain file. Raises OSError, and TargetFailure for another kind or size."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise TargetFailure("malformed", f"{path} is not a plain file")
        content = file.read(most + 1)
    if len(content) > most:
        raise TargetFailure("malformed", f"{path} holds more than {most} bytes")
    return content


_HIERARCHIES = ("sys/fs/cgroup", "sys/fs/cgroup/cpuset", "sys/fs/cgroup/unified")
_POD_FOLDER = re.compile(r"(?:^|-)pod(?P<uid>[0-9A-Za-z_-]+?)(?:\.slice)?$")
# CRI-O's monitor has a group with the container's id too.
_MONITOR = "conmon"
# crun below CRI-O puts the container's processes into a group of this name.
_INNER_GROUP = "container"
# Newest first: v2 leaves cpuset.cpus empty if the CPUs are those of the parent group.
_FILES = ("cpuset.cpus", "cpuset.cpus.effective", "cpuset.effective_cpus")
_MAX_FILE_LENGTH = 64 * 1024
# Runtimes use ids of 64 digits; a short one would match names of other groups.
_CONTAINER_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{11,127}")


class ControlGroups:
    """The control groups of the pods below ``root``, which are searched once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._pods: dict[str, list[Path]] | None = None

    def cpus(self, container: ExclusiveContainer) -> tuple[int, ...]:
        """CPUs of the container. Raises TargetFailure, and InvalidField for an invalid list."""
        if _CONTAINER_ID.fullmatch(container.id) is None:
            raise TargetFailure("malformed", f"{shown(container.id)} is not a container's id")
        folders = self._pod_folders().get(_plain(container.pod_uid), [])
        if not folders:
            raise TargetFailure(
                "not_found",
                f"no control group of pod {container.pod_uid} below {self._root}; is the pod on"
                " this node, and is root the node's file system?",
            )
        for folder in _container_folders(folders, container.id):
            cpus = _cpus_of(folder)
            if cpus:
                return cpus
        raise TargetFailure(
            "not_found",
            f"no control group with CPUs of container {container.id} in {folders[0]}; it may have"
            " ended, run again",
        )

    def _pod_folders(self) -> dict[str, list[Path]]:
        if self._pods is None:
            self._pods = {}
            for folder in _kubepods(self._root):
                for candidate in _pod_candidates(folder):
                    match = _POD_FOLDER.search(candidate.name)
                    if match is not None:
                        self._pods.setdefault(_plain(match["uid"]), []).append(candidate)
        return self._pods


def _plain(uid: str) -> str:
    return uid.replace("_", "-")


def _kubepods(root: Path) -> t.Iterator[Path]:
    """The parent groups of all pods, in each hierarchy, also below a group of the kubelet."""
    for hierarchy in _HIERARCHIES:
        for folder in _folders(root / hierarchy):
            if "kubepods" in folder.name:
                yield folder
            elif "kubelet" in folder.name:
                yield from (inner for inner in _folders(folder) if "kubepods" in inner.name)


def _pod_candidates(kubepods: Path) -> t.Iterator[Path]:
    for folder in _folders(kubepods):
        yield folder
        if "burstable" in folder.name or "besteffort" in folder.name:
            yield from _folders(folder)


def _container_folders(pods: t.Iterable[Path], container_id: str) -> t.Iterator[Path]:
    """Groups of only that container: the id, after the runtime's prefix and before a suffix."""
    names = re.compile(rf"(?:[a-z-]+-)?{re.escape(container_id)}(?:\.scope|\.slice)?")
    for pod in pods:
        for folder in _folders(pod):
            if names.fullmatch(folder.name) and _MONITOR not in folder.name:
                yield folder


def _cpus_of(folder: Path) -> tuple[int, ...]:
    """CPUs of a container, from the runtime's inner group, if there is one.

    The container's own processes may be able to make such a group with any CPUs, so it counts only
    within the CPUs of the outer group.
    """
    around = parse_cpu_list(_cpu_list(folder), str(folder))
    inner = parse_cpu_list(_cpu_list(folder / _INNER_GROUP), str(folder / _INNER_GROUP))
    if around and not set(inner) <= set(around):
        raise TargetFailure(
            "implausible", f"{folder / _INNER_GROUP} has CPUs that {folder} does not have"
        )
    return inner or around


def _folders(parent: Path) -> list[Path]:
    try:
        with os.scandir(parent) as entries:
            return sorted(Path(each) for each in entries if each.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _cpu_list(folder: Path) -> str:
    for name in _FILES:
        try:
            text = str(read_bounded(folder / name, _MAX_FILE_LENGTH), "ascii", "replace").strip()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise TargetFailure(
                "forbidden", f"{folder / name} cannot be read: {error.strerror}; become root"
            ) from error
        if text:
            return text
    return ""
