# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The reconcile period: the annotation by which ansible-operator begins a run each interval.

A change of an annotation begins a run too, so a fleet with the default interval gets none.
"""

from __future__ import annotations

from ..base.errors import ApiError, InvalidInput
from ..base.units import parse_duration
from ..kube.client import MERGE_CONTENT_TYPE, Kube
from .resource import RECONCILE_PERIOD, PowerFleet, path_of

# reconcilePeriod of operator/watches.yaml, the default without the annotation.
DEFAULT_SECONDS = 60.0
# Go's durations are 64 bits of nanoseconds.
_MAX_SECONDS = 2**63 / 1e9


def is_kept(fleet: PowerFleet) -> bool:
    """Whether ansible-operator begins runs at the interval of the spec."""
    if fleet.period is None:
        return fleet.interval_seconds == DEFAULT_SECONDS
    return fleet.period == str(fleet.spec["interval"])


def is_readable(fleet: PowerFleet) -> bool:
    """Whether ansible-operator can read the annotation; else it begins no run of the fleet."""
    text = fleet.period
    try:
        return text is None or (text == text.strip() and 0 <= parse_duration(text) < _MAX_SECONDS)
    except InvalidInput:
        return False


def keep(kube: Kube, fleet: PowerFleet, field_manager: str) -> bool:
    """Write the annotation; return whether it was written.

    Nothing is written to a fleet that was deleted or recreated since. Raises ApiError.
    """
    annotations = {RECONCILE_PERIOD: fleet.spec["interval"]}
    body = {"metadata": {"uid": fleet.uid, "annotations": annotations}}
    query = {"fieldManager": field_manager}
    try:
        kube.request("PATCH", path_of(fleet.namespace, fleet.name), body, MERGE_CONTENT_TYPE, query)
    except ApiError as error:
        if error.status not in (404, 409):
            raise
        return False
    return True
