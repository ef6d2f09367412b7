# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""CPU sets of containers from the kubelet: its CPU manager's checkpoint, and its PodResources
socket.

Sources: k8s.io/kubernetes pkg/kubelet/cm/cpumanager/state/checkpoint.go, and
k8s.io/kubelet pkg/apis/podresources/v1/api.proto (fields: ListPodResourcesResponse.pod_resources 1,
PodResources.name 1, .namespace 2, .containers 3, ContainerResources.name 1, .cpu_ids 3).
"""

from __future__ import annotations

import typing as t
from pathlib import Path

from ...base import strict_json
from ...base.errors import TargetFailure
from ...base.fields.lenient import member, text
from ...base.json_types import Object
from ...base.libraries import grpc
from ...base.units import parse_cpu_list
from .cgroup import read_bounded
from .exclusive import ExclusiveContainer

_LIST_METHOD = "/v1.PodResourcesLister/List"
_VARINT, _BYTES = 0, 2
_MAX_VARINT = 10  # bytes of 64 bits
_MAX_CPU = 65_535
# A node has at most a few hundred containers, of about 100 bytes each.
_LIMITS = strict_json.JsonLimits(size=4 * 1024 * 1024, members=100_000)
Message = dict[int, list[t.Any]]


class CpuManagerState:
    """The checkpoint ``cpu_manager_state``: CPU sets by pod UID and container name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._state: Object | None = None

    def cpus(self, container: ExclusiveContainer) -> tuple[int, ...]:
        """CPUs of the container. Raises TargetFailure."""
        state = self._read()
        entry = member(state, "entries", container.pod_uid, container.name)
        if entry is None:
            raise TargetFailure(
                "not_found",
                f"{self._path} has no CPUs for it; kubelet's CPU manager policy is"
                f" {text(state.get('policyName')) or 'unknown'}, and only static gives any",
            )
        return parse_cpu_list(entry, str(self._path))

    def _read(self) -> Object:
        if self._state is None:
            try:
                state = strict_json.parse(read_bounded(self._path, _LIMITS.size), _LIMITS)
            except OSError as error:
                raise TargetFailure(
                    "not_found", f"{self._path} cannot be read: {error.strerror}"
                ) from error
            except ValueError as error:
                raise TargetFailure("malformed", f"{self._path} is not JSON: {error}") from error
            if not isinstance(state, dict):
                raise TargetFailure("malformed", f"{self._path} does not hold an object")
            self._state = state
        return self._state


class PodResources:
    """The kubelet's PodResources API on a Unix socket, read once; it has names, not UIDs."""

    def __init__(self, socket: Path, timeout: float) -> None:
        self._socket = socket
        self._timeout = timeout
        self._cpus: dict[tuple[str, str, str], tuple[int, ...]] | None = None

    def cpus(self, container: ExclusiveContainer) -> tuple[int, ...]:
        """CPUs of the container. Raises TargetFailure, and MissingLibrary without grpcio."""
        if self._cpus is None:
            self._cpus = dict(_container_cpus(self._list()))
        cpus = self._cpus.get((container.namespace, container.pod, container.name), ())
        if not cpus:
            raise TargetFailure("not_found", f"{self._socket} names no CPUs of its own for it")
        return cpus

    def _list(self) -> bytes:
        if not self._socket.exists():
            raise TargetFailure("not_found", f"there is no socket {self._socket}")
        with grpc.insecure_channel(f"unix:{self._socket}") as channel:
            call: t.Callable[..., bytes] = channel.unary_unary(_LIST_METHOD)
            try:
                return call(b"", timeout=self._timeout)
            except grpc.RpcError as error:
                raise TargetFailure(
                    "server_error", f"{self._socket}: {error.code().name}: {error.details()}"
                ) from error


def _container_cpus(answer: bytes) -> t.Iterator[tuple[tuple[str, str, str], tuple[int, ...]]]:
    for pod in map(_decode, _decode(answer).get(1, ())):
        name, namespace = _text(pod, 1), _text(pod, 2)
        for container in map(_decode, pod.get(3, ())):
            cpus = tuple(sorted(set(_integers(container.get(3, ())))))
            if cpus and cpus[-1] > _MAX_CPU:
                raise TargetFailure("malformed", f"the answer names CPU {cpus[-1]}")
            yield (namespace, name, _text(container, 1)), cpus


def _text(message: Message, number: int) -> str:
    value = message[number][-1] if number in message else b""
    return str(value, "utf-8", "replace") if isinstance(value, bytes) else ""


def _integers(values: t.Iterable[t.Any]) -> t.Iterator[int]:
    """Repeated integers, single or packed into bytes."""
    for value in values:
        if isinstance(value, int):
            yield value
            continue
        position = 0
        while position < len(value):
            number, position = _varint(value, position)
            yield number


def _decode(data: bytes) -> Message:
    """Fields of a protocol-buffers message by number; other wire types do not occur in it.

    Source: https://protobuf.dev/programming-guides/encoding/
    """
    fields: Message = {}
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        number, wire_type = key >> 3, key & 7
        value, position = _varint(data, position)
        if wire_type == _BYTES:
            start, position = position, position + value
            fields.setdefault(number, []).append(data[start:position])
        elif wire_type == _VARINT:
            fields.setdefault(number, []).append(value)
        if wire_type not in (_BYTES, _VARINT) or position > len(data):
            raise TargetFailure("malformed", f"the answer has an unreadable field {number}")
    return fields


def _varint(data: bytes, position: int) -> tuple[int, int]:
    for length in range(1, _MAX_VARINT + 1):
        part = data[position : position + length]
        if len(part) == length and part[-1] < 0x80:
            return sum((byte & 0x7F) << 7 * n for n, byte in enumerate(part)), position + length
    raise TargetFailure("malformed", "the answer has a number that ends early or exceeds 64 bits")
