# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Manifests from lists, YAML texts and files, validated and in the order of application."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass
from pathlib import Path

from . import strict_json
from .errors import InvalidInput
from .json_types import MutableObject, Object
from .texts import shown
from .yaml_text.reader import OPERATOR, read_documents

Manifest = MutableObject

MANAGED_BY_LABEL, MANAGER = "app.kubernetes.io/managed-by", "wattwise.kube"

_PHASES: tuple[frozenset[str], ...] = (
    frozenset({"Namespace"}),
    frozenset({"CustomResourceDefinition"}),
    frozenset({"ServiceAccount", "Role", "ClusterRole"}),
    # A binding of a missing role is refused for accounts without the permission to bind.
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


def identity(manifest: Object) -> Identity:
    """The identity of a checked manifest or of an object of the API."""
    metadata = manifest["metadata"]
    return Identity(
        manifest["apiVersion"], manifest["kind"], metadata.get("namespace") or "", metadata["name"]
    )


def manifest_of(
    api_version: str,
    kind: str,
    name: str,
    namespace: str = "",
    labels: t.Mapping[str, str] | None = None,
    **content: t.Any,
) -> Manifest:
    """The manifest of an object; a cluster-scoped one has no namespace."""
    place = {"namespace": namespace} if namespace else {}
    own = {} if labels is None else {"labels": dict(labels)}
    metadata = {"name": name, **place, **own}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def same_object(metadata: Object) -> MutableObject:
    """Metadata of a status for exactly this object, not for a later one of the same name."""
    return {key: metadata[key] for key in ("name", "namespace", "uid") if metadata.get(key)}


def read_manifests(given: t.Any, where: str = "manifests") -> list[Manifest]:
    """Validated manifests from a list of objects and YAML texts, or from one YAML text.

    A list of Kubernetes counts as its items. As in kubectl, a list is what has ``items``: there are
    objects such as an AllowList, too. Raises InvalidInput for anything without apiVersion, kind and
    name, and for objects given twice.
    """
    if isinstance(given, (str, bytes)):
        manifests = list(_flat(read_documents(given, where, OPERATOR), where))
    else:
        objects = [given] if isinstance(given, dict) else given
        if not isinstance(objects, list):
            raise InvalidInput(f"{where}: give a list of manifests or YAML text")
        manifests = []
        for index, item in enumerate(objects):
            place = f"{where}[{index}]"
            manifests += (
                read_manifests(item, place) if isinstance(item, str) else _of_object(item, place)
            )
    _refuse_twice(manifests, where)
    return manifests


def read_file(path: str, key: str | None = None) -> list[Manifest]:
    """Validated manifests from a YAML or JSON file, or from ``key`` of a wattwise.kube document."""
    content = _content_of(path)
    if not path.endswith(".json"):
        return read_manifests(content, path)
    body = _parse_json(content, path)
    if key is not None:
        if not isinstance(body, dict) or key not in body:
            raise InvalidInput(f"{path} has no member {key!r}; see src_key")
        body = body[key]
    return read_manifests(body, path)


def read_file_content(path: str) -> t.Any:
    """The content of a JSON file, or the first document of a YAML file. Raises InvalidInput."""
    content = _content_of(path)
    if path.endswith(".json"):
        return _parse_json(content, path)
    return next(iter(read_documents(content, path, OPERATOR)), None)


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


def _content_of(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidInput(f"src: cannot read {path}: {error.strerror}") from error


def _parse_json(content: bytes, path: str) -> t.Any:
    try:
        return strict_json.parse(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidInput(f"src: cannot read {path}: it is not UTF-8") from error
    except ValueError as error:
        raise InvalidInput(f"{path} is not JSON: {error}") from error


def _flat(objects: t.Iterable[t.Any], where: str) -> t.Iterator[Manifest]:
    for index, item in enumerate(objects):
        yield from _of_object(item, f"{where}[{index}]")


def _of_object(item: t.Any, place: str) -> t.Iterator[Manifest]:
    """The manifest, or those of a list."""
    if isinstance(item, dict) and "items" in item:
        yield from _flat(_items(item, place), f"{place}.items")
    elif item is not None:
        yield _checked(item, place)


def _items(given: Manifest, place: str) -> list[t.Any]:
    """The items of a list; those of a ConfigMapList, say, may leave out what they are."""
    items, kind = given["items"] or [], str(given.get("kind", ""))
    if not isinstance(items, list):
        raise InvalidInput(f"{place}: items is not a list; an object cannot have such a field")
    if kind == "List" or not kind.endswith("List"):
        return items
    told = {"apiVersion": given.get("apiVersion"), "kind": kind.removesuffix("List")}
    return [
        {**told, **item}
        if isinstance(item, dict) and not item.get("apiVersion") and not item.get("kind")
        else item
        for item in items
    ]


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
        if value in (None, ""):
            raise InvalidInput(f"{where}: {field} is missing; every manifest needs it")
        if not isinstance(value, str):
            raise InvalidInput(
                f"{where}: {field} is {shown(value)} and not a text; put it in quotation marks"
            )
    try:
        strict_json.format_compact(item)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{where}: {item['kind']} {shown(name)} holds a value that JSON does not have ({error})"
        ) from error
    return {**item, "metadata": _without_empty_maps(item["metadata"])}


def _without_empty_maps(metadata: Object) -> MutableObject:
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
