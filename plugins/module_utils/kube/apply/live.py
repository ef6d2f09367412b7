# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Objects of the cluster as just read, so that an application reads none of them twice."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ...base.json_types import MutableObject
from ...base.manifests import Identity, identity
from ..client import Resource


@dataclass
class LiveObjects:
    """Live objects by identity, including all of ``collections``, which are given by paths."""

    objects: dict[Identity, MutableObject] = field(default_factory=dict)
    collections: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, objects: t.Iterable[MutableObject]) -> LiveObjects:
        """These objects, without complete collections."""
        return cls({identity(obj): obj for obj in objects})

    def add(self, obj: MutableObject) -> None:
        self.objects[identity(obj)] = obj

    def add_collection(self, path: str, objects: t.Iterable[MutableObject]) -> None:
        """Add all objects of the collection at ``path``."""
        for obj in objects:
            self.add(obj)
        self.collections.add(path)

    def holds_all(self, resource: Resource, namespace: str | None) -> bool:
        """Whether each object of a kind, in one namespace or in all, is known."""
        paths = {resource.collection(), resource.collection(namespace)}
        return not paths.isdisjoint(self.collections)

    def labelled(
        self, api_version: str, kind: str, namespace: str | None, label: str, value: str
    ) -> list[MutableObject]:
        """The known objects of a kind with a label."""
        return [
            obj
            for this, obj in self.objects.items()
            if (this.api_version, this.kind) == (api_version, kind)
            and namespace in (None, this.namespace)
            and (obj["metadata"].get("labels") or {}).get(label) == value
        ]
