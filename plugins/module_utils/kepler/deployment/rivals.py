# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Other installations of Kepler in the cluster, which would meter the same nodes again."""

from __future__ import annotations

import re
import typing as t

from ...base.boundary import subject_of
from ...base.fields.lenient import member, objects
from ...base.manifests import MANAGED_BY_LABEL, MANAGER
from . import names
from .system import System

# Images of upstream's operators: the present one, and those up to v0.15.
RIVAL_KINDS = ("PowerMonitor", "Kepler", "KeplerInternal")
_COLLECTOR = re.compile(r"(^|/)kepler(-exporter)?([:@]|$)")
_OPERATOR = re.compile(r"(^|/)kepler-operator([:@/]|$)")
_MAX_NAMED = 3


def rivals(
    system: System,
    daemon_sets: t.Iterable[t.Any],
    deployments: t.Iterable[t.Any],
    resources: t.Iterable[t.Any],
) -> list[str]:
    """Other installations of Kepler, each as kind and name."""
    found = [_told(each, "DaemonSet") for each in daemon_sets if _is_rival(system, each)]
    found += [_told(each, "Deployment") for each in deployments if _has(each, _OPERATOR)]
    found += [_told(each, str(member(each, "kind") or "PowerMonitor")) for each in resources]
    return found


def sentence(found: t.Sequence[str], takes_force: bool) -> str:
    """Why the system is not installed beside these; with ``takes_force`` it names the option."""
    more = len(found) - _MAX_NAMED
    named = ", ".join(found[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
    return (
        f"Kepler runs in this cluster already ({named}), and two meters on a node count its energy "
        "twice; remove that installation, or give both node selectors without a common node"
        f"{', or set force' if takes_force else ''}"
    )


def _told(each: t.Any, kind: str) -> str:
    return str(subject_of(each, kind))


def _is_rival(system: System, daemon_set: t.Any) -> bool:
    if not _has(daemon_set, _COLLECTOR):
        return False
    labels = member(daemon_set, "metadata", "labels") or {}
    is_ours = member(labels, MANAGED_BY_LABEL) == MANAGER
    own = (system.namespace, system.name)
    place = (member(daemon_set, "metadata", "namespace"), member(labels, names.INSTANCE_LABEL))
    if is_ours and place == own:
        return False
    selector = member(daemon_set, "spec", "template", "spec", "nodeSelector")
    theirs = selector if isinstance(selector, dict) else {}
    return not any(
        label in theirs and theirs[label] != value for label, value in system.node_selector.items()
    )


def _has(obj: t.Any, image: re.Pattern[str]) -> bool:
    """Whether a container of its pods has one of these images."""
    containers = objects(member(obj, "spec", "template", "spec", "containers"))
    return any(image.search(str(each.get("image", ""))) for each in containers)
