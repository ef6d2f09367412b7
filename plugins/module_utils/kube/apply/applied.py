# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Detection of applications without effect, from the object that was read.

An application costs the API server about ten times as much as a read. It has no effect if this
manager applied exactly the fields of the manifest, by ``managedFields``, and the object has the
values of the manifest. In any doubt the answer is no, and the API server decides.

Source of the format: https://github.com/kubernetes-sigs/structured-merge-diff,
fieldpath/serialize.go: ``f:name`` is a member, ``k:{…}`` an element by its keys, ``v:value`` an
element of a set, ``.`` the object itself, and an empty object a completely owned field.
"""

from __future__ import annotations

import json
import typing as t

from ...base.json_types import Object

# Fields of identity and version, which no manager owns.
_UNOWNED = {"": ("apiVersion", "kind", "metadata"), "metadata": ("name", "namespace", "uid")}


def is_applied(manifest: Object, live: Object, field_manager: str, subresource: str = "") -> bool:
    """Whether an application of ``manifest`` by this manager would not change ``live``."""
    fields = _applied_fields(live, manifest["apiVersion"], field_manager, subresource)
    if fields is None:
        return False
    given = {key: value for key, value in manifest.items() if key not in _UNOWNED[""]}
    metadata = {
        key: value
        for key, value in manifest["metadata"].items()
        if key not in _UNOWNED["metadata"] and value is not None
    }
    if metadata:
        given["metadata"] = metadata
    return _holds_members(fields, given, live)


def _applied_fields(
    live: Object, api_version: str, field_manager: str, subresource: str
) -> Object | None:
    """Fields that the manager applied; None unless there is exactly one record."""
    records = [
        entry
        for entry in live["metadata"].get("managedFields") or []
        if entry.get("manager") == field_manager
        and entry.get("operation") == "Apply"
        and entry.get("subresource", "") == subresource
    ]
    if len(records) != 1 or records[0].get("apiVersion") != api_version:
        return None
    fields = records[0].get("fieldsV1")
    return fields if isinstance(fields, dict) else None


def _holds(fields: t.Any, wanted: t.Any, live: t.Any) -> bool:
    """Whether the fields are those of the wanted value, and the live value contains it."""
    if not isinstance(fields, dict):
        return False
    members = {key: value for key, value in fields.items() if key != "."}
    if not members:
        # Compared as texts, because true equals 1 in Python.
        return json.dumps(wanted, sort_keys=True) == json.dumps(live, sort_keys=True)
    if isinstance(wanted, dict) and isinstance(live, dict):
        return _holds_members(members, wanted, live)
    if isinstance(wanted, list) and isinstance(live, list):
        return _holds_elements(members, wanted, live)
    return False


def _holds_members(members: Object, wanted: Object, live: Object) -> bool:
    if {f"f:{key}" for key in wanted} != members.keys():
        return False
    return all(
        key in live and _holds(members[f"f:{key}"], value, live[key])
        for key, value in wanted.items()
    )


def _holds_elements(members: Object, wanted: t.Sequence[t.Any], live: t.Sequence[t.Any]) -> bool:
    """Whether all wanted elements are owned and present in order; others may be between them."""
    if len(members) != len(wanted):
        return False
    places: list[int] = []
    left = dict(members)
    for element in wanted:
        found = next((name for name in left if _is_named(element, name)), None)
        if found is None:
            return False
        place = next((at for at, item in enumerate(live) if _is_named(item, found)), None)
        if place is None or not _holds(left.pop(found), element, live[place]):
            return False
        places.append(place)
    return places == sorted(places)


def _is_named(element: t.Any, name: str) -> bool:
    """Whether ``k:{…}`` or ``v:…`` identifies the element."""
    kind, _colon, text = name.partition(":")
    if kind == "v":
        return bool(json.loads(text) == element)
    if kind != "k" or not isinstance(element, dict):
        return False
    keys = json.loads(text)
    return all(key in element and element[key] == value for key, value in keys.items())
