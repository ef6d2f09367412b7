# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Validation of objects by a CRD without the API server.

Check mode needs it for objects whose CRD an earlier task would install, and the adoption of a
CRD needs it for stored objects. The API server checks CEL rules.
"""

from __future__ import annotations

import functools

from ..base.json_types import MutableObject, Object
from ..base.libraries import fastjsonschema
from .client import Kube

_KEPT = (
    *("type", "required", "enum", "pattern", "minLength", "maxLength", "minItems", "maxItems"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minProperties", "maxProperties", "uniqueItems"),
)
_METADATA: MutableObject = {"type": "object"}


def json_schema(structural: Object, is_root: bool = True) -> MutableObject:
    """A JSON schema (draft 7) equivalent to the structural schema.

    Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/
    custom-resource-definitions/#specifying-a-structural-schema. Fields that the API server would
    drop are refused, so that the user learns of them.
    """
    if structural.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    schema: MutableObject = {key: structural[key] for key in _KEPT if key in structural}
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(schema.get(exclusive), bool):
            schema[exclusive] = schema.pop(limit)
    if "items" in structural:
        schema["items"] = json_schema(structural["items"], is_root=False)
    _add_members(schema, structural, is_root)
    if structural.get("nullable"):
        return {"anyOf": [{"type": "null"}, schema]}
    return schema


def _add_members(schema: MutableObject, structural: Object, is_root: bool) -> None:
    properties = {
        name: json_schema(member, is_root=False)
        for name, member in (structural.get("properties") or {}).items()
    }
    if is_root:
        properties.update(
            {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": _METADATA}
        )
    if properties:
        schema["properties"] = properties
    additional = structural.get("additionalProperties")
    if isinstance(additional, dict):
        schema["additionalProperties"] = json_schema(additional, is_root=False)
    elif properties and not additional:
        schema["additionalProperties"] = bool(
            structural.get("x-kubernetes-preserve-unknown-fields")
        )


class CrdValidator:
    """Checks objects against one version of a CRD."""

    def __init__(self, crd: Object) -> None:
        spec = crd["spec"]
        self.group: str = spec["group"]
        self.kind: str = spec["names"]["kind"]
        self.plural: str = spec["names"]["plural"]
        self.namespaced: bool = spec["scope"] == "Namespaced"
        self._checks = {
            f"{self.group}/{version['name']}": fastjsonschema.compile(
                json_schema(version["schema"]["openAPIV3Schema"])
            )
            for version in spec["versions"]
            if version.get("schema")
        }

    def serves(self, api_version: str, kind: str) -> bool:
        """Whether this validator checks objects of the kind."""
        return kind == self.kind and api_version in self._checks

    def versions(self) -> list[str]:
        """apiVersions of the schemas in the CRD."""
        return list(self._checks)

    def problem(self, manifest: Object) -> str | None:
        """Defect of the object as a part of a sentence, or None."""
        try:
            self._checks[manifest["apiVersion"]](manifest)
        except fastjsonschema.JsonSchemaValueException as error:
            field = str(error.name).replace("data", "", 1).lstrip(".")
            return f"{field or 'the object'} {error.message.replace(error.name, '', 1).strip()}"
        return None


def stored_object_problem(kube: Kube, crd: Object) -> str | None:
    """Message about the first stored object that the new CRD refuses; else None."""
    validator = CrdValidator(crd)
    for api_version in validator.versions():
        collection = f"/apis/{api_version}/{validator.plural}"
        if kube.find(collection, {"limit": 1}) is None:
            continue
        for page in kube.pages(collection, None, functools.partial(_stored_problem, validator)):
            for problem in filter(None, page.items):
                return problem
    return None


def _stored_problem(validator: CrdValidator, stored: MutableObject) -> str:
    """Message about a stored object; empty if it follows the CRD."""
    problem = validator.problem(stored)
    if not problem:
        return ""
    metadata = stored["metadata"]
    place = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
    return (
        f"the stored {validator.kind} {place} does not follow the new schema "
        f"({problem}); change or delete it first"
    )
