# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The part of a cluster that one run may use, if several runs share the cluster."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass


@dataclass(frozen=True)
class Scope:
    """Names of the nodes that take pods, and namespaces and names of the pods to place.

    All other nodes and pods stay unchanged, and rules between pods still count them.
    """

    nodes: frozenset[str]
    pods: frozenset[tuple[str, str]]

    def has_pod(self, pod: t.Any) -> bool:
        """Whether an unchecked pod is one of them."""
        metadata = pod.get("metadata") if isinstance(pod, dict) else None
        if not isinstance(metadata, dict):
            return False
        namespace, name = metadata.get("namespace"), metadata.get("name")
        return (
            isinstance(namespace, str) and isinstance(name, str) and (namespace, name) in self.pods
        )
