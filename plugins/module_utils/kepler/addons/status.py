# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The status of KeplerAddons: one condition for each add-on, and counts."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ...base.errors import WattwiseError
from ...base.fields.lenient import member, objects
from ...base.json_types import Object
from ...kube.resource.conditions import (
    Condition,
    Failure,
    condition,
    kept,
    of_generation,
    reconciled,
    status_of_generation,
)
from .certificates import is_of_cert_manager
from .names import Served
from .rendering import Part
from .spec import Addons

CONDITIONS = (
    "Reconciled", "Prometheus", "Grafana", "Tracing", "Logging", "Certificates", "ServiceMesh",
)  # fmt: skip
_NO_TRACES = (
    "A collector takes traces. Kepler itself emits none, so it receives only traces of other "
    "programs."
)


@dataclass(frozen=True)
class Observation:
    """The add-ons of a run with their objects by part, and the cluster after it.

    ``failures`` have the sentences of failed steps of one add-on, by its condition. ``is_issued``
    means that certificates without cert-manager are issued. ``errors`` has the error of each
    written object by kind and name; an applied object has an empty one. ``missing_secrets`` and
    ``unready`` (certificates) have sentences, the first by the condition of their add-on. ``port``
    is the name of the port of Kepler's Service, empty if there is none.
    """

    addons: Addons
    served: Served
    parts: t.Sequence[Part]
    failures: t.Mapping[str, str] = field(default_factory=dict)
    is_issued: bool = False
    errors: t.Mapping[tuple[str, str], str] = field(default_factory=dict)
    missing_secrets: t.Mapping[str, str] = field(default_factory=dict)
    unready: str = ""
    port: str = ""

    def with_failure(self, name: str, error: WattwiseError) -> Observation:
        return replace(self, failures={**self.failures, name: str(error)})

    @property
    def is_of_library(self) -> bool:
        """Whether this library issues the certificates."""
        wanted = self.addons.certificates
        return wanted is not None and not is_of_cert_manager(wanted, self.served)

    @property
    def issues(self) -> bool:
        """Whether certificates are issued, by anybody."""
        return "Certificates" not in self.failures and any(
            part.condition == "Certificates" and part.wanted and not part.missing
            for part in self.parts
        )


def status_of(
    seen: Observation | None, failure: Failure | None, generation: int, stored: Object
) -> dict[str, t.Any]:
    """The status after a run; parts that it did not reach are unchanged.

    ``seen`` is None if the run ended before it had all objects.
    """
    status = status_of_generation(failure, generation, stored)
    conditions = [reconciled(failure)]
    if seen is not None:
        conditions += [_judged(seen, part, failure, stored) for part in seen.parts]
        wanted = [part for part in seen.parts if part.wanted]
        status["wanted"] = len(wanted)
        status["applied"] = sum(_is_applied(seen, part) for part in wanted)
        status["objects"] = [
            {"kind": each["kind"], "name": each["metadata"]["name"], "version": each["apiVersion"]}
            for part in seen.parts
            for each in part.manifests
            if seen.errors.get(identity(each)) == ""
        ]
    else:
        conditions += [kept(stored, name) for name in CONDITIONS[1:]]
        parts = ("wanted", "applied", "objects")
        status.update({name: stored[name] for name in parts if stored.get(name) is not None})
    status["conditions"] = of_generation(conditions, generation)
    return status


def certificate_problem(certificates: t.Sequence[t.Any], wanted: t.Collection[str]) -> str:
    """Why certificates of cert-manager are not ready; empty if all are."""
    found = {member(each, "metadata", "name"): each for each in certificates}
    for name in sorted(wanted):
        conditions = objects(member(found.get(name), "status", "conditions"))
        ready = next((each for each in conditions if each.get("type") == "Ready"), {})
        if ready.get("status") != "True":
            message = ready.get("message")
            told = message if isinstance(message, str) and message else "cert-manager is silent"
            return f"The Certificate {name} is not ready: {told}."
    return ""


def identity(manifest: Object) -> tuple[str, str]:
    """Kind and name, in the form of ``Observation``."""
    return manifest["kind"], manifest["metadata"]["name"]


def _is_applied(seen: Observation, part: Part) -> bool:
    if part.missing or part.condition in seen.failures:
        return False
    if part.condition == "Certificates" and seen.is_of_library and not seen.is_issued:
        return False
    return all(seen.errors.get(identity(each)) == "" for each in part.manifests)


def _judged(seen: Observation, part: Part, failure: Failure | None, stored: Object) -> Condition:
    """The condition of an add-on, with its first obstacle."""
    name = part.condition
    if not part.wanted:
        return condition(name, "False", "Disabled", "The add-on is switched off.")
    if part.missing:
        return condition(name, "False", "KindNotServed", part.missing)
    if name in seen.failures:
        return condition(name, "False", "ReconcileError", seen.failures[name])
    errors = list(filter(None, (seen.errors.get(identity(each)) for each in part.manifests)))
    if errors:
        return condition(name, "False", "ObjectsRefused", errors[0])
    if failure is not None and not _is_applied(seen, part):
        return kept(stored, name)
    secret = seen.missing_secrets.get(name, "")
    if secret and name == "Prometheus" and seen.issues:
        return condition(name, "Unknown", "CertificatesPending", secret)
    if secret:
        return condition(name, "False", "SecretNotFound", secret)
    if name == "Prometheus" and seen.port and seen.port != seen.addons.port_name:
        text = (
            f"Kepler's Service has the port {seen.port}, and {seen.addons.port_name} would be scraped; "
            "give security.mode of KeplerAddons the value of the KeplerSystem."
        )
        return condition(name, "False", "SecurityMismatch", text)
    if name == "Certificates" and seen.unready:
        return condition(name, "False", "CertificatesNotReady", seen.unready)
    if name == "Tracing":
        return condition(name, "True", "KeplerEmitsNoTraces", _NO_TRACES)
    return condition(name, "True", "Applied", "All objects of the add-on are applied.")
