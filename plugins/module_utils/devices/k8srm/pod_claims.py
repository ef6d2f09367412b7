# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""DeviceClaims of pods in a cluster, named in an annotation.

The prototype has ``spec.deviceClaims`` in Pods, which no API server stores. The annotation holds
the same list as YAML or JSON. An inline claim, or one made from another (``claimTemplateName``),
becomes a DeviceClaim ``<pod>-<name>``, which is deleted with the pod.
"""

from __future__ import annotations

import typing as t

from ...base.errors import InvalidInput
from ...base.json_types import MutableObject
from ...base.yaml_text.reader import read_document
from ...scheduling.pod_fields import DEVICE_CLAIMS_ANNOTATION as ANNOTATION
from .reader import VERSION, form_of

# Finds a claim by namespace and name.
Find = t.Callable[[str, str], t.Optional[MutableObject]]


def asks(pod: MutableObject) -> bool:
    """Whether the pod names claims."""
    return ANNOTATION in (pod["metadata"].get("annotations") or {})


def read_items(pod: MutableObject) -> list[MutableObject]:
    """The pod's claims from the annotation. Raises InvalidInput."""
    given = pod["metadata"]["annotations"][ANNOTATION]
    items = read_document(given, f"annotation {ANNOTATION}") if isinstance(given, str) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise InvalidInput(
            f"annotation {ANNOTATION}: write a list such as [{{name: gpu, claimName: my-claim}}]"
        )
    return items


def claim_of(pod: MutableObject, item: MutableObject, number: int, find: Find) -> MutableObject:
    """The claim that an item names, or a claim without uid that is to be made.

    Raises InvalidInput.
    """
    namespace = pod["metadata"]["namespace"]
    field, given = form_of(item)
    if field == "claimName":
        return _found(find, namespace, given, field)
    if field == "claimTemplateName":
        given = _found(find, namespace, given, field)["spec"]
    return _own(pod, str(item.get("name") or number), given, find)


def _found(find: Find, namespace: str, name: t.Any, field: str) -> MutableObject:
    found = find(namespace, str(name))
    if found is None:
        raise InvalidInput(
            f"annotation {ANNOTATION}: {field}: there is no DeviceClaim {name!r} in the pod's "
            "namespace"
        )
    return found


def _own(pod: MutableObject, label: str, spec: MutableObject, find: Find) -> MutableObject:
    """The claim of the pod itself."""
    metadata = pod["metadata"]
    name = f"{metadata['name']}-{label}"
    present = find(metadata["namespace"], name)
    if present is not None:
        owners = present["metadata"].get("ownerReferences") or ()
        if metadata["uid"] not in [owner.get("uid") for owner in owners]:
            raise InvalidInput(
                f"annotation {ANNOTATION}: the claim {name} exists, but is not of this pod; "
                "delete it, or give the pod's claim another name"
            )
        return present
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": VERSION,
        "kind": "DeviceClaim",
        "metadata": {"name": name, "namespace": metadata["namespace"], "ownerReferences": [owner]},
        "spec": spec,
    }
