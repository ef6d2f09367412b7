# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Manifests from lists, YAML texts and files, validated and in the order of application."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base import strict_json
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.libraries import yaml
from ansible_collections.wattwise.kube.plugins.module_utils.base.texts import shown

Manifest = dict[str, t.Any]

_PHASES: tuple[frozenset[str], ...] = (
    frozenset({"Namespace"}),
    frozenset({"CustomResourceDefinition"}),
    frozenset({"ServiceAccount", "Role", "ClusterRole"}),
    # A binding of a missing role is refused for accounts without the right to bind.
    frozenset({"RoleBinding", "ClusterRoleBinding"}),
    frozenset({"Secret", "ConfigMap"}),
)


@dataclass(frozen=True)
class Identity:
    """Identity of an object."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {place}"


def identity(manifest: t.Mapping[str, t.Any]) -> Identity:
    """The identity of a checked manifest or of an object of the API."""
    metadata = manifest["metadata"]
    return Identity(
        manifest["apiVersion"], manifest["kind"], metadata.get("namespace") or "", metadata["name"]
    )


def same_object(metadata: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Metadata of a status for exactly this object, not for a later one of the same name."""
    return {key: metadata[key] for key in ("name", "namespace", "uid") if metadata.get(key)}


def read_manifests(given: t.Any, where: str = "manifests") -> list[Manifest]:
    """Validated manifests from a list of objects or YAML text; a List counts as its items.

    Raises InvalidInput for anything without apiVersion, kind and name, and for objects given twice.
    """
    objects = _parse_yaml(given, where) if isinstance(given, str) else given
    if isinstance(objects, dict):
        objects = [objects]
    if not isinstance(objects, list):
        raise InvalidInput(f"{where}: give a list of manifests or YAML text")
    manifests: list[Manifest] = []
    for index, item in enumerate(objects):
        if isinstance(item, str):
            manifests += read_manifests(item, f"{where}[{index}]")
        elif isinstance(item, dict) and str(item.get("kind", "")).endswith("List"):
            manifests += read_manifests(item.get("items") or [], f"{where}[{index}].items")
        elif item is not None:
            manifests.append(_checked(item, f"{where}[{index}]"))
    _refuse_twice(manifests, where)
    return manifests


def read_file(path: str, key: str | None = None) -> list[Manifest]:
    """Validated manifests from a YAML or JSON file, or from ``key`` of a wattwise.kube document."""
    text = _text_of(path)
    if not path.endswith(".json"):
        return read_manifests(text, path)
    body = _parse_json(text, path)
    if key is not None:
        if not isinstance(body, dict) or key not in body:
            raise InvalidInput(f"{path} has no member {key!r}; see src_key")
        body = body[key]
    return read_manifests(body, path)


def read_file_content(path: str) -> t.Any:
    """The content of a JSON file, or the first document of a YAML file. Raises InvalidInput."""
    text = _text_of(path)
    if path.endswith(".json"):
        return _parse_json(text, path)
    return next(iter(_parse_yaml(text, path)), None)


def in_phases(manifests: t.Sequence[Manifest]) -> list[list[Manifest]]:
    """Manifests in groups to apply one after the other; see the module kube_apply."""
    phases: list[list[Manifest]] = [[] for _phase in range(len(_PHASES) + 1)]
    for manifest in manifests:
        number = next(
            (index for index, kinds in enumerate(_PHASES) if manifest["kind"] in kinds),
            len(_PHASES),
        )
        phases[number].append(manifest)
    return [phase for phase in phases if phase]


def _text_of(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"src: cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"src: cannot read {path}: it is not UTF-8") from error


def _parse_json(text: str, path: str) -> t.Any:
    try:
        return strict_json.parse(text)
    except ValueError as error:
        raise InvalidInput(f"{path} is not JSON: {error}") from error


def yaml_document(text: str) -> t.Any:
    """The document of a YAML text; None without one. Raises ValueError with a reason."""
    documents = yaml_documents(text)
    if len(documents) > 1:
        raise ValueError("it has more than one document")
    return documents[0] if documents else None


def yaml_documents(text: str) -> list[t.Any]:
    """The documents of a YAML text that are not empty. Raises ValueError with a reason.

    PyYAML fails in its own way for dates, numbers and tags that it cannot convert.
    """
    try:
        # The C loader takes a tenth of the time.
        documents = yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return [document for document in documents if document is not None]
    except (AttributeError, KeyError, RecursionError, ValueError, yaml.YAMLError) as error:
        raise ValueError(" ".join(str(error).split())) from error


def _parse_yaml(text: str, where: str) -> list[t.Any]:
    try:
        return yaml_documents(text)
    except ValueError as error:
        raise InvalidInput(f"{where}: not YAML: {error}") from error


def _checked(item: t.Any, where: str) -> Manifest:
    if not isinstance(item, dict):
        raise InvalidInput(f"{where}: a manifest is a mapping, not {type(item).__name__}")
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    for field, value in (
        ("apiVersion", item.get("apiVersion")),
        ("kind", item.get("kind")),
        ("metadata.name", name),
    ):
        if not isinstance(value, str) or not value:
            raise InvalidInput(f"{where}: {field} is missing; every manifest needs it")
    try:
        strict_json.format_compact(item)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{where}: {item['kind']} {shown(name)} holds a value that JSON does not have ({error})"
        ) from error
    return {**item, "metadata": _without_empty_maps(item["metadata"])}


def _without_empty_maps(metadata: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Remove empty maps, which the API server does not store and reports as changes every time."""
    return {
        key: value
        for key, value in metadata.items()
        if value or key not in ("labels", "annotations", "ownerReferences")
    }


def _refuse_twice(manifests: t.Sequence[Manifest], where: str) -> None:
    seen: set[Identity] = set()
    for manifest in manifests:
        this = identity(manifest)
        if this in seen:
            raise InvalidInput(f"{where}: {this} is given twice; remove one")
        seen.add(this)
