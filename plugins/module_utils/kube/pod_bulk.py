# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Parts of a pod that may be long and that nothing here reads."""

from __future__ import annotations

import typing as t

from ..base.json_types import MutableObject

_OF_CONTAINER = ("args", "command", "env", "envFrom", "lifecycle")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PARTS = ("containers", "initContainers", "ephemeralContainers")


def without_bulk(pod: MutableObject) -> MutableObject:
    """The pod without managed fields, environments, commands and probes, of which it may be made.

    A pod of another shape stays as it is, for its reader to refuse.
    """
    spec, metadata = pod.get("spec"), pod.get("metadata")
    if not isinstance(spec, dict) or not isinstance(metadata, dict):
        return pod
    parts = {name: _slim(spec[name]) for name in _PARTS if name in spec}
    kept = {name: one for name, one in metadata.items() if name != "managedFields"}
    return {**pod, "metadata": kept, "spec": {**spec, **parts}}


def _slim(containers: t.Any) -> t.Any:
    if not isinstance(containers, list):
        return containers
    return [
        {name: value for name, value in one.items() if name not in (*_OF_CONTAINER, *_PROBES)}
        if isinstance(one, dict)
        else one
        for one in containers
    ]
