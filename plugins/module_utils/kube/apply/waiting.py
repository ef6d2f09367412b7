# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Waits until applied objects are ready, and until the kinds of CRDs are served."""

from __future__ import annotations

import time
import typing as t

from ...base.errors import WattwiseError
from ...base.json_types import MutableObject
from ...base.manifests import Manifest
from ..client import Kube
from ..readiness import is_ready
from .patches import READY_POLL_SECONDS


def wait_until_ready(kube: Kube, paths: t.Sequence[str], timeout: float) -> None:
    """Wait until every object is ready. Raises WattwiseError, which names unready ones."""
    deadline = time.monotonic() + timeout
    waiting = list(paths)
    while True:
        objects: list[MutableObject | None] = kube.in_parallel(kube.find, waiting)
        waiting = [path for path, obj in zip(waiting, objects) if obj is None or not is_ready(obj)]
        if not waiting:
            return
        if time.monotonic() > deadline:
            raise WattwiseError(
                f"Not ready after {timeout:g} s: {', '.join(waiting[:5])}; check their "
                "status and events, or raise wait_timeout"
            )
        time.sleep(READY_POLL_SECONDS)


def wait_until_served(kube: Kube, definitions: t.Sequence[Manifest], timeout: float) -> None:
    """Wait until discovery lists the kinds, which happens some time after `Established`.

    Kinds that are not served in time are no error here; their objects fail later.
    """
    kinds = [
        (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
        for spec in (definition["spec"] for definition in definitions)
        for version in spec["versions"]
        if version.get("served")
    ]
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        kube.forget_resources()
        if all(kube.serves(*kind) for kind in kinds):
            return
        time.sleep(READY_POLL_SECONDS)
