# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Polling of endpoints, with one result or error for each, and the result of a module.

The endpoints come from option ``targets`` of a module or from the targets of a snapshot.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ..base import documents
from ..base.argspec import FLEET, KUBERNETES, PROGRESS, ArgumentSpec
from ..base.context import Context, Parameters, Result
from ..base.errors import InvalidInput, TargetError, TargetFailure, WattwiseError
from ..fleet.authentication import Attempts, Memory
from ..fleet.credentials import Access, CredentialReference, Credentials, SecretSource
from ..fleet.tls import client_context
from ..fleet.visits import Budget, Client, FleetOptions, Pace, Target, Trust, error_of, visit
from ..kube.client import Kube
from .nodeconfig import EndpointKind
from .targets import Targets, of_snapshot

FAKE = "Fake"
T = t.TypeVar("T")
Options = dict[str, t.Any]

_TARGET_OPTIONS: Options = {
    "name": {"type": "str", "required": True},
    "endpoint": {"type": "str", "required": True},
    "username": {"type": "str"},
    "password": {"type": "str", "no_log": True},
    "credential": {"type": "str", "no_log": False},
    "allow_plain_http": {"type": "bool"},
    "validate_certs": {"type": "bool"},
    "ca_path": {"type": "path"},
    "tls_fingerprint": {"type": "list", "elements": "str"},
}
_TLS_OPTIONS = ("validate_certs", "ca_path", "tls_fingerprint")

# Modules pass refused logins of BMCs on to later modules of a run that read the same BMCs.
AUTHENTICATION = ArgumentSpec(
    {
        "default_credential_namespaces": {
            "type": "list",
            "elements": "str",
            "default": [],
            "no_log": False,
        },
        "authentication": {
            "type": "list",
            "elements": "dict",
            "options": {
                "name": {"type": "str", "required": True},
                "failures": {"type": "int", "default": 0},
                "last_attempt": {"type": "str"},
                "secret_resource_version": {"type": "str", "no_log": False},
            },
        },
    }
)


def reading_spec(**target_options: t.Any) -> ArgumentSpec:
    """Options of a module that polls endpoints, with additional options of targets."""
    own: Options = {
        "targets": {
            "type": "list",
            "elements": "dict",
            "options": {**_TARGET_OPTIONS, **target_options},
        },
    }
    rules = (("targets", "snapshot"),)
    spec = ArgumentSpec(own, mutually_exclusive=rules, required_one_of=rules)
    return spec.merge(FLEET, KUBERNETES, PROGRESS)


@dataclass(frozen=True)
class PollTarget:
    """One endpoint to poll for a node. ``kind`` is its type, as in a NodeConfig.

    ``allow_plain_http`` None means the option for all targets. ``interval`` are the seconds for
    which a reading is fresh; None means that it is always read. ``extra`` has additional options of
    the target, or ``status`` and ``power_secret`` of its NodeConfig.
    """

    name: str
    endpoint: str
    kind: str
    where: str
    named: CredentialReference = field(default_factory=CredentialReference)
    tls: t.Mapping[str, t.Any] = field(default_factory=dict)
    attempts: Attempts = field(default_factory=Attempts)
    extra: t.Mapping[str, t.Any] = field(default_factory=dict)
    problem: str | None = None
    allow_plain_http: bool | None = None
    interval: float | None = None


def poll_targets(targets: Targets, endpoint_kind: EndpointKind) -> list[PollTarget]:
    """Poll targets of this kind, in node-name order."""
    return [
        PollTarget(
            name=node.name,
            endpoint=endpoint.endpoint,
            kind=endpoint.type,
            where=f"NodeConfig {node.node_config}",
            named=CredentialReference(
                secret=(node.namespace, endpoint.secret_name) if endpoint.secret_name else None,
                namespace=node.namespace,
            ),
            tls={"tls_fingerprint": list(endpoint.tls_fingerprints)},
            attempts=node.attempts,
            extra={"status": node.status, "power_secret": node.power_secret},
            problem=endpoint.problem,
            interval=endpoint.fetch_interval_seconds,
        )
        for node in targets.nodes
        for endpoint in [node.endpoints.get(endpoint_kind)]
        if endpoint is not None
    ]


def given_targets(
    parameters: Parameters,
    kind: str,
    endpoint_kind: EndpointKind,
    own_options: t.Sequence[str] = (),
) -> list[PollTarget]:
    """Poll targets from the option ``targets``, else from the snapshot document.

    ``kind`` is the type of literal targets. Raises InvalidInput.
    """
    if parameters["targets"] is None:
        return poll_targets(snapshot_targets(parameters), endpoint_kind)
    found = [
        PollTarget(
            name=target["name"],
            endpoint=target["endpoint"],
            kind=kind,
            where=f"targets[{index}]",
            named=CredentialReference(
                target.get("username"), target.get("password"), target.get("credential")
            ),
            tls={name: target.get(name) for name in _TLS_OPTIONS},
            extra={name: target[name] for name in own_options},
            allow_plain_http=target.get("allow_plain_http"),
        )
        for index, target in enumerate(parameters["targets"])
    ]
    _require_distinct_names(found)
    return found


def snapshot_targets(parameters: Parameters) -> Targets:
    """Targets of the snapshot document, limited by ``node_selector``. Raises InvalidInput."""
    targets = of_snapshot(documents.load(parameters["snapshot"], "snapshot"))
    return targets.selected(parameters["node_selector"])


def _require_distinct_names(found: t.Sequence[PollTarget]) -> None:
    first: dict[str, str] = {}
    for target in found:
        if target.name in first:
            raise InvalidInput(
                f"The name {target.name!r} is used in {first[target.name]} and in "
                f"{target.where}; give each target a name of its own"
            )
        first[target.name] = target.where


@dataclass(frozen=True)
class Job(t.Generic[T]):
    """Work at one endpoint. ``kind`` is the type of an HTTP endpoint.

    Endpoints of type Fake answer ``fake`` without HTTP.
    """

    target: PollTarget
    kind: str
    work: t.Callable[[Client, PollTarget], t.Awaitable[T]]
    fake: T | TargetError


@dataclass(frozen=True)
class Polled(t.Generic[T]):
    """One result or error for each job, and the refused accounts."""

    results: list[T | TargetError]
    authentication: list[Result]


class _Request(t.NamedTuple):
    position: int
    job: Job[t.Any]
    target: Target
    access: Access


def poll(
    jobs: t.Sequence[Job[T]],
    options: Parameters,
    context: Context,
    secrets: SecretSource | None = None,
    per_host: int = 1,
    budget: Budget = Budget(),  # noqa: B008 - frozen
    pace: Pace = Pace(),  # noqa: B008 - frozen
) -> Polled[T]:
    """Run all jobs; those of one node at one server run in sequence on one connection.

    Secrets are read from ``secrets``, else from the cluster of the options. Refused accounts are
    recorded if the options have ``authentication``.
    """
    fleet = replace(fleet_options(options, per_host), budget=budget)
    # Shared options are checked once, so that not every target reports their defects.
    client_context(shared_trust(options))
    memory = Memory(_remembered([job.target for job in jobs], options))
    credentials = _credentials(jobs, options, context, secrets)
    results: dict[int, t.Any] = {}
    asked: list[_Request] = []
    for index, job in enumerate(jobs):
        try:
            if _is_fake(job):
                results[index] = job.fake
            else:
                asked.append(_prepare(index, job, credentials, memory, options, context))
        except Exception as error:  # noqa: BLE001 - the boundary around one endpoint
            results[index] = error_of(job.target.name, job.target.endpoint, error)
    targets = [item.target for item in asked]
    _warn_of_unverified(targets, context)
    warn_of_plain_http(targets, context)
    answers = visit(targets, _work, fleet, context.progress, pace, in_turn=True)
    for item, answer in zip(asked, answers):
        results[item.position] = _with_withheld(item, answer)
    _note(memory, list(zip(asked, answers)), context)
    names = dict.fromkeys(job.target.name for job in jobs)
    return Polled([results[index] for index in range(len(jobs))], memory.as_result(names))


async def _work(client: Client, target: Target) -> t.Any:
    job = target.extra["job"]
    return await job.work(client, job.target)


def _credentials(
    jobs: t.Sequence[Job[t.Any]],
    options: Parameters,
    context: Context,
    secrets: SecretSource | None,
) -> Credentials:
    """Credentials of the endpoints to ask; no other Secrets are read."""
    return Credentials(
        options["credentials"],
        [
            job.target.named
            for job in jobs
            if job.target.kind == job.kind and job.target.problem is None
        ],
        lambda: Kube.connect(options) if secrets is None else secrets,
        context,
        options.get("default_credential_namespaces") or (),
    )


def _prepare(
    index: int,
    job: Job[t.Any],
    credentials: Credentials,
    memory: Memory,
    options: Parameters,
    context: Context,
) -> _Request:
    """The HTTP target. Raises TargetFailure if the endpoint must not be asked now."""
    found = job.target
    # The entry `default` is the account of BMCs and must not be sent to other servers.
    is_bmc = found.kind == "Redfish"
    access = credentials.resolve(found.named) if is_bmc or not found.named.is_silent else Access()
    if access.credential is not None:
        memory.require_patience(found.name, access.version, access.source, context.now())
    return _Request(index, job, _target(job, access, options), access)


def conclude(
    parameters: Parameters,
    total: int,
    errors: t.Sequence[TargetError],
    result: Result,
    *,
    changed: bool = False,
    counted: t.Sequence[TargetError] | None = None,
) -> Result:
    """The result of the module. Raises WattwiseError with it if too few targets succeeded.

    A target succeeds without any error; ``counted`` limits the errors that count.
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
    """Options of the visit, from those of a module. Raises InvalidInput."""
    if not parameters["timeout"] > 0:
        raise InvalidInput(
            f"timeout: {parameters['timeout']} is not a duration; give seconds above 0"
        )
    if parameters["concurrency"] < 1:
        raise InvalidInput(f"concurrency: {parameters['concurrency']} is too small; give 1 or more")
    if not 0 <= parameters["min_success"] <= 1:
        raise InvalidInput(f"min_success: {parameters['min_success']} is not between 0 and 1")
    return FleetOptions(parameters["timeout"], parameters["concurrency"], per_host)


def shared_trust(parameters: Parameters) -> Trust:
    """Default trust of targets."""
    return Trust(
        parameters["validate_certs"],
        ca_path=parameters["ca_path"],
        fingerprints=tuple(parameters["tls_fingerprint"]),
    )


def _remembered(found: t.Sequence[PollTarget], options: Parameters) -> dict[str, Attempts]:
    if "authentication" not in options:
        return {}
    told = options["authentication"] or []
    return {
        **{target.name: target.attempts for target in found},
        **{entry["name"]: Attempts.from_result(entry) for entry in told},
    }


def _is_fake(job: Job[t.Any]) -> bool:
    """Whether the endpoint is a fake. Raises TargetFailure for an endpoint of another job."""
    target = job.target
    if target.problem is not None:
        raise TargetFailure("malformed", target.problem)
    if target.kind not in (job.kind, FAKE):
        raise TargetFailure(
            "malformed",
            f"{target.where} has an endpoint of type {target.kind!r}; write {job.kind} or {FAKE}",
        )
    return target.kind == FAKE


def _target(job: Job[t.Any], access: Access, options: Parameters) -> Target:
    found = job.target
    trust = replace(
        trust_of(found.tls, access, options),
        server_name=found.tls.get("server_name") or None,
        client=found.tls.get("client"),
    )
    allowed = options["allow_plain_http"]
    if found.allow_plain_http is not None:
        allowed = found.allow_plain_http
    return Target(found.name, found.endpoint, access.credential, trust, {"job": job}, allowed)


def trust_of(tls: t.Mapping[str, t.Any], access: Access, options: Parameters) -> Trust:
    """Trust of the target, else of its credential, else the default. Raises TargetFailure."""
    try:
        return _trust(tls, access, options)
    except InvalidInput as error:
        raise TargetFailure("tls", str(error)) from error


def _trust(tls: t.Mapping[str, t.Any], access: Access, parameters: Parameters) -> Trust:
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


def _note(memory: Memory, answers: t.Sequence[tuple[_Request, t.Any]], context: Context) -> None:
    """Record the results of the accounts; several refusals of a node in one round count once."""
    refused: set[tuple[str, str]] = set()
    for item, answer in answers:
        if item.access.credential is None:
            continue
        name, version = item.job.target.name, item.access.version
        reason = answer.reason if isinstance(answer, TargetError) else None
        if reason in ("unauthorized", "forbidden"):
            if (name, version) not in refused:
                memory.note(name, True, version, context.now())
            refused.add((name, version))
        elif reason is None:
            memory.note(name, False, version, context.now())


def _with_withheld(item: _Request, answer: T | TargetError) -> T | TargetError:
    """The answer; if the server requires an account, the reason why none was sent."""
    refused = isinstance(answer, TargetError) and answer.reason in ("unauthorized", "forbidden")
    if not refused or not item.access.withheld:
        return answer
    failure = TargetFailure("credential", item.access.withheld)
    return error_of(item.target.name, item.target.endpoint, failure)


def warn_of_plain_http(targets: t.Iterable[Target], context: Context) -> None:
    """Emit one warning for all credentials that are sent over plain HTTP."""
    names = {
        target.name
        for target in targets
        if target.allow_plain_http and target.sends_password_in_the_clear
    }
    if names:
        context.warn(
            f"The passwords for {len(names)} targets go over plain HTTP, because allow_plain_http is "
            "true; anybody on the network path can read them"
        )


def _warn_of_unverified(targets: t.Sequence[Target], context: Context) -> None:
    names = {
        target.name
        for target in targets
        if not target.trust.verifies and target.endpoint.startswith("https:")
    }
    if names:
        context.warn(
            f"The certificates of {len(names)} targets are not verified, because validate_certs is "
            "false; pin them by tls_fingerprint (the module tls_fingerprint_info shows them)"
        )
