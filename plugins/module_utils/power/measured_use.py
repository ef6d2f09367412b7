# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""CPU use of waiting pods, taken from the running pods of their workload, else assumed.

The use is a share of the request. Shares are rounded, because pods with different use are different
groups in the solver, and it solves few groups better than many.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass, field
from decimal import Decimal

from ..base.boundary import Finding, guarded, subject_of
from ..base.fields.strict import mapping, with_readable_metadata
from ..base.json_types import Object
from ..scheduling.pod_reader import effective_requests
from ..scheduling.workload import Workload, workload_of

_STEPS = 20
# A pod without a limit may use more than it requests.
_MAX_STEPS = 2 * _STEPS


@dataclass(frozen=True)
class PodUse:
    """Shares of requests that pods use; ``measured`` by workload goes before ``assumption``."""

    assumption: Decimal
    measured: t.Mapping[Workload, Decimal] = field(default_factory=dict)

    def of(self, pod: Object) -> Decimal:
        """The share of a waiting pod with readable metadata."""
        if not self.measured:
            return self.assumption
        return self.measured.get(workload_of(pod), self.assumption)


def measured_shares(
    running: t.Iterable[Object], cores_of: t.Mapping[str, float]
) -> dict[Workload, Decimal]:
    """The share by workload of running pods with known cores in use by UID."""
    if not cores_of:
        return {}
    sums: dict[Workload, tuple[float, float]] = {}
    for pod in running:
        read = guarded(subject_of(pod, "Pod"), functools.partial(_requested, pod))
        cores = None if isinstance(read, Finding) else cores_of.get(read[0])
        if isinstance(read, Finding) or cores is None or read[2] <= 0:
            continue
        _uid, workload, requested = read
        before = sums.get(workload, (0.0, 0.0))
        sums[workload] = before[0] + cores, before[1] + requested
    return {
        workload: Decimal(min(_MAX_STEPS, round(_STEPS * used / requested))) / _STEPS
        for workload, (used, requested) in sums.items()
    }


def _requested(pod: Object) -> tuple[str, Workload, float]:
    """UID, workload and requested cores. Raises InvalidField."""
    with_readable_metadata(pod)
    requests = effective_requests(mapping(pod.get("spec"), "spec"))
    return pod["metadata"].get("uid") or "", workload_of(pod), requests.get("cpu", 0) / 1000
