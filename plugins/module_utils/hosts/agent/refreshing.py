# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""One round of a host agent: read the BMCs of a Provisioning's hosts, and store the facts.

A host is read if the Provisioning holds it or may take it, and if it has a Redfish address and a
Secret.
Passwords go to the address in the same BareMetalHost that names the Secret, as in Metal3, but never
over plain HTTP or to a BMC with an unverified certificate.
"""

from __future__ import annotations

import functools
import threading
import typing as t
from dataclasses import dataclass, field

from ...base.boundary import Finding, Subject, guarded
from ...base.context import Context, Result
from ...base.errors import ApiError, InvalidInput
from ...base.fields.lenient import member, text
from ...fleet.credentials import CredentialReference
from ...kube.client import APPLY_CONTENT_TYPE, Guard, Kube
from ...nodeconfig.bare_metal import redfish_endpoint
from ...nodeconfig.poll import PollTarget
from .. import bare_metal_host, host_hardware, provisioning, redfish_hardware
from ..assignment_request import read_assignment_request
from ..host import Host
from ..roles.availability import host_text, key_of, refusals

FIELD_MANAGER = "wattwise-host-agent"
# Number of concurrent BMCs. Each answer has a budget, and a pod has 256 MiB.
CONCURRENCY = 8
# The hardware may be the cause of a host's error.
_READ_ALL_THE_SAME = ("error", "address")

Say = t.Callable[[str], None]


@dataclass(frozen=True)
class Rounds:
    """Rounds for one Provisioning, with a memory of accounts and reported failures.

    ``say`` gets a sentence about each host that became readable or unreadable. ``timeout`` is in
    seconds, for all requests to one BMC.
    """

    kube: Kube
    place: tuple[str, str]
    host_namespaces: t.Sequence[str]
    context: Context
    say: Say
    timeout: float
    _refused_accounts: dict[str, Result] = field(default_factory=dict, init=False)
    _told: dict[str, str] = field(default_factory=dict, init=False)

    def run(self, guard: Guard, stop: threading.Event) -> None:
        """Read all hosts, some at once, until ``stop`` is set. Writes need ``guard``.

        Raises WattwiseError if the cluster does not answer, and LeaseLost.
        """
        hosts = self._hosts()
        names = {host_text(host) for host in hosts}
        for memory in (self._refused_accounts, self._told):
            for name in memory.keys() - names:
                del memory[name]
        stored = {
            (text(member(obj, "metadata", "namespace")), text(member(obj, "metadata", "name"))): obj
            for obj in host_hardware.list_objects(self.kube, self.host_namespaces)
        }
        # BMCs without an answer are read together, so that they delay no other host.
        hosts.sort(key=lambda host: bool(self._told.get(host_text(host))))
        for start in range(0, len(hosts), CONCURRENCY):
            if stop.is_set():
                return
            guard()
            self._refresh(hosts[start : start + CONCURRENCY], stored, guard)

    def _hosts(self) -> list[Host]:
        """The hosts to read, with inspected hardware, by name."""
        namespace, name = self.place
        resource = self.kube.resource(provisioning.API_VERSION, provisioning.KIND)
        found = self.kube.find(resource.path(name, namespace))
        if found is None or member(found, "metadata", "deletionTimestamp"):
            return []
        wanted = read_assignment_request(found)
        objects = bare_metal_host.list_objects(self.kube, self.host_namespaces)
        hosts = sorted(bare_metal_host.read_hosts(objects).hosts, key=key_of)
        selector = wanted.request.host_selector
        refused = refusals(hosts, wanted.owner, False, selector)
        return [
            host
            for host, refusal in zip(hosts, refused)
            if (refusal is None or refusal.reason in _READ_ALL_THE_SAME)
            and host.uid
            and _target(host) is not None
        ]

    def _refresh(
        self, hosts: t.Sequence[Host], stored: t.Mapping[tuple[str, str], t.Any], guard: Guard
    ) -> None:
        options = redfish_hardware.SPEC.complete(
            {
                "targets": [],
                "timeout": self.timeout,
                "concurrency": CONCURRENCY,
                "authentication": list(self._refused_accounts.values()),
            }
        )
        targets = [target for target in map(_target, hosts) if target is not None]
        answer = redfish_hardware.read(targets, options, self.context, self.kube)
        self._refused_accounts.update({each["name"]: each for each in answer["authentication"]})
        problems = {each["name"]: each["detail"] for each in answer["errors"]}
        entries = {each["name"]: each for each in answer["hardware"]}
        kube, now = self.kube.guarded(guard), self.context.now()

        def store(host: Host) -> str:
            name = host_text(host)
            if name not in entries:
                return ""
            before = member(stored.get(key_of(host)), "spec")
            read = functools.partial(
                host_hardware.spec_of, host, entries[name], before, now, is_partial=name in problems
            )
            return _store(kube, host, read, before)

        for host, problem in zip(hosts, self.kube.in_parallel(store, hosts, CONCURRENCY)):
            self._tell(host_text(host), problem or problems.get(host_text(host), ""))

    def _tell(self, name: str, problem: str) -> None:
        """Report once why a host is unreadable, and when it is read again."""
        before = self._told.get(name)
        if problem and problem != before:
            self.say(f"cannot read all hardware of {name}: {problem}")
        elif before and not problem:
            self.say(f"reads the hardware of {name} again")
        self._told[name] = problem


def _target(host: Host) -> PollTarget | None:
    """The BMC of a host; None without a Redfish address or an account."""
    found = redfish_endpoint(host.bmc_address)
    if found is None or not host.bmc_credentials_name:
        return None
    endpoint, system = found
    secret = (host.namespace, host.bmc_credentials_name)
    return PollTarget(
        name=host_text(host),
        endpoint=endpoint,
        kind="Redfish",
        where=f"BareMetalHost {host_text(host)}",
        # By the namespace, tokens of its service accounts are recognised and never sent.
        named=CredentialReference(secret=secret, namespace=host.namespace),
        extra={"system": system},
    )


def _store(kube: Kube, host: Host, read: t.Callable[[], Result], before: t.Any) -> str:
    """Write the spec if it has changed; return the reason of a failure."""
    spec = guarded(Subject(host_hardware.KIND, host.name, host.namespace), read)
    if isinstance(spec, Finding):
        return spec.problem
    if spec == before:
        return ""
    resource = kube.resource(host_hardware.API_VERSION, host_hardware.KIND)
    query = {"fieldManager": FIELD_MANAGER, "force": "true"}
    body = host_hardware.manifest(host, spec)
    path = resource.path(host.name, host.namespace)
    try:
        kube.request("PATCH", path, body, APPLY_CONTENT_TYPE, query)
    except (ApiError, InvalidInput) as error:
        return str(error)
    return ""
