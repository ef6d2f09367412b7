# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The finalizer that keeps a deleted resource until a run has finished its work."""

from __future__ import annotations

from ...base.errors import ApiError
from ...base.fields.lenient import member
from ...base.json_types import Object
from ..client import MERGE_CONTENT_TYPE, Kube

# Writers of the same object that get ahead of this one.
_ATTEMPTS = 5


def is_ending(resource: Object | None) -> bool:
    """Whether it is deleted, and only a finalizer keeps it."""
    return bool(member(resource, "metadata", "deletionTimestamp"))


def has(resource: Object | None, name: str) -> bool:
    """Whether a resource has the finalizer."""
    return name in _finalizers(resource)


def keep(kube: Kube, path: str, name: str, is_needed: bool, field_manager: str) -> bool:
    """Add or remove the finalizer of the resource at the path; return whether that was a write.

    The API server takes no new finalizer of a resource in deletion. Raises ApiError.
    """
    for attempt in range(_ATTEMPTS):
        found = kube.find(path)
        if found is None or has(found, name) == is_needed or (is_needed and is_ending(found)):
            return False
        others = [one for one in _finalizers(found) if one != name]
        names = [*others, name] if is_needed else others
        # A merge replaces the whole list, which others may change meanwhile.
        version = {key: found["metadata"][key] for key in ("uid", "resourceVersion")}
        body = {"metadata": {**version, "finalizers": names}}
        try:
            kube.request("PATCH", path, body, MERGE_CONTENT_TYPE, {"fieldManager": field_manager})
            return True
        except ApiError as error:
            if error.status not in (404, 409) or attempt == _ATTEMPTS - 1:
                raise
    return False


def _finalizers(resource: Object | None) -> list[str]:
    found = member(resource, "metadata", "finalizers")
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []
