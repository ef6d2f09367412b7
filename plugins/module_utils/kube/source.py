# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Lists of one kind of object: where they are read, and which fields are kept of each object."""

from __future__ import annotations

import functools
import typing as t

from ..base.boundary import Finding, guarded, subject_of
from ..base.errors import ApiError
from ..base.fields.strict import required_text
from ..base.json_types import MutableObject, Object
from .client import Kube, Query

Trim = t.Callable[[MutableObject], MutableObject]

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Source(t.NamedTuple):
    """Source of one part of the snapshot; the cluster may not serve ``optional`` parts.

    With ``metadata_only`` the server sends only metadata.
    """

    paths: tuple[str, ...]
    trim: Trim
    query: Query
    optional: bool
    metadata_only: bool = False
    keeps: t.Callable[[MutableObject], bool] = bool


class Parts(t.NamedTuple):
    """Parts of the cluster that were just read, and findings about objects that are left out."""

    objects: dict[str, list[MutableObject]]
    findings: t.Sequence[Finding] = ()


NOTHING = Parts({})


def read_source(
    kube: Kube, source: Source, selector: str | None
) -> tuple[list[MutableObject], list[Finding]]:
    """Objects of one part, and findings about objects that are left out."""
    query = {**source.query, **({"labelSelector": selector} if selector else {})}
    items: list[MutableObject] = []
    findings: list[Finding] = []

    def trim(obj: MutableObject) -> MutableObject:
        """The trimmed object; empty if it is left out."""
        result = guarded(
            lambda: subject_of(obj, str(obj.get("kind") or "object")),
            functools.partial(trimmed, source, obj),
        )
        if isinstance(result, Finding):
            findings.append(result)
            return {}
        return result

    kube = kube.metadata_only() if source.metadata_only else kube
    for path in source.paths:
        findings_before = len(findings)
        try:
            items += filter(None, kube.list(path, query, trim, findings.append))
        except ApiError as error:
            # An installed but unavailable metrics server answers 503.
            if not (source.optional and error.status in (404, 503)):
                raise
            del findings[findings_before:]
    return items, list(dict.fromkeys(findings))


def trimmed(source: Source, obj: MutableObject) -> MutableObject:
    """An object with the fields in use; empty if there are none.

    Raises InvalidField for an object without a name.
    """
    result = source.trim(obj)
    required_text(obj["metadata"].get("name"), "metadata.name")
    return result if source.keeps(result) else {}


def selected_fields(source: Object, *names: str) -> MutableObject:
    return {name: source[name] for name in names if source.get(name) is not None}


def identified(obj: MutableObject, **parts: t.Any) -> MutableObject:
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "metadata": _metadata(obj),
        **parts,
    }


def _metadata(obj: MutableObject) -> MutableObject:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and _LAST_APPLIED in annotations:
        metadata["annotations"] = {
            key: value for key, value in annotations.items() if key != _LAST_APPLIED
        }
    return metadata


def trim_custom(obj: MutableObject) -> MutableObject:
    """A custom resource with its status."""
    return identified(obj, **selected_fields(obj, "spec", "status"))
