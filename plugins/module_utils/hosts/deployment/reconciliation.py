# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Provisionings in a cluster: reservation of hosts, installer, agents and status."""

from __future__ import annotations

import functools
import typing as t
from dataclasses import replace

from ...base import documents
from ...base.argspec import KUBERNETES, LEASE, ArgumentSpec
from ...base.boundary import Finding, Subject, warn_of
from ...base.context import Context, Parameters, Result
from ...base.errors import ApiError, InvalidInput, WattwiseError
from ...base.fields.lenient import member, only
from ...base.json_types import Object
from ...base.manifests import manifest_of
from ...base.units import format_time
from ...kube.apply.steps import Applying
from ...kube.client import Guard, Kube
from ...kube.lease import alone
from ...kube.resource.conditions import Failure
from ...kube.resource.run import NOT_FOUND, Failed, Report, ResourceKind, Run, Work
from ...solving.limits import LIMITS
from .. import bare_metal_host, role_assignment
from ..assignment_request import AssignmentRequest, read_assignment_request
from ..outputs import cluster_outputs
from ..provisioning import API_VERSION, KIND
from ..roles.assignment import Answer
from ..roles.availability import Owner, key_of
from . import agents, reservation
from .installation import install, list_pods, owned
from .reservation import ATTEMPTS, reserve, write_marks
from .status import Agents, RunResults, hosts_document, reserving_status, status_of

FIELD_MANAGER = "wattwise-provisioning"
_KIND = ResourceKind(API_VERSION, KIND, FIELD_MANAGER)
LEASE_NAME = "wattwise-provisioning"
_FORBIDDEN = 403
_OF_ASSIGNMENT = ("curves", "require_ip", "group_names", "ssh")
# Identity and hosts of a Provisioning.
_PROVISIONING = only(
    *("metadata.name", "metadata.namespace", "metadata.labels", "metadata.creationTimestamp"),
    "status.assignments",
)
_DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments/"

SPEC = KUBERNETES.merge(
    LEASE,
    ArgumentSpec(
        {
            "namespace": {"type": "str", "required": True},
            "name": {"type": "str", "required": True},
            "spec": {"type": "dict"},
            "cluster": {"type": "str"},
            "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
            "reserve": {"type": "str", "default": "consumer", "choices": list(reservation.MARKS)},
            "host_namespaces": {"type": "list", "elements": "str", "default": []},
            "hardware": {"type": "list", "elements": "dict", "default": []},
            "read_user_data": {"type": "bool", "default": False},
            "installer_image": {"type": "str", "default": ""},
            "agent_image": {"type": "str", "default": ""},
            "agent_command": {"type": "list", "elements": "str", "default": [agents.PROGRAM]},
            "agent_service_account": {"type": "str", "default": ""},
            **{name: role_assignment.SPEC.options[name] for name in _OF_ASSIGNMENT},
            "document": {"type": "path"},
            "on_error": {"type": "str", "default": "fail", "choices": ["report", "fail"]},
        }
    ),
).merge(LIMITS)


def reconcile(parameters: Parameters, context: Context = Context()) -> Result:
    """Reserve hosts for a Provisioning, follow its installer, keep its agents, write its status.

    Raises WattwiseError, with the results so far. The status gets the error first; with ``on_error:
    report`` it is only there and in the result.
    """
    given = SPEC.complete(parameters)
    kube = Kube.connect(given)
    if given["state"] == "absent":
        return _removed(kube, given, context)
    applying = Applying(kube, context, [_namespace(given)])
    resource = (
        _written(applying, given, context.check_mode)
        if given["spec"] is not None
        else _KIND.find(kube, given)
    )
    if resource is None:
        return dict(NOT_FOUND)
    work = Work(_KIND, functools.partial(_steps, resource), _report)

    def execute(guard: Guard | None) -> Result:
        guarded = kube.guarded(guard)
        made = Applying(guarded, context, [_namespace(given)])
        made.add(applying.result)
        return work.execute(Run(_KIND, guarded, given, context, resource, made))

    if not given["hardware"]:
        # Versions of BareMetalHosts resolve conflicts over a host; no other run has to wait.
        return execute(None)
    return alone(kube, given, context, execute, LEASE_NAME)


def _namespace(given: Parameters) -> Object:
    """The namespace, which may be missing in check mode."""
    return manifest_of("v1", "Namespace", given["namespace"])


def _written(applying: Applying, given: Parameters, is_check_mode: bool) -> Object | None:
    """The Provisioning with the spec of the options, created or changed."""
    labels = {"cluster": given["cluster"]} if given["cluster"] else None
    place = (given["name"], given["namespace"])
    manifest = manifest_of(API_VERSION, KIND, *place, labels, spec=given["spec"])
    applying.apply({"manifests": [manifest], "field_manager": FIELD_MANAGER})
    found = _KIND.find(applying.kube, given)
    if found is None:
        # In check mode it may not exist yet; otherwise it is being deleted.
        return manifest if is_check_mode else None
    return {**found, "spec": given["spec"]}


def _steps(resource: Object, run: Run) -> t.Iterator[RunResults]:
    """Read, keep the agents, reserve, write the outputs, install."""
    request = _read(run, resource)
    # Their readings may be what lets a host fit.
    seen = RunResults(agents=_keep_agents(run, request))
    yield seen
    answer, findings = yield from reserve(run, request, seen)
    seen = replace(seen, answer=answer, findings=findings)
    yield seen
    _store_reservation(run, answer)
    outputs, findings = _outputs(run, request, answer, findings)
    seen = replace(seen, findings=findings, outputs=outputs)
    yield seen
    run.write([outputs["config_map"]], **owned(run))
    _write_document(run, request, answer)
    installed = install(run, request, outputs)
    if isinstance(installed, Failure):
        yield replace(seen, obstacle=installed)
    else:
        yield replace(seen, installation=installed)


def _read(run: Run, resource: Object) -> AssignmentRequest:
    others = run.kube.list(run.kube.resource(API_VERSION, KIND).collection(), trim=_PROVISIONING)
    try:
        request = read_assignment_request(
            dict(resource), run.given["cluster"], provisionings=others
        )
    except InvalidInput as error:
        raise Failed("InvalidProvisioning", str(error)) from error
    rival = older_with_cluster(resource, request.owner.cluster, others, run.given["reserve"])
    if rival:
        raise Failed(
            "ClusterNameTaken",
            f"The cluster name {request.owner.cluster} belongs to {KIND} {rival}; give this "
            "one another label cluster, or delete one of the two",
        )
    return request


def _keep_agents(run: Run, request: AssignmentRequest) -> Agents:
    given, replicas = run.given, request.request.replicas
    name, namespace, image = given["name"], given["namespace"], given["agent_image"]
    command, account = given["agent_command"], given["agent_service_account"]
    pods = agents.AgentPods(replicas, image, command, account, given["host_namespaces"])
    made = agents.deployment(name, namespace, pods)
    if replicas and image:
        if command == [agents.PROGRAM] and not account:
            run.context.warn(
                f"agent_service_account: {agents.PROGRAM} cannot read the cluster without an "
                "account; give one with the permissions of operator/config/host-agents"
            )
        run.write([made], **owned(run))
    elif run.kube.find(_DEPLOYMENTS.format(namespace) + agents.deployment_name(name)):
        run.write([made], state="absent")
    living = agents.agent_names(list_pods(run, agents.selector(name)))
    return Agents(replicas, bool(image), living)


def _store_reservation(run: Run, answer: Answer) -> None:
    """Reserve hosts without BareMetalHost, for which only the status is a reservation.

    It must come first, because an interrupted run would leave them to others.
    """
    status = reserving_status(answer, run.stored_status) if run.given["hardware"] else None
    if status is not None:
        run.write_status(status)


def _outputs(
    run: Run, request: AssignmentRequest, answer: Answer, findings: t.Sequence[Finding]
) -> tuple[Result, list[Finding]]:
    """The outputs, and the findings with those of user data."""
    for sentence in answer.warnings:
        run.context.warn(sentence)
    secret = _ssh_secret(run, request)
    user_data, unreadable = _user_data(run, answer)
    warn_of([*findings, *unreadable], run.context)
    options = {**run.given, "ssh_secret": secret, "user_data": user_data}
    outputs, defects = cluster_outputs.outputs(request, answer.assignments, options, run.context)
    return outputs, [*findings, *unreadable, *defects]


def _write_document(run: Run, request: AssignmentRequest, answer: Answer) -> None:
    """Write the hosts document, which like all documents is no change of the cluster."""
    path = run.given["document"]
    if path is not None and not run.context.check_mode:
        body = {"time": format_time(run.context.now())}
        documents.write(path, "hosts", {**hosts_document(answer, request.owner.cluster), **body})


def _ssh_secret(run: Run, request: AssignmentRequest) -> Object | None:
    name = request.request.ssh.secret_name
    if not name:
        return None
    found = run.kube.find(f"/api/v1/namespaces/{run.given['namespace']}/secrets/{name}")
    if found is None:
        run.context.warn(f"spec.ssh.secretName: there is no Secret {name} in the namespace")
    return found


def _user_data(run: Run, answer: Answer) -> tuple[dict[str, str], list[Finding]]:
    """User data of the chosen hosts by namespace and name of their Secrets; forbidden ones."""
    found: dict[str, str] = {}
    forbidden: list[Finding] = []
    for host in {key_of(each.host): each.host for each in answer.assignments}.values():
        if not run.given["read_user_data"] or not host.user_data_secret:
            continue
        try:
            data = run.kube.read_secret(host.namespace, host.user_data_secret)
        except ApiError as error:
            if error.status != _FORBIDDEN:
                raise
            subject = Subject(bare_metal_host.KIND, host.name, host.namespace)
            forbidden.append(Finding(subject, "spec.userData", str(error)))
            continue
        if data is not None:
            value = data[0].get("userData") or data[0].get("value") or ""
            found[f"{host.namespace}/{host.user_data_secret}"] = value
    return found, forbidden


def _report(run: Run, reached: RunResults | None, failure: Failure | None) -> Report:
    """The findings so far, and the status."""
    seen = replace(reached or RunResults(), failure=failure)
    status = status_of(seen, run.generation, run.stored_status)
    fields = {
        **(seen.answer.as_dict() if seen.answer is not None else {}),
        **seen.outputs,
        "findings": [finding.as_dict() for finding in seen.findings],
        "status": status,
    }
    return Report(fields, run.status_manifests(status))


def older_with_cluster(
    own: Object, cluster: str, others: t.Sequence[Object], mark: reservation.Mark
) -> str:
    """The oldest Provisioning of this cluster as namespace/name; empty if it is the own one.

    ConfigMap and Job are named by the cluster in their namespace. Labels of hosts have no
    namespace, so Cluster API would confuse hosts of two clusters with one name.
    """
    mine = own["metadata"]["namespace"], own["metadata"]["name"]
    alike = [
        each["metadata"]
        for each in others
        if mark == "labels" or each["metadata"]["namespace"] == mine[0]
        if _cluster_of(each) == cluster
    ]
    order = sorted(
        (one.get("creationTimestamp") or "", one["namespace"], one["name"]) for one in alike
    )
    return "/".join(order[0][1:]) if order and order[0][1:] != mine else ""


def _cluster_of(resource: Object) -> str:
    metadata = resource["metadata"]
    return (metadata.get("labels") or {}).get("cluster") or str(metadata["name"])


def _removed(kube: Kube, given: Parameters, context: Context) -> Result:
    """Delete the Provisioning, and release its hosts; its objects go with it.

    The operator calls this for a Provisioning in deletion. A host whose release is refused is read
    again, and an error keeps the operator's finalizer.
    """
    applying = Applying(kube, context, ())
    before = kube.find(_KIND.resource_path(kube, given))
    if before is not None and not member(before, "metadata", "deletionTimestamp"):
        manifest = manifest_of(API_VERSION, KIND, given["name"], given["namespace"])
        applying.apply({"manifests": [manifest], "state": "absent"})
    owner = Owner(given["name"], given["namespace"])
    if not kube.serves(bare_metal_host.API_VERSION, bare_metal_host.KIND):
        return {**applying.result, "found": False}
    for _attempt in range(ATTEMPTS):
        hosts = bare_metal_host.read_hosts(
            bare_metal_host.list_objects(kube, given["host_namespaces"])
        ).hosts
        changes = reservation.releasing(hosts, (), owner)
        refused = write_marks(applying, changes)
        if not refused:
            return {**applying.result, "found": False}
        problem = next(filter(None, refused.values()), "")
        if problem:
            raise WattwiseError(
                f"A host of {KIND} {owner.title} cannot be released: {problem}", **applying.result
            )
    raise WattwiseError(
        f"Hosts of {KIND} {owner.title} changed {ATTEMPTS} times while they were released; run "
        "again",
        **applying.result,
    )
