# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Reading machines: one result or one error for each, in their order, and a module's result."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.base.context import (
    Context,
    Parameters,
    Result,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    TargetError,
    TargetFailure,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.authentication import (
    Attempts,
    Memory,
)
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.credentials import (
    Access,
    Credentials,
)
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.tls import client_context
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.visits import (
    Client,
    FleetOptions,
    Target,
    Trust,
    error_of,
    visit,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.targets import Machine

FAKE = "Fake"
T = t.TypeVar("T")


@dataclass(frozen=True)
class Readout(t.Generic[T]):
    """One result or error for each machine, and what to remember about refused accounts."""

    results: list[T | TargetError]
    authentication: list[Result]


class _Asked(t.NamedTuple):
    machine: Machine
    target: Target
    access: Access


def read_machines(
    found: t.Sequence[Machine],
    kind: str,
    work: t.Callable[[Client, Target], t.Awaitable[T]],
    fake: t.Callable[[Machine], T],
    parameters: Parameters,
    context: Context,
    per_host: int = 1,
) -> Readout[T]:
    """Do ``work`` with every machine of that kind; those of type Fake answer without HTTP.

    Refused accounts are remembered where the parameters have ``authentication``.
    """
    options = fleet_options(parameters, per_host)
    # What all targets share is looked at once, not reported by each of them.
    client_context(shared_trust(parameters))
    memory = Memory(_remembered(found, parameters))
    credentials = _credentials(found, kind, parameters, context)
    results: dict[str, T | TargetError] = {}
    asked: list[_Asked] = []
    for machine in found:
        try:
            if _is_fake(machine, kind):
                results[machine.name] = fake(machine)
            else:
                asked.append(_prepare(machine, credentials, memory, parameters, context))
        except Exception as error:  # noqa: BLE001 - the boundary around one machine
            results[machine.name] = error_of(machine.name, machine.endpoint, error)
    targets = [item.target for item in asked]
    _warn_of_unverified(targets, context)
    warn_of_plain_http(targets, context)
    for item, answer in zip(asked, visit(targets, work, options, context.progress)):
        results[item.machine.name] = _with_withheld(item, answer)
        _note(memory, item, answer, context)
    names = [machine.name for machine in found]
    return Readout([results[name] for name in names], memory.as_result(names))


def _credentials(
    found: t.Sequence[Machine], kind: str, parameters: Parameters, context: Context
) -> Credentials:
    """Those that machines name which will be asked; no Secret is read for others."""
    return Credentials(
        parameters["credentials"],
        [machine.named for machine in found if machine.kind == kind and machine.problem is None],
        lambda: Kube.connect(parameters),
        context,
        parameters.get("default_credential_namespaces") or (),
    )


def _prepare(
    machine: Machine,
    credentials: Credentials,
    memory: Memory,
    parameters: Parameters,
    context: Context,
) -> _Asked:
    """What to ask. Raises TargetFailure where the machine may not be asked now."""
    # The entry `default` is the account of BMCs; no other server is to get it unasked.
    is_bmc = machine.kind == "Redfish"
    access = (
        credentials.resolve(machine.named) if is_bmc or not machine.named.is_silent else Access()
    )
    if access.credential is not None:
        memory.require_patience(machine.name, access.version, access.source, context.now())
    return _Asked(machine, _target(machine, access, parameters), access)


def conclude(
    parameters: Parameters,
    total: int,
    errors: t.Sequence[TargetError],
    result: Result,
    *,
    changed: bool = False,
    counted: t.Sequence[TargetError] | None = None,
) -> Result:
    """The module's result; raises WattwiseError with all of it where too few targets succeeded.

    A target that has any error did not succeed; with ``counted`` only these errors matter.
    """
    complete = {**result, "errors": [error.as_dict() for error in errors], "changed": changed}
    needed = 1.0 if parameters["on_error"] == "fail" else parameters["min_success"]
    failures = errors if counted is None else counted
    succeeded = total - len({error.name for error in failures})
    if total and succeeded / total < needed:
        first = failures[0]
        raise WattwiseError(
            f"Only {succeeded} of {total} targets succeeded, {needed:.0%} must; the first that "
            f"failed is {first.name} ({first.endpoint}), {first.reason}: {first.detail}",
            **complete,
        )
    return complete


def fleet_options(parameters: Parameters, per_host: int = 1) -> FleetOptions:
    """How to visit, from a module's options. Raises InvalidInput."""
    if not parameters["timeout"] > 0:
        raise InvalidInput(f"timeout: {parameters['timeout']} is no time; give seconds above 0")
    if parameters["concurrency"] < 1:
        raise InvalidInput(f"concurrency: {parameters['concurrency']} asks nobody; give 1 or more")
    if not 0 <= parameters["min_success"] <= 1:
        raise InvalidInput(f"min_success: {parameters['min_success']} is not between 0 and 1")
    return FleetOptions(parameters["timeout"], parameters["concurrency"], per_host)


def shared_trust(parameters: Parameters) -> Trust:
    """How targets are verified that say nothing of it themselves."""
    return Trust(
        parameters["validate_certs"],
        ca_path=parameters["ca_path"],
        fingerprints=tuple(parameters["tls_fingerprint"]),
    )


def _remembered(found: t.Sequence[Machine], parameters: Parameters) -> dict[str, Attempts]:
    if "authentication" not in parameters:
        return {}
    told = parameters["authentication"] or []
    return {
        **{machine.name: machine.attempts for machine in found},
        **{entry["name"]: Attempts.from_result(entry) for entry in told},
    }


def _is_fake(machine: Machine, kind: str) -> bool:
    """Raises TargetFailure where the machine is neither a fake nor of this kind."""
    if machine.problem is not None:
        raise TargetFailure("malformed", machine.problem)
    if machine.kind not in (kind, FAKE):
        raise TargetFailure(
            "malformed",
            f"{machine.where} has an endpoint of type {machine.kind!r}; write {kind} or {FAKE}",
        )
    return machine.kind == FAKE


def _target(machine: Machine, access: Access, parameters: Parameters) -> Target:
    try:
        trust = _trust(machine.tls, access, parameters)
    except InvalidInput as error:
        raise TargetFailure("tls", str(error)) from error
    allowed = parameters["allow_plain_http"]
    if machine.allow_plain_http is not None:
        allowed = machine.allow_plain_http
    return Target(machine.name, machine.endpoint, access.credential, trust, machine.extra, allowed)


def _trust(tls: t.Mapping[str, t.Any], access: Access, parameters: Parameters) -> Trust:
    """What the target says, else what its credential says, else what holds for all."""
    if tls.get("tls_fingerprint"):
        return Trust(fingerprints=tuple(tls["tls_fingerprint"]))
    if tls.get("ca_path"):
        return Trust(ca_path=tls["ca_path"])
    if tls.get("validate_certs") is False:
        return Trust(validate_certs=False)
    if access.fingerprints:
        return Trust(fingerprints=access.fingerprints)
    if access.ca:
        return Trust(ca_content=access.ca)
    shared = shared_trust(parameters)
    if tls.get("validate_certs") and not shared.verifies:
        return Trust(ca_path=shared.ca_path)
    return shared


def _note(memory: Memory, item: _Asked, answer: t.Any, context: Context) -> None:
    if item.access.credential is None:
        return
    reason = answer.reason if isinstance(answer, TargetError) else None
    if reason in (None, "unauthorized", "forbidden"):
        memory.note(item.machine.name, reason is not None, item.access.version, context.now())


def _with_withheld(item: _Asked, answer: T | TargetError) -> T | TargetError:
    """The answer; where the machine wants an account, the reason why it was given none."""
    refused = isinstance(answer, TargetError) and answer.reason in ("unauthorized", "forbidden")
    if not refused or not item.access.withheld:
        return answer
    failure = TargetFailure("credential", item.access.withheld)
    return error_of(item.machine.name, item.machine.endpoint, failure)


def warn_of_plain_http(targets: t.Iterable[Target], context: Context) -> None:
    """Warn once of all targets whose credential goes over plain HTTP, because that is allowed."""
    count = sum(
        target.allow_plain_http and target.sends_password_in_the_clear for target in targets
    )
    if count:
        context.warn(
            f"The passwords for {count} targets go over plain HTTP, because allow_plain_http is "
            "true; anybody on the way can read them"
        )


def _warn_of_unverified(targets: t.Sequence[Target], context: Context) -> None:
    count = sum(
        not target.trust.verifies and target.endpoint.startswith("https:") for target in targets
    )
    if count:
        context.warn(
            f"The certificates of {count} targets are not verified, because validate_certs is "
            "false; pin them by tls_fingerprint (the module tls_fingerprint_info shows them)"
        )
