# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Provisionings in a cluster: reservation of hosts, installer, agents and status."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ...base import documents
from ...base.argspec import KUBERNETES, LEASE, ArgumentSpec
from ...base.boundary import Finding, Subject, warn_of
from ...base.context import Context, Parameters, Result, difference
from ...base.errors import ApiError, InvalidInput, WattwiseError
from ...base.fields.lenient import member
from ...base.json_types import Object
from ...base.units import format_time
from ...kube.apply.steps import Applying
from ...kube.client import Guard, Kube
from ...kube.lease import alone
from ...kube.resource.conditions import Failure
from ...kube.resource.run import NOT_FOUND, Failed, Gone, ResourceKind, generation_of, stored_status
from ...solving.limits import LIMITS, Limits
from .. import bare_metal_host, host_hardware, role_assignment
from ..host import Host
from ..outputs import cluster_objects
from ..provisioning import API_VERSION, KIND
from ..role_assignment import AssignmentRequest
from ..roles.assignment import Answer, Question, assign
from ..roles.availability import HostKey, Owner, key_of
from . import agents, reservation
from .host_document import hosts_document
from .installation import (
    INPUTS_ANNOTATION,
    Installation,
    inputs_of,
    installation_of,
    stored_installation,
)
from .status import Agents, RunResults, reserving_status, status_of

FIELD_MANAGER = "wattwise-provisioning"
_KIND = ResourceKind(API_VERSION, KIND, FIELD_MANAGER)
LEASE_NAME = "wattwise-provisioning"
# Limit of attempts after hosts were lost to others; the next run then continues.
_ATTEMPTS = 8
_FORBIDDEN = 403
_OF_ASSIGNMENT = ("curves", "require_ip", "group_names", "ssh")
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
            "reserve": {
                "type": "str",
                "default": "consumer",
                "choices": list(reservation.MARKS),
            },
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

    def work(guard: Guard | None) -> Result:
        run = _Run(kube.guarded(guard), given, context, resource)
        run.applying.add(applying.result)
        return _KIND.told(run, given["on_error"])

    if not given["hardware"]:
        # Versions of BareMetalHosts resolve conflicts over a host; no other run has to wait.
        return work(None)
    return alone(kube, given, context, work, LEASE_NAME)


def _namespace(given: Parameters) -> Object:
    """The namespace, which may be missing in check mode."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": given["namespace"]}}


def _written(applying: Applying, given: Parameters, is_check_mode: bool) -> Object | None:
    """The Provisioning with the spec of the options, created or changed."""
    metadata: dict[str, t.Any] = {"name": given["name"], "namespace": given["namespace"]}
    if given["cluster"]:
        metadata["labels"] = {"cluster": given["cluster"]}
    head = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata}
    manifest = {**head, "spec": given["spec"]}
    applying.apply({"manifests": [manifest], "field_manager": FIELD_MANAGER})
    found = _KIND.find(applying.kube, given)
    if found is None:
        # In check mode it may not exist yet; otherwise it is being deleted.
        return manifest if is_check_mode else None
    return {**found, "spec": given["spec"]}


@dataclass
class _Run:
    """One run and its state."""

    kube: Kube
    given: Parameters
    context: Context
    resource: Object
    wanted: AssignmentRequest | None = None
    answer: Answer | None = None
    hosts: list[Host] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    outputs: Result = field(default_factory=dict)
    installation: Installation | None = None
    obstacle: Failure | None = None
    agents: Agents | None = None
    is_reserving: bool = False
    unwritable: dict[HostKey, str] = field(default_factory=dict)
    applying: Applying = field(init=False)

    def __post_init__(self) -> None:
        self.applying = Applying(self.kube, self.context, [_namespace(self.given)])

    def steps(self) -> None:
        """Read, keep the agents, reserve, write the outputs, install."""
        self._read()
        wanted = t.cast("AssignmentRequest", self.wanted)
        # Their readings may be what lets a host fit.
        self._keep_agents(wanted)
        self._reserve(wanted)
        self._store_reservation()
        self._render(wanted)
        self._document(wanted)
        self._install(wanted)

    def _read(self) -> None:
        resource = self.kube.resource(API_VERSION, KIND)
        others = self.kube.list(resource.collection(), trim=_provisioning)
        options = {
            "request": dict(self.resource),
            "cluster": self.given["cluster"],
            "former": None,
            "provisionings": others,
        }
        try:
            self.wanted = role_assignment.read_wanted(options)
        except InvalidInput as error:
            raise Failed("InvalidProvisioning", str(error)) from error
        mark = self.given["reserve"]
        rival = older_with_cluster(self.resource, self.wanted.cluster, others, mark)
        if rival:
            raise Failed(
                "ClusterNameTaken",
                f"The cluster name {self.wanted.cluster} belongs to {KIND} {rival}; give this "
                "one another label cluster, or delete one of the two",
            )

    def _reserve(self, wanted: AssignmentRequest) -> None:
        """Assign and mark the hosts; a host that another client changed leads to a new choice."""
        for _attempt in range(_ATTEMPTS):
            self._read_hosts()
            answer = self._assigned(wanted)
            labels = _labels_of(answer, wanted.cluster)
            mark = self.given["reserve"]
            if self._marked(reservation.reserving(self.hosts, labels, wanted.owner, mark)):
                self._refuse_a_deleted_one(wanted.owner)
                self._release(labels, wanted.owner)
                self.answer = answer
                return
        raise Failed(
            "HostsLost",
            f"Other writers changed the chosen hosts {_ATTEMPTS} times in a row; the next run "
            "chooses again",
        )

    def _read_hosts(self) -> None:
        namespaces, hardware = self.given["host_namespaces"], self.given["hardware"]
        objects: t.Sequence[t.Any] = ()
        told: t.Sequence[t.Any] = ()
        version, kind = bare_metal_host.API_VERSION, bare_metal_host.KIND
        # Hosts known only from Redfish need no Metal3.
        if not hardware or self.kube.serves(version, kind):
            objects = bare_metal_host.list_objects(self.kube, namespaces)
            told = host_hardware.list_objects(self.kube, namespaces)
        hosts, findings = role_assignment.read_all_hosts(objects, hardware, told)
        self.hosts = [self._without_refusal(host) for host in hosts]
        self.findings = [*(self.wanted.findings if self.wanted else ()), *findings]

    def _without_refusal(self, host: Host) -> Host:
        """The host, in error if the API server has refused a mark on it."""
        problem = self.unwritable.get(key_of(host))
        if problem is None:
            return host
        message = f"its reservation was refused: {problem}"
        return replace(host, operational_status="error", error_message=message)

    def _assigned(self, wanted: AssignmentRequest) -> Answer:
        """The answer. Raises Failed, after the hosts of earlier attempts were released."""
        given = self.given
        curves, of_curves = role_assignment.curves_of(given["curves"])
        self.findings += of_curves
        former, needs_ip = wanted.former, given["require_ip"]
        question = Question(
            wanted.request, self.hosts, wanted.owner, former, curves, needs_address=needs_ip
        )
        try:
            answer = assign(question, Limits.of(given))
            role_assignment.check_networks(wanted.request, answer)
        except InvalidInput as error:
            self._release(wanted.former, wanted.owner)
            raise Failed("HostsNotUsable", str(error)) from error
        if answer.outcome == "assigned":
            return answer
        # Hosts of the last assignment stay reserved: a cluster may run on them.
        self._release(wanted.former, wanted.owner)
        told = role_assignment.describe(answer)
        changes = told["changes"][:1]
        hint = f"; {changes[0]} to make it work" if changes else ""
        reason = "NotEnoughHosts" if answer.outcome == "infeasible" else "TimeOver"
        fields = {name: value for name, value in told.items() if name != "message"}
        sentence = f"Not every role gets a host: {told['message']}{hint}"
        failure = Failed(reason, sentence)
        failure.fields.update(fields)
        raise failure

    def _store_reservation(self) -> None:
        """Reserve hosts without BareMetalHost, for which only the status is a reservation.

        It must come first, because an interrupted run would leave them to others.
        """
        answer = t.cast("Answer", self.answer)
        if not self.given["hardware"]:
            return
        status = reserving_status(answer, stored_status(self.resource))
        if status is not None:
            _KIND.write_status(self, status)

    def _marked(self, changes: t.Sequence[reservation.Change]) -> bool:
        self.is_reserving = self.is_reserving or bool(changes)
        return not self._write_marks(changes)

    def _release(self, kept: t.Container[HostKey], owner: Owner) -> None:
        # A host that changed meanwhile is released by the next run.
        self._write_marks(reservation.releasing(self.hosts, kept, owner))

    def _write_marks(self, changes: t.Sequence[reservation.Change]) -> list[reservation.Refused]:
        refused = _write_marks(self.kube, changes, self.context, self.applying)
        for each in refused:
            if each.problem:
                self.unwritable[key_of(each.change.host)] = each.problem
        return refused

    def _refuse_a_deleted_one(self, owner: Owner) -> None:
        """Release all hosts of a Provisioning that was deleted while they were reserved."""
        uid = member(self.resource, "metadata", "uid")
        if not self.is_reserving or uid is None:
            return
        found = _KIND.find(self.kube, self.given)
        if member(found, "metadata", "uid") != uid:
            self._read_hosts()
            self._release((), owner)
            raise Gone("The Provisioning was deleted during the run")

    def _render(self, wanted: AssignmentRequest) -> None:
        answer = t.cast("Answer", self.answer)
        for sentence in answer.warnings:
            self.context.warn(sentence)
        options = {
            **self.given,
            "ssh_secret": self._ssh_secret(wanted),
            "user_data": self._user_data(answer),
        }
        warn_of(self.findings, self.context)
        self.outputs = role_assignment.outputs(
            wanted, answer.assignments, options, self.context, self.findings
        )
        self._apply([self.outputs["config_map"]], owner=self._owner(), foreign="refuse")

    def _document(self, wanted: AssignmentRequest) -> None:
        """Write the hosts document, which like all documents is no change of the cluster."""
        path, answer = self.given["document"], t.cast("Answer", self.answer)
        if path is not None and not self.context.check_mode:
            body = {"time": format_time(self.context.now())}
            documents.write(path, "hosts", {**hosts_document(answer, wanted.cluster), **body})

    def _ssh_secret(self, wanted: AssignmentRequest) -> Object | None:
        name = wanted.request.ssh.secret_name
        if not name:
            return None
        path = f"/api/v1/namespaces/{self.given['namespace']}/secrets/{name}"
        found = self.kube.find(path)
        if found is None:
            self.context.warn(f"spec.ssh.secretName: there is no Secret {name} in the namespace")
        return found

    def _user_data(self, answer: Answer) -> dict[str, str]:
        """User data of the chosen hosts by namespace and name of their Secrets."""
        found: dict[str, str] = {}
        for host in {key_of(each.host): each.host for each in answer.assignments}.values():
            if not self.given["read_user_data"] or not host.user_data_secret:
                continue
            try:
                data = self.kube.read_secret(host.namespace, host.user_data_secret)
            except ApiError as error:
                if error.status != _FORBIDDEN:
                    raise
                subject = Subject(bare_metal_host.KIND, host.name, host.namespace)
                self.findings.append(Finding(subject, "spec.userData", str(error)))
                continue
            key = f"{host.namespace}/{host.user_data_secret}"
            if data is not None:
                found[key] = data[0].get("userData") or data[0].get("value") or ""
        return found

    def _owner(self) -> dict[str, str] | None:
        if member(self.resource, "metadata", "uid") is None:
            return None
        place = {"namespace": self.given["namespace"], "name": self.given["name"]}
        return {"api_version": API_VERSION, "kind": KIND, **place}

    def _apply(self, given: t.Sequence[Object], **how: t.Any) -> None:
        how = {name: value for name, value in how.items() if value is not None}
        self.applying.apply({"manifests": list(given), "field_manager": FIELD_MANAGER, **how})

    def _install(self, wanted: AssignmentRequest) -> None:
        """Start the installer once for equal inputs, and track it."""
        image, unknown = self.given["installer_image"], self.outputs["hosts_without_key"]
        if not image:
            return
        if unknown:
            told = f"No host key is known for {', '.join(unknown[:10])}; the installer cannot go on"
            self.obstacle = Failure("NoHostKeys", told)
            return
        files = {name: self.outputs[name] for name in ("hosts_ini", "known_hosts")}
        annotations = member(self.resource, "metadata", "annotations") or {}
        inputs = inputs_of(wanted.request, files, image, annotations)
        stored = stored_installation(stored_status(self.resource))
        if stored and stored.inputs == inputs and stored.is_over:
            self.installation = stored
            return
        namespace = self.given["namespace"]
        name = f"kud-{wanted.cluster}"
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}"
        job = self.kube.find(path)
        pods = self._pods({"batch.kubernetes.io/job-name": name}) if job else []
        found = installation_of(job, pods) if job else None
        if found is None or (found.inputs != inputs and found.is_over):
            self._start(wanted, files, inputs)
            found = Installation(inputs, "Running")
        self.installation = found

    def _start(self, wanted: AssignmentRequest, files: Parameters, inputs: str) -> None:
        place = (wanted.cluster, self.given["namespace"])
        job = cluster_objects.installer_job(wanted.request, *place, self.given["installer_image"])
        job["metadata"]["annotations"] = {INPUTS_ANNOTATION: inputs}
        # Pods of a Job are immutable: an ended Job is replaced.
        job["spec"]["template"]["metadata"]["annotations"] = {INPUTS_ANNOTATION: inputs}
        data = cluster_objects.installer_files(*place, files["hosts_ini"], files["known_hosts"])
        self._apply([data, job], owner=self._owner(), foreign="refuse", recreate=True)

    def _pods(self, labels: t.Mapping[str, str]) -> list[dict[str, t.Any]]:
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        path = f"/api/v1/namespaces/{self.given['namespace']}/pods"
        return self.kube.list(path, {"labelSelector": selector}, _pod)

    def _keep_agents(self, wanted: AssignmentRequest) -> None:
        given, replicas = self.given, wanted.request.replicas
        name, namespace, image = given["name"], given["namespace"], given["agent_image"]
        command, account = given["agent_command"], given["agent_service_account"]
        pods = agents.AgentPods(replicas, image, command, account, given["host_namespaces"])
        made = agents.deployment(name, namespace, pods)
        if replicas and image:
            if command == [agents.PROGRAM] and not account:
                self.context.warn(
                    f"agent_service_account: {agents.PROGRAM} cannot read the cluster without an "
                    "account; give one with the permissions of operator/config/host-agents"
                )
            self._apply([made], owner=self._owner(), foreign="refuse")
        elif self.kube.find(_DEPLOYMENTS.format(namespace) + agents.deployment_name(name)):
            self._apply([made], state="absent")
        living = agents.agent_names(self._pods(agents.selector(name)))
        self.agents = Agents(replicas, bool(image), living)

    def result(self, failure: Failure | None) -> Result:
        """The findings and writes so far, and the status."""
        seen = RunResults(self.answer, self.installation, self.obstacle, self.agents, failure)
        status = status_of(seen, generation_of(self.resource), stored_status(self.resource))
        found = role_assignment.describe(self.answer) if self.answer is not None else {}
        findings = [finding.as_dict() for finding in self.findings]
        return {"found": True, **found, **self.outputs, "findings": findings, "status": status}


def _write_marks(
    kube: Kube, changes: t.Sequence[reservation.Change], context: Context, applying: Applying
) -> list[reservation.Refused]:
    """Write the marks, add the written ones to the result, and return the others."""
    refused = reservation.write(kube, changes, context.check_mode) if changes else []
    lost = [each.change for each in refused]
    applying.add(_marks_result([each for each in changes if each not in lost]))
    return refused


def _labels_of(answer: Answer, cluster: str) -> dict[HostKey, Object]:
    entries = cluster_objects.host_labels(answer.assignments, cluster)
    return {(each["namespace"], each["host"]): each["labels"] for each in entries}


def _marks_result(changes: t.Sequence[reservation.Change]) -> Result:
    """Changed marks in the form of the other results."""
    return {
        "changed": bool(changes),
        "diff": difference("Reserved hosts", [each.before_and_after for each in changes]),
        "results": [
            {
                "action": each.action,
                "api_version": bare_metal_host.API_VERSION,
                "kind": bare_metal_host.KIND,
                "name": each.host.name,
                "namespace": each.host.namespace,
            }
            for each in changes
        ],
    }


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
    place = kube.resource(API_VERSION, KIND).path(given["name"], given["namespace"])
    before = kube.find(place)
    if before is not None and not member(before, "metadata", "deletionTimestamp"):
        metadata = {"name": given["name"], "namespace": given["namespace"]}
        manifest = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata}
        applying.apply({"manifests": [manifest], "state": "absent"})
    owner = Owner(given["name"], given["namespace"])
    if not kube.serves(bare_metal_host.API_VERSION, bare_metal_host.KIND):
        return {**applying.result, "found": False}
    for _attempt in range(_ATTEMPTS):
        hosts = bare_metal_host.read_hosts(
            bare_metal_host.list_objects(kube, given["host_namespaces"])
        ).hosts
        changes = reservation.releasing(hosts, (), owner)
        refused = _write_marks(kube, changes, context, applying)
        if not refused:
            return {**applying.result, "found": False}
        problem = next((each.problem for each in refused if each.problem), "")
        if problem:
            raise WattwiseError(
                f"A host of {KIND} {owner.title} cannot be released: {problem}", **applying.result
            )
    raise WattwiseError(
        f"Hosts of {KIND} {owner.title} changed {_ATTEMPTS} times while they were released; run "
        "again",
        **applying.result,
    )


def _provisioning(item: dict[str, t.Any]) -> dict[str, t.Any]:
    """Identity and hosts of a Provisioning."""
    metadata = item.get("metadata") or {}
    names = ("name", "namespace", "labels", "creationTimestamp")
    return {
        "metadata": {name: metadata.get(name) for name in names},
        "status": {"assignments": member(item, "status", "assignments")},
    }


def _pod(item: dict[str, t.Any]) -> dict[str, t.Any]:
    metadata = item.get("metadata") or {}
    status = {key: member(item, "status", key) for key in ("phase", "containerStatuses")}
    return {
        "metadata": {key: metadata.get(key) for key in ("name", "deletionTimestamp")},
        "status": status,
    }
