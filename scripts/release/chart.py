# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Helm chart whose templates are the objects of the overlays.

Each object is one template, with a condition for the overlays that contain it. Values replace the
namespace, the image and the resources of the containers; the rest is text.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import yaml

from scripts.release import overlays
from scripts.release.overlays import OVERLAYS, Object
from scripts.release.source import Source

NAME = "wattwise-operator"
# Deletion of a CRD deletes all its objects, such as the NodeConfigs of other programs.
KEEP = {"helm.sh/resource-policy": "keep"}
NAMESPACE_VALUE = "{{ .Values.namespace.name }}"
IMAGE_VALUE = '{{ include "wattwise.image" . }}'
HELPERS = """\
{{- define "wattwise.image" -}}
{{- $name := required "Set image.repository to the image that `make image` built" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $name }}@{{ .Values.image.digest }}
{{- else -}}
{{ $name }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}
"""
NOTES = """\
Overlay {{ .Values.overlay }} is installed in namespace {{ .Values.namespace.name }}.

  kubectl -n {{ .Values.namespace.name }} rollout status deployment/wattwise-operator

Helm keeps the CRDs when the release is uninstalled, because their deletion would delete their objects.
"""


class _Quoted(str):
    """A string that YAML quotes, so that its value stays a string."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    _Quoted, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


def files(source: Source) -> dict[str, bytes]:
    """Files of the chart by their path in its archive."""
    contained = {overlay: overlays.objects(source.tree, overlay) for overlay in OVERLAYS}
    image = f"{overlays.image(source.tree)}:{source.version}"
    resources = _resources(contained)
    texts = {
        "Chart.yaml": _dump(_chart(source)),
        "values.yaml": _values(resources),
        "values.schema.json": json.dumps(schema(resources), indent=2) + "\n",
        "LICENSE": (source.tree / "LICENSE").read_text(encoding="utf-8"),
        "templates/_helpers.tpl": HELPERS,
        "templates/NOTES.txt": NOTES,
        **dict(_templates(contained, image)),
    }
    return {f"{NAME}/{name}": text.encode() for name, text in texts.items()}


def _templates(
    contained: dict[str, dict[overlays.Key, Object]], image: str
) -> Iterator[tuple[str, str]]:
    """A file for each object, with one form for all overlays in which it is the same."""
    for key in sorted({key for items in contained.values() for key in items}):
        forms: list[tuple[Object, list[str]]] = []
        for overlay, items in contained.items():
            if key in items:
                same = next((names for form, names in forms if form == items[key]), None)
                if same is None:
                    forms.append((items[key], [overlay]))
                else:
                    same.append(overlay)
        text = "".join(_template(form, names, image) for form, names in forms)
        yield f"templates/{'-'.join(filter(None, key)).lower()}.yaml", text


def _template(item: Object, names: list[str], image: str) -> str:
    chosen = " ".join(f'"{name}"' for name in names)
    condition = f"has .Values.overlay (list {chosen})"
    item = copy.deepcopy(item)
    if item["kind"] == "CustomResourceDefinition":
        condition = f"and .Values.crds ({condition})"
        item["metadata"].setdefault("annotations", {}).update(KEEP)
    if item["kind"] == "Namespace":
        condition = f"and .Values.namespace.create ({condition})"
    return f"{{{{- if {condition} }}}}\n---\n{with_values(item, image)}{{{{- end }}}}\n"


def with_values(item: Object, image: str) -> str:
    """The YAML of an object with Helm's expressions for what values choose."""
    expressions: dict[str, str] = {}
    if item["kind"] == "Deployment":
        for container in item["spec"]["template"]["spec"]["containers"]:
            name = f"resources of {container['name']}"
            expressions[f'"{name}"'] = f"{{{{ toJson .Values.resources.{container['name']} }}}}"
            container["resources"] = _Quoted(name)
    text = _dump(_quoted(item, (overlays.NAMESPACE, image)))
    # Other braces of an object are not Helm's.
    text = text.replace("{{", '{{ "{{" }}')
    # The image first, whose name may contain the namespace's.
    expressions |= {image: IMAGE_VALUE, overlays.NAMESPACE: NAMESPACE_VALUE}
    for literal, expression in expressions.items():
        text = text.replace(literal, expression)
    return text


def _quoted(value: Any, literals: tuple[str, ...]) -> Any:
    """The value with each string quoted that has one of the literals."""
    if isinstance(value, dict):
        return {name: _quoted(each, literals) for name, each in value.items()}
    if isinstance(value, list):
        return [_quoted(each, literals) for each in value]
    if isinstance(value, str) and any(literal in value for literal in literals):
        return _Quoted(value)
    return value


def _resources(contained: dict[str, dict[overlays.Key, Object]]) -> dict[str, Any]:
    """The resources of each container, which are the same in all overlays."""
    return {
        container["name"]: container["resources"]
        for items in contained.values()
        for item in items.values()
        if item["kind"] == "Deployment"
        for container in item["spec"]["template"]["spec"]["containers"]
    }


def _chart(source: Source) -> dict[str, Any]:
    return {
        "apiVersion": "v2",
        "name": NAME,
        "description": "The operator of wattwise.kube: PowerFleets, Kepler and Provisionings.",
        "type": "application",
        "version": source.version,
        "appVersion": source.version,
        "kubeVersion": ">=1.34.0-0",
        "home": "https://github.com/wattwise/wattwise.kube",
        "sources": ["https://github.com/wattwise/wattwise.kube"],
    }


def _values(resources: dict[str, Any]) -> str:
    return f"""\
# Permissions, CRDs and watched kinds: {", ".join(OVERLAYS)}. docs/operate/operator.md describes each.
overlay: default
# The project publishes no image; `make image` builds one.
image:
  repository: ""
  # The version of the chart if empty.
  tag: ""
  # sha256:…, instead of a tag.
  digest: ""
namespace:
  name: {overlays.NAMESPACE}
  # Without it, give the namespace the label pod-security.kubernetes.io/enforce: restricted.
  create: true
# Without them, the CRDs of the overlay must exist.
crds: true
# By container.
{_dump({"resources": resources})}"""


def schema(resources: dict[str, Any]) -> dict[str, Any]:
    text, switch = {"type": "string"}, {"type": "boolean"}

    def fields(**properties: Any) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": False, "properties": properties}

    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **fields(
            overlay={"enum": list(OVERLAYS)},
            image=fields(
                repository=text,
                tag=text,
                digest={"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
            ),
            namespace=fields(
                name={"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"},
                create=switch,
            ),
            crds=switch,
            resources=fields(**{name: {"type": "object"} for name in resources}),
        ),
    }


def _dump(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=1_000_000, allow_unicode=True)
