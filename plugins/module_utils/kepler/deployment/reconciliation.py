# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Kepler on the nodes of a cluster: verdicts, installation and status in one task."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass, field

from ...base.argspec import KUBERNETES, ArgumentSpec
from ...base.boundary import Finding, warn_of
from ...base.context import Context, Parameters, Result
from ...base.errors import ApiError
from ...base.fields.lenient import member
from ...base.json_types import Object
from ...kube.apply.steps import Applying
from ...kube.client import Kube, UnknownKind
from ...kube.pod_bulk import without_bulk
from ...kube.resource.conditions import Failure
from ...kube.resource.run import (
    Failed,
    ResourceKind,
    generation_of,
    is_new_spec,
    missing_keys,
    owner_manifest,
    stored_status,
)
from . import manifests, names, options, policy, rivals, status
from .groups import Group, group
from .nodes import JudgedNode, judge_all
from .system import System, in_words_of_resource, read_system

FIELD_MANAGER = "wattwise-kepler"
_POLICY = ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
_MAX_REASONS = 3
_KIND = ResourceKind(options.API_VERSION, options.KIND, FIELD_MANAGER, options.SYSTEM)

SPEC = KUBERNETES.merge(
    ArgumentSpec(
        {
            "namespace": {"type": "str", "default": "kepler"},
            "name": {"type": "str", "default": "kepler"},
            "spec": {
                "type": "dict",
                "options": dict(options.SYSTEM.options),
            },
            "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
            "force": {"type": "bool", "default": False},
            "prune_max": {"type": "float", "default": 0.5},
            "on_error": {"type": "str", "default": "fail", "choices": ["report", "fail"]},
        }
    ),
)


def reconcile(parameters: Parameters, context: Context = Context()) -> Result:
    """Run Kepler on every node that can be metered, by ``spec`` or by a KeplerSystem.

    Raises WattwiseError, with the results so far. A KeplerSystem gets the error in its status
    first; with ``on_error: report`` it is only there and in the result.
    """
    given = SPEC.complete(parameters)
    kube = Kube.connect(given)
    if given["state"] == "absent":
        return _removed(kube, given, context)
    return _KIND.reconcile(kube, given, functools.partial(_Run, kube, given, context))


@dataclass
class _Run:
    """One run and its state. ``resource`` is the KeplerSystem, if there is one."""

    kube: Kube
    given: Parameters
    context: Context
    resource: Object | None
    system: System | None = None
    nodes: list[JudgedNode] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    applying: Applying = field(init=False)

    def __post_init__(self) -> None:
        self.applying = Applying(self.kube, self.context, ())

    def steps(self) -> None:
        """Read, judge, install."""
        self._read()
        wanted = t.cast("System", self.system)
        self._refuse_rivals(wanted)
        self._refuse_missing_secrets(wanted)
        self._judge(wanted)
        self._apply(wanted)

    def _read(self) -> None:
        place = (self.given["namespace"], self.given["name"])
        self.system = _KIND.read(
            self.resource, self.given["spec"], lambda spec: read_system(*place, spec)
        )
        if self.resource is not None:
            self.system = in_words_of_resource(self.system)

    def _refuse_rivals(self, wanted: System) -> None:
        if self.given["force"]:
            return
        resources: list[Object] = []
        for kind in rivals.RIVAL_KINDS:
            if self.kube.serves(options.API_VERSION, kind):
                place = self.kube.resource(options.API_VERSION, kind)
                resources += self.kube.list(place.collection(), trim=_identity)
        found = rivals.rivals(
            wanted,
            self.kube.list("/apis/apps/v1/daemonsets", trim=_workload),
            self.kube.list("/apis/apps/v1/deployments", trim=_workload),
            resources,
        )
        if not found:
            return
        told = rivals.sentence(found, takes_force=self.resource is None)
        # Otherwise any creator of a Deployment could stop the upkeep of an installed Kepler.
        if not member(self.resource, "status", "appliedGeneration"):
            raise Failed("AnotherKepler", told)
        self.context.warn(told)

    def _refuse_missing_secrets(self, wanted: System) -> None:
        for name, keys in wanted.needed_secrets:
            sentence = missing_keys(self.kube, wanted.namespace, name, keys)
            if sentence:
                raise Failed("SecretNotFound", sentence)

    def _judge(self, wanted: System) -> None:
        nodes = self.kube.list("/api/v1/nodes", trim=_node)
        self.nodes, self.findings = judge_all(wanted, nodes)
        warn_of(self.findings, self.context)
        for remark in status.remarks(status.Observation(wanted, self.nodes)):
            self.context.warn(remark)
        self.groups = group(wanted, self.nodes)
        if not self.groups and self.context.check_mode:
            # A task before this one may label nodes.
            self.context.warn(_nothing_metered(self.nodes))
        elif not self.groups:
            raise Failed("NoSupportedNode", _nothing_metered(self.nodes))

    def _apply(self, wanted: System) -> None:
        if not self.groups:
            return
        is_openshift = self.kube.serves(*manifests.SCC)
        has_policies = self.kube.serves(*_POLICY)
        if not has_policies:
            self.context.warn(
                f"The cluster serves no {_POLICY[1]}, so nothing holds pods of namespace "
                f"{wanted.namespace} to Kepler's needs; use Kubernetes 1.30 or later"
            )
        namespace = manifests.namespace(wanted, is_openshift)
        self.applying = Applying(self.kube, self.context, [namespace])
        of_cluster = manifests.of_cluster(wanted, is_openshift)
        if has_policies:
            of_cluster += policy.manifests(wanted)
        self._write([namespace, *of_cluster])
        self._revoke_permissions(wanted)
        owner = _KIND.owner(self, wanted.namespace, wanted.name, names.owner_name(wanted.name))
        kinds = [
            {"api_version": version, "kind": kind, "namespace": wanted.namespace}
            for version, kind in manifests.PRUNED_KINDS
        ]
        self._write(
            manifests.in_namespace(wanted, self.groups),
            owner=owner,
            prune=names.apply_set(wanted.name),
            prune_kinds=kinds,
            prune_max=1.0 if is_new_spec(self.resource) else self.given["prune_max"],
        )

    def _write(self, given: t.Sequence[Object], **how: t.Any) -> None:
        if given:
            self.applying.apply({"manifests": list(given), "field_manager": FIELD_MANAGER, **how})

    def _revoke_permissions(self, wanted: System) -> None:
        unwanted = [
            each for each in manifests.obsolete_permissions(wanted) if _exists(self.kube, each)
        ]
        self._write(unwanted, state="absent")

    def result(self, failure: Failure | None) -> Result:
        """The changes and the present state, in the form of a KeplerSystem's status."""
        told = status.status_of(
            self._seen(failure), generation_of(self.resource), stored_status(self.resource)
        )
        return {
            **self.applying.result,
            "found": True,
            "status": told,
            "left_out": [
                {"node": node.name, "reason": node.reason} for node in self.nodes if node.reason
            ],
            "findings": [finding.as_dict() for finding in self.findings],
        }

    def _seen(self, failure: Failure | None) -> status.Observation:
        daemon_sets: t.Sequence[Object] = ()
        pods: t.Sequence[Object] = ()
        if self.system is not None and self.groups:
            place = f"namespaces/{self.system.namespace}"
            labels = names.pod_labels(self.system)
            selector = ",".join(f"{label}={value}" for label, value in labels.items())
            own = {"labelSelector": f"{names.INSTANCE_LABEL}={self.system.name}"}
            try:
                daemon_sets = self.kube.list(f"/apis/apps/v1/{place}/daemonsets", own)
                pods = self.kube.list(
                    f"/api/v1/{place}/pods", {"labelSelector": selector}, without_bulk
                )
            except ApiError as error:
                self.context.warn(f"The state of the collectors could not be read: {error}")
        return status.Observation(self.system, self.nodes, self.groups, daemon_sets, pods, failure)


def _removed(kube: Kube, given: Parameters, context: Context) -> Result:
    """Remove the owner with its objects, and everything outside of the namespace.

    The namespace, Secrets and a KeplerSystem belong to people, and stay.
    """
    applying = Applying(kube, context, ())
    namespace, name = given["namespace"], given["name"]
    owner = owner_manifest(namespace, names.owner_name(name))
    of_cluster = manifests.all_of_cluster(namespace, name, kube.serves(*manifests.SCC))
    applying.apply({"manifests": [owner, *of_cluster], "state": "absent"})
    return {**applying.result, "found": False}


def _exists(kube: Kube, manifest: Object) -> bool:
    """Whether an object exists. An account without the permission to read has not made it."""
    try:
        place = kube.resource(manifest["apiVersion"], manifest["kind"])
        return kube.find(place.path(manifest["metadata"]["name"])) is not None
    except UnknownKind:
        return False
    except ApiError as error:
        if error.status == 403:
            return False
        raise


def _nothing_metered(nodes: t.Sequence[JudgedNode]) -> str:
    if not nodes:
        return (
            "No node of the cluster has the labels of collector.node_selector; correct them, or "
            "label nodes"
        )
    named = "; ".join(f"{node.name}: {node.reason}" for node in nodes[:_MAX_REASONS])
    more = len(nodes) - _MAX_REASONS
    return (
        f"None of {len(nodes)} nodes can be metered, so nothing is installed or changed ({named}"
        f"{f'; and {more} more' if more > 0 else ''}); module wattwise.kube.kepler_node_info shows "
        "what a node has"
    )


def _identity(item: dict[str, t.Any]) -> dict[str, t.Any]:
    metadata = item.get("metadata") or {}
    kept = {key: metadata.get(key) for key in ("name", "namespace")}
    return {"kind": item.get("kind"), "metadata": kept}


def _workload(item: dict[str, t.Any]) -> dict[str, t.Any]:
    """Labels of a workload, the images of its pods and their node selector."""
    metadata = item.get("metadata") or {}
    pod = member(item, "spec", "template", "spec")
    return {
        "metadata": {key: metadata.get(key) for key in ("name", "namespace", "labels")},
        "spec": {
            "template": {"spec": {key: member(pod, key) for key in ("containers", "nodeSelector")}}
        },
    }


def _node(item: dict[str, t.Any]) -> dict[str, t.Any]:
    """Fields of a Node for verdicts."""
    return {
        "metadata": item.get("metadata"),
        "spec": {"providerID": member(item, "spec", "providerID")},
        "status": {"nodeInfo": member(item, "status", "nodeInfo")},
    }
