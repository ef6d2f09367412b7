# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Kepler on the nodes of a cluster: verdicts, installation and status in one task."""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.boundary import warn_of
from ...base.context import Context, Parameters, Result
from ...base.errors import ApiError
from ...base.fields.lenient import only
from ...base.json_types import Object
from ...kube.apply.steps import Applying
from ...kube.client import Kube, UnknownKind
from ...kube.resource.conditions import Failure
from ...kube.resource.run import (
    Failed,
    Report,
    ResourceKind,
    Run,
    Work,
    missing_keys,
    owner_manifest,
    run_options,
)
from ...kube.source import without_bulk
from . import manifests, names, options, policy, rivals, status
from .groups import group
from .nodes import JudgedNode, judge_all
from .status import Observation
from .system import System, in_words_of_resource, read_system

FIELD_MANAGER = "wattwise-kepler"
_POLICY = ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
_MAX_REASONS = 3
_IDENTITY = only("kind", "metadata.name", "metadata.namespace")
# Labels of a workload, the images of its pods and their node selector.
_WORKLOAD = only(
    *("metadata.name", "metadata.namespace", "metadata.labels"),
    *("spec.template.spec.containers", "spec.template.spec.nodeSelector"),
)
# Fields of a Node for verdicts.
_NODE = only("metadata", "spec.providerID", "status.nodeInfo")
_KIND = ResourceKind(options.API_VERSION, options.KIND, FIELD_MANAGER, options.SYSTEM)

SPEC = run_options(
    "kepler",
    options.SYSTEM,
    {"force": {"type": "bool", "default": False}, "prune_max": {"type": "float", "default": 0.5}},
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
    return Work(_KIND, _steps, _report).reconcile(kube, given, context)


def _steps(run: Run) -> t.Iterator[Observation]:
    """Read, judge, install."""
    system = run.read(read_system)
    if run.resource is not None:
        system = in_words_of_resource(system)
    yield Observation(system)
    _refuse_rivals(run, system)
    for name, keys in system.needed_secrets:
        sentence = missing_keys(run.kube, system.namespace, name, keys)
        if sentence:
            raise Failed("SecretNotFound", sentence)
    judged = _judged_nodes(run, system)
    yield judged
    _refuse_no_group(run, judged)
    if judged.groups:
        _install(run, judged)


def _refuse_rivals(run: Run, system: System) -> None:
    kube = run.kube
    if run.given["force"]:
        return
    resources: list[Object] = []
    for kind in rivals.RIVAL_KINDS:
        if kube.serves(options.API_VERSION, kind):
            place = kube.resource(options.API_VERSION, kind)
            resources += kube.list(place.collection(), trim=_IDENTITY)
    found = rivals.rivals(
        system,
        kube.list("/apis/apps/v1/daemonsets", trim=_WORKLOAD),
        kube.list("/apis/apps/v1/deployments", trim=_WORKLOAD),
        resources,
    )
    if not found:
        return
    told = rivals.sentence(found, takes_force=run.resource is None)
    # Otherwise any creator of a Deployment could stop the upkeep of an installed Kepler.
    if not run.stored_status.get("appliedGeneration"):
        raise Failed("AnotherKepler", told)
    run.context.warn(told)


def _judged_nodes(run: Run, system: System) -> Observation:
    nodes, findings = judge_all(system, run.kube.list("/api/v1/nodes", trim=_NODE))
    warn_of(findings, run.context)
    judged = Observation(system, nodes, group(system, nodes), findings=findings)
    for remark in status.remarks(judged):
        run.context.warn(remark)
    return judged


def _refuse_no_group(run: Run, judged: Observation) -> None:
    if judged.groups:
        return
    if not run.context.check_mode:
        raise Failed("NoSupportedNode", _nothing_metered(judged.nodes))
    # A task before this one may label nodes.
    run.context.warn(_nothing_metered(judged.nodes))


def _install(run: Run, judged: Observation) -> None:
    kube, system = run.kube, judged.system
    is_openshift = kube.serves(*manifests.SCC)
    has_policies = kube.serves(*_POLICY)
    if not has_policies:
        run.context.warn(
            f"The cluster serves no {_POLICY[1]}, so nothing holds pods of namespace "
            f"{system.namespace} to Kepler's needs; use Kubernetes 1.30 or later"
        )
    namespace = manifests.namespace(system, is_openshift)
    run.applying.assumed.append(namespace)
    of_cluster = manifests.of_cluster(system, is_openshift)
    if has_policies:
        of_cluster += policy.manifests(system)
    run.write([namespace, *of_cluster])
    obsolete = manifests.obsolete_permissions(system)
    run.write([each for each in obsolete if _exists(kube, each)], state="absent")
    kinds = [
        {"api_version": version, "kind": kind, "namespace": system.namespace}
        for version, kind in manifests.PRUNED_KINDS
    ]
    run.write(
        manifests.in_namespace(system, judged.groups),
        owner=run.owner(names.owner_name(system.name)),
        prune=names.apply_set(system.name),
        prune_kinds=kinds,
        prune_max=1.0 if run.is_new_spec else run.given["prune_max"],
    )


def _report(run: Run, reached: Observation | None, failure: Failure | None) -> Report:
    """The present state, in the form of a KeplerSystem's status."""
    seen = None if reached is None else _with_collectors(run, reached)
    found = status.status_of(seen, failure, run.generation, run.stored_status)
    fields = {
        "status": found,
        "left_out": [
            {"node": node.name, "reason": node.reason} for node in (seen.left_out if seen else ())
        ],
        "findings": [finding.as_dict() for finding in (seen.findings if seen else ())],
    }
    return Report(fields, run.status_manifests(found))


def _with_collectors(run: Run, judged: Observation) -> Observation:
    """The observation with DaemonSets and pods, as far as they can be read."""
    if not judged.groups:
        return judged
    kube, system = run.kube, judged.system
    place = f"namespaces/{system.namespace}"
    selector = ",".join(f"{label}={value}" for label, value in names.pod_labels(system).items())
    own = {"labelSelector": f"{names.INSTANCE_LABEL}={system.name}"}
    try:
        daemon_sets = kube.list(f"/apis/apps/v1/{place}/daemonsets", own)
        judged = dataclasses.replace(judged, daemon_sets=daemon_sets)
        pods = kube.list(f"/api/v1/{place}/pods", {"labelSelector": selector}, without_bulk)
        return dataclasses.replace(judged, pods=pods)
    except ApiError as error:
        run.context.warn(f"The state of the collectors could not be read: {error}")
        return judged


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
