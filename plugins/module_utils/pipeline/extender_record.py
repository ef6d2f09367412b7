# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The ConfigMap that a run publishes for extenders, written when its document changes."""

from __future__ import annotations

from ..base.boundary import InvalidField
from ..base.errors import InvalidInput
from ..base.json_types import Object
from ..extender import publication
from ..kube.client import Kube
from .config_map_record import MAX_BYTES, Record

NAME = "wattwise-extender"


def record_of(namespace: str, suffix: str = "", owner: Object | None = None) -> Record:
    """The ConfigMap of a series of runs; ``suffix`` distinguishes it from others."""
    return Record(namespace, f"{NAME}{suffix}", owner, {publication.LABEL: "publication"})


def publish(kube: Kube, record: Record, body: Object) -> bool:
    """Whether the document was written. Raises ApiError, and InvalidInput if it is too large."""
    found = kube.find(record.path)
    published = _published(found)
    body = publication.steady(body, published)
    if not publication.is_due(body, published):
        return False
    data = publication.packed(body)
    if sum(map(len, data.values())) > MAX_BYTES:
        raise InvalidInput(
            f"The curves and limits of {len(body['curves'])} nodes do not fit into ConfigMap "
            f"{record.name}, "
            "so the extender does not get them; divide the nodes among several PowerFleets"
        )
    record.write(kube, data, found is not None)
    return True


def _published(found: Object | None) -> Object | None:
    """The published document; None if extenders cannot read it."""
    try:
        return None if found is None else publication.unpacked(found)
    except InvalidField:
        return None
