# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Rendering of NodeConfigTemplates to NodeConfigs, the work of node_config_template.

Only completely rendered NodeConfigs are applied. An existing one keeps its last good spec
otherwise, and the statuses of NodeConfig and template name the defect.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass, field

from ..base import documents
from ..base.argspec import ArgumentSpec
from ..base.boundary import Finding, guarded, read_each, read_noting, subject_of, warn_of
from ..base.context import Context, Parameters, Result
from ..base.errors import InvalidInput
from ..base.fields import strict
from ..base.fields.lenient import member, objects
from ..base.fields.strict import is_subdomain
from ..base.json_types import Object
from ..kube.resource.conditions import condition, status_manifest
from .nodeconfig import (
    API_VERSIONS,
    TEMPLATE_LABEL,
    TLS_FINGERPRINT_ANNOTATION,
    Problem,
    Shadow,
    effective,
    group_rank,
    is_rendered,
    node_name,
    qualified_name,
)
from .template_source import Manifest, TemplateNode, TemplateSource

Key = tuple[int, str, str]

SPEC = ArgumentSpec(
    {
        "templates": {"type": "list", "elements": "dict"},
        "nodes": {"type": "list", "elements": "dict"},
        "snapshot": {"type": "path"},
        "tls_fingerprints": {"type": "dict", "default": {}},
        "path": {"type": "path"},
    },
    mutually_exclusive=(("nodes", "snapshot"),),
    required_one_of=(("templates", "snapshot"), ("nodes", "snapshot")),
)


def render(parameters: Parameters, context: Context = Context()) -> Result:
    """Render every template for its selected nodes.

    Returns ``node_configs`` and ``statuses`` (manifests, or in the document at ``path``),
    ``errors`` (template, node, field and detail), ``warnings`` and ``counts``. Raises InvalidInput
    for invalid input.
    """
    options = SPEC.complete(parameters)
    path, pins = options["path"], options["tls_fingerprints"]
    snapshot = documents.load(options["snapshot"], "snapshot") if options["snapshot"] else {}
    templates, nodes = options["templates"] or [], options["nodes"]
    rendered = render_templates(snapshot, templates, pins, context, nodes)
    result = {"changed": False, **rendered.as_result()}
    if not path:
        return {**result, **rendered.as_document()}
    digest = documents.write(path, "node_configs", rendered.as_document())
    return {**result, "path": path, "sha256": digest}


@dataclass(frozen=True)
class Rendered:
    """Manifests of NodeConfigs and of statuses, and the outcome of each template."""

    node_configs: list[Manifest]
    statuses: list[Manifest]
    outcomes: t.Sequence[Outcome]
    findings: t.Sequence[Finding]

    def as_document(self) -> Result:
        return {"node_configs": self.node_configs, "statuses": self.statuses}

    def as_result(self) -> Result:
        """The parts of results about templates."""
        errors = [error for outcome in self.outcomes for error in outcome.errors()]
        return {
            "errors": errors,
            "warnings": [text for outcome in self.outcomes for text in outcome.warnings()],
            "counts": {
                "templates": len(self.outcomes),
                "errors": len(errors),
                **{name: len(objects) for name, objects in self.as_document().items()},
            },
            "findings": [finding.as_dict() for finding in self.findings],
        }


def render_templates(
    snapshot: Object,
    given: t.Sequence[Object],
    tls_fingerprints: t.Mapping[str, t.Any],
    context: Context,
    given_nodes: t.Sequence[Object] | None = None,
) -> Rendered:
    """Render the templates of a snapshot and the given ones, for its nodes or the given ones.

    ``tls_fingerprints`` are pins by node. Raises InvalidInput for invalid given objects.
    """
    findings: list[Finding] = []
    templates = _readable(snapshot, "node_config_templates", "NodeConfigTemplate", findings)
    sources = _sources(_with_stored(given, templates))
    nodes, unreadable = _nodes(given_nodes, snapshot.get("nodes") or [], findings)
    rendering = Rendering(
        outcomes=[
            Outcome(source, [node for node in nodes if source.selects(node)]) for source in sources
        ],
        stored=_readable(snapshot, "node_configs", "NodeConfig", findings),
        unreadable=unreadable,
    )
    rendering.run()
    statuses, status_findings = rendering.statuses()
    findings = list(dict.fromkeys([*findings, *status_findings]))
    warn_of(findings, context)
    # Ordered by name, so that the first by name of several new ones for a node is the oldest.
    made = [rendering.made[key] for key in sorted(rendering.made)]
    made = [_pinned(config, tls_fingerprints.get(node_name(config))) for config in made]
    return Rendered(made, statuses, rendering.outcomes, findings)


def _readable(snapshot: Object, part: str, kind: str, findings: list[Finding]) -> dict[Key, Object]:
    """Readable objects of a part of the snapshot by their keys; others become findings."""
    given = snapshot.get(part) or []
    return {key: obj for obj, key in read_each(given, kind, _key_of_readable, findings, part)}


def _key_of_readable(obj: t.Any) -> Key:
    return _key(strict.with_readable_metadata(obj))


def _pinned(manifest: Manifest, fingerprints: str | t.Sequence[str] | None) -> Manifest:
    """The NodeConfig with pins of its node's certificate."""
    if not fingerprints:
        return manifest
    text = fingerprints if isinstance(fingerprints, str) else ",".join(fingerprints)
    metadata = manifest["metadata"]
    annotations = {**(metadata.get("annotations") or {}), TLS_FINGERPRINT_ANNOTATION: text}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def _with_stored(given: t.Sequence[Object], stored: t.Mapping[Key, Object]) -> list[Object]:
    """Templates of the snapshot and given ones; a given one keeps only the stored identity.

    Given ones must be valid objects. Raises InvalidInput.
    """
    result = dict(stored)
    seen: set[Key] = set()
    for index, template in enumerate(given):
        where = f"templates[{index}]"
        _require_name(template, where)
        key = guarded(
            subject_of(template, f"{where}: NodeConfigTemplate"),
            functools.partial(_key_of_readable, template),
        )
        if isinstance(key, Finding):
            raise InvalidInput(str(key))
        if template.get("kind", "NodeConfigTemplate") != "NodeConfigTemplate":
            raise InvalidInput(
                f"templates[{index}]: the kind is {template['kind']!r}; give NodeConfigTemplates"
            )
        if key in seen:
            raise InvalidInput(
                f"templates: {qualified_name(template)} is given twice; remove or rename one"
            )
        seen.add(key)
        known = result.get(key, {"metadata": {}})
        result[key] = {**template, "metadata": {**known["metadata"], **template["metadata"]}}
    return [result[key] for key in sorted(result)]


def _sources(templates: t.Sequence[Object]) -> list[TemplateSource]:
    return [
        TemplateSource.of(template)
        for template in templates
        if not template["metadata"].get("deletionTimestamp")
    ]


def _nodes(
    given: t.Sequence[Object] | None, stored: t.Sequence[Object], findings: list[Finding]
) -> tuple[list[TemplateNode], frozenset[str]]:
    """Nodes by name, and the names of unreadable ones.

    Given ones must be valid objects. Raises InvalidInput.
    """
    by_name: dict[str, TemplateNode] = {}
    unreadable: set[str] = set()
    for index, node in enumerate(given or stored):
        if given:
            _require_name(node, f"nodes[{index}]")
            if node["metadata"]["name"] in by_name:
                raise InvalidInput(f"nodes: {node['metadata']['name']} is given twice; remove one")
        subject = subject_of(node, "Node", f"nodes[{index}]")
        read = read_noting(subject, functools.partial(TemplateNode.of, node), findings)
        if read is None:
            unreadable.add(subject.name)
        else:
            by_name[read.name] = read
    return [by_name[name] for name in sorted(by_name)], frozenset(unreadable)


def _require_name(obj: t.Any, where: str) -> None:
    name = member(obj, "metadata", "name")
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"{where}: metadata.name is missing; give the object as the API does")


def _key(obj: Object) -> Key:
    metadata = obj["metadata"]
    return group_rank(obj), metadata.get("namespace") or "", metadata["name"]


@dataclass
class Outcome:
    """Result of one template: its nodes, and failures by node (None: for all nodes)."""

    source: TemplateSource
    nodes: list[TemplateNode]
    failures: list[tuple[TemplateNode | None, Problem]] = field(default_factory=list)

    def errors(self) -> list[dict[str, str | None]]:
        """The entries in ``errors``."""
        return [
            {
                "template": str(self.source),
                "node": node.name if node else None,
                "field": problem.field,
                "detail": problem.detail,
            }
            for node, problem in self.failures
        ]

    def warnings(self) -> list[str]:
        """Remarks that are no errors."""
        found = []
        if not self.nodes and not self.source.problems:
            found.append("selects no node; check its nodeSelector")
        if self.source.spec.get("nodeName"):
            found.append("has a nodeName, which is ignored; remove it")
        without = [node.name for node in self.nodes if not node.has_ipv4]
        if without and self.source.mentions_octets():
            found.append(
                f"uses octets, but {len(without)} of its nodes have no internal IPv4 address, so "
                f"these are empty: {', '.join(without[:3])}"
            )
        return [f"NodeConfigTemplate {self.source} {warning}" for warning in found]

    def status(self) -> Manifest:
        """The status of the template."""
        metadata = self.source.template["metadata"]
        status: Manifest = {"matchedNodes": len(self.nodes), "conditions": [self._condition()]}
        generation = metadata.get("generation")
        is_number = isinstance(generation, int) and not isinstance(generation, bool)
        if is_number and 0 < generation < 2**63:
            status["observedGeneration"] = generation
        return _status_manifest({**self.source.template, "kind": "NodeConfigTemplate"}, status)

    def _condition(self) -> Manifest:
        if not self.failures:
            message = f"NodeConfigs rendered: {len(self.nodes)}"
            return condition("Rendered", "True", "Rendered", message)
        node, problem = self.failures[0]
        failed = {node.name for node, _problem in self.failures if node}
        message = (
            f"for {node.name} ({len(failed)} of {len(self.nodes)} nodes)" if node else "for all"
        )
        return condition("Rendered", "False", "NotRendered", f"Not rendered {message}: {problem}")


class Claim(t.NamedTuple):
    """Claim of a template to the NodeConfig of a node."""

    outcome: Outcome
    node: TemplateNode


@dataclass
class Rendering:
    """One run with its input and its NodeConfigs."""

    outcomes: t.Sequence[Outcome]
    stored: t.Mapping[Key, Object]
    unreadable: frozenset[str] = frozenset()
    made: dict[Key, Manifest] = field(default_factory=dict)
    _kept: dict[Key, Problem] = field(default_factory=dict)

    def run(self) -> None:
        """Fill ``made`` and the failures of the outcomes."""
        claims: dict[Key, list[Claim]] = {}
        for outcome in self.outcomes:
            source = outcome.source
            outcome.failures += [(None, problem) for problem in source.problems]
            for node in () if source.problems else outcome.nodes:
                claims.setdefault(source.key(node), []).append(Claim(outcome, node))
        for key, rivals in claims.items():
            self._settle(key, rivals)
        self._keep_unrendered()

    def _settle(self, key: Key, rivals: list[Claim]) -> None:
        """Render the NodeConfig of one claim to its name; the other claims fail."""
        stored = self.stored.get(key)
        entitled = (
            claim for claim in rivals if stored is None or claim.outcome.source.owns(stored)
        )
        winner = next(entitled, None)
        for claim in rivals:
            if claim is winner:
                self._make(key, claim)
            else:
                problem = Problem("metadata.name", _taken(key[2], winner, stored))
                claim.outcome.failures.append((claim.node, problem))

    def _make(self, key: Key, claim: Claim) -> None:
        source, node = claim.outcome.source, claim.node
        spec, problems = source.render(node)
        if not is_subdomain(key[2]):
            detail = f"{key[2]!r} cannot name an object ({len(key[2])} characters, 253 allowed)"
            problems = [Problem("metadata.name", f"{detail}; rename the template"), *problems]
        if not problems:
            self.made[key] = source.manifest(key[2], spec)
            return
        claim.outcome.failures += [(node, problem) for problem in problems]
        self._keep(key, source, problems[0])

    def _keep_unrendered(self) -> None:
        """Keep the NodeConfigs of unusable templates, and of existing but unreadable nodes."""
        for key, stored in self.stored.items():
            for source in (outcome.source for outcome in self.outcomes):
                is_own = key[0] == group_rank(source.template) and source.owns(stored)
                if key in self.made or not is_own:
                    continue
                node = node_name(stored)
                if source.problems:
                    self._keep(key, source, source.problems[0])
                elif node in self.unreadable:
                    problem = Problem("spec.nodeName", f"the Node {node} cannot be read")
                    self._keep(key, source, problem)

    def _keep(self, key: Key, source: TemplateSource, problem: Problem) -> None:
        """Keep an existing NodeConfig unchanged, so that it is not pruned."""
        stored = self.stored.get(key)
        if stored is not None:
            self.made[key] = source.manifest(key[2], stored.get("spec") or {})
            self._kept[key] = problem

    def statuses(self) -> tuple[list[Manifest], t.Sequence[Finding]]:
        """Status manifests of templates and NodeConfigs.

        The findings concern unusable NodeConfigs.
        """
        shadows, findings = self._shadows()
        statuses = [outcome.status() for outcome in self.outcomes]
        for key, manifest in self.made.items():
            conditions = [self._rendered(key), _shadowed(manifest, shadows.get(key))]
            statuses.append(_status_manifest(manifest, {"conditions": conditions}))
        for key, stored in self._others().items():
            if key in shadows or _was_shadowed(stored):
                conditions = [_shadowed(stored, shadows.get(key))]
                statuses.append(_status_manifest(stored, {"conditions": conditions}))
        return statuses, findings

    def _others(self) -> dict[Key, Object]:
        """Existing NodeConfigs that are neither rendered in this run nor about to be pruned."""
        return {
            key: stored
            for key, stored in self.stored.items()
            if key not in self.made
            and TEMPLATE_LABEL not in (stored["metadata"].get("labels") or {})
        }

    def _shadows(self) -> tuple[dict[Key, Shadow], t.Sequence[Finding]]:
        """The shadowed NodeConfigs after application and pruning."""
        future = list(self._others().values())
        for key, manifest in self.made.items():
            created = self.stored.get(key, manifest)["metadata"].get("creationTimestamp")
            metadata = {**manifest["metadata"], "creationTimestamp": created}
            future.append({**manifest, "metadata": metadata})
        found = effective(future)
        shadows = {_key(shadow.node_config): shadow for shadow in found.shadowed}
        return shadows, found.findings

    def _rendered(self, key: Key) -> Manifest:
        problem = self._kept.get(key)
        if problem is None:
            return condition("Rendered", "True", "Rendered", "All fields of the template rendered")
        message = f"The template does not render, so the last good spec stays: {problem}"
        return condition("Rendered", "False", "NotRendered", message)


def _taken(name: str, winner: Claim | None, stored: Object | None) -> str:
    if winner is not None:
        return (
            f"the NodeConfig {name} is made by the template {winner.outcome.source} for the node "
            f"{winner.node.name}; rename this template"
        )
    if stored is not None and is_rendered(stored):
        return f"the NodeConfig {name} still belongs to another template; rename this template"
    return (
        f"there is a NodeConfig {name} that does not come from a template; rename it, or this "
        "template"
    )


def _shadowed(node_config: Object, shadow: Shadow | None) -> Manifest:
    if shadow is not None:
        return condition("Shadowed", "True", shadow.reason, shadow.message)
    message = f"This configures the node {node_name(node_config)}"
    return condition("Shadowed", "False", "Effective", message)


def _was_shadowed(node_config: Object) -> bool:
    return any(
        each.get("type") == "Shadowed" and each.get("status") == "True"
        for each in objects(member(node_config, "status", "conditions"))
    )


def _status_manifest(obj: Object, status: Manifest) -> Manifest:
    version, kind = obj.get("apiVersion") or API_VERSIONS[0], obj.get("kind") or "NodeConfig"
    return status_manifest(version, kind, obj["metadata"], status)
