# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A parsed NodeConfigTemplate and its nodes."""

from __future__ import annotations

import copy
import hashlib
import ipaddress
import typing as t
from dataclasses import dataclass

from ..base.boundary import Finding, guarded, shown_text, subject_of
from ..base.errors import InvalidInput
from ..base.fields import strict
from ..base.fields.lenient import member, objects
from ..base.json_types import Object
from ..base.label_selector import LabelSelector, parse_label_selector
from ..base.manifests import MANAGED_BY_LABEL, MANAGER
from ..kube.apply.prune import APPLY_SET_LABEL
from .nodeconfig import (
    API_VERSIONS,
    TEMPLATE_LABEL,
    TERMS,
    Problem,
    group_rank,
    problems,
    qualified_name,
)
from .template.address import url_of
from .template.parser import parse
from .template.tree import Piece, Struct, Template, plain_text

Manifest = dict[str, t.Any]
Path = tuple[str, ...]

# Value of the ApplySet label of rendered NodeConfigs, which kube_apply may prune.
APPLY_SET = "wattwise-node-configs"

_ANNOTATION_PREFIX = "wattwise.github.io/"
_MEMBERS: tuple[Path, ...] = (("type",), ("endpoint",), ("basicAuthSecret", "name"))


@dataclass(frozen=True)
class TemplateNode:
    """Variables of a Node for templates."""

    name: str
    labels: t.Mapping[str, str]
    variables: Struct
    has_ipv4: bool

    @classmethod
    def of(cls, node: Object) -> TemplateNode:
        """From the object of the API. Raises InvalidField."""
        metadata = strict.with_readable_metadata(node)["metadata"]
        labels = metadata.get("labels") or {}
        address, octets = _address(node)
        variables = Struct(
            Name=metadata["name"],
            Hostname=labels.get("kubernetes.io/hostname") or metadata["name"],
            IPv4=Struct(
                Address=address, **{f"Octet{n}": part for n, part in enumerate(octets, start=1)}
            ),
            Labels=dict(labels),
            Annotations=dict(metadata.get("annotations") or {}),
        )
        return cls(metadata["name"], labels, variables, has_ipv4=bool(octets[0]))


def _address(node: Object) -> tuple[str, list[str]]:
    """The first internal IPv4 address with its octets, else the first address without octets."""
    status = strict.mapping(node.get("status"), "status")
    addresses = [
        strict.text(entry.get("address"), "status.addresses.address")
        for entry in strict.mappings(status.get("addresses"), "status.addresses")
        if entry.get("type") == "InternalIP"
    ]
    for address in addresses:
        try:
            ipaddress.IPv4Address(address)
        except ValueError:
            continue
        return address, address.split(".")
    return next(iter(addresses), ""), [""] * 4


@dataclass(frozen=True)
class TemplateSource:
    """A template with its fields parsed.

    ``problems`` concern the whole template; if there are any, nothing is rendered.
    """

    template: Object
    selector: LabelSelector | None
    spec: t.Mapping[str, t.Any]
    fields: t.Mapping[Path, Template]
    problems: tuple[Problem, ...]

    @classmethod
    def of(cls, template: Object) -> TemplateSource:
        """From the object of the API, of either shape (flat as in wao-core v1.27.0-alpha.0).

        Its metadata must be readable; other defects become problems.
        """
        read = guarded(subject_of(template, "NodeConfigTemplate"), lambda: cls._read(template))
        if isinstance(read, Finding):
            return cls(template, None, {}, {}, (Problem(read.field or "spec", read.problem),))
        return read

    @classmethod
    def _read(cls, template: Object) -> TemplateSource:
        found: list[Problem] = []
        whole = template.get("spec")
        whole = whole if isinstance(whole, dict) else {}
        selector = None
        try:
            selector = parse_label_selector(whole.get("nodeSelector"))
        except InvalidInput as error:
            found.append(Problem("spec.nodeSelector", shown_text(str(error))))
        place, spec, wrong_shape = _node_config_spec(whole)
        found += wrong_shape
        fields: dict[Path, Template] = {}
        for path, text in _texts(spec):
            try:
                fields[path] = parse(text)
            except InvalidInput as error:
                found.append(Problem(".".join((place, *path)), str(error)))
        return cls(template, selector, spec, fields, tuple(found))

    @property
    def uid(self) -> str | None:
        uid: str | None = self.template["metadata"].get("uid")
        return uid

    @property
    def label(self) -> str:
        """The name of the template as a label value of at most 63 characters."""
        name: str = self.template["metadata"]["name"]
        if len(name) <= 63:
            return name
        return f"{name[:52].rstrip('-.')}-{hashlib.sha256(name.encode()).hexdigest()[:10]}"

    def selects(self, node: TemplateNode) -> bool:
        return self.selector is not None and self.selector.matches(node.labels)

    def key(self, node: TemplateNode) -> tuple[int, str, str]:
        """API group, namespace and name of the node's NodeConfig."""
        metadata = self.template["metadata"]
        name = f"{metadata['name']}-{node.name}"
        return group_rank(self.template), metadata.get("namespace") or "", name

    def owns(self, node_config: Object) -> bool:
        """Whether this NodeConfig was rendered from this template before."""
        metadata = node_config["metadata"]
        owners = objects(metadata.get("ownerReferences"))
        owner = next((each for each in owners if each.get("controller")), None)
        if owner is not None:
            return bool(owner.get("uid") == self.uid)
        return (metadata.get("labels") or {}).get(TEMPLATE_LABEL) == self.label

    def mentions_octets(self) -> bool:
        return any(
            template.mentions("IPv4", f"Octet{number}")
            for template in self.fields.values()
            for number in range(1, 5)
        )

    def render(self, node: TemplateNode) -> tuple[Manifest, list[Problem]]:
        """The spec of the node's NodeConfig, and its problems."""
        subject = subject_of(self.template, "NodeConfigTemplate")
        rendered = guarded(subject, lambda: self._render(node))
        if isinstance(rendered, Finding):
            return {}, [Problem(rendered.field or "spec", rendered.problem)]
        return rendered

    def _render(self, node: TemplateNode) -> tuple[Manifest, list[Problem]]:
        spec = {"predictor": {}, **copy.deepcopy(dict(self.spec)), "nodeName": node.name}
        found: list[Problem] = []
        for path, template in self.fields.items():
            try:
                _put(spec, path, template.render(node.variables, self._join(path, spec)))
            except InvalidInput as error:
                found.append(Problem(".".join(("spec", *path)), str(error)))
        return spec, found or problems({"spec": spec})

    @staticmethod
    def _join(path: Path, spec: Object) -> t.Callable[[t.Sequence[Piece]], str]:
        """Function that joins pieces to a field's text; the type of a term renders first."""
        is_asked = member(spec, *path[:-1], "type") not in ("Fake", "")
        return url_of if path[-1] == "endpoint" and is_asked else plain_text

    def manifest(self, name: str, spec: t.Mapping[str, t.Any]) -> Manifest:
        """A NodeConfig of this template, ready for application."""
        given = self.template["metadata"]
        metadata: Manifest = {
            "name": name,
            "labels": {
                MANAGED_BY_LABEL: MANAGER,
                TEMPLATE_LABEL: self.label,
                APPLY_SET_LABEL: APPLY_SET,
            },
        }
        if given.get("namespace"):
            metadata["namespace"] = given["namespace"]
        annotations = {
            key: value
            for key, value in (given.get("annotations") or {}).items()
            if key.startswith(_ANNOTATION_PREFIX)
        }
        if annotations:
            metadata["annotations"] = annotations
        if self.uid:
            metadata["ownerReferences"] = [self._owner_reference()]
        return {
            "apiVersion": API_VERSIONS[group_rank(self.template)],
            "kind": "NodeConfig",
            "metadata": metadata,
            "spec": spec,
        }

    def _owner_reference(self) -> Manifest:
        return {
            "apiVersion": API_VERSIONS[group_rank(self.template)],
            "kind": "NodeConfigTemplate",
            "name": self.template["metadata"]["name"],
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def __str__(self) -> str:
        return qualified_name(self.template)


def _node_config_spec(whole: Object) -> tuple[str, t.Mapping[str, t.Any], list[Problem]]:
    """Path of the NodeConfig spec in the template, the spec, and its problems."""
    flat = {part: whole[part] for part in ("metricsCollector", "predictor") if part in whole}
    if "template" in whole and flat:
        detail = "is given beside metricsCollector or predictor; write one of the two shapes"
        return "spec.template", {}, [Problem("spec.template", detail)]
    place, spec = ("spec.template", whole["template"]) if "template" in whole else ("spec", flat)
    missing = [
        Problem(f"{place}.{'.'.join(term.path)}", f"is missing; write one of type {term.types[0]}")
        for term in TERMS.values()
        if term.required and member(spec, *term.path) is None
    ]
    return place, (spec if isinstance(spec, dict) else {}), missing


def _put(spec: Manifest, path: Path, text: str) -> None:
    for name in path[:-1]:
        spec = spec[name]
    spec[path[-1]] = text


def _texts(spec: t.Mapping[str, t.Any]) -> t.Iterator[tuple[Path, str]]:
    """The template fields with their texts."""
    for term in TERMS.values():
        for part in _MEMBERS:
            path = (*term.path, *part)
            text = member(spec, *path)
            if isinstance(text, str):
                yield path, text
