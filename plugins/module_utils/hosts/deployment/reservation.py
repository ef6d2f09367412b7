# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Choice of hosts for a Provisioning, their reservation by marks on BareMetalHosts, and release.

Each mark is written on condition of the version that was read. One of two writers is refused, reads
again, and finds another host. No host is shared with other writers: Metal3, Cluster API or another
Provisioning.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, replace

from ...base.boundary import Finding
from ...base.context import difference
from ...base.errors import ApiError, InvalidInput
from ...base.fields.lenient import member
from ...base.json_types import Object
from ...kube.apply.steps import Applying
from ...kube.client import MERGE_CONTENT_TYPE, Kube
from ...kube.resource.run import Failed, Gone, Run
from ...scheduling.curve import Curve
from ...solving.limits import Limits
from .. import bare_metal_host, host_hardware
from ..assignment_request import AssignmentRequest
from ..bare_metal_host import read_all_hosts
from ..host import Host
from ..outputs import cluster_objects
from ..outputs.kubespray import check_networks
from ..provisioning import API_VERSION, KIND
from ..roles.assignment import Answer, Question, assign
from ..roles.availability import (
    CLUSTER_LABEL,
    PROVISIONING_ANNOTATION,
    ROLE_LABEL,
    HostKey,
    Owner,
    host_text,
    key_of,
)
from ..roles.instance import read_curves
from .status import RunResults

# Limit of attempts after hosts were lost to others; the next run then continues.
ATTEMPTS = 8

Mark = t.Literal["consumer", "labels"]
MARKS: tuple[Mark, ...] = t.get_args(Mark)
Labels = t.Mapping[HostKey, t.Mapping[str, str]]


@dataclass(frozen=True)
class Change:
    """A change of one host's mark; ``patch`` is a JSON merge patch."""

    host: Host
    patch: Object
    action: str

    @property
    def before_and_after(self) -> tuple[str, t.Any, t.Any]:
        """The entry of a difference."""
        before = {"consumer": self.host.consumer or "", "labels": _own_labels(self.host)}
        return host_text(self.host), before, self.patch


# Hosts whose change was not written; the problem is empty for a changed or deleted host.
Refused = t.Mapping[HostKey, str]


def reserve(
    run: Run, request: AssignmentRequest, seen: RunResults
) -> t.Generator[RunResults, None, tuple[Answer, list[Finding]]]:
    """The answer whose hosts are marked, and defects of its inputs.

    A host that another client changed leads to a new choice. Yields ``seen`` with the findings of
    each attempt. Raises Failed, and Gone.
    """
    refusals: dict[HostKey, str] = {}
    is_reserving = False
    for _attempt in range(ATTEMPTS):
        hosts, findings = _read_hosts(run, refusals)
        yield replace(seen, findings=[*request.findings, *findings])
        curves = read_curves(run.given["curves"])
        findings = [*request.findings, *findings, *curves.findings]
        yield replace(seen, findings=findings)
        answer = _assigned(run, request, hosts, curves.by_node)
        entries = cluster_objects.host_labels(answer.assignments, request.owner.cluster)
        labels = {(each["namespace"], each["host"]): each["labels"] for each in entries}
        changes = reserving(hosts, labels, request.owner, run.given["reserve"])
        is_reserving = is_reserving or bool(changes)
        refused = write_marks(run.applying, changes)
        if not refused:
            if is_reserving:
                _refuse_a_deleted_one(run, request, refusals)
            _release(run, request, hosts, labels)
            return answer, findings
        refusals |= {key: problem for key, problem in refused.items() if problem}
    raise Failed(
        "HostsLost",
        f"Other writers changed the chosen hosts {ATTEMPTS} times in a row; the next run "
        "chooses again",
    )


def _read_hosts(run: Run, refusals: t.Mapping[HostKey, str]) -> tuple[list[Host], list[Finding]]:
    """All hosts; one whose mark the API server has refused is in error."""
    namespaces, hardware = run.given["host_namespaces"], run.given["hardware"]
    objects: t.Sequence[t.Any] = ()
    told: t.Sequence[t.Any] = ()
    # Hosts known only from Redfish need no Metal3.
    if not hardware or run.kube.serves(bare_metal_host.API_VERSION, bare_metal_host.KIND):
        objects = bare_metal_host.list_objects(run.kube, namespaces)
        told = host_hardware.list_objects(run.kube, namespaces)
    hosts, findings = read_all_hosts(objects, hardware, told)
    for index, host in enumerate(hosts):
        if key_of(host) in refusals:
            message = f"its reservation was refused: {refusals[key_of(host)]}"
            hosts[index] = replace(host, operational_status="error", error_message=message)
    return hosts, findings


def _assigned(
    run: Run, request: AssignmentRequest, hosts: t.Sequence[Host], curves: t.Mapping[str, Curve]
) -> Answer:
    """The answer. Raises Failed, after the hosts of earlier attempts were released."""
    needed, given = run.given["require_ip"], request.request
    question = Question(given, hosts, request.owner, curves, needed)
    try:
        answer = assign(question, Limits.of(run.given))
        check_networks(given, answer)
    except InvalidInput as error:
        _release(run, request, hosts, request.owner.former)
        raise Failed("HostsNotUsable", str(error)) from error
    if answer.outcome == "assigned":
        return answer
    # Hosts of the last assignment stay reserved: a cluster may run on them.
    _release(run, request, hosts, request.owner.former)
    fields = answer.as_dict()
    message, changes = fields.pop("message"), fields["changes"][:1]
    hint = f"; {changes[0]} to make it work" if changes else ""
    reason = "NotEnoughHosts" if answer.outcome == "infeasible" else "TimeOver"
    raise Failed(reason, f"Not every role gets a host: {message}{hint}", **fields)


def _release(
    run: Run, request: AssignmentRequest, hosts: t.Sequence[Host], kept: t.Container[HostKey]
) -> None:
    # A host that changed meanwhile is released by the next run.
    changes = releasing(hosts, kept, request.owner)
    write_marks(run.applying, changes)


def _refuse_a_deleted_one(
    run: Run, request: AssignmentRequest, refusals: t.Mapping[HostKey, str]
) -> None:
    """Release all hosts of a Provisioning that was deleted while they were reserved."""
    uid = member(run.resource, "metadata", "uid")
    if uid is None or member(run.resource_kind.find(run.kube, run.given), "metadata", "uid") == uid:
        return
    hosts, _findings = _read_hosts(run, refusals)
    _release(run, request, hosts, ())
    raise Gone("The Provisioning was deleted during the run")


def write_marks(applying: Applying, changes: t.Sequence[Change]) -> Refused:
    """Write the marks, add the written ones to the result, and return the others."""
    check_mode = applying.context.check_mode
    refused = write(applying.kube, changes, check_mode) if changes else {}
    written = [each for each in changes if key_of(each.host) not in refused]
    results = [
        {
            "action": each.action,
            "api_version": bare_metal_host.API_VERSION,
            "kind": bare_metal_host.KIND,
            "name": each.host.name,
            "namespace": each.host.namespace,
        }
        for each in written
    ]
    diff = difference("Reserved hosts", [each.before_and_after for each in written])
    applying.add({"changed": bool(written), "diff": diff, "results": results})
    return refused


def reserving(hosts: t.Sequence[Host], wanted: Labels, owner: Owner, mark: Mark) -> list[Change]:
    """Changes that mark the wanted hosts. ``wanted`` are the labels of each by its key."""
    chosen = [host for host in hosts if key_of(host) in wanted]
    patches = [_marking(host, wanted[key_of(host)], owner, mark) for host in chosen]
    return _changes(zip(chosen, patches), "reserved")


def releasing(hosts: t.Sequence[Host], kept: t.Container[HostKey], owner: Owner) -> list[Change]:
    """Changes that remove this owner's marks from all hosts except the kept ones."""
    patches = [(host, _unmarking(host, owner)) for host in hosts if key_of(host) not in kept]
    return _changes(patches, "released")


def _changes(patches: t.Iterable[tuple[Host, Object]], action: str) -> list[Change]:
    """Changes of BareMetalHosts; a host known only from Redfish bears no mark."""
    return [
        Change(host, patch, action)
        for host, patch in patches
        if patch and host.source == bare_metal_host.KIND
    ]


def write(kube: Kube, changes: t.Sequence[Change], check_mode: bool) -> Refused:
    """Write each change if its host is unchanged; return the refused ones.

    A CRD or an admission policy may refuse one host (HTTP 400, 422) and accept the others.
    Raises ApiError for any other failure.
    """
    query = {"dryRun": "All"} if check_mode else {}
    resource = kube.resource(bare_metal_host.API_VERSION, bare_metal_host.KIND)

    def send(change: Change) -> tuple[HostKey, str] | None:
        host = change.host
        metadata = {**change.patch.get("metadata", {}), "resourceVersion": host.resource_version}
        body = {**change.patch, "metadata": metadata}
        path = resource.path(host.name, host.namespace)
        try:
            kube.request("PATCH", path, body, MERGE_CONTENT_TYPE, query)
        except ApiError as error:
            if error.status in (404, 409):
                return key_of(host), ""
            if error.status in (400, 422):
                return key_of(host), str(error)
            raise
        return None

    return dict(filter(None, kube.in_parallel(send, changes)))


def _marking(host: Host, labels: t.Mapping[str, str], owner: Owner, mark: Mark) -> dict[str, t.Any]:
    if mark == "consumer":
        patch = {} if _annotation(host) != owner.title else _unlabelled()
        if host.consumer != owner.consumer:
            reference = {"namespace": owner.namespace, "name": owner.name}
            consumer = {"apiVersion": API_VERSION, "kind": KIND, **reference}
            patch["spec"] = {"consumerRef": consumer}
        return patch
    patch = {}
    if _annotation(host) != owner.title or _own_labels(host) != labels:
        annotations = {PROVISIONING_ANNOTATION: owner.title}
        patch["metadata"] = {"labels": dict(labels), "annotations": annotations}
    if host.consumer == owner.consumer:
        patch["spec"] = {"consumerRef": None}
    return patch


def _unmarking(host: Host, owner: Owner) -> dict[str, t.Any]:
    patch = _unlabelled() if _annotation(host) == owner.title else {}
    if host.consumer == owner.consumer:
        patch["spec"] = {"consumerRef": None}
    return patch


def _unlabelled() -> dict[str, t.Any]:
    nothing = {"labels": {CLUSTER_LABEL: None, ROLE_LABEL: None}}
    return {"metadata": {**nothing, "annotations": {PROVISIONING_ANNOTATION: None}}}


def _annotation(host: Host) -> str:
    return host.annotations.get(PROVISIONING_ANNOTATION, "")


def _own_labels(host: Host) -> dict[str, str]:
    names = (CLUSTER_LABEL, ROLE_LABEL)
    return {name: host.labels[name] for name in names if name in host.labels}
