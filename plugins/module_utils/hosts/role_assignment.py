# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Assignment of roles to hosts, the work of host_role_assignment."""

from __future__ import annotations

import functools
import math
import typing as t
from dataclasses import dataclass, replace

from ..base import documents
from ..base.argspec import ArgumentSpec
from ..base.boundary import Finding, InvalidField, Subject, guarded, shown, subject_of, warn_of
from ..base.context import Context, Parameters, Result
from ..base.errors import WattwiseError
from ..base.fields.lenient import objects
from ..base.fields.strict import mapping, text, text_mapping
from ..scheduling.curve import Curve, read_curve
from ..solving.limits import LIMITS, Limits
from .addresses import inventory_name
from .bare_metal_host import read_hosts
from .host import Host
from .host_hardware import read_told
from .outputs import cluster_objects, kubespray
from .outputs.kubespray import NODE_PREFIXES, ip_versions_of
from .outputs.ssh import (
    SshAccess,
    access_of,
    access_of_inventory,
    access_of_secret,
    access_of_user_data,
    file_path,
    keys_in_known_hosts,
    known_hosts_text,
    revocations,
)
from .provisioning import KIND, Request, read_request
from .redfish_hardware import host_of
from .roles.assignment import Answer, Assigned, Former, Question
from .roles.assignment import assign as assign_hosts
from .roles.availability import HostKey, Owner
from .roles.instance import FormerRole

SPEC = ArgumentSpec(
    {
        "hosts": {"type": "list", "elements": "dict"},
        "host_hardware": {"type": "list", "elements": "dict", "default": []},
        "hardware": {"type": "list", "elements": "dict"},
        "request": {"type": "dict", "required": True},
        "cluster": {"type": "str"},
        "former": {"type": "list", "elements": "dict"},
        "provisionings": {"type": "list", "elements": "dict", "default": []},
        "curves": {"type": "path"},
        "require_ip": {"type": "bool", "default": True},
        "group_names": {"type": "str", "default": "current", "choices": ["current", "legacy"]},
        "ssh": {
            "type": "dict",
            "default": {},
            "options": {
                "private_key_file": {"type": "str", "no_log": False},
                "known_hosts_file": {"type": "str"},
                "known_hosts": {"type": "str", "default": ""},
                "hosts": {"type": "dict", "default": {}},
            },
        },
        "ssh_secret": {"type": "dict", "no_log": True, "secret_keys": ["ssh-privatekey"]},
        "user_data": {"type": "dict", "no_log": True, "default": {}},
        "on_error": {"type": "str", "default": "fail", "choices": ["fail", "report"]},
    },
    required_one_of=(("hosts", "hardware"),),
).merge(LIMITS)

DEFAULT_CLUSTER = "cluster"
_VIRTLET = "virtlet-vm"


@dataclass(frozen=True)
class AssignmentRequest:
    """A Provisioning or only its spec, as input of the module.

    ``findings`` are defects of other Provisionings.
    """

    request: Request
    owner: Owner
    cluster: str
    former: Former
    is_virtlet: bool
    findings: tuple[Finding, ...] = ()


def assign(parameters: Parameters, context: Context = Context()) -> Result:
    """Assign roles to hosts; change nothing.

    The result is that of the module. Raises InvalidInput, and WattwiseError with the shortages if
    roles stay without a host.
    """
    options = SPEC.complete(parameters)
    limits = Limits.of(options)
    wanted = read_wanted(options)
    hosts, findings = read_all_hosts(
        options["hosts"] or [], options["hardware"] or [], options["host_hardware"]
    )
    curves, of_curves = curves_of(options["curves"])
    findings += [*wanted.findings, *of_curves]
    warn_of(findings, context)
    question = Question(
        wanted.request, hosts, wanted.owner, wanted.former, curves, options["require_ip"]
    )
    answer = assign_hosts(question, limits)
    check_networks(wanted.request, answer)
    result = {"changed": False, **describe(answer)}
    if answer.outcome == "assigned":
        result |= outputs(wanted, answer.assignments, options, context, findings)
    result["findings"] = [finding.as_dict() for finding in findings]
    for sentence in (*answer.warnings, *_small_subnet(wanted.request, answer)):
        context.warn(sentence)
    if answer.outcome != "assigned" and options["on_error"] == "fail":
        reason = result.pop("message")
        raise WattwiseError(f"Not every role gets a host: {reason}", **result)
    return result


def read_wanted(options: Parameters) -> AssignmentRequest:
    """The request of the options. Raises InvalidInput."""
    given = options["request"]
    whole = given if "spec" in given else {"spec": given}
    if whole.get("kind", KIND) != KIND:
        raise InvalidField("request.kind", f"{shown(whole['kind'])} is not {KIND}")
    metadata = mapping(whole.get("metadata"), "request.metadata")
    labels = text_mapping(metadata.get("labels"), "request.metadata.labels")
    name, namespace = (
        text(metadata.get(part), f"request.metadata.{part}") for part in ("name", "namespace")
    )
    cluster = cluster_objects.cluster_name(
        options["cluster"] or labels.get("cluster") or name or DEFAULT_CLUSTER, "cluster"
    )
    former = options["former"]
    if former is None:
        former = mapping(whole.get("status"), "request.status").get("assignments")
    reserved, findings = reservations(options["provisionings"], metadata)
    owner = Owner(name, namespace, cluster, reserved)
    return AssignmentRequest(
        read_request(whole["spec"]),
        owner,
        cluster,
        former_roles(former),
        labels.get("cluster-type") == _VIRTLET,
        tuple(findings),
    )


def read_all_hosts(
    given: t.Sequence[t.Any], hardware: t.Sequence[t.Any], host_hardware: t.Sequence[t.Any] = ()
) -> tuple[list[Host], list[Finding]]:
    """The given BareMetalHosts, and hosts known only from Redfish; each defect affects only its host.

    ``host_hardware`` are objects that complete the BareMetalHosts.
    """
    told, defects = read_told(host_hardware)
    hosts, findings = read_hosts(given, told=told)
    findings = [*defects, *findings]
    for index, entry in enumerate(hardware):
        subject = subject_of(entry, "Host", f"hardware[{index}]")
        read = guarded(subject, functools.partial(host_of, entry))
        if isinstance(read, Finding):
            findings.append(read)
        else:
            hosts.append(read)
            findings += [Finding(subject, "", sentence) for sentence in read.findings]
    return hosts, findings


def former_roles(assignments: t.Any) -> Former:
    """The roles in status.assignments, by host. Unreadable entries are ignored."""
    found: dict[HostKey, tuple[FormerRole, ...]] = {}
    for entry in objects(assignments):
        key = _host_key(entry)
        if key and entry.get("role") in ("master", "worker") and _is_name(entry.get("label")):
            found[key] = (*found.get(key, ()), FormerRole(entry["role"], entry["label"]))
    return found


def _is_name(label: t.Any) -> bool:
    try:
        inventory_name(label, "label")
    except InvalidField:
        return False
    return True


def reservations(
    provisionings: t.Sequence[t.Any], own: t.Mapping[str, t.Any]
) -> tuple[dict[HostKey, str], list[Finding]]:
    """The hosts in status.assignments of other Provisionings, with the Provisioning's name.

    Each readable entry counts, even if other parts of its Provisioning are defective.
    """
    found: dict[HostKey, str] = {}
    findings: list[Finding] = []
    for index, obj in enumerate(provisionings):
        subject = subject_of(obj, KIND, f"provisionings[{index}]")
        named = guarded(subject, functools.partial(_identity, obj))
        if named == (own.get("name", ""), own.get("namespace", "")):
            continue
        entries = guarded(subject, functools.partial(_entries, obj))
        findings += [each for each in (named, entries) if isinstance(each, Finding)]
        for entry in entries if isinstance(entries, list) else []:
            key = _host_key(entry)
            if key:
                found.setdefault(key, str(subject))
            else:
                findings.append(Finding(subject, "status.assignments", "an entry names no host"))
    return found, list(dict.fromkeys(findings))


def _identity(provisioning: t.Any) -> tuple[str, str]:
    metadata = mapping(mapping(provisioning, "").get("metadata"), "metadata")
    name, namespace = metadata.get("name"), metadata.get("namespace")
    return text(name, "metadata.name"), text(namespace, "metadata.namespace")


def _entries(provisioning: t.Any) -> list[t.Any]:
    status = mapping(mapping(provisioning, "").get("status"), "status")
    entries = status.get("assignments")
    if entries is not None and not isinstance(entries, list):
        raise InvalidField("status.assignments", f"{shown(entries)} is not a list")
    return entries or []


def _host_key(entry: t.Any) -> HostKey | None:
    if not isinstance(entry, dict):
        return None
    name, namespace = entry.get("host"), entry.get("namespace") or ""
    return (namespace, name) if isinstance(name, str) and isinstance(namespace, str) else None


def curves_of(path: str | None) -> tuple[dict[str, Curve], list[Finding]]:
    """Power curves of a document, by the name of the host; a host's curve may be defective."""
    curves: dict[str, Curve] = {}
    findings: list[Finding] = []
    given = documents.load(path, "curves")["curves"] if path is not None else {}
    for name, curve in given.items():
        read = guarded(Subject("Curve", name), functools.partial(read_curve, curve, str(path)))
        if isinstance(read, Finding):
            findings.append(read)
        else:
            curves[name] = read
    return curves, findings


def check_networks(request: Request, answer: Answer) -> None:
    """Raise InvalidField if networks of pods, services and named hosts overlap.

    A host without a MAC address in the request, but with an address in such a network, gets no
    role.
    """
    named = {network.version for network in request.subnets.values()}
    for version in named | ip_versions_of(answer.assignments) or {4}:
        pods, services = request.networks(version)
        if pods.network.overlaps(services.network):
            own, other = (services, pods) if pods.is_default else (pods, services)
            raise InvalidField(
                f"spec.{own.field}",
                f"{own.network} overlaps with {other}; write another subnet, or {other.field}",
            )
    for each in answer.assignments:
        for ip in filter(None, (each.ip, each.ip6)):
            network = request.network_with(ip)
            if network is not None:
                raise InvalidField(
                    f"spec.{network.field}",
                    f"{network.origin}{network.network} overlaps with the network of the hosts: "
                    f"{each.host.name} has {ip}; write another subnet",
                )


def _small_subnet(request: Request, answer: Answer) -> t.Iterator[str]:
    nodes = len({(each.host.namespace, each.host.name) for each in answer.assignments})
    for version in sorted(ip_versions_of(answer.assignments)):
        pods, _services = request.networks(version)
        length, of_node = pods.network.prefixlen, NODE_PREFIXES[version]
        room = 2 ** max(0, of_node - length)
        if length > of_node:
            yield (
                f"spec.PodSubnet: {pods.network} is smaller than a node's /{of_node}; write a "
                "larger subnet"
            )
        elif nodes > room:
            yield (
                f"spec.PodSubnet: {pods} has addresses for {room} "
                f"{'node' if room == 1 else 'nodes'}, and the cluster has {nodes}; write a larger "
                "subnet"
            )


def describe(answer: Answer) -> Result:
    """The answer in the form of module results."""
    explanation = answer.explanation
    message = explanation.message if explanation else ""
    if answer.outcome == "unknown":
        message = "the time limit ended the search before an answer was found; raise time_limit"
    return {
        "outcome": answer.outcome,
        "message": message,
        "assignments": [each.as_dict() for each in answer.assignments],
        "unassigned": [
            {"host": each.host.name, "namespace": each.host.namespace, "reason": each.reason}
            for each in answer.unassigned
        ],
        "proven": answer.is_proven,
        "objective": [
            {
                "level": level.name,
                "value": level.value,
                "bound": level.bound if math.isfinite(level.bound) else None,
            }
            for level in answer.objective
        ],
        "shortages": [
            {
                "item": each.where,
                "role": each.role,
                "wanted": each.wanted,
                "missing": each.missing,
                "fitting": each.fitting,
                "failing": [
                    {"requirement": one.requirement, "hosts": one.hosts, "unknown": one.unknown}
                    for one in each.failing
                ],
            }
            for each in (explanation.shortages if explanation else ())
        ],
        "changes": [each.text for each in (explanation.changes if explanation else ())],
    }


def outputs(
    wanted: AssignmentRequest,
    assignments: t.Sequence[Assigned],
    options: Parameters,
    context: Context,
    findings: list[Finding] | None = None,
) -> Result:
    """Inventories and objects of the assignment. Defects of user data are added to ``findings``."""
    access = ssh_access(wanted.request, assignments, options, context, findings)
    addresses = {each.label: each.ip for each in assignments if each.ip}
    namespace, cluster = wanted.owner.namespace, wanted.cluster
    known_hosts_file = options["ssh"].get("known_hosts_file")
    _of_secret, known, _doubts = _told_hosts(options)
    return {
        "inventory": kubespray.kubespray_inventory(
            assignments,
            wanted.request,
            access,
            options["group_names"],
            file_path(known_hosts_file, "ssh.known_hosts_file"),
        ),
        "hosts_ini": kubespray.hosts_ini(assignments, access, is_virtlet=wanted.is_virtlet),
        "known_hosts": known_hosts_text(
            ((ip, access[label]) for label, ip in addresses.items()), revocations(known)
        ),
        "hosts_without_key": [label for label in addresses if not access[label].host_keys],
        "config_map": cluster_objects.config_map(assignments, cluster, namespace),
        "host_labels": cluster_objects.host_labels(assignments, cluster),
        "cluster_api": cluster_objects.cluster_api_values(assignments, wanted.request, cluster),
    }


def _told_hosts(options: Parameters) -> tuple[SshAccess, str, list[str]]:
    """The access from the Secret, the known_hosts of all sources, and warnings about the Secret."""
    known = options["ssh"]["known_hosts"]
    if options["ssh_secret"] is None:
        return SshAccess(), known, []
    of_secret, of_file, doubts = access_of_secret(options["ssh_secret"])
    return of_secret, f"{known}\n{of_file}", doubts


def ssh_access(
    request: Request,
    assignments: t.Sequence[Assigned],
    options: Parameters,
    context: Context,
    findings: list[Finding] | None = None,
) -> dict[str, SshAccess]:
    """SSH access to each host by its label, from all sources, without revoked keys.

    A host's unreadable entry or user data is ignored; its defect is a warning, and added to
    ``findings``.
    """
    given = options["ssh"]
    of_secret, known, doubts = _told_hosts(options)
    for doubt in doubts:
        context.warn(f"ssh_secret: {doubt}")
    revoked = frozenset(revocations(known).values())
    key = SshAccess(private_key=file_path(given["private_key_file"], "ssh.private_key_file"))
    found: dict[str, SshAccess] = {}
    defects: dict[Finding, None] = {}
    for each in assignments:
        told = [
            _of_inventory(each, given["hosts"]),
            _of_user_data(each.host, options["user_data"]),
        ]
        defects |= {source: None for source in told if isinstance(source, Finding)}
        usable = [source.without(revoked) for source in told if isinstance(source, SshAccess)]
        access = access_of(request.ssh, *usable, of_secret, key)
        if not access.host_keys and each.ip:
            keys = keys_in_known_hosts(known, each.ip, access.port)
            access = replace(access, host_keys=keys).without(revoked)
        found[each.label] = access
    warn_of(list(defects), context)
    if findings is not None:
        findings += defects
    return found


def _of_inventory(assigned: Assigned, given: t.Mapping[str, t.Any]) -> SshAccess | Finding:
    """Access from the inventory's variables, by the label or name of the host."""
    host, name = assigned.host, assigned.label
    if not given.get(name):
        name = host.name
    return guarded(
        Subject("BareMetalHost", host.name, host.namespace),
        functools.partial(access_of_inventory, given.get(name), f"ssh.hosts.{name}"),
    )


def _of_user_data(host: Host, user_data: t.Mapping[str, t.Any]) -> SshAccess | Finding:
    """Access from the host's user data, by ``namespace/name`` of its Secret."""
    if not host.user_data_secret:
        return SshAccess()
    name = f"{host.namespace}/{host.user_data_secret}"
    return guarded(
        Subject("BareMetalHost", host.name, host.namespace),
        functools.partial(access_of_user_data, user_data.get(name), f"user_data.{name}"),
    )
