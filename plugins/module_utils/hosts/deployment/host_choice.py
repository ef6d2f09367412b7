# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Choice of hosts for a Provisioning, and the marks on them."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ...base.boundary import Finding
from ...base.context import Result, difference
from ...base.errors import InvalidInput
from ...base.fields.lenient import member
from ...base.json_types import Object
from ...kube.apply.steps import Applying
from ...kube.resource.run import Failed, Gone, Run
from ...scheduling.curve import Curve
from ...solving.limits import Limits
from .. import bare_metal_host, host_hardware
from ..assignment_request import AssignmentRequest
from ..host import Host
from ..host_sources import read_all_hosts
from ..outputs import cluster_objects
from ..outputs.networks import check_networks
from ..roles.assignment import Answer, Question, assign
from ..roles.availability import HostKey, key_of
from ..roles.idle_power import read_curves
from . import reservation
from .status import RunResults

# Limit of attempts after hosts were lost to others; the next run then continues.
ATTEMPTS = 8


class Reserved(t.NamedTuple):
    """The answer whose hosts are marked, and defects of its inputs."""

    answer: Answer
    findings: t.Sequence[Finding]


def reserve(
    run: Run, request: AssignmentRequest, seen: RunResults
) -> t.Generator[RunResults, None, Reserved]:
    """Assign and mark the hosts; a host that another client changed leads to a new choice.

    Yields ``seen`` with the findings of each attempt. Raises Failed, and Gone.
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
        labels = _labels_of(answer, request.cluster)
        changes = reservation.reserving(hosts, labels, request.owner, run.given["reserve"])
        is_reserving = is_reserving or bool(changes)
        refused = write_marks(run.applying, changes, run.context.check_mode)
        if not refused:
            if is_reserving:
                _refuse_a_deleted_one(run, request, refusals)
            _release(run, request, hosts, labels)
            return Reserved(answer, findings)
        refusals |= {key_of(each.change.host): each.problem for each in refused if each.problem}
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
    return [_without_refusal(host, refusals.get(key_of(host))) for host in hosts], findings


def _without_refusal(host: Host, problem: str | None) -> Host:
    if problem is None:
        return host
    message = f"its reservation was refused: {problem}"
    return replace(host, operational_status="error", error_message=message)


def _assigned(
    run: Run,
    request: AssignmentRequest,
    hosts: t.Sequence[Host],
    curves: t.Mapping[str, Curve],
) -> Answer:
    """The answer. Raises Failed, after the hosts of earlier attempts were released."""
    question = Question(
        request.request,
        hosts,
        request.owner,
        request.former,
        curves,
        needs_address=run.given["require_ip"],
    )
    try:
        answer = assign(question, Limits.of(run.given))
        check_networks(request.request, answer)
    except InvalidInput as error:
        _release(run, request, hosts, request.former)
        raise Failed("HostsNotUsable", str(error)) from error
    if answer.outcome == "assigned":
        return answer
    # Hosts of the last assignment stay reserved: a cluster may run on them.
    _release(run, request, hosts, request.former)
    fields = answer.as_dict()
    message, changes = fields.pop("message"), fields["changes"][:1]
    hint = f"; {changes[0]} to make it work" if changes else ""
    reason = "NotEnoughHosts" if answer.outcome == "infeasible" else "TimeOver"
    raise Failed(reason, f"Not every role gets a host: {message}{hint}", **fields)


def _release(
    run: Run,
    request: AssignmentRequest,
    hosts: t.Sequence[Host],
    kept: t.Container[HostKey],
) -> None:
    # A host that changed meanwhile is released by the next run.
    changes = reservation.releasing(hosts, kept, request.owner)
    write_marks(run.applying, changes, run.context.check_mode)


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


def write_marks(
    applying: Applying, changes: t.Sequence[reservation.Change], is_check_mode: bool
) -> list[reservation.Refused]:
    """Write the marks, add the written ones to the result, and return the others."""
    refused = reservation.write(applying.kube, changes, is_check_mode) if changes else []
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
