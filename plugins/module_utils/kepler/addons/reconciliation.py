# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Add-ons of Kepler: rendered for the served kinds, applied as one set, with a status."""

from __future__ import annotations

import base64
import functools
import typing as t
from dataclasses import dataclass, field

from ...base.argspec import KUBERNETES, ArgumentSpec
from ...base.boundary import shown
from ...base.context import Context, Parameters, Result
from ...base.errors import ApiError, InvalidInput, WattwiseError
from ...base.fields.lenient import member, objects
from ...base.json_types import Object
from ...kube.apply.steps import Applying
from ...kube.certificates import keep_certificates
from ...kube.client import Kube
from ...kube.resource.conditions import Failure
from ...kube.resource.run import (
    Failed,
    ResourceKind,
    generation_of,
    missing_keys,
    owner_manifest,
    stored_status,
)
from .. import fields
from . import certificates, files, issued_secrets, kinds, mesh, names, options, status, telemetry
from .rendering import Files, Part, render
from .spec import Addons, Certificates, read_addons

FIELD_MANAGER = "wattwise-kepler-addons"
_KIND = ResourceKind(options.API_VERSION, options.KIND, FIELD_MANAGER, options.ADDONS)

SPEC = KUBERNETES.merge(
    ArgumentSpec(
        {
            "namespace": {"type": "str", "default": "kepler"},
            "name": {"type": "str", "default": "kepler"},
            "spec": {"type": "dict", "options": dict(options.ADDONS.options)},
            "rule_files": {"type": "list", "elements": "path", "default": []},
            "dashboard_files": {"type": "list", "elements": "path", "default": []},
            "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
            "on_error": {"type": "str", "default": "fail", "choices": ["report", "fail"]},
        }
    ),
)


def reconcile(parameters: Parameters, context: Context = Context()) -> Result:
    """Apply the add-ons of Kepler, by ``spec`` or by KeplerAddons.

    Raises WattwiseError, with the results so far. KeplerAddons get the error in their status first;
    with ``on_error: report`` it is only there and in the result.
    """
    given = SPEC.complete(parameters)
    kube = Kube.connect(given)
    if given["state"] == "absent":
        return _removed(kube, given, context)
    return _KIND.reconcile(kube, given, functools.partial(_Run, kube, given, context))


@dataclass
class _Run:
    """One run and its state.

    ``resource`` are the KeplerAddons, if there are any. ``failures`` have the sentences of failed
    steps of one add-on, by its condition.
    """

    kube: Kube
    given: Parameters
    context: Context
    resource: Object | None
    addons: Addons | None = None
    served: dict[str, str] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    is_issued: bool = False
    applying: Applying = field(init=False)

    def __post_init__(self) -> None:
        namespace = _namespace_manifest(self.given["namespace"], {})
        self.applying = Applying(self.kube, self.context, [namespace])

    def steps(self) -> None:
        """Read, render, apply."""
        place = (self.given["namespace"], self.given["name"])
        self.addons = wanted = t.cast(
            "Addons",
            _KIND.read(self.resource, self.given["spec"], lambda spec: read_addons(*place, spec)),
        )
        shipped = Files(
            files.read_rules(self.given["rule_files"]),
            files.read_dashboards(self.given["dashboard_files"]),
        )
        self.served = kinds.discovered(self.kube.serves)
        self.parts = render(wanted, self.served, shipped)
        self._apply(wanted)
        self._raise_problems()

    def _raise_problems(self) -> None:
        """Raise Failed if anything failed; all independent steps are done by now."""
        keys = {status.identity(each) for part in self.parts for each in part.manifests}
        refused = [
            each["error"]
            for each in self.applying.result["results"]
            if each["action"] == "failed" and _key(each) in keys
        ]
        problems = [f"{name}: {sentence}" for name, sentence in self.failures.items()]
        if refused:
            problems.append(f"{len(refused)} objects were refused, the first one: {refused[0]}")
        if problems:
            reason = "ObjectsRefused" if refused else "ReconcileError"
            raise Failed(reason, "; ".join(problems))

    def _apply(self, wanted: Addons) -> None:
        self._label_namespace(wanted)
        self._write_objects(wanted)
        # cert-manager's Certificates are pruned by now, so that it does not issue again.
        if wanted.certificates is not None and self._is_of_library(wanted):
            self._keep_certificates(wanted, wanted.certificates)

    def _label_namespace(self, wanted: Addons) -> None:
        """Make the namespace. Labels of other owners are a failure of the mesh only."""
        has = {part.condition for part in self.parts if part.manifests}
        own = telemetry.namespace_labels(has_collectors="Logging" in has)
        of_mesh = mesh.namespace_labels(wanted.mesh if "ServiceMesh" in has else None)
        how = {"field_manager": _label_manager(wanted.name)}
        try:
            self._write([_namespace_manifest(wanted.namespace, {**own, **of_mesh})], **how)
        except WattwiseError as error:
            if not of_mesh:
                raise
            self.failures["ServiceMesh"] = str(error)
            if own:
                self._write([_namespace_manifest(wanted.namespace, own)], **how)

    def _is_of_library(self, addons: Addons) -> bool:
        wanted = addons.certificates
        return wanted is not None and not certificates.is_of_cert_manager(wanted, self.served)

    def _write_objects(self, wanted: Addons) -> None:
        owner = _KIND.owner(self, wanted.namespace, wanted.name, names.owner_name(wanted.name))
        known = [(version, kind) for kind, version in self.served.items()]
        self._write(
            [each for part in self.parts for each in part.manifests],
            owner=owner,
            prune=names.apply_set(wanted.name),
            prune_kinds=[
                {"api_version": version, "kind": kind, "namespace": wanted.namespace}
                for version, kind in (*known, *kinds.OWN_KINDS)
            ],
            # Only the spec decides, independent of the readable part of the cluster.
            prune_max=1.0,
            on_error="report",
        )

    def _write(self, given: t.Sequence[Object], **how: t.Any) -> None:
        self.applying.apply({"manifests": list(given), "field_manager": FIELD_MANAGER, **how})

    def _keep_certificates(self, addons: Addons, wanted: Certificates) -> None:
        """Certificates without cert-manager, independent of other add-ons."""
        try:
            self._refuse_two_issuers(addons)
            self._issue(addons, wanted)
            self.is_issued = True
        except WattwiseError as error:
            self.failures["Certificates"] = str(error)

    def _refuse_two_issuers(self, addons: Addons) -> None:
        """Two issuers of one Secret would replace each other's certificates forever."""
        if "Certificate" not in self.served or self.context.check_mode:
            return
        secrets = set(certificates.certificate_names(addons).values())
        place = self.kube.resource(self.served["Certificate"], "Certificate")
        for each in self.kube.list(place.collection(addons.namespace)):
            name, secret = member(each, "metadata", "name"), member(each, "spec", "secretName")
            if secret in secrets and not member(each, "metadata", "deletionTimestamp"):
                message = (
                    f"cert-manager's Certificate {shown(name)} also fills the Secret {secret}; "
                    "delete it, or set certificates.issuer to cert-manager"
                )
                raise InvalidInput(message)

    def _issue(self, addons: Addons, wanted: Certificates) -> None:
        """All certificates, and the authority's for Kepler, without its key."""
        self._write([_namespace_manifest(wanted.authority_namespace, {})])
        asked = certificates.library_options(addons, wanted)
        labels = certificates.secret_labels(addons)
        kept = keep_certificates(asked, self.context, self.kube, labels)
        self.applying.add({"changed": kept["changed"]})
        found = self.kube.read_secret(addons.namespace, addons.security.server_secret)
        if found is None:
            return  # in check mode alone
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": addons.security.client_authority_secret,
                "namespace": addons.namespace,
                "labels": labels,
            },
            "data": {"ca.crt": base64.b64encode(found[0]["ca.crt"].encode()).decode()},
        }
        # Like the certificates themselves: cert-manager may have had the Secret before.
        self._write([secret], force_conflicts=True)

    def result(self, failure: Failure | None) -> Result:
        """The changes and the present state, in the form of KeplerAddons' status."""
        told = status.status_of(
            self._seen(failure), generation_of(self.resource), stored_status(self.resource)
        )
        return {**self.applying.result, "found": True, "status": told}

    def _seen(self, failure: Failure | None) -> status.Observation:
        if self.addons is None or not self.parts:
            return status.Observation(failure=failure)
        results = self.applying.result["results"]
        try:
            return status.Observation(
                self.parts,
                {_key(each) for each in results if each["action"] != "failed"},
                {_key(each): each["error"] for each in results if each["action"] == "failed"},
                self._missing_secrets(self.addons),
                self._unready(self.addons),
                self._port(self.addons),
                "http" if self.addons.security.mode == "none" else "https",
                any(
                    part.condition == "Certificates" and part.wanted and not part.missing
                    for part in self.parts
                )
                and "Certificates" not in self.failures,
                failure,
                self.failures,
                self._is_of_library(self.addons) and not self.is_issued,
            )
        except ApiError as error:
            self.context.warn(f"The state of the add-ons could not be read: {error}")
            return status.Observation(failure=failure)

    def _missing_secrets(self, addons: Addons) -> dict[str, str]:
        found: dict[str, str] = {}
        for part in self.parts:
            for name, keys in part.secrets:
                sentence = missing_keys(self.kube, addons.namespace, name, keys)
                if sentence:
                    found.setdefault(part.condition, sentence)
        return found

    def _unready(self, addons: Addons) -> str:
        """Why cert-manager's certificates are not ready; empty for other issuers."""
        wanted = addons.certificates
        is_issued_there = wanted is not None and certificates.is_of_cert_manager(
            wanted, self.served
        )
        if not is_issued_there or "Certificate" not in self.served:
            return ""
        place = self.kube.resource(self.served["Certificate"], "Certificate")
        found = self.kube.list(place.collection(addons.namespace))
        return status.certificate_problem(found, certificates.certificate_names(addons))

    def _port(self, addons: Addons) -> str:
        place = f"/api/v1/namespaces/{addons.namespace}/services/{addons.system}"
        ports = objects(member(self.kube.find(place), "spec", "ports"))
        return str(ports[0].get("name") or "") if ports else ""


def _removed(kube: Kube, given: Parameters, context: Context) -> Result:
    """Remove the owner with its objects, labels of the namespace and own Secrets.

    Namespaces and KeplerAddons stay. The option ``spec`` only gives names of Secrets.
    """
    applying = Applying(kube, context, ())
    namespace = given["namespace"]
    if kube.find(f"/api/v1/namespaces/{namespace}") is not None:
        bare = _namespace_manifest(namespace, {})
        applying.apply({"manifests": [bare], "field_manager": _label_manager(given["name"])})
    owner = owner_manifest(namespace, names.owner_name(given["name"]))
    applying.apply({"manifests": [owner], "state": "absent"})
    issued_secrets.take_back(applying, _issued_by(given), context)
    return {**applying.result, "found": False}


def _issued_by(given: Parameters) -> issued_secrets.Issued:
    """The Secrets that the library fills for these add-ons. Raises InvalidInput."""
    spec = options.ADDONS.complete(given["spec"] or {})
    addons = read_addons(given["namespace"], given["name"], spec)
    return issued_secrets.Issued(
        namespace=addons.namespace,
        secrets=certificates.server_secrets(addons),
        authority_namespace=fields.name(
            spec["certificates"]["authority_namespace"], "certificates.authority_namespace"
        ),
        authority_secret=certificates.authority_secret(addons),
        labels=certificates.secret_labels(addons),
    )


def _label_manager(name: str) -> str:
    """Field manager of labels; KeplerAddons of one namespace do not undo each other's labels."""
    return f"{FIELD_MANAGER}-{name}"


def _namespace_manifest(name: str, labels: t.Mapping[str, str]) -> dict[str, t.Any]:
    metadata = {"name": name, "labels": dict(labels)}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _key(result: Object) -> tuple[str, str]:
    return result["kind"], result["name"]
