# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Add-ons of Kepler: rendered for the served kinds, applied as one set, with a status."""

from __future__ import annotations

import base64
import typing as t
from dataclasses import replace

from ...base.boundary import shown
from ...base.context import Context, Parameters, Result
from ...base.errors import ApiError, InvalidInput, WattwiseError
from ...base.fields.lenient import member, objects
from ...base.json_types import Object
from ...base.manifests import Manifest, manifest_of
from ...kube.apply.steps import Applying
from ...kube.certificates import keep_certificates
from ...kube.client import Kube
from ...kube.resource.conditions import Failure
from ...kube.resource.run import (
    Failed,
    Report,
    ResourceKind,
    Run,
    Work,
    missing_keys,
    owner_manifest,
    run_options,
)
from .. import fields
from ..deployment.policy import LOG_COLLECTORS_LABEL
from . import certificates, names, rendering, status
from .files import read_dashboards, read_rules
from .spec import ADDONS, API_VERSION, KIND, Addons, Certificates, read_addons
from .status import Observation

FIELD_MANAGER = "wattwise-kepler-addons"
_KIND = ResourceKind(API_VERSION, KIND, FIELD_MANAGER, ADDONS)

SPEC = run_options(
    "kepler",
    ADDONS,
    {
        "rule_files": {"type": "list", "elements": "path", "default": []},
        "dashboard_files": {"type": "list", "elements": "path", "default": []},
    },
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
    return Work(_KIND, _steps, _report).reconcile(kube, given, context)


def _steps(run: Run) -> t.Iterator[Observation]:
    """Read, render, apply."""
    addons = run.read(read_addons)
    rules = read_rules(run.given["rule_files"])
    dashboards = read_dashboards(run.given["dashboard_files"])
    run.applying.assumed.append(_namespace_manifest(addons.namespace, {}))
    served = names.discovered(run.kube.serves)
    parts = rendering.render(addons, served, rules, dashboards)
    rendered = Observation(addons, served, parts)
    yield rendered
    rendered = yield from _label_namespace(run, rendered)
    _write_objects(run, rendered)
    # cert-manager's Certificates are pruned by now, so that it does not issue again.
    if addons.certificates is not None and rendered.is_of_library:
        rendered = _keep_certificates(run, rendered, addons.certificates)
        yield rendered
    _raise_problems(run, rendered)


def _raise_problems(run: Run, rendered: Observation) -> None:
    """Raise Failed if anything failed; all independent steps are done by now."""
    keys = {status.identity(each) for part in rendered.parts for each in part.manifests}
    refused = [error for key, error in _errors(run).items() if error and key in keys]
    problems = [f"{name}: {sentence}" for name, sentence in rendered.failures.items()]
    if refused:
        problems.append(f"{len(refused)} objects were refused, the first one: {refused[0]}")
    if problems:
        reason = "ObjectsRefused" if refused else "ReconcileError"
        raise Failed(reason, "; ".join(problems))


def _label_namespace(
    run: Run, rendered: Observation
) -> t.Generator[Observation, None, Observation]:
    """Make the namespace. Labels of other owners are a failure of the mesh only."""
    addons, made = rendered.addons, {part.condition for part in rendered.parts if part.manifests}
    # By this label the policy of Kepler's namespace admits log collectors.
    own = {LOG_COLLECTORS_LABEL: "true"} if "Logging" in made else {}
    of_mesh = rendering.namespace_labels(addons.mesh if "ServiceMesh" in made else None)
    manager = {"field_manager": _label_manager(addons.name)}
    try:
        run.write([_namespace_manifest(addons.namespace, {**own, **of_mesh})], **manager)
    except WattwiseError as error:
        if not of_mesh:
            raise
        rendered = rendered.with_failure("ServiceMesh", error)
        yield rendered
        if own:
            run.write([_namespace_manifest(addons.namespace, own)], **manager)
    return rendered


def _write_objects(run: Run, rendered: Observation) -> None:
    addons = rendered.addons
    # An empty set of manifests still prunes.
    run.applying.apply(
        {
            "manifests": [each for part in rendered.parts for each in part.manifests],
            "field_manager": FIELD_MANAGER,
            "owner": run.owner(names.owner_name(addons.name)),
            "prune": names.apply_set(addons.name),
            "prune_kinds": [
                {"api_version": version, "kind": kind, "namespace": addons.namespace}
                for kind, version in {**rendered.served, **names.OWN_KINDS}.items()
            ],
            # Only the spec decides, independent of the readable part of the cluster.
            "prune_max": 1.0,
            "on_error": "report",
        }
    )


def _keep_certificates(run: Run, rendered: Observation, wanted: Certificates) -> Observation:
    """Certificates without cert-manager, independent of other add-ons."""
    try:
        _refuse_two_issuers(run, rendered)
        _issue(run, rendered.addons, wanted)
    except WattwiseError as error:
        return rendered.with_failure("Certificates", error)
    return replace(rendered, is_issued=True)


def _refuse_two_issuers(run: Run, rendered: Observation) -> None:
    """Two issuers of one Secret would replace each other's certificates forever."""
    if run.context.check_mode:
        return
    secrets = set(certificates.certificate_names(rendered.addons).values())
    for each in _certificates(run, rendered):
        name, secret = member(each, "metadata", "name"), member(each, "spec", "secretName")
        if secret in secrets and not member(each, "metadata", "deletionTimestamp"):
            message = (
                f"cert-manager's Certificate {shown(name)} also fills the Secret {secret}; "
                "delete it, or set certificates.issuer to cert-manager"
            )
            raise InvalidInput(message)


def _certificates(run: Run, rendered: Observation) -> t.Sequence[Object]:
    """cert-manager's Certificates in the namespace; none if the cluster serves none."""
    if "Certificate" not in rendered.served:
        return ()
    place = run.kube.resource(rendered.served["Certificate"], "Certificate")
    return run.kube.list(place.collection(rendered.addons.namespace))


def _issue(run: Run, addons: Addons, wanted: Certificates) -> None:
    """All certificates, and the authority's for Kepler, without its key."""
    run.write([_namespace_manifest(wanted.authority_namespace, {})])
    asked = certificates.library_options(addons, wanted)
    labels = certificates.secret_labels(addons)
    kept = keep_certificates(asked, run.context, run.kube, labels)
    run.applying.add({"changed": kept["changed"]})
    found = run.kube.read_secret(addons.namespace, addons.security.server_secret)
    if found is None:
        return  # in check mode alone
    data = {"ca.crt": base64.b64encode(found[0]["ca.crt"].encode()).decode()}
    place = (addons.security.client_authority_secret, addons.namespace)
    secret = manifest_of("v1", "Secret", *place, labels, data=data)
    # Like the certificates themselves: cert-manager may have had the Secret before.
    run.write([secret], force_conflicts=True)


def _report(run: Run, reached: Observation | None, failure: Failure | None) -> Report:
    """The present state, in the form of KeplerAddons' status."""
    seen = None
    try:
        if reached is not None:
            seen = _observed(run, reached)
    except ApiError as error:
        run.context.warn(f"The state of the add-ons could not be read: {error}")
    found = status.status_of(seen, failure, run.generation, run.stored_status)
    return Report({"status": found}, run.status_manifests(found))


def _observed(run: Run, rendered: Observation) -> Observation:
    return replace(
        rendered,
        errors=_errors(run),
        missing_secrets=_missing_secrets(run, rendered),
        unready=_unready(run, rendered),
        port=_port(run, rendered.addons),
    )


def _missing_secrets(run: Run, rendered: Observation) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in rendered.parts:
        for name, keys in part.secrets:
            sentence = missing_keys(run.kube, rendered.addons.namespace, name, keys)
            if sentence:
                found.setdefault(part.condition, sentence)
    return found


def _unready(run: Run, rendered: Observation) -> str:
    """Why cert-manager's certificates are not ready; empty for other issuers."""
    served = rendered.served
    if (
        rendered.addons.certificates is None
        or rendered.is_of_library
        or "Certificate" not in served
    ):
        return ""
    wanted = certificates.certificate_names(rendered.addons)
    return status.certificate_problem(_certificates(run, rendered), wanted)


def _port(run: Run, addons: Addons) -> str:
    place = f"/api/v1/namespaces/{addons.namespace}/services/{addons.system}"
    ports = objects(member(run.kube.find(place), "spec", "ports"))
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
    spec = ADDONS.complete(given["spec"] or {})
    addons = read_addons(namespace, given["name"], spec)
    place = spec["certificates"]["authority_namespace"]
    authority_namespace = fields.name(place, "certificates.authority_namespace")
    certificates.take_back(applying, addons, authority_namespace)
    return {**applying.result, "found": False}


def _label_manager(name: str) -> str:
    """Field manager of labels; KeplerAddons of one namespace do not undo each other's labels."""
    return f"{FIELD_MANAGER}-{name}"


def _namespace_manifest(name: str, labels: t.Mapping[str, str]) -> Manifest:
    return manifest_of("v1", "Namespace", name, labels=labels)


def _errors(run: Run) -> dict[tuple[str, str], str]:
    """The error of each written object by kind and name, empty for an applied one."""
    return {
        (each["kind"], each["name"]): each["error"] if each["action"] == "failed" else ""
        for each in run.applying.result["results"]
    }
