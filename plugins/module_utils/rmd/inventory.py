# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Content of each daemon for the document ``rmd``: its caches with their ways, its workloads."""

from __future__ import annotations

import typing as t

from ..base.json_types import Object
from ..base.units import format_cpu_list
from .daemon.cache import Cache
from .daemon.workload import Stored
from .layout import layout, pool_of
from .manifests import key_of


def inventory(
    caches: t.Sequence[Cache], stored: t.Sequence[Stored], workloads: t.Mapping[str, Object]
) -> dict[str, t.Any]:
    """``caches`` and ``workloads`` of one daemon; ``workloads`` are the RmdWorkloads by uuid."""
    shares = layout(caches, stored)
    return {
        "caches": [
            {
                "id": cache.id,
                "ways": cache.ways,
                "cpus": format_cpu_list(cache.cpus),
                "shares": [share.as_dict() for share in shares[cache.id]],
            }
            for cache in caches
        ],
        "workloads": [_workload(item, workloads.get(item.uuid)) for item in stored],
    }


def _workload(stored: Stored, workload: Object | None) -> dict[str, t.Any]:
    body: dict[str, t.Any] = {
        "id": stored.id,
        "uuid": stored.uuid,
        "cpus": format_cpu_list(stored.cpus or ()) or ",".join(stored.core_ids),
        "pool": pool_of(stored),
    }
    if stored.settings.cache is not None:
        body["most"], body["least"] = stored.settings.cache
    if workload is not None:
        body["workload"] = key_of(workload)
        body |= _pod(workload)
    return body


def _pod(workload: Object) -> dict[str, str]:
    """The pod that owns the RmdWorkload, if any."""
    metadata = workload["metadata"]
    owners = metadata.get("ownerReferences") or []
    names = [owner["name"] for owner in owners if owner.get("kind") == "Pod"]
    return {"pod": f"{metadata.get('namespace') or 'default'}/{names[0]}"} if names else {}
